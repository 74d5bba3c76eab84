//! What a node's own evidence says of it: three states with hysteresis, and one for not knowing.

use std::time::Duration;

use super::headroom::Headroom;
use super::settings::Settings;
use super::signal::Dimension;
use crate::time::Mono;

/// How a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// It has room; full weight.
    #[default]
    Healthy,
    /// It has little room; it gets less.
    Stressed,
    /// It has none; nothing new, while what is there ends by itself and is never cut.
    Saturated,
    /// Nothing is known that could tell. It counts as healthy, at full weight, and is said to be unknown.
    Unknown,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Healthy,
        Self::Stressed,
        Self::Saturated,
        Self::Unknown,
    ];

    /// The name in metrics, logs and beacons.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Stressed => "stressed",
            Self::Saturated => "saturated",
            Self::Unknown => "unknown",
        }
    }

    /// What is called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// How long it takes until a state is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Ticks in a row with too little room after which a node is saturated, 1 or more.
    pub saturated_ticks: u8,
    /// Ticks in a row with room again after which it is healthy, 1 or more.
    pub recover_ticks: u8,
    /// The least time in a state before a better one. On the way down nobody waits.
    pub dwell: Duration,
}

impl Default for Turns {
    /// 2 ticks, 6 ticks, 5 s.
    fn default() -> Self {
        Self {
            saturated_ticks: 2,
            recover_ticks: 6,
            dwell: Duration::from_secs(5),
        }
    }
}

/// Where the states begin and end, in headroom from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bands {
    saturated_below: f64,
    stressed_below: f64,
    recover_above: f64,
}

/// Bands that overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandsError;

impl std::fmt::Display for BandsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("bands need 0 < saturated_below < stressed_below < recover_above < 1")
    }
}

impl std::error::Error for BandsError {}

impl Default for Bands {
    /// Saturated below 0.20, stressed below 0.45, healthy again above 0.55.
    fn default() -> Self {
        Self {
            saturated_below: 0.20,
            stressed_below: 0.45,
            recover_above: 0.55,
        }
    }
}

impl Bands {
    /// Bands in their order; each between 0 and 1.
    pub fn new(
        saturated_below: f64,
        stressed_below: f64,
        recover_above: f64,
    ) -> Result<Self, BandsError> {
        let in_order = 0.0 < saturated_below
            && saturated_below < stressed_below
            && stressed_below < recover_above
            && recover_above < 1.0;
        if in_order {
            Ok(Self {
                saturated_below,
                stressed_below,
                recover_above,
            })
        } else {
            Err(BandsError)
        }
    }

    /// Below which headroom a node is saturated.
    pub const fn saturated_below(&self) -> f64 {
        self.saturated_below
    }

    /// Below which headroom a node is stressed.
    pub const fn stressed_below(&self) -> f64 {
        self.stressed_below
    }

    /// Above which headroom a node has recovered.
    pub const fn recover_above(&self) -> f64 {
        self.recover_above
    }
}

/// Why a node's state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// There is too little left of this.
    Low(Dimension),
    /// There is enough again, and there has been for long enough.
    Recovered,
    /// Nothing is known any more.
    Silent,
    /// Something is known again.
    Heard,
    /// The fleet decided otherwise than the node's evidence alone would have.
    Fleet,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: State,
    /// The state now.
    pub to: State,
    /// What it came from.
    pub reason: Reason,
}

/// What is remembered of a node's headroom, and the state that follows from it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The state.
    pub state: State,
    /// Since when.
    pub since: Mono,
    /// The smoothed headroom over all dimensions; `None` while nothing is known.
    pub left: Option<f64>,
    /// The same over the dimensions that may saturate the node.
    pub left_hard: Option<f64>,
    /// Ticks in a row with too little left, up to [`Turns::saturated_ticks`].
    pub low_ticks: u8,
    /// Ticks in a row with enough left, up to [`Turns::recover_ticks`].
    pub good_ticks: u8,
}

impl Evidence {
    /// Takes in what is left at `now`; called once a tick, with something new to tell.
    pub fn observe(
        &mut self,
        settings: &Settings,
        now: Mono,
        headroom: &Headroom,
    ) -> Option<Transition> {
        let (Some(all), Some(hard)) = (headroom.binding(), headroom.binding_hard()) else {
            return self.silent(now);
        };
        let Settings {
            bands,
            turns,
            smoothing,
            ..
        } = settings;
        let left = smoothing.step(self.left, all.left);
        let left_hard = smoothing.step(self.left_hard, hard.left);
        self.left = Some(left);
        self.left_hard = Some(left_hard);
        self.low_ticks = counted(
            self.low_ticks,
            left_hard < bands.saturated_below,
            turns.saturated_ticks,
        );
        self.good_ticks = counted(
            self.good_ticks,
            left > bands.recover_above,
            turns.recover_ticks,
        );

        let rested = now.since(self.since) >= turns.dwell;
        match self.state {
            State::Healthy | State::Unknown if left < bands.stressed_below => {
                self.turn(now, State::Stressed, Reason::Low(all.dimension))
            }
            State::Unknown => self.turn(now, State::Healthy, Reason::Heard),
            State::Stressed if self.low_ticks >= turns.saturated_ticks => {
                self.turn(now, State::Saturated, Reason::Low(hard.dimension))
            }
            State::Stressed if rested && self.good_ticks >= turns.recover_ticks => {
                self.turn(now, State::Healthy, Reason::Recovered)
            }
            // Only what can saturate a node may keep it there.
            State::Saturated if rested && left_hard >= bands.stressed_below => {
                self.turn(now, State::Stressed, Reason::Recovered)
            }
            _ => None,
        }
    }

    fn silent(&mut self, now: Mono) -> Option<Transition> {
        // What was once known is no evidence for what comes after the silence.
        *self = Self {
            state: self.state,
            since: self.since,
            ..Self::default()
        };
        if self.state == State::Unknown {
            return None;
        }
        self.turn(now, State::Unknown, Reason::Silent)
    }

    const fn turn(&mut self, now: Mono, to: State, reason: Reason) -> Option<Transition> {
        let from = self.state;
        self.state = to;
        self.since = now;
        Some(Transition { from, to, reason })
    }
}

const fn counted(ticks: u8, holds: bool, most: u8) -> u8 {
    if !holds {
        0
    } else if ticks < most {
        ticks + 1
    } else {
        most
    }
}

#[cfg(test)]
mod tests {
    use super::super::headroom::Readings;
    use super::super::scale::Scales;
    use super::super::signal::{Signal, Validity};
    use super::*;

    /// A node that ticks once a second and tells what is left of its workers, beside other signals.
    #[derive(Default)]
    struct Node {
        evidence: Evidence,
        tick: u64,
    }

    impl Node {
        fn tick(&mut self, left: f64, others: &[(Dimension, f64)]) -> Option<Transition> {
            self.tick += 1;
            let now = Mono::from_millis(self.tick * 1000);
            let mut signals = vec![Signal::read(Dimension::Threads, 1.0 - left, 1.0, now)];
            for &(dimension, ratio) in others {
                signals.push(Signal::read(dimension, ratio, 1.0, now));
            }
            self.hear(now, &signals)
        }

        fn hear(&mut self, now: Mono, signals: &[Signal]) -> Option<Transition> {
            let headroom = Readings::of(&Scales::default(), signals, now).headroom(now);
            self.evidence.observe(&Settings::default(), now, &headroom)
        }

        /// The ticks after which the states changed, while `left` holds for `ticks`.
        fn changes(&mut self, left: f64, ticks: u64) -> Vec<(u64, State)> {
            (1..=ticks)
                .filter_map(|tick| Some((tick, self.tick(left, &[])?.to)))
                .collect()
        }
    }

    #[test]
    fn a_node_that_fills_at_once_is_stressed_after_one_tick_and_saturated_after_three() {
        let mut node = Node::default();
        node.changes(0.9, 20);

        assert_eq!(
            node.changes(0.05, 20),
            [(1, State::Stressed), (3, State::Saturated)]
        );
        assert_eq!(
            node.changes(0.9, 40),
            [(3, State::Stressed), (9, State::Healthy)],
            "and on the way up it is stressed before it is healthy"
        );
    }

    #[test]
    fn a_change_says_what_it_came_from() {
        let mut node = Node::default();
        node.tick(0.9, &[]);

        let change = node.tick(0.8, &[(Dimension::Gc, 0.95)]).unwrap();

        assert_eq!(change.from, State::Healthy);
        assert_eq!(change.reason, Reason::Low(Dimension::Gc));
    }

    #[test]
    fn one_tick_without_room_saturates_nobody() {
        let mut node = Node::default();
        node.changes(0.3, 20);

        for _ in 0..20 {
            node.changes(0.0, 1);
            node.changes(0.9, 4);
            assert_eq!(node.evidence.state, State::Stressed);
        }
    }

    #[test]
    fn the_host_stresses_and_never_saturates() {
        let mut node = Node::default();

        for _ in 0..100 {
            node.tick(0.9, &[(Dimension::Steal, 1.0), (Dimension::PsiMemory, 1.0)]);
        }

        assert_eq!(node.evidence.state, State::Stressed);
    }

    #[test]
    fn the_host_does_not_keep_a_node_saturated() {
        let mut node = Node::default();
        for _ in 0..10 {
            node.tick(0.0, &[(Dimension::Steal, 1.0)]);
        }
        assert_eq!(node.evidence.state, State::Saturated);

        for _ in 0..10 {
            node.tick(0.9, &[(Dimension::Steal, 1.0)]);
        }

        assert_eq!(node.evidence.state, State::Stressed);
    }

    #[test]
    fn who_falls_silent_is_unknown_and_begins_anew() {
        let mut node = Node::default();
        node.changes(0.0, 10);

        let now = Mono::from_millis(100_000);
        let silent = node
            .hear(
                now,
                &[Signal::unknown(Dimension::Threads, Validity::Error, now)],
            )
            .unwrap();
        node.tick = 100;
        let heard = node.tick(0.9, &[]).unwrap();

        assert_eq!((silent.from, silent.to), (State::Saturated, State::Unknown));
        assert_eq!((heard.to, heard.reason), (State::Healthy, Reason::Heard));
        assert_eq!(node.evidence.left, Some(0.9));
    }

    #[test]
    fn bands_are_in_order_or_do_not_exist() {
        assert!(Bands::new(0.1, 0.3, 0.4).is_ok());
        assert_eq!(Bands::new(0.3, 0.3, 0.4), Err(BandsError));
        assert_eq!(Bands::new(0.1, 0.5, 0.4), Err(BandsError));
        assert_eq!(Bands::new(0.1, f64::NAN, 0.4), Err(BandsError));
    }
}
