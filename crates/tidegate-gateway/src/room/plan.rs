//! How the tokens of a room are made, as it is configured.

use std::time::Duration;

use tidegate_core::rate::SpecError;
use tidegate_core::room::RoomName;

use super::budget::Budget;
use super::checks::ChecksPlan;
use super::keys::Algorithm;
use crate::session::Transport;

/// How the tokens of a room are made.
#[derive(Clone, Debug)]
pub struct TokensPlan {
    /// The room.
    pub room: RoomName,
    /// Who signs: visible ASCII without `"` and `\`, 1 to 64 of it.
    pub issuer: String,
    /// How passes are signed.
    pub algorithm: Algorithm,
    /// A pass ends so long after its last renewal, in whole seconds, 2 or more.
    pub idle: Duration,
    /// And so long after it was given, whatever happens.
    pub absolute: Duration,
    /// Whether browsers come by TLS.
    pub transport: Transport,
    /// What passes may bring, by class, the usual one first; 1 to 256.
    pub budgets: Vec<Budget>,
    /// What may be spent on unknown passes.
    pub checks: ChecksPlan,
    /// Places for passes that are remembered once they are verified, at
    /// [`VERIFIED_ENTRY_BYTES`](super::VERIFIED_ENTRY_BYTES) each. While half of them are taken hardly one goes before its end.
    pub verified_max: usize,
    /// Passes that are counted at once.
    pub passes_max: u64,
}

/// Why tokens cannot be made so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTokens {
    /// Nobody can be called so.
    #[error("`issuer` is {0:?}: 1 to 64 visible characters of ASCII without '\"' and '\\' will do")]
    Issuer(String),
    /// No pass would live.
    #[error(
        "`idle` is {idle:?} and `absolute` {absolute:?}: 2 s or more, and no more than the other"
    )]
    Lives {
        /// How long without use.
        idle: Duration,
        /// How long at all.
        absolute: Duration,
    },
    /// There are no budgets, or too many.
    #[error("`budgets` has {0} classes: 1 to 256 are right")]
    Classes(usize),
    /// Nobody with a pass of this class would get in.
    #[error("number {0} of `budgets` lets nothing in: `in_flight` and `per_second` are 1 or more")]
    Nothing(usize),
    /// A budget or a bound of checks cannot be kept.
    #[error("a budget or a bound of checks cannot be kept: {0}")]
    Rate(SpecError),
}

impl TokensPlan {
    /// The usual one for `room`: HS256, 15 minutes without use, 12 hours at all.
    pub fn of(room: RoomName) -> Self {
        Self {
            room,
            issuer: "tidegate".to_owned(),
            algorithm: Algorithm::default(),
            idle: Duration::from_secs(15 * 60),
            absolute: Duration::from_secs(12 * 3_600),
            transport: Transport::Tls,
            budgets: vec![Budget::default()],
            checks: ChecksPlan::default(),
            verified_max: 1 << 15,
            passes_max: 1 << 16,
        }
    }

    pub(super) fn check(&self) -> Result<(), BadTokens> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        if !(1..=64).contains(&self.issuer.len()) || !self.issuer.bytes().all(plain) {
            return Err(BadTokens::Issuer(self.issuer.clone()));
        }
        let (idle, absolute) = (self.idle, self.absolute);
        if idle < Duration::from_secs(2) || idle > absolute {
            return Err(BadTokens::Lives { idle, absolute });
        }
        if !(1..=256).contains(&self.budgets.len()) {
            return Err(BadTokens::Classes(self.budgets.len()));
        }
        let is_nothing = |budget: &Budget| budget.in_flight == 0 || budget.per_second == 0;
        if let Some(at) = self.budgets.iter().position(is_nothing) {
            return Err(BadTokens::Nothing(at + 1));
        }
        Ok(())
    }
}
