use super::*;
use crate::room::{Census, Order};

/// A line in which one comes, or is called, after the other, at an even pace. Nobody leaves.
struct Line {
    outlook: Outlook,
    order: Order,
    /// In milliseconds.
    now: u64,
    waiting: [Vec<Place>; Tier::COUNT],
    tallies: Tallies,
    /// What comes into each tier, and is called of all, in ten seconds.
    coming: [u64; Tier::COUNT],
    calling: u64,
}

const LOOK_MS: u64 = 10_000;
const GRACE: Duration = Duration::from_secs(160);

impl Line {
    fn new(order: Order, coming: [u64; Tier::COUNT], calling: u64) -> Self {
        Self {
            outlook: Outlook::default(),
            order,
            now: 0,
            waiting: Default::default(),
            tallies: Tallies::default(),
            coming,
            calling,
        }
    }

    fn come(&mut self, tier: usize, count: u64) {
        for at in 0..count {
            let ms = self.now + LOOK_MS * at / count;
            self.waiting[tier].push(Place(ms * SEQUENCES + tier as u64));
            self.tallies.entered += 1;
        }
    }

    fn call(&mut self) {
        for _ in 0..self.calling {
            let heads = [0, 1, 2].map(|at: usize| self.waiting[at].clone());
            if let Some(tier) = self.order.next(&heads, &[0; 3], usize::MAX) {
                self.waiting[tier.index()].remove(0);
                self.tallies.released += 1;
            }
        }
    }

    fn look(&mut self) {
        let waiting = [0, 1, 2].map(|at: usize| self.waiting[at].len() as u64);
        let step = |at: usize| super::super::line::mark_step(waiting[at]) as usize;
        let marks = [0, 1, 2].map(|at: usize| {
            let each = self.waiting[at].iter().step_by(step(at));
            each.copied().collect()
        });
        let census = Census {
            waiting,
            marks,
            ..Census::default()
        };
        let document = Positions::of(self.order, &census);
        let glance = Glance {
            now: Place(self.now * SEQUENCES),
            document: &document,
            tallies: self.tallies,
            aged: 0,
            slept: [0; Tier::COUNT],
            slept_aged: 0,
            grace: GRACE,
        };
        self.outlook.learn(Mono::from_millis(self.now), &glance);
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 1_000 / LOOK_MS {
            for tier in 0..Tier::COUNT {
                self.come(tier, self.coming[tier]);
            }
            self.now += LOOK_MS;
            self.call();
            self.look();
        }
    }

    fn last(&self, tier: Tier) -> f64 {
        let place = *self.waiting[tier.index()].last().unwrap();
        self.outlook.wait(tier, place).unwrap().as_secs_f64()
    }

    /// How long it takes in truth until whoever stands last now is called.
    fn takes(&mut self, tier: Tier) -> f64 {
        let place = *self.waiting[tier.index()].last().unwrap();
        let begun = self.now;
        while self.waiting[tier.index()].contains(&place) {
            self.run(10);
        }
        (self.now - begun) as f64 / 1_000.0
    }
}

#[test]
fn nobody_is_told_anything_before_there_were_two_looks() {
    let mut line = Line::new(Order::Strict, [0, 0, 50], 40);
    assert_eq!(line.outlook.wait(Tier::Anonymous, Place(5)), None);
    line.run(10);
    assert_eq!(line.outlook.wait(Tier::Anonymous, Place(5)), None);

    line.run(10);

    assert!(line.outlook.wait(Tier::Anonymous, Place(5)).is_some());
    line.outlook.skip();
    assert_eq!(line.outlook.wait(Tier::Anonymous, Place(5)), None);
}

#[test]
fn those_who_come_later_and_go_first_are_counted_with() {
    let credit = Order::Credit([300_000, 60_000, 0]);
    for order in [Order::Strict, credit] {
        let mut line = Line::new(order, [6, 10, 30], 40);
        line.come(2, 2_000);
        line.run(1_500);

        let told = line.last(Tier::Anonymous);

        let takes = line.takes(Tier::Anonymous);
        let off = told / takes - 1.0;
        println!("{order:?}: told {told:.0} s, and it takes {takes:.0} s");
        assert!(off.abs() < 0.08, "{order:?}: {told} {takes}");
    }
}

#[test]
fn newcomers_who_have_left_and_of_whom_it_is_not_known_do_not_count() {
    let mut line = Line::new(Order::Strict, [0, 0, 60], 40);
    line.run(600);
    let before = line.last(Tier::Anonymous);

    // Half of those who came are swept, newcomers all.
    line.outlook.newcomers = Newcomers {
        came: 100.0,
        left: 50.0,
    };

    let now = line.last(Tier::Anonymous);
    // 60 came in each ten of the last 160 seconds.
    let gone = before - now;
    assert!((gone - 480.0 / 4.0).abs() < 5.0, "{gone}");
}
