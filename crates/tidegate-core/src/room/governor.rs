//! How often the pages of those who wait ask.

use std::time::Duration;

use crate::time::Mono;

/// No page asks sooner than so long after it asked.
pub const INTERVAL_MIN: Duration = Duration::from_secs(2);
/// Where there is room for it, no page asks later than that.
pub const INTERVAL_MAX: Duration = Duration::from_secs(30);
/// A page asks up to so many times later than it has to, by chance, so that pages which began together do not stay together.
pub const JITTER: f64 = 1.3;
/// A page that waits is heard of at least so often.
pub const BEAT_MIN: Duration = Duration::from_secs(45);
/// However many there are, it is heard of once in that time.
pub const BEAT_MAX: Duration = Duration::from_secs(300);

/// Somebody asks about so many times while they wait.
const ASKS: u32 = 20;
/// Nobody is told to ask later than after this part of their wait, as long as there is any other way.
const PART: f64 = 0.5;
/// First polls are spread over no less than this, or half of the wait.
const FIRST: Duration = Duration::from_secs(60);
/// Two beats may be late or lost, and a page in the background wakes once a minute.
const GRACE_BEATS: f64 = 2.2;
const GRACE: Duration = Duration::from_secs(60);
const GRACE_MIN: Duration = Duration::from_secs(160);
/// Who comes within so many seconds is counted already: by then another policy holds.
const COMING: f64 = 10.0;
/// Newcomers take this part of the budget at most, the others the rest.
const NEWCOMERS_MAX: f64 = 0.5;
/// Those who wait long may be told to ask so much less often than they would if all asked alike: 2 to the power of it, less one.
const DOUBLINGS: u32 = 4;
/// Bisections: 1 in 2⁴⁸ is closer than anybody waits.
const ROUNDS: u32 = 48;

/// What all pages together may ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Polls per second, more than 0. What a cache answers is not counted.
    pub polls: f64,
    /// Beats per second, more than 0.
    pub beats: f64,
}

/// People who wait about as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// How many.
    pub count: u64,
    /// How long; `None` while nobody knows.
    pub wait: Option<Duration>,
}

/// When a page asks next. It is the same for all, and each page works out its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Nobody asks sooner than after that, but nobody asks later than after half of their wait because of it.
    pub stretch: Duration,
    /// Nobody asks sooner than after that, however soon it is their turn.
    pub floor: Duration,
    /// A page is heard of so often.
    pub beat: Duration,
    /// Who is silent for longer has gone.
    pub grace: Duration,
}

/// Says how often pages may ask, so that all of them together keep to a budget.
///
/// Somebody asks the more often the nearer their turn is. Where that is too often for all together, those who wait long ask
/// less often first: up to a half of what they have left, they learn nothing later for it. Only where that is not enough
/// either does everybody.
#[derive(Clone, Debug)]
pub struct Governor {
    budget: Budget,
    /// The longest beat that somebody may still keep to, and until when.
    longest: Duration,
    until: Mono,
}

impl Governor {
    /// One that has told nobody anything.
    pub const fn new(budget: Budget) -> Self {
        Self {
            budget,
            longest: BEAT_MIN,
            until: Mono::from_nanos(0),
        }
    }

    /// What holds for those who wait, while `joining` come per second. To be asked every second.
    pub fn policy(&mut self, now: Mono, groups: &[Group], joining: f64) -> Policy {
        let waiting: u64 = groups.iter().map(|group| group.count).sum();
        let beat = Duration::from_secs_f64(waiting as f64 / self.budget.beats.max(1e-3));
        let beat = beat.clamp(BEAT_MIN, BEAT_MAX);
        // Who was told a longer one keeps to it until they are heard of again.
        if beat >= self.longest || self.until <= now {
            self.longest = beat;
            self.until = now + grace(beat);
        }
        let (stretch, floor) = self.intervals(groups, joining.max(0.0));
        Policy {
            stretch,
            floor,
            beat,
            grace: grace(self.longest),
        }
    }

    fn intervals(&self, groups: &[Group], joining: f64) -> (Duration, Duration) {
        let polls = self.budget.polls.max(1e-3);
        let known = groups.iter().map(|it| (it.count as f64, it.wait));
        let mut groups: Vec<_> = known.collect();
        let (mut stretch, floor) = shared(&groups, polls);
        if joining > 0.0 {
            // Everybody who comes asks for a first time, and from then on with the others.
            let left = polls - joining.min(NEWCOMERS_MAX * polls);
            let last = groups.last().and_then(|(_, wait)| *wait);
            groups.push((joining * COMING, last));
            let most = BEAT_MAX.as_secs_f64();
            let ahead = match shared(&groups, left) {
                (ahead, 0.0) => ahead.min(most),
                // There is not enough for all of them. They will wait longer than those who are there now.
                _ => most,
            };
            stretch = stretch.max(ahead);
        }
        (
            Duration::from_secs_f64(stretch),
            Duration::from_secs_f64(floor),
        )
    }
}

/// The least stretch and floor with which so many who wait so long ask no more than `polls` per second.
fn shared(groups: &[(f64, Option<Duration>)], polls: f64) -> (f64, f64) {
    let asked = |stretch: f64, floor: f64| -> f64 {
        let each = groups.iter();
        each.map(|(count, wait)| count / interval(*wait, stretch, floor))
            .sum()
    };
    let fits = |stretch, floor| asked(stretch, floor) <= polls;
    // With that for everybody, they ask as often as they may.
    let most = groups.iter().map(|(count, _)| count).sum::<f64>() / polls;
    let mut fitting = (0..DOUBLINGS).map(|times| most * f64::from(1_u32 << times));
    if fits(0.0, 0.0) {
        (0.0, 0.0)
    } else if let Some(upto) = fitting.find(|upto| fits(*upto, 0.0)) {
        (least(upto, |stretch| fits(stretch, 0.0)), 0.0)
    } else {
        (most, least(most, |floor| fits(most, floor)))
    }
}

impl Policy {
    /// How long after it asked a page asks again that has to wait so long; `chance` is drawn from [0, 1).
    pub fn next(&self, wait: Option<Duration>, chance: f64) -> Duration {
        self.interval(wait).mul_f64(1.0 + (JITTER - 1.0) * chance)
    }

    /// How long after it was shown a page asks for the first time: at any time of the first interval, so that those which
    /// were all shown at once ask no more often than they do later. Before it is known how many they are, that is a minute
    /// at least, or half of their wait: a page knows what it has just been shown.
    pub fn first(&self, wait: Option<Duration>, chance: f64) -> Duration {
        let spread = wait.map_or(FIRST, |wait| wait.mul_f64(PART).min(FIRST));
        self.interval(wait).max(spread).mul_f64(chance)
    }

    fn interval(&self, wait: Option<Duration>) -> Duration {
        let (stretch, floor) = (self.stretch.as_secs_f64(), self.floor.as_secs_f64());
        Duration::from_secs_f64(interval(wait, stretch, floor))
    }
}

/// Seconds until somebody asks again.
fn interval(wait: Option<Duration>, stretch: f64, floor: f64) -> f64 {
    let (base, stretch) = match wait {
        Some(wait) => (
            (wait / ASKS).clamp(INTERVAL_MIN, INTERVAL_MAX),
            stretch.min(PART * wait.as_secs_f64()),
        ),
        None => (INTERVAL_MAX, stretch),
    };
    base.as_secs_f64().max(stretch).max(floor)
}

/// The least value from 0 to `upto` that is enough, where every greater one is.
fn least(upto: f64, is_enough: impl Fn(f64) -> bool) -> f64 {
    let (mut below, mut enough) = (0.0, upto);
    for _ in 0..ROUNDS {
        let middle = f64::midpoint(below, enough);
        if is_enough(middle) {
            enough = middle;
        } else {
            below = middle;
        }
    }
    enough
}

fn grace(beat: Duration) -> Duration {
    (beat.mul_f64(GRACE_BEATS) + GRACE).max(GRACE_MIN)
}

#[cfg(test)]
mod tests;
