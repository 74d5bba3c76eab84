//! What the kernel tells of the machine and of our part of it, by files.
//!
//! All of it is read under two roots, so that an agent in a container can look at the host's files where they are
//! mounted, and a test at a tree of its own. Files stay open, and are read into buffers that stay.

mod cgroup;
mod container;
mod cpu;
mod file;
mod host;
mod netstat;
mod pressure;

pub use container::in_container;
pub use host::{Host, HostView};

use std::path::PathBuf;

/// Where the kernel's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// In place of `/proc`.
    pub proc: PathBuf,
    /// In place of `/sys`.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
        }
    }
}
