//! Believing bad news at once and good news slowly.

/// An exponentially weighted average with one weight for what is worse than before and one for what is better. Less is
/// worse: it smooths what a node has left, and what it can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Smoothing {
    worsening: f64,
    improving: f64,
}

/// A weight that is no share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmoothingError;

impl std::fmt::Display for SmoothingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("smoothing needs weights above 0 and at most 1")
    }
}

impl std::error::Error for SmoothingError {}

impl Default for Smoothing {
    /// 0.6 when it gets worse and 0.2 when it gets better, for each tick of a second: from 0.9 to 0.05, a node is known to
    /// be stressed after one tick and saturated after three, and the way back takes nine.
    fn default() -> Self {
        Self {
            worsening: 0.6,
            improving: 0.2,
        }
    }
}

impl Smoothing {
    /// Weights of the latest value, in 0 to 1 without the 0.
    pub fn new(worsening: f64, improving: f64) -> Result<Self, SmoothingError> {
        let is_weight = |weight: f64| 0.0 < weight && weight <= 1.0;
        if is_weight(worsening) && is_weight(improving) {
            Ok(Self {
                worsening,
                improving,
            })
        } else {
            Err(SmoothingError)
        }
    }

    /// The weight of the latest value when it is worse.
    pub const fn worsening(&self) -> f64 {
        self.worsening
    }

    /// The same when it is better.
    pub const fn improving(&self) -> f64 {
        self.improving
    }

    /// What `before` becomes by `latest`; without anything before, `latest` itself.
    pub fn step(&self, before: Option<f64>, latest: f64) -> f64 {
        let Some(before) = before else {
            return latest;
        };
        let weight = if latest < before {
            self.worsening
        } else {
            self.improving
        };
        before + weight * (latest - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_news_counts_three_times_as_much_as_good_news() {
        let smoothing = Smoothing::default();
        let near = |value: f64, expected: f64| (value - expected).abs() < 1e-12;

        assert_eq!(smoothing.step(None, 0.3), 0.3);
        assert!(near(smoothing.step(Some(0.9), 0.05), 0.39));
        assert!(near(smoothing.step(Some(0.05), 0.9), 0.22));
        assert!(Smoothing::new(0.0, 0.5).is_err() && Smoothing::new(0.5, 1.1).is_err());
    }
}
