//! Places with a number each, in the order of the numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::Place;

/// A sorted set, as a store has them: no place twice, and those with the same score in the order of places.
#[derive(Clone, Debug, Default)]
pub(super) struct Scored {
    scores: BTreeMap<Place, u64>,
    order: BTreeSet<(u64, Place)>,
}

impl Scored {
    /// Gives `place` the score, whatever it had.
    pub(super) fn put(&mut self, place: Place, score: u64) {
        self.remove(place);
        self.scores.insert(place, score);
        self.order.insert((score, place));
    }

    /// Takes it out, and says which score it had.
    pub(super) fn remove(&mut self, place: Place) -> Option<u64> {
        let score = self.scores.remove(&place)?;
        self.order.remove(&(score, place));
        Some(score)
    }

    /// Its score.
    pub(super) fn score(&self, place: Place) -> Option<u64> {
        self.scores.get(&place).copied()
    }

    /// So many at most that have a score up to `upto`, the least first.
    pub(super) fn upto(&self, upto: u64, most: usize) -> Vec<Place> {
        let due = self.order.iter().take_while(|(score, _)| *score <= upto);
        due.take(most).map(|(_, place)| *place).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_score_takes_the_place_of_the_old_one() {
        let mut scored = Scored::default();
        scored.put(Place(2), 10);
        scored.put(Place(1), 10);
        scored.put(Place(3), 5);

        assert_eq!(scored.upto(10, 9), [Place(3), Place(1), Place(2)]);
        scored.put(Place(3), 11);

        assert_eq!(scored.upto(10, 1), [Place(1)]);
        assert_eq!(scored.upto(10, 9), [Place(1), Place(2)]);
        assert_eq!((scored.remove(Place(3)), scored.len()), (Some(11), 2));
    }
}
