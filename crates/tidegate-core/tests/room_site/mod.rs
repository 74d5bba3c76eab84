//! A site with a room before it, in virtual time: visitors who were called come or do not, stay a while, and each bring
//! some requests. Nothing is drawn but from a seed.

use std::time::Duration;

use tidegate_core::rng::Rng;
use tidegate_core::room::{Bounds, Load, Look, Plan, Release};
use tidegate_core::time::Mono;

/// Requests per second that the fleet has room for.
pub(crate) const CAPACITY: f64 = 1_000.0;

/// Four ticks are a second.
const TICK_MS: u64 = 250;
/// A visitor stays so long on average.
const STAY_S: f64 = 120.0;
/// Of those called who will come, so many do in a tick.
const COMES: f64 = 0.1;
/// After so many ticks those who did not come are called no more.
const CLAIM_TICKS: u64 = 80;
/// So many ticks pass until what visitors bring is seen in the fleet's figures.
const SEEN_AFTER: usize = 4;

/// The site.
pub(crate) struct Site {
    release: Release,
    rng: Rng,
    /// Requests per second of one visitor.
    pub(crate) each: f64,
    /// How many of those called come.
    comes: f64,
    active: u64,
    called: Vec<Called>,
    claimed: u64,
    returned: u64,
    tick: u64,
    loads: Vec<f64>,
}

struct Called {
    until: u64,
    will_come: bool,
}

impl Site {
    /// With visitors of half a request per second each, of whom so many come when they are called.
    pub(crate) fn new(comes: f64, seed: u64) -> Self {
        let bounds = Bounds {
            rate_max: 1_000.0,
            rate_min: 0.5,
            fill: Duration::from_secs(30),
            active_max: None,
        };
        Self {
            release: Release::new(bounds, Load::new(0.5)),
            rng: Rng::new(seed),
            each: 0.5,
            comes,
            active: 0,
            called: Vec::new(),
            claimed: 0,
            returned: 0,
            tick: 0,
            loads: Vec::new(),
        }
    }

    /// A tick of the leader, and what it decided.
    pub(crate) fn step(&mut self) -> Plan {
        self.tick += 1;
        self.come_and_go();
        self.loads.push(self.active as f64 * self.each);
        let at = self.loads.len().saturating_sub(1 + SEEN_AFTER);
        let seen = self.loads[at];
        let look = Look {
            spare_rps: Some((CAPACITY - seen).max(0.0)),
            admitted_rps: seen,
            active: self.active,
            ready: self.called.len() as u64,
            claimed: self.claimed,
            returned: self.returned,
        };
        let now = Mono::from_millis(TICK_MS * self.tick);
        let plan = self.release.tick(now, &look);
        for _ in 0..plan.count {
            let will_come = self.rng.unit() < self.comes;
            let until = self.tick + CLAIM_TICKS;
            self.called.push(Called { until, will_come });
        }
        plan
    }

    /// So many seconds.
    pub(crate) fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 1_000 / TICK_MS {
            self.step();
        }
    }

    /// Visitors that came in per second over so many seconds.
    pub(crate) fn pace(&mut self, seconds: u64) -> f64 {
        let before = self.claimed;
        self.run(seconds);
        (self.claimed - before) as f64 / seconds as f64
    }

    /// What part of the fleet is in use.
    pub(crate) fn used(&self) -> f64 {
        self.active as f64 * self.each / CAPACITY
    }

    fn come_and_go(&mut self) {
        let leave = TICK_MS as f64 / 1_000.0 / STAY_S;
        for _ in 0..self.active {
            if self.rng.unit() < leave {
                self.active -= 1;
            }
        }
        let (tick, rng) = (self.tick, &mut self.rng);
        let (mut came, mut missed) = (0, 0);
        self.called.retain(|called| {
            let comes = called.will_come && rng.unit() < COMES;
            let misses = !comes && called.until < tick;
            came += u64::from(comes);
            missed += u64::from(misses);
            !comes && !misses
        });
        self.active += came;
        self.claimed += came;
        self.returned += missed;
    }
}
