//! A waiting room as `/status.json` and `/rooms` show it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::room::{Brake, Phase, Tier};
use tidegate_core::time::Mono;

use crate::room::hall::{Hall, Line, Outcome, RoomCounts, View};
use crate::room::herald::{HeraldCounts, PhaseSet};

/// What keeps more from being let in, with its label.
pub(crate) const BRAKES: [(Brake, &str); 5] = [
    (Brake::Spare, "spare"),
    (Brake::RateMax, "rate_max"),
    (Brake::ActiveMax, "active_max"),
    (Brake::Unheard, "unheard"),
    (Brake::Lost, "lost"),
];

/// Where the line is kept, by its label.
pub(crate) const LINES: [&str; 4] = ["unknown", "stored", "restoring", "away"];

/// One waiting room, as this gateway sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoomStatus {
    /// Its name.
    pub name: String,
    /// The store's clock, in milliseconds since 1970.
    pub now_ms: u64,
    /// How old what this gateway knows is, in milliseconds.
    pub age_ms: u64,
    /// What the room does: `off`, `auto`, `queue-all`, `hold`, `prequeue`, `drain` or `closed`.
    pub phase: String,
    /// What it does where nobody orders anything else.
    pub configured: String,
    /// Who has ordered the phase; `null` where it is what is configured.
    pub ordered: Option<OrderStatus>,
    /// Which line this is; `null` while nobody knows.
    pub epoch: Option<u64>,
    /// Where the line is kept: `stored`, `restoring` (people come back to the places that the store had lost), `away` (the
    /// store does not answer), or `unknown`, before it has.
    pub line: String,
    /// For how long yet it is restored, or for how long the store has been away, in milliseconds.
    pub line_ms: Option<u64>,
    /// Everybody passes, because the store has been away for as long as is configured.
    pub open: bool,
    /// How many wait.
    pub waiting: u64,
    /// The same by tier: 1, 2, 3.
    pub tiers: [u64; Tier::COUNT],
    /// How many were called and have not come yet.
    pub ready: u64,
    /// How many are inside, at all gateways.
    pub active: u64,
    /// How many are called in a minute, of late; `null` while nobody knows.
    pub called_per_minute: Option<f64>,
    /// How many may come in, in visitors per second, at all gateways.
    pub rate_per_second: f64,
    /// What keeps it from being more: `spare`, `rate_max`, `active_max`, `unheard` or `lost`.
    pub brake: String,
    /// What a visitor brings, in requests per second.
    pub visitor_rps: f64,
    /// What part of those called does not come.
    pub no_shows: f64,
    /// Since when nobody is called, in milliseconds since 1970; `null` where people are.
    pub paused_since_ms: Option<u64>,
    /// What somebody is told who comes now.
    pub newcomer: NewcomerStatus,
    /// How far off the waits were that were told, as a part of them; `null` while none has ended.
    pub estimate_error: Option<f64>,
    /// What part of them ended within their band.
    pub estimate_within: Option<f64>,
    /// How many more came in during the last minute than was planned, as a part of the plan.
    pub overshoot: f64,
    /// Gateways that take part.
    pub gateways: u32,
    /// Who moves the line, as far as is known.
    pub leader: Option<String>,
    /// By which right.
    pub fence: u64,
    /// Why a wait has become longer, or why it is over.
    pub reason: Option<String>,
    /// How many can still be had of what people wait for.
    pub stock: Option<u64>,
    /// What the operator says to those who wait, by language.
    pub message: Option<BTreeMap<String, String>>,
    /// How often pages ask.
    pub polls: PollStatus,
    /// Requests to this gateway since its start, by what became of them.
    pub requests: BTreeMap<String, u64>,
    /// The same of the last minute, or since the start where that is later; only where `/rooms` is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_minute: Option<BTreeMap<String, u64>>,
    /// What was written down and sent of what happened here.
    pub told: ToldStatus,
}

/// Who has ordered the phase of a room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderStatus {
    /// Who; `null` where it was ordered at another gateway, or by the application.
    pub by: Option<String>,
    /// Why, in their words.
    pub why: Option<String>,
    /// When, in milliseconds since 1970.
    pub at_ms: Option<u64>,
}

/// What somebody is told who comes now, in the last tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewcomerStatus {
    /// How many are ahead.
    pub ahead: u64,
    /// How long it takes in seconds: at least, likely, at most; `null` where that cannot be told.
    pub wait_s: Option<[u64; 3]>,
}

/// How often pages ask, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PollStatus {
    /// Nobody sooner.
    pub floor_s: f64,
    /// Nobody sooner whose wait is long enough for it.
    pub stretch_s: f64,
    /// A sign of life is due so often.
    pub beat_s: f64,
    /// Who is silent for longer is taken to have gone.
    pub grace_s: f64,
}

/// What was written down and sent of what happened, since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldStatus {
    /// Lines of the audit log.
    pub written: u64,
    /// Events that were neither written down nor sent as they should have been, for want of room or of a disk.
    pub lost: u64,
    /// Webhooks that were taken.
    pub sent: u64,
    /// Webhooks that were not, after all tries.
    pub failed: u64,
}

/// What the room's document says, as far as the view does not.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Document {
    /// How many are called in a minute.
    pub(crate) called_per_min: Option<f64>,
    /// Rows of people ahead, then seconds at least, likely, at most.
    eta: Vec<[u64; 4]>,
    message: Option<BTreeMap<String, String>>,
}

/// What there is to be seen of a room.
pub(crate) struct Seen<'a> {
    pub(crate) name: &'a str,
    pub(crate) configured: Phase,
    pub(crate) view: &'a View,
    pub(crate) counts: &'a RoomCounts,
    pub(crate) herald: HeraldCounts,
    pub(crate) set: Option<PhaseSet>,
    pub(crate) now: Mono,
}

impl<'a> Seen<'a> {
    /// What there is of `hall`, whose view that is.
    pub(crate) fn of(hall: &'a Hall, view: &'a View, now: Mono) -> Self {
        Self {
            name: hall.plan.tokens.room.as_str(),
            configured: hall.plan.phase,
            view,
            counts: &hall.counts,
            herald: hall.herald.counts(),
            set: hall.herald.phase_set(),
            now,
        }
    }

    /// The store's clock, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.view.wall(self.now).as_micros() / 1_000
    }

    /// How many are ahead of somebody who comes now, in the last tier.
    pub(crate) fn ahead(&self) -> u64 {
        let view = self.view;
        let place = view.epoch.map(|epoch| epoch.place(view.wall(self.now)));
        place.map_or(0, |place| view.positions.ahead(Tier::Anonymous, place))
    }

    /// For how long nobody has been called, in milliseconds.
    pub(crate) fn paused_ms(&self) -> u64 {
        let since = self.view.paused_since_ms;
        since.map_or(0, |since| self.now_ms().saturating_sub(since))
    }
}

impl Document {
    /// What `view` has. One that nobody has written yet says nothing.
    pub(crate) fn of(view: &View) -> Self {
        serde_json::from_slice(&view.document).unwrap_or_default()
    }

    /// How long those wait who have so many ahead: straight from one row to the next, and beyond the last in proportion.
    pub(crate) fn wait_s(&self, ahead: u64) -> Option<[u64; 3]> {
        let behind = self.eta.partition_point(|row| row[0] <= ahead);
        let before = self.eta.get(behind.checked_sub(1)?)?;
        let told = [before[1], before[2], before[3]];
        match self.eta.get(behind) {
            Some(next) => {
                let part = (ahead - before[0]) as f64 / (next[0] - before[0]) as f64;
                let to = [next[1], next[2], next[3]];
                let between =
                    |at: usize| told[at] as f64 + (to[at] as f64 - told[at] as f64) * part;
                Some([0, 1, 2].map(|at| between(at).round() as u64))
            }
            None if before[0] == 0 => Some(told),
            None => {
                let more = ahead as f64 / before[0] as f64;
                Some(told.map(|seconds| (seconds as f64 * more).round() as u64))
            }
        }
    }
}

/// The label of `line`, one of [`LINES`].
pub(crate) const fn line_name(line: Line) -> &'static str {
    match line {
        Line::Unknown => LINES[0],
        Line::Stored => LINES[1],
        Line::Restoring { .. } => LINES[2],
        Line::Away { .. } => LINES[3],
    }
}

/// The label of `brake`.
pub(crate) fn brake_name(brake: Brake) -> &'static str {
    let found = BRAKES.iter().find(|(it, _)| *it == brake);
    found.map_or("", |(_, name)| name)
}

/// What became of requests, by label.
pub(crate) fn requests(counts: &RoomCounts) -> BTreeMap<String, u64> {
    let counted = Outcome::ALL.into_iter().map(|outcome| {
        let count = counts.outcomes[outcome as usize].value();
        (outcome.label().to_owned(), count)
    });
    counted.collect()
}

impl RoomStatus {
    /// All rooms.
    pub(crate) fn all(halls: &[Arc<Hall>], now: Mono) -> Vec<Self> {
        halls.iter().map(|hall| Self::of(hall, now)).collect()
    }

    /// One of them.
    pub(crate) fn of(hall: &Hall, now: Mono) -> Self {
        Self::seen(&Seen::of(hall, &hall.view(), now))
    }

    fn seen(seen: &Seen<'_>) -> Self {
        let view = seen.view;
        let document = Document::of(view);
        let ahead = seen.ahead();
        let moves = view.paused_since_ms.is_none() && view.phase.releases();
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let HeraldCounts {
            written,
            lost,
            sent,
            failed,
        } = seen.herald;
        Self {
            name: seen.name.to_owned(),
            now_ms: seen.now_ms(),
            age_ms: millis(seen.now.since(view.at)),
            phase: view.phase.name().to_owned(),
            configured: seen.configured.name().to_owned(),
            ordered: view.is_ordered.then(|| OrderStatus::of(seen)),
            epoch: view.epoch.map(|epoch| epoch.0),
            line: line_name(view.line).to_owned(),
            line_ms: match view.line {
                Line::Unknown | Line::Stored => None,
                Line::Restoring { left_ms } => Some(left_ms),
                Line::Away { since } => Some(millis(seen.now.since(since))),
            },
            open: view.is_open,
            waiting: view.positions.waiting(),
            tiers: view.positions.tiers.each_ref().map(|marks| marks.waiting),
            ready: view.ready,
            active: view.active,
            called_per_minute: document.called_per_min,
            rate_per_second: view.rate,
            brake: brake_name(view.brake).to_owned(),
            visitor_rps: view.load_each,
            no_shows: view.no_shows,
            paused_since_ms: view.paused_since_ms,
            newcomer: NewcomerStatus {
                ahead,
                wait_s: document.wait_s(ahead).filter(|_| moves),
            },
            estimate_error: view.estimate_error,
            estimate_within: view.estimate_within,
            overshoot: view.overshoot,
            gateways: view.gateways,
            leader: view.leader.as_deref().map(str::to_owned),
            fence: view.fence,
            reason: view.reason.and_then(|reason| {
                let reason = serde_json::to_value(reason).ok()?;
                Some(reason.as_str()?.to_owned())
            }),
            stock: view.stock,
            message: document.message,
            polls: PollStatus {
                floor_s: view.policy.floor.as_secs_f64(),
                stretch_s: view.policy.stretch.as_secs_f64(),
                beat_s: view.policy.beat.as_secs_f64(),
                grace_s: view.policy.grace.as_secs_f64(),
            },
            requests: requests(seen.counts),
            last_minute: None,
            told: ToldStatus {
                written,
                lost,
                sent,
                failed,
            },
        }
    }
}

impl OrderStatus {
    fn of(seen: &Seen<'_>) -> Self {
        // What was ordered elsewhere is not known here, and what was ordered here may be over.
        let set = seen.set.as_ref();
        match set.filter(|set| set.to == seen.view.phase) {
            Some(set) => Self {
                by: Some(set.by.clone()),
                why: set.why.clone(),
                at_ms: Some(set.at_ms),
            },
            None => Self {
                by: None,
                why: None,
                at_ms: None,
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use bytes::Bytes;
    use tidegate_core::room::{Epoch, Marks, Order, Place, Policy, Positions};
    use tidegate_core::time::Wall;
    use tidegate_page::document::Reason;

    use super::*;

    const EPOCH_MS: u64 = 1_790_000_000_000;

    /// A room in which 120, 0 and 2,000 wait, an hour after its epoch has begun.
    pub(crate) fn view() -> View {
        let marks = |waiting, step| Marks {
            waiting,
            step,
            places: (0..waiting / step).map(Place).collect(),
        };
        let document = r#"{"called_per_min":240.0,"eta":[[0,0,0,0],[1000,200,250,300],[2000,400,500,600]],
            "message":{"en":"Hello"}}"#;
        View {
            at: Mono::from_millis(5_000),
            store_now: Wall::from_micros((EPOCH_MS + 3_600_000) * 1_000),
            epoch: Some(Epoch(EPOCH_MS)),
            phase: Phase::QueueAll,
            is_ordered: true,
            line: Line::Stored,
            is_open: false,
            positions: Arc::new(Positions {
                order: Order::Strict,
                tiers: [marks(120, 50), Marks::default(), marks(2_000, 50)],
            }),
            ready: 12,
            active: 900,
            policy: Policy {
                stretch: Duration::from_secs(10),
                floor: Duration::from_secs(2),
                beat: Duration::from_secs(45),
                grace: Duration::from_secs(160),
            },
            rate: 4.0,
            brake: Brake::Spare,
            load_each: 1.5,
            no_shows: 0.1,
            gateways: 3,
            leader: Some("shop-1".into()),
            fence: 17,
            paused_since_ms: None,
            reason: Some(Reason::Slower),
            stock: Some(2_500),
            estimate_error: Some(0.07),
            estimate_within: None,
            overshoot: 0.02,
            document: Bytes::from(document),
        }
    }

    fn status(view: &View, set: Option<PhaseSet>) -> RoomStatus {
        RoomStatus::seen(&Seen {
            name: "shop",
            configured: Phase::Auto,
            view,
            counts: &RoomCounts::default(),
            herald: HeraldCounts::default(),
            set,
            now: Mono::from_millis(5_400),
        })
    }

    fn set(to: Phase) -> Option<PhaseSet> {
        Some(PhaseSet {
            to,
            by: "kim".to_owned(),
            why: None,
            at_ms: EPOCH_MS,
        })
    }

    #[test]
    fn a_room_says_how_it_is_and_what_a_newcomer_is_told() {
        let status = status(&view(), set(Phase::QueueAll));

        assert_eq!(status.age_ms, 400);
        assert_eq!(status.now_ms, EPOCH_MS + 3_600_400);
        assert_eq!((status.waiting, status.tiers), (2_120, [120, 0, 2_000]));
        assert_eq!(status.called_per_minute, Some(240.0));
        let ahead = status.newcomer.ahead;
        assert!(ahead.abs_diff(2_120) <= 100, "{ahead}");
        let likely = (ahead as f64 / 4.0).round() as u64;
        assert_eq!(status.newcomer.wait_s.map(|wait| wait[1]), Some(likely));
        assert_eq!(status.reason.as_deref(), Some("slower"));
        assert_eq!(status.message.unwrap()["en"], "Hello");
        assert_eq!((status.line.as_str(), status.line_ms), ("stored", None));
        assert_eq!(status.requests["waits"], 0);
    }

    #[test]
    fn no_wait_is_told_where_the_line_stands() {
        let held = View {
            phase: Phase::Hold,
            ..view()
        };
        let paused = View {
            paused_since_ms: Some(EPOCH_MS),
            ..view()
        };
        let unwritten = View {
            document: Bytes::new(),
            ..view()
        };

        for view in [held, paused, unwritten] {
            assert_eq!(status(&view, None).newcomer.wait_s, None);
        }
    }

    #[test]
    fn who_has_ordered_the_phase_is_said_only_of_the_phase_that_holds() {
        let by = |set| status(&view(), set).ordered.unwrap().by;

        assert_eq!(by(set(Phase::QueueAll)).as_deref(), Some("kim"));
        assert_eq!(by(set(Phase::Hold)), None);
        assert_eq!(by(None), None);
        let configured = View {
            is_ordered: false,
            ..view()
        };
        assert_eq!(status(&configured, set(Phase::QueueAll)).ordered, None);
    }

    #[test]
    fn how_long_the_store_has_been_away_is_told() {
        let away = View {
            line: Line::Away {
                since: Mono::from_millis(2_400),
            },
            ..view()
        };

        let status = status(&away, None);

        assert_eq!(
            (status.line.as_str(), status.line_ms),
            ("away", Some(3_000))
        );
    }

    #[test]
    fn a_wait_is_read_between_the_rows_and_beyond_the_last() {
        let document = Document::of(&view());

        assert_eq!(document.wait_s(0), Some([0, 0, 0]));
        assert_eq!(document.wait_s(500), Some([100, 125, 150]));
        assert_eq!(document.wait_s(2_000), Some([400, 500, 600]));
        assert_eq!(document.wait_s(4_000), Some([800, 1_000, 1_200]));
        assert_eq!(Document::default().wait_s(5), None);
        let alone = Document {
            eta: vec![[0, 1, 2, 3]],
            ..Document::default()
        };
        assert_eq!(alone.wait_s(7), Some([1, 2, 3]));
    }

    #[test]
    fn every_brake_has_a_label() {
        assert_eq!(brake_name(Brake::Spare), "spare");
        assert_eq!(brake_name(Brake::Lost), "lost");
        let json = serde_json::to_value(status(&view(), None)).unwrap();
        let back: RoomStatus = serde_json::from_value(json).unwrap();
        assert_eq!(back.brake, "spare");
    }
}
