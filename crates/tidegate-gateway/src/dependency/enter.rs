//! The door of a dependency, for a call that is about to be made.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::deadline;
use tidegate_core::facts::{Class, Facts};
use tidegate_core::time::Mono;
use tidegate_http::refusal::Refusal;
use tokio::time::{Instant, sleep};

use super::fleet::{self, Fleet, NoShare, Share};
use super::{Dependency, Token};
use crate::context::Thread;
use crate::gate::{Entry, Gate, Turned, Wait};
use crate::slot::Slot;

/// Most times that the store is asked once more for a call that waits for others to finish.
const TRIES_MAX: u32 = 4;

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

/// Slots of a call that is not made yet. Dropped, they are given back, and its caller has left.
pub(super) struct Unsent<'a> {
    thread: &'a Arc<Thread>,
    app: usize,
    class: Class,
    slots: Vec<Slot>,
}

impl<'a> Unsent<'a> {
    pub(super) const fn new(
        thread: &'a Arc<Thread>,
        app: usize,
        class: Class,
        slots: Vec<Slot>,
    ) -> Self {
        Self {
            thread,
            app,
            class,
            slots,
        }
    }

    /// The first of them, which speaks for all.
    pub(super) fn first(&mut self) -> &mut Slot {
        self.slots.first_mut().expect("a call has a slot")
    }

    /// The slots, for a call that is made.
    pub(super) fn sent(mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }

    /// Gives them back: the call counts otherwise.
    pub(super) fn give_back(self) {
        self.sent().into_iter().for_each(Slot::give_back);
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if !self.slots.is_empty() {
            self.slots.drain(..).for_each(Slot::give_back);
            let recorder = &self.thread.recorder;
            recorder.refused(self.app, self.class, Refusal::ClientGone);
        }
    }
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
    let slots = slots(thread, dependency, now, facts, weight).await?;
    let mut unsent = Unsent::new(thread, dependency.app, facts.class, slots);
    if let Some(fleet) = shared.fleet_of(at) {
        // Whoever wants it has no use for it later.
        let waits_until = (now + dependency.plan.wait_max).min(facts.deadline);
        match share(thread, fleet, at, facts.class, weight, waits_until).await {
            Ok(share) => unsent.first().hold_share(share),
            Err((refusal, wait)) => {
                unsent.give_back();
                return refuse(refusal, wait);
            }
        }
    }
    if let Some(breaker) = breaker {
        match breaker.admit(shared.clock.now()) {
            Ok(call) => unsent.first().tell(Some(call)),
            Err(wait) => {
                unsent.give_back();
                return refuse(Refusal::Breaker, wait);
            }
        }
    }
    Ok(Entered {
        slots: unsent.sent(),
        token,
    })
}

/// As many slots of the dependency's door as the call weighs.
async fn slots(
    thread: &Arc<Thread>,
    dependency: &Dependency,
    now: Mono,
    facts: Facts,
    weight: NonZeroU32,
) -> Result<Vec<Slot>, NoEntry> {
    let refused = |turned: Turned| {
        let refusal = turned.reason.into();
        NoEntry::count(thread, dependency, &facts, refusal, turned.drain)
    };
    let app = dependency.app;
    let slots = if weight.get() > 1 {
        Gate::enter_all(thread, app, now, facts, weight).map_err(refused)?
    } else {
        match Gate::enter(thread, app, now, facts) {
            Entry::Admitted(slot) => vec![slot],
            Entry::Refused(turned) => return Err(refused(turned)),
            // It is counted when its wait is over.
            Entry::Waiting(wait) => {
                return Ok(vec![wait_for(thread, dependency, &facts, wait).await?]);
            }
        }
    };
    thread.recorder.admitted(app, facts.class, None);
    Ok(slots)
}

/// A permit of the fleet, or why there is none and about how long that lasts. A call that waits for others to finish asks again until
/// `waits_until`: nobody tells us what ends at other gateways.
async fn share(
    thread: &Thread,
    fleet: &Fleet,
    at: usize,
    class: Class,
    weight: NonZeroU32,
    waits_until: Mono,
) -> Result<Share, (Refusal, Duration)> {
    let shared = &thread.shared;
    let pause = match weight.get() {
        1 => shared.dependencies[at].plan.wait_max / TRIES_MAX,
        _ => Duration::ZERO,
    };
    let mut full = Refusal::QueueFull;
    let mut tries_left = TRIES_MAX;
    loop {
        let deadline = Instant::now() + fleet::WAIT_MAX;
        match fleet.enter(at, class, weight.get().into(), deadline).await {
            Ok(share) => return Ok(share),
            Err(NoShare::Away(left)) => return Err((Refusal::LimitStoreAway, left)),
            Err(NoShare::Full) => {}
        }
        let is_over = shared.clock.now() + pause > waits_until;
        if tries_left == 0 || pause.is_zero() || is_over {
            return Err((full, Duration::ZERO));
        }
        tries_left -= 1;
        full = Refusal::QueueTime;
        sleep(pause).await;
    }
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
