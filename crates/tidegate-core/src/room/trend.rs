//! What something that is counted usually comes to, and where that is going.

use std::collections::VecDeque;

/// What was counted is kept by the minute, for so many minutes.
const MINUTES: usize = 24;
const MINUTE: f64 = 60.0;
/// With fewer there is no direction to be seen.
const DIRECTION_MIN: usize = 8;
/// A direction that chance would show in one case of twenty is none: so many standard deviations.
const CHANCE: f64 = 2.0;
/// How long a direction is taken to go on: it wears off over about that time.
const GOES_ON: f64 = 1_200.0;
/// Wherever it goes, it does not become less or more than these parts of what is now.
const LEAST: f64 = 0.75;
const MOST: f64 = 1.5;

/// The usual rate of something, per second, and its direction.
///
/// A straight line through the last 24 minutes, by Theil and Sen: its slope is the median of the slopes between any two of
/// them, and its height the median of what it leaves (Sen, "Estimates of the regression coefficient based on Kendall's
/// tau", JASA 63, 1968). A mean would follow everything: some minutes that are quite different, a quarter of all at most,
/// leave this line where it was. A slope counts if Kendall's test says that it is not chance, and wears off the further
/// ahead it is followed (Gardner and McKenzie, "Forecasting trends in time series", Management Science 31, 1985).
#[derive(Clone, Debug, Default)]
pub(super) struct Trend {
    /// Per second, of each of the last minutes, the latest one last.
    minutes: VecDeque<f64>,
    /// Of the minute that is not over.
    count: f64,
    seconds: f64,
    level: f64,
    slope: f64,
}

impl Trend {
    pub(super) const fn new() -> Self {
        Self {
            minutes: VecDeque::new(),
            count: 0.0,
            seconds: 0.0,
            level: 0.0,
            slope: 0.0,
        }
    }

    /// So many in so many seconds, more than none.
    pub(super) fn learn(&mut self, seconds: f64, count: f64) {
        self.count += count;
        self.seconds += seconds;
        if self.seconds < MINUTE {
            if self.minutes.is_empty() {
                self.level = (self.count / self.seconds).max(0.0);
            }
            return;
        }
        if self.minutes.len() == MINUTES {
            self.minutes.pop_front();
        }
        self.minutes.push_back(self.count / self.seconds);
        (self.count, self.seconds) = (0.0, 0.0);
        self.draw();
    }

    /// What it will come to per second, so many seconds from now.
    pub(super) fn after(&self, seconds: f64) -> f64 {
        let moved = self.slope * GOES_ON * (1.0 - (-seconds / GOES_ON).exp());
        (self.level + moved).clamp(LEAST * self.level, MOST * self.level)
    }

    /// Draws the line anew.
    fn draw(&mut self) {
        let count = self.minutes.len();
        let mut slopes = Vec::with_capacity(count * count / 2);
        let mut rising = 0_i32;
        for (later, value) in self.minutes.iter().enumerate() {
            for (earlier, before) in self.minutes.iter().take(later).enumerate() {
                slopes.push((value - before) / ((later - earlier) as f64 * MINUTE));
                rising += i32::from(value > before) - i32::from(value < before);
            }
        }
        let n = count as f64;
        let chance = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
        let is_seen = count >= DIRECTION_MIN && f64::from(rising.abs()) > CHANCE * chance;
        self.slope = if is_seen { median(&mut slopes) } else { 0.0 };
        // Each stands for its middle, and the last one has just ended.
        let ago = |at: usize| ((count - at) as f64 - 0.5) * MINUTE;
        let each = self.minutes.iter().enumerate();
        let mut levels: Vec<_> = each.map(|(at, it)| it + self.slope * ago(at)).collect();
        self.level = median(&mut levels).max(0.0);
    }
}

/// 0 of none.
fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    let lower = below.iter().copied().fold(f64::MIN, f64::max);
    if values.len() % 2 == 1 {
        upper
    } else {
        f64::midpoint(lower, upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Of minutes that each had so many per second.
    fn seen(minutes: impl IntoIterator<Item = f64>) -> Trend {
        let mut trend = Trend::new();
        for rate in minutes {
            for _ in 0..6 {
                trend.learn(10.0, 10.0 * rate);
            }
        }
        trend
    }

    #[test]
    fn what_does_not_change_stays_as_it_is() {
        for minutes in [1, 5, 8, 60] {
            let trend = seen((0..minutes).map(|_| 40.0));

            assert!((trend.after(0.0) - 40.0).abs() < 1e-9);
            assert!((trend.after(3_600.0) - 40.0).abs() < 1e-9);
        }
        assert_eq!(Trend::new().after(60.0), 0.0);
    }

    #[test]
    fn what_rises_goes_on_rising_for_a_while() {
        // A hundredth of a second's worth more in each second.
        let trend = seen((0..40).map(|minute| 10.0 + 0.6 * f64::from(minute)));

        let now = trend.after(0.0);
        assert!((now - 33.7).abs() < 0.2, "at the end of the last: {now}");
        let soon = trend.after(300.0) - now;
        assert!((2.5..3.0).contains(&soon), "{soon}");
        let late = trend.after(7_200.0) - now;
        assert!((11.0..12.1).contains(&late), "{late}");
    }

    #[test]
    fn five_minutes_of_something_else_are_no_direction() {
        let dip = (0..60).map(|minute| {
            if (50..55).contains(&minute) {
                10.0
            } else {
                40.0
            }
        });
        for until in 50..=60 {
            let trend = seen(dip.clone().take(until));

            assert!((trend.after(0.0) - 40.0).abs() < 1e-9, "{until}");
            assert!((trend.after(900.0) - 40.0).abs() < 1e-9, "{until}");
        }
    }

    #[test]
    fn what_changes_for_good_is_known_within_a_quarter_of_an_hour() {
        let trend = seen((0..75).map(|minute| if minute < 60 { 40.0 } else { 10.0 }));

        let now = trend.after(0.0);
        assert!(now < 20.0, "{now}");
    }

    #[test]
    fn noise_has_no_direction() {
        let mut rng = Rng::new(5);
        let mut moved: f64 = 0.0;
        for _ in 0..200 {
            let trend = seen((0..24).map(|_| 40.0 + 8.0 * (rng.unit() - 0.5)));
            moved += f64::from(u8::from(trend.after(900.0) != trend.after(0.0)));
        }

        assert!(moved <= 20.0, "{moved} of 200");
    }

    #[test]
    fn half_of_all_are_below_the_median() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [3.0]), 3.0);
        assert_eq!(median(&mut [3.0, 1.0]), 2.0);
        assert_eq!(median(&mut [9.0, 1.0, 4.0]), 4.0);
        assert_eq!(median(&mut [9.0, 1.0, 4.0, 2.0]), 3.0);
    }
}
