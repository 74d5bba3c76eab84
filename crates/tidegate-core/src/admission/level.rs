//! Down to which class, and which part of its users, requests are let in.
//!
//! A full queue refuses requests, not users: a page of six requests then half fails, and whoever
//! asked for it comes back. The level cuts whole cohorts of users instead, out of the lowest class
//! that has any left, so that a user is served as a whole or not at all; and it says so before
//! anything has to wait. After DAGOR (Zhou et al., "Overload control for scaling WeChat
//! microservices", 2018), but the level is not felt for by steps: what is asked for is known by class
//! and cohort, and these are filled from above, like water, up to what can be done.
//!
//! What can be done is slots ÷ mean time of what was in time, less the part that is late. A throughput
//! is not measured: it would shrink with whatever the level lets in. The queue corrects what this leaves out
//! (a PI controller): while it is longer than it needs to be, or somebody leaves it in vain, less is
//! let in, and more while it is shorter.

use std::fmt;
use std::time::Duration;

use super::demand::{Demand, FADED_STEPS, STEPS, faded, step};
use crate::facts::{COHORTS, Class, Facts};
use crate::time::{Mono, nanos};

/// How often the level is worked out anew.
const STEP: Duration = Duration::from_millis(100);

/// What a steady count comes to, in seconds of what is counted.
const SPAN: f64 = (FADED_STEPS * STEP.as_millis() as u64) as f64 / 1e3;

/// After as many steps without an event nothing is left of any count.
const FADED: u128 = 1000;

/// The part of the longest wait that the oldest is to have waited while the level cuts: enough to keep
/// the slots busy, and nobody leaves in vain.
const WAIT: f64 = 0.25;

/// The part of what can be done that has to be lost, over a second, before cutting begins.
const LOST_FIRST: f64 = 0.02;

/// While cutting, losing as much of what can be done is as bad as any wait.
const LOST: f64 = 0.05;

/// How much the newest step counts in what waits and losses are on average.
const SMOOTHING: f64 = 0.3;

/// The same for the slots: a limit that learns moves to and fro, and the queue makes up for that.
const SMOOTHING_SLOTS: f64 = 0.1;

/// The proportional part of a correction.
const PROPORTIONAL: f64 = 0.03;

/// The integral part of it, per second. Slow, since a cohort that is let in asks for more than one
/// that is turned away at its first request.
const INTEGRAL: f64 = 0.02;

/// At most as many times what can be done is let in.
const FACTOR_MAX: f64 = 1.5;

/// And at least.
const FACTOR_MIN: f64 = 0.6;

/// A level is left where it is for as long as it is right to so many cohorts: users at the edge
/// should not come and go.
const HYSTERESIS: u16 = 3;

/// After as many steps in which nobody had to wait there is room, whatever the counts say: after a
/// pause of the application they still hold what it has kept waiting.
const IDLE_STEPS: u8 = 3;

/// With each further one as many cohorts more are let in.
const IDLE_RAISE: u16 = 16;

/// Who is let in: the classes above one, and so many cohorts of that one. The critical class always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u16);

impl Level {
    /// Nobody is cut.
    pub const EVERYBODY: Self = Self(STEPS as u16);

    /// The lowest there is: the critical class alone.
    pub const CRITICAL: Self = Self(COHORTS as u16);

    /// Whether `cohort` of `class` is let in.
    pub const fn admits(self, class: Class, cohort: u8) -> bool {
        step(class, cohort) < self.0 as usize
    }

    /// How many classes are let in, the one that is cut as the part of it that is.
    pub fn classes(self) -> f64 {
        f64::from(self.0) / f64::from(COHORTS)
    }

    /// Everybody above `step` of [`STEPS`], and the critical class in any case.
    pub(super) fn below(step: usize) -> Self {
        Self(step.min(STEPS) as u16).max(Self::CRITICAL)
    }

    fn raised(self, cohorts: u16) -> Self {
        Self(self.0.saturating_add(cohorts)).min(Self::EVERYBODY)
    }

    /// The class that is cut, the whole of it or a part, with the number of its cohorts that are
    /// let in; `None` when nobody is cut. Everything below it is cut too.
    pub fn cut(self) -> Option<(Class, u8)> {
        let class = Class::ALL.get(usize::from(self.0 / u16::from(COHORTS)))?;
        Some((*class, (self.0 % u16::from(COHORTS)) as u8))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cut() {
            None => f.write_str("everybody"),
            Some((class, cohorts)) => write!(f, "{} {cohorts}/{COHORTS}", class.name()),
        }
    }
}

/// Finds the level.
#[derive(Debug)]
pub(super) struct Leveller {
    level: Level,
    /// Work asked for lately, by class and cohort.
    offered: Demand,
    /// Work finished lately: in time, and all of it.
    in_time: u64,
    finished: u64,
    /// Slot time that the work in time has taken, in microseconds.
    took: u64,
    /// How much of what can be done is let in.
    factor: f64,
    /// How long the oldest has waited, and what part of what can be done is lost, lately.
    wait: f64,
    lost_part: f64,
    /// How many may be inside, lately.
    slots: f64,
    /// What was to be corrected at the step before: 1 is that nobody waits, -1 that they do for too long.
    error: f64,
    /// Work turned away for want of capacity since the step before, other than by the level.
    lost: u64,
    /// Whether somebody had to wait since then.
    full: bool,
    /// Steps in a row in which nobody had to.
    idle: u8,
    next: Mono,
}

/// What a request costs, relative to the mean: a pause of the application, which makes everything
/// take longer, changes nothing about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work(u64);

/// What there is to be filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// How many may be inside.
    pub(super) slots: u32,
    /// How long the oldest has waited, as a part of the longest wait.
    pub(super) wait: f64,
}

impl Leveller {
    pub(super) fn new() -> Self {
        Self {
            level: Level::EVERYBODY,
            offered: Demand::new(),
            in_time: 0,
            finished: 0,
            took: 0,
            factor: 1.0,
            wait: 0.0,
            lost_part: 0.0,
            slots: 0.0,
            error: 0.0,
            lost: 0,
            full: false,
            idle: 0,
            next: Mono::default(),
        }
    }

    pub(super) const fn level(&self) -> Level {
        self.level
    }

    /// A request asks to be served. Another try asks for nothing new.
    pub(super) fn asked(&mut self, facts: &Facts, work: Work) {
        if !facts.retry {
            self.offered.add(facts.class, facts.cohort, work.0);
        }
    }

    /// A request was served in time.
    pub(super) fn in_time(&mut self, work: Work, took: Duration) {
        self.finished = self.finished.saturating_add(work.0);
        self.in_time = self.in_time.saturating_add(work.0);
        self.took = self.took.saturating_add(nanos(took) / 1000);
    }

    /// A request was served too late. How long it took says nothing: it may have been held up.
    pub(super) const fn late(&mut self, work: Work) {
        self.finished = self.finished.saturating_add(work.0);
    }

    /// Somebody was turned away for want of capacity, other than by the level.
    pub(super) const fn turned_away(&mut self) {
        self.lost = self.lost.saturating_add(Work::MEAN.0);
    }

    /// Somebody found no slot.
    pub(super) const fn full(&mut self) {
        self.full = true;
    }

    /// Whether it is time for the next [`Leveller::review`].
    pub(super) fn is_due(&self, now: Mono) -> bool {
        now >= self.next
    }

    /// Works out the level.
    pub(super) fn review(&mut self, now: Mono, room: Room) {
        let missed = now.since(self.next).as_nanos() / STEP.as_nanos();
        self.next = now + STEP;
        for _ in 0..missed.min(FADED) {
            self.fade();
        }
        self.correct(room);
        self.fade();
    }

    fn correct(&mut self, room: Room) {
        self.slots += (f64::from(room.slots) - self.slots) * SMOOTHING_SLOTS;
        let possible = self.possible();
        let lost = self.lost as f64 / (possible * STEP.as_secs_f64());
        self.lost_part += (lost - self.lost_part) * SMOOTHING;
        self.wait += (room.wait.clamp(0.0, 1.0) - self.wait) * SMOOTHING;
        self.idle = if self.full {
            0
        } else {
            self.idle.saturating_add(1)
        };
        (self.lost, self.full) = (0, false);
        if self.level == Level::EVERYBODY && self.lost_part < LOST_FIRST {
            (self.factor, self.error) = (1.0, 0.0);
            return;
        }

        let error = (WAIT - self.wait) / WAIT - self.lost_part / LOST;
        let error = error.clamp(-1.0, 1.0);
        let change = PROPORTIONAL * (error - self.error) + INTEGRAL * error * STEP.as_secs_f64();
        self.factor = (self.factor + change).clamp(FACTOR_MIN, FACTOR_MAX);
        self.error = error;
        let filled = self.filled((possible * SPAN * self.factor) as u64);
        if self.idle >= IDLE_STEPS {
            self.level = filled.max(self.level.raised(IDLE_RAISE));
        } else if filled.0.abs_diff(self.level.0) > HYSTERESIS {
            self.level = filled;
        }
    }

    /// Work that can be done in time per second; without end while that is not known.
    fn possible(&self) -> f64 {
        if self.took == 0 {
            return f64::INFINITY;
        }
        let in_time = self.in_time as f64;
        let by_one_slot = in_time / (self.took as f64 / 1e6);
        self.slots * by_one_slot * in_time / self.finished as f64
    }

    /// The level at which no more than `work` is asked for.
    fn filled(&self, work: u64) -> Level {
        let step = self.offered.filled(work);
        step.map_or(Level::EVERYBODY, Level::below)
    }

    fn fade(&mut self) {
        self.offered.fade();
        self.in_time = faded(self.in_time);
        self.finished = faded(self.finished);
        self.took = faded(self.took);
    }
}

impl Work {
    const MEAN: Self = Self(1 << 10);

    /// That of a request which takes `own` where the mean is `mean`. Within bounds, so that no single
    /// request counts for nothing or for everybody.
    pub(super) fn of(own: Duration, mean: Duration) -> Self {
        if mean.is_zero() {
            return Self::MEAN;
        }
        let work = Self::MEAN.0 as f64 * own.as_secs_f64() / mean.as_secs_f64();
        Self((work as u64).clamp(1, Self::MEAN.0 << 10))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::facts::{GroupId, RouteId};

    const SLOTS: u32 = 100;

    fn facts(class: Class, cohort: u8) -> Facts {
        Facts {
            class,
            route: RouteId(0),
            group: GroupId(0),
            deadline: Mono::MAX,
            bytes: 0,
            cohort,
            retry: false,
        }
    }

    /// For `seconds`, so many of each class ask per second, in all cohorts alike, 2000 per second can
    /// be served, and what is let in and cannot be is lost.
    fn run(leveller: &mut Leveller, from: u64, seconds: u64, per_second: [u32; Class::COUNT]) {
        for step in from * 10..(from + seconds) * 10 {
            let mut let_in = 0;
            for (class, &count) in Class::ALL.iter().zip(&per_second) {
                for n in 0..count / 10 {
                    let cohort = ((n + step as u32 * 7) % u32::from(COHORTS)) as u8;
                    leveller.asked(&facts(*class, cohort), Work::MEAN);
                    let_in += u32::from(leveller.level().admits(*class, cohort));
                }
            }
            for _ in 0..let_in.min(200) {
                leveller.in_time(Work::MEAN, Duration::from_millis(50));
            }
            for _ in 200..let_in {
                leveller.turned_away();
            }
            if let_in >= 200 {
                leveller.full();
            }
            let now = Mono::from_millis(step * 100 + 100);
            assert!(leveller.is_due(now));
            leveller.review(
                now,
                Room {
                    slots: SLOTS,
                    wait: if let_in > 200 { 1.0 } else { 0.0 },
                },
            );
        }
    }

    #[test]
    fn what_is_too_much_is_cut_from_below() {
        let mut leveller = Leveller::new();

        run(&mut leveller, 0, 30, [100, 1000, 1200, 0, 900]);

        let (class, cohorts) = leveller.level().cut().expect("it is too much");
        assert_eq!(class, Class::Anonymous);
        assert!(
            (70..110).contains(&cohorts),
            "about 900 of 1200: {cohorts}/128"
        );
        assert!(leveller.level().admits(Class::SignedIn, COHORTS - 1));
        assert!(!leveller.level().admits(Class::Background, 0));
    }

    #[test]
    fn nobody_is_cut_any_more_once_there_is_room() {
        let mut leveller = Leveller::new();
        run(&mut leveller, 0, 30, [0, 1000, 0, 0, 3000]);
        assert_ne!(leveller.level(), Level::EVERYBODY);

        run(&mut leveller, 30, 5, [0, 1000, 0, 0, 500]);

        assert_eq!(leveller.level(), Level::EVERYBODY);
    }

    #[test]
    fn the_critical_class_is_never_cut() {
        let mut leveller = Leveller::new();

        run(&mut leveller, 0, 30, [9000, 0, 0, 0, 10]);

        assert_eq!(leveller.level(), Level::CRITICAL);
        assert!(leveller.level().admits(Class::Critical, COHORTS - 1));
        assert_eq!(leveller.level().to_string(), "signed-in 0/128");
    }

    #[test]
    fn a_night_without_requests_leaves_nothing_of_the_counts() {
        let mut leveller = Leveller::new();
        leveller.asked(&facts(Class::SignedIn, 3), Work(u64::MAX));
        leveller.asked(&facts(Class::SignedIn, 3), Work(u64::MAX));
        run(&mut leveller, 0, 30, [0, 3000, 0, 0, 3000]);

        let now = Mono::from_millis(8 * 3_600_000);
        leveller.review(
            now,
            Room {
                slots: SLOTS,
                wait: 0.0,
            },
        );

        assert_eq!(leveller.offered.total(), 0);
        assert_eq!(leveller.level(), Level::EVERYBODY);
    }

    #[test]
    fn another_try_asks_for_nothing_new() {
        let mut leveller = Leveller::new();
        let retry = Facts {
            retry: true,
            ..facts(Class::SignedIn, 0)
        };

        leveller.asked(&retry, Work::MEAN);

        assert_eq!(leveller.offered.total(), 0);
    }

    proptest! {
        #[test]
        fn a_higher_class_is_never_cut_before_a_lower_one(
            offered in prop::collection::vec(0u64..5000, STEPS),
            work in any::<u32>(),
        ) {
            let mut leveller = Leveller::new();
            leveller.offered = Demand::of(&offered);

            let level = leveller.filled(work.into());

            let order: Vec<bool> = Class::ALL
                .into_iter()
                .flat_map(|class| (0..COHORTS).map(move |cohort| level.admits(class, cohort)))
                .collect();
            prop_assert!(order.is_sorted_by(|above, below| above >= below));
            prop_assert!(order[..usize::from(COHORTS)].iter().all(|&let_in| let_in));
            let let_in: u64 = offered.iter().zip(&order).filter(|(_, let_in)| **let_in).map(|(work, _)| work).sum();
            prop_assert!(let_in <= u64::from(work) || level == Level::CRITICAL);
            if offered.iter().sum::<u64>() <= u64::from(work) {
                prop_assert_eq!(level, Level::EVERYBODY);
            }
        }

        #[test]
        fn nobody_is_cut_while_what_is_asked_for_fits(
            per_second in prop::array::uniform5(0u32..400),
            seconds in 1u64..20,
        ) {
            let mut leveller = Leveller::new();

            run(&mut leveller, 0, seconds, per_second);

            prop_assert_eq!(leveller.level(), Level::EVERYBODY);
        }
    }
}
