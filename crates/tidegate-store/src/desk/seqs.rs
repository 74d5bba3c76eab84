//! Names for patches, so that none is made twice.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache;
use tidegate_core::session::{Op, OpSeq, SessionId, Writer};

use super::Shared;
use super::patch::Patch;

/// Clients' own names for patches that are remembered.
const KEYS_MAX: usize = 16_384;

/// The names that a desk gives to patches.
pub(super) struct Seqs {
    writer: Writer,
    last: AtomicU64,
    keyed: Cache<(SessionId, String), Arc<Keyed>>,
    prints: RandomState,
}

/// A client's own name for a patch.
struct Keyed {
    seq: OpSeq,
    /// Of the changes that are so called; 0 when nothing was changed under the name.
    print: AtomicU64,
}

/// A patch as it is called in the store.
pub(super) struct Called {
    pub(super) seq: OpSeq,
    /// With the print of its changes.
    keyed: Option<(Arc<Keyed>, u64)>,
}

/// The client has called other changes by this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyReused;

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
            prints: RandomState::new(),
        }
    }

    fn next(&self) -> OpSeq {
        OpSeq {
            writer: self.writer,
            number: self.last.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }

    fn keyed(&self, id: &SessionId, mut key: String) -> Arc<Keyed> {
        let end = key.floor_char_boundary(Patch::KEY_LEN_MAX);
        key.truncate(end);
        let drawn = || {
            Ok::<_, Infallible>(Arc::new(Keyed {
                seq: self.next(),
                print: AtomicU64::new(0),
            }))
        };
        let Ok(keyed) = self.keyed.get_or_insert_with(&(*id, key), drawn);
        keyed
    }
}

impl Shared {
    /// A name for a new patch.
    pub(super) fn next_seq(&self) -> OpSeq {
        self.seqs.next()
    }

    /// What the patch `ops` is called that the client calls `key`: the same for the same key.
    pub(super) fn call_it(
        &self,
        id: &SessionId,
        key: Option<String>,
        ops: &[Op],
    ) -> Result<Called, KeyReused> {
        let Some(key) = key else {
            let seq = self.seqs.next();
            return Ok(Called { seq, keyed: None });
        };
        let keyed = self.seqs.keyed(id, key);
        let print = self.seqs.prints.hash_one(ops).max(1);
        let there = (keyed.print).compare_exchange(0, print, Ordering::Relaxed, Ordering::Relaxed);
        match there {
            Err(there) if there != print => Err(KeyReused),
            _ => Ok(Called {
                seq: keyed.seq,
                keyed: Some((keyed, print)),
            }),
        }
    }
}

impl Called {
    /// Notes that the store has refused it: other changes may have the name.
    pub(super) fn let_go(&self) {
        if let Some((keyed, print)) = &self.keyed {
            let (from, order) = (*print, Ordering::Relaxed);
            // Where it is another by now, others have it already.
            let _ = keyed.print.compare_exchange(from, 0, order, order);
        }
    }
}
