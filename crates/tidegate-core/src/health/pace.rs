//! A share that follows what a fleet has left: down soon, up slowly, and not to and fro.
//!
//! What follows the fleet's headroom closes a loop: it lets in less, and so there is more left. A second passes until a
//! node has said so, another until somebody has decided, and a third until it is heard. With such a delay a share that
//! jumps to where it should be swings between all and nothing. This one goes a part of its way in each tick, and does not rise
//! until it has rested from its last fall.

use std::time::Duration;

use super::state::Bands;
use crate::time::Mono;

/// The part of the way down that is gone in a tick.
const FALL: f64 = 0.15;
/// The part of the way up that is gone in a tick, ...
const RISE: f64 = 0.05;
/// ... and the most of it.
const RISE_MAX: f64 = 0.1;
/// And the most of itself that a share loses in a tick.
const FALL_MAX: f64 = 0.5;
/// How long a share does not rise after it fell.
const REST: Duration = Duration::from_secs(5);
/// What it rises by in a tick when nobody knows any more what it should be.
const OPENING: f64 = 0.1;
/// Nobody moves for less than this.
const DEAD: f64 = 0.02;
/// So near to everything it is everything.
const NEARLY_ALL: f64 = 0.99;

/// Where a share is, and when it fell last. A tick is a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The share, 0 to 1.
    pub share: f64,
    /// When it fell last, if it has not been everything since.
    pub fell: Option<Mono>,
}

impl Pace {
    /// Everything.
    pub const ALL: Self = Self {
        share: 1.0,
        fell: None,
    };

    /// What it becomes at `now` on its way to `goal`, 0 to 1; called once a tick. Without a goal it stays.
    #[must_use]
    pub fn step(self, now: Mono, goal: Option<f64>) -> Self {
        let Some(goal) = goal.filter(|goal| goal.is_finite()) else {
            return self;
        };
        let way = goal.clamp(0.0, 1.0) - self.share;
        if way < -DEAD {
            return Self {
                share: (self.share + FALL * way).max(self.share * FALL_MAX),
                fell: Some(now),
            };
        }
        let rests = self.fell.is_some_and(|fell| now.since(fell) < REST);
        if rests || !(way > DEAD || goal >= 1.0) {
            return self;
        }
        // In proportion alone it would never arrive.
        let share = self.share + (RISE * way).clamp(DEAD / 2.0, RISE_MAX).min(way.max(0.0));
        if share >= NEARLY_ALL && goal >= NEARLY_ALL {
            return Self::ALL;
        }
        Self { share, ..self }
    }

    /// What it becomes when nothing is known that it could follow: silence means that all is well, so it goes up, by 0.1 in a
    /// tick and without a rest, as it does where nobody says it any more.
    #[must_use]
    pub fn open(self) -> Self {
        let share = self.share + OPENING;
        if share >= NEARLY_ALL {
            return Self::ALL;
        }
        Self { share, ..self }
    }
}

/// The share that `left` of a fleet, 0 to 1, is to let in: all from where a node counts as recovered, nothing from
/// where it is saturated, and in proportion between.
pub fn room(left: f64, bands: &Bands) -> f64 {
    let (none, all) = (bands.saturated_below(), bands.recover_above());
    ((left - none) / (all - none)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::smoothing::Smoothing;
    use super::*;

    fn at(tick: u64) -> Mono {
        Mono::from_millis(tick * 1_000)
    }

    #[test]
    fn what_has_nothing_to_follow_is_everything_within_ten_ticks() {
        let fallen = Pace {
            share: 0.0,
            fell: Some(at(0)),
        };

        let mut pace = fallen.open();
        assert_eq!((pace.share, pace.fell), (OPENING, fallen.fell));
        for _ in 1..10 {
            pace = pace.open();
        }

        assert_eq!(pace, Pace::ALL);
        assert_eq!(Pace::ALL.open(), Pace::ALL);
    }

    #[test]
    fn room_begins_where_nodes_are_saturated_and_ends_where_they_have_recovered() {
        let bands = Bands::default();

        assert_eq!(room(0.2, &bands), 0.0);
        assert_eq!(room(0.0, &bands), 0.0);
        assert!((room(0.375, &bands) - 0.5).abs() < 1e-9);
        assert_eq!(room(0.55, &bands), 1.0);
        assert_eq!(room(1.0, &bands), 1.0);
    }

    #[test]
    fn it_falls_at_once_and_rises_after_a_rest() {
        let fallen = Pace::ALL.step(at(1), Some(0.0));
        assert!((fallen.share - 0.85).abs() < 1e-9);

        let rests = (2..6).fold(fallen, |pace, tick| pace.step(at(tick), Some(1.0)));
        assert_eq!(rests, fallen);
        assert!(fallen.step(at(6), Some(1.0)).share > fallen.share);
    }

    #[test]
    fn it_arrives_at_everything_within_a_minute_and_at_nothing_never() {
        let mut pace = Pace::ALL;
        for tick in 0..120 {
            pace = pace.step(at(tick), Some(0.0));
        }
        assert!(0.0 < pace.share && pace.share < 0.03);

        let arrives = (120..240).find(|&tick| {
            pace = pace.step(at(tick), Some(1.0));
            pace == Pace::ALL
        });

        assert!(arrives.is_some_and(|tick| tick < 200), "{arrives:?}");
    }

    #[test]
    fn what_is_not_known_moves_nothing() {
        let pace = Pace::ALL.step(at(1), Some(0.3));

        assert_eq!(pace.step(at(60), None), pace);
        assert_eq!(pace.step(at(60), Some(f64::NAN)), pace);
    }

    /// A fleet that is offered `offered` times what it can do, and lets in `floor` of it and the share of the rest, which it
    /// hears three ticks late, and moves as `next` says. By how much what is used swings in the last two minutes.
    fn swing(offered: f64, floor: f64, next: impl Fn(Pace, Mono, f64) -> Pace) -> f64 {
        let (bands, smoothing) = (Bands::default(), Smoothing::default());
        let (mut pace, mut left) = (Pace::ALL, 1.0);
        let mut on_the_way = [1.0; 3];
        let (mut least, mut most) = (1.0_f64, 0.0_f64);
        for tick in 0..600 {
            let share = std::mem::replace(&mut on_the_way[tick % 3], pace.share);
            let used = (offered * (floor + (1.0 - floor) * share)).min(1.0);
            left = smoothing.step(Some(left), 1.0 - used);
            pace = next(pace, at(tick as u64), room(left, &bands));
            if tick >= 480 {
                (least, most) = (least.min(used), most.max(used));
            }
        }
        most - least
    }

    #[test]
    fn a_share_that_jumps_to_where_it_should_be_swings_and_this_one_does_not() {
        let jumps = swing(1.2, 0.2, |_, _, share| Pace { share, fell: None });
        let goes = swing(1.2, 0.2, |pace, now, goal| pace.step(now, Some(goal)));

        assert!(jumps > 0.5, "{jumps}");
        assert!(goes < 0.1, "{goes}");
    }

    proptest! {
        #[test]
        fn what_follows_the_headroom_hardly_swings(offered in 0.1..1.6_f64, floor in 0.1..0.9_f64) {
            let swing = swing(offered, floor, |pace, now, goal| pace.step(now, Some(goal)));

            prop_assert!(swing < 0.15, "{swing}");
        }

        #[test]
        fn a_share_stays_a_share_and_never_jumps(goals in prop::collection::vec(-1.0..2.0_f64, 1..200)) {
            let mut pace = Pace::ALL;
            for (tick, goal) in goals.into_iter().enumerate() {
                let next = pace.step(at(tick as u64), Some(goal));

                prop_assert!((0.0..=1.0).contains(&next.share));
                prop_assert!(next.share >= pace.share * FALL_MAX);
                prop_assert!(next.share <= pace.share + RISE_MAX);
                pace = next;
            }
        }
    }
}
