//! `/v1/nodes`: the nodes of the fleet, for operators.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::json;
use tidegate_core::session::Name;
use tidegate_store::{Call, StoreError};

use super::Api;
use super::input::Object;
use super::parts::{Asked, Budget, NodeRef};
use super::problem::Problem;
use super::view::answer;
use crate::control::{Drain, NodeView, Outlook, view};

/// The longest time that an order holds by itself, in milliseconds: a month. Without one it holds until it is taken back.
const DRAIN_MS_MAX: i64 = 31 * 86_400_000;
/// Nodes that are named of those that remain.
const REMAINING_MAX: usize = 5;
/// Names that are said to be like one that there is not.
const SIMILAR_MAX: usize = 3;
/// From this likeness on, of 1.
const LIKENESS_MIN: f64 = 0.7;

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
    let node = known(&name, &nodes)?;
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
    object.only(&["by", "why", "for_ms", "force"])?;
    let by = object.text("by")?;
    Drain::check_by(&by).map_err(|bad| object.bad("by", bad.to_string()))?;
    let why = object.text_if_set("why")?;
    if let Some(why) = &why {
        Drain::check_why(why).map_err(|bad| object.bad("why", bad.to_string()))?;
    }
    let is_forced = object.switch_if_set("force")?.unwrap_or(false);
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
    if !is_forced {
        // An order for a misspelt name would wait for ever for a node that never comes.
        let outlook = outlook(&api, budget).await?;
        enough_remains(known(&name, &outlook.nodes)?, &outlook)?;
    }
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
    // At once: a store that is away is waited for once.
    let (issue, read) = tokio::join!(nodes.published(call), nodes.beacons(call));
    let (issue, read) = (issue.map_err(away)?, read.map_err(away)?);
    Ok(view(issue.as_ref(), &read))
}

/// Whether somebody with room remains when `node` is drained. Who is silent or drained already has nothing that others
/// would have to take, and the last node is never drained.
fn enough_remains(node: &NodeView, outlook: &Outlook) -> Result<(), Problem> {
    let carries = node.beacon_age_ms.is_some() && node.drain.is_none();
    let remains = outlook.without(&node.node);
    if !carries || remains.is_empty() || remains.iter().any(|other| other.has_room()) {
        return Ok(());
    }
    let named = remains.iter().take(REMAINING_MAX).map(|other| {
        let left = other
            .headroom
            .map(|left| format!(", {:.0} % left", left * 100.0));
        format!("{}{}", other.node, left.unwrap_or_default())
    });
    let named: Vec<String> = named.collect();
    let more = match remains.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let detail = format!(
        "what remains is {}{more}: none of it has room",
        named.join("; ")
    );
    Err(Problem::new(StatusCode::CONFLICT, "no_room_left", detail))
}

/// The node of this name, or why there is none, with names that may have been meant.
fn known<'n>(name: &Name, nodes: &'n [NodeView]) -> Result<&'n NodeView, Problem> {
    let found = nodes.iter().find(|node| node.node == name.as_str());
    found.ok_or_else(|| {
        let similar = similar(name.as_str(), nodes);
        let meant = match &similar[..] {
            [] => String::new(),
            similar => format!("; there is {}", similar.join(", ")),
        };
        let detail = format!("node {name} has not been heard of within the last minute{meant}");
        Problem::new(StatusCode::NOT_FOUND, "no_such_node", detail).with("similar", json!(similar))
    })
}

/// The names that are most like `name`, best first.
fn similar<'n>(name: &str, nodes: &'n [NodeView]) -> Vec<&'n str> {
    let name = name.to_lowercase();
    let mut likely: Vec<(f64, &str)> = (nodes.iter())
        .map(|node| {
            let likeness = strsim::jaro_winkler(&name, &node.node.to_lowercase());
            (likeness, node.node.as_str())
        })
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .collect();
    likely.sort_by(|one, other| other.0.total_cmp(&one.0));
    likely.truncate(SIMILAR_MAX);
    likely.into_iter().map(|(_, name)| name).collect()
}

fn away(error: StoreError) -> Problem {
    match error {
        StoreError::Busy => Problem::away("store_busy", error.to_string()),
        other => Problem::away("store_away", other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Drained;

    fn node(name: &str, state: &'static str, left: Option<f64>) -> NodeView {
        NodeView {
            node: name.to_owned(),
            state,
            source: "control",
            weight: 100,
            headroom: left,
            dimension: None,
            value: None,
            limit: None,
            binding_for_ms: None,
            for_ms: None,
            confidence: None,
            guard: None,
            beacon_age_ms: Some(100),
            silent_for_ms: None,
            inflight: None,
            completed_rps: None,
            error_ratio: None,
            release: None,
            drain: None,
        }
    }

    /// Why the first of `nodes` is not drained, if so.
    fn refusal(nodes: &[NodeView]) -> Option<String> {
        let outlook = Outlook {
            fleet: None,
            nodes: nodes.to_vec(),
        };
        let refused = enough_remains(&outlook.nodes[0], &outlook).err()?;
        Some(format!("{refused:?}"))
    }

    #[test]
    fn the_last_node_with_room_is_not_drained_without_a_word() {
        let healthy = node("n1", "healthy", Some(0.8));
        let full = node("n2", "saturated", Some(0.004));
        let drained = NodeView {
            drain: Some(Drained {
                by: "kim".to_owned(),
                why: None,
                since_ms: None,
                left_ms: None,
                is_done: true,
            }),
            ..node("n3", "drained", Some(1.0))
        };
        let silent = NodeView {
            beacon_age_ms: None,
            ..node("n4", "unknown", None)
        };

        let said = refusal(&[
            healthy.clone(),
            full.clone(),
            drained.clone(),
            silent.clone(),
        ]);
        let said = said.unwrap();
        assert!(
            said.contains("what remains is n2, 0 % left: none"),
            "{said}"
        );
        let many: Vec<NodeView> = std::iter::once(healthy.clone())
            .chain((2..10).map(|number| node(&format!("n{number}"), "saturated", None)))
            .collect();
        let said = refusal(&many).unwrap();
        assert!(said.contains("n2; n3; n4; n5; n6 and 3 more"), "{said}");

        let other = node("n5", "stressed", Some(0.3));
        assert_eq!(refusal(&[healthy.clone(), full.clone(), other]), None);
        assert_eq!(
            refusal(&[healthy.clone(), silent.clone()]),
            None,
            "the last"
        );
        assert_eq!(refusal(&[silent, full.clone()]), None, "it carries nothing");
        assert_eq!(
            refusal(&[drained, full]),
            None,
            "it carries nothing any more"
        );
    }
}
