//! What goes on beside the data path: permits go back to the store, and those that are held are renewed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::rate::Tick;
use tidegate_core::rate::permits::{Outcome, PermitId, Renewal};
use tidegate_core::time::Mono;
use tidegate_store::Call;
use tidegate_store::permits::BATCH_MAX;

use super::counts::Called;
use super::{Back, Inner, Thing, WAIT_MAX};

/// After a call in vain nothing goes back for so long.
const REST_US: u64 = 100_000;
/// Most calls of a kind before another has its turn.
const CALLS_MAX: usize = 64;

/// Delivers for ever what there is of the dependency at this place.
pub(super) async fn deliver(inner: Arc<Inner>, at: usize) {
    let thing = inner.thing(at);
    loop {
        inner.round(thing).await;
        let due = thing.due();
        thing.wakes.store(due.0, Ordering::Release);
        // Whoever came before that was written did not ring.
        let due = due.min(thing.due());
        let wait = due.since(inner.now());
        if wait == 0 {
            // Something was left over. Others of this thread come first.
            tokio::task::yield_now().await;
            continue;
        }
        let at = Mono::default() + Duration::from_micros(due.0);
        let at = inner.clock.instant(at);
        tokio::select! {
            () = thing.bell.notified() => {}
            () = tokio::time::sleep_until(at) => {}
        }
    }
}

impl Inner {
    /// Sends what there is to send.
    pub(super) async fn round(&self, thing: &Thing) {
        // First what makes room.
        self.give_back(thing).await;
        self.renew(thing).await;
    }

    async fn give_back(&self, thing: &Thing) {
        for _ in 0..CALLS_MAX {
            let batch = thing.going_back(self.now());
            if batch.is_empty() {
                return;
            }
            let ids: Vec<PermitId> = batch.iter().map(|back| back.id).collect();
            let (terms, call) = (&thing.plan.terms, Call::within(WAIT_MAX));
            let said = self.store.release(&thing.name, terms, &ids, call).await;
            thing.counts.called(Called::Release, said.is_ok());
            if said.is_err() {
                let mut state = thing.lock();
                state.rests = self.now().plus(REST_US);
                for back in batch.into_iter().rev() {
                    state.back.push_front(back);
                }
                return;
            }
        }
    }

    async fn renew(&self, thing: &Thing) {
        for _ in 0..CALLS_MAX {
            let asked = self.now();
            let renewals = thing.renewals(asked);
            if renewals.is_empty() {
                return;
            }
            let (terms, call) = (&thing.plan.terms, Call::within(WAIT_MAX));
            let said = self.store.renew(&thing.name, terms, &renewals, call).await;
            thing.counts.called(Called::Renew, said.is_ok());
            // They are due again soon.
            let Ok(answers) = said else { return };
            let now = self.now();
            let mut state = thing.lock();
            for (renewal, answer) in renewals.iter().zip(answers) {
                let outcome = state.holder.answered(asked, now, renewal.id, answer);
                if outcome == Outcome::Lost {
                    thing.counts.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

impl Thing {
    /// What goes back now, in one call.
    fn going_back(&self, now: Tick) -> Vec<Back> {
        let mut state = self.lock();
        if now < state.rests {
            return Vec::new();
        }
        let mut batch = Vec::new();
        while batch.len() < BATCH_MAX
            && let Some(back) = state.back.pop_front()
        {
            if now < back.until {
                batch.push(back);
            } else {
                self.counts.unreturned.fetch_add(1, Ordering::Relaxed);
            }
        }
        batch
    }

    /// When there is something to send; long after the end of the process if nothing is.
    fn due(&self) -> Tick {
        let state = self.lock();
        let renewal = state.holder.due_at().unwrap_or(Tick(u64::MAX));
        match state.back.is_empty() {
            true => renewal,
            false => renewal.min(state.rests),
        }
    }

    /// What is renewed now, in one call.
    fn renewals(&self, now: Tick) -> Vec<Renewal> {
        let (mut renew, mut lost) = (Vec::new(), Vec::new());
        let mut state = self.lock();
        state.holder.tick(now, BATCH_MAX, &mut renew, &mut lost);
        let lost = lost.len() as u64;
        self.counts.lost.fetch_add(lost, Ordering::Relaxed);
        renew
    }
}
