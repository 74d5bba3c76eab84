//! Ids that are dead: ended on purpose, or given up for another at a sign-in.

use quick_cache::sync::Cache;
use tidegate_core::session::{Gone, SessionId};

/// So many are remembered.
const IDS_MAX: usize = 65_536;

/// Ids that this desk killed, or heard the store say so of. A dead id never lives again, so nothing
/// is ever taken out. The store remembers them as well: with these it is not asked again, and when it is
/// away no copy and no ticket vouches for them.
pub(super) struct Dead(Cache<SessionId, End>);

/// How an id died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With its session.
    Destroyed,
    /// Its user has signed out everywhere. The store has yet to be told that this session ends with it,
    /// which may have to be tried more than once.
    Outdated,
    /// Somebody signed in with it.
    Replaced {
        /// The session that they signed in to, if that is known.
        heir: Option<SessionId>,
    },
}

impl End {
    const fn told(self) -> Gone {
        match self {
            Self::Destroyed | Self::Outdated => Gone::Destroyed,
            Self::Replaced { .. } => Gone::Replaced,
        }
    }
}

impl Dead {
    pub(super) fn new() -> Self {
        Self(Cache::new(IDS_MAX))
    }

    /// Notes that `id` was ended.
    pub(super) fn note(&self, id: SessionId) {
        self.0.insert(id, End::Destroyed);
    }

    /// Notes that the user of `id` has signed out everywhere.
    pub(super) fn note_outdated(&self, id: SessionId) {
        self.0.insert(id, End::Outdated);
    }

    /// Notes that somebody signed in with `id`, and to what if that is known.
    pub(super) fn note_replaced(&self, id: SessionId, heir: Option<SessionId>) {
        if heir.is_some() || !self.has(&id) {
            self.0.insert(id, End::Replaced { heir });
        }
    }

    /// Whether `id` is known to be dead.
    pub(super) fn has(&self, id: &SessionId) -> bool {
        self.0.get(id).is_some()
    }

    /// What is told to who comes with `id`; `None` when it may be alive.
    pub(super) fn gone(&self, id: &SessionId) -> Option<Gone> {
        self.0.get(id).map(End::told)
    }

    /// The same for who need not ask the store, as it knows too.
    pub(super) fn gone_for_all(&self, id: &SessionId) -> Option<Gone> {
        let end = self.0.get(id).filter(|end| *end != End::Outdated);
        end.map(End::told)
    }

    /// The session that somebody signed in to with `id`, if that is known.
    pub(super) fn heir(&self, id: &SessionId) -> Option<SessionId> {
        match self.0.get(id)? {
            End::Destroyed | End::Outdated => None,
            End::Replaced { heir } => heir,
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::session::SlotTag;

    use super::*;

    #[test]
    fn an_heir_that_is_known_stays_known_until_the_id_is_ended() {
        let id = |text: &[u8; SessionId::HASH_LEN]| {
            SessionId::new(SlotTag::from_bits(7), *text).unwrap()
        };
        let (old, new) = (id(b"ABCDEFGHIJKLMNOPQRSTUV"), id(b"ABCDEFGHIJKLMNOPQRSTUW"));
        let dead = Dead::new();
        assert_eq!((dead.gone(&old), dead.heir(&old)), (None, None));

        dead.note_replaced(old, None);
        assert_eq!(
            (dead.gone(&old), dead.heir(&old)),
            (Some(Gone::Replaced), None)
        );
        dead.note_replaced(old, Some(new));
        dead.note_replaced(old, None);
        assert_eq!(dead.heir(&old), Some(new));

        dead.note(old);
        dead.note_replaced(old, None);
        assert_eq!(
            (dead.gone(&old), dead.heir(&old)),
            (Some(Gone::Destroyed), None)
        );
    }
}
