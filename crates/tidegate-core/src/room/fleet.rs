//! What one gateway goes by: its part of the rate, what its fleet has to spare, and how it goes on when nobody tells it.

use std::time::Duration;

use super::place::millis;
use super::{Bounds, Brake, Epoch, PLACE_MAX, Place, SEQUENCES};
use crate::health::TARGET_USED;
use crate::time::{Mono, Wall};

/// Of its part of the last rate a gateway lets in this much while the store is away: nobody knows by then how many gateways there
/// are, and what the others let in.
pub const ALONE_PART: f64 = 0.8;
/// So long after the last word of a leader its rate holds: by then there is another one.
const WORD_HOLDS: Duration = Duration::from_secs(4);
/// So much longer half of it does.
const WORD_LOST_AFTER: Duration = Duration::from_secs(30);
/// Of a line that its store has lost so much has to be back before it is moved.
const ENOUGH: f64 = 0.8;
/// Sequences of a millisecond that a store gives are below this one; those from it on are for gateways that go on by themselves.
const APART_FROM: u64 = SEQUENCES / 2;
/// Gateways that do not know which of them all they are draw one of so many parts.
const APART_DRAWN: u64 = 64;
/// What came in over this time beyond what was planned is made up for.
const DEBT_S: f64 = 60.0;

/// The part of `rate` that one of so many gateways has.
pub fn part(rate: f64, gateways: u32) -> f64 {
    rate.max(0.0) / f64::from(gateways.max(1))
}

/// What a fleet has to spare, in requests per second, by what is heard of it; `None` where nothing is.
///
/// What it can do is learnt only under load. Until then it is known how much of it is used: up to half of what may be there is
/// room for `rate_max`, and at all of it for nobody. `each` is what a visitor brings, and `ready` so many were called and have
/// not come.
pub fn spare(
    rps: Option<f64>,
    utilisation: Option<f64>,
    bounds: &Bounds,
    each: f64,
    ready: u64,
) -> Option<f64> {
    let is_number = |it: &f64| it.is_finite();
    if let Some(rps) = rps.filter(is_number) {
        return Some(rps.max(0.0));
    }
    let used = utilisation.filter(is_number)?;
    let free = ((TARGET_USED - used) / (TARGET_USED / 2.0)).clamp(0.0, 1.0);
    let fill = bounds.fill.as_secs_f64().max(1.0);
    Some(free * (bounds.rate_max * fill + ready as f64) * each)
}

/// The rate that holds when a leader said `rate` so long ago and nobody anything since, and what keeps it from being more; `brake`
/// is what the leader said of that.
pub fn unled(rate: f64, brake: Brake, silent: Duration, bounds: &Bounds) -> (f64, Brake) {
    if silent < WORD_HOLDS {
        (rate, brake)
    } else if silent < WORD_HOLDS + WORD_LOST_AFTER {
        (rate / 2.0, Brake::Unheard)
    } else {
        (bounds.rate_min.min(bounds.rate_max), Brake::Lost)
    }
}

/// So many have to be back in a line that its store has lost when so many were `alive` before; if nobody knows, nobody is called
/// before the line has settled.
pub fn enough(alive: Option<u64>) -> u64 {
    alive.map_or(PLACE_MAX, |alive| (alive as f64 * ENOUGH).ceil() as u64)
}

/// Places that a gateway gives while the store is away. No store gives any of them, and no other gateway.
#[derive(Clone, Copy, Debug)]
pub struct Apart {
    from: u64,
    count: u64,
    /// The millisecond of the last place, and the next sequence in it.
    at: Option<(u64, u64)>,
}

impl Apart {
    /// Those of gateway number `index`, from 0, of so many.
    pub fn of(index: u32, gateways: u32) -> Self {
        let all = SEQUENCES - APART_FROM;
        let gateways = u64::from(gateways).clamp(1, all);
        let count = all / gateways;
        Self {
            from: APART_FROM + u64::from(index) % gateways * count,
            count,
            at: None,
        }
    }

    /// Those of a gateway that does not know which of all it is, by `chance`: others hardly have the same.
    pub fn drawn(chance: u64) -> Self {
        Self::of((chance % APART_DRAWN) as u32, APART_DRAWN as u32)
    }

    /// The same from now on as gateway number `index` of so many.
    pub fn reseat(&mut self, index: u32, gateways: u32) {
        let seat = Self::of(index, gateways);
        if (seat.from, seat.count) != (self.from, self.count) {
            // What is left of the millisecond may be somebody else's now.
            let at = self.at.map(|(ms, _)| (ms + 1, seat.from));
            *self = Self { at, ..seat };
        }
    }

    /// The next place, for somebody who comes `now`.
    pub fn place(&mut self, epoch: Epoch, now: Wall) -> Place {
        let now_ms = millis(now).saturating_sub(epoch.0);
        let (ms, sequence) = match self.at {
            Some((ms, sequence)) if now_ms <= ms => (ms, sequence),
            _ => (now_ms, self.from),
        };
        let is_last = sequence + 1 == self.from + self.count;
        self.at = Some(if is_last {
            (ms + 1, self.from)
        } else {
            (ms, sequence + 1)
        });
        let place = ms.saturating_mul(SEQUENCES).saturating_add(sequence);
        Place(place.min(PLACE_MAX))
    }
}

/// How many a gateway calls that goes on by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone {
    /// How many may be called now, less those who went in otherwise.
    bucket: f64,
    at: Option<Mono>,
}

impl Alone {
    /// So many are called now, at `rate` per second, when `others` went in without since the last time.
    pub fn tick(&mut self, now: Mono, rate: f64, others: u64) -> u64 {
        let span = self.at.map_or(Duration::ZERO, |at| now.since(at));
        self.at = Some(now);
        let filled = self.bucket + rate * span.as_secs_f64() - others as f64;
        self.bucket = filled.clamp(-(rate * DEBT_S).max(1.0), rate.max(1.0));
        // What should be whole may be a hair less.
        let count = (self.bucket + 1e-9).floor().max(0.0);
        self.bucket -= count;
        count as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        rate_max: 100.0,
        rate_min: 0.5,
        fill: Duration::from_secs(30),
        active_max: None,
    };
    const EPOCH: Epoch = Epoch(1_790_000_000_000);

    fn at(ms: u64) -> Wall {
        Wall::from_micros((EPOCH.0 + ms) * 1_000)
    }

    #[test]
    fn the_parts_of_all_gateways_are_the_whole() {
        for gateways in [1, 3, 7] {
            let all = f64::from(gateways) * part(50.0, gateways);
            assert!((all - 50.0).abs() < 1e-9);
        }
        assert_eq!(part(50.0, 0), 50.0);
        assert_eq!(part(-1.0, 1), 0.0);
    }

    #[test]
    fn what_is_to_spare_is_believed_and_else_taken_from_what_is_used() {
        let of = |rps, used, ready| spare(rps, used, &BOUNDS, 2.0, ready);
        // As much as lets in at the most, whoever is on their way.
        let most = 2.0 * (100.0 * 30.0 + 40.0);

        assert_eq!(of(Some(7.0), Some(0.9), 40), Some(7.0));
        assert_eq!(of(None, Some(0.0), 40), Some(most));
        assert_eq!(of(None, Some(TARGET_USED / 2.0), 40), Some(most));
        let between = of(None, Some(TARGET_USED * 0.75), 40).unwrap();
        assert!((between - most / 2.0).abs() < 1e-6, "{between}");
        for used in [TARGET_USED, 0.9, 7.0] {
            assert_eq!(of(None, Some(used), 40), Some(0.0));
        }
        assert_eq!(of(None, None, 40), None);
        assert_eq!(of(Some(f64::NAN), None, 40), None);
    }

    #[test]
    fn a_rate_that_nobody_repeats_is_halved_and_then_the_least() {
        let after = |ms| unled(60.0, Brake::Spare, Duration::from_millis(ms), &BOUNDS);

        let rates = [0, 3_999, 4_000, 33_999, 34_000].map(after);

        let expected = [
            (60.0, Brake::Spare),
            (60.0, Brake::Spare),
            (30.0, Brake::Unheard),
            (30.0, Brake::Unheard),
            (0.5, Brake::Lost),
        ];
        assert_eq!(rates, expected);
    }

    #[test]
    fn four_in_five_have_to_be_back_and_all_where_nobody_knows_how_many_there_were() {
        assert_eq!(enough(Some(1_000)), 800);
        assert_eq!(enough(Some(1)), 1);
        assert_eq!(enough(Some(0)), 0);
        assert_eq!(enough(None), PLACE_MAX);
    }

    #[test]
    fn no_two_gateways_give_the_same_place_and_no_store_does() {
        for gateways in [1, 2, 3, 10, 2_048] {
            let mut all = BTreeSet::new();
            let mut given = 0;
            for index in 0..gateways {
                let mut apart = Apart::of(index, gateways);
                let mut last = None;
                for step in 0..300 {
                    let place = apart.place(EPOCH, at(step / 100));
                    assert!(place.0 % SEQUENCES >= APART_FROM, "{place:?}");
                    assert!(last < Some(place), "in the order in which they came");
                    last = Some(place);
                    all.insert(place);
                    given += 1;
                }
            }
            assert_eq!(all.len(), given, "{gateways}");
        }
    }

    #[test]
    fn a_place_given_apart_is_behind_those_who_came_before_and_before_those_who_come_later() {
        let mut apart = Apart::drawn(77);

        let place = apart.place(EPOCH, at(5_000));

        assert!(EPOCH.place(at(5_000)) < place && place < EPOCH.place(at(5_001)));
        apart.reseat(1, 2);
        let next = apart.place(EPOCH, at(5_000));
        assert!(place < next && next < EPOCH.place(at(5_002)), "{next:?}");
        let before = apart;
        apart.reseat(1, 2);
        assert_eq!(apart.at, before.at, "the same seat goes on where it was");
        let far = apart.place(EPOCH, Wall::from_micros(u64::MAX));
        assert!(far.0 <= PLACE_MAX);
    }

    #[test]
    fn alone_it_calls_at_the_rate_less_those_who_go_in_otherwise() {
        let called = |rate: f64, others: u64| {
            let mut alone = Alone::default();
            let ticks =
                (0..=400).map(|tick| alone.tick(Mono::from_millis(250 * tick), rate, others));
            ticks.sum::<u64>()
        };

        assert!((999..=1_000).contains(&called(10.0, 0)));
        assert!((599..=600).contains(&called(10.0, 1)));
        assert_eq!(called(10.0, 3), 0);
        assert!((19..=20).contains(&called(0.2, 0)));
    }

    #[test]
    fn alone_a_pause_saves_up_no_more_than_a_second() {
        let mut alone = Alone::default();
        alone.tick(Mono::default(), 10.0, 0);

        assert_eq!(alone.tick(Mono::from_millis(60_000), 10.0, 0), 10);
    }
}
