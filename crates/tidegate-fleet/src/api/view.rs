//! How sessions look in JSON.

use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::value::RawValue;
use tidegate_core::session::{Attribute, Format, Value, Version, json};
use tidegate_core::time::Wall;
use tidegate_store::desk::{Seen, Standing};

/// A session.
#[derive(Serialize)]
pub(crate) struct SessionView {
    session: String,
    version: u64,
    state: &'static str,
    uid: Option<String>,
    tier: Option<String>,
    created_ms: u64,
    last_used_ms: u64,
    deadline_ms: u64,
    absolute_ms: u64,
    bytes: u32,
    attributes: BTreeMap<String, AttributeView>,
    counters: BTreeMap<String, i64>,
}

/// An attribute. One of `value`, `base64` and `blob` is there.
#[derive(Serialize)]
pub(crate) struct AttributeView {
    version: u64,
    format: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob: Option<BlobView>,
}

/// A value that lies out of line.
#[derive(Serialize)]
struct BlobView {
    bytes: u64,
    format: String,
}

impl SessionView {
    /// What `seen` looks like.
    pub(crate) fn of(seen: &Seen) -> Self {
        let session = &seen.session;
        let found = &session.found;
        Self {
            session: seen.id.to_string(),
            version: session.version().0,
            state: state(seen.standing),
            uid: session.uid().map(ToString::to_string),
            tier: session.tier().map(ToString::to_string),
            created_ms: millis(session.head.created),
            last_used_ms: millis(session.head.last_used),
            deadline_ms: millis(seen.deadline),
            absolute_ms: millis(session.head.absolute),
            bytes: session.head.bytes,
            attributes: (found.attributes.iter())
                .map(|(name, attribute)| (name.to_string(), AttributeView::of(attribute)))
                .collect(),
            counters: (found.counters.iter())
                .map(|(name, count)| (name.to_string(), *count))
                .collect(),
        }
    }
}

impl AttributeView {
    /// What `attribute` looks like. What cannot be read in its own format is shown as bytes.
    pub(crate) fn of(attribute: &Attribute) -> Self {
        let value = &attribute.value;
        let blob = BlobView::of(value);
        let readable = readable(value);
        let encoded = (blob.is_none() && readable.is_none()).then(|| STANDARD.encode(&value.bytes));
        Self {
            version: attribute.version.0,
            format: format_name(value.format),
            value: readable,
            base64: encoded,
            blob,
        }
    }
}

impl BlobView {
    /// What a pointer, `BLOB,BYTES,FORMAT`, points to.
    fn of(value: &Value) -> Option<Self> {
        if value.format != Format::Pointer {
            return None;
        }
        let text = std::str::from_utf8(&value.bytes).ok()?;
        let mut parts = text.split(',');
        let (_, bytes, format) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            bytes: bytes.parse().ok()?,
            format: format_name(Format::of_letter(*format.as_bytes().first()?)),
        })
    }
}

/// The value as JSON, if it can be shown as such.
fn readable(value: &Value) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(&value.bytes).ok()?;
    match value.format {
        Format::Text => serde_json::value::to_raw_value(text).ok(),
        Format::Integer => {
            let number: i64 = text.parse().ok()?;
            serde_json::value::to_raw_value(&number).ok()
        }
        // What came by another way may be more than a reader takes, and it would not have the rest
        // of the answer either.
        Format::Json => {
            json::check(&value.bytes).ok()?;
            RawValue::from_string(text.to_owned()).ok()
        }
        Format::MessagePack | Format::Bytes | Format::Pointer | Format::Other(_) => None,
    }
}

/// The name of a format; of one that is not known, its letter.
pub(crate) fn format_name(format: Format) -> String {
    match format {
        Format::Text => "text".to_owned(),
        Format::Integer => "integer".to_owned(),
        Format::Json => "json".to_owned(),
        Format::MessagePack => "msgpack".to_owned(),
        Format::Bytes => "bytes".to_owned(),
        Format::Pointer => "pointer".to_owned(),
        Format::Other(letter) => char::from(letter).to_string(),
    }
}

/// How a session stands.
pub(crate) const fn state(standing: Standing) -> &'static str {
    match standing {
        Standing::Live => "ok",
        Standing::Recovered => "recovered",
        Standing::Cached | Standing::FromTicket | Standing::Local => "degraded",
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) const fn millis(at: Wall) -> u64 {
    at.as_micros() / 1000
}

/// An answer with `body`, which no cache may keep.
pub(crate) fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    let text = serde_json::to_string(body).expect("what is shown has texts for keys");
    let mut response = (status, text + "\n").into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// `response`, marked with the version of what it shows.
pub(crate) fn with_etag(mut response: Response, version: Version) -> Response {
    let tag = format!("\"{}\"", version.0);
    let tag = HeaderValue::try_from(tag).expect("digits in quotes can be in a header");
    response.headers_mut().insert(ETAG, tag);
    response
}

/// Whether the caller says that it has `version` already.
pub(crate) fn is_known(headers: &HeaderMap, version: Version) -> bool {
    let wanted = format!("\"{}\"", version.0);
    let mut lines = headers.get_all(http::header::IF_NONE_MATCH).iter();
    lines.any(|line| {
        let mut tags = line.to_str().unwrap_or_default().split(',').map(str::trim);
        tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == wanted)
    })
}

/// The answer to a caller that has it already.
pub(crate) fn not_modified(version: Version) -> Response {
    with_etag(StatusCode::NOT_MODIFIED.into_response(), version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_that_a_reader_could_stumble_over_is_shown_as_bytes() {
        let shown = |text: &str| {
            let value = Value {
                format: Format::Json,
                bytes: text.as_bytes().to_vec(),
            };
            let version = Version(1);
            let view = AttributeView::of(&Attribute { version, value });
            (view.value.is_some(), view.base64.is_some())
        };

        assert_eq!(shown("[1.50]"), (true, false));
        for odd in ["[1e400]", "[", &"[".repeat(100)] {
            assert_eq!(shown(odd), (false, true), "{odd}");
        }
    }
}
