//! When visitors arrive, whatever becomes of them.

use std::time::Duration;

use tidegate_core::rng::Rng;

use super::{Arrivals, Phase};

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrival {
    /// When, from the start of the run.
    pub(super) at: Duration,
    /// In which phase.
    pub(super) phase: usize,
}

/// The arrivals of a run in order. The same seed gives the same ones.
pub(super) struct Schedule<'a> {
    phases: &'a [Phase],
    arrivals: Arrivals,
    rng: Rng,
    phase: usize,
    phase_from: f64,
    at: f64,
}

impl<'a> Schedule<'a> {
    pub(super) fn new(phases: &'a [Phase], arrivals: Arrivals, rng: Rng) -> Self {
        Self {
            phases,
            arrivals,
            rng,
            phase: 0,
            phase_from: 0.0,
            at: 0.0,
        }
    }
}

impl Iterator for Schedule<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            let phase = self.phases.get(self.phase)?;
            let gap = match self.arrivals {
                Arrivals::Even => 1.0,
                Arrivals::Poisson => -(1.0 - self.rng.unit()).ln(),
            };
            let at = self.at + gap / phase.rate;
            let phase_to = self.phase_from + phase.length.as_secs_f64();
            // A gap is cut at the end of its phase: exponential ones have no memory, so starting a
            // new one there is right, and a rate of 0 is a gap without end.
            if at < phase_to {
                self.at = at;
                return Some(Arrival {
                    at: Duration::from_secs_f64(at),
                    phase: self.phase,
                });
            }
            self.phase += 1;
            self.phase_from = phase_to;
            self.at = phase_to;
        }
    }
}

/// Draws a kind by the weights in `shares`; the first one when all are 0.
pub(super) fn draw_kind(shares: &[f64], rng: &mut Rng) -> usize {
    let mut left = rng.unit() * shares.iter().sum::<f64>();
    for (kind, share) in shares.iter().enumerate() {
        if left < *share {
            return kind;
        }
        left -= share;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(rate: f64, seconds: u64) -> Phase {
        Phase::new("", rate, Duration::from_secs(seconds))
    }

    #[test]
    fn every_phase_gets_its_own_rate_and_nobody_comes_after_the_last() {
        let phases = [phase(1_000.0, 10), phase(0.0, 5), phase(3_000.0, 10)];

        for arrivals in [Arrivals::Poisson, Arrivals::Even] {
            let mut counts = [0u32; 3];
            for arrival in Schedule::new(&phases, arrivals, Rng::new(7)) {
                assert!(arrival.at < Duration::from_secs(25));
                counts[arrival.phase] += 1;
            }

            // Poisson counts of 10,000 and 30,000 spread by 100 and 173.
            assert!((9_500..=10_500).contains(&counts[0]), "{counts:?}");
            assert_eq!(counts[1], 0);
            assert!((29_000..=31_000).contains(&counts[2]), "{counts:?}");
        }
    }

    #[test]
    fn arrivals_come_in_order_and_again_with_the_same_seed() {
        let phases = [phase(500.0, 2), phase(100.0, 2)];
        let all =
            |seed| Schedule::new(&phases, Arrivals::Poisson, Rng::new(seed)).collect::<Vec<_>>();

        assert!(all(1).is_sorted_by_key(|arrival| arrival.at));
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }

    #[test]
    fn kinds_are_drawn_by_their_shares() {
        let mut rng = Rng::new(3);
        let mut counts = [0u32; 3];

        for _ in 0..10_000 {
            counts[draw_kind(&[3.0, 0.0, 1.0], &mut rng)] += 1;
        }

        assert!((7_200..=7_800).contains(&counts[0]), "{counts:?}");
        assert_eq!(counts[1], 0);
        assert_eq!(draw_kind(&[0.0, 0.0], &mut rng), 0);
    }
}
