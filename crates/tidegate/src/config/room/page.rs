//! What visitors are shown and told.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use tidegate_gateway::room::EventPlan;
use tidegate_page::Language;

use super::super::section::{Section, closest};
use super::super::tree::{Entry, Value};
use super::when;

/// What the page may be sent with.
const STATUSES: [u16; 4] = [200, 202, 429, 503];
/// How long before an event a room takes people.
const OPENS_BEFORE: Duration = Duration::from_secs(30 * 60);
/// Longest text of a message in one language, in characters, and longest message in all of them, in bytes: as an operator's.
const TEXT_CHARS_MAX: usize = 500;
const MESSAGE_BYTES_MAX: usize = 8 * 1_024;

/// The status of the page.
pub(super) fn status(section: &Section<'_>) -> StatusCode {
    const FIX: &str =
        "write 503; or 200, 202 or 429, where something in between has a page of its own for 503";
    let Some(node) = section.node("page_status") else {
        return StatusCode::SERVICE_UNAVAILABLE;
    };
    let Value::Integer(number) = node.value else {
        let message = format!("`page_status` is {}, but takes a number", node.kind());
        section.refuse("page_status", message, FIX);
        return StatusCode::SERVICE_UNAVAILABLE;
    };
    let known = u16::try_from(number)
        .ok()
        .filter(|known| STATUSES.contains(known));
    if known.is_none() {
        let message = format!("`page_status = {number}` is none that the page is sent with");
        section.refuse("page_status", message, FIX);
    }
    let status = known.and_then(|known| StatusCode::from_u16(known).ok());
    status.unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
}

/// What is said to all who wait.
pub(super) fn message(section: &Section<'_>) -> Option<BTreeMap<Language, String>> {
    const FIX: &str = "write message = { en = \"Doors open at ten.\" }, say, or remove it";
    if !section.has("message") {
        return None;
    }
    let table = section.table("message");
    let said = table.iter().filter_map(|entry| text(section, entry));
    let said: BTreeMap<Language, String> = said.collect();
    let bytes: usize = said.values().map(String::len).sum();
    if said.is_empty() && section.sound(&["message"]) {
        section.refuse("message", "`message` says nothing", FIX);
    } else if bytes > MESSAGE_BYTES_MAX {
        section.refuse(
            "message",
            format!("`message` has {bytes} bytes in all languages"),
            format!("write {MESSAGE_BYTES_MAX} at most: the page fetches it again and again"),
        );
    }
    Some(said)
}

/// The message in one language.
fn text(section: &Section<'_>, entry: &Entry) -> Option<(Language, String)> {
    let tag = entry.key.as_str();
    let known = Language::ALL.into_iter().find(|it| it.tag() == tag);
    let Some(language) = known else {
        // `de-AT` is read by whoever reads `de`.
        let near = Language::of_tag(tag).map(Language::tag);
        let near = near.or_else(|| closest(tag, Language::ALL.into_iter().map(Language::tag)));
        let fix = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", Language::ALL.map(Language::tag).join(", ")),
        };
        let message = format!("`{tag}` is no language of the page");
        section.refuse_item("message", &entry.key_origin, message, fix);
        return None;
    };
    let refuse = |message: String, fix: &str| {
        section.refuse_item("message", &entry.node.origin, message, fix);
        None
    };
    let Value::Text(text) = &entry.node.value else {
        let message = format!("the message in `{tag}` is {}", entry.node.kind());
        return refuse(message, "put it in quotes");
    };
    if text.trim().is_empty() {
        return refuse(
            format!("the message in `{tag}` is empty"),
            "write it, or leave the language out",
        );
    }
    let chars = text.chars().count();
    if chars > TEXT_CHARS_MAX {
        return refuse(
            format!("the message in `{tag}` has {chars} characters"),
            &format!("write {TEXT_CHARS_MAX} at most"),
        );
    }
    if text.contains(|letter: char| letter.is_control() && letter != '\n') {
        return refuse(
            format!("the message in `{tag}` has control characters in it"),
            "write plain text: line ends are all that it may have",
        );
    }
    Some((language, text.clone()))
}

/// What begins at a time, if anything does.
pub(super) fn event(section: &Section<'_>) -> Option<EventPlan> {
    let before = section.span_if_set("opens_before");
    let Some(text) = section.text_if_set("starts") else {
        if before.is_some() {
            section.refuse(
                "opens_before",
                "`opens_before` has no effect: nothing begins",
                "add starts = \"2026-12-24T10:00:00Z\", say, or remove opens_before",
            );
        }
        return None;
    };
    if !section.sound(&["starts"]) {
        return None;
    }
    let Some(starts_ms) = when::moment_ms(text) else {
        section.refuse(
            "starts",
            format!("`starts = \"{text}\"` is no date and time of RFC 3339"),
            "write \"2026-12-24T10:00:00Z\", or by a clock that is an hour ahead of that \"2026-12-24T11:00:00+01:00\"",
        );
        return None;
    };
    Some(EventPlan {
        starts_ms,
        opens_before: before.unwrap_or(OPENS_BEFORE),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{error, room};
    use super::*;

    #[test]
    fn what_is_said_to_visitors_is_checked_in_every_language() {
        let long = format!("message = {{ en = \"{}\" }}", "x".repeat(501));
        let much: Vec<String> = ["ja", "ko", "zh", "he", "ar", "cs"]
            .iter()
            .map(|tag| format!("{tag} = \"{}\"", "あ".repeat(500)))
            .collect();
        let much = format!("message = {{ {} }}", much.join(", "));
        for (keys, message, help) in [
            ("message = {}", "says nothing", "message = { en ="),
            ("message = \"Soon.\"", "not a text", "message = {"),
            (
                "message = { xx = \"a\" }",
                "`xx` is no language",
                "there are ar",
            ),
            (
                "message = { de-AT = \"a\" }",
                "`de-AT` is no language",
                "did you mean `de`?",
            ),
            ("message = { en = 1 }", "is a whole number", "in quotes"),
            (
                "message = { en = \" \" }",
                "is empty",
                "leave the language out",
            ),
            (
                "message = { en = \"a\\tb\" }",
                "control characters",
                "plain text",
            ),
            (long.as_str(), "has 501 characters", "500 at most"),
            (much.as_str(), "has 9000 bytes", "8192 at most"),
        ] {
            let (said, fix) = error(keys);
            assert!(said.contains(message), "{keys}: {said}");
            assert!(fix.contains(help), "{keys}: {fix}");
        }
        assert!(room("message = { en = \"a\\nb\" }").message.is_some());
    }

    #[test]
    fn what_begins_does_so_at_a_time_that_there_is() {
        for (keys, message, help) in [
            (
                "opens_before = \"1m\"",
                "`opens_before` has no effect",
                "add starts",
            ),
            (
                "starts = \"2026-12-24 10:00\"",
                "no date and time of RFC 3339",
                "2026-12-24T10:00:00Z",
            ),
            (
                "starts = 2026-12-24T10:00:00Z",
                "is a date",
                "starts = \"…\"",
            ),
        ] {
            let (said, fix) = error(keys);
            assert!(said.contains(message), "{keys}: {said}");
            assert!(fix.contains(help), "{keys}: {fix}");
        }
        // Whether that is past is told by who knows what time it is.
        let event = room("starts = \"2001-01-01T00:00:00Z\"").event.unwrap();
        assert_eq!(event.opens_before, Duration::from_secs(1_800));
    }
}
