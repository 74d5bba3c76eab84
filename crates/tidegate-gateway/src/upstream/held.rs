//! A slot together with the connection that its request went out on, until the answer has ended.
//!
//! When nobody waits for the answer any more, a blocking worker goes on all the same. The slot then
//! stays taken until the worker has finished, or may be taken to have: its connection is closed.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http::response::Parts;
use http_body::Frame;
use tidegate_http::hops::{self, Persistence};
use tokio::time::Instant;

use super::UpstreamFailure;
use super::connection::{Connection, Lost};
use super::exchange::NoAnswer;
use super::sending::Sending;
use crate::body::pipe::{Room, Writer};
use crate::body::{BodyError, Progress};
use crate::plan::{OnClientGone, UpstreamPlan};
use crate::session::{Known, Orders};
use crate::slot::Slot;

/// Bytes of an answer that are read for nobody before its connection is closed instead.
const DISCARDED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A slot in use.
pub(super) struct Held {
    pub(super) slot: Slot,
    connection: Connection,
    progress: Option<Arc<Progress>>,
    /// Whose session the application may change by the head of its answer.
    holder: Option<Arc<Known>>,
    /// Whether the connection may serve another request.
    kept: bool,
}

/// What a look for the next frame has found.
enum Next {
    Frame(Frame<Bytes>),
    End,
    Broken,
    Gone,
}

impl Held {
    /// `slot`, whose request has begun to be sent on `connection`.
    pub(super) fn new(
        slot: Slot,
        connection: Connection,
        progress: Option<Arc<Progress>>,
        holder: Option<Arc<Known>>,
    ) -> Self {
        Self {
            slot,
            connection,
            progress,
            holder,
            kept: false,
        }
    }

    /// Waits for the head of the answer. May be dropped and called again until it is there.
    pub(super) async fn head(&mut self) -> Result<Parts, Lost> {
        poll_fn(|context| self.connection.poll_head(context)).await
    }

    /// Whose session it is, for whoever sees to what the answer commands.
    pub(super) const fn take_holder(&mut self) -> Option<Arc<Known>> {
        self.holder.take()
    }

    /// Whether the answer has been read to its end.
    pub(super) fn is_end(&self) -> bool {
        self.connection.is_end()
    }

    /// The next frame of the answer.
    pub(super) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        self.connection.poll_frame(context)
    }

    /// The slot, and the request of which nothing was sent.
    pub(super) fn take_back(mut self) -> (Slot, Option<Sending>) {
        (self.slot, self.connection.take_back())
    }

    /// When the head is due, for a request whose body takes its time; `None` if the response
    /// timeout ran from the beginning. While the body is on its way, the application has to take
    /// some of it within that time.
    pub(super) fn head_due(&self, response_timeout: Duration) -> Option<Instant> {
        let progress = self.progress.as_ref()?;
        Some(match progress.sent_at() {
            Some(at) => at + response_timeout,
            None => progress.stalled_at(response_timeout),
        })
    }

    /// What the head of the answer says about the connection.
    pub(super) fn keep_connection(&mut self, version: Version, persistence: Persistence) {
        self.kept = version == Version::HTTP_11 && persistence == Persistence::Keeps;
    }

    /// The answer has been read to its end.
    pub(super) fn finish(self) {
        let Self {
            mut slot,
            connection,
            progress,
            kept,
            ..
        } = self;
        let now = slot.thread().shared.clock.now();
        slot.answered(now);
        let upstream = Arc::clone(&slot.thread().shared.apps[slot.app()].upstream);
        let lane = slot.thread().index;
        drop(slot);
        let sent = progress.is_none_or(|progress| progress.sent_at().is_some());
        // One that answered before it had read everything will not read the rest: closed, too.
        if sent && kept {
            upstream.release(lane, connection, now);
        }
    }

    /// The application failed, and the connection with it.
    pub(super) fn fail(mut self, failure: UpstreamFailure) {
        self.slot.failed(failure);
        drop(self.connection);
    }

    /// The answer did not begin, because of the application or because the client's body broke off.
    pub(super) fn no_answer(mut self, lost: Lost) -> NoAnswer {
        match self
            .progress
            .as_ref()
            .and_then(|progress| progress.failure())
        {
            Some(error) => {
                self.slot.caller_gone();
                drop(self.connection);
                NoAnswer::Client(error)
            }
            None => {
                let failure = match lost {
                    Lost::Invalid => UpstreamFailure::Invalid,
                    Lost::Unsent | Lost::Broken | Lost::Client => UpstreamFailure::Reset,
                };
                self.fail(failure);
                NoAnswer::Failed(failure)
            }
        }
    }

    /// Nobody waits for the answer, which has not begun.
    pub(super) fn leave(self) {
        match self.on_client_gone() {
            OnClientGone::Free => drop(self.connection),
            OnClientGone::Hold => {
                let thread = Arc::clone(self.slot.thread());
                thread.runtime.spawn(self.hold());
            }
        }
    }

    /// Nobody reads the answer, which has begun.
    pub(super) fn leave_inside(self) {
        match self.on_client_gone() {
            OnClientGone::Free => drop(self.connection),
            OnClientGone::Hold => {
                let thread = Arc::clone(self.slot.thread());
                let until = self.held_until();
                thread.runtime.spawn(self.discard(until));
            }
        }
    }

    /// Passes the rest of an answer to its client, and goes on without it when it leaves.
    pub(super) async fn pump(mut self, writer: Writer) {
        let silence_max = self.plan().body_timeout;
        loop {
            let room = self.room(&writer).await;
            if room == Room::Gone {
                self.slot.caller_gone();
                return self.leave_inside();
            }
            let next = self.next(&writer);
            match tokio::time::timeout(silence_max, next).await {
                Ok(Next::Frame(frame)) => {
                    self.slot.came_on();
                    writer.push(frame);
                }
                Ok(Next::End) => {
                    writer.end(Ok(()));
                    return self.finish();
                }
                Ok(Next::Gone) => {
                    self.slot.caller_gone();
                    return self.leave_inside();
                }
                Ok(Next::Broken) => {
                    writer.end(Err(BodyError::Broken));
                    return self.fail(UpstreamFailure::Broken);
                }
                Err(_) => {
                    writer.end(Err(BodyError::Silent));
                    return self.fail(UpstreamFailure::Silent);
                }
            }
        }
    }

    /// Waits until there is room for another frame.
    async fn room(&mut self, writer: &Writer) -> Room {
        poll_fn(|context| {
            let room = writer.poll_room(context);
            if room.is_pending() {
                self.slot.ran_ahead();
            }
            room
        })
        .await
    }

    /// The next frame of the answer, or the news that its reader has gone.
    async fn next(&mut self, writer: &Writer) -> Next {
        if self.is_end() {
            return Next::End;
        }
        poll_fn(|context| match self.poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Next::Frame(frame)),
            Poll::Ready(Some(Err(_))) => Poll::Ready(Next::Broken),
            Poll::Ready(None) => Poll::Ready(Next::End),
            Poll::Pending => writer.poll_gone(context).map(|()| Next::Gone),
        })
        .await
    }

    /// Waits for an answer that nobody waits for, and reads it.
    async fn hold(mut self) {
        let until = self.held_until();
        match tokio::time::timeout_at(until, self.head()).await {
            Ok(Ok(mut head)) => {
                let now = self.slot.thread().shared.clock.now();
                self.slot.first_byte(now, head.status);
                let stripped = hops::strip_response(&mut head.headers);
                self.keep_connection(head.version, stripped.persistence);
                // Nobody gets an answer, but what was done for the session is done.
                drop(Orders::new(stripped.commands, self.take_holder()));
                self.discard(until).await;
            }
            // The worker has closed its connection, or is given up on.
            Ok(Err(_)) => {}
            Err(_) => {
                self.slot.gave_up();
                drop(self.connection);
            }
        }
    }

    /// Reads an answer for nobody, within bounds; past them the connection is closed.
    async fn discard(mut self, until: Instant) {
        self.slot.goes_on();
        let mut bytes = 0;
        while bytes <= DISCARDED_BYTES_MAX {
            match tokio::time::timeout_at(until, poll_fn(|context| self.poll_frame(context))).await
            {
                Ok(Some(Ok(frame))) => bytes += frame.data_ref().map_or(0, Bytes::len),
                Ok(None) => return self.finish(),
                Ok(Some(Err(_))) | Err(_) => break,
            }
        }
        drop(self.connection);
    }

    /// How long a slot is held for nobody: as long as somebody would have waited for the answer to
    /// begin.
    fn held_until(&self) -> Instant {
        Instant::now() + self.plan().response_timeout
    }

    fn plan(&self) -> &UpstreamPlan {
        &self.slot.thread().shared.apps[self.slot.app()]
            .plan
            .upstream
    }

    fn on_client_gone(&self) -> OnClientGone {
        self.slot.thread().shared.apps[self.slot.app()]
            .plan
            .on_client_gone
    }
}
