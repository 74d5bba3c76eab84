//! The door of a dependency, for a call that is about to be made.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::deadline;
use tidegate_core::facts::Facts;
use tidegate_core::time::Mono;
use tidegate_http::refusal::Refusal;

use super::{Dependency, Token};
use crate::context::Thread;
use crate::gate::{Entry, Gate, Wait};
use crate::slot::Slot;

/// What a call holds while it is under way.
pub(crate) struct Entered {
    /// As many as it weighs. The first is the one that tells how it ended.
    pub(crate) slots: Vec<Slot>,
    pub(crate) token: Token,
}

/// Why a call is not to be made now. It has been counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoEntry {
    pub(crate) refusal: Refusal,
    /// When to try again, in seconds.
    pub(crate) retry_after_s: u64,
}

/// Lets a call like `facts` to the dependency at `at` in, perhaps after a short wait. The cheapest refusal comes first.
/// One that weighs more than 1 does not wait: two that each had a part of what they need would wait for each other.
pub(crate) async fn enter(
    thread: &Arc<Thread>,
    at: usize,
    now: Mono,
    facts: Facts,
    weight: NonZeroU32,
) -> Result<Entered, NoEntry> {
    let shared = &thread.shared;
    let dependency = &shared.dependencies[at];
    let refuse = |refusal, wait| Err(NoEntry::count(thread, dependency, &facts, refusal, wait));

    let breaker = shared.apps[dependency.app].breaker.as_ref();
    if let Some(wait) = breaker.and_then(|breaker| breaker.refuses_for(now)) {
        return refuse(Refusal::Breaker, wait);
    }
    let token = match Token::take(thread, at, now) {
        Ok(token) => token,
        Err(wait_us) => {
            let no = NoEntry::count(
                thread,
                dependency,
                &facts,
                Refusal::RateLimited,
                Duration::ZERO,
            );
            return Err(NoEntry {
                // The wait is known to the microsecond.
                retry_after_s: wait_us.div_ceil(1_000_000),
                ..no
            });
        }
    };
    let admitted = || thread.recorder.admitted(dependency.app, facts.class, None);
    let mut slots = if weight.get() > 1 {
        match Gate::enter_all(thread, dependency.app, now, facts, weight) {
            Ok(slots) => {
                admitted();
                slots
            }
            Err(turned) => return refuse(turned.reason.into(), turned.drain),
        }
    } else {
        match Gate::enter(thread, dependency.app, now, facts) {
            Entry::Admitted(slot) => {
                admitted();
                vec![slot]
            }
            Entry::Refused(turned) => return refuse(turned.reason.into(), turned.drain),
            Entry::Waiting(wait) => vec![wait_for(thread, dependency, &facts, wait).await?],
        }
    };
    if let Some(breaker) = breaker {
        match breaker.admit(shared.clock.now()) {
            Ok(call) => slots[0].tell(Some(call)),
            Err(wait) => {
                slots.into_iter().for_each(Slot::give_back);
                return refuse(Refusal::Breaker, wait);
            }
        }
    }
    Ok(Entered { slots, token })
}

/// Waits for a slot, but no longer than is configured.
async fn wait_for(
    thread: &Arc<Thread>,
    dependency: &Dependency,
    facts: &Facts,
    mut wait: Wait,
) -> Result<Slot, NoEntry> {
    match tokio::time::timeout(dependency.plan.wait_max, &mut wait).await {
        Ok(Ok(slot)) => Ok(slot),
        Ok(Err(turned)) => {
            let refusal = turned.reason.into();
            Err(NoEntry::count(
                thread,
                dependency,
                facts,
                refusal,
                turned.drain,
            ))
        }
        Err(_) => {
            // It counts itself as it goes.
            wait.leave_for(Refusal::QueueTime);
            Err(NoEntry::new(
                thread,
                Refusal::QueueTime,
                dependency.plan.wait_max,
            ))
        }
    }
}

impl NoEntry {
    /// A refusal for which it takes about `wait` until there is room.
    fn new(thread: &Thread, refusal: Refusal, wait: Duration) -> Self {
        Self {
            refusal,
            retry_after_s: thread.draw(|rng| deadline::retry_after(wait, rng)),
        }
    }

    fn count(
        thread: &Thread,
        dependency: &Dependency,
        facts: &Facts,
        refusal: Refusal,
        wait: Duration,
    ) -> Self {
        let recorder = &thread.recorder;
        recorder.refused(dependency.app, facts.class, refusal);
        Self::new(thread, refusal, wait)
    }
}
