//! Permits: taken, renewed, given back.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use tidegate_core::facts::Class;
use tidegate_http::criticality;

use super::Api;
use super::input::Object;
use super::parts::{Asked, PermitRef};
use super::problem::Problem;
use super::view::answer;
use crate::permits::{PermitCall, PermitReply, PermitUsed};

/// More than anybody waits for, or holds a permit for, in milliseconds: a day.
const MILLIS_MAX: i64 = 86_400_000;

#[derive(Serialize)]
struct HeldView {
    permit: String,
    fence: u64,
    lease_ms: u64,
    hold_ms: u64,
}

#[derive(Serialize)]
struct RenewedView {
    lease_ms: u64,
}

/// `POST /v1/permits`.
pub(super) async fn acquire(State(api): State<Arc<Api>>, body: Bytes) -> Result<Response, Problem> {
    let asked = Object::of_body(&body)?;
    asked.only(&["dependency", "weight", "class", "timeout_ms", "hold_ms"])?;
    let class = class(&asked)?;
    let call = PermitCall::Acquire {
        dependency: asked.text("dependency")?,
        weight: weight(&asked)?,
        class,
        patience: millis(&asked, "timeout_ms", 0)?,
        hold: millis(&asked, "hold_ms", 1)?,
    };
    match api.permits.ask(call).await {
        PermitReply::Held {
            id,
            fence,
            lease,
            hold,
        } => {
            let view = HeldView {
                permit: id,
                fence,
                lease_ms: in_millis(lease),
                hold_ms: in_millis(hold),
            };
            Ok(answer(StatusCode::CREATED, &view))
        }
        PermitReply::TooHeavy { most } => Err(asked.bad(
            "weight",
            format!(
                "of the dependency's calls at once those of class {} never get more than {most}: write {most} or less",
                class.name()
            ),
        )),
        PermitReply::NoDependency => Err(Problem::new(
            StatusCode::NOT_FOUND,
            "no_such_dependency",
            "no [[dependency]] of the configuration has this name",
        )
        .about("dependency")),
        other => Err(refused(&other)),
    }
}

/// `POST /v1/permits/{permit}/renew`.
pub(super) async fn renew(
    State(api): State<Arc<Api>>,
    PermitRef(id): PermitRef,
    body: Bytes,
) -> Result<Response, Problem> {
    Object::of_body(&body)?.only(&[])?;
    match api.permits.ask(PermitCall::Renew { id }).await {
        PermitReply::Renewed { lease } => {
            let view = RenewedView {
                lease_ms: in_millis(lease),
            };
            Ok(answer(StatusCode::OK, &view))
        }
        other => Err(refused(&other)),
    }
}

/// `DELETE /v1/permits/{permit}`.
pub(super) async fn release(
    State(api): State<Arc<Api>>,
    PermitRef(id): PermitRef,
    asked: Asked,
) -> Result<Response, Problem> {
    asked.only(&["outcome"])?;
    let used = match asked.text("outcome") {
        None => PermitUsed::Unknown,
        Some("ok") => PermitUsed::Answered,
        Some("failed") => PermitUsed::Failed,
        Some("timeout") => PermitUsed::TimedOut,
        Some(_) => {
            let detail = "it must be ok, failed or timeout";
            return Err(Problem::invalid("outcome", detail));
        }
    };
    match api.permits.ask(PermitCall::Release { id, used }).await {
        PermitReply::Released => Ok(StatusCode::NO_CONTENT.into_response()),
        other => Err(refused(&other)),
    }
}

fn refused(reply: &PermitReply) -> Problem {
    match *reply {
        PermitReply::Refused {
            status,
            reason,
            retry_after_s,
        } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            let detail = "the call is not to be made now; go on without it";
            Problem::new(status, reason, detail).again_after(retry_after_s)
        }
        PermitReply::Away => Problem::away("starting", "the gateway is not there yet, or ends"),
        _ => Problem::new(
            StatusCode::NOT_FOUND,
            "no_such_permit",
            "it was given back, or its lease has passed",
        ),
    }
}

fn weight(asked: &Object<'_>) -> Result<NonZeroU32, Problem> {
    if !asked.has("weight") {
        return Ok(NonZeroU32::MIN);
    }
    let weight = u32::try_from(asked.integer("weight")?).ok();
    let weight = weight.and_then(NonZeroU32::new);
    weight.ok_or_else(|| asked.wrong("weight", "a whole number from 1 on"))
}

fn class(asked: &Object<'_>) -> Result<Class, Problem> {
    let Some(text) = asked.text_if_set("class")? else {
        return Ok(Class::Anonymous);
    };
    let class = criticality::parse(text.as_bytes());
    let names = Class::ALL.map(Class::name).join(", ");
    class.ok_or_else(|| asked.wrong("class", &format!("one of {names}")))
}

fn millis(asked: &Object<'_>, name: &str, least: i64) -> Result<Option<Duration>, Problem> {
    if !asked.has(name) {
        return Ok(None);
    }
    let millis = asked.integer(name)?;
    if !(least..=MILLIS_MAX).contains(&millis) {
        let wanted = format!("a whole number from {least} to {MILLIS_MAX}");
        return Err(asked.wrong(name, &wanted));
    }
    Ok(u64::try_from(millis).ok().map(Duration::from_millis))
}

fn in_millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
