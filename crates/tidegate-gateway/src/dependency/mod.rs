//! What applications depend on, and how much of it they may ask for.
//!
//! A dependency has the door of an application (`gate`): so many calls under way, reserves of classes, a short wait.
//! Beside it stand its rate and its breaker. Calls come to the door in three ways: through a listener of ours that passes
//! them on (`egress`, over the connections of `callers`), for a permit that the sidecar gives (`permits`), or, where an application cannot change, with the
//! requests of routes that are said to make them (`tags`). Where calls of all gateways count together, the store is asked
//! behind the door (`fleet`).
//!
//! In [`Shared::apps`](crate::context::Shared::apps) the dependencies come after the applications.

mod call;
mod callers;
mod egress;
mod enter;
pub(crate) mod fleet;
mod permits;
mod plan;
pub(crate) mod tags;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidegate_core::rate::{BucketState, Short};
use tidegate_core::time::Mono;
use tidegate_http::local::Listen;

pub(crate) use self::egress::Egress;
pub(crate) use self::permits::{Held, take_back};
pub use self::permits::{NoPermit, Permit, Permits, Used, Wanted};
pub use self::plan::{DependencyPlan, EgressPlan, FleetDependency, PermitPlan};
use crate::context::{Shared, Thread};
use crate::rate::tick;

/// One dependency with its state; its door is in [`Shared::apps`].
pub struct Dependency {
    /// What is configured for it.
    pub plan: DependencyPlan,
    /// Its place among the applications.
    pub(crate) app: usize,
    /// Where its egress listens, with the port that the system chose.
    pub(crate) listens: OnceLock<Listen>,
    bucket: Mutex<BucketState>,
}

/// A token of a dependency's rate. Dropped, it goes back, unless the call was made.
pub(crate) struct Token {
    thread: Arc<Thread>,
    dependency: usize,
    made: bool,
}

impl Dependency {
    /// A dependency that nobody has called; its door is that of application `app`.
    pub(crate) fn new(plan: &DependencyPlan, app: usize, now: Mono) -> Self {
        let full = plan.rate.map(|(_, bucket)| bucket.full(tick(now)));
        Self {
            plan: plan.clone(),
            app,
            listens: OnceLock::new(),
            bucket: Mutex::new(full.unwrap_or_else(|| BucketState {
                credits: 0,
                at: tick(now),
            })),
        }
    }

    fn take(&self, now: Mono) -> Result<(), Short> {
        let Some((_, spec)) = &self.plan.rate else {
            return Ok(());
        };
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        spec.take(&mut bucket, tick(now), 1).map(drop)
    }

    fn give_back(&self, now: Mono) {
        if let Some((_, spec)) = &self.plan.rate {
            let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
            spec.give_back(&mut bucket, tick(now), 1);
        }
    }
}

impl Token {
    /// Takes a token of the dependency at this place, or says how many microseconds to wait.
    fn take(thread: &Arc<Thread>, dependency: usize, now: Mono) -> Result<Self, u64> {
        match thread.shared.dependencies[dependency].take(now) {
            Ok(()) => Ok(Self {
                thread: Arc::clone(thread),
                dependency,
                made: false,
            }),
            Err(Short::Wait { wait_us }) => Err(wait_us),
            Err(Short::Never) => Err(u64::MAX),
        }
    }

    /// Whether the call was made: then what was taken is spent.
    pub(crate) const fn made(&mut self, made: bool) {
        self.made = made;
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if !self.made {
            let shared = &self.thread.shared;
            shared.dependencies[self.dependency].give_back(shared.clock.now());
        }
    }
}

impl Shared {
    /// The place of the dependency of this name.
    fn dependency(&self, name: &str) -> Option<usize> {
        let mut all = self.dependencies.iter();
        all.position(|dependency| dependency.plan.name() == name)
    }
}
