//! Who goes before whom, how fast the line moves, and how often it is asked.

use std::time::Duration;

use tidegate_core::rate::{Algorithm, Rate, Spec};
use tidegate_core::room::{Bounds, Budget, Order, Rules};
use tidegate_gateway::room::{KEPT, OnRoomLoss};

use super::super::keys::room::ROOM_CREDIT;
use super::super::problem::Problems;
use super::super::section::Section;

/// How long the store is away before a room opens that is to.
const OPEN_AFTER: Duration = Duration::from_secs(30);

/// Who goes before whom.
pub(super) fn order(section: &Section<'_>, problems: &Problems) -> Order {
    let title = "credit of [[room]]";
    if section.choice("order") != Some("credit") {
        if section.has("credit") && section.sound(&["order"]) {
            section.refuse(
                "credit",
                "`credit` has no effect: a tier goes before all that are behind it",
                "add order = \"credit\", or remove credit",
            );
        }
        return Order::Strict;
    }
    let table = match section.node("credit") {
        Some(node) => Section::new(title, node, ROOM_CREDIT, &[], problems),
        None => Section::absent(title, ROOM_CREDIT, problems),
    };
    let [returning, signed_in] = ["returning", "signed-in"].map(|key| table.span(key));
    if returning < signed_in && table.sound(&["returning", "signed-in"]) {
        let key = ["signed-in", "returning"]
            .into_iter()
            .find(|key| table.has(key));
        table.refuse(
            key.unwrap_or("returning"),
            format!(
                "`signed-in` is {}, more than `returning`, {}: tier 2 would go before tier 1",
                humantime::format_duration(signed_in),
                humantime::format_duration(returning)
            ),
            "write signed-in ≤ returning",
        );
    }
    Order::Credit([millis(returning), millis(signed_in), 0])
}

/// Between what the rate moves.
pub(super) fn bounds(section: &Section<'_>) -> Bounds {
    let [most, least] = ["rate_max", "rate_min"].map(|key| rate(section, key));
    if most.is_some_and(|most| most.tokens == 0) {
        section.refuse(
            "rate_max",
            "nobody would ever be let in",
            "write a rate above zero; phase = \"hold\" lets nobody in for as long as it is set",
        );
    }
    let [rate_max, rate_min] = [most, least].map(|rate| rate.map_or(0.0, per_second));
    if rate_min > rate_max && section.sound(&["rate_max", "rate_min"]) {
        let key = match section.has("rate_min") {
            true => "rate_min",
            false => "rate_max",
        };
        section.refuse(
            key,
            format!(
                "`rate_min = \"{}\"` is more than `rate_max = \"{}\"`",
                section.text("rate_min"),
                section.text("rate_max")
            ),
            "write rate_min ≤ rate_max: the one holds while nothing is heard of the fleet, the other always",
        );
    }
    Bounds {
        rate_max,
        rate_min,
        fill: section.span("fill"),
        active_max: section.count_if_set("active_max").map(u64::from),
    }
}

/// What holds for every place.
pub(super) fn rules(section: &Section<'_>) -> Rules {
    Rules {
        waiting_max: section.count("waiting_max").into(),
        misses_max: few(section, "misses_max"),
        settle_ms: millis(section.span("settle")),
        ticket_ms: millis(KEPT),
    }
}

/// How often all pages together may ask.
pub(super) fn asks(section: &Section<'_>) -> Budget {
    let [polls, beats] = ["polls_per_second", "beats_per_second"].map(|key| section.count(key));
    Budget {
        polls: polls.into(),
        beats: beats.into(),
    }
}

/// What happens while the store is away.
pub(super) fn on_store_loss(section: &Section<'_>) -> OnRoomLoss {
    let after = section.span_if_set("open_after");
    let chosen = section.choice("on_store_loss");
    if chosen == Some("open") {
        let after = after.unwrap_or(OPEN_AFTER);
        return OnRoomLoss::Open { after };
    }
    if after.is_some() && section.sound(&["on_store_loss", "open_after"]) {
        section.refuse(
            "open_after",
            "`open_after` has no effect: the room does not open while the store is away",
            "add on_store_loss = \"open\", or remove open_after",
        );
    }
    match chosen {
        Some("hold") => OnRoomLoss::Hold,
        _ => OnRoomLoss::LocalBudget,
    }
}

/// How many places one network may take; `None` for any number.
pub(super) fn joins(section: &Section<'_>) -> Option<Spec> {
    const KEY: &str = "joins_per_network";
    if section.text(KEY) == "none" {
        return None;
    }
    let rate = rate(section, KEY)?;
    if rate.tokens == 0 {
        section.refuse(
            KEY,
            "nobody could take a place",
            "write a rate above zero, or \"none\" for any number of places",
        );
        return None;
    }
    match Spec::new(Algorithm::Bucket, rate, None) {
        Ok(spec) => Some(spec),
        Err(error) => {
            section.refuse(
                KEY,
                format!("so many cannot be counted: {error}"),
                "write a rate in rounder numbers, or over a shorter period",
            );
            None
        }
    }
}

/// A count of which there are few.
pub(super) fn few(section: &Section<'_>, key: &'static str) -> u8 {
    u8::try_from(section.count(key)).unwrap_or(u8::MAX)
}

fn rate(section: &Section<'_>, key: &'static str) -> Option<Rate> {
    let text = section.text(key);
    if !section.sound(&[key]) {
        return None;
    }
    match text.parse::<Rate>() {
        Ok(rate) => Some(rate),
        Err(error) => {
            section.refuse(
                key,
                format!("`{key} = \"{text}\"` is no rate: {error}"),
                "write a number, / and a period, such as \"100/s\", \"10/min\" or \"1/2s\"",
            );
            None
        }
    }
}

fn per_second(rate: Rate) -> f64 {
    rate.tokens as f64 * 1e6 / rate.period_us as f64
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
