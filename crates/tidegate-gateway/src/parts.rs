//! Writing several pieces to a socket at once.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::net::TcpStream;

/// Up to so many bytes are gathered before they are written: copying them costs less than what the
/// system does to look at several pieces.
const GATHERED_BYTES_MAX: usize = 2 * 1024;

/// Writes what `parts` hold, or the beginning of it.
///
/// The engine hands over nearly everything as pieces, also where it is only one. The call for one
/// piece takes a shorter way through the system.
pub(crate) fn poll_write_parts(
    stream: &mut TcpStream,
    context: &mut Context<'_>,
    parts: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    let stream = Pin::new(stream);
    if let [part] = parts {
        return stream.poll_write(context, part);
    }
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    if bytes > GATHERED_BYTES_MAX {
        return stream.poll_write_vectored(context, parts);
    }
    let mut gathered = [0; GATHERED_BYTES_MAX];
    let mut filled = 0;
    for part in parts {
        gathered[filled..filled + part.len()].copy_from_slice(part);
        filled += part.len();
    }
    stream.poll_write(context, &gathered[..filled])
}
