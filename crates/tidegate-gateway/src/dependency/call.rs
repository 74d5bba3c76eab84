//! A call through the egress: one function, read from top to bottom.

use std::num::NonZeroU32;
use std::sync::Arc;

use http::{HeaderMap, Method, Request, Response};
use hyper::body::Incoming;
use tidegate_core::facts::{Class, Facts, GroupId, RouteId};
use tidegate_core::time::Mono;
use tidegate_http::criticality;
use tidegate_http::names::TIDEGATE_CLASS;
use tidegate_http::refusal::Refusal;
use tokio::time::timeout_at;

use super::Dependency;
use super::enter::{Entered, NoEntry, enter};
use crate::body::{Body, BodyError, Upload};
use crate::classify::{self, Malformed};
use crate::context::Thread;
use crate::forward;
use crate::request::{answer, body_refusal};
use crate::upstream::UpstreamFailure;
use crate::upstream::exchange::{NoAnswer, exchange};
use tidegate_http::framing::FramingLog;

/// Makes the call `request` to the dependency at `at`, or answers why not.
///
/// The future may be dropped at any await. Whatever was taken by then is owned by a guard.
pub(super) async fn call(
    thread: &Arc<Thread>,
    at: usize,
    framing: &FramingLog,
    request: Request<Incoming>,
) -> Response<Body> {
    let shared = &thread.shared;
    let dependency = &shared.dependencies[at];
    if let Err(fault) = framing.next() {
        thread.recorder.bad_request(fault);
        return answer(Refusal::BadFraming, None);
    }
    let (mut head, incoming) = request.into_parts();
    if head.method == Method::CONNECT {
        thread.recorder.turned_away(Refusal::BadFraming);
        return answer(Refusal::BadFraming, None);
    }
    let now = shared.clock.now();
    let upload = Upload::new(incoming, dependency.plan.app.upstream.body_timeout);
    let facts = facts(thread, dependency, now, &head.headers, &upload);
    let app = dependency.app;
    thread.recorder.arrived(app, facts.class, true);

    let finish = |response: Response<Body>| {
        thread.recorder.answered(app, response.status());
        response
    };
    let Entered { slots, mut token } = match enter(thread, at, now, facts, NonZeroU32::MIN).await {
        Ok(entered) => entered,
        Err(NoEntry {
            refusal,
            retry_after_s,
        }) => return finish(answer(refusal, Some(retry_after_s))),
    };
    let refuse = |refusal| {
        thread.recorder.refused(app, facts.class, refusal);
        let seconds =
            thread.draw(|rng| tidegate_core::deadline::retry_after(std::time::Duration::ZERO, rng));
        finish(answer(refusal, Some(seconds)))
    };

    let slot = slots
        .into_iter()
        .next()
        .expect("whoever entered has a slot");
    forward::rewrite_outward(&mut head, &dependency.plan.app.upstream);
    forward::say_deadline(&mut head, facts.deadline, slot.sent());
    token.made(true);
    let due = shared.clock.instant(facts.deadline);
    let request = Request::from_parts(head, upload);
    match timeout_at(due, exchange(slot, request, None)).await {
        Ok(Ok(made)) => finish(made.response),
        Ok(Err(no_answer)) => {
            token.made(!no_answer.came_before_sending());
            match no_answer {
                NoAnswer::Failed(failure) => refuse(Refusal::from(failure)),
                NoAnswer::Client(BodyError::ClientSilent) => refuse(Refusal::BodyTimeout),
                NoAnswer::Client(_) => match body_refusal(framing) {
                    // It was counted as work for a caller who had gone, and nobody hears the answer.
                    Refusal::ClientGone => answer(Refusal::ClientGone, None),
                    refusal => refuse(refusal),
                },
            }
        }
        // The exchange goes on without its caller for as long as the dependency works.
        Err(_) => {
            let recorder = &thread.recorder;
            recorder.upstream_failed(app, UpstreamFailure::Timeout);
            refuse(Refusal::UpstreamTimeout)
        }
    }
}

/// What is known of a call as it comes. Whoever reaches the listener is on this machine and is believed.
fn facts(
    thread: &Thread,
    dependency: &Dependency,
    now: Mono,
    headers: &HeaderMap,
    upload: &Upload,
) -> Facts {
    let mut ignored = |header| thread.recorder.malformed(header);
    let said = headers.get(TIDEGATE_CLASS).map(|value| {
        let class = criticality::parse(value.as_bytes());
        if class.is_none() {
            ignored(Malformed::Class);
        }
        class
    });
    let plan = &dependency.plan;
    // One that says nothing waits as long as a call may take: the wait for its turn, and then for the answer.
    let usual = plan.wait_max + plan.app.upstream.response_timeout;
    Facts {
        class: said.flatten().unwrap_or(Class::Anonymous),
        route: RouteId(0),
        group: GroupId(0),
        deadline: now + classify::patience(headers, true, usual, &mut ignored).min(usual),
        bytes: upload.bytes_kept_at_most(),
        cohort: 0,
        retry: classify::is_retry(headers, &mut ignored),
    }
}
