//! Requests that Tidegate answers from its own state, beside every limit.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tidegate_http::refusal::Refusal;
use tidegate_http::verdict::{self, Monitor};

use crate::body::Body;
use crate::context::{Conn, Shared, Thread};
use crate::request::turn_away;

/// Everything below this is ours and never forwarded.
const OWN_PREFIX: &str = "/.tidegate";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// Whether the process does anything.
    Alive,
    /// Whether it wants new requests.
    Ready,
    /// How much of its share the node should have.
    Verdict,
    /// Something that we do not have.
    Unknown,
    /// Something that we have, but not by this method.
    Method,
}

/// The answer to a request for one of our own paths or a configured probe path; `None` when the
/// request is for an application.
///
/// A connection over the cap is for these paths only: there, everything else is refused.
pub fn answer(thread: &Thread, conn: &Conn, request: &Request<Incoming>) -> Option<Response<Body>> {
    let shared = &thread.shared;
    let Some(own) = recognise(
        &shared.plan.probes.paths,
        request.method(),
        request.uri().path(),
    ) else {
        return conn
            .overflow
            .then(|| turn_away(thread, Refusal::Connections));
    };
    if !conn.probe && !shared.health.take_probe(shared.clock.now()) {
        return Some(turn_away(thread, Refusal::ProbeCap));
    }
    Some(match own {
        // That this runs is the answer.
        Own::Alive => state(shared, StatusCode::OK),
        Own::Ready if shared.is_draining() => state(shared, StatusCode::SERVICE_UNAVAILABLE),
        Own::Ready => state(shared, StatusCode::OK),
        Own::Verdict => verdict_answer(shared, request.uri().query()).map(Body::full),
        Own::Unknown => turn_away(thread, Refusal::NoApp),
        Own::Method => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            response
        }
    })
}

/// What the process is up to, in JSON: `state` is `ready` or `draining`.
pub(crate) fn state_json(shared: &Shared) -> Bytes {
    Bytes::from_static(match (shared.is_draining(), shared.health.is_shedding()) {
        (false, false) => b"{\"state\":\"ready\",\"shedding\":false}\n",
        (false, true) => b"{\"state\":\"ready\",\"shedding\":true}\n",
        (true, false) => b"{\"state\":\"draining\",\"shedding\":false}\n",
        (true, true) => b"{\"state\":\"draining\",\"shedding\":true}\n",
    })
}

/// What balancers are told of this node. One that drains says so, whatever its verdict; a process that carries nothing
/// ends without the node.
pub(crate) fn verdict_answer(shared: &Shared, query: Option<&str>) -> Response<Bytes> {
    let mut verdict = shared.board.current();
    verdict.drain |= shared.is_draining() && !shared.apps.is_empty();
    verdict::answer(&verdict, Monitor::asked(query))
}

fn recognise(probe_paths: &[String], method: &Method, path: &str) -> Option<Own> {
    let reads = method == Method::GET || method == Method::HEAD;
    if let Some(rest) = path.strip_prefix(OWN_PREFIX) {
        let own = match rest {
            "/healthz" => Some(Own::Alive),
            "/readyz" => Some(Own::Ready),
            "/verdict" => Some(Own::Verdict),
            _ if rest.is_empty() || rest.starts_with('/') => Some(Own::Unknown),
            _ => None,
        };
        return own.map(|own| {
            if reads || own == Own::Unknown {
                own
            } else {
                Own::Method
            }
        });
    }
    // A probe only reads; the application may have other uses for the same path.
    (reads && probe_paths.iter().any(|probe| probe == path)).then_some(Own::Ready)
}

fn state(shared: &Shared, status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::full(state_json(shared)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_is_never_the_applications() {
        let probes = ["/health".to_owned()];
        let get = |path| recognise(&probes, &Method::GET, path);

        assert_eq!(get("/.tidegate/healthz"), Some(Own::Alive));
        assert_eq!(get("/.tidegate/readyz"), Some(Own::Ready));
        assert_eq!(get("/.tidegate/verdict"), Some(Own::Verdict));
        assert_eq!(get("/health"), Some(Own::Ready));
        assert_eq!(get("/.tidegate"), Some(Own::Unknown));
        assert_eq!(get("/.tidegate/"), Some(Own::Unknown));
        assert_eq!(get("/.tidegate/readyz/"), Some(Own::Unknown));
        assert_eq!(get("/.tidegates"), None);
        assert_eq!(get("/health/"), None);
        assert_eq!(get("/"), None);
    }

    #[test]
    fn probes_only_read() {
        let probes = ["/health".to_owned()];
        let post = |path| recognise(&probes, &Method::POST, path);

        assert_eq!(post("/.tidegate/readyz"), Some(Own::Method));
        assert_eq!(post("/.tidegate/verdict"), Some(Own::Method));
        assert_eq!(post("/.tidegate/x"), Some(Own::Unknown));
        assert_eq!(post("/health"), None);
        assert_eq!(
            recognise(&probes, &Method::HEAD, "/health"),
            Some(Own::Ready)
        );
    }
}
