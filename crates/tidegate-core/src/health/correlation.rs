//! Many nodes that get worse in the same way at the same time: what they have in common is worse, not they.

use std::time::Duration;

use super::headroom::Headroom;
use super::signal::Dimension;
use crate::time::Mono;

/// Of so many nodes in a hundred that are known, and of two at least.
const NODES_PERCENT_MIN: usize = 40;
const NODES_MIN: usize = 2;
/// Within so many ticks.
const TICKS: usize = 3;
/// By so much of what there is. Less is noise, or the day going on.
const RISE_MIN: f64 = 0.15;
/// Up to so much at least: a node that used nothing and uses a little more is no worse.
const USED_MIN: f64 = 0.45;

/// What one node used in the last ticks, of each dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Trail {
    past: [[Option<f64>; Dimension::COUNT]; TICKS],
    next: usize,
}

impl Trail {
    /// One tick more.
    pub(super) fn push(&mut self, headroom: &Headroom) {
        self.past[self.next] = *headroom.used();
        self.next = (self.next + 1) % TICKS;
    }

    /// Whether the node uses so much more of it than at one of the last ticks.
    fn has_worsened(&self, place: usize, used: f64) -> bool {
        let risen = |past: &[Option<f64>; Dimension::COUNT]| {
            past[place].is_some_and(|before| used - before >= RISE_MIN)
        };
        used >= USED_MIN && self.past.iter().any(risen)
    }
}

/// How many nodes got worse, and are bad, by dimension.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    worse: [usize; Dimension::COUNT],
    bad: [usize; Dimension::COUNT],
    known: usize,
}

impl Tally {
    /// Counts a node that is in the fleet.
    pub(super) fn count(&mut self, trail: &Trail, headroom: &Headroom) {
        self.known += usize::from(headroom.binding().is_some());
        for (place, used) in headroom.used().iter().enumerate() {
            let Some(used) = *used else {
                continue;
            };
            self.worse[place] += usize::from(trail.has_worsened(place, used));
            self.bad[place] += usize::from(used >= USED_MIN);
        }
    }

    fn are_many(&self, nodes: usize) -> bool {
        nodes >= NODES_MIN && nodes * 100 >= self.known * NODES_PERCENT_MIN
    }
}

/// What many nodes suffer from together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// In which dimension.
    pub dimension: Dimension,
    /// Since when.
    pub since: Mono,
}

impl Shared {
    /// What it becomes by `tally`: it begins when many get worse, and lasts until no longer many are bad.
    pub(super) fn next(before: Option<Self>, now: Mono, tally: &Tally) -> Option<Self> {
        if let Some(shared) = before
            && tally.are_many(tally.bad[shared.dimension.index()])
        {
            return before;
        }
        // What is behind the nodes is named first: it fills their workers, which then look as bad.
        let leading = [
            Dimension::Downstream,
            Dimension::Pool,
            Dimension::Gc,
            Dimension::OldGen,
        ];
        let mut worst: Option<(usize, Dimension)> = None;
        for dimension in leading.into_iter().chain(Dimension::ALL) {
            let nodes = tally.worse[dimension.index()];
            if tally.are_many(nodes) && worst.is_none_or(|(most, _)| nodes > most) {
                worst = Some((nodes, dimension));
            }
        }
        worst.map(|(_, dimension)| Self {
            dimension,
            since: now,
        })
    }

    /// For how long.
    pub const fn lasts(&self, now: Mono) -> Duration {
        now.since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::super::headroom::Readings;
    use super::super::scale::Scales;
    use super::super::signal::Signal;
    use super::*;

    /// Five nodes that say how much of their pools and workers is used.
    #[derive(Default)]
    struct Five {
        trails: [Trail; 5],
        shared: Option<Shared>,
        tick: u64,
    }

    impl Five {
        fn tick(&mut self, pools: [f64; 5], workers: [f64; 5]) -> Option<Dimension> {
            self.tick += 1;
            let now = Mono::from_millis(self.tick * 1000);
            let mut tally = Tally::default();
            for (node, trail) in self.trails.iter_mut().enumerate() {
                let signals = [
                    Signal::read(Dimension::Pool, pools[node], 1.0, now),
                    Signal::read(Dimension::Threads, workers[node], 1.0, now),
                ];
                let headroom = Readings::of(&Scales::default(), &signals, now).headroom(now);
                tally.count(trail, &headroom);
                trail.push(&headroom);
            }
            self.shared = Shared::next(self.shared, now, &tally);
            self.shared.map(|it| it.dimension)
        }
    }

    const CALM: [f64; 5] = [0.3; 5];

    #[test]
    fn two_of_five_that_get_worse_alike_share_something_and_one_does_not() {
        let mut five = Five::default();
        five.tick(CALM, CALM);

        assert_eq!(five.tick([0.9, 0.3, 0.3, 0.3, 0.3], CALM), None);
        assert_eq!(
            five.tick([0.9, 0.8, 0.3, 0.3, 0.3], CALM),
            Some(Dimension::Pool)
        );
    }

    #[test]
    fn it_lasts_as_long_as_many_are_bad() {
        let mut five = Five::default();
        five.tick(CALM, CALM);
        five.tick([0.9; 5], CALM);
        for _ in 0..60 {
            assert_eq!(five.tick([1.0; 5], [1.0; 5]), Some(Dimension::Pool));
        }

        assert_eq!(five.tick([1.0, 0.3, 0.3, 0.3, 0.3], CALM), None);
    }

    #[test]
    fn what_is_behind_the_nodes_is_named_before_what_it_fills() {
        let mut five = Five::default();
        five.tick(CALM, CALM);

        assert_eq!(five.tick([0.8; 5], [0.9; 5]), Some(Dimension::Pool));
    }

    #[test]
    fn a_slow_rise_and_a_small_one_are_nothing() {
        let mut five = Five::default();
        for hundredth in 30..95 {
            let used = [f64::from(hundredth) / 100.0; 5];
            assert_eq!(five.tick(used, used), None);
        }
        let mut five = Five::default();
        five.tick([0.0; 5], [0.0; 5]);
        assert_eq!(five.tick([0.3; 5], [0.3; 5]), None);
    }
}
