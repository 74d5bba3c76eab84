//! Names for patches, so that none is made twice.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache;
use tidegate_core::session::{OpSeq, SessionId, Writer};

use super::Shared;
use super::patch::Patch;

/// Clients' own names for patches that are remembered.
const KEYS_MAX: usize = 16_384;

/// The names that a desk gives to patches.
pub(super) struct Seqs {
    writer: Writer,
    last: AtomicU64,
    keyed: Cache<(SessionId, String), OpSeq>,
}

impl Seqs {
    /// Names of a desk whose life is called `incarnation`.
    pub(super) fn new(incarnation: u64) -> Self {
        Self {
            writer: Writer {
                incarnation,
                // The connections keep the order, so one sequence is enough.
                lane: 0,
            },
            last: AtomicU64::new(0),
            keyed: Cache::new(KEYS_MAX),
        }
    }

    fn next(&self) -> OpSeq {
        OpSeq {
            writer: self.writer,
            number: self.last.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }
}

impl Shared {
    /// A name for a new patch.
    pub(super) fn next_seq(&self) -> OpSeq {
        self.seqs.next()
    }

    /// The name of the patch that the client calls `key`: the same for the same key.
    pub(super) fn seq(&self, id: &SessionId, key: Option<String>) -> OpSeq {
        let Some(mut key) = key else {
            return self.seqs.next();
        };
        let end = key.floor_char_boundary(Patch::KEY_LEN_MAX);
        key.truncate(end);
        let named = (*id, key);
        let drawn = || Ok::<_, Infallible>(self.seqs.next());
        let Ok(seq) = self.seqs.keyed.get_or_insert_with(&named, drawn);
        seq
    }
}
