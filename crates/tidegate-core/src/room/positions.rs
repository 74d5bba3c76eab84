//! How many are before each place, from one document for all.

use super::line::mark_step;
use super::{Census, Order, Place, Tier};

/// Every so many of those who wait in a tier, the first one first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// How many wait.
    pub waiting: u64,
    /// How many a mark stands for.
    pub step: u64,
    /// The places.
    pub places: Vec<Place>,
}

/// What everybody needs to find out how many are before them. It is the same for all, so that any cache may keep it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// Who goes before whom.
    pub order: Order,
    /// By tier.
    pub tiers: [Marks; Tier::COUNT],
}

impl Marks {
    /// How many places of the tier are below `bound`.
    fn below(&self, bound: Place) -> u64 {
        self.passed(bound) as u64
    }

    /// How many of those who stood here a front has passed that is at `bound` now: exact at a mark, and in between as if
    /// people came evenly.
    pub(super) fn passed(&self, bound: Place) -> f64 {
        let known = self.places.partition_point(|place| *place < bound);
        let Some(last) = known.checked_sub(1) else {
            return 0.0;
        };
        let (from, at) = (self.places[last], last as u64 * self.step);
        let (to, upto) = match self.places.get(known) {
            Some(next) => (*next, known as u64 * self.step),
            // Behind the last mark there is less than a step.
            None => return self.waiting.min(at + self.step) as f64,
        };
        let part = (bound.0 - from.0) as f64 / (to.0 - from.0) as f64;
        at as f64 + (upto - at) as f64 * part
    }
}

impl Positions {
    /// From what a store counted.
    pub fn of(order: Order, census: &Census) -> Self {
        let tiers = [0, 1, 2].map(|index: usize| Marks {
            waiting: census.waiting[index],
            step: mark_step(census.waiting[index]),
            places: census.marks[index].clone(),
        });
        Self { order, tiers }
    }

    /// How many of the living go before whoever waits at `place` in `tier`. Off by less than a step in each tier that is
    /// not wholly before or behind.
    pub fn ahead(&self, tier: Tier, place: Place) -> u64 {
        let bounds = self.order.bounds(tier, place);
        let each = self.tiers.iter().zip(bounds);
        each.map(|(marks, bound)| marks.below(bound)).sum()
    }

    /// How many wait.
    pub fn waiting(&self) -> u64 {
        self.tiers.iter().map(|marks| marks.waiting).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::room::{Beat, Ledger, Rules};
    use crate::time::Wall;

    const RULES: Rules = Rules {
        waiting_max: 100_000,
        misses_max: 3,
        settle_ms: 0,
        ticket_ms: 86_400_000,
    };

    #[test]
    fn from_the_document_everybody_knows_their_position_to_within_a_step() {
        let mut rng = Rng::new(6);
        let mut ledger = Ledger::default();
        let mut now = Wall::from_micros(1_790_000_000_000_000);
        let epoch = ledger.open(now, &RULES, None);
        let mut waiting = Vec::new();
        for _ in 0..20_000 {
            now = Wall::from_micros(now.as_micros() + rng.below(20_000));
            let place = ledger.join(now, &RULES, epoch, 1).unwrap();
            let tier = Tier::ALL[rng.below(3) as usize];
            let beat = Beat {
                place,
                tier,
                may_enter: true,
            };
            ledger.beat(now, &RULES, epoch, place, &[beat]).unwrap();
            waiting.push((tier, place));
        }
        let census = ledger.census(now, &RULES, epoch, Place(0)).unwrap();
        for order in [Order::Strict, Order::Credit([40_000, 10_000, 0])] {
            let document = Positions::of(order, &census);
            assert_eq!(document.waiting(), 20_000);
            let steps = document.tiers.iter().map(|marks| marks.step).sum::<u64>();
            for asked in waiting.iter().step_by(37) {
                let found = ledger.find(now, &RULES, epoch, &order, *asked).unwrap();
                let told = document.ahead(asked.0, asked.1);
                let off = told.abs_diff(found.ahead);
                assert!(off <= steps, "{order:?}: {told}, and it is {}", found.ahead);
            }
        }
        let marks = census.marks.iter().map(Vec::len).sum::<usize>();
        assert!(marks <= 256, "{marks}");
    }

    #[test]
    fn nobody_is_before_the_first_and_nobody_is_counted_twice() {
        let empty = Positions::default();
        assert_eq!(empty.ahead(Tier::Anonymous, Place(9)), 0);

        let census = Census {
            waiting: [0, 0, 3],
            marks: [vec![], vec![], vec![Place(4)]],
            ..Census::default()
        };
        let few = Positions::of(Order::Strict, &census);
        assert_eq!(few.ahead(Tier::Anonymous, Place(4)), 0);
        assert_eq!(few.ahead(Tier::Anonymous, Place(1_000)), 3);
        assert_eq!(few.ahead(Tier::SignedIn, Place(1_000)), 0);
    }
}
