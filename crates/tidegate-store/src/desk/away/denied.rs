//! What was ended here and is not ended in the store yet.

use std::collections::HashMap;
use std::time::Instant;

use tidegate_core::session::{Gone, SessionId, Uid};
use tidegate_core::time::Wall;

use crate::Reason;

/// Endings that may wait for the store. They are never dropped: past these no more are accepted.
const ENDINGS_MAX: usize = 100_000;

/// Sessions and users that were signed out here.
#[derive(Debug, Default)]
pub(super) struct Denied {
    ids: HashMap<SessionId, Ending>,
    users: HashMap<Uid, SignOut>,
}

/// A session that was ended.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) reason: Reason,
    pub(super) uid: Option<Uid>,
    /// The session that its visitor has now: the store is told of both together.
    pub(super) successor: Option<SessionId>,
    /// Not to be tried again before.
    pub(super) retry_at: Option<Instant>,
}

/// A user who was signed out everywhere.
#[derive(Clone, Debug)]
pub(super) struct SignOut {
    /// By the store's clock.
    pub(super) at: Wall,
    pub(super) except: Option<SessionId>,
    /// Not to be tried again before.
    pub(super) retry_at: Option<Instant>,
}

impl Denied {
    pub(super) fn len(&self) -> usize {
        self.ids.len() + self.users.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= ENDINGS_MAX
    }

    pub(super) fn has(&self, id: &SessionId) -> bool {
        self.ids.contains_key(id)
    }

    /// The session that somebody signed in to here with `id`, if the store is still to be told.
    pub(super) fn heir(&self, id: &SessionId) -> Option<SessionId> {
        self.ids.get(id)?.successor
    }

    /// What is told to who comes with `id`; `None` when it was not ended here.
    pub(super) fn gone(&self, id: &SessionId) -> Option<Gone> {
        let ending = self.ids.get(id)?;
        Some(match ending.successor {
            Some(_) => Gone::Replaced,
            None => Gone::Destroyed,
        })
    }

    /// Whether a session of `uid` that began at `began` was signed out; `None` for one of which
    /// nobody knows when it began.
    pub(super) fn has_user(&self, uid: &Uid, id: &SessionId, began: Option<Wall>) -> bool {
        self.users.get(uid).is_some_and(|sign_out| {
            let before = began.is_none_or(|began| began <= sign_out.at);
            before && sign_out.except.as_ref() != Some(id)
        })
    }

    /// Whether the store is still to be told that `uid` was signed out everywhere.
    pub(super) fn is_leaving(&self, uid: &Uid) -> bool {
        self.users.contains_key(uid)
    }

    /// Notes that a session was ended.
    pub(super) fn end(&mut self, id: SessionId, ending: Ending) {
        self.ids.insert(id, ending);
    }

    /// Notes that a user was signed out everywhere.
    pub(super) fn sign_out(&mut self, uid: Uid, at: Wall, except: Option<SessionId>) {
        let sign_out = SignOut {
            at,
            except,
            retry_at: None,
        };
        self.users.insert(uid, sign_out);
    }

    /// The sessions whose ends the store is to be told by themselves.
    pub(super) fn endings(&self, now: Instant) -> Vec<(SessionId, Ending)> {
        let due = |ending: &Ending| {
            ending.successor.is_none() && ending.retry_at.is_none_or(|at| at <= now)
        };
        let ids = self.ids.iter().filter(|(_, ending)| due(ending));
        ids.map(|(id, ending)| (*id, ending.clone())).collect()
    }

    /// The users whose sign-outs the store is to be told.
    pub(super) fn sign_outs(&self, now: Instant) -> Vec<(Uid, SignOut)> {
        let due = |sign_out: &SignOut| sign_out.retry_at.is_none_or(|at| at <= now);
        let users = self.users.iter().filter(|(_, sign_out)| due(sign_out));
        users
            .map(|(uid, sign_out)| (uid.clone(), sign_out.clone()))
            .collect()
    }

    /// Puts off what could not be told.
    pub(super) fn put_off(&mut self, id: &SessionId, until: Instant) {
        if let Some(ending) = self.ids.get_mut(id) {
            ending.retry_at = Some(until);
        }
    }

    /// Puts off what could not be told.
    pub(super) fn put_off_user(&mut self, uid: &Uid, until: Instant) {
        if let Some(sign_out) = self.users.get_mut(uid) {
            sign_out.retry_at = Some(until);
        }
    }

    /// The store knows.
    pub(super) fn told(&mut self, id: &SessionId) {
        self.ids.remove(id);
    }

    /// The store knows of the sign-out at `at`; a later one is still to be told.
    pub(super) fn told_user(&mut self, uid: &Uid, at: Wall) {
        if self
            .users
            .get(uid)
            .is_some_and(|sign_out| sign_out.at == at)
        {
            self.users.remove(uid);
        }
    }

    /// The session that was to be told of together with its successor is to be told of by itself.
    pub(super) fn part(&mut self, id: &SessionId) {
        if let Some(ending) = self.ids.get_mut(id) {
            ending.successor = None;
        }
    }

    /// Endings whose successors are not there any more are to be told of by themselves.
    pub(super) fn part_orphans(&mut self, is_there: impl Fn(&SessionId) -> bool) {
        for ending in self.ids.values_mut() {
            if ending.successor.as_ref().is_some_and(|id| !is_there(id)) {
                ending.successor = None;
            }
        }
    }
}
