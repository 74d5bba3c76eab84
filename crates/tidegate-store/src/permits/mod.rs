//! Where permits are kept that hold over all nodes: so many calls of one thing at the same time.
//!
//! What is promised of them, and what a node does that holds some, is [`tidegate_core::rate::permits`]; here is who
//! remembers. [`RedisPermits`] does for a fleet, in one script; [`PermitTable`] in this process. Both decide the same, but that
//! those of a process end with it, so that nothing of theirs is ever forgotten.

mod embedded;
mod redis;

use std::sync::Arc;

use tidegate_core::rate::permits::{Answer, Asking, PermitId, Renewal, Terms};
use tidegate_core::session::Name;

pub use self::embedded::{PermitTable, THINGS_MAX};
pub use self::redis::RedisPermits;

use crate::Call;
use crate::error::StoreError;

/// Most permits in one call.
pub const BATCH_MAX: usize = 256;

/// Where permits are kept. A clone is the same one.
#[derive(Clone)]
pub enum PermitStore {
    /// In Redis or Valkey, for a fleet.
    Redis(RedisPermits),
    /// In this process.
    Embedded(Arc<PermitTable>),
}

impl PermitStore {
    /// Asks for a permit of `thing`. To ask under the same name again is to ask for the same permit.
    ///
    /// The call may be given up at any time; then nobody knows whether the permit is held, and it is to be released.
    pub async fn acquire(
        &self,
        thing: &Name,
        terms: &Terms,
        asking: &Asking,
        call: Call,
    ) -> Result<Answer, StoreError> {
        match self {
            Self::Redis(on) => on.acquire(thing, terms, asking, call).await,
            Self::Embedded(on) => on.acquire(thing, terms, asking),
        }
    }

    /// Keeps permits of `thing` for another lease, and says in their order what became of each:
    /// [`Answer::Held`] or [`Answer::Gone`].
    ///
    /// Panics at more than [`BATCH_MAX`].
    pub async fn renew(
        &self,
        thing: &Name,
        terms: &Terms,
        renewals: &[Renewal],
        call: Call,
    ) -> Result<Vec<Answer>, StoreError> {
        assert!(
            renewals.len() <= BATCH_MAX,
            "more permits than one call takes"
        );
        match self {
            Self::Redis(on) => on.renew(thing, terms, renewals, call).await,
            Self::Embedded(on) => on.renew(thing, terms, renewals),
        }
    }

    /// Takes permits of `thing` back. One that is not held is none.
    ///
    /// Panics at more than [`BATCH_MAX`].
    pub async fn release(
        &self,
        thing: &Name,
        terms: &Terms,
        ids: &[PermitId],
        call: Call,
    ) -> Result<(), StoreError> {
        assert!(ids.len() <= BATCH_MAX, "more permits than one call takes");
        match self {
            Self::Redis(on) => on.release(thing, terms, ids, call).await,
            Self::Embedded(on) => on.release(thing, terms, ids),
        }
    }
}
