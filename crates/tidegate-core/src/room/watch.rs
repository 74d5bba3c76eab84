//! What is said of how a line moves: since when it stands still, why a wait has become longer, and whether more came in than was
//! planned.

use std::collections::VecDeque;
use std::time::Duration;

use super::Tier;
use crate::time::Mono;

/// Nobody may be called for so long before it is said that the line stands, or for as long as three take at the rate.
const STILL_AFTER: Duration = Duration::from_secs(30);
const STILL_CALLS: f64 = 3.0;
/// Over how long it is measured how fast a line moves now, and how fast it usually does.
const NOW: Duration = Duration::from_secs(60);
const USUAL: Duration = Duration::from_secs(900);
/// For less than that it was not watched for long enough to say what is usual.
const WATCHED: f64 = 180.0;
/// Below this part of what is usual it is slower.
const SLOWER: f64 = 0.7;
/// With fewer calls a second chance decides how many there are in a minute.
const CALLS_MIN: f64 = 0.2;
/// So many more who go first than a minute ago, and so large a part of all, are a surge.
const SURGE_MIN: f64 = 10.0;
const SURGE_PART: f64 = 0.05;
/// Of so many seconds it is known what was planned and who came.
const SECONDS: usize = 60;

/// How a line is in one second.
#[derive(Clone, Copy, Debug)]
pub struct Second {
    /// When, by the store's clock: milliseconds since 1970.
    pub now_ms: u64,
    /// Whether anybody may be called at all.
    pub moves: bool,
    /// How many wait, by tier.
    pub waiting: [u64; Tier::COUNT],
    /// How many were ever called.
    pub called: u64,
    /// How many may come in per second.
    pub rate: f64,
}

/// Why a wait has become longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Longer {
    /// Fewer are called than usual.
    Slower,
    /// More came who go first.
    Surge,
}

/// Watches a line, second by second.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    last: Option<(Mono, u64)>,
    /// When somebody was called last, or might have been.
    moved_ms: u64,
    paused_since_ms: Option<u64>,
    /// Calls per second.
    now: Mean,
    usual: Mean,
    /// Who waits in tiers that go before the last.
    first: Mean,
    watched_s: f64,
    longer: Option<Longer>,
}

/// What was planned over the last minute, and who came.
#[derive(Clone, Debug, Default)]
pub struct Overshoot {
    seconds: VecDeque<(f64, u64)>,
    last: Option<(Mono, u64)>,
}

/// A mean over about a span, right from the first value on.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Watch {
    /// Takes in another second.
    pub fn see(&mut self, now: Mono, second: &Second) {
        let waiting: u64 = second.waiting.iter().sum();
        let before = self.last.replace((now, second.called));
        let (span, called) = match before {
            // After a store forgot everything, nothing follows from the difference.
            Some((at, called)) => (now.since(at), second.called.saturating_sub(called)),
            None => (Duration::ZERO, 0),
        };
        self.pause(second, waiting, before.is_none() || called > 0);
        if !second.moves || waiting == 0 || span.is_zero() {
            self.longer = None;
            return;
        }
        let per_second = called as f64 / span.as_secs_f64();
        self.now.learn(span, NOW, per_second);
        self.usual.learn(span, USUAL, per_second);
        self.watched_s += span.as_secs_f64();
        let first = (waiting - second.waiting[Tier::COUNT - 1]) as f64;
        let grown = first - self.first.value().unwrap_or(first);
        self.first.learn(span, NOW, first);
        let is_surge = grown > SURGE_MIN.max(SURGE_PART * waiting as f64);
        self.longer = match (self.is_slower(), is_surge) {
            (true, _) => Some(Longer::Slower),
            (false, true) => Some(Longer::Surge),
            (false, false) => None,
        };
    }

    /// Since when nobody is called, where that is so: milliseconds since 1970 by the store's clock.
    pub const fn paused_since_ms(&self) -> Option<u64> {
        self.paused_since_ms
    }

    /// Why waits have become longer, if they have.
    pub const fn longer(&self) -> Option<Longer> {
        self.longer
    }

    fn pause(&mut self, second: &Second, waiting: u64, has_moved: bool) {
        if !second.moves {
            self.paused_since_ms.get_or_insert(second.now_ms);
            self.moved_ms = second.now_ms;
            return;
        }
        if waiting == 0 || has_moved {
            self.moved_ms = second.now_ms;
            self.paused_since_ms = None;
            return;
        }
        let few = Duration::from_secs_f64((STILL_CALLS / second.rate.max(1e-3)).min(600.0));
        let patience = STILL_AFTER.max(few).as_millis() as u64;
        // One that was held stands until somebody is called.
        if second.now_ms.saturating_sub(self.moved_ms) >= patience {
            self.paused_since_ms.get_or_insert(self.moved_ms);
        }
    }

    fn is_slower(&self) -> bool {
        let (Some(now), Some(usual)) = (self.now.value(), self.usual.value()) else {
            return false;
        };
        self.watched_s >= WATCHED && usual >= CALLS_MIN && now < SLOWER * usual
    }
}

impl Overshoot {
    /// Takes in another second: until `now` so many `came` in altogether, and `rate` a second were to.
    pub fn see(&mut self, now: Mono, rate: f64, came: u64) {
        let Some((at, before)) = self.last.replace((now, came)) else {
            return;
        };
        if self.seconds.len() == SECONDS {
            self.seconds.pop_front();
        }
        let planned = rate.max(0.0) * now.since(at).as_secs_f64();
        // A count that is less than before was begun anew.
        self.seconds
            .push_back((planned, came.saturating_sub(before)));
    }

    /// How many more came in during the last minute than was planned, as a part of the plan; 0 where that is not so.
    pub fn part(&self) -> f64 {
        let planned: f64 = self.seconds.iter().map(|(planned, _)| planned).sum();
        let came: u64 = self.seconds.iter().map(|(_, came)| came).sum();
        (came as f64 - planned).max(0.0) / planned.max(1.0)
    }
}

impl Mean {
    fn learn(&mut self, span: Duration, over: Duration, value: f64) {
        let weight = 1.0 - (-span.as_secs_f64() / over.as_secs_f64()).exp();
        self.sum += weight * (value - self.sum);
        self.weight += weight * (1.0 - self.weight);
    }

    fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN_MS: u64 = 1_790_000_000_000;

    /// A line that is watched.
    #[derive(Default)]
    struct Line {
        watch: Watch,
        at: u64,
        called: u64,
    }

    impl Line {
        /// For so many seconds, so many are called in each.
        fn goes_on(&mut self, seconds: u64, calls: u64, waiting: [u64; 3]) {
            self.see(seconds, calls, waiting, true);
        }

        fn see(&mut self, seconds: u64, calls: u64, waiting: [u64; 3], moves: bool) {
            for _ in 0..seconds {
                self.at += 1;
                self.called += calls;
                let second = Second {
                    now_ms: BEGAN_MS + 1_000 * self.at,
                    moves,
                    waiting,
                    called: self.called,
                    rate: 10.0,
                };
                self.watch.see(Mono::from_millis(1_000 * self.at), &second);
            }
        }
    }

    const MANY: [u64; 3] = [0, 20, 5_000];

    #[test]
    fn a_line_that_is_held_stands_at_once_and_one_that_is_not_called_after_half_a_minute() {
        let mut line = Line::default();
        line.goes_on(10, 10, MANY);
        assert_eq!(line.watch.paused_since_ms(), None);

        line.goes_on(29, 0, MANY);
        assert_eq!(line.watch.paused_since_ms(), None);
        line.goes_on(1, 0, MANY);
        assert_eq!(line.watch.paused_since_ms(), Some(BEGAN_MS + 10_000));

        line.goes_on(1, 10, MANY);
        assert_eq!(line.watch.paused_since_ms(), None);
        line.see(5, 0, MANY, false);
        assert_eq!(line.watch.paused_since_ms(), Some(BEGAN_MS + 42_000));
        line.goes_on(1, 0, MANY);
        assert!(line.watch.paused_since_ms().is_some(), "nobody was called");
        line.goes_on(1, 10, MANY);
        assert_eq!(line.watch.paused_since_ms(), None);
    }

    #[test]
    fn a_line_in_which_nobody_waits_does_not_stand() {
        let mut line = Line::default();

        line.goes_on(600, 0, [0; 3]);

        assert_eq!(line.watch.paused_since_ms(), None);
    }

    #[test]
    fn fewer_calls_than_usual_are_a_reason() {
        let mut line = Line::default();
        line.goes_on(600, 10, MANY);
        assert_eq!(line.watch.longer(), None);

        line.goes_on(60, 3, MANY);
        assert_eq!(line.watch.longer(), Some(Longer::Slower));

        line.goes_on(300, 10, MANY);
        assert_eq!(line.watch.longer(), None);
    }

    #[test]
    fn who_goes_first_is_a_reason_where_many_came() {
        let mut line = Line::default();
        line.goes_on(300, 10, MANY);

        line.goes_on(5, 10, [0, 200, 5_000]);
        assert_eq!(line.watch.longer(), None, "a few make no difference");
        line.goes_on(5, 10, [0, 900, 5_000]);
        assert_eq!(line.watch.longer(), Some(Longer::Surge));

        line.goes_on(300, 10, [0, 900, 5_000]);
        assert_eq!(line.watch.longer(), None, "they are no news any more");
    }

    #[test]
    fn what_is_beyond_the_plan_of_a_minute_is_told_as_a_part_of_it() {
        let mut overshoot = Overshoot::default();
        let mut came = 5_000;
        let mut go_on = |seconds: std::ops::Range<u64>, each: u64| {
            for second in seconds {
                came += each;
                overshoot.see(Mono::from_millis(1_000 * second), 10.0, came);
            }
            overshoot.part()
        };

        assert_eq!(go_on(0..100, 9), 0.0);
        assert!((go_on(100..160, 12) - 0.2).abs() < 1e-9);
        assert_eq!(go_on(160..220, 10), 0.0);
    }

    #[test]
    fn a_store_that_counts_anew_is_no_overshoot() {
        let mut overshoot = Overshoot::default();
        for (second, came) in [5_000, 5_010, 0, 10].into_iter().enumerate() {
            overshoot.see(Mono::from_millis(1_000 * second as u64), 10.0, came);
        }

        assert_eq!(overshoot.part(), 0.0);
    }
}
