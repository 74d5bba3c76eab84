//! Numbers that order arrivals.

use crate::time::Wall;

/// Arrivals that one millisecond keeps in order. More spill into the next one, still in order.
pub const SEQUENCES: u64 = 4_096;
/// The last place: scripts count in doubles, and above it they would not be exact. It is 69 years after an epoch began.
pub const PLACE_MAX: u64 = (1 << 53) - 1;

/// When a room's line began that is standing now: milliseconds since 1970 by the store's clock. A later one has another
/// line, and nothing of an earlier one counts in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// When somebody came: milliseconds since the epoch began, times [`SEQUENCES`], plus which one in its millisecond.
/// Nobody else in the epoch has it, and it stays the same whatever happens to its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u64);

impl Epoch {
    /// The first place that there can be at `now`.
    pub const fn place(self, now: Wall) -> Place {
        self.place_ms(millis(now))
    }

    /// The first place that there can be at `ms` since 1970.
    pub const fn place_ms(self, ms: u64) -> Place {
        let place = ms.saturating_sub(self.0).saturating_mul(SEQUENCES);
        Place(if place < PLACE_MAX { place } else { PLACE_MAX })
    }

    /// When whoever has `place` came.
    pub const fn arrival(self, place: Place) -> Wall {
        let ms = self.0.saturating_add(place.since_ms());
        Wall::from_micros(ms.saturating_mul(1_000))
    }
}

impl Place {
    /// Milliseconds from the beginning of the epoch.
    pub const fn since_ms(self) -> u64 {
        self.0 / SEQUENCES
    }

    /// The place `count` further back.
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

/// Whole milliseconds since 1970.
pub(super) const fn millis(now: Wall) -> u64 {
    now.as_micros() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_says_when_its_owner_came() {
        let epoch = Epoch(1_790_000_000_000);
        let now = Wall::from_micros(1_790_000_001_234_567);

        let place = epoch.place(now).plus(17);

        assert_eq!(place, Place(1_234 * 4_096 + 17));
        let came = Wall::from_micros(1_790_000_001_234_000);
        assert_eq!(epoch.arrival(place), came);
        assert_eq!(epoch.place(Wall::from_micros(5)), Place(0));
    }

    #[test]
    fn there_is_a_last_place_that_doubles_hold_exactly() {
        let far = Epoch(0).place_ms(u64::MAX);

        assert_eq!(far, Place(PLACE_MAX));
        assert_eq!(far.0 as f64 as u64, far.0);
        let years = far.since_ms() / 1_000 / 86_400 / 365;
        assert!(years >= 69, "{years}");
    }
}
