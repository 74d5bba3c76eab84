//! Ids that the store has just said it does not know.

use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use tidegate_core::session::SessionId;

/// For so long the store is not asked again.
const KEEP: Duration = Duration::from_secs(1);
/// So many are remembered; of others it is asked again.
const IDS_MAX: usize = 65_536;

/// Ids that are not known to the store. Nobody gets an id that was asked about before: they are
/// drawn from 192 bits. So an id is forgotten here only when it is created after all.
pub(super) struct Unknown(Cache<SessionId, Instant>);

impl Unknown {
    pub(super) fn new() -> Self {
        Self(Cache::new(IDS_MAX))
    }

    /// Notes that the store does not know `id`.
    pub(super) fn note(&self, id: SessionId) {
        self.0.insert(id, Instant::now());
    }

    /// Whether the store has just said that it does not know `id`.
    pub(super) fn has(&self, id: &SessionId) -> bool {
        let said = self.0.get(id);
        said.is_some_and(|said| said.elapsed() < KEEP)
    }

    /// Notes that there is such a session now.
    pub(super) fn forget(&self, id: &SessionId) {
        self.0.remove(id);
    }
}
