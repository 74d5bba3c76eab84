//! Who goes before whom.

use super::{PLACE_MAX, Place, SEQUENCES, Tier};

/// Longest head start, in milliseconds: a day.
pub const CREDIT_MAX_MS: u64 = 86_400_000;

/// Who goes before whom. In a tier it is always whoever came first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// A tier goes before all that are behind it, however long those have waited.
    #[default]
    Strict,
    /// Each tier counts as if it had come so many milliseconds earlier, [`CREDIT_MAX_MS`] at most. Nobody is overtaken by
    /// whoever came later than the difference.
    Credit([u64; Tier::COUNT]),
}

impl Order {
    /// The tier whose next one goes first, of those of whom the first `look` were looked at and `at` so many taken. `None`
    /// when nobody is left, or when it would take looking further to know.
    pub(super) fn next(
        &self,
        heads: &[Vec<Place>; Tier::COUNT],
        at: &[usize; Tier::COUNT],
        look: usize,
    ) -> Option<Tier> {
        let mut best: Option<(i64, Tier)> = None;
        for tier in Tier::ALL {
            let index = tier.index();
            match (heads[index].get(at[index]), self) {
                (None, _) if at[index] == look => return None,
                (None, _) => {}
                (Some(_), Self::Strict) => return Some(tier),
                (Some(place), Self::Credit(_)) => {
                    let level = place.0 as i64 - self.credit(tier);
                    if best.is_none_or(|(least, _)| level < least) {
                        best = Some((level, tier));
                    }
                }
            }
        }
        best.map(|(_, tier)| tier)
    }

    /// In each tier, who goes before whoever has `place` in `tier`: all places below these.
    pub fn bounds(&self, tier: Tier, place: Place) -> [Place; Tier::COUNT] {
        let all = Place(PLACE_MAX);
        Tier::ALL.map(|other| match self {
            _ if other == tier => place,
            Self::Strict if other < tier => all,
            Self::Strict => Place(0),
            Self::Credit(_) => {
                let ahead = self.credit(other) - self.credit(tier);
                // Where both count as much, the earlier tier goes first.
                let level = place.0 as i64 + ahead + i64::from(other < tier);
                Place(level.clamp(0, PLACE_MAX as i64) as u64)
            }
        })
    }

    /// So many milliseconds each tier counts as if it had come earlier; none where tiers go strictly by turns.
    pub fn credits_ms(&self) -> [u64; Tier::COUNT] {
        match self {
            Self::Strict => [0; Tier::COUNT],
            Self::Credit(ms) => ms.map(|ms| ms.min(CREDIT_MAX_MS)),
        }
    }

    fn credit(&self, tier: Tier) -> i64 {
        (self.credits_ms()[tier.index()] * SEQUENCES) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const MINUTES: u64 = 60_000;

    /// Who goes first of one in each tier.
    fn first(order: Order, places: [Option<Place>; Tier::COUNT]) -> Option<Tier> {
        let heads = places.map(|place| place.into_iter().collect());
        order.next(&heads, &[0; Tier::COUNT], 10)
    }

    #[test]
    fn strictly_a_tier_goes_before_all_behind_it() {
        let order = Order::Strict;

        let places = [Some(Place(900)), None, Some(Place(1))];
        assert_eq!(first(order, places), Some(Tier::Returning));
        let places = [None, None, Some(Place(1))];
        assert_eq!(first(order, places), Some(Tier::Anonymous));
        assert_eq!(first(order, [None; Tier::COUNT]), None);

        let bounds = order.bounds(Tier::SignedIn, Place(7));
        assert_eq!(bounds, [Place(PLACE_MAX), Place(7), Place(0)]);
    }

    #[test]
    fn with_credit_nobody_is_overtaken_by_who_came_later_than_the_difference() {
        let order = Order::Credit([20 * MINUTES, 5 * MINUTES, 0]);
        let at = |minutes: u64| Place(minutes * MINUTES * SEQUENCES);
        let goes = |tier: Tier, place: Place| {
            let mut places = [None, None, Some(at(30))];
            places[tier.index()] = Some(place);
            first(order, places)
        };

        assert_eq!(goes(Tier::Returning, at(50)), Some(Tier::Returning));
        let just_later = Place(at(50).0 + 1);
        assert_eq!(goes(Tier::Returning, just_later), Some(Tier::Anonymous));
        assert_eq!(goes(Tier::SignedIn, at(35)), Some(Tier::SignedIn));
    }

    #[test]
    fn a_tier_of_whom_only_silent_ones_were_looked_at_is_not_passed_over() {
        let heads = [vec![Place(1), Place(2)], vec![], vec![Place(0)]];
        for order in [Order::Strict, Order::Credit([0; Tier::COUNT])] {
            assert_eq!(order.next(&heads, &[2, 0, 0], 2), None);
            let goes = order.next(&heads, &[2, 0, 0], 3);
            assert_eq!(goes, Some(Tier::Anonymous));
        }
    }

    #[test]
    fn the_bounds_are_where_one_goes_first() {
        let mut rng = Rng::new(3);
        let orders = [
            Order::Strict,
            Order::Credit([3, 2, 0]),
            Order::Credit([0, 0, 0]),
        ];
        for order in orders {
            for _ in 0..2_000 {
                let one = |rng: &mut Rng| {
                    let tier = Tier::ALL[rng.below(3) as usize];
                    (tier, Place(rng.below(5 * SEQUENCES)))
                };
                let (own, other) = (one(&mut rng), one(&mut rng));
                if own.0 == other.0 {
                    continue;
                }

                let mut places = [None; Tier::COUNT];
                places[own.0.index()] = Some(own.1);
                places[other.0.index()] = Some(other.1);
                let is_before = first(order, places) == Some(other.0);

                let bound = order.bounds(own.0, own.1)[other.0.index()];
                assert_eq!(other.1 < bound, is_before, "{order:?} {own:?} {other:?}");
            }
        }
    }
}
