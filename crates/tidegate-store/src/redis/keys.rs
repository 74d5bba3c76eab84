//! The keys. What is in braces decides the slot in a Cluster: everything of one session has its slot
//! tag there, everything of one user their name, everything of one part of the expiry index its
//! number. docs/store-keys.md lists them.

use std::fmt::Write;

use tidegate_core::room::Epoch;
use tidegate_core::session::{Name, SessionId, SlotTag, Uid, layout};

use crate::ends::bucket_of;

/// A session.
pub(super) fn session(id: &SessionId) -> String {
    format!("tg:s:{{{}}}:{}", id.tag(), id.hash())
}

/// What remembers that there was one.
pub(super) fn tombstone(id: &SessionId) -> String {
    format!("tg:x:{{{}}}:{}", id.tag(), id.hash())
}

/// A large value.
pub(super) fn blob(tag: SlotTag, blob: &str) -> String {
    format!("tg:b:{{{tag}}}:{blob}")
}

/// How often a user has signed out everywhere.
pub(super) fn epoch(uid: &Uid) -> String {
    format!("tg:u:{{{}}}:e", escaped(uid))
}

/// A user's sessions.
pub(super) fn sessions(uid: &Uid) -> String {
    format!("tg:u:{{{}}}:s", escaped(uid))
}

/// What is kept for a user's next session.
pub(super) fn capsule(uid: &Uid) -> String {
    format!("tg:u:{{{}}}:c", escaped(uid))
}

/// A part of the expiry index.
pub(super) fn index(bucket: u8) -> String {
    format!("tg:z:{{b{bucket:02}}}")
}

/// The part of the expiry index that has `id`.
pub(super) fn index_of(id: &SessionId) -> String {
    index(bucket_of(id.tag()))
}

/// Who works on a part of the expiry index.
pub(super) fn lease(bucket: u8) -> String {
    format!("tg:zl:{{b{bucket:02}}}")
}

/// A part of the stream of ends.
pub(super) fn stream(bucket: u8) -> String {
    format!("tg:ev:{{b{bucket:02}}}")
}

/// The members of the fleet.
pub(super) const MEMBERS: &str = "tg:m:{fleet}";

/// What nodes say about themselves.
pub(super) const BEACONS: &str = "tg:hb:{fleet}";

/// What the leader decided about nodes.
pub(super) const VERDICTS: &str = "tg:hv:{fleet}";

/// What operators ordered about nodes.
pub(super) const ORDERS: &str = "tg:ho:{fleet}";

/// Who holds a lease.
pub(crate) fn lead(name: &Name) -> String {
    format!("tg:lead:{{{name}}}")
}

/// The state of a limit.
pub(crate) fn limit(tag: SlotTag, key: u128) -> String {
    with_digits(format!("tg:l:{{{tag}}}:"), key)
}

/// What nodes said last that spend from a limit without asking.
pub(crate) fn limit_speakers(tag: SlotTag, key: u128) -> String {
    with_digits(format!("tg:ls:{{{tag}}}:"), key)
}

/// Those that divide limits among themselves.
pub(crate) const DIVIDERS: &str = "tg:ld:{fleet}";

/// Permits of a thing: who holds what, and what else is to be known of them.
pub(crate) fn permits(thing: &Name) -> String {
    format!("tg:p:{{{thing}}}")
}

/// When the leases of these are over.
pub(crate) fn permit_ends(thing: &Name) -> String {
    format!("tg:pe:{{{thing}}}")
}

/// A room: which epoch it is in, and what else there is one of. `lease` is what its leader holds, so that both are in one
/// slot.
pub(crate) fn room(lease: &Name) -> String {
    format!("tg:r:{{{lease}}}")
}

/// What the gateways of a room report.
pub(crate) fn room_reports(lease: &Name) -> String {
    format!("tg:r:{{{lease}}}:reports")
}

/// A part of a room's line in `epoch`.
pub(crate) fn room_part(lease: &Name, epoch: Epoch, part: &str) -> String {
    format!("tg:r:{{{lease}}}:{}:{part}", epoch.0)
}

fn with_digits(mut name: String, key: u128) -> String {
    for shift in (0..26).rev() {
        name.push(char::from(DIGITS[(key >> (5 * shift)) as usize & 31]));
    }
    name
}

/// The secret of keys of limits.
pub(crate) const LIMIT_SECRET: &str = "tg:lk";

/// Of a number in base 32, as in a slot tag.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The field of an attribute.
pub(super) fn attribute(name: &Name) -> String {
    format!("{}{name}", layout::ATTRIBUTE)
}

/// The field of a counter.
pub(super) fn counter(name: &Name) -> String {
    format!("{}{name}", layout::COUNTER)
}

/// A user's name without braces, which would end the slot tag early.
fn escaped(uid: &Uid) -> String {
    let mut text = String::with_capacity(uid.as_str().len());
    for character in uid.as_str().chars() {
        match character {
            '{' | '}' | '%' => {
                let _ = write!(text, "%{:02X}", u32::from(character));
            }
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_of_one_session_and_of_one_user_is_in_one_slot() {
        let tag = SlotTag::from_bits(77_777);
        let one = SessionId::new(tag, [b'A'; SessionId::HASH_LEN]).unwrap();
        let next = SessionId::new(tag, [b'B'; SessionId::HASH_LEN]).unwrap();
        let uid = Uid::new("{}a}%b").unwrap();

        for key in [
            session(&one),
            tombstone(&one),
            session(&next),
            blob(tag, "x"),
        ] {
            assert_eq!(hashed(&key), tag.as_str(), "{key}");
        }
        assert_eq!(hashed(&limit(tag, 7)), tag.as_str());
        let thing = Name::new("orders-db").unwrap();
        assert_eq!(hashed(&permits(&thing)), hashed(&permit_ends(&thing)));
        let shop = Name::new("room/shop").unwrap();
        let part = room_part(&shop, Epoch(7), "w1");
        for key in [lead(&shop), room(&shop), room_reports(&shop), part] {
            assert_eq!(hashed(&key), "room/shop", "{key}");
        }
        for key in [epoch(&uid), sessions(&uid), capsule(&uid)] {
            assert_eq!(hashed(&key), "%7B%7Da%7D%25b", "{key}");
        }
        for key in [index(7), lease(7), stream(7)] {
            assert_eq!(hashed(&key), "b07", "{key}");
        }
    }

    #[test]
    fn a_limit_has_every_bit_of_its_key() {
        let tag = SlotTag::from_bits(0);

        assert_eq!(limit(tag, 0), format!("tg:l:{{aaaa}}:{}", "a".repeat(26)));
        assert_eq!(
            limit(tag, u128::MAX),
            format!("tg:l:{{aaaa}}:h{}", "7".repeat(25))
        );
        let mut one_each: Vec<_> = (0..128).map(|bit| limit(tag, 1 << bit)).collect();
        one_each.sort();
        one_each.dedup();
        assert_eq!(one_each.len(), 128);
    }

    /// The part of a key that a Cluster hashes.
    fn hashed(key: &str) -> &str {
        let (_, rest) = key.split_once('{').unwrap();
        rest.split_once('}').unwrap().0
    }
}
