//! Answers of a sidecar for people to read.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tidegate_lab::text::escaped;

/// Characters of a value that are shown; `--json` shows all.
const VALUE_CHARS_MAX: usize = 200;

/// A session.
pub(super) fn session(answer: &Value) -> String {
    let text = |member: &str| answer[member].as_str().map(escaped);
    let mut page = String::new();
    let mut line = |heading: &str, said: String| {
        let _ = writeln!(page, "{heading:<11}{said}");
    };
    line("session", text("session").unwrap_or_default());
    let user = text("uid").unwrap_or_else(|| "nobody".to_owned());
    let tier = text("tier").map_or_else(String::new, |tier| format!(", tier {tier}"));
    line("user", user + &tier);
    line("state", text("state").unwrap_or_default());
    line("begun", at(&answer["created_ms"]));
    line("last used", at(&answer["last_used_ms"]));
    line(
        "ends",
        format!("{} unless it is used", at(&answer["deadline_ms"])),
    );
    line("at last", at(&answer["absolute_ms"]));
    line("size", format!("{} bytes", answer["bytes"]));
    let attributes = answer["attributes"].as_object();
    for (name, attribute) in attributes.into_iter().flatten() {
        let format = attribute["format"].as_str().unwrap_or_default();
        let value = match (
            &attribute["value"],
            &attribute["blob"],
            &attribute["base64"],
        ) {
            (Value::Null, Value::Object(blob), _) => {
                format!("{} bytes beside the session", blob["bytes"])
            }
            (Value::Null, _, Value::String(bytes)) => format!("base64 {bytes}"),
            (value, ..) => value.to_string(),
        };
        let _ = writeln!(
            page,
            "\n{} ({}): {}",
            escaped(name),
            escaped(format),
            short(&value)
        );
    }
    let counters = answer["counters"].as_object();
    for (name, count) in counters.into_iter().flatten() {
        let _ = writeln!(page, "\n{} (counter): {count}", escaped(name));
    }
    page
}

/// The sessions of a user.
pub(super) fn list(answer: &Value) -> String {
    let uid = escaped(answer["uid"].as_str().unwrap_or_default());
    let sessions = answer["sessions"].as_array().map_or(&[][..], Vec::as_slice);
    if sessions.is_empty() {
        return format!("user {uid} has no session");
    }
    let mut page = format!("{:<29}last used\n", "session");
    for session in sessions {
        let id = escaped(session["session"].as_str().unwrap_or_default());
        let _ = writeln!(page, "{id:<29}{}", at(&session["last_used_ms"]));
    }
    page
}

/// What came of a sign-out everywhere.
pub(super) fn signed_out(uid: &str, answer: &Value) -> String {
    let ended = &answer["ended"];
    let mut page = format!(
        "user {} is signed out everywhere: {ended} listed sessions are ended, and any other ends when it is \
         next used",
        escaped(uid)
    );
    if answer["pending"] == true {
        page += "\nthe store is away: other gateways learn of it when it is back";
    }
    page
}

/// A time in milliseconds since the epoch, and how far it is from now.
fn at(millis: &Value) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(millis.as_u64().unwrap_or_default());
    let whole = |span: Duration| humantime::format_duration(Duration::from_secs(span.as_secs()));
    let far = match SystemTime::now().duration_since(at) {
        Ok(ago) => format!("{} ago", whole(ago)),
        Err(ahead) => format!("in {}", whole(ahead.duration())),
    };
    format!("{} ({far})", humantime::format_rfc3339_seconds(at))
}

fn short(value: &str) -> String {
    let mut shown: String = value.chars().take(VALUE_CHARS_MAX).collect();
    if value.chars().nth(VALUE_CHARS_MAX).is_some() {
        shown.push('…');
    }
    escaped(&shown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_session_is_shown_without_anything_that_a_terminal_would_obey() {
        let page = session(&json!({
            "session": "abcd.ABCDEFGHIJKLMNOPQRSTUV", "uid": "44182", "tier": "gold", "state": "ok",
            "created_ms": 0, "last_used_ms": 0, "deadline_ms": 0, "absolute_ms": 0, "bytes": 12,
            "attributes": {
                "cart": { "format": "json", "value": { "items": ["\u{1b}[31m"] } },
                "large": { "format": "pointer", "blob": { "bytes": 100_000, "format": "json" } },
            },
            "counters": { "visits": 3 },
        }));

        assert!(page.contains("user       44182, tier gold"), "{page}");
        assert!(page.contains("cart (json): {\"items\":["), "{page}");
        assert!(
            page.contains("large (pointer): 100000 bytes beside"),
            "{page}"
        );
        assert!(page.contains("visits (counter): 3"), "{page}");
        assert!(!page.contains('\u{1b}'));
    }

    #[test]
    fn a_user_without_sessions_is_told_so() {
        let page = list(&json!({ "uid": "44182", "sessions": [] }));

        assert_eq!(page, "user 44182 has no session");
    }
}
