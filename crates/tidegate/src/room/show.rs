//! Waiting rooms for people to read.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use tidegate_lab::text::escaped;

/// What a gateway knows of a room is made anew every second. After so long it says how old it is.
const OLD_MS: u64 = 5_000;
/// The longest second since 1970 that a date is written for: the end of the year 9999.
const DATE_MS_MAX: u64 = 253_402_300_799_000;

/// A room at a glance.
pub(super) fn room(room: &Value) -> String {
    let mut page = String::new();
    let mut line = |heading: &str, said: String| {
        let _ = writeln!(page, "{heading:<12}{said}");
    };
    line(&text(&room["name"]), phase(room));
    if room["open"] == true {
        let said = "EVERYBODY PASSES: the store of the line has been away for too long";
        line("", said.to_owned());
    }
    if let Some(age @ OLD_MS..) = room["age_ms"].as_u64() {
        line(
            "",
            format!("as it was {} ago: nothing was heard of it since", span(age)),
        );
    }
    line("line", waiting(room));
    line("moves", moves(room));
    line("newcomers", newcomers(&room["newcomer"]));
    line("estimates", estimates(room));
    line("inside", inside(room));
    line("overshoot", overshoot(room));
    line("fleet", fleet(room));
    line("store", store(room));
    if let Some(stock) = room["stock"].as_u64() {
        line("stock", format!("{} left", grouped(stock)));
    }
    for (language, said) in room["message"].as_object().into_iter().flatten() {
        line(
            "message",
            format!("{}: {}", escaped(language), in_one_line(said)),
        );
    }
    line("pages", pages(&room["polls"]));
    if let Some(minute) = room["last_minute"].as_object() {
        line("last minute", minute_of(minute));
    }
    line("told", told(&room["told"]));
    page
}

fn phase(room: &Value) -> String {
    let phase = text(&room["phase"]);
    let ordered = &room["ordered"];
    if ordered.is_null() {
        return format!("{phase}, as configured");
    }
    let by = match ordered["by"].as_str() {
        Some(by) => format!("by {}", escaped(by)),
        None => "at another gateway, or by the application".to_owned(),
    };
    let at = ordered["at_ms"].as_u64();
    let at = at.map_or_else(String::new, |at| format!(" at {}", time(at)));
    let why = ordered["why"].as_str();
    let why = why.map_or_else(String::new, |why| format!(" ({})", escaped(why)));
    format!(
        "{phase}, ordered {by}{at}{why}; {} is configured",
        text(&room["configured"])
    )
}

fn waiting(room: &Value) -> String {
    let count = |value: &Value| grouped(value.as_u64().unwrap_or(0));
    let tiers = &room["tiers"];
    let reason = room["reason"].as_str();
    let reason = reason.map_or_else(String::new, |reason| format!("; told: {}", escaped(reason)));
    format!(
        "{} wait: {} in tier 1, {} in tier 2, {} in tier 3; {} were called and have not come yet{reason}",
        count(&room["waiting"]),
        count(&tiers[0]),
        count(&tiers[1]),
        count(&tiers[2]),
        count(&room["ready"]),
    )
}

fn moves(room: &Value) -> String {
    if let Some(since) = room["paused_since_ms"].as_u64() {
        let lasting = room["now_ms"].as_u64().unwrap_or(since);
        let lasting = span(lasting.saturating_sub(since));
        return format!(
            "NOT: nobody has been called since {}, for {lasting}",
            time(since)
        );
    }
    let called = room["called_per_minute"].as_f64();
    let called = called.map_or_else(
        || "nobody knows yet how many are called".to_owned(),
        |called| format!("{called:.0} called a minute"),
    );
    let brake = match room["brake"].as_str().unwrap_or_default() {
        "spare" => "what the fleet has to spare",
        "rate_max" => "rate_max",
        "active_max" => "active_max: so many are inside",
        "unheard" => "silence: nothing is heard of the fleet, so it is half of what it was",
        "lost" => "silence: nothing has been heard of the fleet for long, so it is rate_min",
        _ => "something that this command does not know",
    };
    let rate = room["rate_per_second"].as_f64().unwrap_or(0.0);
    format!("{called}; {rate:.1} a second may come in, bounded by {brake}")
}

fn newcomers(newcomer: &Value) -> String {
    let ahead = grouped(newcomer["ahead"].as_u64().unwrap_or(0));
    let wait = |at: usize| newcomer["wait_s"][at].as_u64();
    match (wait(0), wait(1), wait(2)) {
        (Some(low), Some(likely), Some(high)) => format!(
            "{ahead} ahead; {} to {}, likely {}",
            seconds(low),
            seconds(high),
            seconds(likely)
        ),
        _ => format!("{ahead} ahead; how long it takes cannot be told"),
    }
}

fn estimates(room: &Value) -> String {
    let percent = |value: &Value| value.as_f64().map(|part| part * 100.0);
    match (
        percent(&room["estimate_error"]),
        percent(&room["estimate_within"]),
    ) {
        (Some(error), Some(within)) => {
            format!("off by {error:.0} % on average, {within:.0} % within what was told")
        }
        (Some(error), None) => format!("off by {error:.0} % on average"),
        _ => "no wait has ended yet that was told".to_owned(),
    }
}

fn inside(room: &Value) -> String {
    let part = room["no_shows"].as_f64().unwrap_or(0.0);
    format!(
        "{} visitors with {:.2} requests a second each; {:.0} % of those called do not come",
        grouped(room["active"].as_u64().unwrap_or(0)),
        room["visitor_rps"].as_f64().unwrap_or(0.0),
        part * 100.0
    )
}

fn overshoot(room: &Value) -> String {
    match room["overshoot"].as_f64() {
        Some(part) if part > 0.0 => format!(
            "{:.0} % more came in during the last minute than was planned",
            part * 100.0
        ),
        _ => "none during the last minute".to_owned(),
    }
}

fn fleet(room: &Value) -> String {
    let gateways = match room["gateways"].as_u64().unwrap_or(0) {
        1 => "1 gateway".to_owned(),
        many => format!("{many} gateways"),
    };
    let leader = room["leader"].as_str().map_or_else(
        || "nobody leads".to_owned(),
        |leader| format!("{} leads (fence {})", escaped(leader), room["fence"]),
    );
    format!("{gateways}; {leader}")
}

fn store(room: &Value) -> String {
    let lasting = || room["line_ms"].as_u64().map_or_else(String::new, span);
    match room["line"].as_str().unwrap_or_default() {
        "stored" => "has the line".to_owned(),
        "restoring" => format!(
            "had lost the line: for {} yet people only come back to their places",
            lasting()
        ),
        "away" => format!("AWAY for {}", lasting()),
        _ => "nothing was heard of it yet".to_owned(),
    }
}

fn pages(polls: &Value) -> String {
    let of = |member: &str| polls[member].as_f64().unwrap_or(0.0);
    format!(
        "ask after {:.0} s at the soonest, after {:.0} s from far back; a sign of life every {:.0} s, gone after {:.0} s",
        of("floor_s"),
        of("stretch_s").max(of("floor_s")),
        of("beat_s"),
        of("grace_s")
    )
}

fn minute_of(minute: &serde_json::Map<String, Value>) -> String {
    let some = minute.iter().filter_map(|(outcome, count)| {
        let count = count.as_u64().filter(|count| *count > 0)?;
        Some(format!("{} {}", grouped(count), escaped(outcome)))
    });
    let some: Vec<String> = some.collect();
    if some.is_empty() {
        return "no requests at this gateway".to_owned();
    }
    format!("{} at this gateway", some.join(", "))
}

fn told(told: &Value) -> String {
    let count = |member: &str| told[member].as_u64().unwrap_or(0);
    let mut said = format!(
        "{} lines in the audit log, {} webhooks by this gateway",
        grouped(count("written")),
        grouped(count("sent"))
    );
    for (member, what) in [("lost", "events LOST"), ("failed", "webhooks FAILED")] {
        if count(member) > 0 {
            let _ = write!(said, "; {} {what}", grouped(count(member)));
        }
    }
    said
}

/// What was ordered.
pub(super) fn ordered(answer: &Value) -> String {
    let room = text(&answer["room"]);
    let Some(phase) = answer["phase"].as_str() else {
        return format!("room {room}: {}", in_one_line(&answer["ordered"]));
    };
    format!(
        "room {room}: {}, was {}; tidegate room status says what comes of it",
        escaped(phase),
        text(&answer["was"])
    )
}

/// What is asked before a room is closed for `reason`.
pub(super) fn closing(room: &Value, reason: &str) -> String {
    format!(
        "{} Tell them that it is over ({reason}), and let nobody join {} any more?",
        who_waits(room),
        text(&room["name"])
    )
}

/// What is asked before a new line begins.
pub(super) fn turning(room: &Value, _: &str) -> String {
    format!(
        "{} {} Make every place and every pass of room {} void?",
        who_waits(room),
        who_is_inside(room),
        text(&room["name"])
    )
}

/// What is asked before passes are taken back: `which`.
pub(super) fn revoking(room: &Value, which: &str) -> String {
    format!(
        "{} Take {which} of room {} back?",
        who_is_inside(room),
        text(&room["name"])
    )
}

fn who_waits(room: &Value) -> String {
    match room["waiting"].as_u64().unwrap_or(0) {
        0 => "Nobody waits.".to_owned(),
        1 => "1 person waits.".to_owned(),
        many => format!("{} people wait.", grouped(many)),
    }
}

fn who_is_inside(room: &Value) -> String {
    match room["active"].as_u64().unwrap_or(0) {
        0 => "Nobody is inside.".to_owned(),
        1 => "1 visitor is inside.".to_owned(),
        many => format!("{} visitors are inside.", grouped(many)),
    }
}

/// `ms` since 1970 as a date in UTC.
pub(super) fn time(ms: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(ms.min(DATE_MS_MAX));
    humantime::format_rfc3339_seconds(at).to_string()
}

/// `number` with a comma before every three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A text of others in one line.
pub(super) fn in_one_line(value: &Value) -> String {
    text(value).replace('\n', "\\n").replace('\t', "\\t")
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

/// A wait to the second, or to the minute from two minutes on.
fn seconds(seconds: u64) -> String {
    let seconds = match seconds {
        0..120 => seconds,
        _ => (seconds + 30) / 60 * 60,
    };
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

fn span(ms: u64) -> String {
    humantime::format_duration(Duration::from_secs(ms / 1_000)).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status() -> Value {
        json!({
            "name": "shop", "now_ms": 1_790_000_200_000_u64, "age_ms": 400, "phase": "queue-all",
            "configured": "auto",
            "ordered": { "by": "kim", "why": "black friday", "at_ms": 1_790_000_000_000_u64 },
            "epoch": 1_789_990_000_000_u64, "line": "stored", "line_ms": null, "open": false,
            "waiting": 12_481, "tiers": [120, 2_310, 10_051], "ready": 43, "active": 3_211,
            "called_per_minute": 1_240.4, "rate_per_second": 20.62, "brake": "spare", "visitor_rps": 0.918,
            "no_shows": 0.041, "paused_since_ms": null,
            "newcomer": { "ahead": 12_481, "wait_s": [610, 719, 840] },
            "estimate_error": 0.072, "estimate_within": 0.816, "overshoot": 0.0, "gateways": 3,
            "leader": "shop-1", "fence": 17, "reason": null, "stock": 2_500,
            "message": { "en": "Doors open\nat ten." },
            "polls": { "floor_s": 2.0, "stretch_s": 18.0, "beat_s": 45.0, "grace_s": 160.0 },
            "requests": { "passed": 900_000, "waits": 5 },
            "last_minute": { "passed": 8_120, "waits": 90, "closed": 0 },
            "told": { "written": 12, "lost": 0, "sent": 3, "failed": 0 },
        })
    }

    fn has(page: &str, line: &str) {
        assert!(page.lines().any(|it| it == line), "{line}\n{page}");
    }

    #[test]
    fn a_room_is_read_at_a_glance() {
        let page = room(&status());

        for line in [
            "shop        queue-all, ordered by kim at 2026-09-21T14:13:20Z (black friday); auto is configured",
            "line        12,481 wait: 120 in tier 1, 2,310 in tier 2, 10,051 in tier 3; 43 were called and have not come yet",
            "moves       1240 called a minute; 20.6 a second may come in, bounded by what the fleet has to spare",
            "newcomers   12,481 ahead; 10m to 14m, likely 12m",
            "estimates   off by 7 % on average, 82 % within what was told",
            "inside      3,211 visitors with 0.92 requests a second each; 4 % of those called do not come",
            "overshoot   none during the last minute",
            "fleet       3 gateways; shop-1 leads (fence 17)",
            "store       has the line",
            "stock       2,500 left",
            "message     en: Doors open\\nat ten.",
            "pages       ask after 2 s at the soonest, after 18 s from far back; a sign of life every 45 s, gone after 160 s",
            "last minute 8,120 passed, 90 waits at this gateway",
            "told        12 lines in the audit log, 3 webhooks by this gateway",
        ] {
            has(&page, line);
        }
        assert_eq!(page.lines().count(), 14, "{page}");
    }

    #[test]
    fn what_is_wrong_is_seen() {
        let mut status = status();
        status["ordered"] = json!({ "by": null, "why": null, "at_ms": null });
        status["paused_since_ms"] = json!(1_790_000_000_000_u64);
        status["newcomer"]["wait_s"] = json!(null);
        status["estimate_error"] = json!(null);
        status["line"] = json!("away");
        status["line_ms"] = json!(12_345);
        status["open"] = json!(true);
        status["age_ms"] = json!(9_000);
        status["overshoot"] = json!(0.12);
        status["leader"] = json!(null);
        status["gateways"] = json!(1);
        status["reason"] = json!("slower");
        status["told"]["failed"] = json!(4);

        let page = room(&status);

        for line in [
            "shop        queue-all, ordered at another gateway, or by the application; auto is configured",
            "            EVERYBODY PASSES: the store of the line has been away for too long",
            "            as it was 9s ago: nothing was heard of it since",
            "moves       NOT: nobody has been called since 2026-09-21T14:13:20Z, for 3m 20s",
            "newcomers   12,481 ahead; how long it takes cannot be told",
            "estimates   no wait has ended yet that was told",
            "overshoot   12 % more came in during the last minute than was planned",
            "fleet       1 gateway; nobody leads",
            "store       AWAY for 12s",
            "told        12 lines in the audit log, 3 webhooks by this gateway; 4 webhooks FAILED",
        ] {
            has(&page, line);
        }
        assert!(page.contains("have not come yet; told: slower\n"), "{page}");
    }

    #[test]
    fn a_room_as_it_is_configured_says_so() {
        let mut status = status();
        status["phase"] = json!("auto");
        status["ordered"] = json!(null);
        status["message"] = json!(null);
        status["stock"] = json!(null);

        let page = room(&status);

        has(&page, "shop        auto, as configured");
        assert_eq!(page.lines().count(), 12, "{page}");
    }

    #[test]
    fn an_order_is_told_with_what_was_before() {
        let phase = json!({ "room": "shop", "ordered": "phase: hold", "was": "auto", "phase": "hold", "by": "kim" });
        assert_eq!(
            ordered(&phase),
            "room shop: hold, was auto; tidegate room status says what comes of it"
        );
        let stock = json!({ "room": "shop", "ordered": "stock: 5", "by": "kim" });
        assert_eq!(ordered(&stock), "room shop: stock: 5");
    }

    #[test]
    fn who_is_asked_hears_whom_it_concerns() {
        let status = status();

        assert_eq!(
            closing(&status, "sold-out"),
            "12,481 people wait. Tell them that it is over (sold-out), and let nobody join shop any more?"
        );
        assert_eq!(
            turning(&status, ""),
            "12,481 people wait. 3,211 visitors are inside. Make every place and every pass of room shop void?"
        );
        assert_eq!(
            revoking(&status, "pass abc"),
            "3,211 visitors are inside. Take pass abc of room shop back?"
        );
    }

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        let mut status = status();
        status["ordered"]["by"] = json!("\u{1b}[2J");
        status["message"]["en"] = json!("\u{1b}[31m");

        assert!(!room(&status).contains('\u{1b}'));
    }

    #[test]
    fn numbers_and_times_are_written_to_be_read() {
        let numbers = [0, 999, 1_000, 123_456, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "123,456", "1,234,567"]);
        assert_eq!(seconds(119), "1m 59s");
        assert_eq!(seconds(719), "12m");
        assert_eq!(time(u64::MAX), "9999-12-31T23:59:59Z");
    }
}
