//! Notices the ends of sessions that nobody told, and tells them.
//!
//! Every node has one. The expiry index has a session's deadline as it was when the session began;
//! touches do not move it. So what is due in the index is looked at once each idle time: it lives
//! and is due later, or it has moved to another id, or its end is told. The parts of the index are
//! shared out by leases, which only spare work: that an end is told once is decided where it is
//! taken out of the index, so two janitors in one part, or one that dies anywhere, do no harm.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::{StreamExt, iter};
use tidegate_core::session::Uid;
use tidegate_core::time::Wall;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::ends::{BUCKETS, Claimed, Due, ENDED_KEPT, Ended, Fate, Reason};
use crate::error::StoreError;
use crate::{Background, Call, SessionStore};

/// How long a part of the index is held without a look at it. A janitor that dies leaves its parts
/// for so long.
const LEASE: Duration = Duration::from_millis(1_000);
/// Time between two looks at a part that is held.
const LOOK: Duration = Duration::from_millis(250);
/// Time before another look after the store did not answer.
const RETRY: Duration = Duration::from_millis(500);
/// Sessions looked at in one go.
const BATCH: u32 = 64;
/// Of these at the same time.
const AT_A_TIME: usize = 8;
/// Sessions looked at in a second: however many end at once, requests have the store to themselves
/// most of the time.
const PER_SECOND: u32 = 4_000;
/// Longest wait for one answer; nobody waits for a janitor.
const CALL: Call = Call::within(Duration::from_millis(100));

/// A janitor at work; dropping it ends the work, at any point.
pub struct Janitor {
    work: JoinHandle<()>,
    counts: Arc<Counts>,
}

/// What a janitor has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JanitorStats {
    /// Ends told, by [`Reason::index`].
    pub told: [u64; Reason::ALL.len()],
    /// Sessions that were due in the index and live on.
    pub alive: u64,
    /// Sessions that had another id.
    pub moved: u64,
    /// Operations that the store did not answer.
    pub failed: u64,
    /// Parts of the index held, now.
    pub held: u64,
}

#[derive(Default)]
struct Counts {
    told: [AtomicU64; Reason::ALL.len()],
    alive: AtomicU64,
    moved: AtomicU64,
    failed: AtomicU64,
    held: AtomicU64,
}

impl Janitor {
    /// Starts one on `background`. `holder` is drawn anew whenever the process starts; `kept` events
    /// about are kept in each part of the stream.
    pub fn start(store: SessionStore, holder: u64, kept: u32, background: &Background) -> Self {
        let counts = Arc::new(Counts::default());
        let work = Work {
            store,
            holder,
            kept,
            counts: counts.clone(),
        };
        Self {
            work: background.spawn(work.go_round()),
            counts,
        }
    }

    /// What it has counted.
    pub fn stats(&self) -> JanitorStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        JanitorStats {
            told: std::array::from_fn(|at| read(&self.counts.told[at])),
            alive: read(&self.counts.alive),
            moved: read(&self.counts.moved),
            failed: read(&self.counts.failed),
            held: read(&self.counts.held),
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.work.abort();
    }
}

struct Work {
    store: SessionStore,
    holder: u64,
    kept: u32,
    counts: Arc<Counts>,
}

impl Work {
    /// Looks at each part when its time has come, one after the other, for ever.
    async fn go_round(self) {
        let begun = Instant::now();
        // Not all at once, and never again all at once.
        let mut looks: BinaryHeap<_> = (0..BUCKETS)
            .map(|bucket| {
                Reverse((
                    begun + LOOK * u32::from(bucket) / u32::from(BUCKETS),
                    bucket,
                ))
            })
            .collect();
        let mut held = [false; BUCKETS as usize];
        while let Some(Reverse((at, bucket))) = looks.pop() {
            tokio::time::sleep_until(at).await;
            let looked = self.look_at(bucket).await;
            held[usize::from(bucket)] = looked.held;
            let held = held.iter().filter(|held| **held).count();
            self.counts.held.store(held as u64, Ordering::Relaxed);
            looks.push(Reverse((Instant::now() + looked.again_in, bucket)));
        }
    }

    async fn look_at(&self, bucket: u8) -> Looked {
        let begun = Instant::now();
        let claimed = self.store.claim(bucket, self.holder, BATCH, LEASE, CALL);
        let (now, due) = match self.count_failure(claimed.await) {
            Some(Claimed::Held { now, due }) => (now, due),
            // Some of what is left, so that whoever holds it is soon succeeded.
            Some(Claimed::Taken { left }) => return Looked::elsewhere(left.min(LEASE).max(LOOK)),
            None => return Looked::elsewhere(RETRY),
        };
        let found = due.len() as u32;
        iter(due)
            .for_each_concurrent(AT_A_TIME, |due| self.see_to(due, now))
            .await;
        let pause = if found == BATCH { Duration::ZERO } else { LOOK };
        let pace = (Duration::from_secs(1) * found / PER_SECOND).saturating_sub(begun.elapsed());
        // The others wait as well: the pace is that of the whole round.
        tokio::time::sleep(pace).await;
        Looked {
            held: true,
            again_in: pause,
        }
    }

    /// Does what is to be done about a session that is due. What fails stays due.
    async fn see_to(&self, due: Due, now: Wall) {
        let fate = self.store.fate(&due.session, CALL).await;
        let Some(fate) = self.count_failure(fate) else {
            return;
        };
        match fate {
            Fate::Lives { deadline } => {
                let rearmed = self
                    .store
                    .rearm(&due.session, &due.session, deadline, CALL)
                    .await;
                if self.count_failure(rearmed).is_some() {
                    self.counts.alive.fetch_add(1, Ordering::Relaxed);
                }
            }
            Fate::Moved { to } => {
                // Whoever gave it another id did not come to say so here. When it is due now it is
                // looked at under that one.
                let rearmed = self
                    .store
                    .rearm(&due.session, &to, due.deadline, CALL)
                    .await;
                if self.count_failure(rearmed).is_some() {
                    self.counts.moved.fetch_add(1, Ordering::Relaxed);
                }
            }
            Fate::Expired { uid } => self.tell(due, uid, Reason::Expired).await,
            Fate::Ended { uid, reason } => self.tell(due, uid, reason).await,
            Fate::Missing => self.tell(due, None, reason_for_missing(due, now)).await,
        }
    }

    async fn tell(&self, due: Due, uid: Option<Uid>, reason: Reason) {
        let ended = Ended {
            session: due.session,
            uid: uid.clone(),
            reason,
        };
        let told = self.store.finish(&ended, self.kept, CALL).await;
        if self.count_failure(told) != Some(true) {
            return;
        }
        self.counts.told[reason.index()].fetch_add(1, Ordering::Relaxed);
        if let Some(uid) = uid {
            // The index drops it anyway in time; till then it would be tried in vain.
            let unindexed = self.store.unindex(&uid, &[due.session], CALL).await;
            self.count_failure(unindexed);
        }
    }

    fn count_failure<T>(&self, outcome: Result<T, StoreError>) -> Option<T> {
        if outcome.is_err() {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
        }
        outcome.ok()
    }
}

/// A look at a part of the index.
struct Looked {
    held: bool,
    again_in: Duration,
}

impl Looked {
    const fn elsewhere(again_in: Duration) -> Self {
        Self {
            held: false,
            again_in,
        }
    }
}

/// An ended session stays for a while. One that is due and not there any more before that while is
/// over did not end by itself.
fn reason_for_missing(due: Due, now: Wall) -> Reason {
    if now.since(due.deadline) < ENDED_KEPT {
        Reason::Lost
    } else {
        Reason::Expired
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::session::{SessionId, SlotTag};

    use super::*;

    #[test]
    fn a_session_that_left_no_trace_in_time_was_lost() {
        let due = Due {
            session: SessionId::new(SlotTag::from_bits(1), [b'A'; 22]).unwrap(),
            deadline: Wall::from_micros(1_000_000),
        };
        let after = |span: Duration| Wall::from_micros(1_000_000 + span.as_micros() as u64);

        assert_eq!(reason_for_missing(due, after(ENDED_KEPT / 2)), Reason::Lost);
        assert_eq!(reason_for_missing(due, after(ENDED_KEPT)), Reason::Expired);
    }
}
