//! The file that keeps what a room must not forget over a restart of everything, or of a store that is in this process.
//!
//! Without it a store that knows nothing would begin another epoch, and everybody who waits anew. When the file cannot be
//! read, or not written, the room goes on as if there were none.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::room::{Epoch, Phase, RoomName};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::warn;

/// A longer file is none of ours.
const BYTES_MAX: u64 = 1024 * 1024;
/// How a file of ours begins, whatever its version, so that no other is ever written over.
const BEGINNING: &str = "{\"tidegate_room\":";
/// The version that is read and written.
const VERSION: u32 = 1;
/// Longest wait for the last writing.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Which epoch the room is in.
    pub(super) epoch: Epoch,
    /// What an operator has set it to.
    pub(super) phase: Option<Phase>,
    /// How many waited, [about]; `None` where nobody knew.
    pub(super) alive: Option<u64>,
    /// What everybody is to know, by name.
    pub(super) notes: BTreeMap<String, String>,
}

/// The file of one room.
pub(super) struct StateFile {
    path: PathBuf,
    room: RoomName,
    written: Option<Kept>,
    writing: Option<(Kept, JoinHandle<Result<(), Useless>>)>,
    is_failing: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    tidegate_room: u32,
    room: String,
    epoch: u64,
    phase: Option<String>,
    alive: Option<u64>,
    notes: BTreeMap<String, String>,
}

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
enum Useless {
    #[error("it is no state file of a room, and is left alone until somebody removes it")]
    Foreign,
    #[error("it is damaged, or of a later release")]
    Damaged,
    #[error("it is of the room {0}")]
    Other(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl StateFile {
    /// The file at `path`, for `room`.
    pub(super) const fn new(path: PathBuf, room: RoomName) -> Self {
        Self {
            path,
            room,
            written: None,
            writing: None,
            is_failing: false,
        }
    }

    /// What an earlier process has left. Reads the disk.
    pub(super) fn read(&mut self) -> Option<Kept> {
        match load(&self.path, &self.room) {
            Ok(kept) => self.written = Some(kept),
            Err(Useless::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => warn!(
                room = %self.room, path = %self.path.display(), %error,
                "the state file of the room is of no use: a store that has forgotten the room begins it anew"
            ),
        }
        self.written.clone()
    }

    /// Sees to it that this is in the file before long. Waits for nothing.
    pub(super) async fn keep(&mut self, kept: &Kept) {
        if let Some((_, task)) = &self.writing {
            if !task.is_finished() {
                return;
            }
            self.finish().await;
        }
        if self.written.as_ref() == Some(kept) {
            return;
        }
        let (path, room, writes) = (self.path.clone(), self.room.clone(), kept.clone());
        let task = tokio::task::spawn_blocking(move || write(&path, &room, writes));
        self.writing = Some((kept.clone(), task));
    }

    /// Waits for what is being written, within reason.
    pub(super) async fn close(&mut self) {
        // A disk that hangs must not keep the process.
        let _ = timeout(CLOSE_WITHIN, self.finish()).await;
    }

    async fn finish(&mut self) {
        let Some((kept, task)) = &mut self.writing else {
            return;
        };
        match task.await {
            Ok(Ok(())) => {
                self.written = Some(kept.clone());
                self.is_failing = false;
            }
            Ok(Err(error)) if !self.is_failing => {
                self.is_failing = true;
                warn!(
                    room = %self.room, path = %self.path.display(), %error,
                    "the state of the room cannot be kept"
                );
            }
            // It was said already; or the process ends.
            Ok(Err(_)) | Err(_) => {}
        }
        self.writing = None;
    }
}

/// How many wait, about: rounded down by a fifth at most, so that it does not change with everybody who comes.
pub(super) fn about(waiting: u64) -> u64 {
    let step = (waiting.checked_ilog2().unwrap_or(0)).saturating_sub(2);
    waiting >> step << step
}

/// Replaces the file as a whole: whoever reads it finds the old one or the new one.
fn write(path: &Path, room: &RoomName, kept: Kept) -> Result<(), Useless> {
    match begins_as_ours(path) {
        Ok(true) => {}
        Ok(false) => return Err(Useless::Foreign),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    if let Err(other @ Useless::Other(_)) = load(path, room) {
        return Err(other);
    }
    let mut name = OsString::from(path);
    name.push(".new");
    let wire = Wire {
        tidegate_room: VERSION,
        room: room.to_string(),
        epoch: kept.epoch.0,
        phase: kept.phase.map(|phase| phase.name().to_owned()),
        alive: kept.alive,
        notes: kept.notes,
    };
    let json = serde_json::to_vec(&wire).expect("numbers and texts are JSON");
    let filled = File::create(&name).and_then(|mut file| {
        file.write_all(&json)?;
        file.sync_data()
    });
    let written = filled.and_then(|()| fs::rename(&name, path));
    if written.is_err() {
        // Half of it is of use to nobody, least of all on a full disk.
        let _ = fs::remove_file(&name);
    }
    Ok(written?)
}

fn load(path: &Path, room: &RoomName) -> Result<Kept, Useless> {
    if !begins_as_ours(path)? {
        return Err(Useless::Foreign);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
    let wire: Wire = serde_json::from_slice(&bytes).map_err(|_| Useless::Damaged)?;
    if wire.tidegate_room != VERSION {
        return Err(Useless::Damaged);
    }
    if wire.room != room.as_str() {
        return Err(Useless::Other(wire.room));
    }
    let phase = match wire.phase {
        None => None,
        Some(name) => Some(Phase::parse(&name).ok_or(Useless::Damaged)?),
    };
    Ok(Kept {
        epoch: Epoch(wire.epoch),
        phase,
        alive: wire.alive,
        notes: wire.notes,
    })
}

/// Whether the file is empty, or begins like one of ours.
fn begins_as_ours(path: &Path) -> io::Result<bool> {
    if !fs::metadata(path)?.is_file() {
        return Ok(false);
    }
    let mut beginning = Vec::new();
    File::open(path)?
        .take(BEGINNING.len() as u64)
        .read_to_end(&mut beginning)?;
    Ok(beginning.is_empty() || beginning == BEGINNING.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const KEPT: Kept = Kept {
        epoch: Epoch(1_790_000_000_123),
        phase: Some(Phase::QueueAll),
        alive: Some(96),
        notes: BTreeMap::new(),
    };

    /// A file that goes when it is dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("tidegate-room-{}-{number}.json", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn file(&self, room: &str) -> StateFile {
            StateFile::new(self.0.clone(), RoomName::new(room).unwrap())
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[tokio::test]
    async fn what_is_kept_is_there_at_the_next_start() {
        let scratch = Scratch::new();
        let mut file = scratch.file("shop");
        assert_eq!(file.read(), None);

        file.keep(&KEPT).await;
        file.close().await;
        let later = Kept {
            phase: None,
            notes: BTreeMap::from([("stock".to_owned(), "7".to_owned())]),
            ..KEPT
        };
        file.keep(&later).await;
        file.close().await;

        assert_eq!(file.written.as_ref(), Some(&later));
        assert_eq!(scratch.file("shop").read().as_ref(), Some(&later));
        let mut other = scratch.file("other");
        assert_eq!(other.read(), None);
        other.keep(&KEPT).await;
        other.close().await;
        assert_eq!(scratch.file("shop").read(), Some(later), "it is not its");
        let new = scratch.0.with_extension("json.new");
        assert!(!new.exists(), "half of it is not left behind");
    }

    #[tokio::test]
    async fn what_is_in_the_file_already_is_not_written_again() {
        let scratch = Scratch::new();
        let mut file = scratch.file("shop");
        file.keep(&KEPT).await;
        file.close().await;

        file.keep(&KEPT).await;

        assert!(file.writing.is_none());
    }

    #[tokio::test]
    async fn a_damaged_file_is_replaced_and_somebody_elses_is_left_alone() {
        let scratch = Scratch::new();
        for damaged in [
            "",
            "{\"tidegate_room\":1}",
            "{\"tidegate_room\":2,\"room\":\"shop\",\"epoch\":5,\"phase\":null,\"alive\":0,\"notes\":{}}",
            "{\"tidegate_room\":1,\"room\":\"shop\",\"epoch\":5,\"phase\":\"on\",\"alive\":0,\"notes\":{}}",
        ] {
            fs::write(&scratch.0, damaged).unwrap();
            let mut file = scratch.file("shop");
            assert_eq!(file.read(), None, "{damaged}");
            file.keep(&KEPT).await;
            file.close().await;
            assert_eq!(scratch.file("shop").read(), Some(KEPT), "{damaged}");
        }

        fs::write(&scratch.0, "something dear").unwrap();
        let mut file = scratch.file("shop");
        assert_eq!(file.read(), None);
        file.keep(&KEPT).await;
        file.close().await;
        assert_eq!(fs::read(&scratch.0).unwrap(), b"something dear");
    }

    #[test]
    fn how_many_wait_is_rounded_down_by_a_fifth_at_most() {
        for waiting in [0, 1, 2, 3, 5, 7, 99, 1_000, 123_456, 1_000_000, u64::MAX] {
            let about = about(waiting);
            assert!(about <= waiting);
            assert!(about as f64 >= 0.8 * waiting as f64, "{waiting} {about}");
        }
        let mut changes: Vec<_> = (0..1_000_000).map(about).collect();
        changes.dedup();
        assert!(changes.len() < 100, "{}", changes.len());
    }
}
