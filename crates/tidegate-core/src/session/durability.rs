//! How safe a write is to be.

use std::time::Duration;

/// What is promised of a write once it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durability {
    /// It is kept for a while, and written again should the store turn out to have lost it.
    pub redo: bool,
    /// Replicas that must have it; `None` to ask none.
    pub wait: Option<Wait>,
}

/// Waiting for replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How many replicas, 1 and more.
    pub replicas: u8,
    /// For how long they are waited for.
    pub within: Duration,
    /// What happens when too few have answered by then.
    pub on_short: OnShort,
}

/// What too few replicas mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnShort {
    /// The write stands, and its reply says how many have it.
    Degrade,
    /// The write is reported as failed, though it stands and may survive.
    Fail,
}

/// How many replicas have a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// None was asked.
    Unasked,
    /// As many as wanted, or more.
    Reached(u8),
    /// Only so many.
    Short(u8),
}

/// Kinds of writes whose durability is set one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteClass {
    /// That a session is in use.
    Touch,
    /// What nobody would miss: flash messages, the last page.
    Disposable,
    /// What the customer would miss: the cart, preferences, counters.
    Work,
    /// A sign-in or another rotation.
    SignIn,
    /// A sign-out, here or everywhere.
    SignOut,
    /// What is kept for the user's next session.
    Capsule,
}

impl Durability {
    /// Acknowledged by the primary alone.
    pub const ASYNC: Self = Self {
        redo: false,
        wait: None,
    };
    /// Acknowledged by the primary alone, and written again should that be lost.
    pub const REDO: Self = Self {
        redo: true,
        wait: None,
    };
}

impl WriteClass {
    /// Every class.
    pub const ALL: [Self; 6] = [
        Self::Touch,
        Self::Disposable,
        Self::Work,
        Self::SignIn,
        Self::SignOut,
        Self::Capsule,
    ];

    /// Position in [`WriteClass::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in configuration and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Touch => "touch",
            Self::Disposable => "disposable",
            Self::Work => "work",
            Self::SignIn => "sign-in",
            Self::SignOut => "sign-out",
            Self::Capsule => "capsule",
        }
    }

    /// What holds when nothing is configured.
    pub const fn usual(self) -> Durability {
        const ONE: Wait = Wait {
            replicas: 1,
            within: Duration::from_millis(50),
            on_short: OnShort::Degrade,
        };
        match self {
            Self::Touch | Self::Disposable => Durability::ASYNC,
            Self::Work | Self::Capsule => Durability::REDO,
            Self::SignIn | Self::SignOut => Durability {
                redo: true,
                wait: Some(ONE),
            },
        }
    }
}
