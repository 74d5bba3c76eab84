//! Whether a request passes: all its limits are spent from, or none.
//!
//! Limits that are kept here are asked first, then the store, once for all that a fleet shares. What was spent here is given
//! back when the store refuses. While the store does not answer, each of its limits says what holds.

use std::sync::Arc;

use tidegate_core::rate::{Short, Tick};
use tidegate_store::limits::{Asked, LimitTable, LimitTableStats, RedisLimits, Said, Settled};
use tidegate_store::{Call, StoreError};

use crate::charges::{Charge, Charges, Invalid, Limits};
use crate::counts::Counts;
use crate::messages::RateLimitRequest;
use crate::plan::{OnStoreLoss, Scope};

/// All limits with what they remember.
pub(crate) struct Decider {
    pub(crate) limits: Limits,
    here: LimitTable,
    /// What a fleet shares, if there is one.
    fleet: Option<RedisLimits>,
    counts: Arc<Counts>,
}

/// What was decided.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) charges: Charges,
    /// What the limit of each charge says.
    pub(crate) said: Vec<Said>,
    /// The place of the charge that refuses with the longest wait; `None` if the request passes.
    pub(crate) binding: Option<(usize, Short)>,
}

/// Why nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    Invalid(Invalid),
    /// The store is away, and a limit is to hold all the same. By the place of its domain.
    StoreLost(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Spend,
    Leave,
}

/// Some of the charges of a request, and what became of them so far.
struct Run<'c> {
    charges: &'c [Charge],
    said: &'c mut [Said],
    then: Then,
    now: Tick,
}

impl Decider {
    pub(crate) fn new(
        limits: Limits,
        here: LimitTable,
        fleet: Option<RedisLimits>,
        counts: Arc<Counts>,
    ) -> Self {
        Self {
            limits,
            here,
            fleet,
            counts,
        }
    }

    /// Asks the store for the secret of the fleet's keys, or puts it back there.
    pub(crate) async fn share_secret(&self, call: Call) -> Result<(), StoreError> {
        if let Some(fleet) = &self.fleet {
            let secret = fleet.secret(self.limits.secret(), call).await?;
            self.limits.share(secret);
        }
        Ok(())
    }

    pub(crate) const fn is_shared(&self) -> bool {
        self.fleet.is_some()
    }

    pub(crate) fn stats(&self) -> LimitTableStats {
        self.here.stats()
    }

    /// Decides on `request` at `now` by this node's clock. `call` bounds the wait for the store.
    ///
    /// May be given up at any time; what was spent until then stays spent.
    pub(crate) async fn decide(
        &self,
        request: &RateLimitRequest,
        now: Tick,
        call: Call,
    ) -> Result<Decided, Failed> {
        let charges = self.limits.charges(request).map_err(Failed::Invalid)?;
        let all: Vec<usize> = (0..charges.charges.len()).collect();
        let spends: Vec<usize> = all
            .iter()
            .copied()
            .filter(|&place| !charges.charges[place].only_asks())
            .collect();
        let mut said = vec![Said::Unasked; all.len()];
        let mut run = Run {
            charges: &charges.charges,
            said: &mut said,
            then: Then::Leave,
            now,
        };
        // Those that only ask first: when one of them refuses, nothing is to be spent.
        let mut done = Ok(true);
        if spends.len() < all.len() {
            done = self.run(&mut run, &all, call).await;
        }
        if done == Ok(true) && !spends.is_empty() {
            run.then = Then::Spend;
            done = self.run(&mut run, &spends, call).await;
        }
        done.map_err(|StoreLost| Failed::StoreLost(charges.domain))?;
        let binding = binding(&charges.charges, &said);
        self.count(&charges.charges, &said, binding.is_none());
        Ok(Decided {
            charges,
            said,
            binding,
        })
    }

    /// Whether the charges at `places` pass.
    async fn run(
        &self,
        run: &mut Run<'_>,
        places: &[usize],
        call: Call,
    ) -> Result<bool, StoreLost> {
        let is_here = |place: &usize| {
            let limit = &self.limits.limits[run.charges[*place].limit];
            self.fleet.is_none() || limit.scope == Scope::Node
        };
        let (here, there): (Vec<usize>, Vec<usize>) = places.iter().partition(|it| is_here(it));
        if !self.run_here(run, &here) {
            return Ok(false);
        }
        let passes = match &self.fleet {
            Some(fleet) if !there.is_empty() => self.run_there(fleet, run, &there, call).await,
            _ => Ok(true),
        };
        if passes != Ok(true) && run.then == Then::Spend {
            self.give_back(run, &here);
        }
        passes
    }

    fn run_here(&self, run: &mut Run<'_>, places: &[usize]) -> bool {
        if places.is_empty() {
            return true;
        }
        let asked = asked(run.charges, places);
        let answer = match run.then {
            Then::Spend => self.here.take(&asked, run.now),
            Then::Leave => self.here.ask(&asked, run.now),
        };
        let passes = answer.passes();
        run.write(places, answer.said);
        passes
    }

    async fn run_there(
        &self,
        fleet: &RedisLimits,
        run: &mut Run<'_>,
        places: &[usize],
        call: Call,
    ) -> Result<bool, StoreLost> {
        if places.iter().any(|&place| !run.charges[place].is_shared) {
            // The store has not told us the fleet's secret yet.
            return self.run_without(run, places);
        }
        let asked = asked(run.charges, places);
        let answer = match run.then {
            Then::Spend => fleet.take(&asked, run.now, call).await,
            Then::Leave => fleet.ask(&asked, call).await,
        };
        match answer {
            Ok(answer) => {
                let passes = answer.passes();
                run.write(places, answer.said);
                Ok(passes)
            }
            Err(error) => {
                tracing::debug!(%error, "limits of a fleet are decided without the store");
                self.run_without(run, places)
            }
        }
    }

    /// What holds of the fleet's limits while the store is away.
    fn run_without(&self, run: &mut Run<'_>, places: &[usize]) -> Result<bool, StoreLost> {
        let mut local = Vec::new();
        let mut closed = false;
        for &place in places {
            let charge = &run.charges[place];
            self.counts.limits[charge.limit].store_lost.add();
            match self.limits.limits[charge.limit].on_store_loss {
                OnStoreLoss::Local => local.push(place),
                OnStoreLoss::Open => {}
                // What only counts has no say.
                OnStoreLoss::Closed => closed |= charge.is_enforced(),
            }
        }
        if closed {
            return Err(StoreLost);
        }
        Ok(self.run_here(run, &local))
    }

    fn give_back(&self, run: &Run<'_>, places: &[usize]) {
        let settled: Vec<Settled<'_>> = places
            .iter()
            .filter_map(|&place| match run.said[place] {
                Said::Passes { at, .. } => Some(run.charges[place].given_back(at)),
                _ => None,
            })
            .collect();
        self.here.settle(&settled, run.now);
    }

    fn count(&self, charges: &[Charge], said: &[Said], passes: bool) {
        for (charge, said) in charges.iter().zip(said) {
            let counts = &self.counts.limits[charge.limit];
            match said {
                Said::Short { .. } if charge.is_enforced() => counts.refused.add(),
                Said::Short { .. } => counts.shadow_refused.add(),
                Said::Passes { .. } if passes && !charge.only_asks() => counts.passed.add(),
                _ => {}
            }
        }
    }
}

/// The store is away, and a limit is to hold all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoreLost;

impl Run<'_> {
    fn write(&mut self, places: &[usize], said: impl IntoIterator<Item = Said>) {
        for (&place, said) in places.iter().zip(said) {
            self.said[place] = said;
        }
    }
}

fn asked<'c>(charges: &'c [Charge], places: &[usize]) -> Vec<Asked<'c>> {
    places.iter().map(|&place| charges[place].asked()).collect()
}

/// The place of the enforced limit with the longest wait, the first of several.
fn binding(charges: &[Charge], said: &[Said]) -> Option<(usize, Short)> {
    let mut binding: Option<(usize, Short)> = None;
    for (place, (charge, said)) in charges.iter().zip(said).enumerate() {
        if let Said::Short { short, .. } = *said
            && charge.is_enforced()
            && binding.is_none_or(|(_, longest)| short > longest)
        {
            binding = Some((place, short));
        }
    }
    binding
}
