//! What rules have in common: a store, fresh ids, and short words for long calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_core::session::{
    Attribute, Ceilings, Created, Expect, Fields, Format, Found, Gone, Head, Lifetimes, Name, Op,
    OpSeq, Opened, Patched, Principal, SessionId, SlotTag, Uid, Value, Version, Writer,
};
use tidegate_core::time::Wall;
use tidegate_store::{Call, NewSession, SessionStore};

/// Long enough for any machine; what is to be fast is shown by drills.
pub(crate) const CALL: Call = Call::within(Duration::from_secs(10));
/// Lifetimes that no rule lives to see the end of.
pub(crate) const LONG: Lifetimes = Lifetimes {
    idle: Duration::from_secs(1_800),
    absolute: Duration::from_secs(43_200),
};

/// A store that rules share; each has ids and users of its own in it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) store: SessionStore,
    drawn: Arc<AtomicU32>,
}

impl World {
    pub(crate) fn new(store: SessionStore) -> Self {
        Self {
            store,
            drawn: Arc::default(),
        }
    }

    /// An id that nobody has.
    pub(crate) fn id(&self) -> SessionId {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        // An odd factor: all tags come up before one comes again.
        self.id_on(SlotTag::from_bits(drawn.wrapping_mul(0x9_E375)))
    }

    /// An id on `tag` that nobody has.
    pub(crate) fn id_on(&self, tag: SlotTag) -> SessionId {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        let hash = format!("{drawn:022}").into_bytes();
        SessionId::new(tag, hash.try_into().unwrap()).unwrap()
    }

    /// A user that nobody else is.
    pub(crate) fn user(&self) -> Uid {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        Uid::new(format!("user {{{drawn}}} %")).unwrap()
    }

    /// Creates a session that has nothing yet.
    pub(crate) async fn session(&self, lifetimes: Lifetimes) -> SessionId {
        self.session_with(lifetimes, None, &[]).await
    }

    /// Creates a session with texts.
    pub(crate) async fn session_with(
        &self,
        lifetimes: Lifetimes,
        principal: Option<Principal>,
        attributes: &[(&str, &str)],
    ) -> SessionId {
        let new = NewSession {
            id: self.id(),
            lifetimes,
            principal,
            attributes: attributes
                .iter()
                .map(|(to, bytes)| (name(to), text(bytes)))
                .collect(),
            counters: Vec::new(),
        };
        let created = self.store.create(&new, CALL).await.unwrap().reply;
        assert!(matches!(created, Created::Created { .. }), "{created:?}");
        new.id
    }

    /// All of a session.
    pub(crate) async fn all_of(&self, id: &SessionId) -> (Head, Found) {
        match self.open(id).await {
            Opened::Found { head, found, .. } => (head, found),
            other => panic!("{other:?}"),
        }
    }

    /// Opens a session that the caller does not know, without a touch.
    pub(crate) async fn open(&self, id: &SessionId) -> Opened {
        let opened = self.store.open(id, Version::NONE, &Fields::All, None, CALL);
        opened.await.unwrap()
    }

    /// Why there is no such session.
    pub(crate) async fn gone(&self, id: &SessionId) -> Gone {
        match self.open(id).await {
            Opened::Gone(gone) => gone,
            other => panic!("{other:?}"),
        }
    }

    /// Makes changes with the usual ceilings.
    pub(crate) async fn patch(&self, id: &SessionId, ops: &[Op], seq: Option<OpSeq>) -> Patched {
        self.patch_under(id, ops, seq, Ceilings::default()).await
    }

    pub(crate) async fn patch_under(
        &self,
        id: &SessionId,
        ops: &[Op],
        seq: Option<OpSeq>,
        ceilings: Ceilings,
    ) -> Patched {
        let patched = self.store.patch(id, ops, seq, ceilings, None, CALL);
        patched.await.unwrap().reply
    }

    /// The store's clock.
    pub(crate) async fn now(&self) -> Wall {
        let new = NewSession {
            id: self.id(),
            lifetimes: LONG,
            principal: None,
            attributes: Vec::new(),
            counters: Vec::new(),
        };
        match self.store.create(&new, CALL).await.unwrap().reply {
            Created::Created { now, .. } => now,
            Created::Taken => panic!("a fresh id is taken"),
        }
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn text(bytes: &str) -> Value {
    Value {
        format: Format::Text,
        bytes: bytes.as_bytes().to_vec(),
    }
}

pub(crate) fn set(to: &str, bytes: &str) -> Op {
    set_if(to, bytes, Expect::Any)
}

pub(crate) fn set_if(to: &str, bytes: &str, expect: Expect) -> Op {
    Op::Set {
        name: name(to),
        value: text(bytes),
        expect,
    }
}

pub(crate) fn delete(from: &str) -> Op {
    Op::Delete {
        name: name(from),
        expect: Expect::Any,
    }
}

pub(crate) fn add(to: &str, by: i64) -> Op {
    Op::Increment { name: name(to), by }
}

pub(crate) fn raise(to: &str, least: i64) -> Op {
    Op::Max {
        name: name(to),
        to: least,
    }
}

pub(crate) fn seq(incarnation: u64, number: u64) -> OpSeq {
    OpSeq {
        writer: Writer {
            incarnation,
            lane: 1,
        },
        number,
    }
}

pub(crate) fn principal(uid: &Uid, epoch: u64) -> Principal {
    Principal {
        uid: uid.clone(),
        tier: Some(name("gold")),
        epoch,
    }
}

pub(crate) fn attribute<'a>(found: &'a Found, of: &str) -> Option<&'a Attribute> {
    let mut attributes = found.attributes.iter();
    attributes
        .find(|(name, _)| name.as_str() == of)
        .map(|(_, attribute)| attribute)
}

pub(crate) fn counter(found: &Found, of: &str) -> Option<i64> {
    let mut counters = found.counters.iter();
    counters
        .find(|(name, _)| name.as_str() == of)
        .map(|(_, counter)| *counter)
}

pub(crate) fn applied(patched: &Patched) -> Version {
    match patched {
        Patched::Applied { version, .. } => *version,
        other => panic!("{other:?}"),
    }
}
