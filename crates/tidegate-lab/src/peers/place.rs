//! Ports and directories for peers.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::PeerError;

/// The ports that peers get: below those that the system gives to outgoing connections, so that a
/// server which is down for a while finds its port free when it comes back.
const PORTS: std::ops::Range<u16> = 10_000..32_000;
/// Ports looked at before giving up.
const LOOKS_MAX: u16 = 2_000;
/// How often a condition is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// A port of the loopback address that nobody used a moment ago. Two calls in one process never
/// return the same one.
///
/// # Errors
///
/// When 2,000 ports in a row are taken.
pub fn free_port() -> Result<u16, PeerError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes that run at the same time begin at different places.
    static BEGIN: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let nanos = nanos.map_or(0, |since| since.subsec_nanos());
        std::process::id().wrapping_mul(7_919) ^ nanos
    });

    for _ in 0..LOOKS_MAX {
        let step = BEGIN.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + (step % u32::from(PORTS.end - PORTS.start)) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(PeerError::NoPort)
}

/// A directory of one's own that goes with its owner.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-peer-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Somebody with our process id may have been killed before clearing up.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left behind is small and named after this process.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Looks until `look` returns something, for at most `within`. `Err` of `look` is how it is instead.
pub(super) fn until<T>(
    within: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<T, String>,
) -> Result<T, PeerError> {
    let end = Instant::now() + within;
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(instead) if Instant::now() >= end => {
                let what = format!("{what}: {instead}");
                return Err(PeerError::TooLate { what, within });
            }
            Err(_) => std::thread::sleep(LOOK_INTERVAL),
        }
    }
}
