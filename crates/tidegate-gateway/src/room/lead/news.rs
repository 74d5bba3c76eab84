//! What a leader tells others of a line: that people wait, that nobody is called, that it takes long.

use std::time::Duration;

use tidegate_core::time::Mono;

use crate::room::herald::RoomEvent;

/// Nobody may wait for so long before it is told that the line is gone.
const IDLE_AFTER: Duration = Duration::from_secs(10);
/// A wait that is longer is told, once, until it is shorter than the other.
const LONG: Duration = Duration::from_secs(3_600);
const LONG_NO_MORE: Duration = Duration::from_secs(2_700);

/// What was told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    pub(super) is_queueing: bool,
    empty_since: Option<Mono>,
    is_stalled: bool,
    is_long: bool,
}

/// How a line is.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) now: Mono,
    pub(super) waiting: u64,
    /// For how long nobody is called who might be; `None` where people are, or nobody is meant to.
    pub(super) stalled: Option<Duration>,
    /// How long somebody waits who comes now.
    pub(super) newcomer: Option<Duration>,
}

impl News {
    /// What is to be told by now.
    pub(super) fn of(&mut self, state: &State) -> Vec<RoomEvent> {
        let mut events = Vec::new();
        if state.waiting > 0 {
            self.empty_since = None;
            if !std::mem::replace(&mut self.is_queueing, true) {
                events.push(RoomEvent::Queueing);
            }
        } else if self.is_queueing {
            let since = *self.empty_since.get_or_insert(state.now);
            if state.now.since(since) >= IDLE_AFTER {
                self.is_queueing = false;
                events.push(RoomEvent::Idle);
            }
        }
        match state.stalled {
            Some(span) if !self.is_stalled => {
                self.is_stalled = true;
                events.push(RoomEvent::ReleaseStalled {
                    seconds: span.as_secs(),
                });
            }
            None if self.is_stalled => {
                self.is_stalled = false;
                events.push(RoomEvent::Calling);
            }
            _ => {}
        }
        match state.newcomer {
            Some(wait) if wait > LONG && !self.is_long => {
                self.is_long = true;
                events.push(RoomEvent::EstimateOver {
                    wait_s: wait.as_secs(),
                });
            }
            Some(wait) if wait < LONG_NO_MORE => self.is_long = false,
            _ => {}
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: State = State {
        now: Mono::from_millis(0),
        waiting: 0,
        stalled: None,
        newcomer: None,
    };

    fn at(second: u64, waiting: u64) -> State {
        State {
            now: Mono::from_millis(1_000 * second),
            waiting,
            ..CALM
        }
    }

    #[test]
    fn a_line_is_told_once_and_is_gone_after_some_seconds_without_anybody() {
        let mut news = News::default();
        let seconds = [
            (0, 0),
            (1, 5),
            (2, 9),
            (3, 0),
            (12, 0),
            (12, 1),
            (13, 0),
            (22, 0),
            (23, 0),
        ];

        let told: Vec<_> = seconds
            .into_iter()
            .map(|(second, waiting)| news.of(&at(second, waiting)))
            .collect();

        assert_eq!(told[1], [RoomEvent::Queueing]);
        assert_eq!(told[8], [RoomEvent::Idle]);
        assert_eq!(told.concat().len(), 2, "{told:?}");
    }

    #[test]
    fn a_line_that_stands_is_told_and_that_it_moves_again() {
        let mut news = News::default();
        let stalled = |seconds| State {
            stalled: Some(Duration::from_secs(seconds)),
            ..CALM
        };

        let told = [
            news.of(&stalled(30)),
            news.of(&stalled(31)),
            news.of(&CALM),
            news.of(&CALM),
        ];

        let first = [RoomEvent::ReleaseStalled { seconds: 30 }];
        assert_eq!(told[0], first);
        assert_eq!(told[2], [RoomEvent::Calling]);
        assert_eq!(told.concat().len(), 2, "{told:?}");
    }

    #[test]
    fn a_long_wait_is_told_once_until_it_is_shorter_again() {
        let mut news = News::default();
        let mut told = |minutes: u64| {
            let state = State {
                newcomer: Some(Duration::from_secs(60 * minutes)),
                ..CALM
            };
            news.of(&state).len()
        };

        assert_eq!([50, 61, 70, 50, 61].map(&mut told), [0, 1, 0, 0, 0]);
        assert_eq!([40, 61].map(&mut told), [0, 1]);
    }
}
