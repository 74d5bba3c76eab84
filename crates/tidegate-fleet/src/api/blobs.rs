//! `/v1/sessions/{session}/blobs/{name}`: one value as it is, however large.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use tidegate_core::session::{Expect, Fields, Format, Op, Value, Version, json};
use tidegate_store::desk::Patch;

use super::Api;
use super::parts::{Asked, Budget, NameRef, SessionRef, header};
use super::problem::Problem;
use super::sessions::{idempotency_key, patched_answer, seen};
use super::view::{is_known, not_modified, with_etag};

const FORMAT_HEADER: &str = "tidegate-format";

/// `GET /v1/sessions/{session}/blobs/{name}`
pub(crate) async fn show(
    State(api): State<Arc<Api>>,
    SessionRef(id): SessionRef,
    NameRef(name): NameRef,
    asked: Asked,
    Budget(budget): Budget,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    asked.only(&[])?;
    let fields = Fields::Only([name.clone()].into());
    let seen = seen(api.desk()?.open(&id, None, &fields, budget).await)?;
    let missing = || {
        Problem::new(
            StatusCode::NOT_FOUND,
            "no_such_value",
            format!("the session has no value {name}"),
        )
        .about(name.as_str())
    };
    let attribute = seen.session.attribute(&name).ok_or_else(missing)?;
    if is_known(&headers, attribute.version) {
        return Ok(not_modified(attribute.version));
    }
    let value = match attribute.value.format {
        Format::Pointer => {
            let value = api.desk()?.blob(&seen.id, &attribute.value, budget).await?;
            value.ok_or_else(missing)?
        }
        _ => attribute.value.clone(),
    };
    Ok(with_etag(plain(value), attribute.version))
}

/// `PUT /v1/sessions/{session}/blobs/{name}`
pub(crate) async fn put(
    State(api): State<Arc<Api>>,
    SessionRef(id): SessionRef,
    NameRef(name): NameRef,
    asked: Asked,
    Budget(budget): Budget,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    asked.only(&[])?;
    let value = Value {
        format: format(&headers, &body)?,
        bytes: body.to_vec(),
    };
    let patch = Patch {
        ops: vec![Op::Set {
            name,
            value,
            expect: expect(&headers)?,
        }],
        key: idempotency_key(&headers)?,
    };
    patched_answer(api.desk()?.patch(&id, None, patch, budget).await?)
}

/// The format that `Content-Type` says.
fn format(headers: &HeaderMap, body: &[u8]) -> Result<Format, Problem> {
    let kind = header(headers, &CONTENT_TYPE)?.unwrap_or("application/octet-stream");
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind.to_ascii_lowercase().as_str() {
        "application/json" => match json::check(body) {
            Ok(()) => Ok(Format::Json),
            Err(why) => Err(Problem::invalid("body", why.to_string())),
        },
        "text/plain" => match std::str::from_utf8(body) {
            Ok(_) => Ok(Format::Text),
            Err(_) => Err(Problem::invalid("body", "a text is to be UTF-8")),
        },
        "application/msgpack" | "application/x-msgpack" => Ok(Format::MessagePack),
        _ => Ok(Format::Bytes),
    }
}

/// What must be there already, by `If-Match` and `If-None-Match`.
fn expect(headers: &HeaderMap) -> Result<Expect, Problem> {
    let must = header(headers, &IF_MATCH)?;
    let must_not = header(headers, &IF_NONE_MATCH)?;
    match (must, must_not) {
        (None, None) => Ok(Expect::Any),
        (None, Some("*")) => Ok(Expect::Absent),
        (Some(tag), None) => {
            let version = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let version = version.and_then(|digits| digits.parse().ok());
            let version = version.filter(|version| *version != 0);
            version
                .map(|version| Expect::At(Version(version)))
                .ok_or_else(|| {
                    Problem::invalid(
                        "If-Match",
                        "it must be the ETag that the value was read with",
                    )
                })
        }
        (None, Some(_)) => Err(Problem::invalid("If-None-Match", "it must be *")),
        (Some(_), Some(_)) => Err(Problem::invalid(
            "If-Match",
            "there is If-None-Match beside it",
        )),
    }
}

/// The value as it is.
fn plain(value: Value) -> Response {
    let kind = match value.format {
        Format::Text | Format::Integer => "text/plain; charset=utf-8",
        Format::Json => "application/json",
        Format::MessagePack => "application/msgpack",
        Format::Bytes | Format::Pointer | Format::Other(_) => "application/octet-stream",
    };
    let mut response = value.bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Format::Other(letter) = value.format
        && let Ok(letter) = HeaderValue::from_bytes(&[letter])
    {
        headers.insert(FORMAT_HEADER, letter);
    }
    response
}
