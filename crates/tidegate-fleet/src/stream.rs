//! A client's stream, with an end for one that does not finish what it began.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_http::framing::{Framing, Phase, Scan};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// The longest time between the answer to a request and the first byte of the next.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// A stream whose reads fail when a request's head does not come in time or has a fault, and whose writes fail once
/// none of them got anywhere for too long. Otherwise a client that sends half a head, or that asks
/// for a large value and does not read it, would hold a connection for ever.
pub(crate) struct Watched<S> {
    stream: S,
    framing: Framing,
    patience: Duration,
    arrival: Arrival,
    /// When the read that waits is given up. The timer is left running when bytes come and looked at
    /// when it fires.
    overdue: Option<Pin<Box<Sleep>>>,
    /// Only there while a write waits.
    stall: Option<Pin<Box<Sleep>>>,
}

/// How far the next request of a connection has come. Shared by its stream, which sees bytes come,
/// and by whoever is handed the request.
#[derive(Clone)]
pub(crate) struct Arrival(Arc<Mutex<Stage>>);

#[derive(Clone, Copy)]
enum Stage {
    /// The answer to the last one went on then, and nothing of the next is here.
    Idle(Instant),
    /// It began to come then; a connection's first one when that was made.
    Head(Instant),
    /// Its head is here, and it is not answered.
    Served,
}

impl Arrival {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Stage::Head(Instant::now()))))
    }

    /// The head is here. Returns when it began to come.
    pub(crate) fn is_here(&self) -> Instant {
        let mut stage = self.lock();
        let begun = match *stage {
            Stage::Head(begun) => begun,
            // It came with the one before.
            Stage::Idle(_) | Stage::Served => Instant::now(),
        };
        *stage = Stage::Served;
        begun
    }

    /// There is an answer to it.
    pub(crate) fn is_answered(&self) {
        *self.lock() = Stage::Idle(Instant::now());
    }

    /// Bytes have come.
    fn goes_on(&self) {
        let mut stage = self.lock();
        if let Stage::Idle(_) = *stage {
            *stage = Stage::Head(Instant::now());
        }
    }

    /// The client took bytes: while it reads an answer it is not idle.
    fn is_taken(&self) {
        if let Stage::Idle(since) = &mut *self.lock() {
            *since = Instant::now();
        }
    }

    /// When more of it must have come, if a head may take `patience`.
    fn due(&self, patience: Duration) -> Option<Instant> {
        match *self.lock() {
            Stage::Idle(since) => Some(since + IDLE_MAX),
            Stage::Head(since) => Some(since + patience),
            Stage::Served => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().expect("no holder panics")
    }
}

impl<S: Unpin> Watched<S> {
    /// `stream`, given up when a head on it takes longer than `patience`, or when it takes nothing for
    /// so long.
    pub(crate) const fn new(
        stream: S,
        framing: Framing,
        patience: Duration,
        arrival: Arrival,
    ) -> Self {
        Self {
            stream,
            framing,
            patience,
            arrival,
            overdue: None,
            stall: None,
        }
    }

    /// The stream itself, to say something last.
    pub(crate) fn into_inner(self) -> S {
        self.stream
    }

    /// Pending, unless it is time to give up reading.
    fn wait_for_bytes(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(due) = self.arrival.due(self.patience) else {
            return Poll::Pending;
        };
        let overdue = self
            .overdue
            .get_or_insert_with(|| Box::pin(sleep_until(due)));
        if overdue.deadline() != due {
            overdue.as_mut().reset(due);
        }
        match overdue.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }

    /// `polled`, unless writes have been pending for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stall = None;
            return polled;
        }
        let until = Instant::now() + self.patience;
        let stall = self
            .stall
            .get_or_insert_with(|| Box::pin(sleep_until(until)));
        match stall.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.framing.phase() == Phase::Refused {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(Ok(())) if buffer.filled().len() > before => {
                self.arrival.goes_on();
                match self.framing.scan(&buffer.filled()[before..]) {
                    Scan::Pass(passed) | Scan::Last(passed) | Scan::Fail(passed) if passed > 0 => {
                        buffer.set_filled(before + passed);
                        Poll::Ready(Ok(()))
                    }
                    _ => {
                        buffer.set_filled(before);
                        Poll::Ready(Err(io::ErrorKind::InvalidData.into()))
                    }
                }
            }
            Poll::Ready(ended) => Poll::Ready(ended),
            Poll::Pending => self.wait_for_bytes(context),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if polled.is_ready() {
            self.arrival.is_taken();
        }
        self.watch(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
