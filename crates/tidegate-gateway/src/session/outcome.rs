//! What is counted of sessions.

use tidegate_core::session::Gone;
use tidegate_store::desk::{DeskError, DeskPatched, Standing};

/// What became of the session of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It had no cookie of ours.
    Absent,
    /// The store vouched for it.
    Live,
    /// The store was away and the local copy vouched for it.
    Cached,
    /// The store was away and the visitor's ticket vouched for it.
    Ticket,
    /// It began here while the store was away.
    Local,
    /// The store had lost it and was given it again.
    Recovered,
    /// None of its cookies was ever one of ours, or is any more.
    Invalid,
    /// The store does not know it.
    Missing,
    /// It was ended.
    Destroyed,
    /// A sign-in gave the visitor another; this is a late request with the old cookie.
    Replaced,
    /// The store was away and nothing vouched for it.
    Away,
    /// The client left before the answer was there.
    Left,
}

/// A cookie that was of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCookie {
    /// It does not look like a session's.
    Malformed,
    /// It was not made with one of the keys.
    Unchecked,
    /// One of too many of the same name.
    Surplus,
    /// A ticket that does not open, or is another session's.
    Ticket,
}

/// A cookie that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieSet {
    /// A session's.
    Session,
    /// A ticket's.
    Ticket,
    /// One that leads back to this gateway.
    Affinity,
    /// One of them was taken away.
    Cleared,
}

/// Something that was done because the application said so, or as a habit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// A session was created.
    Created,
    /// A session was changed in the store.
    Changed,
    /// A session was changed in a copy, to be brought to the store later.
    ChangedAway,
    /// A user signed in.
    SignedIn,
    /// A session was ended.
    Destroyed,
    /// All sessions of a user were ended.
    SignedOut,
    /// A session got another id as a habit.
    Rotated,
}

/// Why something was not done that the application wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// A line makes no sense.
    Malformed,
    /// The route has nothing to do with sessions.
    Uninvolved,
    /// Nobody is signed in whose sessions could end.
    Anonymous,
    /// An attribute is not what it was expected to be.
    Conflict,
    /// A ceiling would be passed.
    TooLarge,
    /// A counter would leave its range.
    Overflow,
    /// It counts on what is an attribute.
    WrongKind,
    /// The session is over.
    Gone,
    /// The session has been replaced by a sign-in.
    Replaced,
    /// It could not be done in time.
    Late,
    /// The store is away.
    Away,
    /// Too much is under way.
    Busy,
    /// It was done, but fewer replicas have it than are wanted.
    NotReplicated,
    /// The store says something odd.
    Odd,
    /// It sets a cookie of ours by itself.
    OwnCookie,
}

impl Outcome {
    /// Every one.
    pub const ALL: [Self; 12] = [
        Self::Absent,
        Self::Live,
        Self::Cached,
        Self::Ticket,
        Self::Local,
        Self::Recovered,
        Self::Invalid,
        Self::Missing,
        Self::Destroyed,
        Self::Replaced,
        Self::Away,
        Self::Left,
    ];

    /// Position in [`Outcome::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Live => "live",
            Self::Cached => "cached",
            Self::Ticket => "ticket",
            Self::Local => "local",
            Self::Recovered => "recovered",
            Self::Invalid => "invalid",
            Self::Missing => "missing",
            Self::Destroyed => "destroyed",
            Self::Replaced => "replaced",
            Self::Away => "away",
            Self::Left => "left",
        }
    }
}

impl From<Standing> for Outcome {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Live => Self::Live,
            Standing::Cached => Self::Cached,
            Standing::FromTicket => Self::Ticket,
            Standing::Local => Self::Local,
            Standing::Recovered => Self::Recovered,
        }
    }
}

impl From<&Gone> for Outcome {
    fn from(gone: &Gone) -> Self {
        match gone {
            Gone::Missing | Gone::Rotated { .. } => Self::Missing,
            Gone::Destroyed => Self::Destroyed,
            Gone::Replaced => Self::Replaced,
        }
    }
}

impl BadCookie {
    /// Every one.
    pub const ALL: [Self; 4] = [
        Self::Malformed,
        Self::Unchecked,
        Self::Surplus,
        Self::Ticket,
    ];

    /// Position in [`BadCookie::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unchecked => "unchecked",
            Self::Surplus => "surplus",
            Self::Ticket => "ticket",
        }
    }
}

impl CookieSet {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Session, Self::Ticket, Self::Affinity, Self::Cleared];

    /// Position in [`CookieSet::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Ticket => "ticket",
            Self::Affinity => "affinity",
            Self::Cleared => "cleared",
        }
    }
}

impl Done {
    /// Every one.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::Changed,
        Self::ChangedAway,
        Self::SignedIn,
        Self::Destroyed,
        Self::SignedOut,
        Self::Rotated,
    ];

    /// Position in [`Done::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::ChangedAway => "changed_away",
            Self::SignedIn => "signed_in",
            Self::Destroyed => "destroyed",
            Self::SignedOut => "signed_out",
            Self::Rotated => "rotated",
        }
    }
}

impl Dropped {
    /// Every one.
    pub const ALL: [Self; 15] = [
        Self::Malformed,
        Self::Uninvolved,
        Self::Anonymous,
        Self::Conflict,
        Self::TooLarge,
        Self::Overflow,
        Self::WrongKind,
        Self::Gone,
        Self::Replaced,
        Self::Late,
        Self::Away,
        Self::Busy,
        Self::NotReplicated,
        Self::Odd,
        Self::OwnCookie,
    ];

    /// Position in [`Dropped::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Uninvolved => "uninvolved",
            Self::Anonymous => "anonymous",
            Self::Conflict => "conflict",
            Self::TooLarge => "too_large",
            Self::Overflow => "overflow",
            Self::WrongKind => "wrong_kind",
            Self::Gone => "gone",
            Self::Replaced => "replaced",
            Self::Late => "late",
            Self::Away => "away",
            Self::Busy => "busy",
            Self::NotReplicated => "not_replicated",
            Self::Odd => "odd",
            Self::OwnCookie => "own_cookie",
        }
    }
}

impl From<&DeskError> for Dropped {
    fn from(error: &DeskError) -> Self {
        match error {
            DeskError::Away => Self::Away,
            DeskError::Busy => Self::Busy,
            DeskError::NotReplicated { .. } => Self::NotReplicated,
            DeskError::TooLarge { .. } => Self::TooLarge,
            // Three ids in a row are taken only if the source of random numbers is broken.
            DeskError::Taken | DeskError::Odd(_) => Self::Odd,
        }
    }
}

/// Why a patch was not made; `None` when it was.
pub(crate) fn dropped(patched: &DeskPatched) -> Option<Dropped> {
    match patched {
        DeskPatched::Applied { .. } | DeskPatched::AlreadyApplied { .. } => None,
        DeskPatched::Conflict { .. } => Some(Dropped::Conflict),
        DeskPatched::TooLarge { .. } => Some(Dropped::TooLarge),
        DeskPatched::Overflow { .. } => Some(Dropped::Overflow),
        DeskPatched::WrongKind { .. } => Some(Dropped::WrongKind),
        // The gateway gives its patches no names.
        DeskPatched::TooOld | DeskPatched::Late | DeskPatched::KeyReused => Some(Dropped::Late),
        DeskPatched::Gone(Gone::Replaced) => Some(Dropped::Replaced),
        DeskPatched::Gone(_) => Some(Dropped::Gone),
    }
}
