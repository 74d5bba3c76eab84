//! Which patches a session has seen, so that one delivered twice is applied once.

use std::collections::{BTreeMap, BTreeSet};

use super::op::{OpSeq, Writer};
use crate::time::Wall;

/// The numbers of the patches applied last, by their writers.
///
/// Not the highest number alone: of two patches under way the later may arrive first, and the
/// earlier must still be applied then. So each writer's last [`Seen::NUMBERS`] numbers are kept.
/// What a number says is forgotten with its writer's entry, which happens only when another writer
/// comes along: then entries go that were not written for [`Seen::KEPT_MS`], and beyond
/// [`Seen::WRITERS`] the one that was written longest ago.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen(BTreeMap<Writer, Entry>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// When it was last written, in milliseconds of the store's clock.
    written_ms: u64,
    numbers: BTreeSet<u64>,
}

/// What is known of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// It was not applied.
    New,
    /// It was applied.
    Applied,
    /// So many later ones were applied that nobody knows.
    TooOld,
}

/// A text that is no list of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSeen;

impl Seen {
    /// Numbers kept for each writer.
    pub const NUMBERS: usize = 16;
    /// Writers kept.
    pub const WRITERS: usize = 16;
    /// How long an entry is safe from another writer's arrival, in milliseconds. Longer than a
    /// patch is ever delivered again.
    pub const KEPT_MS: u64 = 60_000;

    /// What is known of the patch `seq`.
    pub fn sighting(&self, seq: OpSeq) -> Sighting {
        let Some(entry) = self.0.get(&seq.writer) else {
            return Sighting::New;
        };
        let full = entry.numbers.len() >= Self::NUMBERS;
        if entry.numbers.contains(&seq.number) {
            Sighting::Applied
        } else if full
            && entry
                .numbers
                .first()
                .is_some_and(|&least| seq.number < least)
        {
            Sighting::TooOld
        } else {
            Sighting::New
        }
    }

    /// Remembers that the patch `seq` was applied at `now`.
    pub fn note(&mut self, seq: OpSeq, now: Wall) {
        let now_ms = now.as_micros() / 1_000;
        if !self.0.contains_key(&seq.writer) {
            self.make_room(now_ms);
        }
        let entry = self.0.entry(seq.writer).or_default();
        entry.written_ms = entry.written_ms.max(now_ms);
        entry.numbers.insert(seq.number);
        if entry.numbers.len() > Self::NUMBERS {
            entry.numbers.pop_first();
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The form in the store: `WRITER=MS:NUMBER,NUMBER;WRITER=...`.
    pub fn encode(&self) -> String {
        let entries: Vec<String> = self
            .0
            .iter()
            .map(|(writer, entry)| {
                let numbers: Vec<String> = entry.numbers.iter().map(u64::to_string).collect();
                format!("{writer}={}:{}", entry.written_ms, numbers.join(","))
            })
            .collect();
        entries.join(";")
    }

    /// Reads what [`Seen::encode`] wrote.
    pub fn decode(text: &str) -> Result<Self, BadSeen> {
        let mut seen = Self::default();
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let (writer, rest) = part.split_once('=').ok_or(BadSeen)?;
            let (written, numbers) = rest.split_once(':').ok_or(BadSeen)?;
            let entry = Entry {
                written_ms: written.parse().map_err(|_| BadSeen)?,
                numbers: numbers
                    .split(',')
                    .map(|number| number.parse().map_err(|_| BadSeen))
                    .collect::<Result<_, _>>()?,
            };
            if entry.numbers.len() > Self::NUMBERS || seen.0.len() >= Self::WRITERS {
                return Err(BadSeen);
            }
            seen.0.insert(Writer::parse(writer).ok_or(BadSeen)?, entry);
        }
        Ok(seen)
    }

    fn make_room(&mut self, now_ms: u64) {
        self.0
            .retain(|_, entry| now_ms.saturating_sub(entry.written_ms) < Self::KEPT_MS);
        while self.0.len() >= Self::WRITERS {
            let stalest = self.0.iter().min_by_key(|(_, entry)| entry.written_ms);
            let Some((&writer, _)) = stalest else { return };
            self.0.remove(&writer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seq(incarnation: u64, number: u64) -> OpSeq {
        let writer = Writer {
            incarnation,
            lane: 1,
        };
        OpSeq { writer, number }
    }

    fn at_ms(ms: u64) -> Wall {
        Wall::from_micros(ms * 1_000)
    }

    #[test]
    fn the_earlier_of_two_swapped_patches_is_still_new() {
        let mut seen = Seen::default();

        seen.note(seq(1, 8), at_ms(1));

        assert_eq!(seen.sighting(seq(1, 7)), Sighting::New);
        assert_eq!(seen.sighting(seq(1, 8)), Sighting::Applied);
        assert_eq!(seen.sighting(seq(2, 8)), Sighting::New);
    }

    #[test]
    fn below_a_full_list_nobody_knows() {
        let mut seen = Seen::default();

        for number in 2..=17 {
            assert_eq!(seen.sighting(seq(1, 1)), Sighting::New);
            seen.note(seq(1, number), at_ms(1));
        }

        assert_eq!(seen.sighting(seq(1, 1)), Sighting::TooOld);
        assert_eq!(seen.sighting(seq(1, 2)), Sighting::Applied);
        seen.note(seq(1, 18), at_ms(1));
        assert_eq!(seen.sighting(seq(1, 2)), Sighting::TooOld);
    }

    #[test]
    fn a_new_writer_takes_the_place_of_the_dead() {
        let mut seen = Seen::default();
        seen.note(seq(1, 1), at_ms(0));
        seen.note(seq(2, 1), at_ms(30_000));

        seen.note(seq(3, 1), at_ms(60_000));

        assert_eq!(seen.sighting(seq(1, 1)), Sighting::New);
        assert_eq!(seen.sighting(seq(2, 1)), Sighting::Applied);
        for incarnation in 4..40 {
            seen.note(seq(incarnation, 1), at_ms(60_000 + incarnation));
        }
        assert_eq!(seen.sighting(seq(2, 1)), Sighting::New);
        assert_eq!(seen.sighting(seq(39, 1)), Sighting::Applied);
        assert_eq!(seen.0.len(), Seen::WRITERS);
    }

    #[test]
    fn what_was_seen_reads_back() {
        let mut seen = Seen::default();
        assert_eq!(Seen::decode(&seen.encode()), Ok(seen.clone()));

        seen.note(seq(u64::MAX, 12), at_ms(1_795_000_000_000));
        seen.note(seq(u64::MAX, 9), at_ms(1_795_000_000_001));
        seen.note(seq(10, 1), at_ms(1_795_000_000_002));

        assert_eq!(
            seen.encode(),
            "a.1=1795000000002:1;ffffffffffffffff.1=1795000000001:9,12"
        );
        assert_eq!(Seen::decode(&seen.encode()), Ok(seen));
        for bad in ["x", "a.1=5", "a.1=5:", "a.1=:5", "z.1=5:5", "a=5:5"] {
            assert_eq!(Seen::decode(bad), Err(BadSeen), "{bad}");
        }
    }
}
