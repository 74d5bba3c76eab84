//! The far end of a log: from chunks of bytes to the file.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tidegate_core::journal::End;
use tracing::{info, warn};

use super::recorder::Recorder;
use super::{Progress, lock};

/// What has happened is on its way to the file after this time at the latest: what a killed
/// process may lose.
const FLUSH_INTERVAL: Duration = Duration::from_millis(100);

/// Writes one log to its end.
pub(super) struct Writer {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) chunks: Receiver<Vec<u8>>,
    /// The near end, to be asked for what does not fill a chunk.
    pub(super) recorder: Weak<Mutex<Recorder>>,
    pub(super) progress: Arc<Progress>,
    /// Dropped with this, which tells whoever waits for it.
    pub(super) _alive: Sender<()>,
}

impl Writer {
    /// Writes until the log is over.
    pub(super) fn run(mut self) {
        let written = self.write();
        let (path, bytes) = (self.path.display(), self.progress.bytes());
        if let Err(error) = written {
            self.progress.ended(End::Failed);
            // What was written of the last chunk ends anywhere; before it the log is whole.
            let cut = self.file.set_len(bytes);
            warn!(%path, bytes, %error, whole = cut.is_ok(), "the decision log ends: it cannot be written");
            return;
        }
        match self.progress.end() {
            Some(End::Full) => {
                warn!(%path, bytes, "the decision log ends: it is as long as it may be")
            }
            Some(End::Behind) => warn!(
                %path, bytes, "the decision log ends: it cannot be written as fast as things happen"
            ),
            Some(End::Finished | End::Failed) | None => {
                info!(%path, bytes, "the decision log is closed")
            }
        }
    }

    fn write(&mut self) -> io::Result<()> {
        loop {
            match self.chunks.recv_timeout(FLUSH_INTERVAL) {
                Ok(chunk) => {
                    self.file.write_all(&chunk)?;
                    self.progress.wrote(chunk.len());
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(recorder) = self.recorder.upgrade() {
                        lock(&recorder).flush();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}
