//! The API: one table of paths, and what each of them does.

mod blobs;
mod events;
mod input;
mod nodes;
mod parts;
mod permits;
mod problem;
mod sessions;
mod signals;
mod users;
mod view;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use tidegate_store::Fleet;
use tidegate_store::desk::Desk;

use crate::agent::Board;
use crate::mint::Mint;
use crate::permits::PermitDoor;

pub(crate) use events::WAIT_MS_MAX;
pub(crate) use problem::Problem;

/// The description of this API in its own words, for people and for generators of clients.
const OPENAPI: &str = include_str!("openapi.json");

/// Where ends of sessions are waited for.
pub(crate) const EVENTS_PATH: &str = "/v1/events";

/// The calls that `Idempotency-Key` makes one call, however often they are sent.
const KEYED: [(&str, &str); 2] = [
    ("patch", "/v1/sessions/{session}"),
    ("put", "/v1/sessions/{session}/blobs/{name}"),
];

/// What the handlers work with.
pub(crate) struct Api {
    /// Where sessions are kept, if they are, and where their ids come from.
    sessions: Option<(Desk, Mint)>,
    permits: PermitDoor,
    /// What applications post of themselves.
    board: Board,
    /// Where the nodes of the fleet are known, if they are.
    nodes: Option<Fleet>,
    /// Longest time for an answer.
    timeout: Duration,
}

/// One path: its pattern, its methods, and what handles them.
type Route = (
    &'static str,
    &'static [&'static str],
    MethodRouter<Arc<Api>>,
);

impl Api {
    /// The API over what keeps sessions and what knows nodes, if anything does, over what gives permits, and where readings
    /// are put.
    pub(crate) const fn new(
        sessions: Option<(Desk, Mint)>,
        permits: PermitDoor,
        nodes: Option<Fleet>,
        board: Board,
        timeout: Duration,
    ) -> Self {
        Self {
            sessions,
            permits,
            board,
            nodes,
            timeout,
        }
    }

    fn desk(&self) -> Result<&Desk, Problem> {
        Ok(&self.sessions()?.0)
    }

    fn mint(&self) -> Result<&Mint, Problem> {
        Ok(&self.sessions()?.1)
    }

    fn sessions(&self) -> Result<&(Desk, Mint), Problem> {
        self.sessions.as_ref().ok_or_else(|| {
            Problem::new(
                StatusCode::NOT_FOUND,
                "no_sessions",
                "the configuration has no section [sessions]",
            )
        })
    }

    fn nodes(&self) -> Result<&Fleet, Problem> {
        self.nodes.as_ref().ok_or_else(|| {
            Problem::new(
                StatusCode::NOT_FOUND,
                "no_nodes",
                "this process knows no fleet: it has no beacons to read",
            )
        })
    }

    /// Every path with its handler.
    pub(crate) fn router(self) -> Router {
        let mut router = Router::new();
        for (path, _, handlers) in routes() {
            let heed = from_fn(move |request, next| heed_key(path, request, next));
            router = router.route(path, handlers.layer(heed));
        }
        // Bodies are read and bounded before a handler sees them.
        router
            .layer(DefaultBodyLimit::disable())
            .fallback(no_such_path)
            .method_not_allowed_fallback(no_such_method)
            .with_state(Arc::new(self))
    }
}

/// The table of paths.
fn routes() -> Vec<Route> {
    vec![
        ("/v1/sessions", &["post"], post(sessions::create)),
        (
            "/v1/sessions/{session}",
            &["get", "patch", "delete"],
            get(sessions::show)
                .patch(sessions::patch)
                .merge(delete(sessions::destroy)),
        ),
        (
            "/v1/sessions/{session}/rotate",
            &["post"],
            post(sessions::rotate),
        ),
        (
            "/v1/sessions/{session}/blobs/{name}",
            &["get", "put"],
            get(blobs::show).merge(put(blobs::put)),
        ),
        ("/v1/users/{uid}/sessions", &["get"], get(users::sessions)),
        ("/v1/users/{uid}/sign-out", &["post"], post(users::sign_out)),
        (EVENTS_PATH, &["get"], get(events::next)),
        ("/v1/events/ack", &["post"], post(events::ack)),
        ("/v1/nodes", &["get"], get(nodes::list)),
        ("/v1/nodes/{node}", &["get"], get(nodes::show)),
        (
            "/v1/nodes/{node}/drain",
            &["put", "delete"],
            put(nodes::drain).merge(delete(nodes::undrain)),
        ),
        ("/v1/permits", &["post"], post(permits::acquire)),
        (
            "/v1/permits/{permit}",
            &["delete"],
            delete(permits::release),
        ),
        (
            "/v1/permits/{permit}/renew",
            &["post"],
            post(permits::renew),
        ),
        (
            "/v1/signals",
            &["get", "post"],
            get(signals::show).merge(post(signals::post)),
        ),
        ("/v1/openapi.json", &["get"], get(openapi)),
    ]
}

/// Refuses a key where a call that is sent again would be done again all the same: whoever sends one
/// relies on it. Reading changes nothing, so there it does no harm.
async fn heed_key(path: &'static str, request: Request, next: Next) -> Result<Response, Problem> {
    let method = request.method();
    let is_harmless = matches!(*method, Method::GET | Method::HEAD);
    let is_keyed = KEYED
        .iter()
        .any(|(keyed, of)| *of == path && method.as_str().eq_ignore_ascii_case(keyed));
    if !is_harmless && !is_keyed && request.headers().contains_key(sessions::IDEMPOTENCY_KEY) {
        let keyed = KEYED.map(|(method, path)| format!("{} {path}", method.to_uppercase()));
        return Err(Problem::invalid(
            "Idempotency-Key",
            format!(
                "this call would be done again each time it is sent; only {} take a key",
                keyed.join(" and ")
            ),
        ));
    }
    Ok(next.run(request).await)
}

async fn openapi() -> Response {
    let mut response = OPENAPI.into_response();
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

async fn no_such_path() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_such_path",
        "there is no such path; /v1/openapi.json describes those that there are",
    )
}

async fn no_such_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "no_such_method",
        "the path has no such method; /v1/openapi.json describes those that it has",
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_openapi_document_describes_every_path_and_no_other() {
        let document: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys() {
                if method != "parameters" {
                    described.insert(format!("{method} {path}"));
                }
            }
        }

        let served: BTreeSet<String> = routes()
            .iter()
            .flat_map(|(path, methods, _)| {
                methods.iter().map(move |method| format!("{method} {path}"))
            })
            .collect();

        assert_eq!(described, served);
    }

    #[test]
    fn the_openapi_document_says_which_calls_take_a_key() {
        let document: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, call) in methods.as_object().unwrap() {
                if call["parameters"].to_string().contains("IdempotencyKey") {
                    described.insert((method.as_str(), path.as_str()));
                }
            }
        }

        assert_eq!(described, BTreeSet::from(KEYED));
    }

    #[test]
    fn every_reference_in_the_openapi_document_leads_somewhere() {
        let document: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        let mut ahead = vec![&document];
        let mut references = 0;
        while let Some(value) = ahead.pop() {
            match value {
                serde_json::Value::Object(members) => {
                    if let Some(target) = members.get("$ref").and_then(|target| target.as_str()) {
                        references += 1;
                        let pointer = target.strip_prefix('#').unwrap();
                        assert!(document.pointer(pointer).is_some(), "{target}");
                    }
                    ahead.extend(members.values());
                }
                serde_json::Value::Array(items) => ahead.extend(items),
                _ => {}
            }
        }
        assert!(references > 10);
    }
}
