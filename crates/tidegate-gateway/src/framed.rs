//! A connection whose incoming bytes are looked at before the engine gets them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::context::Clock;
use crate::link::Link;
use tidegate_http::framing::{Framing, Phase, Scan};

/// One. What is written passes as it is.
#[derive(Debug)]
pub(crate) struct Framed<S> {
    pub(crate) stream: S,
    framing: Framing,
    reading: Reading,
    link: Arc<Link>,
    clock: Clock,
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

impl<S> Framed<S> {
    /// `stream`, judged by `framing`. The link hears when a head is on its way.
    pub(crate) const fn new(stream: S, framing: Framing, link: Arc<Link>, clock: Clock) -> Self {
        Self {
            stream,
            framing,
            reading: Reading::Open,
            link,
            clock,
        }
    }

    /// What the client is in the middle of sending.
    pub(crate) fn phase(&self) -> Phase {
        self.framing.phase()
    }

    /// The link hears whether what was written has yet to be taken: a faulty head is not answered before that.
    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.link.set_write_waits(written.is_pending());
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Framed<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Framed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.wrote(written)
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
