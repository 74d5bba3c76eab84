//! The waits that others would tell, from the same line at the same time.
//!
//! Each is written after what a product documents or its source does; what it is told of the line is no worse than what it
//! would have there.

use std::collections::VecDeque;

/// A formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formula {
    /// The own number less the one that is being served, by the calls of the last minute. Who left still has a number (AWS
    /// Virtual Waiting Room, Fastly's waiting room, pyama86/ngx_waitingroom).
    Ticket,
    /// Groups by the minute of arrival, people counted until they are silent for some minutes, the mean of the last five
    /// minutes (like Cloudflare Waiting Room).
    Minutes,
    /// Those ahead by the rate that is configured (like anteroom).
    Configured,
    /// Those ahead by a mean of the rate over about a minute.
    LastMinute,
    /// The same, less those who will give up.
    Survival,
    /// The same with a rate that goes back to a mean over a quarter of an hour within about three minutes.
    Reversion,
    /// The same within about ten minutes.
    SlowReversion,
    /// What Tidegate tells.
    Tidegate,
}

/// What the formulas know of a line.
#[derive(Clone, Debug)]
pub(super) struct Formulas {
    configured: f64,
    /// How many were called ever, by the second, of the last five minutes.
    called: VecDeque<(u64, u64)>,
    fast: Mean,
    slow: Mean,
}

/// Somebody's place, as the formulas see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Living people ahead.
    pub(super) ahead: f64,
    /// The same for the last one of the own minute.
    pub(super) ahead_of_minute: f64,
    /// The own number less the one being served.
    pub(super) tickets: f64,
    /// What part of those who wait gives up per second.
    pub(super) hazard: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Formula {
    /// All, ours last.
    pub const ALL: [Self; 8] = [
        Self::Ticket,
        Self::Minutes,
        Self::Configured,
        Self::LastMinute,
        Self::Survival,
        Self::Reversion,
        Self::SlowReversion,
        Self::Tidegate,
    ];

    /// What it is, in some words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ticket => "ticket number ÷ last minute",
            Self::Minutes => "minute groups ÷ five minutes",
            Self::Configured => "alive ÷ configured rate",
            Self::LastMinute => "alive ÷ mean of a minute",
            Self::Survival => "  + survival",
            Self::Reversion => "  + reversion in 180 s",
            Self::SlowReversion => "  + reversion in 600 s",
            Self::Tidegate => "Tidegate",
        }
    }

    /// Its place in [`Formula::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl Formulas {
    pub(super) const fn new(configured: f64) -> Self {
        let nothing = Mean {
            sum: 0.0,
            weight: 0.0,
        };
        Self {
            configured,
            called: VecDeque::new(),
            fast: nothing,
            slow: nothing,
        }
    }

    /// So many were called until now, of all.
    pub(super) fn learn(&mut self, now: u64, called: u64) {
        if let Some(&(at, before)) = self.called.back() {
            let seconds = (now - at) as f64;
            let rate = (called - before) as f64 / seconds;
            self.fast.learn(seconds / 60.0, rate);
            self.slow.learn(seconds / 900.0, rate);
        }
        self.called.push_back((now, called));
        while self.called.front().is_some_and(|(at, _)| at + 300 < now) {
            self.called.pop_front();
        }
    }

    /// Seconds that each but ours would tell; `None` where it has nothing to tell.
    pub(super) fn waits(&self, asked: &Asked) -> [Option<f64>; Formula::ALL.len()] {
        let (fast, slow) = (self.fast.value(), self.slow.value());
        let plain = |ahead: f64, rate: f64| (rate > 0.0).then(|| ahead / rate);
        let survive = |rate| through(asked.ahead, rate, asked.hazard);
        Formula::ALL.map(|formula| match formula {
            Formula::Ticket => plain(asked.tickets, self.rate_since(60)),
            Formula::Minutes => plain(asked.ahead_of_minute, self.rate_since(300)),
            Formula::Configured => plain(asked.ahead, self.configured),
            Formula::LastMinute => plain(asked.ahead, fast),
            Formula::Survival => (fast > 0.0).then(|| survive(fast)),
            Formula::Reversion => reverting(fast, slow, 180.0, survive),
            Formula::SlowReversion => reverting(fast, slow, 600.0, survive),
            Formula::Tidegate => None,
        })
    }

    fn rate_since(&self, seconds: u64) -> f64 {
        let Some(&(now, called)) = self.called.back() else {
            return 0.0;
        };
        let mut all = self.called.iter();
        let first = all.find(|(at, _)| at + seconds >= now);
        let (at, before) = *first.unwrap_or(&(now, called));
        if at < now {
            (called - before) as f64 / (now - at) as f64
        } else {
            0.0
        }
    }
}

/// A wait by the rate that is expected over it, which differs from the slow mean the less the longer it is.
fn reverting(fast: f64, slow: f64, tau: f64, wait_at: impl Fn(f64) -> f64) -> Option<f64> {
    if fast <= 0.0 {
        return None;
    }
    let mut wait = wait_at(fast);
    for _ in 0..12 {
        let spans = (wait / tau).max(1e-6);
        let lasts = (1.0 - (-spans).exp()) / spans;
        wait = wait_at((slow + (fast - slow) * lasts).max(1e-3));
    }
    Some(wait)
}

/// Seconds until `ahead` were called at `rate` or gave up with `hazard`.
fn through(ahead: f64, rate: f64, hazard: f64) -> f64 {
    let plain = ahead / rate;
    if hazard * plain < 1e-6 {
        plain
    } else {
        (hazard * plain).ln_1p() / hazard
    }
}

impl Mean {
    fn learn(&mut self, spans: f64, value: f64) {
        let weight = 1.0 - (-spans).exp();
        self.sum += weight * (value - self.sum);
        self.weight += weight * (1.0 - self.weight);
    }

    fn value(&self) -> f64 {
        if self.weight > 0.0 {
            self.sum / self.weight
        } else {
            0.0
        }
    }
}
