//! Who answers: the store, or what is here. Decided in one place, once per call.

use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use tidegate_core::session::SessionId;

use super::Shared;
use super::counters::Count;
use crate::{Call, StoreError};

/// For so long after a call about a session failed, the next ones do not ask the store: the request
/// that paid for a timeout does not pay for another, and neither do those beside it.
const SUSPECT_FOR: Duration = Duration::from_secs(1);
/// Sessions that may be so remembered.
const SUSPECTS_MAX: usize = 65_536;

/// Who answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The store.
    Live,
    /// What is here.
    Away,
    /// Nobody: it was ended, and the store does not know yet or cannot be asked.
    Denied,
}

/// Sessions about which a call has just failed.
pub(super) struct Suspects(Cache<SessionId, Instant>);

impl Suspects {
    pub(super) fn new() -> Self {
        Self(Cache::new(SUSPECTS_MAX))
    }

    fn has(&self, id: &SessionId) -> bool {
        let failed = self.0.get(id);
        failed.is_some_and(|failed| failed.elapsed() < SUSPECT_FOR)
    }

    /// Forgets that one failed: another has succeeded since.
    pub(super) fn forget(&self, id: &SessionId) {
        self.0.remove(id);
    }

    fn note(&self, id: SessionId) {
        self.0.insert(id, Instant::now());
    }
}

impl Shared {
    /// Who answers a call about `id`.
    pub(super) fn route(&self, id: &SessionId) -> Route {
        if self.away.denies(id) {
            Route::Denied
        } else if self.away.holds(id) || self.suspects.has(id) || self.store.is_away(id) {
            if self.dead.has(id) {
                Route::Denied
            } else {
                Route::Away
            }
        } else {
            Route::Live
        }
    }

    /// What the store said of `id`; a failure is remembered.
    pub(super) fn heard<T>(
        &self,
        id: &SessionId,
        said: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Err(error) = &said {
            match error {
                StoreError::Timeout => self.counters.add(Count::TimedOut),
                StoreError::Odd(what) => tracing::warn!(session = ?id, what, "odd session"),
                _ => {}
            }
            self.suspects.note(*id);
        }
        said
    }

    /// The bounds of an ordinary operation that is to be over by `until`.
    pub(super) fn call(&self, until: Instant) -> Call {
        let left = until.saturating_duration_since(Instant::now());
        Call::within(left.min(self.plan.operation))
    }
}
