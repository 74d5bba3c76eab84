//! How long work takes when nothing is in its way.

use std::f64::consts::TAU;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::rng::Rng;

use crate::scenario::ServiceKind;

/// A distribution to draw from.
#[derive(Clone, Debug)]
pub(super) enum Times {
    Constant(Duration),
    Erlang {
        /// Mean of one of the exponentials, in nanoseconds.
        stage: f64,
        shape: u32,
    },
    Lognormal {
        /// Mean of the logarithm of nanoseconds.
        mu: f64,
        sigma: f64,
    },
    Mixed {
        usual: Duration,
        other: Duration,
        share: f64,
    },
    Recorded(Arc<[Duration]>),
}

impl Times {
    pub(super) fn new(of: &ServiceKind) -> Self {
        match *of {
            ServiceKind::Constant { mean } => Self::Constant(mean),
            ServiceKind::Erlang { mean, shape } => Self::Erlang {
                stage: nanos(mean) / f64::from(shape),
                shape,
            },
            // The mean of a log-normal is exp(mu + sigma² / 2).
            ServiceKind::Lognormal { mean, sigma } => Self::Lognormal {
                mu: nanos(mean).ln() - sigma * sigma / 2.0,
                sigma,
            },
            ServiceKind::Mixed {
                usual,
                other,
                share,
            } => Self::Mixed {
                usual,
                other,
                share,
            },
            ServiceKind::Recorded(ref recorded) => Self::Recorded(Arc::clone(&recorded.times)),
        }
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> Duration {
        match *self {
            Self::Constant(time) => time,
            Self::Erlang { stage, shape } => {
                let sum: f64 = (0..shape).map(|_| exponential(rng)).sum();
                Duration::from_nanos((stage * sum) as u64)
            }
            Self::Lognormal { mu, sigma } => {
                Duration::from_nanos((mu + sigma * normal(rng)).exp() as u64)
            }
            Self::Mixed {
                usual,
                other,
                share,
            } => {
                if rng.unit() < share {
                    other
                } else {
                    usual
                }
            }
            Self::Recorded(ref times) => times
                .get(rng.below(times.len() as u64) as usize)
                .copied()
                .unwrap_or_default(),
        }
    }
}

fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// Exponential with mean 1, by inversion.
fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.unit()).ln()
}

/// Standard normal: Box and Muller, "A note on the generation of random normal deviates", 1958.
/// The second of the pair is not kept, so that a draw depends on nothing but the generator.
fn normal(rng: &mut Rng) -> f64 {
    let radius = (2.0 * exponential(rng)).sqrt();
    radius * (TAU * rng.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Duration = Duration::from_millis(50);
    const DRAWS: u32 = 100_000;

    /// Mean in milliseconds and coefficient of variation of many draws.
    fn shape_of(of: &ServiceKind) -> (f64, f64) {
        let times = Times::new(of);
        let mut rng = Rng::new(3);
        let draws: Vec<f64> = (0..DRAWS)
            .map(|_| times.draw(&mut rng).as_secs_f64() * 1e3)
            .collect();
        let mean = draws.iter().sum::<f64>() / f64::from(DRAWS);
        let square = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(DRAWS);
        (mean, square.sqrt() / mean)
    }

    fn assert_near(found: f64, wanted: f64, part: f64) {
        assert!(
            (found - wanted).abs() <= wanted * part,
            "{found}, not {wanted}"
        );
    }

    #[test]
    fn an_erlang_of_shape_k_varies_by_one_over_the_root_of_k() {
        for shape in [1, 2, 4, 16] {
            let (mean, variation) = shape_of(&ServiceKind::Erlang { mean: MEAN, shape });

            assert_near(mean, 50.0, 0.01);
            assert_near(variation, 1.0 / f64::from(shape).sqrt(), 0.02);
        }
    }

    #[test]
    fn a_log_normal_has_the_mean_it_was_asked_for_and_the_tail_of_its_sigma() {
        let (mean, variation) = shape_of(&ServiceKind::Lognormal {
            mean: MEAN,
            sigma: 0.5,
        });

        assert_near(mean, 50.0, 0.01);
        assert_near(variation, (0.25_f64.exp() - 1.0).sqrt(), 0.03);
    }

    #[test]
    fn a_mixture_takes_the_other_time_in_its_share() {
        let (mean, _) = shape_of(&ServiceKind::Mixed {
            usual: Duration::from_millis(10),
            other: Duration::from_millis(400),
            share: 0.1,
        });

        assert_near(mean, 49.0, 0.02);
    }

    #[test]
    fn recorded_times_are_drawn_equally_often() {
        let times = [1, 2, 3].map(Duration::from_millis);
        let recorded = Times::Recorded(Arc::from(times));
        let mut rng = Rng::new(1);
        let mut seen = [0; 3];

        for _ in 0..3000 {
            seen[recorded.draw(&mut rng).as_millis() as usize - 1] += 1;
        }

        assert!(
            seen.iter().all(|count| (900..1100).contains(count)),
            "{seen:?}"
        );
    }
}
