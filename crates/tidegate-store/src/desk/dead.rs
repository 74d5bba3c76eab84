//! Ids that were ended on purpose.

use quick_cache::sync::Cache;
use tidegate_core::session::SessionId;

/// So many are remembered.
const IDS_MAX: usize = 65_536;

/// Ids that this desk ended, or heard the store say so of. An id that was ended never lives again,
/// so nothing is ever taken out. The store remembers them as well: these are for when it is away,
/// and a copy or a ticket would vouch for them.
pub(super) struct Dead(Cache<SessionId, ()>);

impl Dead {
    pub(super) fn new() -> Self {
        Self(Cache::new(IDS_MAX))
    }

    /// Notes that `id` was ended.
    pub(super) fn note(&self, id: SessionId) {
        self.0.insert(id, ());
    }

    /// Whether `id` is known to have been ended.
    pub(super) fn has(&self, id: &SessionId) -> bool {
        self.0.get(id).is_some()
    }
}
