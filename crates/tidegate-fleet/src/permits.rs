//! Permits for calls to dependencies. The gateway gives them; this is the way to it.

use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_core::facts::Class;

/// What is asked about a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitCall {
    /// One is wanted.
    Acquire {
        /// Of which dependency.
        dependency: String,
        /// For how many calls.
        weight: NonZeroU32,
        /// How much they matter.
        class: Class,
        /// How long the caller will wait, for the permit and what it is for.
        patience: Option<Duration>,
        /// For how long it is to be held at most.
        hold: Option<Duration>,
    },
    /// It is needed for longer.
    Renew {
        /// Which.
        id: String,
    },
    /// It is needed no more.
    Release {
        /// Which.
        id: String,
        /// What became of what it was for.
        used: PermitUsed,
    },
}

/// What became of what a permit was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitUsed {
    /// It was answered.
    Answered,
    /// It failed.
    Failed,
    /// It had no answer in time.
    TimedOut,
    /// Nobody says.
    Unknown,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitReply {
    /// It is held.
    Held {
        /// Its name.
        id: String,
        /// Greater with each permit of its dependency.
        fence: u64,
        /// It goes back when it is not renewed within this time.
        lease: Duration,
        /// It may be held for this long, however often it is renewed.
        hold: Duration,
    },
    /// It is held for so much longer.
    Renewed {
        /// How long.
        lease: Duration,
    },
    /// It is held no more.
    Released,
    /// It was not held.
    NotHeld,
    /// There is no such dependency.
    NoDependency,
    /// Calls of the class never have so many slots at once.
    TooHeavy {
        /// But so many, 1 or more.
        most: u32,
    },
    /// Not now.
    Refused {
        /// The status that a call would have been answered with.
        status: u16,
        /// Why, in a word.
        reason: &'static str,
        /// When to try again, in seconds.
        retry_after_s: u64,
    },
    /// The gateway begins or ends.
    Away,
}

/// An answer on its way.
pub type Replying = Pin<Box<dyn Future<Output = PermitReply> + Send>>;

type Give = Box<dyn Fn(PermitCall) -> Replying + Send + Sync>;

/// The door to whoever gives permits. Closed until it is opened: the sidecar is there before the gateway.
#[derive(Clone, Default)]
pub struct PermitDoor(Arc<OnceLock<Give>>);

impl PermitDoor {
    /// From now on `give` is asked; nobody else after that.
    pub fn open(&self, give: impl Fn(PermitCall) -> Replying + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(give));
    }

    /// What is answered to `call`.
    pub(crate) async fn ask(&self, call: PermitCall) -> PermitReply {
        match self.0.get() {
            Some(give) => give(call).await,
            None => PermitReply::Away,
        }
    }
}

impl fmt::Debug for PermitDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PermitDoor({})", self.0.get().is_some())
    }
}
