//! What the data path goes by of what is said of the whole fleet: how much of the usual to let in, and how much room
//! there is for what follows the fleet's headroom.
//!
//! Whoever takes part in the fleet says it once a second, with how long it counts. The gateway asks nobody, and a word that
//! nobody repeats is over by the gateway's own clock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::rate::Price;
use tidegate_core::rate::price::{SHARE_ALL, share_above};
use tidegate_core::time::Mono;

use crate::context::Clock;

/// The bits of a share in thousandths.
const SHARE_BITS: u32 = 16;

/// What is said of the fleet that this gateway is a node of.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetWord {
    /// Which part of the usual is to be let in, 0 to 1.
    pub admission: f64,
    /// How much of what follows the fleet's headroom holds, 0 to 1; `None` when nobody knows what is left.
    pub room: Option<f64>,
    /// The same of each dependency of which not everything holds, by its name.
    pub budgets: BTreeMap<String, f64>,
    /// Why less is let in, in a word.
    pub why: Option<String>,
    /// What the fleet could do in addition, in requests per second; `None` when nobody knows.
    pub spare_rps: Option<f64>,
    /// What part of what it can do it does, from 0; `None` when nobody knows.
    pub utilisation: Option<f64>,
    /// For how long it counts.
    pub lasts: Duration,
}

/// What was heard of the fleet.
pub(crate) struct Heard {
    clock: Clock,
    /// Until when in milliseconds, and in the last bits the thousandths of room; 0 for nothing.
    room: AtomicU64,
    /// The same of each dependency, in the plan's order, with its name.
    budgets: Box<[(String, AtomicU64)]>,
    why: Mutex<Option<(Mono, String)>>,
    /// Until when, and what.
    spare: Mutex<Option<(Mono, FleetSpare)>>,
}

/// What a fleet has to spare, for the waiting rooms in front of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FleetSpare {
    /// What it could do in addition, in requests per second.
    pub(crate) spare_rps: Option<f64>,
    /// What part of what it can do it does.
    pub(crate) utilisation: Option<f64>,
    /// How much of what follows its headroom holds, 0 to 1.
    pub(crate) room: Option<f64>,
}

/// How a limit follows the fleet's headroom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowPlan {
    /// The part of its rate that always holds, in thousandths; 100 to 999.
    pub floor: u32,
    /// How long what was heard last holds once nobody says anything. After that the whole rate does.
    pub hold: Duration,
}

/// Why a limit that follows the fleet is where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// It was said, and counts.
    Told,
    /// It was said last, and nothing since.
    Held,
    /// Nobody says anything.
    Nobody,
}

impl Source {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Told, Self::Held, Self::Nobody];

    /// The name in JSON and metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Told => "told",
            Self::Held => "held",
            Self::Nobody => "nobody",
        }
    }
}

impl FollowPlan {
    /// What a token takes of a limit at the rate that is written: of one that follows by `plan`, or follows nothing.
    pub const fn unit(plan: Option<&Self>) -> Price {
        match plan {
            Some(_) => Price::FULL,
            None => Price::FIXED,
        }
    }
}

impl Heard {
    /// Nothing yet, of these dependencies.
    pub(crate) fn new(clock: Clock, dependencies: impl Iterator<Item = String>) -> Self {
        Self {
            clock,
            room: AtomicU64::new(0),
            budgets: dependencies.map(|name| (name, AtomicU64::new(0))).collect(),
            why: Mutex::new(None),
            spare: Mutex::new(None),
        }
    }

    /// Takes in what is said.
    pub(crate) fn hear(&self, word: &FleetWord) {
        let until = self.clock.now() + word.lasts;
        if let Some(room) = word.room.filter(|room| room.is_finite()) {
            self.room.store(packed(until, room), Ordering::Relaxed);
        }
        for (name, budget) in self.budgets.iter() {
            let share = word.budgets.get(name).copied().filter(|it| it.is_finite());
            budget.store(packed(until, share.unwrap_or(1.0)), Ordering::Relaxed);
        }
        let why = word.why.clone().map(|why| (until, why));
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
        let number = |it: Option<f64>| it.filter(|it| it.is_finite());
        let spare = FleetSpare {
            spare_rps: number(word.spare_rps),
            utilisation: number(word.utilisation),
            room: number(word.room),
        };
        let mut place = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some((until, spare));
    }

    /// What the fleet has to spare, while what was said of it counts.
    pub(crate) fn fleet(&self, now: Mono) -> Option<FleetSpare> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare
            .filter(|(until, _)| now < *until)
            .map(|(_, spare)| spare)
    }

    /// Why less than usual is let in, while that is said.
    pub(crate) fn why(&self) -> Option<String> {
        let now = self.clock.now();
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.as_ref()
            .filter(|(until, _)| now < *until)
            .map(|(_, why)| why.clone())
    }

    /// The same of the rate of the dependency at this place.
    pub(crate) fn price_of(&self, dependency: usize, plan: &FollowPlan) -> (Price, Source) {
        let (_, budget) = &self.budgets[dependency];
        following(plan, budget.load(Ordering::Relaxed), self.clock.now())
    }

    /// What a token takes now of a limit that follows the fleet as `plan` says, and why.
    pub(crate) fn price(&self, plan: &FollowPlan) -> (Price, Source) {
        following(plan, self.room.load(Ordering::Relaxed), self.clock.now())
    }
}

fn packed(until: Mono, share: f64) -> u64 {
    let thousandths = (share.clamp(0.0, 1.0) * f64::from(SHARE_ALL)).round() as u64;
    let until_ms = until.as_nanos() / 1_000_000;
    (until_ms.max(1) << SHARE_BITS) | thousandths
}

/// The same by what was `heard`, at `now`.
fn following(plan: &FollowPlan, heard: u64, now: Mono) -> (Price, Source) {
    let (until, room) = (
        Mono::from_millis(heard >> SHARE_BITS),
        heard & ((1 << SHARE_BITS) - 1),
    );
    let source = match heard {
        0 => Source::Nobody,
        _ if now < until => Source::Told,
        _ if now < until + plan.hold => Source::Held,
        _ => Source::Nobody,
    };
    let share = match source {
        Source::Nobody => SHARE_ALL,
        Source::Told | Source::Held => share_above(plan.floor, room as u32),
    };
    (Price::at(share), source)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: FollowPlan = FollowPlan {
        floor: 200,
        hold: Duration::from_secs(10),
    };

    #[test]
    fn what_was_said_last_holds_for_a_while_and_then_the_whole_rate() {
        let heard = (3_000 << SHARE_BITS) | 375;
        let at = |ms| following(&PLAN, heard, Mono::from_millis(ms));

        // A fifth, and three eighths of the rest.
        assert_eq!(at(2_999), (Price::at(500), Source::Told));
        assert_eq!(at(3_000), (Price::at(500), Source::Held));
        assert_eq!(at(12_999), (Price::at(500), Source::Held));
        assert_eq!(at(13_000), (Price::FULL, Source::Nobody));
        assert_eq!(
            following(&PLAN, 0, Mono::from_millis(1)),
            (Price::FULL, Source::Nobody)
        );
    }

    #[test]
    fn a_word_without_room_leaves_what_was_known_of_it() {
        let heard = Heard::new(Clock::start(), ["db".to_owned()].into_iter());
        let word = |room| FleetWord {
            admission: 0.5,
            room,
            budgets: BTreeMap::from([("db".to_owned(), 0.0)]),
            why: Some("dependency".to_owned()),
            spare_rps: None,
            utilisation: None,
            lasts: Duration::from_secs(60),
        };

        heard.hear(&word(Some(0.0)));
        heard.hear(&word(None));

        assert_eq!(heard.price(&PLAN), (Price::at(200), Source::Told));
        assert_eq!(heard.why().as_deref(), Some("dependency"));
        assert_eq!(heard.price_of(0, &PLAN), (Price::at(200), Source::Told));
        heard.hear(&FleetWord {
            lasts: Duration::ZERO,
            ..word(Some(f64::NAN))
        });
        assert_eq!(heard.price(&PLAN), (Price::at(200), Source::Told));
        assert_eq!(heard.why(), None);
    }

    #[test]
    fn what_a_fleet_has_to_spare_is_known_while_it_counts() {
        let heard = Heard::new(Clock::start(), std::iter::empty());
        let word = FleetWord {
            admission: 1.0,
            room: Some(0.5),
            budgets: BTreeMap::new(),
            why: None,
            spare_rps: Some(120.0),
            utilisation: Some(f64::NAN),
            lasts: Duration::from_secs(60),
        };
        let now = heard.clock.now();
        assert_eq!(heard.fleet(now), None);

        heard.hear(&word);

        let spare = FleetSpare {
            spare_rps: Some(120.0),
            utilisation: None,
            room: Some(0.5),
        };
        assert_eq!(heard.fleet(now), Some(spare));
        let later = heard.clock.now() + Duration::from_secs(60);
        assert_eq!(heard.fleet(later), None);
    }
}
