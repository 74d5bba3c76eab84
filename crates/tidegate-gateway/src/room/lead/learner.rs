//! What a gateway learns of a line by looking at it: how long waits are, why they have become longer, and how often pages may
//! ask.
//!
//! Every gateway does, whether or not it leads, so that the next leader knows as much as the last one.

use std::time::Duration;

use tidegate_core::room::{
    Band, Budget, Census, Epoch, Glance, Governor, Group, Outlook, Place, Policy, Positions,
    Second, Tier, Watch,
};
use tidegate_core::time::{Mono, Wall};
use tidegate_store::Fence;

use super::word::Slept;

/// What lies between two looks that something is learnt from.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// So many places all over the line are told a wait each time.
const TOLD_AT_ONCE: usize = 24;
/// A group of those who wait begins with so many marks before it for each mark in it.
const GROUP_GROWS: usize = 3;
/// Where in a group somebody stands who asks as often as the others do on average: it is those ahead who ask most.
const GROUP_AT: f64 = 0.3;
/// Over how long it is measured how many come.
const JOINING_OVER: Duration = Duration::from_secs(10);

/// What is learnt of one line.
pub(super) struct Learner {
    epoch: Option<Epoch>,
    outlook: Outlook,
    band: Band,
    watch: Watch,
    governor: Governor,
    policy: Policy,
    /// When something is learnt next.
    next: Mono,
    /// What the leader had swept by the last look, and which leader.
    slept: Option<(Fence, Slept)>,
    /// When it was last counted how many had come, and how many do per second.
    joined: Option<(Mono, u64)>,
    joining: f64,
}

/// How a line is at a moment.
#[derive(Clone, Copy)]
pub(super) struct Sighting<'a> {
    pub(super) now: Mono,
    /// The store's clock.
    pub(super) there: Wall,
    pub(super) epoch: Epoch,
    pub(super) census: &'a Census,
    pub(super) positions: &'a Positions,
    /// Whether anybody may be called.
    pub(super) moves: bool,
    /// What the leader has swept since it leads.
    pub(super) swept: Option<(Fence, Slept)>,
    /// Visitors per second.
    pub(super) rate: f64,
    pub(super) gateways: u32,
}

impl Learner {
    /// One that knows nothing, where all pages together may ask one gateway so often.
    pub(super) fn new(asks: Budget) -> Self {
        let mut governor = Governor::new(asks);
        Self {
            epoch: None,
            outlook: Outlook::default(),
            band: Band::new(),
            watch: Watch::default(),
            policy: governor.policy(Mono::default(), &[], 0.0),
            governor,
            next: Mono::default(),
            slept: None,
            joined: None,
            joining: 0.0,
        }
    }

    /// Takes in how the line is. Once a second is meant.
    pub(super) fn see(&mut self, sighting: &Sighting<'_>) {
        if self.epoch.replace(sighting.epoch) != Some(sighting.epoch) {
            self.begin_anew();
        }
        self.watch.see(
            sighting.now,
            &Second {
                now_ms: sighting.there.as_micros() / 1_000,
                moves: sighting.moves,
                waiting: sighting.census.waiting,
                called: sighting.census.tallies.released,
                rate: sighting.rate,
            },
        );
        self.count_joining(sighting);
        if self.next <= sighting.now {
            self.next = sighting.now + LOOK_EVERY;
            self.look(sighting);
        }
        let groups = self.groups(sighting);
        // Each gateway is asked by its part of them.
        let joining = self.joining / f64::from(sighting.gateways.max(1));
        self.policy = self.governor.policy(sighting.now, &groups, joining);
    }

    /// Nothing follows from what lies between: the line was not seen.
    pub(super) fn skip(&mut self) {
        self.outlook.skip();
        self.band.forget();
        (self.slept, self.joined) = (None, None);
    }

    /// How often pages may ask.
    pub(super) const fn policy(&self) -> Policy {
        self.policy
    }

    pub(super) const fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(super) const fn outlook(&self) -> &Outlook {
        &self.outlook
    }

    pub(super) const fn band(&self) -> &Band {
        &self.band
    }

    /// By how much waits were off that were told, and what part was within its band.
    pub(super) fn error(&self) -> Option<(f64, f64)> {
        let error = self.band.error();
        (error.count > 0).then_some((error.mean, error.inside))
    }

    fn begin_anew(&mut self) {
        self.skip();
        self.watch = Watch::default();
        self.joining = 0.0;
    }

    fn count_joining(&mut self, sighting: &Sighting<'_>) {
        let joined = sighting.census.tallies.joined;
        let Some((at, before)) = self.joined.replace((sighting.now, joined)) else {
            return;
        };
        let span = sighting.now.since(at).as_secs_f64();
        if span > 0.0 {
            let came = joined.saturating_sub(before) as f64 / span;
            let weight = 1.0 - (-span / JOINING_OVER.as_secs_f64()).exp();
            self.joining += weight * (came - self.joining);
        }
    }

    fn look(&mut self, sighting: &Sighting<'_>) {
        let before = std::mem::replace(&mut self.slept, sighting.swept);
        if !sighting.moves {
            self.outlook.skip();
            self.band.forget();
            return;
        }
        let slept = match (before, sighting.swept) {
            (Some((led, before)), Some((leads, swept))) if led == leads => swept.since(before),
            // A new leader counts from when it began.
            (_, Some((_, swept))) if before.is_some() => swept,
            _ => Slept::default(),
        };
        let census = sighting.census;
        let now = sighting.epoch.place(sighting.there);
        self.outlook.learn(
            sighting.now,
            &Glance {
                now,
                document: sighting.positions,
                tallies: census.tallies,
                aged: census.aged,
                slept: slept.tiers,
                slept_aged: slept.aged,
                grace: self.policy.grace,
            },
        );
        let first = census.marks.each_ref().map(|marks| marks.first().copied());
        self.band.served(sighting.now, first);
        self.tell(sighting);
    }

    /// Tells waits to some all over the line, to see later how long they took.
    fn tell(&mut self, sighting: &Sighting<'_>) {
        let marks = marks(&sighting.census.marks);
        let step = marks.len().div_ceil(TOLD_AT_ONCE).max(1);
        for &(tier, place) in marks.iter().step_by(step) {
            if let Some(wait) = self.outlook.wait(tier, place) {
                self.band.tell(sighting.now, tier, place, wait);
            }
        }
    }

    /// Those who wait, by how long, as far as they ask one gateway. The nearer they are, the smaller the groups: who is near
    /// asks often.
    fn groups(&self, sighting: &Sighting<'_>) -> Vec<Group> {
        let gateways = u64::from(sighting.gateways.max(1));
        let end = sighting.epoch.place(sighting.there);
        let mut groups = Vec::new();
        for tier in Tier::ALL {
            let marks = &sighting.positions.tiers[tier.index()];
            let mut left = marks.waiting;
            let mut from = 0;
            while let Some(first) = marks.places.get(from) {
                let upto = from + (from / GROUP_GROWS).max(1);
                let next = marks.places.get(upto).copied().unwrap_or(end);
                let all = ((upto - from) as u64 * marks.step).min(left);
                let (soonest, latest) = (
                    self.outlook.wait(tier, *first),
                    self.outlook.wait(tier, next),
                );
                let wait = soonest.zip(latest).map(|(soonest, latest)| {
                    soonest + latest.saturating_sub(soonest).mul_f64(GROUP_AT)
                });
                groups.push(Group {
                    count: all.div_ceil(gateways),
                    wait,
                });
                left -= all;
                from = upto;
            }
        }
        groups
    }
}

/// The marks of all tiers, one behind the other.
fn marks(marks: &[Vec<Place>; Tier::COUNT]) -> Vec<(Tier, Place)> {
    let of = |tier: Tier| marks[tier.index()].iter().map(move |place| (tier, *place));
    Tier::ALL.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use tidegate_core::room::{BEAT_MIN, MARK_STEP_MIN, MARKS_MAX, Order, SEQUENCES, Tallies};

    use super::*;

    const EPOCH: Epoch = Epoch(1_790_000_000_000);
    const ASKS: Budget = Budget {
        polls: 100.0,
        beats: 500.0,
    };

    /// A line in which so many wait, who came one every 100 ms, and of whom so many were called.
    fn census(waiting: u64, called: u64) -> Census {
        let step = waiting.div_ceil(MARKS_MAX).max(MARK_STEP_MIN);
        let place = |number: u64| Place(100 * number * SEQUENCES);
        let each = (0..waiting).step_by(step as usize);
        Census {
            waiting: [0, 0, waiting],
            marks: [vec![], vec![], each.map(|at| place(called + at)).collect()],
            tallies: Tallies {
                joined: waiting + called,
                entered: waiting + called,
                released: called,
                ..Tallies::default()
            },
            ..Census::default()
        }
    }

    /// Looks once a second, while ten in a second are called and as many come.
    fn watched(learner: &mut Learner, seconds: std::ops::Range<u64>, waiting: u64, gateways: u32) {
        for second in seconds {
            let census = census(waiting, 10 * second);
            let positions = Positions::of(Order::Strict, &census);
            learner.see(&Sighting {
                now: Mono::from_millis(1_000 * second),
                there: Wall::from_micros((EPOCH.0 + 1_000 * second + 100 * waiting) * 1_000),
                epoch: EPOCH,
                census: &census,
                positions: &positions,
                moves: true,
                swept: Some((Fence(1), Slept::default())),
                rate: 10.0,
                gateways,
            });
        }
    }

    #[test]
    fn a_wait_is_who_is_ahead_by_how_fast_they_are_called() {
        let mut learner = Learner::new(ASKS);

        watched(&mut learner, 0..300, 2_000, 1);

        let last = EPOCH.place(Wall::from_micros((EPOCH.0 + 499_000) * 1_000));
        let wait = learner.outlook().wait(Tier::Anonymous, last).unwrap();
        assert!((190..=210).contains(&wait.as_secs()), "{wait:?}");
        let (error, _) = learner.error().unwrap();
        assert!(error < 0.2, "{error}");
        assert_eq!(learner.watch().longer(), None);
    }

    #[test]
    fn each_gateway_is_asked_by_its_part_of_those_who_wait() {
        let (mut alone, mut of_four) = (Learner::new(ASKS), Learner::new(ASKS));

        watched(&mut alone, 0..60, 40_000, 1);
        watched(&mut of_four, 0..60, 40_000, 4);

        let stretch = [&alone, &of_four].map(|learner| learner.policy().stretch);
        assert!(stretch[0] > 2 * stretch[1], "{stretch:?}");
        assert_eq!(alone.policy().beat, Duration::from_secs(80));
        assert_eq!(of_four.policy().beat, BEAT_MIN);
    }

    #[test]
    fn nothing_follows_from_what_was_in_another_epoch() {
        let mut learner = Learner::new(ASKS);
        watched(&mut learner, 0..60, 2_000, 1);
        let error = learner.error();
        assert!(learner.joining > 5.0, "{}", learner.joining);
        let census = Census::default();
        let positions = Positions::of(Order::Strict, &census);

        learner.see(&Sighting {
            now: Mono::from_millis(60_000),
            there: Wall::from_micros((EPOCH.0 + 500_000) * 1_000),
            epoch: Epoch(EPOCH.0 + 400_000),
            census: &census,
            positions: &positions,
            moves: true,
            swept: None,
            rate: 10.0,
            gateways: 1,
        });

        assert_eq!(learner.joining, 0.0);
        assert_eq!(
            learner.error(),
            error,
            "who was told a wait there is forgotten"
        );
        assert_eq!(learner.watch().longer(), None);
    }
}
