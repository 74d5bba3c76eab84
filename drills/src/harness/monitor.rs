//! Everything that a Redis is told, as its `MONITOR` shows it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::JoinHandle;

use anyhow::Context as _;

/// Most bytes that are kept.
const BYTES_MAX: u64 = 512 * 1024 * 1024;

/// A listener that is listening.
pub(crate) struct Monitor {
    stream: TcpStream,
    thread: JoinHandle<std::io::Result<Vec<u8>>>,
}

impl Monitor {
    /// Listens to the Redis at `address` from now on.
    pub(crate) fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"MONITOR\r\n")?;
        let mut granted = [0; 5];
        stream.read_exact(&mut granted)?;
        anyhow::ensure!(&granted == b"+OK\r\n", "no MONITOR");
        let reader = stream.try_clone()?;
        let thread = std::thread::Builder::new()
            .name("monitor".to_owned())
            .spawn(move || {
                let mut heard = Vec::new();
                reader.take(BYTES_MAX).read_to_end(&mut heard)?;
                Ok(heard)
            })?;
        Ok(Self { stream, thread })
    }

    /// What was heard.
    pub(crate) fn stop(self) -> anyhow::Result<Vec<u8>> {
        self.stream.shutdown(Shutdown::Both)?;
        let heard = self.thread.join().ok().context("the listener panicked")??;
        anyhow::ensure!(
            (heard.len() as u64) < BYTES_MAX,
            "more was said than is kept"
        );
        Ok(heard)
    }
}
