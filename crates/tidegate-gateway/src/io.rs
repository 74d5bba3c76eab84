//! A client's socket, with stalls noticed on the way out.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::context::Clock;
use crate::framed::Framed;
use crate::link::Link;
use crate::parts::poll_write_parts;
use tidegate_http::framing::{Framing, Phase};

/// A client's socket.
#[derive(Debug)]
pub(crate) struct Socket {
    framed: Framed<TcpStream>,
    write_timeout: Duration,
    /// Only there once a write had to wait.
    stall: Option<Stall>,
    link: Arc<Link>,
    stalled: bool,
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
            framed: Framed::new(stream, framing, Arc::clone(&link), clock),
            write_timeout,
            stall: None,
            link,
            stalled: false,
        }
    }

    /// What the client is in the middle of sending.
    pub(crate) fn phase(&self) -> Phase {
        self.framed.phase()
    }

    /// Whether the client took no byte for too long.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled
    }

    pub(crate) fn into_stream(self) -> TcpStream {
        self.framed.stream
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
        Pin::new(&mut self.framed).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.framed.stream).poll_write(cx, bytes);
        self.wrote(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = poll_write_parts(&mut self.framed.stream, cx, parts);
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.framed.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.framed.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.framed.stream).poll_shutdown(cx)
    }
}
