//! When first attempts are made.

use std::time::Duration;

use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

use crate::scenario::{Arrivals, Traffic};

/// First attempts of one traffic, in the order of time.
#[derive(Debug)]
pub(super) enum Schedule {
    Rated(Rated),
    Bursts(Bursts),
}

impl Schedule {
    pub(super) fn new(traffic: &Traffic) -> Self {
        let from = nanos(traffic.from);
        let until = traffic.until.map_or(f64::INFINITY, nanos);
        match &traffic.arrivals {
            Arrivals::Bursts { size, every } => Self::Bursts(Bursts {
                size: *size,
                left: *size,
                at: from,
                every: every.map_or(f64::INFINITY, nanos),
                until,
            }),
            Arrivals::Poisson {} | Arrivals::Fixed {} => Self::Rated(Rated {
                even: traffic.arrivals == Arrivals::Fixed {},
                begun: false,
                at: from,
                until,
                piece: 0,
                pieces: pieces(from, traffic),
            }),
            Arrivals::Trace { steps, .. } => Self::Rated(Rated {
                even: false,
                begun: false,
                at: from,
                until,
                piece: 0,
                pieces: steps
                    .iter()
                    .map(|step| Piece {
                        from: from + nanos(step.at),
                        per_nano: step.rate / 1e9,
                    })
                    .collect(),
            }),
        }
    }

    /// The next one; [`Mono::MAX`] when there are no more.
    pub(super) fn next(&mut self, rng: &mut Rng) -> Mono {
        let at = match self {
            Self::Rated(rated) => rated.next(rng),
            Self::Bursts(bursts) => bursts.next(),
        };
        at.map_or(Mono::MAX, |at| Mono::from_nanos(at as u64))
    }
}

/// From `from` on, `per_nano` arrivals per nanosecond.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: f64,
    per_nano: f64,
}

fn pieces(from: f64, traffic: &Traffic) -> Vec<Piece> {
    let first = Piece {
        from,
        per_nano: traffic.rate / 1e9,
    };
    let later = traffic.changes.iter().filter_map(|change| {
        Some(Piece {
            from: nanos(change.at),
            per_nano: change.rate? / 1e9,
        })
    });
    [first].into_iter().chain(later).collect()
}

/// Arrivals at a rate that changes in steps.
///
/// The time to the next arrival is where the integral of the rate reaches the drawn amount, so a
/// change of rate neither loses an arrival nor makes one up (inversion of the cumulative rate).
#[derive(Debug)]
pub(super) struct Rated {
    /// Evenly instead of independent of each other.
    even: bool,
    begun: bool,
    /// The last arrival. In nanoseconds as a float: a sum of rounded gaps would drift.
    at: f64,
    until: f64,
    /// Which piece `at` is in.
    piece: usize,
    pieces: Vec<Piece>,
}

impl Rated {
    fn next(&mut self, rng: &mut Rng) -> Option<f64> {
        let mut amount = match (self.even, self.begun) {
            (true, false) => 0.0,
            (true, true) => 1.0,
            (false, _) => -(1.0 - rng.unit()).ln(),
        };
        self.begun = true;
        loop {
            let piece = self.pieces.get(self.piece)?;
            let ends = self
                .pieces
                .get(self.piece + 1)
                .map_or(self.until, |next| next.from.min(self.until));
            self.at = self.at.max(piece.from);
            if piece.per_nano > 0.0 {
                let at = self.at + amount / piece.per_nano;
                if at < ends {
                    self.at = at;
                    return Some(at);
                }
                amount -= (ends - self.at).max(0.0) * piece.per_nano;
            }
            self.at = self.at.max(ends);
            self.piece += 1;
        }
    }
}

/// Many at once, again and again.
#[derive(Debug)]
pub(super) struct Bursts {
    size: u32,
    /// How many of the present burst have not been made.
    left: u32,
    at: f64,
    every: f64,
    until: f64,
}

impl Bursts {
    fn next(&mut self) -> Option<f64> {
        if self.left == 0 {
            self.at += self.every;
            self.left = self.size;
        }
        let more = self.left > 0 && self.at < self.until;
        self.left = self.left.saturating_sub(1);
        more.then_some(self.at)
    }
}

fn nanos(span: Duration) -> f64 {
    span.as_nanos() as f64
}
