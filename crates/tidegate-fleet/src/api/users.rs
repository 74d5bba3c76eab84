//! `/v1/users`: all sessions of one user.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::json;

use super::Api;
use super::input::Object;
use super::parts::{Asked, Budget, UserRef};
use super::problem::Problem;
use super::view::{answer, millis};

/// `GET /v1/users/{uid}/sessions`
pub(crate) async fn sessions(
    State(api): State<Arc<Api>>,
    UserRef(uid): UserRef,
    asked: Asked,
    Budget(budget): Budget,
) -> Result<Response, Problem> {
    asked.only(&[])?;
    let listed = api.desk()?.sessions_of(&uid, budget).await?;
    let listed: Vec<_> = (listed.iter())
        .map(|one| json!({ "session": one.id.to_string(), "last_used_ms": millis(one.last_used) }))
        .collect();
    Ok(answer(
        StatusCode::OK,
        &json!({ "uid": uid.as_str(), "sessions": listed }),
    ))
}

/// `POST /v1/users/{uid}/sign-out`
pub(crate) async fn sign_out(
    State(api): State<Arc<Api>>,
    UserRef(uid): UserRef,
    asked: Asked,
    Budget(budget): Budget,
    body: Bytes,
) -> Result<Response, Problem> {
    asked.only(&[])?;
    let object = Object::of_body(&body)?;
    object.only(&["except"])?;
    let except = object.session_if_set("except")?;
    let done = api
        .desk()?
        .sign_out_everywhere(&uid, except.as_ref(), budget)
        .await?;
    Ok(answer(
        StatusCode::OK,
        &json!({ "epoch": done.epoch, "ended": done.ended, "pending": done.pending }),
    ))
}
