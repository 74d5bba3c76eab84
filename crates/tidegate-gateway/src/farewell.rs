//! What a connection is told last, and seeing to it that this is read.

use std::time::Duration;

use tidegate_http::framing::{FramingFault, FramingLog};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// What a client may still send when its answer came before the end of its request, so that the
/// answer is not lost to a reset.
const LINGER_BYTES_MAX: u64 = 256 * 1024;

/// For how long. Also the longest wait for a client to take what it is told.
const LINGER_TIME_MAX: Duration = Duration::from_secs(1);

const HEAD_TIMEOUT_ANSWER: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The fault for which a connection ended, which is to be counted, if it did for one. `engine` is the error by which the
/// engine ended it.
///
/// One that [`FramingLog::next`] has returned was counted then.
pub(crate) fn fault_of(engine: Option<&hyper::Error>, log: &FramingLog) -> Option<FramingFault> {
    match engine {
        Some(error) if error.is_parse_too_large() => Some(FramingFault::HeadTooLarge),
        Some(error) if error.is_parse() => {
            Some(log.head_fault().unwrap_or(FramingFault::Unreadable))
        }
        _ => log.head_fault().or_else(|| log.body_fault()),
    }
}

/// Answers a head that the engine did not see; all before it has been written.
pub(crate) async fn refuse(stream: &mut (impl AsyncWrite + Unpin), fault: FramingFault) {
    say(stream, &fault.answer()).await;
    // The client need not wait for the end of what follows.
    drop(timeout(LINGER_TIME_MAX, stream.shutdown()).await);
}

/// Says that a head did not come in time. Nothing else is being written.
pub(crate) async fn say_too_late(stream: &mut (impl AsyncWrite + Unpin)) {
    say(stream, HEAD_TIMEOUT_ANSWER).await;
}

/// Reads on for a moment, for nothing but that the client finds its answer.
pub(crate) async fn linger(stream: &mut (impl AsyncRead + Unpin)) {
    let mut rest = stream.take(LINGER_BYTES_MAX);
    let discard = async { tokio::io::copy(&mut rest, &mut tokio::io::sink()).await };
    drop(timeout(LINGER_TIME_MAX, discard).await);
}

/// Whoever does not take it has left, or need not know.
async fn say(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    drop(timeout(LINGER_TIME_MAX, stream.write_all(bytes)).await);
}
