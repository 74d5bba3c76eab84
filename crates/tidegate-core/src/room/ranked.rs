//! Places in order, each with its rank.

use super::Place;

/// Most places of a piece.
const PIECE_MAX: usize = 512;

/// A set of places that knows how many are before any of them without counting them one by one.
///
/// It is in pieces of some hundred, none of them empty. To find, add or take out one is a search for its piece and one
/// in it; a rank adds up the lengths of the pieces before, which are two thousand of a million places.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranked {
    pieces: Vec<Vec<Place>>,
    len: usize,
}

impl Ranked {
    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Whether `place` is in.
    pub(super) fn contains(&self, place: Place) -> bool {
        let piece = self.pieces.get(self.piece_of(place));
        piece.is_some_and(|piece| piece.binary_search(&place).is_ok())
    }

    /// Adds `place`; false if it was in.
    pub(super) fn insert(&mut self, place: Place) -> bool {
        let at = self.piece_of(place);
        let Some(piece) = self.pieces.get_mut(at) else {
            self.pieces.push(vec![place]);
            self.len = 1;
            return true;
        };
        let Err(within) = piece.binary_search(&place) else {
            return false;
        };
        self.len += 1;
        if piece.len() < PIECE_MAX {
            piece.insert(within, place);
            return true;
        }
        // Most come to the end of the line, and a piece that nothing more comes to is to stay full.
        let is_last = at + 1 == self.pieces.len() && within == PIECE_MAX;
        let kept = if is_last { PIECE_MAX } else { PIECE_MAX / 2 };
        let piece = &mut self.pieces[at];
        let mut rest = piece.split_off(kept);
        if within < kept {
            piece.insert(within, place);
        } else {
            rest.insert(within - kept, place);
        }
        self.pieces.insert(at + 1, rest);
        true
    }

    /// Takes `place` out; false if it was not in.
    pub(super) fn remove(&mut self, place: Place) -> bool {
        let at = self.piece_of(place);
        let Some(piece) = self.pieces.get_mut(at) else {
            return false;
        };
        let Ok(within) = piece.binary_search(&place) else {
            return false;
        };
        piece.remove(within);
        if piece.is_empty() {
            self.pieces.remove(at);
        }
        self.len -= 1;
        true
    }

    /// How many are below `bound`.
    pub(super) fn below(&self, bound: Place) -> u64 {
        let at = self.piece_of(bound);
        let before = self.pieces[..at].iter().map(Vec::len).sum::<usize>();
        let piece = self.pieces.get(at);
        let within = piece.map_or(0, |piece| piece.partition_point(|place| *place < bound));
        (before + within) as u64
    }

    /// So many, the first ones.
    pub(super) fn first(&self, count: usize) -> Vec<Place> {
        self.pieces.iter().flatten().take(count).copied().collect()
    }

    /// One of every `step`, the first one first.
    pub(super) fn marks(&self, step: usize) -> Vec<Place> {
        let mut marks = Vec::with_capacity(self.len.div_ceil(step));
        let mut skip = 0;
        for piece in &self.pieces {
            marks.extend(piece.iter().skip(skip).step_by(step));
            skip = next_skip(skip, piece.len(), step);
        }
        marks
    }

    /// Which piece has `place`, or would have it.
    fn piece_of(&self, place: Place) -> usize {
        let after = self.pieces.partition_point(|piece| piece[0] <= place);
        after.saturating_sub(1)
    }
}

/// How many of the next piece come before the next mark, when `skip` came before it in this one of `len`.
const fn next_skip(skip: usize, len: usize, step: usize) -> usize {
    if skip >= len {
        skip - len
    } else {
        let behind = (len - skip) % step;
        (step - behind) % step
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rng::Rng;

    #[test]
    fn it_is_a_sorted_set_that_counts() {
        let mut rng = Rng::new(5);
        let (mut ranked, mut plain) = (Ranked::default(), BTreeSet::new());
        for step in 0..60_000u64 {
            // It grows at its end for a while, then shrinks at its beginning, and in between it is anything.
            let place = match rng.below(4) {
                0 => Place(rng.below(20_000)),
                _ if step % 20_000 < 14_000 => Place(step),
                _ => plain.first().copied().unwrap_or_default(),
            };
            if step % 20_000 < 14_000 && rng.below(8) > 0 {
                assert_eq!(ranked.insert(place), plain.insert(place));
            } else {
                assert_eq!(ranked.remove(place), plain.remove(&place));
            }
            let any = Place(rng.below(60_000));
            assert_eq!(ranked.contains(any), plain.contains(&any));
            assert_eq!(ranked.len(), plain.len());
            if step % 97 == 0 {
                let below = plain.range(..any).count() as u64;
                assert_eq!(ranked.below(any), below);
                let first: Vec<_> = plain.iter().take(700).copied().collect();
                assert_eq!(ranked.first(700), first);
                for step in [1, 7, 50, 700] {
                    let marks: Vec<_> = plain.iter().step_by(step).copied().collect();
                    assert_eq!(ranked.marks(step), marks, "{step}");
                }
            }
        }
        assert!(ranked.pieces.iter().all(|piece| !piece.is_empty()));
    }

    #[test]
    fn a_line_that_grows_at_its_end_has_full_pieces() {
        let mut ranked = Ranked::default();
        for place in 0..10 * PIECE_MAX as u64 {
            ranked.insert(Place(place));
        }

        assert_eq!(ranked.pieces.len(), 10);
    }
}
