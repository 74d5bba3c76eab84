//! Who leads, with proof.
//!
//! One node at a time holds a lease. Every time that it changes hands, or is taken again after it
//! was over, it comes with a fence: a number that only grows, though the store lose everything it
//! had, since it is no less than the store's clock. A holder that was paused may think that it still
//! leads; whoever acts for it asks whether its fence still counts, or compares fences, and refuses
//! the lower one.

use std::time::{Duration, Instant};

use tidegate_core::session::Name;

use crate::Call;
use crate::error::StoreError;
use crate::members::{Fleet, Node};

/// Longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(3_600);
/// A holder stops so much before its lease has run: the store counts whole milliseconds, and drops
/// what is over of the moment at which it was asked and of the span. By its count a lease is over up
/// to 2 ms early, and then somebody else may have it. A lease that is no longer than this is valid
/// at no time.
pub const STORE_GRAIN: Duration = Duration::from_millis(2);

/// Which time of holding a lease: a later one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

/// A lease that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// What to show for it.
    pub fence: Fence,
    /// Until when, by this machine's clock, the holder may act on it: it ends for the others no
    /// earlier, however long the answer took to arrive.
    pub until: Instant,
}

/// The reply to asking for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is held, from now on or still.
    Held(Held),
    /// Somebody else has it.
    Others {
        /// Who.
        holder: Node,
        /// For how long, unless they renew it.
        left: Duration,
    },
}

impl Held {
    /// What a holder has who asked for `span` at `asked`, which was before the store was asked.
    fn since(asked: Instant, fence: Fence, span: Duration) -> Self {
        Self {
            fence,
            until: asked + span.saturating_sub(STORE_GRAIN),
        }
    }

    /// Whether the holder may still act on it.
    pub fn is_valid(&self, now: Instant) -> bool {
        now < self.until
    }
}

impl Fleet {
    /// Takes the lease `name` for `node` for the time `span` from now on, [`LEASE_MAX`] at most, or
    /// extends it. A holder keeps its fence for as long as it renews in time.
    pub async fn take_lease(
        &self,
        name: &Name,
        node: &Node,
        span: Duration,
        call: Call,
    ) -> Result<Taken, StoreError> {
        let span = span.min(LEASE_MAX);
        let asked = Instant::now();
        let outcome = match self {
            Self::Redis(on) => on.take_lease(name, node, span, call).await?,
            Self::Embedded(on) => on.take_lease(name, node, span),
        };
        Ok(match outcome {
            Outcome::Held(fence) => Taken::Held(Held::since(asked, fence, span)),
            Outcome::Others { holder, left } => Taken::Others { holder, left },
        })
    }

    /// Gives the lease `name` back, if it is still the one with this fence; whether it was.
    pub async fn give_lease_back(
        &self,
        name: &Name,
        fence: Fence,
        call: Call,
    ) -> Result<bool, StoreError> {
        match self {
            Self::Redis(on) => on.give_lease_back(name, fence, call).await,
            Self::Embedded(on) => Ok(on.give_lease_back(name, fence)),
        }
    }

    /// Whether nobody has taken the lease `name` since it came with this fence. What a paused
    /// holder does after that must be refused.
    pub async fn is_latest(
        &self,
        name: &Name,
        fence: Fence,
        call: Call,
    ) -> Result<bool, StoreError> {
        match self {
            Self::Redis(on) => on.is_latest(name, fence, call).await,
            Self::Embedded(on) => Ok(on.is_latest(name, fence)),
        }
    }
}

/// What a backend says.
pub(crate) enum Outcome {
    Held(Fence),
    Others { holder: Node, left: Duration },
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tidegate_core::time::Wall;

    use super::*;
    use crate::embedded::{Clock, Embedded, EmbeddedPlan};

    fn node(id: &str) -> Node {
        Node {
            id: Name::new(id).unwrap(),
            incarnation: 1,
        }
    }

    #[test]
    fn nobody_else_has_it_while_its_holder_may_act_on_it() {
        let lease = Name::new("lease").unwrap();
        for begin in [0, 1, 500, 999].map(|micros| 1_795_000_000_000_000 + micros) {
            for span in [2_001, 10_000, 10_500, 10_999].map(Duration::from_micros) {
                let hand = Arc::new(AtomicU64::new(begin));
                let clock = hand.clone();
                let store = Embedded::start(EmbeddedPlan {
                    clock: Clock::new(move || Wall::from_micros(clock.load(Ordering::SeqCst))),
                    ..EmbeddedPlan::at(None)
                })
                .unwrap();
                let asked = Instant::now();
                let taken = store.take_lease(&lease, &node("holder"), span);
                let Outcome::Held(fence) = taken else {
                    panic!("somebody else has it")
                };
                let held = Held::since(asked, fence, span);

                let last = held.until - asked - Duration::from_micros(1);
                hand.store(begin + last.as_micros() as u64, Ordering::SeqCst);
                let taken = store.take_lease(&lease, &node("other"), span);

                assert!(held.is_valid(asked + last));
                let refused = matches!(taken, Outcome::Others { .. });
                assert!(refused, "two had it, {last:?} after {begin}");
            }
        }
    }

    #[test]
    fn a_lease_no_longer_than_the_grain_is_valid_at_no_time() {
        let asked = Instant::now();

        for span in [Duration::ZERO, STORE_GRAIN] {
            assert!(!Held::since(asked, Fence(1), span).is_valid(asked));
        }
    }
}
