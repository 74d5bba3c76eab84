//! The bodies of the shop's answers.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::mpsc;

/// A body.
pub(super) enum SiteBody {
    /// In one piece.
    Whole(Option<Bytes>),
    /// Made while it is taken; `left` bytes are to come.
    Page {
        pieces: mpsc::Receiver<Bytes>,
        left: u64,
    },
    /// What the client sends.
    Echo(Incoming),
}

impl SiteBody {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }
}

impl Body for SiteBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Page { pieces, left } => {
                let piece = ready!(pieces.poll_recv(context));
                *left -= piece.as_ref().map_or(*left, |piece| piece.len() as u64);
                Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
            }
            Self::Echo(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Page { left, .. } => *left == 0,
            Self::Echo(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Self::Page { left, .. } => SizeHint::with_exact(*left),
            Self::Echo(body) => body.size_hint(),
        }
    }
}
