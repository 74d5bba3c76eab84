//! How many to let in next.

use std::time::Duration;

use super::{Load, NoShows};
use crate::time::Mono;

/// So long nothing may be heard of the fleet before the rate is halved.
const UNHEARD_AFTER: Duration = Duration::from_secs(3);
/// So much longer before it is the least.
const LOST_AFTER: Duration = Duration::from_secs(30);
/// What a pause may save up: no more than this time's worth is called at once.
const BURST: Duration = Duration::from_secs(1);
/// What came in over this time beyond what was planned is made up for.
const DEBT: Duration = Duration::from_secs(60);

/// Between what the rate of a room moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Visitors per second at most.
    pub rate_max: f64,
    /// Visitors per second while nothing is heard of the fleet.
    pub rate_min: f64,
    /// In what time spare capacity is to be used up. Shorter is quicker and swings sooner; what somebody brings has to be
    /// seen in the fleet's figures well within it.
    pub fill: Duration,
    /// Visitors that may be inside at most, called ones included; `None` for as many as the fleet can take.
    pub active_max: Option<u64>,
}

/// What a leader sees at a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// What the fleet could do in addition, in requests per second; `None` when nothing new was heard.
    pub spare_rps: Option<f64>,
    /// What those who were let in bring together, in requests per second.
    pub admitted_rps: f64,
    /// How many of them are inside.
    pub active: u64,
    /// How many were called and have not come yet.
    pub ready: u64,
    /// How many ever came.
    pub claimed: u64,
    /// How many ever did not.
    pub returned: u64,
}

/// What a leader does at a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// So many are called.
    pub count: u64,
    /// So many may come in per second.
    pub rate: f64,
    /// What keeps it from being more.
    pub brake: Brake,
}

/// What keeps more from being let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Brake {
    /// What the fleet has to spare.
    Spare,
    /// `rate_max`.
    RateMax,
    /// `active_max`.
    ActiveMax,
    /// Nothing was heard of the fleet for some seconds.
    Unheard,
    /// Nothing was heard of it for long.
    Lost,
}

/// Says at each tick how many to let in.
///
/// The rate is what the fleet has to spare, less what those called will bring, by what one of them brings, over the time in
/// which that is to be filled. It stops by itself where nothing is left. What counts is who comes in, not who is called:
/// those who are expected not to come are called in addition, and what is not used comes back.
#[derive(Clone, Debug)]
pub struct Release {
    bounds: Bounds,
    load: Load,
    no_shows: NoShows,
    /// Visitors that may be called now, less those who came beyond what was planned.
    bucket: f64,
    /// Those who came, and are expected of those called, when it was last looked.
    committed: f64,
    seen: Option<Seen>,
    /// When the fleet was last heard of, and the rate then.
    heard: Option<(Mono, f64)>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Mono,
    claimed: u64,
    returned: u64,
}

impl Release {
    /// One that knows nothing yet; `load` is taken for what a visitor brings until it is learnt.
    pub fn new(bounds: Bounds, load: Load) -> Self {
        Self {
            bounds,
            load,
            no_shows: NoShows::default(),
            bucket: 0.0,
            committed: 0.0,
            seen: None,
            heard: None,
        }
    }

    /// What a visitor is known to bring.
    pub const fn load(&self) -> Load {
        self.load
    }

    /// How many of those called do not come, 0 to 0.5.
    pub fn no_shows(&self) -> f64 {
        self.no_shows.share()
    }

    /// Other bounds from now on.
    pub const fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// What to do now. What it says is taken to be done.
    pub fn tick(&mut self, now: Mono, look: &Look) -> Plan {
        let span = self.learn(now, look);
        let comes = 1.0 - self.no_shows.share();
        let (rate, brake) = self.rate(now, look, comes);
        // Who came beyond what was planned takes from it, and who was counted on and did not come gives back.
        let committed = look.claimed as f64 + look.ready as f64 * comes;
        let moved = committed - self.committed;
        let filled = self.bucket + rate * span.as_secs_f64() - moved;
        let debt = (rate * DEBT.as_secs_f64()).max(1.0);
        self.bucket = filled.clamp(-debt, (rate * BURST.as_secs_f64()).max(1.0));
        let slots = self.slots(look, comes);
        let may = self.bucket.min(slots).max(0.0);
        // What should be whole may be a hair less.
        let count = (may / comes + 1e-9).floor();
        let is_held = slots < self.bucket;
        self.bucket -= count * comes;
        self.committed = committed + count * comes;
        Plan {
            count: count as u64,
            rate,
            brake: if is_held { Brake::ActiveMax } else { brake },
        }
    }

    /// Takes in what has happened, and says in which time.
    fn learn(&mut self, now: Mono, look: &Look) -> Duration {
        let (claimed, returned) = (look.claimed, look.returned);
        let latest = Seen {
            at: now,
            claimed,
            returned,
        };
        let before = self.seen.replace(latest);
        let known = before.filter(|it| it.claimed <= claimed && it.returned <= returned);
        let span = before.map_or(Duration::ZERO, |it| now.since(it.at));
        match known {
            Some(it) => {
                let (came, missed) = (claimed - it.claimed, returned - it.returned);
                self.no_shows.learn(span, came, missed);
            }
            // Nothing was seen yet, or the store has forgotten and counts anew: nothing follows from the difference.
            None => self.committed = claimed as f64 + look.ready as f64 * (1.0 - self.no_shows()),
        }
        self.load.learn(span, look.admitted_rps, look.active as f64);
        span
    }

    fn rate(&mut self, now: Mono, look: &Look, comes: f64) -> (f64, Brake) {
        let Bounds {
            rate_max, rate_min, ..
        } = self.bounds;
        if let Some(spare) = look.spare_rps.filter(|spare| spare.is_finite()) {
            let each = self.load.each();
            let on_its_way = look.ready as f64 * comes * each;
            let fill = self.bounds.fill.as_secs_f64().max(1.0);
            let rate = (spare - on_its_way).max(0.0) / (each * fill);
            let rate = rate.min(rate_max);
            self.heard = Some((now, rate));
            let is_most = rate >= rate_max;
            return (
                rate,
                if is_most {
                    Brake::RateMax
                } else {
                    Brake::Spare
                },
            );
        }
        let Some((at, rate)) = self.heard else {
            return (rate_min.min(rate_max), Brake::Lost);
        };
        let silent = now.since(at);
        if silent < UNHEARD_AFTER {
            (rate, Brake::Spare)
        } else if silent < UNHEARD_AFTER + LOST_AFTER {
            (rate / 2.0, Brake::Unheard)
        } else {
            (rate_min.min(rate_max), Brake::Lost)
        }
    }

    /// How many may come in besides those who are inside or may come.
    fn slots(&self, look: &Look, comes: f64) -> f64 {
        self.bounds.active_max.map_or(f64::INFINITY, |most| {
            let taken = look.active as f64 + look.ready as f64 * comes;
            (most as f64 - taken).max(0.0)
        })
    }
}

#[cfg(test)]
mod tests;
