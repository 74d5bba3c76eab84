//! What happens in a room that others may want to know.

use serde::{Deserialize, Serialize};
use tidegate_core::room::Phase;

/// Longest name of whoever orders something, in bytes.
pub(crate) const BY_BYTES_MAX: usize = 64;
/// Longest reason that is given, in bytes.
pub(crate) const WHY_BYTES_MAX: usize = 240;
/// Longest account of what was ordered, in bytes.
const WHAT_BYTES_MAX: usize = 1_024;

/// How [`Said::event`] is called when the phase was set.
pub(super) const PHASE_SET: &str = "phase.set";
/// How it is called when the line before it was not finished.
pub(super) const TORN: &str = "log.torn";

/// Something that has happened in a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoomEvent {
    /// The first one waits.
    Queueing,
    /// Nobody waits any more.
    Idle,
    /// The room does something else from now on.
    PhaseSet {
        /// What it did.
        from: Phase,
        /// What it does.
        to: Phase,
        /// Who has ordered it.
        by: String,
        /// Why, in their words.
        why: Option<String>,
    },
    /// Something else was ordered.
    Ordered {
        /// What.
        what: String,
        /// Who has ordered it.
        by: String,
        /// Why, in their words.
        why: Option<String>,
    },
    /// People wait, and nobody has been called for so long.
    ReleaseStalled {
        /// How long.
        seconds: u64,
    },
    /// People are called again.
    Calling,
    /// The store does not answer.
    StoreAway,
    /// It does again.
    StoreBack {
        /// How many came back to the line that it had lost.
        restored: u64,
    },
    /// This gateway moves the line from now on.
    Leads {
        /// By which right.
        fence: u64,
    },
    /// Somebody else does.
    Deposed,
    /// Somebody who comes now is told a long wait.
    EstimateOver {
        /// How long.
        wait_s: u64,
    },
}

/// An event as it is written down and sent. What an event does not have is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// What has happened, in a word of docs/waiting-room.md.
    pub event: String,
    /// Who has ordered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What was ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// The phase before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The phase since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// For how long nobody was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// How many came back to a line that was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<u64>,
    /// By which right this gateway leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// How long somebody is told to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

impl Said {
    /// `event` as it is written down.
    pub(super) fn of(event: RoomEvent) -> Self {
        let named = |name: &str| Self {
            event: name.to_owned(),
            ..Self::default()
        };
        match event {
            RoomEvent::Queueing => named("room.queueing"),
            RoomEvent::Idle => named("room.idle"),
            RoomEvent::PhaseSet { from, to, by, why } => Self {
                from: Some(from.name().to_owned()),
                to: Some(to.name().to_owned()),
                ..named(PHASE_SET).ordered(&by, why.as_deref())
            },
            RoomEvent::Ordered { what, by, why } => Self {
                what: Some(cut(&what, WHAT_BYTES_MAX)),
                ..named("ordered").ordered(&by, why.as_deref())
            },
            RoomEvent::ReleaseStalled { seconds } => Self {
                seconds: Some(seconds),
                ..named("release.stalled")
            },
            RoomEvent::Calling => named("release.calling"),
            RoomEvent::StoreAway => named("store.away"),
            RoomEvent::StoreBack { restored } => Self {
                restored: Some(restored),
                ..named("store.back")
            },
            RoomEvent::Leads { fence } => Self {
                fence: Some(fence),
                ..named("lead.taken")
            },
            RoomEvent::Deposed => named("lead.lost"),
            RoomEvent::EstimateOver { wait_s } => Self {
                wait_s: Some(wait_s),
                ..named("estimate.over")
            },
        }
    }

    fn ordered(self, by: &str, why: Option<&str>) -> Self {
        Self {
            by: Some(cut(by, BY_BYTES_MAX)),
            why: why.map(|why| cut(why, WHY_BYTES_MAX)),
            ..self
        }
    }
}

/// The beginning of `text`, `most` bytes at most.
fn cut(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_says_what_it_has_and_nothing_else() {
        let event = RoomEvent::PhaseSet {
            from: Phase::Auto,
            to: Phase::QueueAll,
            by: "kim".to_owned(),
            why: None,
        };

        let said = serde_json::to_value(Said::of(event)).unwrap();

        let expected =
            json!({ "event": "phase.set", "by": "kim", "from": "auto", "to": "queue-all" });
        assert_eq!(said, expected);
        let away = serde_json::to_value(Said::of(RoomEvent::StoreAway)).unwrap();
        assert_eq!(away, json!({ "event": "store.away" }));
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_between_two_letters() {
        let event = RoomEvent::Ordered {
            what: "x".repeat(5_000),
            by: "ü".repeat(40),
            why: Some("w".repeat(WHY_BYTES_MAX + 1)),
        };

        let said = Said::of(event);

        assert_eq!(said.what.map(|what| what.len()), Some(WHAT_BYTES_MAX));
        assert_eq!(said.by.as_deref(), Some("ü".repeat(32).as_str()));
        assert_eq!(said.why.map(|why| why.len()), Some(WHY_BYTES_MAX));
    }
}
