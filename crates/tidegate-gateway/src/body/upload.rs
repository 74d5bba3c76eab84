//! The body of a request, kept in part while the request waits and streamed after that.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::{BodyError, footprint};

/// Bytes of a body that are read while its request waits: enough for a form, little enough to hold
/// for everybody in a queue. The last frame may go over it.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// The body of a request on its way to the application.
pub struct Upload {
    kept: VecDeque<Frame<Bytes>>,
    kept_bytes: usize,
    /// What has not been read; `None` once it has ended.
    rest: Option<Incoming>,
    silence_max: Duration,
    silence: Option<Pin<Box<Sleep>>>,
    /// Absent when there is no body, as with most requests.
    progress: Option<Arc<Progress>>,
}

/// How far a body has come, for those who wait for the answer to it.
#[derive(Debug)]
pub struct Progress {
    begun: Instant,
    /// When a piece of it last went to the application, in milliseconds since it began.
    moved_ms: AtomicU64,
    silence_max: Duration,
    end: OnceLock<Result<Instant, BodyError>>,
}

impl Upload {
    /// The body `incoming`; an end to it when it pauses for longer than `silence_max`.
    pub fn new(incoming: Incoming, silence_max: Duration) -> Self {
        let rest = Some(incoming).filter(|body| !body.is_end_stream());
        let progress = rest.as_ref().map(|_| Arc::new(Progress::new(silence_max)));
        Self {
            kept: VecDeque::new(),
            kept_bytes: 0,
            rest,
            silence_max,
            silence: None,
            progress,
        }
    }

    /// Where to see how far it has come; `None` when there is nothing to send.
    pub fn progress(&self) -> Option<Arc<Progress>> {
        self.progress
            .clone()
            .filter(|_| !http_body::Body::is_end_stream(self))
    }

    /// Bytes of memory that it may take while its request waits.
    pub fn bytes_kept_at_most(&self) -> u32 {
        let expected = match &self.rest {
            None => 0,
            Some(rest) => rest.size_hint().upper().unwrap_or(u64::MAX),
        };
        expected.min(KEPT_BYTES_MAX as u64) as u32
    }

    /// Reads on and keeps what comes, up to `KEPT_BYTES_MAX`; pending for ever when that much is
    /// there or the body has ended. Ready means that the client has gone.
    pub fn poll_keep(&mut self, context: &mut Context<'_>) -> Poll<BodyError> {
        while self.kept_bytes < KEPT_BYTES_MAX {
            let Some(rest) = &mut self.rest else { break };
            match Pin::new(rest).poll_frame(context) {
                Poll::Pending => break,
                Poll::Ready(None) => self.rest = None,
                Poll::Ready(Some(Err(_))) => return Poll::Ready(BodyError::ClientBroken),
                Poll::Ready(Some(Ok(frame))) => {
                    self.kept_bytes += footprint(&frame);
                    self.kept.push_back(frame);
                    self.end_if_ended();
                }
            }
        }
        Poll::Pending
    }

    fn end_if_ended(&mut self) {
        if self.rest.as_ref().is_some_and(Incoming::is_end_stream) {
            self.rest = None;
        }
    }

    fn note(&self, end: Result<Instant, BodyError>) {
        if let Some(progress) = &self.progress {
            // Polled again after its end, it ends again; the first time is what counts.
            let _ = progress.end.set(end);
        }
    }

    fn poll_rest(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(rest) = &mut self.rest else {
            return Poll::Ready(None);
        };
        match Pin::new(rest).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                self.silence = None;
                self.end_if_ended();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(_))) => {
                self.note(Err(BodyError::ClientBroken));
                Poll::Ready(Some(Err(BodyError::ClientBroken)))
            }
            Poll::Ready(None) => {
                self.rest = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                let silence_max = self.silence_max;
                let silence = self
                    .silence
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep(silence_max)));
                if silence.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.note(Err(BodyError::ClientSilent));
                Poll::Ready(Some(Err(BodyError::ClientSilent)))
            }
        }
    }
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = match this.kept.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => this.poll_rest(context),
        };
        if let (Some(progress), Poll::Ready(Some(Ok(_)))) = (&this.progress, &frame) {
            progress.moves();
        }
        if this.kept.is_empty() && this.rest.is_none() {
            this.note(Ok(Instant::now()));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.kept.is_empty() && self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let kept: u64 = self
            .kept
            .iter()
            .filter_map(Frame::data_ref)
            .map(|bytes| bytes.len() as u64)
            .sum();
        match &self.rest {
            None => SizeHint::with_exact(kept),
            Some(rest) => match rest.size_hint().exact() {
                Some(rest) => SizeHint::with_exact(kept + rest),
                None => SizeHint::default(),
            },
        }
    }
}

impl Progress {
    fn new(silence_max: Duration) -> Self {
        Self {
            begun: Instant::now(),
            moved_ms: AtomicU64::new(0),
            silence_max,
            end: OnceLock::new(),
        }
    }

    fn moves(&self) {
        let millis = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(millis, Ordering::Relaxed);
    }

    /// When the last of it went to the application; `None` before that.
    pub fn sent_at(&self) -> Option<Instant> {
        self.end.get().and_then(|end| end.ok())
    }

    /// Until when an application that is to answer within `response_timeout` may leave it where it
    /// is. A client that sends nothing meanwhile has to be told apart, so its own time counts too.
    pub fn stalled_at(&self, response_timeout: Duration) -> Instant {
        let moved = Duration::from_millis(self.moved_ms.load(Ordering::Relaxed));
        self.begun + moved + response_timeout.max(self.silence_max)
    }

    /// How the client failed to send it, if it did.
    pub fn failure(&self) -> Option<BodyError> {
        self.end.get().and_then(|end| end.err())
    }
}
