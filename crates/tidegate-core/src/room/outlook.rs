//! How long everybody waits, by what their line did.

use std::time::Duration;

use super::trend::Trend;
use super::{Overtaking, Pace, Place, Positions, SEQUENCES, Tallies, Tier};
use crate::time::Mono;

/// Who gives up after less is a newcomer.
const AGED: Duration = Duration::from_secs(240);
/// Over how long newcomers are counted.
const NEWCOMERS: Duration = Duration::from_secs(1_800);
/// No more of them than this part are taken to leave.
const NEWCOMERS_LEAVE_MAX: f64 = 0.8;

/// What is known of a line when it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Glance<'a> {
    /// The place that somebody would get who came now.
    pub now: Place,
    /// How many are before each place.
    pub document: &'a Positions,
    /// What was counted.
    pub tallies: Tallies,
    /// How many wait whose place is before [`aged`].
    pub aged: u64,
    /// How many were swept since the last time, by tier.
    pub slept: [u64; Tier::COUNT],
    /// How many of these stood before [`aged`].
    pub slept_aged: u64,
    /// For how long somebody may be silent before they are swept.
    pub grace: Duration,
}

/// Whoever has a place before this one has waited so long that their leaving says how many give up: longer than a
/// newcomer, and than it takes until it shows that somebody left.
pub const fn aged(now: Place, grace: Duration) -> Place {
    before(now, AGED.saturating_add(grace))
}

/// How long everybody waits.
///
/// [`Pace`] says how long it takes until so many are gone. Here it is found out from two looks at a line what stands in the
/// way of that: people of earlier tiers who come later and go first, and newcomers among those ahead of whom many have left
/// already, which does not show before they were silent for long enough.
#[derive(Clone, Debug, Default)]
pub struct Outlook {
    pace: Pace,
    /// How many come into each tier.
    coming: [Trend; Tier::COUNT],
    newcomers: Newcomers,
    last: Option<Last>,
}

/// What a look is compared with, and what it leaves behind for [`Outlook::wait`].
#[derive(Clone, Debug)]
struct Last {
    at: Mono,
    now: Place,
    document: Positions,
    tallies: Tallies,
    grace: Duration,
}

/// How many of those who come leave again at once.
#[derive(Clone, Copy, Debug, Default)]
struct Newcomers {
    came: f64,
    left: f64,
}

impl Outlook {
    /// Takes in how the line is. To be called every ten seconds or so: of a shorter time there is little to see.
    pub fn learn(&mut self, now: Mono, glance: &Glance<'_>) {
        let latest = Last {
            at: now,
            now: glance.now,
            document: glance.document.clone(),
            tallies: glance.tallies,
            grace: glance.grace,
        };
        let Some(before) = self.last.replace(latest) else {
            return;
        };
        let span = now.since(before.at);
        let (was, is) = (before.tallies, glance.tallies);
        // After a store forgot everything, nothing follows from the difference.
        if span.is_zero() || is.released < was.released || is.entered < was.entered {
            return;
        }
        let called = is.released - was.released;
        self.pace
            .learn(span, called, glance.aged, glance.slept_aged);
        let slept: u64 = glance.slept.iter().sum();
        self.newcomers.learn(
            span,
            is.entered - was.entered,
            slept.saturating_sub(glance.slept_aged),
        );
        let came = came(&before.document, glance, called as f64);
        for (trend, came) in self.coming.iter_mut().zip(came) {
            trend.learn(span.as_secs_f64(), came);
        }
    }

    /// Nothing follows from the time until the next look: the line was held, or another epoch began.
    pub fn skip(&mut self) {
        self.last = None;
    }

    /// How long whoever stands at `place` in `tier` waits. `None` when that cannot be told: the line stands still, or was
    /// not looked at yet.
    pub fn wait(&self, tier: Tier, place: Place) -> Option<Duration> {
        let last = self.last.as_ref()?;
        let document = &last.document;
        let ahead = document.ahead(tier, place);
        // Nobody can be known to have left who was heard of within the grace.
        let recent = place.min(before(last.now, last.grace));
        let newcomers = ahead.saturating_sub(document.ahead(tier, recent));
        let gone = self.newcomers.leave() * newcomers as f64;
        let bounds = document.order.bounds(tier, place);
        let overtaking = Tier::ALL.map(|other| {
            let index = other.index();
            let until_ms = bounds[index].0.saturating_sub(last.now.0) / SEQUENCES;
            Overtaking {
                rate: self.coming[index].after(0.0),
                until: until_ms as f64 / 1_000.0,
            }
        });
        self.pace.wait_behind(ahead as f64 - gone, &overtaking)
    }

    /// How fast the line moves.
    pub const fn pace(&self) -> &Pace {
        &self.pace
    }
}

impl Newcomers {
    fn learn(&mut self, span: Duration, came: u64, left: u64) {
        let kept = (-span.as_secs_f64() / NEWCOMERS.as_secs_f64()).exp();
        self.came = self.came * kept + came as f64;
        self.left = self.left * kept + left as f64;
    }

    /// What part of them.
    fn leave(&self) -> f64 {
        if self.came > 0.0 {
            (self.left / self.came).min(NEWCOMERS_LEAVE_MAX)
        } else {
            0.0
        }
    }
}

/// How many came into each tier since `before`, when `called` were called of all.
///
/// Of a tier in which people stand, the front has moved past those who were called. Of one in which nobody stands for long
/// there is nothing to see in either look: what was called besides came into the tiers before the first that has a line, and
/// is counted to the last of them.
fn came(before: &Positions, glance: &Glance<'_>, called: f64) -> [f64; Tier::COUNT] {
    let mut besides = called;
    let mut came = [0.0; Tier::COUNT];
    for tier in Tier::ALL {
        let index = tier.index();
        let (was, is) = (&before.tiers[index], &glance.document.tiers[index]);
        let gone = match is.places.first() {
            Some(first) => was.passed(*first),
            None => was.waiting as f64,
        };
        besides -= gone;
        let grown = is.waiting as f64 - was.waiting as f64;
        came[index] = grown + glance.slept[index] as f64 + gone;
    }
    let mut tiers = Tier::ALL.iter();
    let line = tiers.position(|tier| before.tiers[tier.index()].waiting as f64 >= called);
    if let Some(index) = line.and_then(|line| line.checked_sub(1)) {
        came[index] += besides;
    }
    came
}

/// The place that was `span` earlier.
const fn before(now: Place, span: Duration) -> Place {
    Place(now.0.saturating_sub(span.as_millis() as u64 * SEQUENCES))
}

#[cfg(test)]
mod tests;
