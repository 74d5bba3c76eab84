use proptest::prelude::*;

use super::*;

const BUDGET: Budget = Budget {
    polls: 500.0,
    beats: 3_000.0,
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn group(count: u64, wait: u64) -> Group {
    Group {
        count,
        wait: Some(seconds(wait)),
    }
}

fn policy(groups: &[Group]) -> Policy {
    Governor::new(BUDGET).policy(Mono::default(), groups, 0.0)
}

/// What everybody asks for per second.
fn asked(policy: &Policy, groups: &[Group]) -> f64 {
    let each = groups.iter();
    each.map(|it| it.count as f64 / policy.interval(it.wait).as_secs_f64())
        .sum()
}

#[test]
fn where_there_is_room_a_page_asks_twenty_times() {
    let policy = policy(&[group(1_000, 300)]);

    assert_eq!((policy.stretch, policy.floor), (seconds(0), seconds(0)));
    let waits = [1, 40, 300, 600, 86_400];
    let intervals = waits.map(|wait| policy.next(Some(seconds(wait)), 0.0));
    assert_eq!(intervals, [2, 2, 15, 30, 30].map(seconds));
    assert_eq!(policy.next(None, 0.0), seconds(30));
}

#[test]
fn those_who_wait_long_make_room_first() {
    let groups = [group(100, 40), group(100_000, 3_600)];

    let policy = policy(&groups);

    assert_eq!(policy.next(Some(seconds(40)), 0.0), seconds(20));
    let far = policy.next(Some(seconds(3_600)), 0.0);
    assert!((200..=203).contains(&far.as_secs()), "{far:?}");
    assert_eq!(policy.floor, seconds(0));
}

#[test]
fn when_half_of_the_wait_is_still_too_often_everybody_asks_less() {
    let groups = [group(20_000, 10), group(100_000, 120)];

    let policy = policy(&groups);

    assert!(asked(&policy, &groups) <= BUDGET.polls * (1.0 + 1e-6));
    assert_eq!(policy.next(Some(seconds(10)), 0.0), policy.floor);
    assert!((239..=241).contains(&policy.floor.as_secs()), "{policy:?}");
}

#[test]
fn a_million_is_heard_of_every_five_minutes_and_a_thousand_every_45_seconds() {
    let of = |count| policy(&[group(count, 600)]);

    let few = of(1_000);
    assert_eq!((few.beat, few.grace), (seconds(45), seconds(160)));
    let many = of(1_000_000);
    assert_eq!((many.beat, many.grace), (seconds(300), seconds(720)));
    assert_eq!(of(300_000).beat, seconds(100));
}

#[test]
fn who_was_told_to_be_silent_for_long_is_not_taken_for_gone_when_the_line_is_short() {
    let mut governor = Governor::new(BUDGET);
    let mut at = |now: u64, count| {
        governor.policy(Mono::from_millis(1_000 * now), &[group(count, 600)], 0.0)
    };
    at(0, 1_000_000);

    let soon = at(10, 1_000);
    let later = at(719, 1_000);
    let at_last = at(720, 1_000);

    assert_eq!((soon.beat, soon.grace), (seconds(45), seconds(720)));
    assert_eq!(later.grace, seconds(720));
    assert_eq!(at_last.grace, seconds(160));
    assert_eq!(at(721, 1_000_000).grace, seconds(720));
}

proptest! {
    #[test]
    fn all_pages_together_keep_to_the_budget(
        counts in prop::collection::vec((0_u64..200_000, prop::option::of(0_u64..20_000)), 0..40),
        polls in 1.0..5_000.0_f64,
        joining in 0.0..20_000.0_f64,
    ) {
        let groups: Vec<_> = counts
            .into_iter()
            .map(|(count, wait)| Group { count, wait: wait.map(Duration::from_secs) })
            .collect();
        let budget = Budget { polls, beats: 3_000.0 };

        let policy = Governor::new(budget).policy(Mono::default(), &groups, joining);

        // Intervals are whole nanoseconds.
        prop_assert!(asked(&policy, &groups) <= polls * (1.0 + 1e-6));
        prop_assert!(policy.grace.as_secs_f64() >= 2.2 * policy.beat.as_secs_f64() + 60.0 - 1e-3);
    }

    #[test]
    fn nobody_asks_after_their_turn_because_others_ask(
        far in 0_u64..1_000_000,
        wait in 5_u64..20_000,
        chance in 0.0..1.0_f64,
    ) {
        // As many as those may ask who have a second, and so on, is left to all.
        let policy = policy(&[group(10, wait), group(far, 40_000)]);

        let next = policy.next(Some(Duration::from_secs(wait)), chance);

        prop_assert!(next <= Duration::from_secs(wait).mul_f64(0.66).max(Duration::from_millis(2_600)));
        let first = policy.first(Some(Duration::from_secs(wait)), chance);
        prop_assert!(first <= next.max(Duration::from_secs(wait) / 2));
    }
}

/// Pages that ask when they are told to, in steps of a tenth of a second.
struct Pages {
    governor: Governor,
    /// The turn of each page, in tenths.
    turns: Vec<u64>,
    /// Who asks in a tenth.
    asks: Vec<Vec<u32>>,
    /// Pages shown so far, and how many were a second ago.
    shown: usize,
    /// Each second's polls.
    polls: Vec<u64>,
    longest: Duration,
    late: Duration,
    rng: crate::rng::Rng,
}

/// Called per second, and polls in it that are allowed.
const CALLED: u64 = 100;
const POLLS: f64 = 2_000.0;
const CROWD: usize = 200_000;

impl Pages {
    fn new() -> Self {
        let polls = Budget {
            polls: POLLS,
            ..BUDGET
        };
        Self {
            governor: Governor::new(polls),
            turns: (0..CROWD as u64).map(|at| 10 * at / CALLED).collect(),
            asks: vec![Vec::new(); 10 * 2_600],
            shown: 0,
            polls: Vec::new(),
            longest: Duration::ZERO,
            late: Duration::ZERO,
            rng: crate::rng::Rng::new(7),
        }
    }

    fn wait(&self, page: usize, tenth: u64) -> Duration {
        Duration::from_millis(100 * self.turns[page].saturating_sub(tenth))
    }

    fn groups(&self, tenth: u64) -> Vec<Group> {
        let called = self
            .turns
            .partition_point(|turn| *turn <= tenth)
            .min(self.shown);
        let step = (self.shown - called).div_ceil(256).max(50);
        (called..self.shown)
            .step_by(step)
            .map(|page| Group {
                count: step.min(self.shown - page) as u64,
                wait: Some(self.wait(page, tenth)),
            })
            .collect()
    }

    /// `shown` says how many pages are there by a tenth. Until all were called.
    fn run(&mut self, shown: impl Fn(u64) -> usize) {
        let mut policy = self.governor.policy(Mono::default(), &[], 0.0);
        // Who was there before it began is known.
        self.shown = shown(0);
        let (mut before, mut booked) = (self.shown, 0);
        let tenths = 10 * (CROWD as u64 / CALLED + 30);
        for tenth in 0..tenths {
            if tenth % 10 == 0 {
                self.polls.push(0);
                let joining = (self.shown - before) as f64;
                before = self.shown;
                let groups = self.groups(tenth);
                policy = self
                    .governor
                    .policy(Mono::from_millis(100 * tenth), &groups, joining);
            }
            for page in std::mem::take(&mut self.asks[tenth as usize]) {
                self.ask(&policy, page, tenth);
            }
            let all = shown(tenth);
            for page in booked..all {
                let after = policy.first(Some(self.wait(page, tenth)), self.rng.unit());
                self.later(page as u32, tenth, after);
            }
            (self.shown, booked) = (all, all);
        }
    }

    fn ask(&mut self, policy: &Policy, page: u32, tenth: u64) {
        *self.polls.last_mut().unwrap() += 1;
        let wait = self.wait(page as usize, tenth);
        if wait.is_zero() {
            let late = Duration::from_millis(100 * (tenth - self.turns[page as usize]));
            self.late = self.late.max(late);
            return;
        }
        let after = policy.next(Some(wait), self.rng.unit());
        self.later(page, tenth, after);
    }

    fn later(&mut self, page: u32, tenth: u64, after: Duration) {
        self.longest = self.longest.max(after);
        let at = tenth + 1 + after.as_millis() as u64 / 100;
        self.asks[at as usize].push(page);
    }

    fn most(&self) -> f64 {
        self.polls.iter().copied().max().unwrap() as f64 / POLLS
    }
}

#[test]
fn two_hundred_thousand_pages_keep_to_the_budget_from_the_first_second_on() {
    let at_once = |_| CROWD;
    let in_ten_seconds = |tenth: u64| (2_000 * tenth as usize).min(CROWD);
    let in_five_minutes = |tenth: u64| (67 * tenth as usize).min(CROWD);
    let cases: [(&str, &dyn Fn(u64) -> usize); 3] = [
        ("at once", &at_once),
        ("in ten seconds", &in_ten_seconds),
        ("in five minutes", &in_five_minutes),
    ];
    for (name, shown) in cases {
        let mut pages = Pages::new();

        pages.run(shown);

        let asked: u64 = pages.polls.iter().sum();
        println!(
            "{name}: {:.3} of the budget at most, {:.1} polls each, never longer than {:.0} s, told {:.1} s late",
            pages.most(),
            asked as f64 / CROWD as f64,
            pages.longest.as_secs_f64(),
            pages.late.as_secs_f64(),
        );
        assert!(pages.most() <= 1.1, "{name}: {}", pages.most());
        assert!(
            pages.late <= Duration::from_secs(3),
            "{name}: {:?}",
            pages.late
        );
        assert!(
            pages.longest <= Duration::from_secs(390),
            "{name}: {:?}",
            pages.longest
        );
    }
}
