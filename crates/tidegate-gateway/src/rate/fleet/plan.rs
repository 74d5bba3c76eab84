//! Limits over a fleet as they are configured.

use tidegate_core::rate::share::OnLoss;
use tidegate_core::rate::share::aggregate::AggregatePlan;
use tidegate_core::rate::share::lease::LeasePlan;

/// The most keys of such limits that a node has something of at once; with fewer `keys_max` it is those.
pub const FLEET_KEYS_MAX: usize = 131_072;

/// How a limit holds over all gateways that share a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetPlan {
    /// How they share it.
    pub mode: FleetMode,
    /// What it does while the store does not answer.
    pub on_loss: OnLoss,
}

/// How gateways share a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetMode {
    /// The store is asked for each request.
    Shared,
    /// Each has tokens from the store ahead.
    Lease(LeasePlan),
    /// Each has a part, and nobody is asked.
    Divided,
    /// Each reports what it has spent.
    Aggregate(AggregatePlan),
}

impl FleetMode {
    /// The name in configuration and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Lease(_) => "lease",
            Self::Divided => "divided",
            Self::Aggregate(_) => "aggregate",
        }
    }
}
