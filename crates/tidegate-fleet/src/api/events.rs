//! `/v1/events`: the ends of sessions, each shown to every group of listeners.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use tidegate_core::session::Name;
use tidegate_store::{Consumer, Event, EventId, Position};

use super::Api;
use super::input::Object;
use super::parts::Asked;
use super::problem::Problem;
use super::view::{answer, millis};

/// Events in one answer, and in one acknowledgement.
const EVENTS_MAX: u64 = 1000;
const EVENTS_USUAL: u64 = 100;

/// The longest wait for the first event, in milliseconds: below what balancers and clients allow.
pub(crate) const WAIT_MS_MAX: u64 = 25_000;

/// `GET /v1/events`
pub(crate) async fn next(State(api): State<Arc<Api>>, asked: Asked) -> Result<Response, Problem> {
    asked.only(&["group", "consumer", "after", "max", "wait_ms"])?;
    let most = asked.number("max", EVENTS_USUAL, EVENTS_MAX)?;
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    if most == 0 {
        return Err(Problem::invalid("max", "it must be 1 or more"));
    }
    let wait = Duration::from_millis(asked.number("wait_ms", 0, WAIT_MS_MAX)?);
    let Some(after) = asked.text("after") else {
        let consumer = Consumer {
            group: name(&asked, "group")?,
            member: name(&asked, "consumer")?,
        };
        let events = api.desk()?.events(&consumer, most, wait).await?;
        return Ok(answer(StatusCode::OK, &json!({ "events": shown(&events) })));
    };
    for key in ["group", "consumer"] {
        if asked.text(key).is_some() {
            return Err(Problem::invalid(
                key,
                "with after the reader keeps account, and not a group",
            ));
        }
    }
    let after = Position::parse(after).map_err(|why| Problem::invalid("after", why.to_string()))?;
    let (events, next) = api.desk()?.events_after(&after, most, wait).await?;
    Ok(answer(
        StatusCode::OK,
        &json!({ "events": shown(&events), "next": next.to_string() }),
    ))
}

/// `POST /v1/events/ack`
pub(crate) async fn ack(
    State(api): State<Arc<Api>>,
    asked: Asked,
    body: Bytes,
) -> Result<Response, Problem> {
    asked.only(&[])?;
    let object = Object::of_body(&body)?;
    object.only(&["group", "events"])?;
    let group = object.name("group")?;
    let most = usize::try_from(EVENTS_MAX).unwrap_or(usize::MAX);
    let events = object.texts("events", most)?;
    let events = events.iter().map(|text| EventId::parse(text));
    let events = events
        .collect::<Result<Vec<_>, _>>()
        .map_err(|why| Problem::invalid("events", why.to_string()))?;
    let acked = api.desk()?.acknowledge(&group, &events).await?;
    Ok(answer(StatusCode::OK, &json!({ "acked": acked })))
}

/// What events look like.
fn shown(events: &[Event]) -> Vec<Value> {
    let shown = events.iter().map(|event| {
        json!({
            "id": event.id.to_string(),
            "at_ms": millis(event.id.at()),
            "session": event.ended.session.to_string(),
            "uid": event.ended.uid.as_ref().map(ToString::to_string),
            "reason": event.ended.reason.name(),
        })
    });
    shown.collect()
}

fn name(asked: &Asked, key: &'static str) -> Result<Name, Problem> {
    let text = asked.text(key).ok_or_else(|| {
        Problem::invalid(
            key,
            "it must be there, or after in place of group and consumer",
        )
    })?;
    Name::new(text).map_err(|why| Problem::invalid(key, why.to_string()))
}
