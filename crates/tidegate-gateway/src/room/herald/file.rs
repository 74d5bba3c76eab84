//! The file of an audit log.
//!
//! It is only ever added to. Several processes may have the same one, as when one is drained while the next has begun: each
//! holds the file's lock while it writes, and looks at where the chain ends when that is not where it left it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::chain::{End, Entry, LINE_BYTES_MAX, digest, read};
use super::event::{PHASE_SET, Said, TORN};

/// So much is looked at from the end of a file: more than a line that was not finished and the one before it.
const TAIL_BYTES: u64 = 4 * LINE_BYTES_MAX as u64;
/// How every log begins.
const BEGINNING: &[u8] = b"{\"n\":1,";
/// Who may read and write a new file.
const MODE: u32 = 0o640;
/// How often the lock is tried for, and how long after each time: half a second in all. Whoever has it writes one line.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// An audit log that is open.
#[derive(Debug)]
pub(super) struct AuditFile {
    file: File,
    room: String,
    /// How long the file was when the chain ended so; `None` when that is not certain.
    length: Option<u64>,
    end: End,
}

/// What is at the end of a file.
struct Tail {
    end: End,
    /// The SHA-256 of a line that was begun and not finished.
    torn: Option<String>,
    /// The last time that the phase was set, as far as it was looked back.
    phase_set: Option<Entry>,
}

impl AuditFile {
    /// Opens the log of `room` at `path`, or begins one, and says when the phase was set last, as far as that is near the end.
    ///
    /// # Errors
    ///
    /// When it cannot be opened, or something else is there, which is left alone.
    pub(super) fn open(path: &Path, room: &str) -> io::Result<(Self, Option<Entry>)> {
        let mut options = OpenOptions::new();
        let options = options.create(true).append(true).read(true).mode(MODE);
        let file = options.open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(unfit("it is no file"));
        }
        let tail = Tail::of(&file, metadata.len())?;
        let opened = Self {
            file,
            room: room.to_owned(),
            // It is looked at again under the lock.
            length: None,
            end: tail.end,
        };
        Ok((opened, tail.phase_set))
    }

    /// Adds a line. On an error it is not there.
    pub(super) fn add(&mut self, at_ms: u64, said: &Said) -> io::Result<()> {
        lock(&self.file)?;
        let added = self.add_locked(at_ms, said);
        // It goes with the file at the latest.
        let _ = self.file.unlock();
        added
    }

    /// The number of the last line, and its SHA-256.
    pub(super) fn last(&self) -> (u64, &str) {
        (self.end.n, &self.end.digest)
    }

    fn add_locked(&mut self, at_ms: u64, said: &Said) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let mut text = String::new();
        let mut end = if self.length == Some(length) {
            self.end.clone()
        } else {
            let tail = Tail::of(&self.file, length)?;
            let mut end = tail.end;
            if let Some(torn) = tail.torn {
                let note = Said {
                    event: TORN.to_owned(),
                    ..Said::default()
                };
                text.push('\n');
                end.digest = torn;
                text += &end.add(at_ms, &self.room, &note);
            }
            end
        };
        text += &end.add(at_ms, &self.room, said);
        self.length = None;
        let written = self.file.write_all(text.as_bytes());
        if let Err(error) = written.and_then(|()| self.file.sync_data()) {
            // What was written of it ends anywhere. It is ours alone, and nobody was told that it is there.
            let _ = self.file.set_len(length);
            return Err(error);
        }
        self.length = Some(length + text.len() as u64);
        self.end = end;
        Ok(())
    }
}

impl Tail {
    /// The end of `file`, which is so long.
    fn of(file: &File, length: u64) -> io::Result<Self> {
        let from = length.saturating_sub(TAIL_BYTES);
        let mut bytes = vec![0; usize::try_from(length - from).unwrap_or(0)];
        file.read_exact_at(&mut bytes, from)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        let (lines, torn) = bytes.split_at(whole.map_or(0, |at| at + 1));
        let mut lines = lines.split(|byte| *byte == b'\n').rev();
        // Behind the last line end.
        lines.next();
        let end = match lines.clone().next() {
            Some(line) => {
                let entry = read(line).ok_or_else(|| {
                    unfit("its last line is no entry of an audit log, or was changed")
                })?;
                End {
                    n: entry.n,
                    digest: digest(line),
                }
            }
            None if from == 0 && is_beginning(torn) => End::nothing(),
            None => return Err(unfit("it is no audit log")),
        };
        let mut entries = lines.filter_map(read);
        Ok(Self {
            end,
            torn: (!torn.is_empty()).then(|| digest(torn)),
            phase_set: entries.find(|entry| entry.said.event == PHASE_SET),
        })
    }
}

/// Whether a log may begin so; nothing is the beginning of everything.
fn is_beginning(bytes: &[u8]) -> bool {
    let most = bytes.len().min(BEGINNING.len());
    bytes[..most] == BEGINNING[..most]
}

fn unfit(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

fn lock(file: &File) -> io::Result<()> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(
        ErrorKind::TimedOut,
        "somebody else has the file locked",
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::room::herald::chain::verify;
    use crate::room::herald::tests::Folder;

    fn said(event: &str) -> Said {
        Said {
            event: event.to_owned(),
            ..Said::default()
        }
    }

    fn events(path: &Path) -> Vec<String> {
        let log = fs::read(path).unwrap();
        let mut events = Vec::new();
        verify(&log[..], |entry, _| events.push(entry.said.event)).unwrap();
        events
    }

    #[test]
    fn a_log_goes_on_where_it_was_left() {
        let folder = Folder::new();
        let path = folder.file("audit");
        for event in ["a", "b", "c"] {
            let (mut log, _) = AuditFile::open(&path, "shop").unwrap();
            log.add(7, &said(event)).unwrap();
            log.add(8, &said("again")).unwrap();
        }

        assert_eq!(events(&path), ["a", "again", "b", "again", "c", "again"]);
        let (log, _) = AuditFile::open(&path, "shop").unwrap();
        let last = fs::read_to_string(&path).unwrap();
        let last = last.lines().last().unwrap();
        assert_eq!(log.last(), (6, digest(last.as_bytes()).as_str()));
    }

    #[test]
    fn two_that_write_to_one_file_make_one_chain() {
        let folder = Folder::new();
        let path = folder.file("audit");
        let (mut one, _) = AuditFile::open(&path, "shop").unwrap();
        let (mut other, _) = AuditFile::open(&path, "shop").unwrap();

        for _ in 0..3 {
            one.add(7, &said("one")).unwrap();
            other.add(7, &said("other")).unwrap();
            other.add(7, &said("other")).unwrap();
        }

        assert_eq!(events(&path).len(), 9);
    }

    #[test]
    fn a_line_that_was_not_finished_stays_and_is_noted() {
        for kept in [0, 1] {
            let folder = Folder::new();
            let path = folder.file("audit");
            let (mut log, _) = AuditFile::open(&path, "shop").unwrap();
            for event in &["a", "b"][..=kept] {
                log.add(7, &said(event)).unwrap();
            }
            let text = fs::read(&path).unwrap();
            fs::write(&path, &text[..text.len() - 20]).unwrap();

            let (mut log, _) = AuditFile::open(&path, "shop").unwrap();
            log.add(8, &said("c")).unwrap();

            let expected = [&["a"][..kept], &[TORN, "c"]].concat();
            assert_eq!(events(&path), expected);
        }
    }

    #[test]
    fn what_is_no_audit_log_is_left_alone() {
        let folder = Folder::new();
        for text in ["something dear", "something dear\n", "{\"n\":1}\n", "\n"] {
            let path = folder.file("dear");
            fs::write(&path, text).unwrap();

            let error = AuditFile::open(&path, "shop").unwrap_err();

            assert_eq!(error.kind(), ErrorKind::InvalidData, "{text:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert!(AuditFile::open(&folder.file("no/folder"), "shop").is_err());
    }

    #[test]
    fn a_log_whose_end_was_changed_is_not_gone_on_with() {
        let folder = Folder::new();
        let path = folder.file("audit");
        let (mut log, _) = AuditFile::open(&path, "shop").unwrap();
        log.add(7, &said("a")).unwrap();
        log.add(7, &said("b")).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"b\"", "\"bb\"")).unwrap();

        assert!(AuditFile::open(&path, "shop").is_err());
        // Nor by who has it open already.
        assert!(log.add(8, &said("c")).is_err());
    }

    #[test]
    fn who_has_set_the_phase_is_known_after_a_restart() {
        let folder = Folder::new();
        let path = folder.file("audit");
        let (mut log, nobody) = AuditFile::open(&path, "shop").unwrap();
        assert_eq!(nobody, None);
        for by in ["kim", "jo"] {
            let set = Said {
                by: Some(by.to_owned()),
                ..said(PHASE_SET)
            };
            log.add(7, &set).unwrap();
        }
        log.add(8, &said("room.idle")).unwrap();

        let (_, set) = AuditFile::open(&path, "shop").unwrap();

        assert_eq!(set.and_then(|set| set.said.by).as_deref(), Some("jo"));
    }
}
