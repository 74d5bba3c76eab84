//! Where things run: cores, ports, directories.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use tidegate_lab::measure;

/// Two cores kept apart: one for what is measured, one for everything else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    /// For what is measured.
    pub(crate) measured: usize,
    /// For the generator and what stands behind the thing measured.
    pub(crate) others: usize,
}

impl Cores {
    /// The last two cores this process may use; the first one often serves interrupts. On a machine
    /// with one core both are that one.
    pub(crate) fn pick() -> anyhow::Result<Self> {
        let cores = measure::cores()?;
        let measured = *cores.last().context("no core may be used")?;
        let others = cores.iter().rev().nth(1).copied().unwrap_or(measured);
        Ok(Self { measured, others })
    }
}

/// A port of the loopback address that nobody used a moment ago.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// A directory of one's own that goes with its owner.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    /// Makes one.
    pub(crate) fn new() -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-drill-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What is left behind is small and named after this process.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
