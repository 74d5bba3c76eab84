//! What an operator has set a room to.

use super::{Standing, Tier};

/// What a room does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Everybody passes; who would have waited is counted.
    Off,
    /// A line forms when there is more than the fleet can take.
    #[default]
    Auto,
    /// Everybody joins the line, which moves as the fleet can take it.
    QueueAll,
    /// Everybody joins the line, and nobody is called.
    Hold,
    /// An event has not begun: who comes takes part in the draw, and nobody is called.
    Prequeue,
    /// The line is worked off, newcomers behind it; when nobody is left in it everybody passes.
    Drain,
    /// It is over: nobody joins, and nobody is called.
    Closed,
}

/// Who asks, and how the line is.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// What is known of who asks.
    pub standing: Standing,
    /// Whether they have a valid pass.
    pub has_pass: bool,
    /// Whether nobody waits.
    pub is_line_empty: bool,
    /// Whether one more could go in now.
    pub is_room: bool,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Goes on.
    Pass,
    /// Goes on, though in any other phase it would have waited: counted.
    Shadow(Tier),
    /// Gets a place and goes in with it in one step.
    Admit(Tier),
    /// Waits.
    Wait(Tier),
    /// Is told that it is over.
    Over,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Off,
        Self::Auto,
        Self::QueueAll,
        Self::Hold,
        Self::Prequeue,
        Self::Drain,
        Self::Closed,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::QueueAll => "queue-all",
            Self::Hold => "hold",
            Self::Prequeue => "prequeue",
            Self::Drain => "drain",
            Self::Closed => "closed",
        }
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// Whether places are called.
    pub const fn releases(self) -> bool {
        matches!(self, Self::Auto | Self::QueueAll | Self::Drain)
    }

    /// Whether positions mean something: before a draw they do not, and after the end neither.
    pub const fn shows_positions(self) -> bool {
        matches!(self, Self::Auto | Self::QueueAll | Self::Hold | Self::Drain)
    }

    /// What becomes of a request. Who was let in, or is in the middle of something, goes on in every phase.
    pub const fn rule(self, ask: &Ask) -> Ruling {
        let Standing::Waits(tier) = ask.standing else {
            return Ruling::Pass;
        };
        if ask.has_pass {
            return Ruling::Pass;
        }
        let is_free = ask.is_line_empty && ask.is_room;
        match self {
            Self::Off if is_free => Ruling::Pass,
            Self::Off => Ruling::Shadow(tier),
            Self::Auto if is_free => Ruling::Admit(tier),
            Self::Drain if ask.is_line_empty => Ruling::Pass,
            Self::Closed => Ruling::Over,
            Self::Auto | Self::QueueAll | Self::Hold | Self::Prequeue | Self::Drain => {
                Ruling::Wait(tier)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANYBODY: Ask = Ask {
        standing: Standing::Waits(Tier::Anonymous),
        has_pass: false,
        is_line_empty: true,
        is_room: true,
    };

    #[test]
    fn names_are_read_as_they_are_written() {
        for phase in Phase::ALL {
            assert_eq!(Phase::parse(phase.name()), Some(phase));
        }
        assert_eq!(Phase::parse("on"), None);
    }

    #[test]
    fn who_was_let_in_or_is_in_the_middle_of_something_never_waits() {
        for phase in Phase::ALL {
            let with_pass = Ask {
                has_pass: true,
                is_line_empty: false,
                is_room: false,
                ..ANYBODY
            };
            assert_eq!(phase.rule(&with_pass), Ruling::Pass, "{phase:?}");
            let in_flight = Ask {
                standing: Standing::InFlight,
                has_pass: false,
                ..with_pass
            };
            assert_eq!(phase.rule(&in_flight), Ruling::Pass, "{phase:?}");
        }
    }

    #[test]
    fn a_line_forms_by_itself_and_nobody_goes_past_it() {
        let tier = Tier::Anonymous;
        assert_eq!(Phase::Auto.rule(&ANYBODY), Ruling::Admit(tier));
        for (is_line_empty, is_room) in [(true, false), (false, true), (false, false)] {
            let ask = Ask {
                is_line_empty,
                is_room,
                ..ANYBODY
            };
            assert_eq!(Phase::Auto.rule(&ask), Ruling::Wait(tier));
            assert_eq!(Phase::Off.rule(&ask), Ruling::Shadow(tier));
        }
        assert_eq!(Phase::QueueAll.rule(&ANYBODY), Ruling::Wait(tier));
    }

    #[test]
    fn nobody_is_called_while_a_room_holds_and_nobody_joins_one_that_is_over() {
        for phase in [Phase::Hold, Phase::Prequeue] {
            assert!(!phase.releases());
            assert_eq!(phase.rule(&ANYBODY), Ruling::Wait(Tier::Anonymous));
        }
        assert!(!Phase::Closed.releases());
        assert_eq!(Phase::Closed.rule(&ANYBODY), Ruling::Over);
        assert!(!Phase::Prequeue.shows_positions());
    }

    #[test]
    fn a_room_that_drains_ends_when_its_line_does() {
        assert!(Phase::Drain.releases());
        assert_eq!(Phase::Drain.rule(&ANYBODY), Ruling::Pass);
        let behind = Ask {
            is_line_empty: false,
            ..ANYBODY
        };
        let waits = Ruling::Wait(Tier::Anonymous);
        assert_eq!(Phase::Drain.rule(&behind), waits);
    }
}
