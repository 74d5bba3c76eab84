//! One reading of one dimension of a node, and whether it may be believed.

use std::time::Duration;

use crate::time::Mono;

/// How long a reading counts: three ticks of a second. An older one is [`Validity::Stale`].
pub const SIGNAL_AGE_MAX: Duration = Duration::from_secs(3);

/// Whole numbers above this (2⁵³) run together in a float, and nothing that a node has comes in such numbers.
const FIGURE_MAX: f64 = 9_007_199_254_740_992.0;

/// Whether a reading says something.
///
/// Unknown is never 0, and never full either: a reading that is not [`Validity::Ok`] says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Validity {
    /// Read, and a number.
    Ok,
    /// There is no such thing here: a kernel without PSI, a runtime that does not tell.
    Unsupported,
    /// It was read once, but too long ago.
    Stale,
    /// It should be there, and reading it failed or made no sense.
    Error,
}

impl Validity {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Unsupported, Self::Stale, Self::Error];

    /// The name in logs and beacons.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unsupported => "unsupported",
            Self::Stale => "stale",
            Self::Error => "error",
        }
    }

    /// What is called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// What a node may run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// Workers of the application: busy of those there are.
    Threads,
    /// A queue before the workers: entries of those it holds, of the fullest listener.
    Queue,
    /// A pool of connections: those in use of those there are, or the wait for one (ms) of what it may be.
    Pool,
    /// Requests inside the application as the gateway counts them, of its limit.
    Inflight,
    /// The 99th percentile of answers that succeeded (ms) of what it may be.
    Latency,
    /// Time that collections of garbage took (share of time) of what they may take.
    Gc,
    /// The old generation after a collection (bytes) of its size. Heap in use says nothing.
    OldGen,
    /// Processor time (cores) of the cores there are, or the share of periods that were throttled.
    Cpu,
    /// Pressure stall, processor: the share of time in which somebody waited, of 1.
    PsiCpu,
    /// Pressure stall, memory: as for the processor.
    PsiMemory,
    /// Pressure stall, input and output: as for the processor.
    PsiIo,
    /// The share of processor time that the host gave to others, of 1.
    Steal,
    /// The host's load average of its cores.
    Load,
    /// Calls to what the application depends on: the share that failed or met an open breaker, of 1.
    Downstream,
}

impl Dimension {
    /// How many there are.
    pub const COUNT: usize = 14;

    /// All of them, in the order of [`Dimension::index`].
    pub const ALL: [Self; Self::COUNT] = [
        Self::Threads,
        Self::Queue,
        Self::Pool,
        Self::Inflight,
        Self::Latency,
        Self::Gc,
        Self::OldGen,
        Self::Cpu,
        Self::PsiCpu,
        Self::PsiMemory,
        Self::PsiIo,
        Self::Steal,
        Self::Load,
        Self::Downstream,
    ];

    /// Its place in [`Dimension::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in metrics, logs and beacons.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Queue => "queue",
            Self::Pool => "pool",
            Self::Inflight => "inflight",
            Self::Latency => "latency",
            Self::Gc => "gc",
            Self::OldGen => "oldgen",
            Self::Cpu => "cpu",
            Self::PsiCpu => "psi_cpu",
            Self::PsiMemory => "psi_memory",
            Self::PsiIo => "psi_io",
            Self::Steal => "steal",
            Self::Load => "load",
            Self::Downstream => "downstream",
        }
    }

    /// What is called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// How many times its limit a reading may be and still be one.
    ///
    /// Shares cannot be more than all, but for the jitter of two clocks, and workers are not busy in many times their number: such
    /// a reading is broken, or held against a limit that is another thing's. Waits and queues may be far over what they
    /// should be.
    pub const fn times_limit_max(self) -> f64 {
        match self {
            Self::PsiCpu
            | Self::PsiMemory
            | Self::PsiIo
            | Self::Steal
            | Self::Downstream
            | Self::OldGen => 2.0,
            Self::Threads => 16.0,
            // A burst of many cores, of the small part of one that a quota leaves.
            Self::Cpu => 10_000.0,
            Self::Queue | Self::Pool | Self::Inflight | Self::Gc | Self::Load => 1e6,
            Self::Latency => 1e9,
        }
    }
}

/// One reading: so much of so much.
///
/// Several of one dimension may come together (two listeners; a pool's connections and the wait for one): the
/// worst of them counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signal {
    /// What was read.
    pub dimension: Dimension,
    /// How much, in the unit of the dimension; at least 0.
    pub value: f64,
    /// Of how much, in the same unit; above 0.
    pub limit: f64,
    /// When it was read.
    pub at: Mono,
    /// Whether `value` and `limit` say anything.
    pub validity: Validity,
}

impl Signal {
    /// A reading of `value` of `limit` at `at`. What is no number, is below zero, has no limit, or is further over it
    /// than [`Dimension::times_limit_max`] is an error: −1 and NaN are how runtimes say that they do not know.
    pub fn read(dimension: Dimension, value: f64, limit: f64, at: Mono) -> Self {
        // No comparison holds for NaN.
        let is_limit = limit > 0.0 && limit <= FIGURE_MAX;
        let is_figure = (0.0..=FIGURE_MAX).contains(&value);
        let makes_sense = is_limit && is_figure && value / limit <= dimension.times_limit_max();
        Self {
            dimension,
            value,
            limit,
            at,
            validity: if makes_sense {
                Validity::Ok
            } else {
                Validity::Error
            },
        }
    }

    /// A dimension of which nothing is known, and why: `validity` is not [`Validity::Ok`].
    pub const fn unknown(dimension: Dimension, validity: Validity, at: Mono) -> Self {
        Self {
            dimension,
            value: 0.0,
            limit: 0.0,
            at,
            validity,
        }
    }

    /// What it is worth at `now`: its own validity, unless it has become too old or never made sense.
    pub fn validity_at(&self, now: Mono) -> Validity {
        match self.validity {
            Validity::Ok if now.since(self.at) > SIGNAL_AGE_MAX => Validity::Stale,
            Validity::Ok => Self::read(self.dimension, self.value, self.limit, self.at).validity,
            other => other,
        }
    }

    /// `value` of `limit`, 0 and up, when that is known at `now`.
    pub fn ratio(&self, now: Mono) -> Option<f64> {
        (self.validity_at(now) == Validity::Ok).then(|| self.value / self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again_and_places_are_those_of_the_list() {
        for (place, dimension) in Dimension::ALL.into_iter().enumerate() {
            assert_eq!(dimension.index(), place);
            assert_eq!(Dimension::named(dimension.name()), Some(dimension));
        }
        for validity in Validity::ALL {
            assert_eq!(Validity::named(validity.name()), Some(validity));
        }
        assert_eq!(Dimension::named("heap"), None);
    }

    #[test]
    fn what_a_runtime_does_not_know_is_not_nothing() {
        let at = Mono::from_millis(5_000);
        for (value, limit) in [(-1.0, 200.0), (f64::NAN, 200.0), (3.0, -1.0), (3.0, 0.0)] {
            let signal = Signal::read(Dimension::Threads, value, limit, at);

            assert_eq!(signal.validity, Validity::Error);
            assert_eq!(signal.ratio(at), None);
        }
        let claimed = Signal {
            validity: Validity::Ok,
            ..Signal::unknown(Dimension::Gc, Validity::Error, at)
        };
        assert_eq!(claimed.ratio(at), None, "said to be fine, but of nothing");
    }

    #[test]
    fn what_cannot_be_is_not_believed_and_what_is_far_over_its_limit_can() {
        let at = Mono::from_millis(5_000);
        let is_believed = |dimension, value, limit| {
            Signal::read(dimension, value, limit, at).validity == Validity::Ok
        };

        for dimension in Dimension::ALL {
            for odd in [
                -0.5,
                -1e20,
                1e20,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
            ] {
                assert!(!is_believed(dimension, odd, 200.0), "{dimension:?} {odd}");
                assert!(!is_believed(dimension, 1.0, odd), "{dimension:?} of {odd}");
            }
            assert!(is_believed(dimension, 1.5, 1.0), "{dimension:?}");
        }
        assert!(!is_believed(Dimension::Threads, 3_300.0, 200.0));
        assert!(!is_believed(Dimension::Steal, 2.1, 1.0));
        // A minute for a connection that should take a millisecond is true, sadly.
        assert!(is_believed(Dimension::Pool, 60_000.0, 1.0));
        assert!(is_believed(Dimension::Latency, 3_600.0, 0.001));
    }

    #[test]
    fn a_reading_counts_for_three_seconds() {
        let at = |ms| Mono::from_millis(ms);
        let signal = Signal::read(Dimension::Queue, 6.0, 5.0, at(10_000));

        assert_eq!(signal.ratio(at(13_000)), Some(1.2));
        assert_eq!(signal.ratio(at(9_000)), Some(1.2), "an older look");
        assert_eq!(signal.validity_at(at(13_001)), Validity::Stale);
    }
}
