//! What a run came to.

use std::ops::{AddAssign, Range};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The result of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The seed that replays it.
    pub seed: u64,
    /// When each phase was.
    pub phases: Vec<PhaseReport>,
    /// Every kind, in the plan's order.
    pub kinds: Vec<KindReport>,
    /// Every second of the run, from the first arrival to the last answer.
    pub seconds: Vec<SecondReport>,
    /// How far behind the schedule requests were sent, 99th percentile.
    pub send_lag_p99_ms: f64,
    /// The share of CPU time that the host took away.
    pub steal_share: f64,
    /// Why the run is no result; empty when it is one.
    pub invalid: Vec<Invalidity>,
}

/// One phase of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Its name.
    pub name: String,
    /// Its first second, from the run's start.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Latencies of good visits by kind, from arrival to the last byte of the answer, the phase's
    /// first second left out.
    pub good: Vec<Percentiles>,
    /// The same over all kinds.
    pub good_all: Percentiles,
}

/// One kind of visitor over the whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KindReport {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its counts.
    pub total: Tally,
    /// Latencies of good visits, from arrival to the last byte of the answer.
    pub good: Percentiles,
    /// Latencies of refusals, from sending the attempt to the refusal's last byte.
    pub refusal: Percentiles,
}

/// One second of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SecondReport {
    /// Counts by kind, in the plan's order.
    pub kinds: Vec<Tally>,
}

/// Counts. Visits are counted in the second they arrived in, whenever they ended, so that
/// `offered` is always the sum of the five outcomes; attempts and answers when they happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Visits that arrived.
    pub offered: u64,
    /// Of these: answered 2xx within the visitor's patience. Goodput.
    pub good: u64,
    /// Answered 2xx, but after the visitor's patience.
    pub late: u64,
    /// Ended with 503 or 429.
    pub refused: u64,
    /// Ended with another status, a reset or no connection.
    pub error: u64,
    /// Left when its patience was over.
    pub timeout: u64,
    /// Attempts sent.
    pub attempts: u64,
    /// Attempts answered 2xx, whenever.
    pub answers: u64,
    /// Attempts answered 503 or 429.
    pub refusals: u64,
}

impl Tally {
    /// Visits that have ended.
    pub const fn ended(&self) -> u64 {
        self.good + self.late + self.refused + self.error + self.timeout
    }

    /// Good visits as a share of those offered; 1 when none was.
    pub fn good_share(&self) -> f64 {
        if self.offered == 0 {
            1.0
        } else {
            self.good as f64 / self.offered as f64
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.offered += other.offered;
        self.good += other.good;
        self.late += other.late;
        self.refused += other.refused;
        self.error += other.error;
        self.timeout += other.timeout;
        self.attempts += other.attempts;
        self.answers += other.answers;
        self.refusals += other.refusals;
    }
}

/// A distribution of latencies in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// How many there were; 0 makes the others 0.
    pub count: u64,
    /// The median, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// The longest, in milliseconds.
    pub max_ms: f64,
}

/// Why a run says nothing about the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum Invalidity {
    /// The generator could not keep up.
    #[error("send lag p99 {p99_ms:.1} ms is over 5 ms")]
    SendLag {
        /// What it was.
        p99_ms: f64,
    },
    /// The host gave the machine's time to others.
    #[error("steal {share:.3} is over 0.05")]
    Steal {
        /// What it was.
        share: f64,
    },
    /// More visits were in progress than the plan or the system allows.
    #[error("{visits} visits could not be started")]
    Capped {
        /// How many.
        visits: u64,
    },
}

impl Report {
    /// Whether the run is a result.
    pub fn is_valid(&self) -> bool {
        self.invalid.is_empty()
    }

    /// Counts over the seconds in `seconds` of the kinds that `wanted` picks.
    pub fn sum(&self, seconds: Range<usize>, wanted: impl Fn(&KindReport) -> bool) -> Tally {
        let mut sum = Tally::default();
        for second in self.seconds.iter().take(seconds.end).skip(seconds.start) {
            for (kind, tally) in self.kinds.iter().zip(&second.kinds) {
                if wanted(kind) {
                    sum += *tally;
                }
            }
        }
        sum
    }

    /// The whole seconds of phase `index` without its first one, which is when things settle.
    pub fn steady(&self, index: usize) -> Range<usize> {
        let phase = &self.phases[index];
        let from = phase.from_s.ceil() as usize + 1;
        from..(phase.to_s.floor() as usize).max(from)
    }

    /// Good visits per second over `seconds` of the kinds that `wanted` picks.
    pub fn goodput(&self, seconds: Range<usize>, wanted: impl Fn(&KindReport) -> bool) -> f64 {
        let length = seconds.len().max(1) as f64;
        self.sum(seconds, wanted).good as f64 / length
    }

    /// How long visitors kept coming.
    pub fn length(&self) -> Duration {
        Duration::from_secs_f64(self.phases.last().map_or(0.0, |phase| phase.to_s))
    }
}
