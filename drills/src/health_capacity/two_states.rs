//! What agents usually do: a node is out when more of it is used than it should be, and in again when less is.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::tomcats::{Shop, WORKERS};

/// Out above so many busy workers of all, which is where ours calls a node stressed, and in again below so many, which is
/// where ours calls it healthy.
const OUT_ABOVE: f64 = 0.55;
const IN_BELOW: f64 = 0.45;
/// How often it looks.
const EVERY: Duration = Duration::from_secs(1);

/// An agent with two states. Dropping it ends it.
pub(super) struct TwoStates {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl TwoStates {
    /// Looks at `shop` from now on.
    pub(super) fn start(shop: &Shop) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (stop, is_out) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let look = {
            let (stop, is_out, eye) = (stop.clone(), is_out.clone(), shop.eye());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    // What cannot be read changes nothing.
                    if let Ok(busy) = eye.busy() {
                        let used = f64::from(busy) / f64::from(WORKERS);
                        let was_out = is_out.load(Ordering::Relaxed);
                        let bar = if was_out { IN_BELOW } else { OUT_ABOVE };
                        is_out.store(used > bar, Ordering::Relaxed);
                    }
                    std::thread::sleep(EVERY);
                }
            }
        };
        let stopped = stop.clone();
        let tell = move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let line: &[u8] = match is_out.load(Ordering::Relaxed) {
                    true => b"down # busy\n",
                    false => b"up ready 100%\n",
                };
                // Whoever asked and has gone asks again.
                let _ = stream.and_then(|mut stream| stream.write_all(line));
            }
        };
        Ok(Self {
            address,
            stop,
            threads: vec![std::thread::spawn(look), std::thread::spawn(tell)],
        })
    }

    /// Where HAProxy asks it.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TwoStates {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // One more connection, so that whoever accepts them notices.
        let _ = std::net::TcpStream::connect(self.address);
        for thread in self.threads.drain(..) {
            // It has said so when it panicked.
            let _ = thread.join();
        }
    }
}
