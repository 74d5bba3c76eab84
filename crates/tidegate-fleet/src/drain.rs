//! What becomes of a body that nobody wants.
//!
//! A client that writes all of its request before it reads would not see an answer that is given
//! before: where a connection is closed with bytes in it that nobody read, its system forgets what it
//! has received, and tells it of a broken pipe.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

/// Bytes of a refused body that are read, at most: twice the largest body that may be allowed.
const DRAINED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A client that sends nothing for so long has seen the answer, or never will.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Reads what is left of `body` and keeps none of it, for as long as it comes and no longer than
/// `within`.
pub(crate) async fn drain(mut body: Incoming, within: Duration) {
    let drained = async {
        let mut left = DRAINED_BYTES_MAX;
        while let Ok(Some(Ok(frame))) = timeout(PAUSE_MAX, body.frame()).await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let Some(rest) = left.checked_sub(bytes) else {
                return;
            };
            left = rest;
        }
    };
    let _ = timeout(within, drained).await;
}
