//! The request path: one function, read from top to bottom, cheapest refusal first.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use tidegate_http::refusal::Refusal;

use crate::body::Body;
use crate::context::{Conn, Thread};

/// Answers one request.
///
/// The future may be dropped at any await: hyper does so when the client leaves.
pub async fn handle(
    thread: &Arc<Thread>,
    conn: &Conn,
    request: Request<Incoming>,
) -> Response<Body> {
    if let Err(fault) = conn.framing.next() {
        thread.recorder.bad_request(fault);
        return answer(Refusal::BadFraming, None);
    }
    drop(request);
    thread.recorder.turned_away(Refusal::NoApp);
    answer(Refusal::NoApp, None)
}

/// The answer that `refusal` has in the table.
pub fn answer(refusal: Refusal, retry_after_s: Option<u64>) -> Response<Body> {
    let mut response = Response::new(Body::full(refusal.body()));
    *response.status_mut() = refusal.status();
    *response.headers_mut() = refusal.headers(retry_after_s);
    response
}
