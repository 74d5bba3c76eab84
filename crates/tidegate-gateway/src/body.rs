//! Bodies of answers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The body of an answer to a client.
#[derive(Debug)]
pub struct Body(Option<Bytes>);

impl Body {
    /// No body.
    pub const fn empty() -> Self {
        Self(None)
    }

    /// A body that is all there.
    pub const fn full(bytes: Bytes) -> Self {
        Self(Some(bytes))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The application's answer broke off.
    #[error("the answer broke off")]
    Broken,
}
