//! Answers about rate limits for people to read.

use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;
use tidegate_gateway::rate::in_writing;
use tidegate_lab::text::escaped;

/// A limit, and perhaps what is used of a key.
pub(super) fn limit(answer: &Value) -> String {
    let mut page = String::new();
    let mut line = |heading: &str, said: String| {
        let _ = writeln!(page, "{heading:<11}{said}");
    };
    line("limit", text(&answer["limit"]));
    line(
        "allows",
        format!(
            "{} by a {}, {} at once{}",
            text(&answer["rate"]),
            text(&answer["algorithm"]),
            answer["most"],
            shadow(answer)
        ),
    );
    if let Some(now) = now(answer) {
        line("now", now);
    }
    let all = |list: &Value| match list.as_array().map_or(&[][..], Vec::as_slice) {
        [] => "all".to_owned(),
        names => names.iter().map(text).collect::<Vec<_>>().join(", "),
    };
    line("routes", all(&answer["routes"]));
    line("apps", all(&answer["apps"]));
    line(
        "counts by",
        match answer["counted_by"].as_array() {
            Some(names) if !names.is_empty() => all(&answer["counted_by"]),
            _ => "nothing: all together".to_owned(),
        },
    );
    if let Some(mode) = answer["mode"].as_str() {
        line("scope", format!("all gateways, {}", escaped(mode)));
        line("keys", format!("{} at this gateway", answer["keys"]));
        line("counted", text(&answer["counted"]));
    } else {
        line(
            "keys",
            format!(
                "{} remembered, {} forgotten for want of room",
                answer["keys"], answer["evicted"]
            ),
        );
    }
    let states = answer["states"].as_array();
    if states.is_some_and(Vec::is_empty) {
        line("used", "never: no route meets it".to_owned());
    }
    for state in states.into_iter().flatten() {
        line("used", used(state) + shadow(state));
        line("remaining", state["remaining"].to_string());
        for (heading, name, what) in [
            ("ahead", "ahead", "this gateway has ahead"),
            (
                "unreported",
                "unreported",
                "this gateway has spent and not reported",
            ),
        ] {
            if let Some(tokens @ 1..) = state[name].as_u64() {
                line(heading, format!("{tokens} that {what}"));
            }
        }
        line("passes", wait(state, &answer["cost"]));
    }
    page
}

/// What holds of a limit that follows the fleet.
fn now(answer: &Value) -> Option<String> {
    let share = answer["share"].as_f64()?;
    let why = match answer["share_by"].as_str() {
        Some("told") => "by the headroom of the fleet",
        Some("held") => "by what was heard last of the fleet, which says nothing now",
        _ => "as nobody says what the fleet has left",
    };
    let now = text(&answer["rate_now"]);
    Some(format!("{now}, {:.0} % of it, {why}", share * 100.0))
}

/// The keys that are met most.
pub(super) fn top(answer: &Value, count: usize) -> String {
    let mut page = String::new();
    let counted_by = answer["counted_by"].as_array();
    let heads: Vec<String> = counted_by.into_iter().flatten().map(text).collect();
    let head = match heads.is_empty() {
        true => "all together".to_owned(),
        false => heads.join(" "),
    };
    for (list, what, unit) in [
        ("refused", "refused most", "requests"),
        ("spent", "spent most", "tokens"),
    ] {
        let rows = answer[list].as_array().map_or(&[][..], Vec::as_slice);
        let _ = writeln!(page, "{what} of {}", text(&answer["limit"]));
        if rows.is_empty() {
            page += "  nobody of late\n\n";
            continue;
        }
        let _ = writeln!(
            page,
            "  {unit:>10} {:>10} {:>10} {:>9}  {head}",
            "used now", "remaining", "last"
        );
        for row in rows.iter().take(count) {
            let _ = writeln!(
                page,
                "  {:>10} {:>10} {:>10} {:>9}  {}{}",
                about(row),
                known(&row["used"]),
                known(&row["remaining"]),
                span(row["ago_ms"].as_u64().unwrap_or(0)),
                key(&row["key"]),
                shadow(row)
            );
        }
        page.push('\n');
    }
    page
}

/// What became of a reset.
pub(super) fn reset(answer: &Value, key: &str) -> String {
    let before = answer["before"].as_array();
    let used: Vec<String> = before.into_iter().flatten().map(used).collect();
    let mut page = format!(
        "{} is reset for {}: {} used before",
        text(&answer["limit"]),
        escaped(key),
        match used.is_empty() {
            true => "nothing was".to_owned(),
            false => used.join(", and ") + " was",
        }
    );
    if answer["left"].is_string() {
        let _ = write!(page, "\nbut {}", text(&answer["left"]));
    }
    page
}

/// A number, where it is known.
fn known(number: &Value) -> String {
    match number {
        Value::Null => "?".to_owned(),
        number => number.to_string(),
    }
}

fn used(state: &Value) -> String {
    state["used"].to_string()
}

/// How much was counted, and that it is not exact where it is not.
fn about(row: &Value) -> String {
    match row["over"].as_u64() {
        Some(0) => row["count"].to_string(),
        _ => format!("~{}", row["count"]),
    }
}

fn wait(state: &Value, cost: &Value) -> String {
    let whole = match cost.as_u64() {
        Some(1) | None => "the next request".to_owned(),
        Some(cost) => format!("the next request, which costs {cost},"),
    };
    match state["wait_ms"].as_u64() {
        Some(0) => format!("{whole} now"),
        Some(wait_ms) => format!("{whole} in {}", span(wait_ms)),
        None => format!("{whole} never"),
    }
}

fn shadow(state: &Value) -> &'static str {
    match state["shadow"] == true {
        true => " (in the shadow: it only counts)",
        false => "",
    }
}

/// A key as it is given on the command line. The gateway has cut what is too long to be shown, and says so by an end that no
/// whole part has.
fn key(parts: &Value) -> String {
    let parts = parts.as_array().map_or(&[][..], Vec::as_slice);
    let parts = parts.iter().map(|part| in_writing(part.as_str()));
    // Line breaks would begin what looks like another row.
    let line = escaped(&parts.collect::<Vec<_>>().join(" "));
    line.replace('\n', "\\n").replace('\t', "\\t")
}

fn span(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        _ => humantime::format_duration(Duration::from_secs(millis.div_ceil(1_000))).to_string(),
    }
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_client_has_chosen_makes_no_row_and_no_colour() {
        let page = top(
            &json!({
                "limit": "tenant", "counted_by": ["header x-tenant"],
                "refused": [{
                    "key": ["a\nb\u{1b}[31m"], "count": 9, "over": 0, "ago_ms": 70_000,
                    "used": 5, "remaining": 0, "wait_ms": 1, "shadow": false,
                }],
                "spent": [],
            }),
            10,
        );

        assert_eq!(page.lines().count(), 7, "{page}");
        assert!(page.contains("a\\nb\\u{1b}[31m"), "{page}");
        assert!(page.contains("1m 10s"), "{page}");
        assert!(
            page.contains("spent most of tenant\n  nobody of late"),
            "{page}"
        );
    }

    #[test]
    fn a_key_is_shown_with_what_is_used_and_when_the_next_passes() {
        let state = json!({ "shadow": false, "used": 5, "remaining": 0, "wait_ms": 5_500 });
        let page = limit(&json!({
            "limit": "login-ip", "algorithm": "bucket", "rate": "10/min", "most": 5, "cost": 1,
            "shadow": false, "apps": [], "routes": ["login"], "counted_by": ["client"], "keys": 1,
            "evicted": 0, "key": ["203.0.113.7"], "states": [state],
        }));

        for line in [
            "allows     10/min by a bucket, 5 at once\n",
            "routes     login\n",
            "apps       all\n",
            "used       5\n",
            "passes     the next request in 6s\n",
        ] {
            assert!(page.contains(line), "{line}{page}");
        }
    }
}
