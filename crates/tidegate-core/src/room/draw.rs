//! A lot among those who come before an event, that everybody can check afterwards.

use super::{Epoch, PLACE_MAX, Place};

/// A cryptographic hash of 32 bytes. SHA-256 is what is published.
pub type Digest = fn(&[u8]) -> [u8; 32];

/// Before everything that is hashed, so that it means nothing anywhere else.
const COMMITMENT: &[u8] = b"tidegate draw commitment 1\0";
const ROUND: &[u8] = b"tidegate draw round 1\0";
/// Four are enough to look like chance; more cost next to nothing.
const ROUNDS: u8 = 6;

/// The lot of one event.
///
/// Who comes before `opens` gets another place before it by chance: no two the same, and none better for having come
/// early. All of it follows from a seed. Its [`commitment`](Self::commitment) is published when the first come, so that it
/// cannot be chosen to anybody's liking, and the seed itself when the event begins, so that everybody can work it out.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    seed: [u8; 32],
    digest: Digest,
    epoch: Epoch,
    /// Places below are drawn for.
    opens: Place,
    /// Half the bits of what is shuffled.
    half: u32,
}

impl Draw {
    /// Of a room in `epoch` that opens at the place `opens`.
    pub const fn new(seed: [u8; 32], digest: Digest, epoch: Epoch, opens: Place) -> Self {
        let most = if opens.0 < PLACE_MAX {
            opens.0
        } else {
            PLACE_MAX
        };
        let bits = u64::BITS - most.leading_zeros();
        Self {
            seed,
            digest,
            epoch,
            opens: Place(most),
            // No less than two bits: there is nothing to shuffle in one.
            half: if bits < 4 { 2 } else { bits.div_ceil(2) },
        }
    }

    /// What to publish before the seed.
    pub fn commitment(&self) -> [u8; 32] {
        let mut text = COMMITMENT.to_vec();
        text.extend(self.seed);
        (self.digest)(&text)
    }

    /// The place that was drawn for whoever has `place`. Who came after the opening keeps theirs.
    pub fn place(&self, place: Place) -> Place {
        if place >= self.opens {
            return place;
        }
        // What falls outside is shuffled again; that ends, since a shuffle that came back would have begun there.
        let mut drawn = self.shuffle(place.0);
        while drawn >= self.opens.0 {
            drawn = self.shuffle(drawn);
        }
        Place(drawn)
    }

    /// A permutation of all numbers of twice `half` bits.
    fn shuffle(&self, number: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (number >> self.half, number & mask);
        for round in 0..ROUNDS {
            let mixed = left ^ (self.mix(round, right) & mask);
            (left, right) = (right, mixed);
        }
        left << self.half | right
    }

    fn mix(&self, round: u8, half: u64) -> u64 {
        let mut text = ROUND.to_vec();
        text.extend(self.seed);
        text.extend(self.epoch.0.to_be_bytes());
        text.extend(self.opens.0.to_be_bytes());
        text.push(round);
        text.extend(half.to_be_bytes());
        let [a, b, c, d, e, f, g, h, ..] = (self.digest)(&text);
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rng::Rng;

    /// Stands for a hash: what is promised here holds for any.
    fn digest(text: &[u8]) -> [u8; 32] {
        let mut state = Rng::new(text.len() as u64).next_u64();
        for byte in text {
            state = Rng::new(state ^ u64::from(*byte)).next_u64();
        }
        let mut rng = Rng::new(state);
        let mut digest = [0; 32];
        for part in digest.chunks_mut(8) {
            part.copy_from_slice(&rng.next_u64().to_be_bytes());
        }
        digest
    }

    fn draw(seed: u8, opens: u64) -> Draw {
        Draw::new([seed; 32], digest, Epoch(7), Place(opens))
    }

    #[test]
    fn everybody_gets_a_place_and_no_two_the_same() {
        for opens in [1, 2, 3, 5, 16, 17, 1_000, 4_096, 4_097] {
            let draw = draw(3, opens);

            let drawn: BTreeSet<_> = (0..opens).map(|at| draw.place(Place(at))).collect();

            assert_eq!(drawn.len() as u64, opens);
            assert!(drawn.iter().all(|place| place.0 < opens), "{opens}");
        }
    }

    #[test]
    fn who_comes_after_the_opening_stands_where_they_came() {
        let draw = draw(3, 1_000);

        assert_eq!(draw.place(Place(1_000)), Place(1_000));
        assert_eq!(draw.place(Place(PLACE_MAX)), Place(PLACE_MAX));
    }

    #[test]
    fn early_is_no_better_than_late() {
        // Thirty minutes.
        let opens = 1_800_000 * 4_096;
        let draw = draw(9, opens);
        let mean = |from: u64| {
            let came = (0..2_000).map(|at| Place(from + at * 4_096));
            let drawn = came.map(|place| draw.place(place).0 as f64 / opens as f64);
            drawn.sum::<f64>() / 2_000.0
        };

        for from in [0, opens / 2, opens - 2_000 * 4_096] {
            let mean = mean(from);
            // 1 / √(12 × 2,000) is 0.0065.
            assert!((0.47..0.53).contains(&mean), "{from}: {mean}");
        }
    }

    #[test]
    fn another_seed_and_another_epoch_draw_otherwise() {
        let drawn = |draw: Draw| -> Vec<_> { (0..20).map(|at| draw.place(Place(at))).collect() };
        let usual = drawn(draw(3, 1_000));

        assert_eq!(drawn(draw(3, 1_000)), usual);
        assert_ne!(drawn(draw(4, 1_000)), usual);
        let other = Draw::new([3; 32], digest, Epoch(8), Place(1_000));
        assert_ne!(drawn(other), usual);
        assert_ne!(draw(3, 9).commitment(), draw(4, 9).commitment());
        assert_eq!(draw(3, 9).commitment(), draw(3, 10).commitment());
    }
}
