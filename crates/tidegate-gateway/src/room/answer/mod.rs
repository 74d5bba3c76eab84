//! What a room answers by itself: the page for who visits, a problem for programs, and its own paths.
//!
//! Pages are made once, at start: an answer shares their bytes. All of it is for one visitor and for no cache, but for the room's
//! document and the public keys, which are the same for everybody.

mod document;
mod jwks;
mod own;

use bytes::Bytes;
use http::header::{
    ACCEPT_LANGUAGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Serialize;
use tidegate_core::room::Stage;
use tidegate_http::names::{CDN_CACHE_CONTROL, TIDEGATE_REASON, TIDEGATE_STATE};
use tidegate_http::refusal::Refusal;
use tidegate_page::Variation;

pub(crate) use self::document::{Estimate, estimate};
pub(crate) use self::own::{recognise, serve};
use super::hall::Hall;
use super::visit::takes_gzip;
use crate::body::Body;

/// What an answer to who waits depends on.
const VARIES: &str = "Cookie, Accept, Accept-Encoding, Accept-Language, Sec-Fetch-Mode";

/// Headers that an answer has, with what is added to it on its way.
const HEADERS_MAX: usize = 20;

/// Why a request is answered here, and when it is worth the while to come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) refusal: Refusal,
    pub(crate) retry_s: u64,
}

/// Where somebody stands, as an application is told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stands {
    pub(crate) stage: Stage,
    /// How many are before them, and how long that may take; where that is known.
    pub(crate) ahead: Option<u64>,
    pub(crate) eta_s: Option<Estimate>,
}

/// What an application gets that has to wait (RFC 9457).
#[derive(Serialize)]
struct Problem<'a> {
    title: &'a str,
    status: u16,
    reason: &'a str,
    room: &'a str,
    state: &'a str,
    me: String,
    join: String,
    room_document: String,
    poll_s: u64,
    position: Option<u64>,
    eta_s: Option<Estimate>,
}

/// The page for whoever sent these headers, with the status that is configured.
pub(crate) fn page(
    hall: &Hall,
    asked: &HeaderMap,
    variation: Variation,
    told: Told,
) -> Response<Body> {
    let mut response = bare_page(hall, asked, variation, hall.plan.page_status);
    say(response.headers_mut(), told);
    response
}

/// The page without why it is shown.
fn bare_page(
    hall: &Hall,
    asked: &HeaderMap,
    variation: Variation,
    status: StatusCode,
) -> Response<Body> {
    let accept = asked.get(ACCEPT_LANGUAGE);
    let language = hall.pages.language(accept.and_then(|it| it.to_str().ok()));
    let page = hall.pages.of(language, variation);
    let mut headers = HeaderMap::with_capacity(HEADERS_MAX);
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static(language.tag()));
    headers.insert(CONTENT_SECURITY_POLICY, hall.pages.policy().clone());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let bytes = if takes_gzip(asked) {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        &page.gzip
    } else {
        &page.plain
    };
    keep_private(&mut headers);
    respond(status, headers, bytes.clone())
}

/// What an application is told, or the script of a page.
pub(crate) fn problem(hall: &Hall, stands: &Stands, told: Told) -> Response<Body> {
    let room = hall.plan.tokens.room.as_str();
    let status = told.refusal.status();
    let problem = Problem {
        title: status.canonical_reason().unwrap_or_default(),
        status: status.as_u16(),
        reason: told.refusal.label(),
        room,
        state: stage_name(stands.stage),
        me: format!("{}me/{room}", own::PREFIX),
        join: format!("{}join/{room}", own::PREFIX),
        room_document: format!("{}room/{room}.json", own::PREFIX),
        poll_s: told.retry_s,
        position: stands.ahead,
        eta_s: stands.eta_s,
    };
    let mut headers = HeaderMap::with_capacity(HEADERS_MAX);
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    keep_private(&mut headers);
    say(&mut headers, told);
    respond(status, headers, json_bytes(&problem))
}

/// One's own document.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response<Body> {
    let mut headers = HeaderMap::with_capacity(HEADERS_MAX);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    keep_private(&mut headers);
    respond(status, headers, json_bytes(value))
}

/// For nobody else, wherever it comes by.
pub(crate) fn keep_private(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert(CDN_CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static(VARIES));
}

/// Why it is answered here. What nobody can wait for is not queued.
fn say(headers: &mut HeaderMap, told: Told) {
    let label = told.refusal.label();
    headers.insert(TIDEGATE_REASON, HeaderValue::from_static(label));
    if matches!(told.refusal, Refusal::Room | Refusal::RoomDoor) {
        headers.insert(TIDEGATE_STATE, HeaderValue::from_static("queued"));
    }
    if told.refusal.says_when_to_retry() {
        headers.insert(RETRY_AFTER, HeaderValue::from(told.retry_s));
    }
}

fn json_bytes<T: Serialize>(value: &T) -> Bytes {
    // Names and numbers: nothing in it can fail to be written.
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn respond(status: StatusCode, headers: HeaderMap, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::full(bytes));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The name of a stage in our documents.
pub(crate) const fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Nobody => "nobody",
        Stage::Provisional => "provisional",
        Stage::Waiting => "waiting",
        Stage::Asleep => "asleep",
        Stage::Ready => "ready",
        Stage::Passed => "passed",
        Stage::Ghost => "ghost",
    }
}
