//! How far off waits have been that were told, and what follows for those to be told.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Place, Tier};
use crate::time::Mono;

/// Waits up to so many seconds are judged together; longer ones in a group of their own.
pub const HORIZONS: [u64; 6] = [120, 300, 600, 1_200, 2_400, 4_800];

/// Of ten waits this many are to be longer than the band says, and as many shorter.
const TAIL: f64 = 0.1;
/// How far an edge moves for a wait beyond it, in parts of what is told. Waits that end about the same time are off by about
/// as much, so quicker would follow the last of them and not all.
const STEP: f64 = 0.003;
/// An edge is no further off than that (a fifth, or five times as much), and no nearer.
const EDGE_MAX: f64 = 1.6;
const EDGE_MIN: f64 = 0.01;
/// Where the edges are before anything is known.
const EDGE: f64 = 0.25;
/// Waits that were told and have not ended.
const PENDING_MAX: usize = 4_096;
/// Over about so many waits the error is measured.
const ERROR_OVER: f64 = 1_000.0;

/// The edges of what is told.
///
/// Each edge, for waits of each length, is moved outwards by every wait that ended beyond it and inwards, by less, by every
/// other, so that one in ten ends beyond it. That follows what happens, where a spread that is computed from the past
/// would not: waits that end about the same time are off by about as much.
#[derive(Clone, Debug)]
pub struct Band {
    edges: [Edges; HORIZONS.len() + 1],
    pending: VecDeque<Told>,
    error: Error,
}

/// Logarithms of the parts.
#[derive(Clone, Copy, Debug)]
struct Edges {
    low: f64,
    high: f64,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    at: Mono,
    tier: Tier,
    place: Place,
    wait: Duration,
    low: Duration,
    high: Duration,
}

/// How far off what was told has been.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Error {
    /// By which part of the true wait it is off, on average over about the last 1,000.
    pub mean: f64,
    /// How many of these were between the edges, 0 to 1.
    pub inside: f64,
    /// How many waits have ended of those told.
    pub count: u64,
}

impl Default for Band {
    fn default() -> Self {
        Self::new()
    }
}

impl Band {
    /// One that has seen nothing.
    pub const fn new() -> Self {
        let edges = Edges {
            low: -EDGE,
            high: EDGE,
        };
        Self {
            edges: [edges; HORIZONS.len() + 1],
            pending: VecDeque::new(),
            error: Error {
                mean: 0.0,
                inside: 0.0,
                count: 0,
            },
        }
    }

    /// Between which waits one of about `wait` will be, four times in five.
    pub fn around(&self, wait: Duration) -> (Duration, Duration) {
        let Edges { low, high } = self.edges[horizon(wait)];
        (wait.mul_f64(low.exp()), wait.mul_f64(high.exp()))
    }

    /// Whoever waits at `place` in `tier` is told to wait for `wait`. It is to be told every ten seconds for some places all
    /// over the line; of those that have not ended, 4,096 are kept.
    pub fn tell(&mut self, now: Mono, tier: Tier, place: Place, wait: Duration) {
        if self.pending.len() == PENDING_MAX {
            self.pending.pop_front();
        }
        let (low, high) = self.around(wait);
        self.pending.push_back(Told {
            at: now,
            tier,
            place,
            wait,
            low,
            high,
        });
    }

    /// The first of those who wait, by tier: whoever stood before them waits no more.
    pub fn served(&mut self, now: Mono, first: [Option<Place>; Tier::COUNT]) {
        let mut ended = Vec::new();
        self.pending.retain(|told| {
            let waits = first[told.tier.index()].is_some_and(|first| first <= told.place);
            if !waits {
                ended.push(*told);
            }
            waits
        });
        for told in ended {
            self.learn(&told, now.since(told.at));
        }
    }

    /// Forgets who was told what, without a lesson: after a change that nobody could foresee, or another epoch.
    pub fn forget(&mut self) {
        self.pending.clear();
    }

    /// How far off it has been.
    pub const fn error(&self) -> Error {
        self.error
    }

    fn learn(&mut self, told: &Told, took: Duration) {
        let (wait, took_s) = (told.wait.as_secs_f64(), took.as_secs_f64());
        // Below a second there is nothing to tell.
        if wait < 1.0 || took_s < 1.0 {
            return;
        }
        let off = (took_s / wait).ln();
        let edges = &mut self.edges[horizon(told.wait)];
        edges.low += if off < edges.low { TAIL - 1.0 } else { TAIL } * STEP;
        edges.high += if off > edges.high { 1.0 - TAIL } else { -TAIL } * STEP;
        edges.low = edges.low.clamp(-EDGE_MAX, -EDGE_MIN);
        edges.high = edges.high.clamp(EDGE_MIN, EDGE_MAX);
        let is_inside = told.low <= took && took <= told.high;
        self.error.learn((wait / took_s - 1.0).abs(), is_inside);
    }
}

impl Error {
    fn learn(&mut self, off: f64, is_inside: bool) {
        self.count += 1;
        let weight = 1.0 / (self.count as f64).min(ERROR_OVER);
        self.mean += weight * (off - self.mean);
        self.inside += weight * (f64::from(u8::from(is_inside)) - self.inside);
    }
}

fn horizon(wait: Duration) -> usize {
    HORIZONS.partition_point(|seconds| *seconds <= wait.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const WAIT: Duration = Duration::from_secs(600);

    /// Tells one wait after another, each of which takes `factor` of what was told.
    fn after(count: u64, mut factor: impl FnMut() -> f64) -> (Band, f64) {
        let mut band = Band::new();
        let mut inside = 0;
        for number in 0..count {
            let now = Mono::from_millis(10_000_000 * number);
            let (low, high) = band.around(WAIT);
            band.tell(now, Tier::Anonymous, Place(number), WAIT);
            let took = WAIT.mul_f64(factor());
            if number >= count / 2 {
                inside += u64::from(low <= took && took <= high);
            }
            band.served(now + took, [None; 3]);
        }
        (band, inside as f64 / (count / 2) as f64)
    }

    #[test]
    fn four_in_five_end_between_the_edges_whatever_is_wrong_with_what_is_told() {
        for (bias, spread) in [(1.0, 0.1), (1.0, 0.5), (1.3, 0.3), (0.7, 0.6)] {
            let mut rng = Rng::new(2);

            let (band, inside) = after(8_000, || bias * (1.0 + spread * (2.0 * rng.unit() - 1.0)));

            println!("{bias} ± {spread}: {inside:.3}, {:?}", band.error());
            assert!(
                (0.75..=0.9).contains(&inside),
                "{bias} ± {spread}: {inside}"
            );
            assert_eq!(band.error().count, 8_000);
        }
    }

    #[test]
    fn the_error_is_what_it_was_off_by() {
        let (band, _) = after(3_000, || 0.5);

        let error = band.error();
        assert!((error.mean - 1.0).abs() < 1e-9, "{error:?}");
    }

    #[test]
    fn a_wait_ends_when_the_front_of_its_tier_has_passed_it() {
        let mut band = Band::new();
        let first = |place| [None, None, Some(Place(place))];
        band.tell(Mono::default(), Tier::Anonymous, Place(50), WAIT);

        band.served(Mono::from_millis(60_000), first(50));
        assert_eq!(band.error().count, 0);
        band.served(Mono::from_millis(600_000), first(51));

        let error = band.error();
        assert_eq!((error.count, error.inside), (1, 1.0));
        assert!(error.mean < 1e-9);
    }

    #[test]
    fn so_many_are_remembered_and_no_more() {
        let mut band = Band::new();
        for number in 0..2 * PENDING_MAX as u64 {
            band.tell(Mono::default(), Tier::SignedIn, Place(number), WAIT);
        }

        band.served(Mono::from_millis(1_000), [None; 3]);

        assert_eq!(band.error().count, PENDING_MAX as u64);
        band.tell(Mono::default(), Tier::SignedIn, Place(1), WAIT);
        band.forget();
        band.served(Mono::from_millis(1_000), [None; 3]);
        assert_eq!(band.error().count, PENDING_MAX as u64);
    }
}
