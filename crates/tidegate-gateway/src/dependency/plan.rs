//! What is configured for a dependency.

use std::time::Duration;

use tidegate_core::facts::Class;
use tidegate_core::rate::permits::Terms;
use tidegate_core::rate::share::OnLoss;
use tidegate_core::rate::{BucketSpec, Price, Rate};
use tidegate_http::local::Listen;

use crate::heard::FollowPlan;
use crate::plan::AppPlan;

/// Something that applications call, and what may be asked of it.
#[derive(Clone, Debug)]
pub struct DependencyPlan {
    /// Its name, where it is, its breaker, and the door before it: like that of an application whose limit is how many
    /// calls may be under way, with one route.
    pub app: AppPlan,
    /// Where applications call it through us.
    pub egress: Option<EgressPlan>,
    /// How many calls there may be over time, on this node; in units of a token where that follows something.
    pub rate: Option<(Rate, BucketSpec)>,
    /// Longest wait for others to finish; zero for none.
    pub wait_max: Duration,
    /// Permits for calls that do not pass through us.
    pub permits: PermitPlan,
    /// How its concurrency and its rate follow what is left of it; `None` where they stay what they are.
    pub follows: Option<FollowPlan>,
    /// How the calls under way are counted over all gateways; `None` for those of this gateway alone.
    pub fleet: Option<FleetDependency>,
}

/// What holds for calls over all gateways that share a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetDependency {
    /// How many there may be, what classes reserve of them, and for how long one counts whose gateway has died.
    pub terms: Terms,
    /// What becomes of a call while the store does not answer.
    pub on_loss: OnLoss,
    /// How many gateways there are, as far as is known: of which each has one part while the store is away.
    pub nodes: u32,
}

/// The listener for calls to one dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressPlan {
    /// Where it listens.
    pub listen: Listen,
    /// Connections at once, 1 and more; the next wait to be accepted.
    pub connections_max: usize,
}

/// What holds for permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitPlan {
    /// A permit that was not renewed for so long goes back.
    pub lease: Duration,
    /// The longest that one may be held, however often it is renewed.
    pub hold_max: Duration,
}

impl DependencyPlan {
    /// Its name in metrics and logs.
    pub fn name(&self) -> &str {
        &self.app.name
    }

    /// What a token takes of its rate when everything is left.
    pub const fn unit(&self) -> Price {
        FollowPlan::unit(self.follows.as_ref())
    }

    /// Calls that may be under way at once.
    pub const fn concurrency(&self) -> u32 {
        match self.app.limit {
            tidegate_core::limit::Kind::Static(limit) => limit.get(),
            // The door of a dependency has no other.
            _ => u32::MAX,
        }
    }

    /// The most that a permit of `class` can ever weigh: what nobody else keeps for themselves here, and over all gateways.
    pub fn weight_max(&self, class: Class) -> u32 {
        let here = &self.app.admission.bulkheads;
        let here = here.most(self.concurrency(), class);
        let together = self.fleet.map_or(u64::MAX, |fleet| fleet.terms.most(class));
        here.min(u32::try_from(together).unwrap_or(u32::MAX))
    }
}
