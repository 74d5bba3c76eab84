//! Bodies: what is sent to a client, and what comes from one.

pub(crate) mod pipe;
mod upload;

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

pub use self::pipe::Reader;
pub use self::upload::{Progress, Upload};

/// The body of an answer to a client.
#[derive(Debug)]
pub enum Body {
    /// All there, or nothing left of it.
    Full(Option<Bytes>),
    /// All there, in parts.
    Parts(VecDeque<Frame<Bytes>>),
    /// Still being read from the application.
    Piped(Reader),
}

/// Why a body ends before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The application's answer broke off.
    #[error("the answer broke off")]
    Broken,
    /// The application's answer fell silent.
    #[error("the answer fell silent")]
    Silent,
    /// The client's body broke off: it has gone, or what it sent is no body.
    #[error("the client's body broke off")]
    ClientBroken,
    /// The client's body fell silent.
    #[error("the client's body fell silent")]
    ClientSilent,
}

impl Body {
    /// No body.
    pub const fn empty() -> Self {
        Self::Full(None)
    }

    /// A body that is all there.
    pub const fn full(bytes: Bytes) -> Self {
        Self::Full(Some(bytes))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Parts(frames) => Poll::Ready(frames.pop_front().map(Ok)),
            Self::Piped(reader) => reader.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_none(),
            Self::Parts(frames) => frames.is_empty(),
            Self::Piped(reader) => reader.is_at_end(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, len)),
            // Trailers need chunks, and an exact length would leave no place for them.
            Self::Parts(frames) if frames.iter().any(Frame::is_trailers) => SizeHint::default(),
            Self::Parts(frames) => {
                SizeHint::with_exact(frames.iter().filter_map(Frame::data_ref).map(len).sum())
            }
            Self::Piped(_) => SizeHint::default(),
        }
    }
}

/// What a frame costs beside its bytes. Bounds that counted bytes alone would be no bounds against
/// somebody who sends one byte at a time.
const FRAME_BYTES: usize = 128;

/// Memory that `frame` takes.
fn footprint(frame: &Frame<Bytes>) -> usize {
    FRAME_BYTES + frame.data_ref().map_or(0, Bytes::len)
}

fn len(bytes: &Bytes) -> u64 {
    bytes.len() as u64
}
