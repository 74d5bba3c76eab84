//! What the file is filed by: one key for each thing that is kept.

use tidegate_core::session::{Name, SessionId, SlotTag, Uid};

use crate::ends::EventId;

/// One thing that is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    /// A session.
    Session(SessionId),
    /// What remembers that there was one.
    Tombstone(SessionId),
    /// How often a user has signed out everywhere.
    Epoch(Uid),
    /// A session in its user's index.
    Activity(Uid, SessionId),
    /// What is kept for a user's next session.
    Capsule(Uid),
    /// A session in the expiry index.
    Armed(SessionId),
    /// An end that was told.
    Event(EventId),
    /// How far a group of listeners has come.
    Group(Name),
    /// An event that a member of a group has got and not acknowledged.
    Pending(Name, EventId),
    /// A large value.
    Blob(SlotTag, String),
    /// The last fence of a lease.
    Fence(Name),
}

/// Parts what has two parts. No name of a user or of anything else has it in it.
const BETWEEN: char = '\n';

impl Key {
    /// The key in the file: a letter and a text.
    pub(super) fn encode(&self) -> String {
        match self {
            Self::Session(id) => format!("s{id}"),
            Self::Tombstone(id) => format!("x{id}"),
            Self::Epoch(uid) => format!("e{uid}"),
            Self::Activity(uid, id) => format!("i{uid}{BETWEEN}{id}"),
            Self::Capsule(uid) => format!("c{uid}"),
            Self::Armed(id) => format!("z{id}"),
            Self::Event(id) => format!("v{id}"),
            Self::Group(name) => format!("g{name}"),
            Self::Pending(name, id) => format!("p{name}{BETWEEN}{id}"),
            Self::Blob(tag, blob) => format!("b{tag}{BETWEEN}{blob}"),
            Self::Fence(name) => format!("f{name}"),
        }
    }

    /// Reads what [`Key::encode`] wrote; `None` for anything else.
    pub(super) fn decode(text: &str) -> Option<Self> {
        let rest = text.get(1..)?;
        let parts = || rest.split_once(BETWEEN);
        let uid = |text: &str| Uid::new(text).ok();
        let name = |text: &str| Name::new(text).ok();
        let session = |text: &str| SessionId::parse(text).ok();
        let event = |text: &str| EventId::parse(text).ok();
        match text.as_bytes()[0] {
            b's' => session(rest).map(Self::Session),
            b'x' => session(rest).map(Self::Tombstone),
            b'e' => uid(rest).map(Self::Epoch),
            b'i' => parts().and_then(|(of, id)| Some(Self::Activity(uid(of)?, session(id)?))),
            b'c' => uid(rest).map(Self::Capsule),
            b'z' => session(rest).map(Self::Armed),
            b'v' => event(rest).map(Self::Event),
            b'f' => name(rest).map(Self::Fence),
            b'g' => name(rest).map(Self::Group),
            b'p' => parts().and_then(|(of, id)| Some(Self::Pending(name(of)?, event(id)?))),
            b'b' => parts().and_then(|(tag, blob)| {
                let tag = SlotTag::parse(tag.as_bytes()).ok()?;
                Some(Self::Blob(tag, blob.to_owned()))
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_reads_back() {
        let id = SessionId::new(SlotTag::from_bits(9), [b'A'; SessionId::HASH_LEN]).unwrap();
        let uid = Uid::new("ann {b}").unwrap();
        let name = Name::new("mail").unwrap();
        let event = EventId {
            bucket: 3,
            millis: 4,
            number: 5,
        };
        for key in [
            Key::Session(id),
            Key::Tombstone(id),
            Key::Epoch(uid.clone()),
            Key::Activity(uid.clone(), id),
            Key::Capsule(uid),
            Key::Armed(id),
            Key::Event(event),
            Key::Group(name.clone()),
            Key::Fence(name.clone()),
            Key::Pending(name, event),
            Key::Blob(id.tag(), "b/1".to_owned()),
        ] {
            assert_eq!(Key::decode(&key.encode()), Some(key));
        }
        for odd in ["", "é", "q1", "sabc", "i", "iann", "b"] {
            assert_eq!(Key::decode(odd), None, "{odd}");
        }
    }
}
