//! Why a token is not good.

/// Why there is no good ticket, or no good pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// None came with the request.
    Absent,
    /// It is not of the form.
    Malformed,
    /// Its key is not one of ours, or not any more, or signs with another algorithm.
    Key,
    /// The key has not made it.
    Signature,
    /// It is for another room, or from somebody else.
    Foreign,
    /// The room is in another epoch.
    Epoch,
    /// It is not good yet, by more than clocks differ.
    Early,
    /// It is not good any more.
    Expired,
    /// It was taken back.
    Revoked,
    /// It is somebody else's: another session's, or another device's.
    Bond,
    /// Nobody has looked: too many unknown passes come from the same network, or altogether. It may well be good, so
    /// its owner is asked to come again and is not sent into the line.
    Unverified {
        /// In how many microseconds it would be looked at.
        wait_us: u64,
    },
}

/// A request has one kind of token twice, and they differ: it is a bad one (400), for nobody can know which of them
/// others on its way have read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two different tokens for {0}: in a cookie and in a header, or in two of a kind")]
pub struct Ambiguous(pub &'static str);

impl Why {
    /// What it is called in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Malformed => "malformed",
            Self::Key => "key",
            Self::Signature => "signature",
            Self::Foreign => "foreign",
            Self::Epoch => "epoch",
            Self::Early => "early",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Bond => "bond",
            Self::Unverified { .. } => "unverified",
        }
    }
}
