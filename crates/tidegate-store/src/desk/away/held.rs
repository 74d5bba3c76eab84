//! The sessions that go on here, and the bound on what they take.

use std::collections::{BTreeSet, HashMap};

use tidegate_core::session::{SessionId, Uid};

use super::local::{Local, Origin, Rank};

/// The sessions that go on here.
#[derive(Debug, Default)]
pub(super) struct Held {
    locals: HashMap<SessionId, Placed>,
    /// What is dropped first comes first: the least dear, of those the oldest.
    order: BTreeSet<(Rank, u64, SessionId)>,
    last: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Placed {
    local: Local,
    rank: Rank,
    number: u64,
}

impl Held {
    pub(super) fn len(&self) -> usize {
        self.locals.len()
    }

    /// Bytes that they take, about.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn has(&self, id: &SessionId) -> bool {
        self.locals.contains_key(id)
    }

    pub(super) fn local(&self, id: &SessionId) -> Option<&Local> {
        self.locals.get(id).map(|placed| &placed.local)
    }

    /// Puts a session in; one that is there already is replaced.
    pub(super) fn put(&mut self, id: SessionId, local: Local) {
        self.take(&id);
        self.last += 1;
        let (rank, number) = (local.rank(), self.last);
        self.bytes += local.bytes();
        self.order.insert((rank, number, id));
        let placed = Placed {
            local,
            rank,
            number,
        };
        self.locals.insert(id, placed);
    }

    /// Takes a session out.
    pub(super) fn take(&mut self, id: &SessionId) -> Option<Local> {
        let placed = self.locals.remove(id)?;
        self.order.remove(&(placed.rank, placed.number, *id));
        self.bytes -= placed.local.bytes();
        Some(placed.local)
    }

    /// Changes a session.
    pub(super) fn change<T>(
        &mut self,
        id: &SessionId,
        change: impl FnOnce(&mut Local) -> T,
    ) -> Option<T> {
        let placed = self.locals.get_mut(id)?;
        let before = placed.local.bytes();
        let changed = change(&mut placed.local);
        self.bytes = self.bytes - before + placed.local.bytes();
        let rank = placed.local.rank();
        if rank != placed.rank {
            self.order.remove(&(placed.rank, placed.number, *id));
            placed.rank = rank;
            self.order.insert((rank, placed.number, *id));
        }
        Some(changed)
    }

    /// Drops the least dear until they take no more than `bytes_max`; how many writes that were.
    pub(super) fn shrink(&mut self, bytes_max: usize) -> u64 {
        let mut writes = 0;
        while self.bytes > bytes_max {
            let Some(&(_, _, id)) = self.order.first() else {
                break;
            };
            if let Some(local) = self.take(&id) {
                writes += local.log.len() as u64 + u64::from(local.is_born());
            }
        }
        writes
    }

    /// Takes out the sessions of `uid` but one.
    pub(super) fn take_of(&mut self, uid: &Uid, except: Option<&SessionId>) -> Vec<SessionId> {
        let theirs = |local: &Local| {
            let principal = local.principal();
            principal.is_some_and(|principal| principal.uid == *uid)
        };
        let all = self.locals.iter();
        let ids: Vec<SessionId> = all
            .filter(|(id, placed)| Some(*id) != except && theirs(&placed.local))
            .map(|(id, _)| *id)
            .collect();
        for id in &ids {
            self.take(id);
        }
        ids
    }

    /// Notes the epoch of `uid`: that of the sessions that they signed in to here.
    pub(super) fn advance(&mut self, uid: &Uid, epoch: u64) {
        for placed in self.locals.values_mut() {
            let local = &mut placed.local;
            let theirs = local
                .principal()
                .is_some_and(|principal| principal.uid == *uid);
            if let Origin::SignedIn { epoch: known, .. } = &mut local.origin
                && theirs
            {
                *known = Some(epoch);
            }
        }
    }

    /// All of them, the dearest first, of those the oldest first.
    pub(super) fn ids(&self) -> Vec<SessionId> {
        let mut ids = Vec::with_capacity(self.order.len());
        for rank in [Rank::SignedIn, Rank::Anonymous, Rank::Read] {
            let these = self.order.iter().filter(|(its, _, _)| *its == rank);
            ids.extend(these.map(|(_, _, id)| *id));
        }
        ids
    }
}
