//! A client's socket, with the framing looked at on the way in and stalls noticed on the way out.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::context::Clock;
use crate::framing::{Framing, Phase, Scan};
use crate::link::Link;
use crate::parts::poll_write_parts;

/// A client's socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    framing: Framing,
    reading: Reading,
    write_timeout: Duration,
    /// Only there once a write had to wait.
    stall: Option<Stall>,
    link: Arc<Link>,
    clock: Clock,
    stalled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Open,
    /// A head was faulty: the engine gets no byte more and, so that it finishes the answers before,
    /// no error either.
    Silent,
    /// A body was faulty: the engine gets an error.
    Failing,
}

/// Watches over writes once one of them had to wait. The timer is left running when bytes move
/// again and looked at when it fires, so a slow client costs no timer per write.
#[derive(Debug)]
struct Stall {
    timer: Pin<Box<Sleep>>,
    moved_at: Instant,
}

impl Socket {
    pub(crate) fn new(
        stream: TcpStream,
        framing: Framing,
        write_timeout: Duration,
        link: Arc<Link>,
        clock: Clock,
    ) -> Self {
        Self {
            stream,
            framing,
            reading: Reading::Open,
            write_timeout,
            stall: None,
            link,
            clock,
            stalled: false,
        }
    }

    /// What the client is in the middle of sending.
    pub(crate) fn phase(&self) -> Phase {
        self.framing.phase()
    }

    /// Whether the client took no byte for too long.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled
    }

    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn poll_stall(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let timeout = self.write_timeout;
        let stall = self.stall.get_or_insert_with(|| {
            let now = Instant::now();
            Stall {
                timer: Box::pin(sleep_until(now + timeout)),
                moved_at: now,
            }
        });
        loop {
            ready!(stall.timer.as_mut().poll(cx));
            let due = stall.moved_at + timeout;
            if due <= Instant::now() {
                self.stalled = true;
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            stall.timer.as_mut().reset(due);
        }
    }

    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => {
                self.link.set_write_waits(true);
                self.poll_stall(cx).map(Err)
            }
            Poll::Ready(written) => {
                if let Some(stall) = &mut self.stall {
                    stall.moved_at = Instant::now();
                    self.link.set_write_waits(false);
                }
                Poll::Ready(written)
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.reading {
            Reading::Open => {}
            Reading::Silent => return Poll::Pending,
            Reading::Failing => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;

        let new = &buffer.filled()[before..];
        if new.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let passed = match self.framing.scan(new) {
            Scan::Pass(passed) => passed,
            Scan::Last(passed) => {
                self.reading = Reading::Silent;
                passed
            }
            Scan::Fail(passed) => {
                self.reading = Reading::Failing;
                passed
            }
        };
        // Most heads come in one piece and cost no look at the clock.
        match (self.framing.phase(), self.link.head_since()) {
            (Phase::Head, None) => self.link.begin_head(self.clock.now()),
            (Phase::Head, Some(_)) | (_, None) => {}
            (_, Some(_)) => self.link.end_head(),
        }
        buffer.set_filled(before + passed);
        match (passed, self.reading) {
            (0, Reading::Silent) => Poll::Pending,
            (0, Reading::Failing) => Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = poll_write_parts(&mut self.stream, cx, parts);
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
