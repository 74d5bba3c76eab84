//! The request path: one function, read from top to bottom, cheapest refusal first.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::header::EXPECT;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use tidegate_core::deadline;
use tidegate_core::facts::{Facts, RouteId};
use tidegate_core::time::Mono;
use tidegate_http::refusal::Refusal;

use crate::body::{Body, BodyError, Upload};
use crate::classify::{self, Label};
use crate::cohort;
use crate::context::{Conn, Thread};
use crate::forward;
use crate::gate::{Entry, Gate, Turned, Wait};
use crate::own;
use crate::plan::Mode;
use crate::slot::Slot;
use crate::upstream::UpstreamFailure;
use crate::upstream::exchange::{NoAnswer, exchange};

/// Answers one request.
///
/// The future may be dropped at any await: hyper does so when the client leaves. Whatever was taken
/// by then is owned by a guard.
pub async fn handle(
    thread: &Arc<Thread>,
    conn: &Conn,
    request: Request<Incoming>,
) -> Response<Body> {
    let shared = &thread.shared;
    if let Err(fault) = conn.framing.next() {
        thread.recorder.bad_request(fault);
        return answer(Refusal::BadFraming, None);
    }
    if let Some(response) = own::answer(thread, conn, &request) {
        return response;
    }

    let apps = shared.apps.iter().map(|app| &*app.plan);
    let Some(index) = classify::app_of(&request, apps) else {
        return turn_away(thread, Refusal::NoApp);
    };
    let app = &shared.apps[index];
    let now = shared.clock.now();
    let wall = || shared.clock.wall();
    let ignored = |header| thread.recorder.malformed(header);
    let label = classify::label(&request, &app.plan, conn.trusted, now, wall, ignored);
    thread.recorder.arrived(index, label.class, label.labelled);
    let visit = Visit {
        thread,
        app: index,
        label,
        conn,
    };

    let expects_continue = request.headers().contains_key(EXPECT);
    let (mut head, incoming) = request.into_parts();
    let mut upload = Upload::new(incoming, shared.plan.listener.body_timeout);
    let slot = match app.plan.mode {
        Mode::Shadow => visit.enter_shadow(now, &head.headers, &upload),
        Mode::Enforce => {
            if label.deadline <= now {
                return visit.refuse(Refusal::Expired, Duration::ZERO);
            }
            if let Some(turned) = app.gate.peek(now, label.class, label.group) {
                return visit.turned(turned);
            }
            // Asking for a body that was announced with Expect makes the client send it: a refusal
            // before that is the cheaper one, so it is left alone, and a client that leaves is only
            // seen later.
            let entered = match visit.enter(now, &head.headers, &upload) {
                Entry::Admitted(slot) => {
                    thread.recorder.admitted(index, label.class, None);
                    Ok(slot)
                }
                Entry::Refused(turned) => Err(Left::Turned(turned)),
                Entry::Waiting(wait) if expects_continue => wait.await.map_err(Left::Turned),
                Entry::Waiting(wait) => wait_and_read(wait, &mut upload, conn).await,
            };
            match entered {
                Ok(slot) => slot,
                Err(Left::Turned(turned)) => return visit.turned(turned),
                // Counted when it left the queue.
                Err(Left::Body(refusal)) => return visit.answer(refusal, Duration::ZERO),
            }
        }
    };

    forward::rewrite(&mut head, conn, &app.plan.upstream);
    forward::say_deadline(&mut head, label.deadline, slot.started());
    match exchange(slot, Request::from_parts(head, upload)).await {
        Ok(response) => {
            thread.recorder.answered(index, response.status());
            response
        }
        Err(NoAnswer::Failed(failure)) => visit.refuse(refusal_for(failure), Duration::ZERO),
        Err(NoAnswer::Client(BodyError::ClientSilent)) => {
            visit.refuse(Refusal::BodyTimeout, Duration::ZERO)
        }
        Err(NoAnswer::Client(_)) => match body_refusal(conn) {
            // It was admitted, and counted as work for a caller who had gone: as a refusal it
            // would be counted twice.
            Refusal::ClientGone => visit.answer(Refusal::ClientGone, Duration::ZERO),
            refusal => visit.refuse(refusal, Duration::ZERO),
        },
    }
}

/// The answer that `refusal` has in the table.
pub fn answer(refusal: Refusal, retry_after_s: Option<u64>) -> Response<Body> {
    let mut response = Response::new(Body::full(refusal.body()));
    *response.status_mut() = refusal.status();
    *response.headers_mut() = refusal.headers(retry_after_s);
    response
}

/// Answers a request that belongs to no application.
pub(crate) fn turn_away(thread: &Thread, refusal: Refusal) -> Response<Body> {
    thread.recorder.turned_away(refusal);
    answer(
        refusal,
        Some(thread.draw(|rng| deadline::retry_after(Duration::ZERO, rng))),
    )
}

/// A request at the door of its application.
struct Visit<'a> {
    thread: &'a Arc<Thread>,
    app: usize,
    label: Label,
    conn: &'a Conn,
}

impl Visit<'_> {
    fn facts(&self, now: Mono, headers: &HeaderMap, upload: &Upload) -> Facts {
        Facts {
            class: self.label.class,
            route: RouteId(self.label.route as u16),
            group: self.label.group,
            deadline: self.label.deadline,
            bytes: upload.bytes_kept_at_most(),
            cohort: self.cohort(now, headers),
            retry: self.label.retry,
        }
    }

    fn cohort(&self, now: Mono, headers: &HeaderMap) -> u8 {
        let shared = &self.thread.shared;
        let session = classify::session(headers, &shared.apps[self.app].plan);
        let peer = self.conn.peer.ip();
        let address = match session {
            None if self.conn.trusted => cohort::client(headers, peer, &shared.plan.trusted),
            _ => peer,
        };
        shared.cohorts.of(now, session, address)
    }

    fn enter(&self, now: Mono, headers: &HeaderMap, upload: &Upload) -> Entry {
        let facts = self.facts(now, headers, upload);
        Gate::enter(self.thread, self.app, now, facts)
    }

    fn enter_shadow(&self, now: Mono, headers: &HeaderMap, upload: &Upload) -> Slot {
        let facts = self.facts(now, headers, upload);
        let (slot, verdict) = Gate::enter_shadow(self.thread, self.app, now, facts);
        self.thread
            .recorder
            .shadow(self.app, self.label.class, verdict);
        self.thread
            .recorder
            .admitted(self.app, self.label.class, None);
        slot
    }

    fn turned(&self, turned: Turned) -> Response<Body> {
        self.refuse(turned.reason.into(), turned.drain)
    }

    fn refuse(&self, refusal: Refusal, drain: Duration) -> Response<Body> {
        let recorder = &self.thread.recorder;
        recorder.refused(self.app, self.label.class, refusal);
        self.answer(refusal, drain)
    }

    /// Answers with a refusal that is counted already.
    fn answer(&self, refusal: Refusal, drain: Duration) -> Response<Body> {
        if refusal != Refusal::ClientGone {
            let recorder = &self.thread.recorder;
            recorder.answered(self.app, refusal.status());
        }
        let seconds = refusal
            .says_when_to_retry()
            .then(|| self.thread.draw(|rng| deadline::retry_after(drain, rng)));
        answer(refusal, seconds)
    }
}

/// How a request left the queue without a slot.
enum Left {
    Turned(Turned),
    /// Its body broke off.
    Body(Refusal),
}

/// Waits for a slot and meanwhile reads the body, which is how a client that leaves is seen while
/// its body is on its way.
async fn wait_and_read(mut wait: Wait, upload: &mut Upload, conn: &Conn) -> Result<Slot, Left> {
    let entered = std::future::poll_fn(|context| {
        if let Poll::Ready(entered) = Pin::new(&mut wait).poll(context) {
            return Poll::Ready(Some(entered));
        }
        upload.poll_keep(context).map(|_| None)
    })
    .await;
    match entered {
        Some(entered) => entered.map_err(Left::Turned),
        None => {
            let refusal = body_refusal(conn);
            wait.leave_for(refusal);
            Err(Left::Body(refusal))
        }
    }
}

/// Why a body broke off: what came was none, or nothing more came.
fn body_refusal(conn: &Conn) -> Refusal {
    match conn.framing.body_fault() {
        Some(_) => Refusal::BadFraming,
        None => Refusal::ClientGone,
    }
}

fn refusal_for(failure: UpstreamFailure) -> Refusal {
    match failure {
        UpstreamFailure::Connect => Refusal::UpstreamConnect,
        UpstreamFailure::Connections => Refusal::UpstreamConnections,
        UpstreamFailure::Timeout => Refusal::UpstreamTimeout,
        UpstreamFailure::Invalid => Refusal::UpstreamInvalid,
        UpstreamFailure::Reset
        | UpstreamFailure::Broken
        | UpstreamFailure::Silent
        | UpstreamFailure::Stale => Refusal::UpstreamReset,
    }
}
