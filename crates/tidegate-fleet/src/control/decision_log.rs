//! The file that decisions are written down in, a line of JSON each.
//!
//! A thread of its own writes. Nobody waits for it: lines that find no room, or that cannot be written, are counted and
//! gone, and since every line stands for itself the others are none the worse.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tidegate_core::health::{Decision, Settings};
use tracing::warn;

use super::decision;

/// Lines that wait to be written: a tick of the largest fleet in which everything changes.
const LINES_MAX: usize = 4_096;

/// A log of decisions. A clone is the same one.
#[derive(Clone, Debug)]
pub struct DecisionLog {
    lines: SyncSender<String>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    reopens: AtomicBool,
    written: AtomicU64,
    lost: AtomicU64,
}

struct Writer {
    path: PathBuf,
    file: Option<File>,
    lines: Receiver<String>,
    shared: Arc<Shared>,
}

impl DecisionLog {
    /// Appends to the file at `path`, which is made when it is not there.
    ///
    /// # Errors
    ///
    /// When it cannot be opened, or the system has no thread left.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = append(path)?;
        let (sender, lines) = sync_channel(LINES_MAX);
        let shared = Arc::new(Shared::default());
        let writer = Writer {
            path: path.to_owned(),
            file: Some(file),
            lines,
            shared: Arc::clone(&shared),
        };
        std::thread::Builder::new()
            .name("tidegate-decisions".to_owned())
            .spawn(move || writer.run())?;
        Ok(Self {
            lines: sender,
            shared,
        })
    }

    /// Notes a decision about `node`, by such `settings`. `ts` is milliseconds since 1970 by the store's clock, `fence` the leader's.
    pub fn note(&self, ts: u64, fence: u64, node: &str, decision: &Decision, settings: &Settings) {
        let line = decision::line(ts, fence, node, decision, settings);
        if self.lines.try_send(line).is_err() {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens the file anew with the next line: it was moved away, as log rotation does.
    pub fn reopen(&self) {
        self.shared.reopens.store(true, Ordering::Relaxed);
    }

    /// Lines that were written.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// Lines that found no room or could not be written.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

impl Writer {
    /// Until the last clone of the log is gone.
    fn run(mut self) {
        while let Ok(mut line) = self.lines.recv() {
            if self.shared.reopens.swap(false, Ordering::Relaxed) {
                self.file = self.opened();
            }
            line.push('\n');
            let count = match &mut self.file {
                Some(file) => match file.write_all(line.as_bytes()) {
                    Ok(()) => &self.shared.written,
                    Err(error) => {
                        let path = self.path.display();
                        warn!(%path, %error, "decisions are not written down until the log is opened again");
                        self.file = None;
                        &self.shared.lost
                    }
                },
                None => &self.shared.lost,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn opened(&self) -> Option<File> {
        append(&self.path)
            .inspect_err(|error| {
                let path = self.path.display();
                warn!(%path, %error, "the decision log cannot be opened again");
            })
            .ok()
    }
}

fn append(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    // A line that broke off, as on a full disk, is not to take the next one with it.
    if ends_torn(path).unwrap_or(false) {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// Whether the file at `path` ends within a line. What cannot be looked at, as a pipe, does not.
fn ends_torn(path: &Path) -> io::Result<bool> {
    if !path.metadata()?.is_file() {
        return Ok(false);
    }
    let mut file = File::open(path)?;
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_broke_off_does_not_take_the_next_one_with_it() {
        let name = format!("tidegate-decisions-{}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        for (before, after) in [
            ("", ""),
            ("{}\n", "{}\n"),
            ("{}\n{\"ts\":1", "{}\n{\"ts\":1\n"),
        ] {
            std::fs::write(&path, before).unwrap();

            drop(append(&path).unwrap());

            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
