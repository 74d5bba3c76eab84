//! Why the embedded store does not start.

use std::path::PathBuf;

/// Why the embedded store does not start.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Another process has the file open.
    #[error("{} is in use by another process: each needs a folder of its own", .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// What is in the file was not written by this program, or not as it was written.
    #[error(
        "{} is damaged or no file of Tidegate's ({why}): move it away to start without its sessions",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// The file was written by a later release.
    #[error("{} was written by a later release of Tidegate", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
    },
    /// The system does not let the file be used.
    #[error("{} cannot be used: {why}", .path.display())]
    Unusable {
        /// The file or its folder.
        path: PathBuf,
        /// Why.
        why: String,
    },
}
