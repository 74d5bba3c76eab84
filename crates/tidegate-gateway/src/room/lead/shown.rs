//! What requests and visitors see of a room: the view, and the document in it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::room::{
    Epoch, INTERVAL_MAX, INTERVAL_MIN, JITTER, Longer, MARK_STEP_MIN, Phase, Place, Policy,
    Positions, Tier,
};
use tidegate_core::time::{Mono, Wall};
use tidegate_page::document::{self, Event, Poll, Reason, Room};

use super::learner::Learner;
use super::word::Figures;
use crate::room::hall::{Hall, Line, Notes, RoomPlan, View};

/// A wait is cut into so many parts, and a page asks after each.
const PART: f64 = 20.0;
/// Where pages may ask less often than that, one asks after half of its wait, so that it learns nothing too late.
const PART_LEAST: f64 = 2.0;
/// As long as that is no more than so many seconds, all ask a little later instead.
const FLOOR_MAX: f64 = 5.0;
/// With fewer ahead than are called in this time one's position is looked up each time; with no fewer than a mark stands for,
/// and no more than so many.
const NEAR_S: f64 = 10.0;
const NEAR_MAX: f64 = 1_000.0;

/// What is known when a view is made.
pub(super) struct Shown<'a> {
    pub(super) now: Mono,
    /// The store's clock.
    pub(super) there: Wall,
    pub(super) epoch: Option<Epoch>,
    pub(super) phase: Phase,
    pub(super) is_ordered: bool,
    pub(super) line: Line,
    pub(super) is_open: bool,
    pub(super) positions: Arc<Positions>,
    pub(super) ready: u64,
    pub(super) figures: &'a Figures,
    /// Visitors per second; what was said of late may not hold any more.
    pub(super) rate: f64,
    pub(super) leader: Option<Arc<str>>,
    pub(super) fence: u64,
    pub(super) notes: Arc<Notes>,
}

impl Shown<'_> {
    /// The view, with `document` in it.
    pub(super) fn view(&self, document: Bytes) -> View {
        let figures = self.figures;
        View {
            at: self.now,
            store_now: self.there,
            epoch: self.epoch,
            phase: self.phase,
            is_ordered: self.is_ordered,
            line: self.line,
            is_open: self.is_open,
            positions: Arc::clone(&self.positions),
            ready: self.ready,
            active: figures.active,
            policy: figures.policy,
            rate: self.rate,
            brake: figures.brake,
            load_each: figures.load_each,
            no_shows: figures.no_shows,
            gateways: figures.gateways,
            leader: self.leader.clone(),
            fence: self.fence,
            paused_since_ms: figures.paused_since_ms,
            reason: self.reason(),
            stock: self.notes.stock,
            estimate_error: figures.error.map(|(mean, _)| mean),
            estimate_within: figures.error.map(|(_, inside)| inside),
            overshoot: figures.overshoot,
            document,
        }
    }

    /// The room's document.
    pub(super) fn document(&self, hall: &Hall, learner: &Learner) -> Bytes {
        let plan = &hall.plan;
        let (credit_ms, tiers) = document::tiers(&self.positions);
        let waiting = self.positions.waiting();
        let pace = learner.outlook().pace();
        let stands = self.figures.paused_since_ms.is_some() || !self.phase.releases();
        let event = self.event(plan);
        let since_s = self.notes.revoked.issued_from_s;
        let poll = poll(
            &self.figures.policy,
            learner.outlook().wait(Tier::Anonymous, self.newcomer()),
            self.rate,
        );
        let room = Room {
            v: document::VERSION,
            room: plan.tokens.room.to_string(),
            server_now_ms: self.there.as_micros() / 1_000,
            // Nothing says when it begins, so the page can only say that it is held.
            phase: match (self.phase, &event) {
                (Phase::Prequeue, None) => Phase::Hold,
                (phase, _) => phase,
            },
            epoch: self.epoch.unwrap_or(Epoch(0)),
            credit_ms,
            tiers,
            called_per_min: tenth(60.0 * pace.rate()),
            eta: if stands {
                Vec::new()
            } else {
                document::eta(pace, learner.band(), waiting)
            },
            paused_since_ms: self.figures.paused_since_ms,
            reason: self.reason(),
            message: self.notes.message.clone().or_else(|| plan.message.clone()),
            stock: self.notes.stock,
            event,
            min_iat_ms: (since_s > 0).then(|| u64::from(since_s) * 1_000),
            poll,
        };
        let json = serde_json::to_vec(&room).expect("finite numbers and texts are JSON");
        Bytes::from(json)
    }

    /// Why it is over, or why a wait has become longer.
    fn reason(&self) -> Option<Reason> {
        if self.phase == Phase::Closed {
            return Some(self.notes.reason.unwrap_or(Reason::Ended));
        }
        if matches!(self.line, Line::Restoring { .. } | Line::Away { .. }) {
            return Some(Reason::Restoring);
        }
        self.figures.longer.map(|longer| match longer {
            Longer::Slower => Reason::Slower,
            Longer::Surge => Reason::Surge,
        })
    }

    /// What begins, before it does. The order stays that in which people came.
    fn event(&self, plan: &RoomPlan) -> Option<Event> {
        let event = plan.event.filter(|_| self.phase == Phase::Prequeue)?;
        Some(Event {
            starts_ms: event.starts_ms,
            entrants: self.positions.waiting(),
            draw: false,
            commitment: None,
        })
    }

    /// The place that somebody would get who came now.
    fn newcomer(&self) -> Place {
        self.epoch.unwrap_or(Epoch(0)).place(self.there)
    }
}

/// How often pages ask, as they are told it: never more often than by `policy`, and nobody later than after half of their wait
/// who may ask sooner by it.
fn poll(policy: &Policy, newcomer: Option<Duration>, rate: f64) -> Poll {
    let stretch = policy.stretch.as_secs_f64();
    let most = INTERVAL_MAX.as_secs_f64();
    let floor = policy.floor.as_secs_f64();
    let (part, most_s, floor_s) = if stretch <= FLOOR_MAX {
        (PART, most, floor.max(stretch))
    } else {
        (PART_LEAST, most.max(stretch), floor)
    };
    Poll {
        least_s: INTERVAL_MIN.as_secs_f64(),
        most_s: tenth(most_s),
        part,
        floor_s: tenth(floor_s),
        jitter: tenth(JITTER - 1.0),
        spread_s: tenth(policy.first(newcomer, 1.0).as_secs_f64()),
        beat_s: tenth(policy.beat.as_secs_f64()),
        near: (rate * NEAR_S).clamp(MARK_STEP_MIN as f64, NEAR_MAX) as u64,
    }
}

/// In whole tenths, not below `value`.
fn tenth(value: f64) -> f64 {
    if value.is_finite() {
        (value * 10.0 - 1e-6).ceil().max(0.0) / 10.0 + 0.0
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(stretch_ms: u64, floor_ms: u64) -> Policy {
        Policy {
            stretch: Duration::from_millis(stretch_ms),
            floor: Duration::from_millis(floor_ms),
            beat: Duration::from_millis(45_040),
            grace: Duration::from_secs(160),
        }
    }

    /// As docs/room-page.md has it, without chance.
    fn asks_after(poll: &Poll, wait_s: f64) -> f64 {
        let near = (wait_s / poll.part).clamp(poll.least_s, poll.most_s);
        near.max(poll.floor_s)
    }

    #[test]
    fn no_page_asks_more_often_than_it_may() {
        for policy in [
            (0, 0),
            (2_500, 0),
            (5_001, 0),
            (60_000, 0),
            (400_000, 90_000),
        ]
        .map(|(stretch, floor)| policy(stretch, floor))
        {
            let poll = poll(&policy, None, 10.0);
            for wait_s in [0, 1, 3, 10, 45, 100, 700, 5_000, 90_000] {
                let wait = Duration::from_secs(wait_s);
                let may = policy.next(Some(wait), 0.0).as_secs_f64();

                let asks = asks_after(&poll, wait_s as f64);

                assert!(asks >= may - 1e-9, "{policy:?} {wait_s}: {asks} {may}");
                let late = (wait_s as f64 / 2.0).max(poll.floor_s).max(2.0);
                assert!(asks <= late + 1e-9, "{policy:?} {wait_s}: {asks}");
            }
        }
    }

    #[test]
    fn where_there_is_room_pages_ask_as_often_as_is_meant() {
        let poll = poll(&policy(0, 0), Some(Duration::from_secs(600)), 25.0);

        assert_eq!((poll.least_s, poll.most_s, poll.part), (2.0, 30.0, 20.0));
        assert_eq!((poll.floor_s, poll.jitter), (0.0, 0.3));
        assert_eq!((poll.spread_s, poll.beat_s, poll.near), (60.0, 45.1, 250));
        assert_eq!(super::poll(&policy(0, 0), None, 0.0).near, 50);
        assert_eq!(super::poll(&policy(0, 0), None, 1e9).near, 1_000);
    }

    #[test]
    fn figures_have_one_place_behind_the_point() {
        let values = [0.0, 0.01, 0.3, 0.30000000000000004, 7.25, f64::NAN];

        assert_eq!(values.map(tenth), [0.0, 0.1, 0.3, 0.3, 7.3, 0.0]);
    }
}
