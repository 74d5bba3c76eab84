//! How long so many people take.

use std::time::Duration;

use super::trend::Trend;

/// How fast a change of the last minute is taken to wear off: what is so now is not so for the whole of a long wait.
pub const REVERSION: Duration = Duration::from_secs(180);

/// Over how long the line's latest speed is measured.
const FAST: Duration = Duration::from_secs(60);
/// Over how long it is counted how many give up.
const LEAVING: Duration = Duration::from_secs(300);
/// Slower than one in this time is standing still.
const STILL: Duration = Duration::from_secs(600);
/// Longest wait that is told.
const WAIT_MAX: Duration = Duration::from_secs(2 * 86_400);
/// A wait is followed in steps of so many seconds, and of this part of what it has come to.
const STEP: f64 = 5.0;
const STEP_PART: f64 = 1.0 / 16.0;

/// How fast a line moves, and how many leave it.
///
/// Speed is how many are called. Among those ahead are some who have left and of whom that is not known yet, and some who
/// will not come; they take a call each as well, so by how many go in everybody would be told too long a wait. Those who
/// are known to have left the line from the middle shorten it: of `ahead` only a part has to be called, the smaller the
/// longer it takes.
///
/// What is expected is the usual speed, with its direction, and what differs from it now, which wears off over
/// [`REVERSION`].
#[derive(Clone, Debug)]
pub struct Pace {
    fast: Mean,
    usual: Trend,
    left: f64,
    stood: f64,
}

/// People who come later and go first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overtaking {
    /// How many of them come per second.
    pub rate: f64,
    /// Who comes more than so many seconds from now does not go first any more.
    pub until: f64,
}

/// A mean over about a span, right from the first value on.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

impl Pace {
    /// Of a line that nobody has watched yet.
    pub const fn new() -> Self {
        Self {
            fast: Mean {
                sum: 0.0,
                weight: 0.0,
            },
            usual: Trend::new(),
            left: 0.0,
            stood: 0.0,
        }
    }

    /// In `span`, `called` were; and of those `aged` who have waited for some minutes, `left` gave up. Newcomers are
    /// left out: many leave at the first look at a line, and say nothing of those who stay.
    pub fn learn(&mut self, span: Duration, called: u64, aged: u64, left: u64) {
        let seconds = span.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let called = called as f64;
        self.fast
            .learn(seconds / FAST.as_secs_f64(), called / seconds);
        self.usual.learn(seconds, called);
        let kept = (-seconds / LEAVING.as_secs_f64()).exp();
        self.left = self.left * kept + left as f64;
        self.stood = self.stood * kept + aged as f64 * seconds;
    }

    /// How long `ahead` people take; `None` when the line stands still.
    pub fn wait(&self, ahead: u64) -> Option<Duration> {
        self.wait_behind(ahead as f64, &[])
    }

    /// How long `ahead` people take when others come meanwhile who go first.
    pub fn wait_behind(&self, ahead: f64, overtaking: &[Overtaking]) -> Option<Duration> {
        let still = 1.0 / STILL.as_secs_f64();
        if self.fast.value() < still {
            return None;
        }
        let net = |seconds: f64| {
            let others = overtaking.iter().filter(|it| seconds < it.until);
            let taken: f64 = others.map(|it| it.rate).sum();
            (self.rate_after(seconds) - taken).max(still)
        };
        let wait = until_gone(ahead, net, self.hazard());
        Some(Duration::from_secs_f64(wait))
    }

    /// How many were called per second of late.
    pub fn rate(&self) -> f64 {
        self.fast.value()
    }

    /// What part of those who have waited for some minutes gives up in a second.
    pub fn hazard(&self) -> f64 {
        if self.stood > 0.0 {
            self.left / self.stood
        } else {
            0.0
        }
    }

    /// How many are expected to be called per second, so many seconds from now.
    fn rate_after(&self, seconds: f64) -> f64 {
        let differs = self.fast.value() - self.usual.after(0.0);
        let worn = (-seconds / REVERSION.as_secs_f64()).exp();
        self.usual.after(seconds) + differs * worn
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

/// Seconds until nobody of `ahead` is left, at a `rate` that is asked for by the time, and the `hazard` of giving up.
fn until_gone(mut ahead: f64, rate: impl Fn(f64) -> f64, hazard: f64) -> f64 {
    let most = WAIT_MAX.as_secs_f64();
    let mut at = 0.0;
    while at < most {
        let step = STEP.max(at * STEP_PART);
        let rate = rate(at + step / 2.0);
        let left = through(ahead, rate, hazard);
        if left <= step {
            return (at + left).min(most);
        }
        ahead = remaining(ahead, rate, hazard, step);
        at += step;
    }
    most
}

/// Seconds until `ahead` were called or have given up, at `rate` a second of the one and the `hazard` of the other.
fn through(ahead: f64, rate: f64, hazard: f64) -> f64 {
    let plain = ahead / rate;
    // Where hardly anybody gives up, the logarithm is all rounding.
    if hazard * plain < 1e-6 {
        plain
    } else {
        (hazard * plain).ln_1p() / hazard
    }
}

/// How many of `ahead` are left after so many seconds.
fn remaining(ahead: f64, rate: f64, hazard: f64, seconds: f64) -> f64 {
    if hazard * seconds < 1e-6 {
        ahead - rate * seconds
    } else {
        let called = rate / hazard;
        (ahead + called) * (-hazard * seconds).exp() - called
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn watched(seconds: u32, called: u64, aged: u64, left: u64) -> Pace {
        let mut pace = Pace::new();
        for _ in 0..seconds {
            pace.learn(SECOND, called, aged, left);
        }
        pace
    }

    fn wait(pace: &Pace, ahead: u64) -> f64 {
        pace.wait(ahead).unwrap().as_secs_f64()
    }

    #[test]
    fn so_many_take_so_long_at_a_steady_speed() {
        for seconds in [1, 30, 3_600] {
            let pace = watched(seconds, 10, 5_000, 0);

            let wait = wait(&pace, 3_000);

            assert!((wait - 300.0).abs() < 1.0, "after {seconds} s: {wait}");
        }
    }

    #[test]
    fn those_who_give_up_shorten_the_wait() {
        let pace = watched(1_800, 10, 6_000, 3);

        let wait = wait(&pace, 6_000);

        // dA/dt = −r − hA, with r of 10 a second and h of 3 in 6,000.
        let expected = (1.0 + 5e-4 * 600.0_f64).ln() / 5e-4;
        assert!((wait - expected).abs() < 2.0, "{wait} {expected}");
    }

    #[test]
    fn a_dip_counts_for_the_near_and_less_for_the_far() {
        let mut pace = watched(3_600, 40, 0, 0);
        for _ in 0..120 {
            pace.learn(SECOND, 10, 0, 0);
        }

        let (near, far) = (wait(&pace, 400), wait(&pace, 40_000));

        assert!(near > 20.0, "at a quarter of the speed: {near}");
        assert!(far < 1_600.0, "nearly as usual: {far}");
    }

    #[test]
    fn who_comes_later_and_goes_first_makes_it_longer_while_they_do() {
        let pace = watched(1_800, 10, 0, 0);
        let behind = |until: f64| {
            let others = [Overtaking { rate: 4.0, until }];
            pace.wait_behind(3_000.0, &others).unwrap().as_secs_f64()
        };

        let (always, never, meanwhile) = (behind(f64::INFINITY), behind(0.0), behind(200.0));

        assert!((always - 500.0).abs() < 2.0, "{always}");
        assert!((never - 300.0).abs() < 2.0, "{never}");
        // 800 of them come.
        assert!((meanwhile - 380.0).abs() < 5.0, "{meanwhile}");
    }

    #[test]
    fn a_speed_that_has_changed_little_by_little_goes_on_changing() {
        let mut pace = Pace::new();
        for second in 0..2_400 {
            pace.learn(Duration::from_secs(10), 100 + second / 24, 0, 0);
        }

        let plain = 6_000.0 / pace.rate();
        let wait = wait(&pace, 6_000);

        assert!(wait < plain, "{wait} {plain}");
    }

    #[test]
    fn a_line_that_stands_has_no_wait_to_tell() {
        assert_eq!(Pace::new().wait(10), None);
        let mut pace = watched(600, 40, 0, 0);
        for _ in 0..900 {
            pace.learn(SECOND, 0, 0, 0);
        }

        assert_eq!(pace.wait(10), None);
    }

    #[test]
    fn no_wait_is_beyond_two_days() {
        let pace = watched(600, 1, 0, 0);

        assert_eq!(pace.wait(u64::MAX), Some(WAIT_MAX));
        assert_eq!(pace.wait(0), Some(Duration::ZERO));
    }
}
