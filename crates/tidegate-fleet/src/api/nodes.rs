//! `/v1/nodes`: the nodes of the fleet, for operators.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::json;
use tidegate_store::{Call, StoreError};

use super::Api;
use super::input::Object;
use super::parts::{Asked, Budget, NodeRef};
use super::problem::Problem;
use super::view::answer;
use crate::control::{Drain, Outlook, view};

/// The longest time that an order holds by itself, in milliseconds: a month. Without one it holds until it is taken back.
const DRAIN_MS_MAX: i64 = 31 * 86_400_000;

/// `GET /v1/nodes`
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    asked: Asked,
    Budget(budget): Budget,
) -> Result<Response, Problem> {
    asked.only(&[])?;
    Ok(answer(StatusCode::OK, &outlook(&api, budget).await?))
}

/// `GET /v1/nodes/{node}`
pub(crate) async fn show(
    State(api): State<Arc<Api>>,
    NodeRef(name): NodeRef,
    asked: Asked,
    Budget(budget): Budget,
) -> Result<Response, Problem> {
    asked.only(&[])?;
    let Outlook { fleet, nodes } = outlook(&api, budget).await?;
    let mut nodes = nodes.into_iter();
    let node = nodes.find(|node| node.node == name.as_str());
    let node = node.ok_or_else(|| {
        let detail = "it has not been heard of within the last minute";
        Problem::new(StatusCode::NOT_FOUND, "no_such_node", detail)
    })?;
    Ok(answer(
        StatusCode::OK,
        &json!({ "fleet": fleet, "node": node }),
    ))
}

/// `PUT /v1/nodes/{node}/drain`
pub(crate) async fn drain(
    State(api): State<Arc<Api>>,
    NodeRef(name): NodeRef,
    asked: Asked,
    Budget(budget): Budget,
    body: Bytes,
) -> Result<Response, Problem> {
    asked.only(&[])?;
    let object = Object::of_body(&body)?;
    object.only(&["by", "why", "for_ms"])?;
    let by = object.text("by")?;
    let why = object.text_if_set("why")?;
    let span = if object.has("for_ms") {
        let millis = object.integer("for_ms")?;
        if !(1..=DRAIN_MS_MAX).contains(&millis) {
            let wanted = format!("a whole number from 1 to {DRAIN_MS_MAX}");
            return Err(object.wrong("for_ms", &wanted));
        }
        Some(Duration::from_millis(millis.unsigned_abs()))
    } else {
        None
    };
    let order = Drain::encode(&by, why.as_deref());
    let ordering = api
        .nodes()?
        .order(&name, &order, span, Call::within(budget));
    if !ordering.await.map_err(away)? {
        let detail = "there are as many orders as there may be nodes: take some back";
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "too_many_orders",
            detail,
        ));
    }
    Ok(answer(
        StatusCode::OK,
        &json!({ "node": name.as_str(), "drain": true }),
    ))
}

/// `DELETE /v1/nodes/{node}/drain`
pub(crate) async fn undrain(
    State(api): State<Arc<Api>>,
    NodeRef(name): NodeRef,
    asked: Asked,
    Budget(budget): Budget,
) -> Result<Response, Problem> {
    asked.only(&[])?;
    let taking = api.nodes()?.take_order_back(&name, Call::within(budget));
    let existed = taking.await.map_err(away)?;
    Ok(answer(
        StatusCode::OK,
        &json!({ "node": name.as_str(), "drain": false, "existed": existed }),
    ))
}

async fn outlook(api: &Api, budget: Duration) -> Result<Outlook, Problem> {
    let (nodes, call) = (api.nodes()?, Call::within(budget));
    let issue = nodes.published(call).await.map_err(away)?;
    let read = nodes.beacons(call).await.map_err(away)?;
    Ok(view(issue.as_ref(), &read))
}

fn away(error: StoreError) -> Problem {
    match error {
        StoreError::Busy => Problem::away("store_busy", error.to_string()),
        other => Problem::away("store_away", other.to_string()),
    }
}
