//! Where the state of rate limits is kept, and the asking for all limits of a request at once.
//!
//! What a limit is and decides is [`tidegate_core::rate`]; here is who remembers. [`LimitTable`] does in this process,
//! [`RedisLimits`] for a fleet, where one script decides for a whole request in one round trip. Both decide the
//! same. How nodes share a limit without asking for each request, and what counts while the store is away, is
//! the caller's.

mod counts;
mod denied;
mod embedded;
#[cfg(test)]
mod model;
mod redis;
mod slots;

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Short, Spec, Tick};
use tidegate_core::session::SlotTag;

pub use counts::KeyCounts;
pub use embedded::{LimitTable, LimitTablePlan, LimitTableStats};
pub use redis::{Dividing, Leased, RedisLimits, Reported};

use crate::Call;
use crate::error::StoreError;

/// What there is one of for each limit of a request: a few nearly always, and then it needs no memory of its own.
pub type Few<T> = SmallVec<[T; 4]>;

/// Where limits are kept. A clone is the same one.
#[derive(Clone)]
pub enum LimitStore {
    /// In Redis or Valkey, for a fleet.
    Redis(RedisLimits),
    /// In this process.
    Embedded(Arc<LimitTable>),
}

/// One limit of a request, and what the request takes of it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Whose state it is, see [`RateKeys::key`](crate::RateKeys::key). No two limits of a request have the same.
    pub key: u128,
    /// Limits of one tag are decided together, also where a Cluster keeps others elsewhere.
    pub tag: SlotTag,
    /// What it allows. Where it is another one than before, as much counts as used as did.
    pub spec: &'a Arc<Spec>,
    /// The tokens that the request costs; 0 only asks whether there is debt.
    pub cost: u64,
    /// Whether it decides.
    pub standing: Standing,
}

/// What was taken from one limit and is to be settled.
#[derive(Clone, Copy, Debug)]
pub struct Settled<'a> {
    /// As it was [`Asked`].
    pub key: u128,
    /// As it was [`Asked`].
    pub tag: SlotTag,
    /// The limit as it is now.
    pub spec: &'a Arc<Spec>,
    /// When it was taken: what [`Said::Passes`] had.
    pub at: Tick,
    /// How many tokens that were.
    pub taken: u64,
    /// How many were used: 0 gives all back, more than were taken may leave debt, one burst at most.
    pub used: u64,
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What each limit says, in the order in which they were asked.
    pub said: Few<Said>,
    /// The place of the enforced limit with the longest wait, the first of several; `None` if the request passes.
    pub binding: Option<usize>,
}

/// What one limit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It lets the request pass. If all do, it has been spent from.
    Passes {
        /// By the clock of the state.
        at: Tick,
        /// Whole tokens that are left.
        remaining: u64,
    },
    /// It does not.
    Short {
        /// How long it would have to wait.
        short: Short,
        /// Whole tokens that are there.
        remaining: u64,
    },
    /// Nobody knows: another limit had refused already.
    Unasked,
}

/// What is done with a request that passes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Spend,
    Leave,
}

impl LimitStore {
    /// Spends from all of `asked` if the enforced ones let it, and from none otherwise. `now` is a reading of this node's
    /// clock that does not go back.
    ///
    /// The call may be given up at any time; then nobody knows whether it has spent. Nothing is tried twice.
    ///
    /// Panics at more than [`LIMITS_MAX`](tidegate_core::rate::set::LIMITS_MAX) limits.
    pub async fn take(
        &self,
        asked: &[Asked<'_>],
        now: Tick,
        call: Call,
    ) -> Result<Answer, StoreError> {
        match self {
            Self::Redis(on) => on.take(asked, now, call).await,
            Self::Embedded(on) => Ok(on.take(asked, now)),
        }
    }

    /// What [`Self::take`] would say, without spending.
    pub async fn ask(
        &self,
        asked: &[Asked<'_>],
        now: Tick,
        call: Call,
    ) -> Result<Answer, StoreError> {
        match self {
            Self::Redis(on) => on.ask(asked, call).await,
            Self::Embedded(on) => Ok(on.ask(asked, now)),
        }
    }

    /// Settles what was taken: gives back what was not used, and charges what was used beyond it. To be called once for each take;
    /// what is never settled, or in vain, has cost what was taken.
    pub async fn settle(
        &self,
        settled: &[Settled<'_>],
        now: Tick,
        call: Call,
    ) -> Result<(), StoreError> {
        match self {
            Self::Redis(on) => on.settle(settled, call).await,
            Self::Embedded(on) => {
                on.settle(settled, now);
                Ok(())
            }
        }
    }

    /// Forgets a key: nothing of its limit is used.
    pub async fn forget(&self, tag: SlotTag, key: u128, call: Call) -> Result<(), StoreError> {
        match self {
            Self::Redis(on) => on.forget(tag, key, call).await,
            Self::Embedded(on) => {
                on.forget(key);
                Ok(())
            }
        }
    }
}

impl Answer {
    /// Whether the request passes.
    pub const fn passes(&self) -> bool {
        self.binding.is_none()
    }

    /// The answer in which `asked` have said `said`.
    fn of(asked: &[Asked<'_>], said: Few<Said>) -> Self {
        let mut binding: Option<(usize, Short)> = None;
        for (place, (asked, said)) in asked.iter().zip(&said).enumerate() {
            if let Said::Short { short, .. } = *said
                && asked.standing == Standing::Enforced
                && binding.is_none_or(|(_, longest)| short > longest)
            {
                binding = Some((place, short));
            }
        }
        Self {
            said,
            binding: binding.map(|(place, _)| place),
        }
    }
}
