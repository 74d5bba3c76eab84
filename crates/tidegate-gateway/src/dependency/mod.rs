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
use std::time::Duration;

use tidegate_core::rate::{BucketState, Price, Short};
use tidegate_core::time::Mono;
use tidegate_http::local::Listen;

pub(crate) use self::egress::Egress;
pub(crate) use self::permits::{Held, take_back};
pub use self::permits::{NoPermit, Permit, Permits, Used, Wanted};
pub use self::plan::{DependencyPlan, EgressPlan, FleetDependency, PermitPlan};
use crate::context::{Shared, Thread};
use crate::heard::Source;
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
    units: u64,
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

    /// Takes a token at `price`.
    fn take(&self, now: Mono, price: Price) -> Result<u64, Short> {
        let Some((_, spec)) = &self.plan.rate else {
            return Ok(0);
        };
        let units = price.of(1, spec.burst());
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        spec.take(&mut bucket, tick(now), units).map(|_| units)
    }

    fn give_back(&self, now: Mono, units: u64) {
        if let Some((_, spec)) = &self.plan.rate {
            let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
            spec.give_back(&mut bucket, tick(now), units);
        }
    }
}

impl Token {
    /// Takes a token of the dependency at this place, or says how many microseconds to wait.
    fn take(thread: &Arc<Thread>, dependency: usize, now: Mono) -> Result<Self, u64> {
        let price = thread.shared.price_of(dependency);
        match thread.shared.dependencies[dependency].take(now, price) {
            Ok(units) => Ok(Self {
                thread: Arc::clone(thread),
                dependency,
                units,
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
            shared.dependencies[self.dependency].give_back(shared.clock.now(), self.units);
        }
    }
}

impl Shared {
    /// What a token takes now of the rate of the dependency at this place.
    fn price_of(&self, dependency: usize) -> Price {
        let follows = self.dependencies[dependency].plan.follows.as_ref();
        follows.map_or(Price::FIXED, |plan| self.heard.price_of(dependency, plan).0)
    }

    /// The part of what may be asked of it that holds now, 0 to 1, and why; `None` where it follows nothing.
    pub(crate) fn share_of(&self, dependency: usize) -> Option<(f64, Source)> {
        let follows = self.dependencies[dependency].plan.follows.as_ref()?;
        let (price, source) = self.heard.price_of(dependency, follows);
        Some((f64::from(price.share()) / 1e3, source))
    }

    /// Has its door let in as many as the share is that was just heard of, for as long as that counts and is held.
    pub(crate) fn follow_dependency(&self, dependency: usize, lasts: Duration) {
        let plan = &self.dependencies[dependency].plan;
        let (Some(follows), Some((share, _))) = (plan.follows, self.share_of(dependency)) else {
            return;
        };
        let most = (f64::from(plan.concurrency()) * share).round() as u32;
        let app = self.dependencies[dependency].app;
        self.apps[app]
            .gate
            .cap(most, lasts.saturating_add(follows.hold));
    }

    /// The place of the dependency of this name.
    fn dependency(&self, name: &str) -> Option<usize> {
        let mut all = self.dependencies.iter();
        all.position(|dependency| dependency.plan.name() == name)
    }
}
