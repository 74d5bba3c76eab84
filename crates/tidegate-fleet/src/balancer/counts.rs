//! What is counted about balancers.

/// What an agent check has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCheckTally {
    /// Balancers that asked and were told.
    pub told: u64,
    /// Of these, those that connected when so many others were, and were not waited for.
    pub crowded: u64,
    /// Those that could not be told.
    pub failed: u64,
}

/// What the reconciliation of one balancer has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReconcileTally {
    /// Looks at what the balancer holds.
    pub looks: u64,
    /// Looks that failed: it could not be reached, or made no sense.
    pub lost: u64,
    /// Things that were not as wanted.
    pub mismatches: u64,
    /// Changes that were made.
    pub applied: u64,
    /// Changes that the balancer refused, or that did not reach it.
    pub refused: u64,
    /// Things that were still not as wanted when it was read back right after all changes.
    pub unsettled: u64,
}
