//! One request sent, one answer read.
//!
//! The exchange runs inside the request's own future, so that most requests cost no task. Should
//! that future be dropped, or a timeout fire, what is left of the exchange moves to a task of its
//! own, because the application goes on working whether anybody waits or not.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::response::Parts;
use http::{Request, Response, StatusCode, Version};
use http_body::Frame;
use tidegate_http::hops;
use tokio::time::Instant;

use super::UpstreamFailure;
use super::connection::{Connection, Lost};
use super::held::Held;
use super::sending::Sending;
use crate::body::{Body, BodyError, Progress, Upload, pipe};
use crate::plan::UpstreamPlan;
use crate::session::{Known, Orders};
use crate::slot::Slot;

/// How often an answer is looked at, one turn of the runtime apart, before it is given to a task.
/// The rest of one that comes in several writes is often there with the next turn.
const TURNS_MAX: u32 = 2;

/// Bytes of an answer that are read before it is given to a task, whatever is there.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Why there is no answer to pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The application, or the way to it, failed.
    Failed(UpstreamFailure),
    /// The client did not send its body.
    Client(BodyError),
}

impl NoAnswer {
    /// Whether the application was sent nothing, as there was no connection for it.
    pub(crate) const fn came_before_sending(self) -> bool {
        matches!(
            self,
            Self::Failed(UpstreamFailure::Connect | UpstreamFailure::Connections)
        )
    }
}

/// An answer to pass on.
pub(crate) struct Answer {
    /// What the client gets.
    pub(crate) response: Response<Body>,
    /// What the application wants to have done.
    pub(crate) orders: Orders,
}

/// The state of an exchange whose answer has not begun; `None` once it has.
struct Exchange {
    held: Option<Held>,
}

/// Sends `request` of `holder` in `slot` and answers with what the application says. What comes back
/// as an error has been counted, and the slot with it.
pub(crate) async fn exchange(
    mut slot: Slot,
    request: Request<Upload>,
    holder: Option<Arc<Known>>,
) -> Result<Answer, NoAnswer> {
    let upstream = Arc::clone(&slot.thread().shared.apps[slot.app()].upstream);
    let lane = slot.thread().index;
    let progress = request.body().progress();

    let sending = Sending::new(request);
    let connection = match upstream.acquire(lane, slot.sent()).await {
        Ok(connection) => connection,
        Err(failure) => return Err(slot_failed(slot, failure)),
    };
    let first = Exchange::begin(slot, connection, sending, progress.clone(), holder.clone());
    match first.answer(upstream.plan()).await {
        Ok((held, head)) => pass_on(held, head).await,
        Err(Failed::For(reason)) => Err(reason),
        // A kept connection was closed before anything was sent on it. Once more on one that was
        // never idle; whatever happens then happens.
        Err(Failed::Unsent(unsent)) => {
            let (unsent_slot, unsent) = *unsent;
            slot = unsent_slot;
            slot.thread()
                .recorder
                .upstream_failed(slot.app(), UpstreamFailure::Stale);
            let connection = match upstream.acquire_fresh(lane).await {
                Ok(connection) => connection,
                Err(failure) => return Err(slot_failed(slot, failure)),
            };
            let second = Exchange::begin(slot, connection, unsent, progress, holder);
            match second.answer(upstream.plan()).await {
                Ok((held, head)) => pass_on(held, head).await,
                Err(Failed::For(reason)) => Err(reason),
                Err(Failed::Unsent(unsent)) => Err(slot_failed(unsent.0, UpstreamFailure::Reset)),
            }
        }
    }
}

fn slot_failed(mut slot: Slot, failure: UpstreamFailure) -> NoAnswer {
    slot.failed(failure);
    NoAnswer::Failed(failure)
}

/// Why an answer has not begun.
enum Failed {
    /// Nothing was sent.
    Unsent(Box<(Slot, Sending)>),
    For(NoAnswer),
}

impl Exchange {
    fn begin(
        slot: Slot,
        mut connection: Connection,
        sending: Sending,
        progress: Option<Arc<Progress>>,
        holder: Option<Arc<Known>>,
    ) -> Self {
        connection.begin(sending);
        Self {
            held: Some(Held::new(slot, connection, progress, holder)),
        }
    }

    /// Waits for the head of the answer.
    async fn answer(mut self, plan: &UpstreamPlan) -> Result<(Held, Parts), Failed> {
        let held = self
            .held
            .as_mut()
            .expect("an exchange begins with everything");
        let mut due = Instant::now() + plan.response_timeout;
        let sent = loop {
            match tokio::time::timeout_at(due, held.head()).await {
                Ok(sent) => break sent,
                Err(_) => match held.head_due(plan.response_timeout) {
                    Some(later) if later > due => due = later,
                    _ => {
                        held.slot.told_off();
                        // Dropping the exchange keeps the slot for as long as it is in use.
                        return Err(Failed::For(NoAnswer::Failed(UpstreamFailure::Timeout)));
                    }
                },
            }
        };

        let mut held = self.held.take().expect("nobody else takes it");
        match sent {
            // Nobody asked for the former: the request's Upgrade went no further than here.
            Ok(head)
                if head.status == StatusCode::SWITCHING_PROTOCOLS
                    || hops::is_coded_otherwise(&head.headers) =>
            {
                held.fail(UpstreamFailure::Invalid);
                Err(Failed::For(NoAnswer::Failed(UpstreamFailure::Invalid)))
            }
            Ok(head) => {
                let now = held.slot.thread().shared.clock.now();
                held.slot.first_byte(now, head.status);
                Ok((held, head))
            }
            Err(Lost::Unsent) => match held.take_back() {
                (slot, Some(sending)) => Err(Failed::Unsent(Box::new((slot, sending)))),
                (slot, None) => Err(Failed::For(slot_failed(slot, UpstreamFailure::Reset))),
            },
            Err(lost) => Err(Failed::For(held.no_answer(lost))),
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Some(mut held) = self.held.take() else {
            return;
        };
        held.slot.caller_gone();
        held.leave();
    }
}

/// Passes an answer on whose head is here: whole if all of it is here as well, otherwise through a
/// pipe that a task fills.
async fn pass_on(mut held: Held, mut head: Parts) -> Result<Answer, NoAnswer> {
    let stripped = hops::strip_response(&mut head.headers);
    held.keep_connection(head.version, stripped.persistence);
    let orders = Orders::new(stripped.commands, held.take_holder());
    // hyper speaks to each client in the version that the client spoke.
    head.version = Version::HTTP_11;
    head.extensions.clear();

    let body = Reading(Some((held, VecDeque::new()))).body().await?;
    let response = Response::from_parts(head, body);
    Ok(Answer { response, orders })
}

/// An answer that is being read. Dropped before its end, it goes on without its client.
struct Reading(Option<(Held, VecDeque<Frame<Bytes>>)>);

/// What a look at the answer has found.
enum Found {
    End,
    Some,
    Nothing,
    Broken,
}

impl Reading {
    async fn body(mut self) -> Result<Body, NoAnswer> {
        let mut found = Found::Some;
        for turn in 0..TURNS_MAX {
            if turn > 0 {
                tokio::task::yield_now().await;
            }
            found = self.read_what_is_there().await;
            // Without anything new another turn would hardly bring the end.
            if !matches!(found, Found::Some) || self.bytes() >= INLINE_BYTES_MAX {
                break;
            }
        }

        let (mut held, frames) = self.0.take().expect("an answer is taken once");
        match found {
            Found::End => {
                held.finish();
                Ok(whole(frames))
            }
            // Nothing of it has been passed on, so an error can still say so.
            Found::Broken => {
                held.fail(UpstreamFailure::Broken);
                Err(NoAnswer::Failed(UpstreamFailure::Broken))
            }
            Found::Some | Found::Nothing => {
                held.slot.goes_on();
                let thread = Arc::clone(held.slot.thread());
                let upstream = &thread.shared.apps[held.slot.app()].upstream;
                let (writer, reader) = pipe::pipe(&upstream.buffers, frames);
                thread.runtime.spawn(held.pump(writer));
                Ok(Body::Piped(reader))
            }
        }
    }

    fn bytes(&self) -> usize {
        let frames = self.0.iter().flat_map(|(_, frames)| frames);
        frames.filter_map(Frame::data_ref).map(Bytes::len).sum()
    }

    /// Reads what can be had without waiting.
    async fn read_what_is_there(&mut self) -> Found {
        let (held, frames) = self.0.as_mut().expect("it is taken after the last look");
        if held.is_end() {
            return Found::End;
        }
        let before = frames.len();
        let mut bytes = 0;
        std::future::poll_fn(|context| {
            loop {
                match held.poll_frame(context) {
                    Poll::Ready(Some(Ok(frame))) => {
                        bytes += frame.data_ref().map_or(0, Bytes::len);
                        frames.push_back(frame);
                        if held.is_end() {
                            return Poll::Ready(Found::End);
                        }
                        if bytes >= INLINE_BYTES_MAX {
                            return Poll::Ready(Found::Some);
                        }
                    }
                    Poll::Ready(None) => return Poll::Ready(Found::End),
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(Found::Broken),
                    Poll::Pending if frames.len() > before => return Poll::Ready(Found::Some),
                    Poll::Pending => return Poll::Ready(Found::Nothing),
                }
            }
        })
        .await
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let Some((mut held, _)) = self.0.take() else {
            return;
        };
        held.slot.caller_gone();
        held.leave_inside();
    }
}

/// The body of an answer that is all there.
fn whole(mut frames: VecDeque<Frame<Bytes>>) -> Body {
    if frames.len() > 1 {
        return Body::Parts(frames);
    }
    match frames.pop_front().map(Frame::into_data) {
        None => Body::empty(),
        Some(Ok(bytes)) => Body::full(bytes),
        Some(Err(trailers)) => Body::Parts(VecDeque::from([trailers])),
    }
}
