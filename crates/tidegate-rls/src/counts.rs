//! What is counted. Domains and limits are known by their places: nothing that a client sends becomes a name here.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::plan::RlsPlan;

/// Counts of a running service.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) domains: Vec<DomainCounts>,
    pub(crate) limits: Vec<LimitCounts>,
    /// Calls for a domain that there is not, that make no sense, or that cannot be read.
    pub(crate) invalid: Count,
    /// Calls that came while too many were under way.
    pub(crate) busy: Count,
    /// Calls that were not answered in time.
    pub(crate) late: Count,
}

#[derive(Debug, Default)]
pub(crate) struct DomainCounts {
    pub(crate) ok: Count,
    pub(crate) over_limit: Count,
    pub(crate) unavailable: Count,
}

#[derive(Debug, Default)]
pub(crate) struct LimitCounts {
    pub(crate) passed: Count,
    pub(crate) refused: Count,
    pub(crate) shadow_refused: Count,
    pub(crate) store_lost: Count,
}

/// One count.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

/// What was counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// By the places of the domains in the plan.
    pub domains: Vec<DomainTally>,
    /// By the places of the limits in the plan.
    pub limits: Vec<LimitTally>,
    /// Calls that make no sense or cannot be read, or for a domain that there is not.
    pub invalid: u64,
    /// Calls that came while too many were under way.
    pub busy: u64,
    /// Calls that were not answered in time.
    pub late: u64,
    /// Keys that are remembered in this process.
    pub keys: u64,
    /// Keys that were forgotten before they were full again, for want of room.
    pub forgotten: u64,
}

/// Calls for one domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainTally {
    /// Its name.
    pub name: String,
    /// Those that passed.
    pub ok: u64,
    /// Those over a limit.
    pub over_limit: u64,
    /// Those that failed because the store was away.
    pub unavailable: u64,
}

/// Calls that met one limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitTally {
    /// The domain, by its place.
    pub domain: usize,
    /// Its name.
    pub name: String,
    /// Those that it let pass, and that passed.
    pub passed: u64,
    /// Those that it refused.
    pub refused: u64,
    /// Those that it would have refused, in the shadow.
    pub shadow_refused: u64,
    /// Those that were decided without the store, because it was away.
    pub store_lost: u64,
}

impl Counts {
    pub(crate) fn new(plan: &RlsPlan) -> Self {
        Self {
            domains: plan
                .domains
                .iter()
                .map(|_| DomainCounts::default())
                .collect(),
            limits: plan.limits.iter().map(|_| LimitCounts::default()).collect(),
            invalid: Count::default(),
            busy: Count::default(),
            late: Count::default(),
        }
    }

    /// All of them, with the names of `plan`.
    pub(crate) fn tally(&self, plan: &RlsPlan) -> Tally {
        let domains = self.domains.iter().zip(&plan.domains);
        let limits = self.limits.iter().zip(&plan.limits);
        Tally {
            domains: domains
                .map(|(counts, name)| DomainTally {
                    name: name.clone(),
                    ok: counts.ok.get(),
                    over_limit: counts.over_limit.get(),
                    unavailable: counts.unavailable.get(),
                })
                .collect(),
            limits: limits
                .map(|(counts, limit)| LimitTally {
                    domain: limit.domain,
                    name: limit.name.clone(),
                    passed: counts.passed.get(),
                    refused: counts.refused.get(),
                    shadow_refused: counts.shadow_refused.get(),
                    store_lost: counts.store_lost.get(),
                })
                .collect(),
            invalid: self.invalid.get(),
            busy: self.busy.get(),
            late: self.late.get(),
            keys: 0,
            forgotten: 0,
        }
    }
}

impl Count {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
