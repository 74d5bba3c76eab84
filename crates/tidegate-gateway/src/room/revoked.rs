//! Passes that were taken back: all that were issued before a second, and some by their ids.
//!
//! It is exact, for a filter would now and then stop somebody who was let in. 200 ids of 20 bytes are below 4 KiB,
//! so that it fits into a room's document; an id goes when its pass could not be renewed any more. For more than that there
//! is the second.

use tidegate_core::time::Wall;

use super::keys::seconds;
use super::pass::{LEEWAY_S, PassId};
use super::spelling::{read_into, spelt};

/// What was taken back in one room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked {
    /// What was given or renewed in an earlier second since 1970 is not good. A few seconds ahead of now it holds for what a
    /// gateway renews before it has heard of it, too.
    pub issued_from_s: u32,
    /// In the order of ids, each with the second at which its pass ends whatever happens.
    ids: Vec<(PassId, u32)>,
}

/// There is no room for another id: take back all that was issued before now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{max} passes are revoked already, one by one: set `issued_from_s` instead", max = Revoked::COUNT_MAX)]
pub struct RevokedFull;

const ENTRY_LEN: usize = 16 + 4;

impl Revoked {
    /// Most ids.
    pub const COUNT_MAX: usize = 200;
    /// Most bytes of all ids as a room's document has them, before they are spelt.
    pub const BYTES_MAX: usize = Self::COUNT_MAX * ENTRY_LEN;

    /// Takes one pass back, which ends at `absolute_s` whatever happens. What has ended makes room.
    ///
    /// # Errors
    ///
    /// When there is no room.
    pub fn revoke(&mut self, now: Wall, id: PassId, absolute_s: u32) -> Result<(), RevokedFull> {
        let until = seconds(now).saturating_sub(LEEWAY_S);
        self.ids
            .retain(|(_, absolute)| u64::from(*absolute) > until);
        match self.ids.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(at) => {
                let absolute = &mut self.ids[at].1;
                *absolute = absolute_s.max(*absolute);
            }
            Err(_) if self.ids.len() == Self::COUNT_MAX => return Err(RevokedFull),
            Err(at) => self.ids.insert(at, (id, absolute_s)),
        }
        Ok(())
    }

    /// Whether a pass of this id, issued then, was taken back.
    pub fn has(&self, id: PassId, issued_s: u32) -> bool {
        issued_s < self.issued_from_s || self.ids.binary_search_by_key(&id, |(id, _)| *id).is_ok()
    }

    /// The ids as a room's document has them.
    pub fn ids(&self) -> String {
        let mut bytes = Vec::with_capacity(self.ids.len() * ENTRY_LEN);
        for (id, absolute) in &self.ids {
            bytes.extend_from_slice(&id.0);
            bytes.extend_from_slice(&absolute.to_be_bytes());
        }
        spelt(&bytes)
    }

    /// What a room's document says; `None` when these are no ids in their order.
    pub fn read(issued_from_s: u32, ids: &str) -> Option<Self> {
        let mut bytes = [0; Self::BYTES_MAX];
        let bytes = read_into(ids, &mut bytes)?;
        let (entries, []) = bytes.as_chunks::<ENTRY_LEN>() else {
            return None;
        };
        let entry = |entry: &[u8; ENTRY_LEN]| {
            let (id, absolute) = entry
                .split_first_chunk()
                .expect("20 bytes are more than 16");
            let absolute = absolute.first_chunk().expect("four are left");
            (PassId(*id), u32::from_be_bytes(*absolute))
        };
        let ids: Vec<_> = entries.iter().map(entry).collect();
        let is_sorted = ids.is_sorted_by(|one, next| one.0 < next.0);
        is_sorted.then_some(Self { issued_from_s, ids })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;

    fn at(second: u64) -> Wall {
        Wall::from_micros(second * 1_000_000)
    }

    fn id(number: u128) -> PassId {
        PassId(number.to_be_bytes())
    }

    #[test]
    fn there_is_room_for_so_many_and_what_has_ended_makes_some() {
        let mut revoked = Revoked::default();
        for number in 0..Revoked::COUNT_MAX as u128 {
            revoked.revoke(at(1_000), id(number), 2_000).unwrap();
        }

        assert_eq!(revoked.revoke(at(1_000), id(999), 3_000), Err(RevokedFull));
        assert_eq!(revoked.revoke(at(1_000), id(7), 2_500), Ok(()));
        assert!(revoked.ids().len() <= 4_096 * 4 / 3);
        let late = at(2_000 + LEEWAY_S);
        assert_eq!(revoked.revoke(late, id(999), 3_000), Ok(()));
        assert!(revoked.has(id(999), 0) && revoked.has(id(7), 0) && !revoked.has(id(8), 0));
    }

    #[test]
    fn what_is_no_list_of_ids_in_their_order_is_refused() {
        let entry = |number: u8| [&[number; 16][..], &[0; 4]].concat();
        let read = |entries: &[Vec<u8>]| Revoked::read(5, &spelt(&entries.concat()));

        assert!(read(&[entry(1), entry(2)]).is_some());
        assert_eq!(read(&[entry(2), entry(1)]), None);
        assert_eq!(read(&[entry(1), entry(1)]), None);
        assert_eq!(read(&[entry(1), vec![0]]), None);
        assert_eq!(Revoked::read(5, "="), None);
        let many: Vec<_> = (0..=Revoked::COUNT_MAX as u8).map(entry).collect();
        assert_eq!(read(&many), None);
    }

    proptest! {
        #[test]
        fn it_has_what_was_revoked_and_nothing_else_and_reads_back(
            some in prop::collection::vec(any::<u128>(), 0..50),
            other in any::<u128>(),
            from in any::<u32>(),
            issued in any::<u32>(),
        ) {
            let mut revoked = Revoked { issued_from_s: from, ..Revoked::default() };
            for number in &some {
                revoked.revoke(at(0), id(*number), 1).unwrap();
            }
            let known: BTreeSet<_> = some.iter().copied().collect();

            for number in some.iter().copied().chain([other]) {
                let expected = issued < from || known.contains(&number);
                prop_assert_eq!(revoked.has(id(number), issued), expected);
            }
            prop_assert_eq!(Revoked::read(from, &revoked.ids()), Some(revoked));
        }
    }
}
