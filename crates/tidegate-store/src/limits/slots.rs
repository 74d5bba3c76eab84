//! Where the embedded table keeps what it knows of keys, 41 bytes each.
//!
//! Keys lie in their own order, each about where its bits say that it would be if keys were spread evenly, with
//! gaps between. A hash map of doubling size is half empty after it has grown, and the size of
//! what one client can make us keep is what matters here; this one grows by a quarter.
//!
//! One byte of each key is kept aside from the slots, and eight of those are looked at with one word: so a key that is
//! there is found without a look at its neighbours, each of which is most of a cache line.

use std::sync::Arc;

use tidegate_core::rate::{Spec, Tick};

/// Whose state it is: the halves of the key's 128 bits, which are a hash.
pub(super) type Key = [u64; 2];

/// What is known of one key.
pub(super) struct Slot {
    pub(super) key: Key,
    /// The limit that the state is of.
    pub(super) spec: Arc<Spec>,
    /// Of a bucket its credits; of anything else where the state is.
    pub(super) word: i64,
    /// Of a bucket when that was.
    pub(super) at: Tick,
}

const _: () = assert!(size_of::<Option<Slot>>() == 40);

/// The slots.
pub(super) struct Slots {
    /// Sorted by key. Between a slot's home and the slot itself there is no gap. The last one is empty.
    slots: Vec<Option<Slot>>,
    /// The [`tag`] of the key in each place, 0 where there is none; and a word of zeros behind the last.
    tags: Vec<u8>,
    len: usize,
}

/// So full it may become, in percent ...
const FULL: usize = 85;
/// ... and so full it is then made.
const ROOMY: usize = 68;
/// Fewest homes.
const HOMES_MIN: usize = 16;
/// Slots behind the last home. At 85 % a key lies 3 slots from its home on average and as good as never 64.
const TAIL: usize = 64;
/// Tags in a word.
const WORD: usize = size_of::<u64>();
/// The lowest and the highest bit of each tag in a word.
const LOW: u64 = u64::from_ne_bytes([0x01; WORD]);
const HIGH: u64 = u64::from_ne_bytes([TAKEN; WORD]);
/// What every tag of a key has, and an empty place has not.
const TAKEN: u8 = 0x80;

impl Slots {
    /// None.
    pub(super) fn new() -> Self {
        let (slots, tags) = empty(HOMES_MIN);
        Self {
            slots,
            tags,
            len: 0,
        }
    }

    /// How many are taken.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// How many places there are, taken or not.
    pub(super) const fn places(&self) -> usize {
        self.slots.len()
    }

    /// What is at `place`, if anything is.
    pub(super) fn at(&self, place: usize) -> Option<&Slot> {
        self.slots[place].as_ref()
    }

    /// What is at `place`, if anything is. Its key has to stay as it is.
    pub(super) fn at_mut(&mut self, place: usize) -> Option<&mut Slot> {
        self.slots[place].as_mut()
    }

    /// Where `key` is, if it is there.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<usize> {
        let wanted = LOW * u64::from(tag(key));
        let mut place = self.home(key);
        loop {
            let tags = self.word_at(place);
            let empty = !tags & HIGH;
            let differs = tags ^ wanted;
            // The lowest bit that is left is of a tag that is the wanted one; one above it may be of another, so each is looked at.
            let mut alike = differs.wrapping_sub(LOW) & !differs & HIGH;
            if empty != 0 {
                // What lies behind a gap has its home behind it.
                alike &= empty ^ empty.wrapping_sub(1);
            }
            while alike != 0 {
                let found = place + alike.trailing_zeros() as usize / 8;
                if self.slots[found].as_ref().is_some_and(|it| it.key == key) {
                    return Some(found);
                }
                alike &= alike - 1;
            }
            if empty != 0 {
                return None;
            }
            place += WORD;
        }
    }

    /// The tags of a place and those behind it, the nearest lowest.
    fn word_at(&self, place: usize) -> u64 {
        let tags = self.tags[place..].first_chunk::<WORD>();
        u64::from_le_bytes(*tags.expect("a word of zeros is behind the last"))
    }

    /// Where a key goes that is not there.
    fn place_for(&self, key: Key) -> usize {
        let home = self.home(key);
        let behind = self.slots[home..]
            .iter()
            .position(|slot| slot.as_ref().is_none_or(|slot| slot.key > key));
        home + behind.expect("the last slot is empty")
    }

    /// Whether one more needs [`Self::rebuild`] first.
    pub(super) const fn is_full(&self) -> bool {
        (self.len + 1) * 100 > self.homes() * FULL
    }

    /// Whether most of it is empty, so that [`Self::rebuild`] would make it much smaller.
    pub(super) const fn is_wasteful(&self) -> bool {
        self.homes() > HOMES_MIN && self.len * 400 < self.homes() * FULL
    }

    /// Puts a slot in whose key is not there.
    pub(super) fn insert(&mut self, slot: Slot) {
        debug_assert!(self.find(slot.key).is_none(), "the caller has looked");
        let place = self.place_for(slot.key);
        let gap = self.tags[place..].iter().position(|tag| *tag == 0);
        let gap = place + gap.expect("the last slot is empty");
        if gap + 1 == self.slots.len() {
            // Bad luck at the very end.
            self.resize(self.homes() + self.homes() / 4);
            return self.insert(slot);
        }
        self.slots[place..=gap].rotate_right(1);
        self.tags.copy_within(place..gap, place + 1);
        self.tags[place] = tag(slot.key);
        self.slots[place] = Some(slot);
        self.len += 1;
    }

    /// Takes out what is at `place`.
    pub(super) fn remove(&mut self, place: usize) -> Option<Slot> {
        let removed = self.slots[place].take()?;
        self.len -= 1;
        let mut gap = place;
        while let Some(next) = &self.slots[gap + 1]
            && self.home(next.key) <= gap
        {
            self.slots.swap(gap, gap + 1);
            self.tags.swap(gap, gap + 1);
            gap += 1;
        }
        self.tags[gap] = 0;
        Some(removed)
    }

    /// Drops what `keep` does not keep, and makes it as large as the rest needs.
    pub(super) fn rebuild(&mut self, mut keep: impl FnMut(&Slot) -> bool) {
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|slot| !keep(slot)) {
                *slot = None;
                self.len -= 1;
            }
        }
        self.resize((self.len + 1) * 100 / ROOMY + 1);
    }

    fn resize(&mut self, homes: usize) {
        let mut homes = homes.max(HOMES_MIN);
        // Gone before the new ones are there.
        self.tags = Vec::new();
        let mut old = std::mem::take(&mut self.slots);
        while !self.fill(&mut old, homes) {
            homes += homes / 4;
        }
    }

    /// Moves the slots of `old` to as many homes; `false`, with none moved, if they do not fit.
    fn fill(&mut self, old: &mut [Option<Slot>], homes: usize) -> bool {
        let mut next = 0;
        for slot in old.iter().flatten() {
            next = home(slot.key, homes).max(next) + 1;
        }
        if next >= homes + TAIL {
            return false;
        }
        (self.slots, self.tags) = empty(homes);
        let mut next = 0;
        for slot in old {
            if let Some(slot) = slot.take() {
                let place = home(slot.key, homes).max(next);
                self.tags[place] = tag(slot.key);
                self.slots[place] = Some(slot);
                next = place + 1;
            }
        }
        true
    }

    const fn homes(&self) -> usize {
        self.slots.len() - TAIL
    }

    fn home(&self, key: Key) -> usize {
        home(key, self.homes())
    }
}

fn home(key: Key, homes: usize) -> usize {
    ((u128::from(key[0]) * homes as u128) >> 64) as usize
}

/// Seven bits of a key by which neither its shard nor its place is chosen.
const fn tag(key: Key) -> u8 {
    (key[1] >> 57) as u8 | TAKEN
}

fn empty(homes: usize) -> (Vec<Option<Slot>>, Vec<u8>) {
    let mut slots = Vec::new();
    slots.resize_with(homes + TAIL, || None);
    let tags = vec![0; slots.len() + WORD];
    (slots, tags)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
    use tidegate_core::rate::Rate;

    use super::*;

    fn slot(key: Key, word: i64) -> Slot {
        let rate: Rate = "10/s".parse().unwrap();
        let spec = Spec::new(Default::default(), rate, None).unwrap();
        Slot {
            key,
            spec: Arc::new(spec),
            word,
            at: Tick(0),
        }
    }

    proptest! {
        #[test]
        fn what_is_put_in_is_found_until_it_is_taken_out(
            steps in prop::collection::vec((any::<u8>(), 0u64..3, any::<bool>()), 0..400),
            tag_at in prop::sample::select(vec![0u32, 57, 60]),
            shift in prop::sample::select(vec![56u32, 32, 0]),
        ) {
            // Keys all over the place, in one corner of it, and all with one home; with tags that are alike and not.
            let mut model = BTreeMap::new();
            let mut slots = Slots::new();
            for (word, (high, low, stays)) in (0i64..).zip(steps) {
                let key = [u64::from(high) << shift, low << tag_at];
                match slots.find(key) {
                    Some(place) if stays => slots.at_mut(place).unwrap().word = word,
                    Some(place) => {
                        let removed = slots.remove(place).unwrap();
                        prop_assert_eq!(Some(removed.word), model.get(&key).copied());
                        model.remove(&key);
                        continue;
                    }
                    None => {
                        if slots.is_full() {
                            slots.rebuild(|slot| slot.word % 7 != 0);
                            model.retain(|_, word| *word % 7 != 0);
                        }
                        slots.insert(slot(key, word));
                    }
                }
                model.insert(key, word);
                prop_assert_eq!(slots.len(), model.len());
            }
            let there = (0..slots.places()).filter_map(|place| slots.at(place));
            let there: Vec<_> = there.map(|slot| (slot.key, slot.word)).collect();
            prop_assert_eq!(there, model.clone().into_iter().collect::<Vec<_>>());
            for (key, word) in model {
                let place = slots.find(key);
                prop_assert!(place.is_some_and(|place| slots.at(place).unwrap().word == word));
            }
            let tags = (0..slots.places()).map(|place| slots.at(place).map_or(0, |it| tag(it.key)));
            let tags: Vec<u8> = tags.chain([0; WORD]).collect();
            prop_assert_eq!(&slots.tags, &tags);
        }
    }
}
