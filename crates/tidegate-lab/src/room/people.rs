//! Those who come, and what they will do.

use tidegate_core::rng::Rng;
use tidegate_core::room::{Place, Tier};

use super::story::{BOUNCE_S, Crowd};

/// Somebody.
#[derive(Clone, Copy, Debug)]
pub(super) struct Person {
    pub(super) place: Place,
    pub(super) tier: Tier,
    /// Which one of those who came to that tier, from 1.
    pub(super) number: u32,
    /// The second in which they are gone without a word, whatever they know.
    pub(super) leaves: u64,
    /// Whether they will see that it is their turn.
    pub(super) sees: bool,
    /// The second in which they were called.
    pub(super) called: Option<u64>,
    /// The second in which they went in.
    pub(super) passed: Option<u64>,
    /// The second in which they changed to another tier.
    pub(super) promoted: Option<u64>,
    pub(super) stage: Stage,
}

/// As far as the person knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Has got the page and a place.
    New,
    Waits,
    Called,
    Passed,
}

/// Draws of people, all from one seed.
#[derive(Debug)]
pub(super) struct Draws(Rng);

impl Draws {
    pub(super) const fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    pub(super) fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// A whole number of seconds from `from` to below `upto`.
    pub(super) fn between(&mut self, from: u64, upto: u64) -> u64 {
        from + self.0.below(upto.saturating_sub(from))
    }

    fn happens(&mut self, share: f64) -> bool {
        self.0.unit() < share
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.0.unit()).ln()
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.0.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.0.unit()).cos()
    }

    /// How many of something come in a second in which `mean` do on average.
    pub(super) fn poisson(&mut self, mean: f64) -> u64 {
        // Sums of exponential gaps: exact, and quick for as few as come in a second.
        let (mut count, mut at) = (0, self.exponential(1.0));
        while at < mean {
            count += 1;
            at += self.exponential(1.0);
        }
        count
    }

    /// Somebody who comes in `second` and gets `place`; whether they ever come back with it.
    pub(super) fn person(&mut self, crowd: &Crowd, second: u64, place: Place) -> (Person, bool) {
        let mut tier = Tier::Anonymous;
        let mut left = self.unit();
        for it in Tier::ALL {
            let share = crowd.tiers[it.index()];
            if left < share {
                tier = it;
                break;
            }
            left -= share;
        }
        let returns = !self.happens(crowd.cookieless);
        let bounces = self.happens(crowd.bounces);
        let closes = self.happens(crowd.closes);
        let look = self.exponential(BOUNCE_S);
        let patience = crowd.patience * (crowd.spread * self.normal()).exp();
        let stays = match (bounces, closes) {
            (true, _) => look,
            (false, true) => patience,
            (false, false) => f64::INFINITY,
        };
        let person = Person {
            place,
            tier,
            number: 0,
            // Seconds that no run reaches.
            leaves: second.saturating_add(stays.min(1e12) as u64),
            sees: !self.happens(crowd.misses),
            called: None,
            passed: None,
            promoted: None,
            stage: Stage::New,
        };
        (person, returns)
    }
}

impl Person {
    /// Whether their page is still open.
    pub(super) const fn is_there(&self, second: u64) -> bool {
        second < self.leaves
    }
}
