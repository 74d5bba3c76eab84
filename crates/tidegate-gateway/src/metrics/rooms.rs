//! Metrics of the waiting rooms. Their labels are the room and what is known beforehand: nothing that a visitor sends is in
//! them.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use tidegate_core::room::{Phase, Tier};

use super::exposition::{Source, counter, gauge};
use crate::room::Why;
use crate::room::hall::{Asked, BAD, Outcome, bad};
use crate::status::room::{BRAKES, Document, LINES, Seen, line_name};

/// A count of a room: its name without `_total`, what it counts, and where it is.
type CountOf = (&'static str, &'static str, fn(&Seen<'_>) -> u64);
/// The same of a measure.
type MeasureOf = (&'static str, &'static str, fn(&Seen<'_>) -> f64);

/// The tiers as labels.
const TIERS: [&str; Tier::COUNT] = ["1", "2", "3"];

/// What a token can be wrong by, in the order of [`bad`].
const WHYS: [Why; BAD] = [
    Why::Malformed,
    Why::Key,
    Why::Signature,
    Why::Foreign,
    Why::Epoch,
    Why::Early,
    Why::Expired,
    Why::Revoked,
    Why::Bond,
    Why::Unverified { wait_us: 0 },
];

/// Counts that have no label but the room.
const COUNTS: [CountOf; 11] = [
    (
        "tidegate_room_places",
        "Places in the line that were given; they count once their owner came back",
        |seen| seen.counts.joined.value(),
    ),
    (
        "tidegate_room_own_requests_too_often",
        "Requests for the room's own paths that came too early or too often",
        |seen| seen.counts.too_often.value(),
    ),
    (
        "tidegate_room_claims_held",
        "People whose turn it was and who had to wait for a moment at the door",
        |seen| seen.counts.at_the_door.value(),
    ),
    (
        "tidegate_room_claims_late",
        "People who came after their turn was over",
        |seen| seen.counts.late.value(),
    ),
    (
        "tidegate_room_store_unanswered",
        "Calls to where the line is kept that had no answer",
        |seen| seen.counts.unanswered.value(),
    ),
    (
        "tidegate_room_called",
        "People who were called while this gateway led",
        |seen| seen.counts.called.value(),
    ),
    (
        "tidegate_room_slept",
        "People who were silent for too long while this gateway led",
        |seen| seen.counts.slept.value(),
    ),
    (
        "tidegate_room_returned",
        "Turns that nobody came for while this gateway led",
        |seen| seen.counts.returned.value(),
    ),
    (
        "tidegate_room_deposed",
        "Times that this gateway would have moved the line and somebody else led by then",
        |seen| seen.counts.deposed.value(),
    ),
    (
        "tidegate_room_audit_lines",
        "Lines written to the audit log",
        |seen| seen.herald.written,
    ),
    (
        "tidegate_room_events_lost",
        "Events that found no room to be written down or sent, or could not be written",
        |seen| seen.herald.lost,
    ),
];

/// Measures that have no label but the room.
const MEASURES: [MeasureOf; 19] = [
    (
        "tidegate_room_phase_ordered",
        "Whether an operator has ordered the phase, and not the configuration",
        |seen| flag(seen.view.is_ordered),
    ),
    (
        "tidegate_room_open",
        "Whether everybody passes, because where the line is kept has been away for so long",
        |seen| flag(seen.view.is_open),
    ),
    (
        "tidegate_room_ready",
        "People who were called and have not come yet",
        |seen| seen.view.ready as f64,
    ),
    (
        "tidegate_room_active",
        "Visitors who are inside, at all gateways",
        |seen| seen.view.active as f64,
    ),
    (
        "tidegate_room_rate_per_second",
        "Visitors who may come in, at all gateways",
        |seen| seen.view.rate,
    ),
    (
        "tidegate_room_visitor_requests_per_second",
        "What a visitor brings",
        |seen| seen.view.load_each,
    ),
    (
        "tidegate_room_no_shows_ratio",
        "Part of those called who do not come",
        |seen| seen.view.no_shows,
    ),
    (
        "tidegate_room_gateways",
        "Gateways that take part",
        |seen| f64::from(seen.view.gateways),
    ),
    (
        "tidegate_room_fence",
        "By which right the line is moved: higher with each leader",
        |seen| seen.view.fence as f64,
    ),
    (
        "tidegate_room_paused_seconds",
        "For how long nobody has been called; 0 while people are",
        |seen| seen.paused_ms() as f64 / 1e3,
    ),
    (
        "tidegate_room_estimate_error_ratio",
        "How far off the waits were that were told, as a part of them; NaN while none has ended",
        |seen| seen.view.estimate_error.unwrap_or(f64::NAN),
    ),
    (
        "tidegate_room_estimate_within_ratio",
        "Part of the waits that ended within the band that was told; NaN while none has ended",
        |seen| seen.view.estimate_within.unwrap_or(f64::NAN),
    ),
    (
        "tidegate_room_overshoot_ratio",
        "How many more came in during the last minute than was planned, as a part of the plan",
        |seen| seen.view.overshoot,
    ),
    (
        "tidegate_room_view_age_seconds",
        "How old what this gateway knows of the room is",
        |seen| seen.now.since(seen.view.at).as_secs_f64(),
    ),
    (
        "tidegate_room_poll_floor_seconds",
        "No page asks sooner than that",
        |seen| seen.view.policy.floor.as_secs_f64(),
    ),
    (
        "tidegate_room_poll_stretch_seconds",
        "No page asks sooner than that whose wait is long enough for it",
        |seen| seen.view.policy.stretch.as_secs_f64(),
    ),
    (
        "tidegate_room_beat_seconds",
        "A page gives a sign of life so often",
        |seen| seen.view.policy.beat.as_secs_f64(),
    ),
    (
        "tidegate_room_grace_seconds",
        "Who is silent for longer is taken to have gone",
        |seen| seen.view.policy.grace.as_secs_f64(),
    ),
    (
        "tidegate_room_newcomer_ahead",
        "How many are ahead of somebody who comes now, in the last tier",
        |seen| seen.ahead() as f64,
    ),
];

impl Source {
    /// Every metric of the waiting rooms; none where there are none.
    pub(super) fn rooms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(shared) = self.shared().filter(|shared| !shared.halls.is_empty()) else {
            return Ok(());
        };
        let now = shared.clock.now();
        let views: Vec<_> = shared.halls.iter().map(|hall| hall.view()).collect();
        let rooms: Vec<_> = (shared.halls.iter().zip(&views))
            .map(|(hall, view)| Seen::of(hall, view, now))
            .collect();
        write(encoder, &rooms)
    }
}

fn write(encoder: &mut DescriptorEncoder<'_>, rooms: &[Seen<'_>]) -> fmt::Result {
    requests(encoder, rooms)?;
    tokens(encoder, rooms)?;
    for (name, help, of) in COUNTS {
        let mut rows = counter(encoder, name, help)?;
        for seen in rooms {
            rows.count(&[("room", seen.name)], of(seen))?;
        }
    }
    let help = "Webhooks, by whether they were taken";
    let mut rows = counter(encoder, "tidegate_room_webhooks", help)?;
    for seen in rooms {
        let labels = |outcome| [("room", seen.name), ("outcome", outcome)];
        rows.count(&labels("sent"), seen.herald.sent)?;
        rows.count(&labels("failed"), seen.herald.failed)?;
    }
    states(encoder, rooms)?;
    for (name, help, of) in MEASURES {
        let mut rows = gauge(encoder, name, help)?;
        for seen in rooms {
            rows.gauge(&[("room", seen.name)], of(seen))?;
        }
    }
    told(encoder, rooms)
}

fn requests(encoder: &mut DescriptorEncoder<'_>, rooms: &[Seen<'_>]) -> fmt::Result {
    let help = "Requests for routes behind a waiting room, by what became of them";
    let mut rows = counter(encoder, "tidegate_room_requests", help)?;
    for seen in rooms {
        for outcome in Outcome::ALL {
            let labels = [("room", seen.name), ("outcome", outcome.label())];
            rows.count(&labels, seen.counts.outcomes[outcome as usize].value())?;
        }
    }
    let help = "Of these, those that wait, by tier";
    let mut rows = counter(encoder, "tidegate_room_waits", help)?;
    for seen in rooms {
        for (tier, count) in TIERS.into_iter().zip(&seen.counts.waits) {
            rows.count(&[("room", seen.name), ("tier", tier)], count.value())?;
        }
    }
    let help = "Requests for the room's own paths, by what was asked for";
    let mut rows = counter(encoder, "tidegate_room_own_requests", help)?;
    for seen in rooms {
        for asked in Asked::ALL {
            let labels = [("room", seen.name), ("asked", asked.label())];
            rows.count(&labels, seen.counts.asked[asked as usize].value())?;
        }
    }
    Ok(())
}

fn tokens(encoder: &mut DescriptorEncoder<'_>, rooms: &[Seen<'_>]) -> fmt::Result {
    let help = "Passes that were given, for the first time or once more for longer";
    let mut rows = counter(encoder, "tidegate_room_passes", help)?;
    for seen in rooms {
        let labels = |how| [("room", seen.name), ("how", how)];
        rows.count(&labels("given"), seen.counts.passes.value())?;
        rows.count(&labels("renewed"), seen.counts.renewed.value())?;
    }
    let help = "Tokens that were shown and are no good, by what is wrong with them";
    let mut rows = counter(encoder, "tidegate_room_bad_tokens", help)?;
    for seen in rooms {
        let kinds = [
            ("ticket", &seen.counts.bad_tickets),
            ("pass", &seen.counts.bad_passes),
        ];
        for (token, counts) in kinds {
            for (at, reason) in WHYS.into_iter().filter_map(bad) {
                let labels = [("room", seen.name), ("token", token), ("reason", reason)];
                rows.count(&labels, counts[at].value())?;
            }
        }
    }
    Ok(())
}

/// What one of several things is so: 1 for that one, 0 for the others.
fn states(encoder: &mut DescriptorEncoder<'_>, rooms: &[Seen<'_>]) -> fmt::Result {
    let help = "What the room does: 1 for that phase";
    let mut rows = gauge(encoder, "tidegate_room_phase", help)?;
    for seen in rooms {
        for phase in Phase::ALL {
            let labels = [("room", seen.name), ("phase", phase.name())];
            rows.gauge(&labels, flag(phase == seen.view.phase))?;
        }
    }
    let help = "Where the line is kept: 1 for that";
    let mut rows = gauge(encoder, "tidegate_room_line", help)?;
    for seen in rooms {
        for state in LINES {
            let labels = [("room", seen.name), ("state", state)];
            rows.gauge(&labels, flag(state == line_name(seen.view.line)))?;
        }
    }
    let help = "What keeps more from being let in: 1 for that";
    let mut rows = gauge(encoder, "tidegate_room_brake", help)?;
    for seen in rooms {
        for (brake, name) in BRAKES {
            let labels = [("room", seen.name), ("brake", name)];
            rows.gauge(&labels, flag(brake == seen.view.brake))?;
        }
    }
    let help = "People who wait, by tier";
    let mut rows = gauge(encoder, "tidegate_room_waiting", help)?;
    for seen in rooms {
        for (tier, marks) in TIERS.into_iter().zip(&seen.view.positions.tiers) {
            rows.gauge(&[("room", seen.name), ("tier", tier)], marks.waiting)?;
        }
    }
    Ok(())
}

/// What is told to people, where it is.
fn told(encoder: &mut DescriptorEncoder<'_>, rooms: &[Seen<'_>]) -> fmt::Result {
    let documents: Vec<_> = rooms.iter().map(|seen| Document::of(seen.view)).collect();
    let told = || rooms.iter().zip(&documents);
    let help = "People who are called, of late, as the page says it";
    let mut rows = gauge(encoder, "tidegate_room_called_per_second", help)?;
    for (seen, document) in told() {
        if let Some(per_minute) = document.called_per_min {
            rows.gauge(&[("room", seen.name)], per_minute / 60.0)?;
        }
    }
    let help = "How long somebody is told to wait who comes now, in the last tier";
    let mut rows = gauge(encoder, "tidegate_room_newcomer_wait_seconds", help)?;
    for (seen, document) in told() {
        if let Some([_, likely, _]) = document.wait_s(seen.ahead()) {
            rows.gauge(&[("room", seen.name)], likely)?;
        }
    }
    let help = "How many can still be had of what people wait for";
    let mut rows = gauge(encoder, "tidegate_room_stock", help)?;
    for seen in rooms {
        if let Some(stock) = seen.view.stock {
            rows.gauge(&[("room", seen.name)], stock)?;
        }
    }
    Ok(())
}

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

#[cfg(test)]
mod tests {
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::prometheus_text::encode;
    use prometheus_client::registry::Registry;
    use tidegate_core::time::Mono;

    use super::*;
    use crate::room::hall::{Line, RoomCounts, View};
    use crate::room::herald::HeraldCounts;
    use crate::status::room::tests::view;

    struct Room {
        view: View,
        counts: RoomCounts,
    }

    impl fmt::Debug for Room {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Room")
        }
    }

    impl Collector for Room {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let herald = HeraldCounts {
                failed: 2,
                ..HeraldCounts::default()
            };
            let seen = Seen {
                name: "shop",
                configured: Phase::Auto,
                view: &self.view,
                counts: &self.counts,
                herald,
                set: None,
                now: Mono::from_millis(5_500),
            };
            write(&mut encoder, &[seen])
        }
    }

    fn page(view: View, counts: RoomCounts) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Room { view, counts }));
        let mut page = String::new();
        encode(&mut page, &registry).unwrap();
        page
    }

    fn has(page: &str, row: &str) -> bool {
        page.lines().any(|line| line == row)
    }

    #[test]
    fn what_is_counted_and_what_is_seen_is_shown() {
        let counts = RoomCounts::default();
        counts.count(Outcome::Waits);
        counts.waits[2].add(1);
        counts.asked(Asked::Me);
        counts.called.add(40);
        let (at, _) = bad(Why::Signature).unwrap();
        counts.bad_passes[at].add(3);

        let page = page(view(), counts);

        for row in [
            "tidegate_room_requests_total{room=\"shop\",outcome=\"waits\"} 1",
            "tidegate_room_requests_total{room=\"shop\",outcome=\"passed\"} 0",
            "tidegate_room_waits_total{room=\"shop\",tier=\"3\"} 1",
            "tidegate_room_own_requests_total{room=\"shop\",asked=\"me\"} 1",
            "tidegate_room_called_total{room=\"shop\"} 40",
            "tidegate_room_bad_tokens_total{room=\"shop\",token=\"pass\",reason=\"signature\"} 3",
            "tidegate_room_bad_tokens_total{room=\"shop\",token=\"ticket\",reason=\"signature\"} 0",
            "tidegate_room_webhooks_total{room=\"shop\",outcome=\"failed\"} 2",
            "tidegate_room_phase{room=\"shop\",phase=\"queue-all\"} 1.0",
            "tidegate_room_phase{room=\"shop\",phase=\"auto\"} 0.0",
            "tidegate_room_line{room=\"shop\",state=\"stored\"} 1.0",
            "tidegate_room_brake{room=\"shop\",brake=\"spare\"} 1.0",
            "tidegate_room_waiting{room=\"shop\",tier=\"1\"} 120",
            "tidegate_room_rate_per_second{room=\"shop\"} 4.0",
            "tidegate_room_view_age_seconds{room=\"shop\"} 0.5",
            "tidegate_room_paused_seconds{room=\"shop\"} 0.0",
            "tidegate_room_called_per_second{room=\"shop\"} 4.0",
            "tidegate_room_stock{room=\"shop\"} 2500",
            "tidegate_room_estimate_error_ratio{room=\"shop\"} 0.07",
        ] {
            assert!(has(&page, row), "{row}\n{page}");
        }
        let kinds: Vec<_> = (page.lines())
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .collect();
        assert!(kinds.len() > 40, "{}", kinds.len());
        for kind in kinds {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(name.starts_with("tidegate_room_"), "{name}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_a_number_or_is_absent() {
        let page = page(
            View {
                stock: None,
                estimate_error: None,
                document: bytes::Bytes::new(),
                line: Line::Unknown,
                paused_since_ms: Some(1_790_003_600_000 - 29_500),
                ..view()
            },
            RoomCounts::default(),
        );

        let error = "tidegate_room_estimate_error_ratio{room=\"shop\"} NaN";
        assert!(has(&page, error), "{page}");
        assert!(!page.contains("tidegate_room_stock{"), "{page}");
        assert!(!page.contains("tidegate_room_newcomer_wait_seconds{"));
        let unknown = "tidegate_room_line{room=\"shop\",state=\"unknown\"} 1.0";
        assert!(has(&page, unknown), "{page}");
        let paused = "tidegate_room_paused_seconds{room=\"shop\"} 30.0";
        assert!(has(&page, paused), "{page}");
    }

    #[test]
    fn bad_tokens_are_shown_in_the_order_in_which_they_are_counted() {
        for (index, why) in WHYS.into_iter().enumerate() {
            let (at, label) = bad(why).unwrap();
            assert_eq!((at, label), (index, why.name()));
        }
    }
}
