//! Readings that an application posts of itself, for the agent on its node.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use tidegate_core::health::Dimension;

use super::Api;
use super::input::Object;
use super::problem::Problem;
use super::view::answer;
use crate::agent::{POSTED_MAX, Posted};

/// Bytes of a source's name.
const SOURCE_BYTES_MAX: usize = 64;

/// `POST /v1/signals`.
pub(super) async fn post(State(api): State<Arc<Api>>, body: Bytes) -> Result<Response, Problem> {
    let asked = Object::of_body(&body)?;
    asked.only(&["source", "signals"])?;
    let source = asked.text("source")?;
    let plain = |byte: u8| byte.is_ascii_graphic();
    if source.is_empty() || source.len() > SOURCE_BYTES_MAX || !source.bytes().all(plain) {
        return Err(asked.wrong("source", "a name of 1 to 64 visible ASCII characters"));
    }
    let signals = asked.list("signals", POSTED_MAX)?;
    let posted = signals.iter().map(signal).collect::<Result<Vec<_>, _>>()?;
    let kept = api.board.post(&source, posted);
    kept.map_err(|full| Problem::away("too_many_sources", full.to_string()))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /v1/signals`.
pub(super) async fn show(State(api): State<Arc<Api>>) -> Response {
    let (now, mut sights) = (api.board.now(), Vec::new());
    api.board.put_on(&mut sights);
    let signals = sights.iter().map(|sight| {
        let signal = &sight.signal;
        let validity = signal.validity_at(now);
        let figures = (validity == tidegate_core::health::Validity::Ok)
            .then_some((signal.value, signal.limit));
        serde_json::json!({
            "source": sight.source,
            "dimension": signal.dimension.name(),
            "value": figures.map(|(value, _)| value),
            "limit": figures.map(|(_, limit)| limit),
            "validity": validity.name(),
            "age_ms": u64::try_from(now.since(signal.at).as_millis()).unwrap_or(u64::MAX),
        })
    });
    let signals: Vec<_> = signals.collect();
    answer(StatusCode::OK, &serde_json::json!({ "signals": signals }))
}

fn signal(asked: &Object<'_>) -> Result<Posted, Problem> {
    asked.only(&["dimension", "value", "limit"])?;
    let dimension = Dimension::named(&asked.text("dimension")?).ok_or_else(|| {
        let names = Dimension::ALL.map(Dimension::name).join(", ");
        asked.wrong("dimension", &format!("one of {names}"))
    })?;
    let value = asked.number_if_set("value")?;
    let limit = asked.number_if_set("limit")?;
    if limit.is_none() && value.is_some_and(|value| value > 1.0) {
        let detail =
            "it is missing, and a value above 1 is no share of anything; say how much there is";
        return Err(asked.bad("limit", detail.to_owned()));
    }
    Ok(Posted {
        dimension,
        // A share is one of 1.
        figures: value.map(|value| (value, limit.unwrap_or(1.0))),
    })
}
