//! Letting in less than usual because the whole fleet is to, whatever this application itself could do.
//!
//! Where all nodes suffer from the same thing nothing is gained by moving load between them; what helps is less of it.
//! Who decides for the fleet says which part of the usual is to be let in. The usual is what was let in
//! before that began, and follows what is asked for within minutes: nobody stays cut to what a night was like. What fits
//! is filled with the classes from above, and within one by cohorts, so that a user is served as a whole or not at
//! all. Of the one cohort at the edge a part is let in, evenly spread: where all clients seem to be one, as behind a proxy that does
//! not say who they are, it is that part or nobody. The critical class is never cut. A word that nobody repeats is over with its lease, and then more is let in by and by.
//!
//! It stands before [`Admission`](super::Admission), which never sees what it turns away.

use std::time::Duration;

use super::demand::{Demand, FADED_STEPS, faded, step};
use super::level::Level;
use crate::facts::Facts;
use crate::time::Mono;

/// How often it is worked out anew who is let in.
const STEP: Duration = Duration::from_millis(100);
/// Steps after which counts say what is usual.
const USUAL_AFTER: u64 = 4 * FADED_STEPS;
/// The usual goes one in so many of its way to what is asked for, in each step: a minute's worth.
const FOLLOWS: f64 = 600.0;
/// Without a word the share rises by so much in each step: from nothing to all in ten seconds.
const RISE: f64 = 0.01;
/// After as many steps without an event nothing is left of any count.
const STEPS_MAX: u128 = 1_000;
/// What one request counts.
const ONE: u64 = 1 << 10;

/// How much of the usual is let in, and who that is.
#[derive(Debug)]
pub struct Slowdown {
    share: f64,
    until: Mono,
    demand: Demand,
    entered: u64,
    /// What is usual, while less is let in.
    usual: Option<Usual>,
    level: Level,
    edge: Option<Edge>,
    steps: u64,
    next: Mono,
}

/// The first cohort that is not let in as a whole.
#[derive(Clone, Copy, Debug)]
struct Edge {
    step: usize,
    /// The part of its requests that is let in, 0 to 1.
    part: f64,
    /// What has been saved up for the next one.
    credit: f64,
}

/// What the share is of.
#[derive(Clone, Copy, Debug)]
enum Usual {
    /// So much was let in before.
    Counted(f64),
    /// Nobody had counted for long enough: what is asked for.
    Asked,
}

impl Slowdown {
    /// Nobody has said anything. It begins to count at `now`.
    pub fn new(now: Mono) -> Self {
        Self {
            share: 1.0,
            until: Mono::default(),
            demand: Demand::new(),
            entered: 0,
            usual: None,
            level: Level::EVERYBODY,
            edge: None,
            steps: 0,
            next: now + STEP,
        }
    }

    /// Such a share of the usual, 0 to 1, is to be let in, for `lease` unless it is said again.
    pub fn told(&mut self, now: Mono, share: f64, lease: Duration) {
        self.review(now);
        self.share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            1.0
        };
        self.until = now + lease;
        self.fill();
    }

    /// Whether a request like `facts` is let in at `now`, as far as the fleet is concerned. Another try asks for nothing new.
    pub fn admits(&mut self, now: Mono, facts: &Facts) -> bool {
        self.review(now);
        if !facts.retry {
            self.demand.add(facts.class, facts.cohort, ONE);
        }
        self.level.admits(facts.class, facts.cohort) || self.has_turn(facts)
    }

    /// Whether a request would be let in at `now` that is no worse than `facts`, before everything is known of it. If not, it has asked;
    /// if so, it has yet to.
    pub fn peek(&mut self, now: Mono, facts: &Facts) -> bool {
        self.review(now);
        let is_next = |edge: &Edge| {
            edge.step == step(facts.class, facts.cohort) && edge.credit + edge.part >= 1.0
        };
        let passes =
            self.level.admits(facts.class, facts.cohort) || self.edge.as_ref().is_some_and(is_next);
        passes || self.admits(now, facts)
    }

    /// Whether it is the turn of a request at the edge.
    fn has_turn(&mut self, facts: &Facts) -> bool {
        let at = step(facts.class, facts.cohort);
        let Some(edge) = self.edge.as_mut().filter(|edge| edge.step == at) else {
            return false;
        };
        edge.credit += edge.part;
        let has_turn = edge.credit >= 1.0;
        if has_turn {
            edge.credit -= 1.0;
        }
        has_turn
    }

    /// A request went on, and nothing else turned it away at once.
    pub const fn entered(&mut self) {
        self.entered = self.entered.saturating_add(ONE);
    }

    /// The share of the usual that is let in, 0 to 1.
    pub const fn share(&self) -> f64 {
        self.share
    }

    /// Who is let in.
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Time has passed.
    pub fn review(&mut self, now: Mono) {
        if now < self.next {
            return;
        }
        let steps = 1 + now.since(self.next).as_nanos() / STEP.as_nanos();
        self.next = now + STEP;
        for _ in 0..steps.min(STEPS_MAX) {
            self.demand.fade();
            self.entered = faded(self.entered);
            self.steps = self.steps.saturating_add(1);
            if now >= self.until && self.share < 1.0 {
                self.share = (self.share + RISE).min(1.0);
            }
            if let Some(Usual::Counted(usual)) = &mut self.usual {
                *usual += (self.demand.total() as f64 - *usual) / FOLLOWS;
            }
        }
        self.fill();
    }

    /// Works out who is let in.
    fn fill(&mut self) {
        if self.share >= 1.0 {
            self.usual = None;
            self.level = Level::EVERYBODY;
            self.edge = None;
            return;
        }
        // As it is when this begins: later less is let in, and a share of that would be a share of a share.
        let usual = *self.usual.get_or_insert(match self.steps {
            USUAL_AFTER.. => Usual::Counted(self.entered as f64),
            _ => Usual::Asked,
        });
        let usual = match usual {
            Usual::Counted(usual) => usual,
            Usual::Asked => self.demand.total() as f64,
        };
        let filled = self.demand.filled_in_part((usual * self.share) as u64);
        self.level = filled.map_or(Level::EVERYBODY, |(step, _)| Level::below(step));
        // Who moves to another cohort or part does not begin to save anew.
        let credit = self.edge.map_or(0.0, |edge| edge.credit);
        self.edge = filled.map(|(step, part)| Edge { step, part, credit });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Class, GroupId, RouteId};

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

    /// A gateway that is asked for so many requests a second, by class from above; what was let in of each.
    struct Gateway {
        slowdown: Slowdown,
        ms: u64,
        told: Option<f64>,
    }

    impl Gateway {
        fn new() -> Self {
            Self {
                slowdown: Slowdown::new(Mono::default()),
                ms: 0,
                told: None,
            }
        }

        fn run(&mut self, seconds: u64, per_second: [u32; Class::COUNT]) -> [u32; Class::COUNT] {
            let mut let_in = [0; Class::COUNT];
            for _ in 0..seconds {
                if let Some(share) = self.told {
                    let now = Mono::from_millis(self.ms);
                    self.slowdown.told(now, share, Duration::from_secs(3));
                }
                for tenth in 0..10_u32 {
                    let now = Mono::from_millis(self.ms);
                    for (class, rate) in Class::ALL.into_iter().zip(per_second) {
                        for n in 0..rate / 10 {
                            let it = facts(class, ((n * 7 + tenth * 13) % 128) as u8);
                            if self.slowdown.admits(now, &it) {
                                self.slowdown.entered();
                                let_in[class.index()] += 1;
                            }
                        }
                    }
                    self.ms += 100;
                }
            }
            let_in
        }
    }

    const DAY: [u32; Class::COUNT] = [100, 200, 400, 100, 200];

    #[test]
    fn without_a_word_everybody_is_let_in() {
        let mut gateway = Gateway::new();

        assert_eq!(gateway.run(20, DAY), DAY.map(|rate| rate * 20));
        gateway.told = Some(1.0);
        assert_eq!(gateway.run(20, DAY), DAY.map(|rate| rate * 20));
    }

    #[test]
    fn the_lowest_classes_go_first_and_the_critical_one_stays() {
        let mut gateway = Gateway::new();
        gateway.told = Some(1.0);
        gateway.run(20, DAY);

        gateway.told = Some(0.6);
        gateway.run(3, DAY);
        let let_in = gateway.run(10, DAY);

        let share = f64::from(let_in.iter().sum::<u32>()) / 10_000.0;
        assert!((0.5..0.66).contains(&share), "{let_in:?}");
        assert_eq!(let_in[..2], [1_000, 2_000]);
        assert_eq!(let_in[3..], [0, 0], "{let_in:?}");

        gateway.told = Some(0.0);
        gateway.run(1, DAY);
        assert_eq!(gateway.run(10, DAY), [1_000, 0, 0, 0, 0]);
    }

    #[test]
    fn a_user_is_served_as_a_whole_or_not_at_all() {
        let mut gateway = Gateway::new();
        gateway.told = Some(1.0);
        gateway.run(20, DAY);
        gateway.told = Some(0.5);
        gateway.run(1, DAY);

        let level = gateway.slowdown.level();

        let (class, cohorts) = level.cut().unwrap();
        assert_eq!(class, Class::Anonymous);
        let now = Mono::from_millis(gateway.ms);
        let mut admits = |cohort| gateway.slowdown.peek(now, &facts(class, cohort));
        assert!((0..cohorts).all(&mut admits));
        assert!(!(cohorts + 1..128).any(admits));
    }

    #[test]
    fn clients_that_cannot_be_told_apart_get_their_part() {
        for peeks in [false, true] {
            let mut slowdown = Slowdown::new(Mono::default());
            let it = facts(Class::Anonymous, 7);
            let mut let_in = 0;
            for ms in (0..60_000).step_by(10) {
                let now = Mono::from_millis(ms);
                if ms >= 20_000 {
                    slowdown.told(now, 0.6, Duration::from_secs(3));
                }
                if (!peeks || slowdown.peek(now, &it)) && slowdown.admits(now, &it) {
                    slowdown.entered();
                    let_in += u32::from(ms >= 20_000);
                }
            }

            let share = f64::from(let_in) / 4_000.0;
            assert!((0.57..0.63).contains(&share), "{share}, peeking: {peeks}");
        }
    }

    #[test]
    fn more_load_than_usual_does_not_get_more_in() {
        let mut gateway = Gateway::new();
        gateway.told = Some(1.0);
        gateway.run(20, DAY);
        gateway.told = Some(0.6);
        gateway.run(2, DAY);

        let let_in = gateway.run(10, DAY.map(|rate| rate * 3));

        let all: u32 = let_in.iter().sum();
        assert!(all < 9_500, "of what was usual, 6,000 and a little: {all}");
    }

    #[test]
    fn what_is_usual_follows_within_minutes() {
        let mut gateway = Gateway::new();
        gateway.told = Some(1.0);
        gateway.run(20, DAY.map(|rate| rate / 10));
        gateway.told = Some(0.6);

        gateway.run(240, DAY);

        let all: u32 = gateway.run(10, DAY).iter().sum();
        assert!((5_000..7_000).contains(&all), "{all}");
    }

    #[test]
    fn a_word_that_nobody_repeats_is_over_and_more_is_let_in_by_and_by() {
        let mut gateway = Gateway::new();
        gateway.told = Some(1.0);
        gateway.run(20, DAY);
        gateway.told = Some(0.4);
        gateway.run(10, DAY);

        gateway.told = None;
        gateway.run(2, DAY);
        assert_eq!(gateway.slowdown.share(), 0.4, "the lease holds");
        let later: u32 = gateway.run(3, DAY).iter().sum();
        assert!(later < 3_000, "{later}");
        gateway.run(6, DAY);

        assert_eq!(gateway.slowdown.share(), 1.0);
        assert_eq!(gateway.run(5, DAY), DAY.map(|rate| rate * 5));
    }

    #[test]
    fn who_has_just_started_cuts_a_share_of_what_is_asked_for() {
        let mut gateway = Gateway::new();
        gateway.told = Some(0.6);
        gateway.run(3, DAY);

        let all: u32 = gateway.run(5, DAY).iter().sum();
        let later: u32 = gateway.run(20, DAY)[..].iter().sum();

        assert!((2_500..3_500).contains(&all), "{all}");
        assert!((10_000..14_000).contains(&later), "{later}");
    }

    #[test]
    fn a_pause_leaves_nothing_behind() {
        let mut gateway = Gateway::new();
        gateway.told = Some(0.5);
        gateway.run(20, DAY);

        gateway.told = None;
        gateway.ms += 600_000;

        assert_eq!(gateway.run(1, DAY), DAY);
    }
}
