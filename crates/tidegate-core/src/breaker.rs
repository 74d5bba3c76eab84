//! A breaker: stops calling what does not answer, and finds out when it answers again.
//!
//! It passes calls, trips, and after a while probes; live calls never probe, except through
//! [`live::LiveBreaker`]. Its owner tells it how calls and probes ended, and when: it reads no clock and
//! draws no random number of its own.

pub mod live;

use std::collections::VecDeque;
use std::time::Duration;

use crate::rng::Rng;
use crate::time::Mono;

/// When a breaker trips, for how long, and when it passes calls again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerPlan {
    /// Trips at so many failures in a row, 1 and more.
    pub failures: u32,
    /// Trips when this part of the calls of the last second failed, in (0, 1], ...
    pub share: f64,
    /// ... and they were at least so many, 1 and more.
    pub calls: u32,
    /// Trips at so many refusals within a second, 1 and more. A refusal is an answer that says that
    /// the other side is not what it should be, such as a primary that has become a replica.
    pub refusals: u32,
    /// How long it is tripped the first time, and when some probes were good; twice as long each time
    /// that not even the first one was.
    pub tripped_min: Duration,
    /// How long it is tripped at most. About so much after its return the other side is used again,
    /// whatever came before.
    pub tripped_max: Duration,
    /// How much shorter or longer than that it may be, in [0, 1): callers that tripped together
    /// are not to probe together.
    pub jitter: f64,
    /// Passes calls again after so many good probes in a row, 1 and more.
    pub probes: u32,
    /// A probe that took so long or longer is no good.
    pub probe_within: Duration,
}

/// What a breaker lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Every call.
    Passing,
    /// Nothing.
    Tripped {
        /// When it begins to probe.
        until: Mono,
    },
    /// Probes, and no call.
    Probing {
        /// Good ones so far.
        good: u32,
    },
}

/// Why a breaker tripped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trip {
    /// Too many failures in a row.
    InARow,
    /// Too large a part of the calls failed.
    Share,
    /// Too many refusals.
    Refusals,
    /// A probe was no good.
    Probe,
    /// Its owner knew.
    Told,
}

/// What changed, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It passes no calls any more, or probing has failed.
    Tripped(Trip),
    /// It begins to probe.
    Probing,
    /// It passes calls again.
    Passing,
}

/// The breaker before one thing that is called.
#[derive(Clone, Debug)]
pub struct Breaker {
    plan: BreakerPlan,
    state: BreakerState,
    in_a_row: u32,
    window: Window,
    refusals: VecDeque<Mono>,
    /// How often it tripped without a good while in between.
    trips: u32,
    passing_since: Option<Mono>,
}

impl Trip {
    /// Every reason.
    pub const ALL: [Self; 5] = [
        Self::InARow,
        Self::Share,
        Self::Refusals,
        Self::Probe,
        Self::Told,
    ];

    /// Position in [`Trip::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InARow => "in-a-row",
            Self::Share => "share",
            Self::Refusals => "refusals",
            Self::Probe => "probe",
            Self::Told => "told",
        }
    }
}

impl BreakerPlan {
    /// What the stores use: one that is back has its first probe after 0.48 s at the latest, and one
    /// that stays away is asked two or three times a second.
    pub const STORE: Self = Self {
        failures: 5,
        share: 0.5,
        calls: 20,
        refusals: 3,
        tripped_min: Duration::from_millis(250),
        tripped_max: Duration::from_millis(400),
        jitter: 0.2,
        probes: 10,
        probe_within: Duration::from_millis(8),
    };

    /// For what the application depends on and what it is itself, whose calls take their time and do their own probing: three
    /// good ones in a row. One that is back is used again after six seconds at the latest, if it is called then.
    pub const CALLS: Self = Self {
        failures: 5,
        share: 0.5,
        calls: 20,
        refusals: 3,
        tripped_min: Duration::from_millis(500),
        tripped_max: Duration::from_secs(5),
        jitter: 0.2,
        probes: 3,
        probe_within: Duration::from_secs(1),
    };
}

impl Breaker {
    /// A breaker that passes calls.
    pub const fn new(plan: BreakerPlan) -> Self {
        Self {
            plan,
            state: BreakerState::Passing,
            in_a_row: 0,
            window: Window::new(),
            refusals: VecDeque::new(),
            trips: 0,
            passing_since: None,
        }
    }

    /// What it lets through.
    pub const fn state(&self) -> BreakerState {
        self.state
    }

    /// Whether calls pass.
    pub const fn passes(&self) -> bool {
        matches!(self.state, BreakerState::Passing)
    }

    /// A call was answered.
    pub fn answered(&mut self, now: Mono) {
        if self.passes() {
            self.in_a_row = 0;
            self.window.add(now, false);
        }
    }

    /// A call had no answer: a timeout, a broken connection.
    pub fn failed(&mut self, now: Mono, rng: &mut Rng) -> Option<Change> {
        // Calls that began before it tripped still come in; they say nothing new.
        if !self.passes() {
            return None;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.window.add(now, true);
        if self.in_a_row >= self.plan.failures {
            return Some(self.trip(now, Trip::InARow, rng));
        }
        let (failed, calls) = self.window.sums(now);
        let share = f64::from(failed) / f64::from(calls.max(1));
        (calls >= self.plan.calls && share >= self.plan.share)
            .then(|| self.trip(now, Trip::Share, rng))
    }

    /// A call was refused; that is a failure, too.
    pub fn refused(&mut self, now: Mono, rng: &mut Rng) -> Option<Change> {
        if !self.passes() {
            return None;
        }
        self.refusals.push_back(now);
        while self.refusals.len() > self.plan.refusals as usize {
            self.refusals.pop_front();
        }
        let burst = self.refusals.len() >= self.plan.refusals as usize
            && self
                .refusals
                .front()
                .is_some_and(|&first| now.since(first) <= WINDOW);
        if burst {
            return Some(self.trip(now, Trip::Refusals, rng));
        }
        self.failed(now, rng)
    }

    /// Its owner knows that calls would fail.
    pub fn told(&mut self, now: Mono, rng: &mut Rng) -> Option<Change> {
        self.passes().then(|| self.trip(now, Trip::Told, rng))
    }

    /// When to call [`Breaker::probe`] next; `None` while calls pass.
    pub const fn probe_at(&self) -> Option<Mono> {
        match self.state {
            BreakerState::Passing => None,
            BreakerState::Tripped { until } => Some(until),
            BreakerState::Probing { .. } => Some(Mono::from_nanos(0)),
        }
    }

    /// Begins to probe if it is time.
    pub fn probe(&mut self, now: Mono) -> Option<Change> {
        let BreakerState::Tripped { until } = self.state else {
            return None;
        };
        if now < until {
            return None;
        }
        self.state = BreakerState::Probing { good: 0 };
        Some(Change::Probing)
    }

    /// Makes it time to probe: its owner has learnt something, such as the address of a new primary.
    pub fn hurry(&mut self, now: Mono) {
        if let BreakerState::Tripped { until } = &mut self.state {
            *until = now.min(*until);
        }
    }

    /// A probe was answered after `took`, or failed.
    pub fn probed(&mut self, now: Mono, took: Option<Duration>, rng: &mut Rng) -> Option<Change> {
        let BreakerState::Probing { good } = self.state else {
            return None;
        };
        if took.is_none_or(|took| took >= self.plan.probe_within) {
            if good > 0 {
                // It is there, and this was a bad moment: another one is not far off.
                self.trips = 0;
            }
            return Some(self.trip(now, Trip::Probe, rng));
        }
        let good = good + 1;
        if good < self.plan.probes {
            self.state = BreakerState::Probing { good };
            return None;
        }
        self.state = BreakerState::Passing;
        self.passing_since = Some(now);
        self.in_a_row = 0;
        self.window = Window::new();
        self.refusals.clear();
        Some(Change::Passing)
    }

    fn trip(&mut self, now: Mono, why: Trip, rng: &mut Rng) -> Change {
        // One that comes and goes is left alone for somewhat longer; a good while makes up for it.
        let good_while = |since: Mono| now.since(since) >= self.plan.tripped_max;
        if self.passing_since.take().is_some_and(good_while) {
            self.trips = 0;
        }
        let doubled = self.plan.tripped_min * 2u32.saturating_pow(self.trips.min(DOUBLINGS_MAX));
        let wait = doubled.min(self.plan.tripped_max);
        let stretch = 1.0 + self.plan.jitter * (2.0 * rng.unit() - 1.0);
        self.trips = self.trips.saturating_add(1);
        self.state = BreakerState::Tripped {
            until: now + wait.mul_f64(stretch),
        };
        Change::Tripped(why)
    }
}

/// Keeps the doubling inside what a duration holds.
const DOUBLINGS_MAX: u32 = 16;
/// How long a call counts.
const WINDOW: Duration = Duration::from_secs(1);
const SLICES: usize = 10;
const SLICE_NANOS: u64 = WINDOW.as_nanos() as u64 / SLICES as u64;

/// Calls of the last second, in slices of a tenth: what is older than nine tenths may be forgotten.
#[derive(Clone, Debug)]
struct Window {
    slices: [Slice; SLICES],
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    /// Which tenth of a second since the origin.
    number: u64,
    failed: u32,
    calls: u32,
}

impl Window {
    const fn new() -> Self {
        let empty = Slice {
            number: 0,
            failed: 0,
            calls: 0,
        };
        Self {
            slices: [empty; SLICES],
        }
    }

    fn add(&mut self, now: Mono, failed: bool) {
        let number = now.as_nanos() / SLICE_NANOS;
        let slice = &mut self.slices[(number % SLICES as u64) as usize];
        if slice.number < number {
            *slice = Slice {
                number,
                failed: 0,
                calls: 0,
            };
        }
        slice.calls = slice.calls.saturating_add(1);
        slice.failed = slice.failed.saturating_add(u32::from(failed));
    }

    /// Those that failed, and all.
    fn sums(&self, now: Mono) -> (u32, u32) {
        let oldest = (now.as_nanos() / SLICE_NANOS).saturating_sub(SLICES as u64 - 1);
        let counted = self.slices.iter().filter(|slice| slice.number >= oldest);
        counted.fold((0, 0), |(failed, calls), slice| {
            (
                failed.saturating_add(slice.failed),
                calls.saturating_add(slice.calls),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    const PLAN: BreakerPlan = BreakerPlan::STORE;
    const QUICK: Option<Duration> = Some(Duration::from_millis(1));

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    fn tripped_at(ms: u64, rng: &mut Rng) -> Breaker {
        let mut breaker = Breaker::new(PLAN);
        breaker.told(at(ms), rng).unwrap();
        breaker
    }

    fn until(breaker: &Breaker) -> Mono {
        match breaker.state() {
            BreakerState::Tripped { until } => until,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn failures_in_a_row_trip_it_and_an_answer_breaks_the_row() {
        let (mut breaker, mut rng) = (Breaker::new(PLAN), Rng::new(1));

        for ms in 0..4 {
            assert_eq!(breaker.failed(at(ms), &mut rng), None);
        }
        breaker.answered(at(4));
        for ms in 5..9 {
            assert_eq!(breaker.failed(at(ms), &mut rng), None);
        }

        let tripped = breaker.failed(at(9), &mut rng);
        assert_eq!(tripped, Some(Change::Tripped(Trip::InARow)));
        assert!(!breaker.passes());
        assert_eq!(breaker.failed(at(9), &mut rng), None);
    }

    #[test]
    fn half_of_twenty_calls_in_a_second_trip_it_and_older_ones_do_not_count() {
        let (mut breaker, mut rng) = (Breaker::new(PLAN), Rng::new(1));
        for _ in 0..9 {
            breaker.answered(at(0));
            assert_eq!(breaker.failed(at(0), &mut rng), None);
        }
        for ms in [1_000, 1_001, 1_002] {
            breaker.answered(at(ms));
            assert_eq!(breaker.failed(at(ms), &mut rng), None);
        }
        for _ in 0..6 {
            breaker.answered(at(1_010));
            assert_eq!(breaker.failed(at(1_010), &mut rng), None);
        }

        breaker.answered(at(1_900));

        let tripped = breaker.failed(at(1_900), &mut rng);
        assert_eq!(tripped, Some(Change::Tripped(Trip::Share)));
    }

    #[test]
    fn a_burst_of_refusals_trips_it_and_scattered_ones_do_not() {
        let (mut breaker, mut rng) = (Breaker::new(PLAN), Rng::new(1));
        for ms in [0, 900, 1_800] {
            breaker.answered(at(ms));
            assert_eq!(breaker.refused(at(ms), &mut rng), None);
        }

        let tripped = breaker.refused(at(1_850), &mut rng);

        assert_eq!(tripped, Some(Change::Tripped(Trip::Refusals)));
    }

    #[test]
    fn it_passes_again_after_enough_good_probes_and_not_before() {
        let mut rng = Rng::new(1);
        let mut breaker = tripped_at(0, &mut rng);
        assert_eq!(breaker.probe(at(100)), None);
        let start = until(&breaker);

        assert_eq!(breaker.probe(start), Some(Change::Probing));
        for _ in 0..9 {
            assert_eq!(breaker.probed(start, QUICK, &mut rng), None);
            assert!(!breaker.passes());
        }

        let passing = breaker.probed(start, QUICK, &mut rng);
        assert_eq!(passing, Some(Change::Passing));
        assert!(breaker.passes());
    }

    #[test]
    fn a_failed_or_slow_probe_trips_it_for_twice_as_long_up_to_the_most() {
        let mut rng = Rng::new(1);
        let mut breaker = tripped_at(0, &mut rng);
        let slow = Some(PLAN.probe_within);
        let (mut began, mut wanted) = (at(0), PLAN.tripped_min);

        for round in 0..12 {
            let wait = until(&breaker).since(began).as_secs_f64() / wanted.as_secs_f64();
            assert!((0.8..=1.2).contains(&wait), "round {round}: {wait}");
            began = until(&breaker);
            breaker.probe(began);
            let bad = if round % 2 == 0 { None } else { slow };
            let tripped = breaker.probed(began, bad, &mut rng);
            assert_eq!(tripped, Some(Change::Tripped(Trip::Probe)));
            wanted = (wanted * 2).min(PLAN.tripped_max);
        }

        // Once some are good again, it is not left alone for long because of one that is not.
        breaker.probe(began);
        began = until(&breaker);
        breaker.probe(began);
        assert_eq!(breaker.probed(began, QUICK, &mut rng), None);
        breaker.probed(began, slow, &mut rng).unwrap();
        let wait = until(&breaker).since(began);
        assert!(wait <= PLAN.tripped_min.mul_f64(1.2), "{wait:?}");
    }

    #[test]
    fn one_that_comes_and_goes_is_left_alone_for_longer_until_it_was_good_for_a_while() {
        let mut rng = Rng::new(1);
        let plan = BreakerPlan {
            jitter: 0.0,
            ..PLAN
        };
        let mut breaker = Breaker::new(plan);
        let mut pass_and_trip = |breaker: &mut Breaker, passing: Duration| {
            let mut now = breaker.probe_at().unwrap_or_default();
            breaker.probe(now);
            for _ in 0..10 {
                breaker.probed(now, QUICK, &mut rng);
            }
            now = now + passing;
            breaker.told(now, &mut rng).unwrap();
            until(breaker).since(now)
        };

        let waits = [0, 10, 390, 400]
            .map(|passing| pass_and_trip(&mut breaker, Duration::from_millis(passing)).as_millis());

        assert_eq!(waits, [250, 400, 400, 250]);
    }

    #[test]
    fn news_of_the_other_side_bring_the_probe_forward() {
        let mut rng = Rng::new(1);
        let mut breaker = tripped_at(0, &mut rng);

        breaker.hurry(at(5));

        assert_eq!(breaker.probe_at(), Some(at(5)));
        assert_eq!(breaker.probe(at(5)), Some(Change::Probing));
    }

    proptest! {
        #[test]
        fn whatever_happens_it_probes_before_it_passes_and_is_never_tripped_for_too_long(
            events in prop::collection::vec((0u8..6, 0u64..400), 0..400),
            seed in any::<u64>(),
        ) {
            let (mut breaker, mut rng) = (Breaker::new(PLAN), Rng::new(seed));
            let mut now = Mono::default();
            for (event, later_ms) in events {
                now = now + Duration::from_millis(later_ms);
                let before = breaker.state();
                let change = match event {
                    0 => { breaker.answered(now); None }
                    1 => breaker.failed(now, &mut rng),
                    2 => breaker.refused(now, &mut rng),
                    3 => breaker.probe(now),
                    4 => breaker.probed(now, QUICK, &mut rng),
                    _ => breaker.probed(now, None, &mut rng),
                };
                let after = breaker.state();
                match change {
                    None => prop_assert_eq!(
                        std::mem::discriminant(&before),
                        std::mem::discriminant(&after)
                    ),
                    Some(Change::Passing) => {
                        let last = BreakerState::Probing { good: PLAN.probes - 1 };
                        prop_assert_eq!(before, last);
                    }
                    Some(Change::Probing) => {
                        let due = matches!(before, BreakerState::Tripped { until } if until <= now);
                        prop_assert!(due);
                    }
                    Some(Change::Tripped(_)) => {
                        let wait = until(&breaker).since(now);
                        prop_assert!(wait >= PLAN.tripped_min.mul_f64(0.8));
                        prop_assert!(wait <= PLAN.tripped_max.mul_f64(1.2));
                    }
                }
            }
        }
    }
}
