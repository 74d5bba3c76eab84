//! How much room a node has left: the least over its dimensions, and which of them it is.

use super::scale::{Reach, Scales};
use super::signal::{Dimension, SIGNAL_AGE_MAX, Signal};
use crate::time::Mono;

/// What is known of one dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    used: f64,
    at: Mono,
}

/// What a node says of itself: for each dimension how much is used, if that is known, and since when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Readings {
    /// By [`Dimension::index`].
    known: [Option<Reading>; Dimension::COUNT],
    /// The dimensions that the node looks for, known or not.
    watched: u16,
    /// The dimensions that may saturate it.
    hard: u16,
}

impl Readings {
    /// What `signals` say at `now`, read by `scales`. Of several signals of one dimension the worst counts.
    ///
    /// A dimension without any signal is one that this kind of node does not have, and nothing is missing then. One
    /// whose signals say nothing is missing.
    pub fn of(scales: &Scales, signals: &[Signal], now: Mono) -> Self {
        let mut readings = Self::none(scales);
        for signal in signals {
            let (dimension, scale) = (signal.dimension, scales.of(signal.dimension));
            if scale.reach() == Reach::Off {
                continue;
            }
            readings.watched |= bit(dimension);
            let Some(used) = signal.ratio(now).and_then(|ratio| scale.used(ratio)) else {
                continue;
            };
            let reading = Reading {
                used,
                at: signal.at,
            };
            let known = &mut readings.known[dimension.index()];
            if known.is_none_or(|other| used > other.used) {
                *known = Some(reading);
            }
        }
        readings
    }

    /// Nothing at all.
    pub fn none(scales: &Scales) -> Self {
        let hard = Dimension::ALL
            .into_iter()
            .filter(|&it| scales.of(it).reach() == Reach::Saturated)
            .fold(0, |bits, it| bits | bit(it));
        Self {
            known: [None; Dimension::COUNT],
            watched: 0,
            hard,
        }
    }

    /// How much of `dimension` is used, 0 to 1, when that is known at `now`.
    pub fn used(&self, dimension: Dimension, now: Mono) -> Option<f64> {
        self.known[dimension.index()]
            .filter(|reading| now.since(reading.at) <= SIGNAL_AGE_MAX)
            .map(|reading| reading.used)
    }

    /// What is left at `now`.
    pub fn headroom(&self, now: Mono) -> Headroom {
        Headroom {
            used: Dimension::ALL.map(|dimension| self.used(dimension, now)),
            watched: self.watched,
            hard: self.hard,
        }
    }
}

/// How much room there is at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Headroom {
    used: [Option<f64>; Dimension::COUNT],
    watched: u16,
    hard: u16,
}

/// The least of what is left, and of what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binding {
    /// What there is least of.
    pub dimension: Dimension,
    /// What is left of it, 0 to 1.
    pub left: f64,
}

impl Headroom {
    /// From its parts, as they are in a log. Bit n of `watched` and `hard` is the dimension with the index n.
    pub const fn from_parts(
        used: [Option<f64>; Dimension::COUNT],
        watched: u16,
        hard: u16,
    ) -> Self {
        Self {
            used,
            watched,
            hard,
        }
    }

    /// How much of each dimension is used, 0 to 1, by [`Dimension::index`]; `None` is unknown, or nothing that this node has.
    pub const fn used(&self) -> &[Option<f64>; Dimension::COUNT] {
        &self.used
    }

    /// The dimensions that are looked for: bit n is the one with the index n.
    pub const fn watched(&self) -> u16 {
        self.watched
    }

    /// The dimensions that may saturate the node, in the same way.
    pub const fn hard(&self) -> u16 {
        self.hard
    }

    /// The dimension with the least room, over all that are known. `None` when nothing is known that could saturate the
    /// node: the host's figures alone are no evidence about an application.
    pub fn binding(&self) -> Option<Binding> {
        self.binding_hard()?;
        self.least(u16::MAX)
    }

    /// The same over those that may saturate the node.
    pub fn binding_hard(&self) -> Option<Binding> {
        self.least(self.hard)
    }

    /// The share of the dimensions looked for that are known, 0 to 1; 0 when none is looked for.
    pub fn confidence(&self) -> f64 {
        let known = self.used.iter().flatten().count() as f64;
        match self.watched.count_ones() {
            0 => 0.0,
            watched => known / f64::from(watched),
        }
    }

    fn least(&self, among: u16) -> Option<Binding> {
        let mut least: Option<Binding> = None;
        for dimension in Dimension::ALL {
            let Some(used) = self.used[dimension.index()] else {
                continue;
            };
            let left = 1.0 - used;
            if among & bit(dimension) != 0 && least.is_none_or(|it| left < it.left) {
                least = Some(Binding { dimension, left });
            }
        }
        least
    }
}

const fn bit(dimension: Dimension) -> u16 {
    1 << dimension.index()
}

#[cfg(test)]
mod tests {
    use super::super::signal::Validity;
    use super::*;

    const NOW: Mono = Mono::from_millis(60_000);

    fn headroom(signals: &[Signal]) -> Headroom {
        Readings::of(&Scales::default(), signals, NOW).headroom(NOW)
    }

    fn read(dimension: Dimension, value: f64, limit: f64) -> Signal {
        Signal::read(dimension, value, limit, NOW)
    }

    #[test]
    fn a_tenth_of_the_processor_and_all_workers_busy_is_no_room_at_all() {
        let headroom = headroom(&[
            read(Dimension::Cpu, 0.4, 4.0),
            read(Dimension::Threads, 200.0, 200.0),
            read(Dimension::Pool, 4.0, 20.0),
        ]);

        let binding = headroom.binding().unwrap();

        assert_eq!(binding.dimension, Dimension::Threads);
        assert_eq!(binding.left, 0.0);
        assert_eq!(headroom.confidence(), 1.0);
    }

    #[test]
    fn the_worst_of_several_readings_counts() {
        let three_listeners = [
            read(Dimension::Queue, 1.0, 4.0),
            read(Dimension::Queue, 5.0, 4.0),
            read(Dimension::Queue, 3.0, 4.0),
        ];

        let binding = headroom(&three_listeners).binding().unwrap();

        assert_eq!(binding.left, 0.0, "full, though two of three are not");
    }

    #[test]
    fn the_wait_for_a_connection_binds_before_the_connections_do() {
        let headroom = headroom(&[
            read(Dimension::Pool, 12.0, 20.0),
            read(Dimension::Pool, 45.0, 50.0),
            read(Dimension::Latency, 300.0, 1000.0),
        ]);

        let binding = headroom.binding().unwrap();

        assert_eq!(binding.dimension, Dimension::Pool);
        assert!((binding.left - 0.1).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_known_costs_confidence_and_nothing_else() {
        let known = [
            read(Dimension::Threads, 50.0, 200.0),
            read(Dimension::Queue, 0.0, 100.0),
        ];
        let mut more = known.to_vec();
        more.push(Signal::unknown(Dimension::Gc, Validity::Unsupported, NOW));
        more.push(read(Dimension::OldGen, 0.0, -1.0));
        more.push(Signal::read(
            Dimension::Latency,
            900.0,
            1000.0,
            Mono::from_millis(1),
        ));

        assert_eq!(headroom(&more).binding(), headroom(&known).binding());
        assert_eq!(headroom(&known).confidence(), 1.0);
        assert_eq!(headroom(&more).confidence(), 0.4);
    }

    #[test]
    fn the_host_alone_says_nothing_about_an_application() {
        let headroom = headroom(&[
            read(Dimension::Steal, 0.9, 1.0),
            Signal::unknown(Dimension::Threads, Validity::Error, NOW),
        ]);

        assert_eq!(headroom.binding(), None);
        assert_eq!(headroom.confidence(), 0.5);
    }

    #[test]
    fn readings_that_are_kept_go_stale_by_themselves() {
        let readings = Readings::of(
            &Scales::default(),
            &[read(Dimension::Threads, 190.0, 200.0)],
            NOW,
        );
        let later = |ms| NOW + std::time::Duration::from_millis(ms);

        assert!(readings.headroom(later(3_000)).binding().is_some());
        assert_eq!(readings.headroom(later(3_001)).binding(), None);
    }
}
