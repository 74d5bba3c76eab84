//! Local copies of sessions.
//!
//! A copy saves bytes, not round trips: the store is asked each time whether it is still right. It
//! is also what answers when the store is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, EntryAction, EntryResult};
use tidegate_core::session::{Name, Op, SessionId, Version};
use tidegate_core::time::Wall;

use super::session::Session;

/// A session that takes more memory is not kept.
const COPY_BYTES_MAX: usize = 20 * 1024;
/// A copy that the store has not vouched for so long is not offered to it any more.
const AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// What a copy is expected to take; only the first size of the table depends on it.
const COPY_BYTES_USUAL: u64 = 2 * 1024;

/// The local copies of a desk.
pub(super) struct L1 {
    copies: Cache<SessionId, Arc<LocalCopy>, ByWeight>,
    /// Times are counted from here.
    start: Instant,
}

/// A copy of a session.
#[derive(Debug)]
pub(super) struct LocalCopy {
    /// What is in it. Its version is the one that the store is asked about; after a write over
    /// somebody else's it is older than the newest of its attributes.
    pub(super) session: Arc<Session>,
    /// The newest version that the store is known to have had.
    pub(super) acked: Version,
    weight: u64,
    deadline_micros: AtomicU64,
    vouched_ms: AtomicU64,
}

#[derive(Clone)]
struct ByWeight;

impl L1 {
    /// Room for `bytes` of copies.
    pub(super) fn new(bytes: u64) -> Self {
        let usual = (bytes / COPY_BYTES_USUAL) as usize;
        Self {
            copies: Cache::with_weighter(usual, bytes, ByWeight),
            start: Instant::now(),
        }
    }

    /// The copy of a session, if it is young enough to ask the store about.
    pub(super) fn young(&self, id: &SessionId) -> Option<Arc<LocalCopy>> {
        self.any(id).filter(|copy| self.age(copy) <= AGE_MAX)
    }

    /// The copy of a session, whatever its age.
    pub(super) fn any(&self, id: &SessionId) -> Option<Arc<LocalCopy>> {
        self.copies.get(id)
    }

    /// For how long the store has not vouched for a copy.
    pub(super) fn age(&self, copy: &LocalCopy) -> Duration {
        let vouched = Duration::from_millis(copy.vouched_ms.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(vouched)
    }

    /// Notes that the store says a copy is right, and until when the session lives.
    pub(super) fn vouch(&self, copy: &LocalCopy, deadline: Wall) {
        let deadline = deadline.as_micros();
        copy.deadline_micros.store(deadline, Ordering::Relaxed);
        copy.vouched_ms.store(self.elapsed_ms(), Ordering::Relaxed);
    }

    /// Keeps `session` as the store has just shown it, unless a newer one is here.
    pub(super) fn offer(&self, id: SessionId, session: Arc<Session>) {
        self.put(id, session, |there, new| {
            new.acked = new.acked.max(there.acked);
            there.session.version() <= new.session.version()
        });
    }

    /// Keeps `session` in place of whatever is here: the store has lost that.
    pub(super) fn correct(&self, id: SessionId, session: Arc<Session>) {
        self.put(id, session, |_, _| true);
    }

    /// Makes the changes in the copy that the store has made in the session: `before` is the
    /// version that they were made in, if it is known.
    pub(super) fn follow(
        &self,
        id: &SessionId,
        ops: &[Op],
        before: Option<Version>,
        version: Version,
        counters: &[(Name, i64)],
    ) {
        // A vacant place stays vacant: without the rest of the session there is nothing to keep.
        self.copies.entry(id, Some(Duration::ZERO), |_, there| {
            // The copy has this write already, and perhaps later ones: somebody read it meanwhile,
            // or it was sent twice.
            if there.session.version() >= version {
                return EntryAction::Retain(());
            }
            let mut session = there.session.after(ops, version, counters);
            // After somebody else's write the copy lacks that one. It keeps its old version, so
            // that the store is asked for the content, while who is here meanwhile without the
            // store sees at least this gateway's own writes.
            if before == Some(session.head.version) {
                session.head.version = version;
            }
            let weight = session.weight();
            if weight > COPY_BYTES_MAX {
                return EntryAction::Remove;
            }
            *there = Arc::new(LocalCopy {
                session: Arc::new(session),
                acked: there.acked.max(version),
                weight: weight as u64,
                deadline_micros: AtomicU64::new(there.deadline_micros.load(Ordering::Relaxed)),
                vouched_ms: AtomicU64::new(there.vouched_ms.load(Ordering::Relaxed)),
            });
            EntryAction::Retain(())
        });
    }

    /// Drops the copy of a session.
    pub(super) fn forget(&self, id: &SessionId) {
        self.copies.remove(id);
    }

    /// How many copies there are.
    pub(super) fn len(&self) -> usize {
        self.copies.len()
    }

    /// How many bytes they take.
    pub(super) fn bytes(&self) -> u64 {
        self.copies.weight()
    }

    fn put(
        &self,
        id: SessionId,
        session: Arc<Session>,
        may: impl FnOnce(&LocalCopy, &mut LocalCopy) -> bool,
    ) {
        let weight = session.weight();
        if weight > COPY_BYTES_MAX {
            self.copies.remove(&id);
            return;
        }
        let mut copy = Some(LocalCopy {
            acked: session.version(),
            weight: weight as u64,
            deadline_micros: AtomicU64::new(session.head.deadline.as_micros()),
            vouched_ms: AtomicU64::new(self.elapsed_ms()),
            session,
        });
        let done = self.copies.entry(&id, None, |_, there| {
            if let Some(new) = copy.take_if(|new| may(there, new)) {
                *there = Arc::new(new);
            }
            EntryAction::Retain(())
        });
        if let (EntryResult::Vacant(place), Some(copy)) = (done, copy) {
            // An error means that somebody dropped it meanwhile: the session is ended.
            let _ = place.insert(Arc::new(copy));
        }
    }

    fn elapsed_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }
}

impl LocalCopy {
    /// When the session ends unless it is used.
    pub(super) fn deadline(&self) -> Wall {
        Wall::from_micros(self.deadline_micros.load(Ordering::Relaxed))
    }
}

impl Weighter<SessionId, Arc<LocalCopy>> for ByWeight {
    fn weight(&self, _: &SessionId, copy: &Arc<LocalCopy>) -> u64 {
        copy.weight
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::session::{Expect, Fields, Format, Found, Head, SlotTag, Value};

    use super::*;

    fn id() -> SessionId {
        SessionId::new(SlotTag::from_bits(7), *b"ABCDEFGHIJKLMNOPQRSTUV").unwrap()
    }

    fn session(version: u64, bytes: usize) -> Arc<Session> {
        let name = Name::new("cart").unwrap();
        let value = Value {
            format: Format::Bytes,
            bytes: vec![0; bytes],
        };
        let version = Version(version);
        let head = Head {
            version,
            created: Wall::default(),
            last_used: Wall::default(),
            idle: Duration::from_secs(60),
            deadline: Wall::from_micros(60_000_000),
            absolute: Wall::from_micros(60_000_000),
            principal: None,
            bytes: 0,
        };
        let attribute = tidegate_core::session::Attribute { version, value };
        let found = Found {
            attributes: vec![(name, attribute)],
            counters: Vec::new(),
        };
        Arc::new(Session {
            head,
            fields: Fields::All,
            found,
        })
    }

    fn delete() -> Op {
        Op::Delete {
            name: Name::new("cart").unwrap(),
            expect: Expect::Any,
        }
    }

    #[test]
    fn an_older_reply_does_not_take_the_place_of_a_newer_one() {
        let l1 = L1::new(1 << 20);

        l1.offer(id(), session(5, 1));
        l1.offer(id(), session(4, 1));
        assert_eq!(l1.any(&id()).unwrap().session.version(), Version(5));

        l1.correct(id(), session(4, 1));
        let copy = l1.any(&id()).unwrap();
        assert_eq!(
            (copy.session.version(), copy.acked),
            (Version(4), Version(4))
        );
    }

    #[test]
    fn a_copy_that_misses_a_write_keeps_its_version_so_that_the_store_is_asked() {
        let l1 = L1::new(1 << 20);
        l1.offer(id(), session(5, 1));

        l1.follow(&id(), &[delete()], Some(Version(6)), Version(7), &[]);
        let copy = l1.any(&id()).unwrap();
        assert_eq!(
            (copy.session.version(), copy.acked),
            (Version(5), Version(7))
        );
        assert!(copy.session.found.attributes.is_empty());

        l1.correct(id(), session(5, 1));
        l1.follow(&id(), &[delete()], Some(Version(5)), Version(7), &[]);
        assert_eq!(l1.any(&id()).unwrap().session.version(), Version(7));
    }

    #[test]
    fn a_large_session_is_not_kept_and_neither_is_its_former_copy() {
        let l1 = L1::new(1 << 20);
        l1.offer(id(), session(5, 1));

        l1.offer(id(), session(6, COPY_BYTES_MAX));

        assert!(l1.any(&id()).is_none());
        assert_eq!((l1.len(), l1.bytes()), (0, 0));
    }
}
