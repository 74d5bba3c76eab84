//! How long a loss of the store lasted, in four parts: until it was noticed, until there was a
//! primary again, until calls passed again, and until they were as quick and as small as before.

use std::time::Duration;

use tidegate_core::time::Mono;

/// How one loss went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// From the last answer until calls were stopped.
    pub detect: Duration,
    /// From then until a primary answered, the old one or another.
    pub promote: Duration,
    /// From then until calls passed: connections, and writes done again.
    pub reconnect: Duration,
    /// From then until calls took no longer than before, and no more sessions were fetched whole
    /// than before; `None` while that is not so yet.
    pub rewarm: Option<Duration>,
}

/// Watches for losses.
#[derive(Debug, Default)]
pub(super) struct Watch {
    phase: Phase,
    last_answer: Option<Mono>,
    window: Window,
    usual: Usual,
    last: Option<Recovery>,
    losses: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Well,
    Lost {
        since: Mono,
        noticed: Mono,
        primary: Option<Mono>,
    },
    Rewarming {
        since: Mono,
    },
}

/// How things are when they are well.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    windows: u32,
    p99_us: f64,
    whole: f64,
}

/// Answers are judged a second at a time.
const WINDOW: Duration = Duration::from_secs(1);
/// Windows that the usual is the mean of, the later ones counting more.
const USUAL_WINDOWS: u32 = 300;
/// A window with fewer answers says nothing about the usual.
const ANSWERS_MIN: u32 = 20;
/// How much more than the usual is as usual.
const AS_USUAL: f64 = 1.2;
/// Differences below these are as usual, too: a quick store is not to be held to microseconds.
const P99_GRAIN_US: f64 = 500.0;
const WHOLE_GRAIN: f64 = 0.05;
/// Rewarming is given up after so long: something else has changed.
const REWARM_MAX: Duration = Duration::from_secs(300);

impl Watch {
    /// A call was answered after `took`.
    pub(super) fn answered(&mut self, now: Mono, took: Duration) {
        self.last_answer = Some(now);
        self.close_window(now);
        self.window.add(took);
    }

    /// An opening of a session fetched it whole, or found that the copy here is right.
    pub(super) fn fetched(&mut self, whole: bool) {
        self.window.opened += 1;
        self.window.whole += u32::from(whole);
    }

    /// Calls were stopped; whether that is another loss than the one that was known.
    pub(super) fn tripped(&mut self, now: Mono) -> bool {
        if matches!(self.phase, Phase::Lost { .. }) {
            // A probe that failed: the same loss.
            return false;
        }
        self.losses += 1;
        self.phase = Phase::Lost {
            since: self.last_answer.unwrap_or(now),
            noticed: now,
            primary: None,
        };
        true
    }

    /// The primary is elsewhere: what answered before was not it.
    pub(super) fn pointed(&mut self) {
        if let Phase::Lost { primary, .. } = &mut self.phase {
            *primary = None;
        }
    }

    /// A primary answered.
    pub(super) fn found(&mut self, now: Mono) {
        if let Phase::Lost { primary, .. } = &mut self.phase {
            primary.get_or_insert(now);
        }
    }

    /// Calls pass; for how long they did not, if there was a loss.
    pub(super) fn passes(&mut self, now: Mono) -> Option<Duration> {
        let Phase::Lost {
            since,
            noticed,
            primary,
        } = self.phase
        else {
            return None;
        };
        let primary = primary.unwrap_or(now);
        self.last = Some(Recovery {
            detect: noticed.since(since),
            promote: primary.since(noticed),
            reconnect: now.since(primary),
            rewarm: None,
        });
        self.phase = Phase::Rewarming { since: now };
        self.window = Window::beginning(now);
        Some(now.since(noticed))
    }

    /// How the last loss went; `None` when there was none.
    pub(super) const fn last(&self) -> Option<Recovery> {
        self.last
    }

    /// Losses so far, the present one among them.
    pub(super) const fn losses(&self) -> u64 {
        self.losses
    }

    fn close_window(&mut self, now: Mono) {
        if now.since(self.window.begun) < WINDOW {
            return;
        }
        let window = std::mem::replace(&mut self.window, Window::beginning(now));
        match self.phase {
            Phase::Well => self.usual.learn(&window),
            Phase::Lost { .. } => {}
            Phase::Rewarming { since } => {
                let as_usual = window.answers > 0 && self.usual.covers(&window);
                if as_usual || now.since(since) > REWARM_MAX {
                    let rewarmed = if as_usual { window.begun } else { now };
                    if let Some(last) = &mut self.last {
                        last.rewarm = Some(rewarmed.since(since));
                    }
                    self.phase = Phase::Well;
                }
            }
        }
    }
}

impl Usual {
    fn learn(&mut self, window: &Window) {
        if window.answers < ANSWERS_MIN {
            return;
        }
        self.windows = (self.windows + 1).min(USUAL_WINDOWS);
        let part = 1.0 / f64::from(self.windows);
        self.p99_us += part * (window.p99_us() - self.p99_us);
        self.whole += part * (window.whole() - self.whole);
    }

    /// Whether `window` is as usual; anything is when nothing is known.
    fn covers(&self, window: &Window) -> bool {
        let p99_max = (self.p99_us * AS_USUAL).max(self.p99_us + P99_GRAIN_US);
        let whole_max = (self.whole * AS_USUAL).max(self.whole + WHOLE_GRAIN);
        self.windows == 0 || (window.p99_us() <= p99_max && window.whole() <= whole_max)
    }
}

/// Buckets of latency, each a tenth longer than the one before, the first up to 20 µs and the last
/// from a quarter of a second.
const BUCKETS: usize = 100;
const FIRST_US: f64 = 20.0;
const GROWTH: f64 = 1.1;

/// The answers of about a second.
#[derive(Debug)]
struct Window {
    begun: Mono,
    answers: u32,
    opened: u32,
    whole: u32,
    buckets: [u32; BUCKETS],
}

impl Default for Window {
    fn default() -> Self {
        Self::beginning(Mono::default())
    }
}

impl Window {
    const fn beginning(begun: Mono) -> Self {
        Self {
            begun,
            answers: 0,
            opened: 0,
            whole: 0,
            buckets: [0; BUCKETS],
        }
    }

    fn add(&mut self, took: Duration) {
        let us = took.as_secs_f64() * 1e6;
        let bucket = (us / FIRST_US).max(1.0).ln() / GROWTH.ln();
        self.buckets[(bucket as usize).min(BUCKETS - 1)] += 1;
        self.answers += 1;
    }

    /// The upper end of the bucket that 99 % of the answers are in or below.
    fn p99_us(&self) -> f64 {
        let mut above = self.answers / 100;
        let bucket = (0..BUCKETS).rev().find(|&bucket| {
            let in_it = self.buckets[bucket];
            let here = in_it > above;
            above = above.saturating_sub(in_it);
            here
        });
        bucket.map_or(0.0, |bucket| FIRST_US * GROWTH.powi(bucket as i32 + 1))
    }

    fn whole(&self) -> f64 {
        f64::from(self.whole) / f64::from(self.opened.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(200);
    const SLOW: Duration = Duration::from_millis(5);

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    /// An answer every 10 ms from `from_ms` on for `count` times.
    fn answers(watch: &mut Watch, from_ms: u64, count: u64, took: Duration, whole: bool) {
        for n in 0..count {
            watch.answered(at(from_ms + n * 10), took);
            watch.fetched(whole);
        }
    }

    fn lost_and_back() -> Watch {
        let mut watch = Watch::default();
        answers(&mut watch, 0, 501, QUICK, false);
        assert!(watch.tripped(at(5_020)));
        assert!(!watch.tripped(at(5_300)), "the same loss");
        watch.found(at(7_000));
        watch.found(at(7_001));
        assert_eq!(watch.passes(at(7_050)), Some(Duration::from_millis(2_030)));
        watch
    }

    #[test]
    fn a_loss_is_told_in_parts() {
        let watch = lost_and_back();

        let ms = Duration::from_millis;
        assert_eq!(
            watch.last(),
            Some(Recovery {
                detect: ms(20),
                promote: ms(1_980),
                reconnect: ms(50),
                rewarm: None,
            })
        );
        assert_eq!(watch.losses(), 1);
    }

    #[test]
    fn it_is_warm_when_answers_are_as_quick_and_as_small_as_before() {
        for (took, whole) in [(SLOW, false), (QUICK, true)] {
            let mut watch = lost_and_back();
            answers(&mut watch, 7_050, 300, took, whole);
            assert_eq!(watch.last().unwrap().rewarm, None);

            answers(&mut watch, 10_050, 200, QUICK, false);

            let rewarm = watch.last().unwrap().rewarm.unwrap();
            assert_eq!(rewarm, Duration::from_secs(3));
        }
    }

    #[test]
    fn a_primary_that_is_replaced_before_calls_pass_was_none() {
        let mut watch = Watch::default();
        watch.tripped(at(0));
        watch.found(at(100));
        watch.pointed();
        watch.found(at(300));
        watch.passes(at(310));

        assert_eq!(watch.last().unwrap().promote, Duration::from_millis(300));
    }
}
