//! The file.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::backends::InMemoryBackend;
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError,
    TableDefinition,
};

use super::error::EmbeddedError;
use super::key::Key;
use super::state::{Blob, State};

/// The name of the file in its folder.
pub(super) const FILE_NAME: &str = "sessions.redb";
/// Bytes of the file that are held in memory for reading large values and writing.
const CACHE_BYTES: usize = 32 * 1024 * 1024;
/// How what is kept is written down.
const FORMAT: u64 = 1;
const KEPT: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("kept");
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
const FORMAT_KEY: &str = "format";

/// The file, or memory that behaves like one.
#[derive(Debug)]
pub(super) struct File {
    /// `None` is memory.
    path: Option<PathBuf>,
    /// `None` while it is being opened again after an error.
    database: Mutex<Option<Arc<Database>>>,
}

impl File {
    /// Opens the file in `folder`, or makes both, or takes memory; reads what is kept.
    pub(super) fn open(folder: Option<&Path>) -> Result<(Self, State), EmbeddedError> {
        let path = folder.map(|folder| folder.join(FILE_NAME));
        let database = match (&path, folder) {
            (Some(path), Some(folder)) => {
                make(folder, path).map_err(|error| unusable(path, &error))?;
                open(path)?
            }
            _ => Builder::new()
                .set_cache_size(CACHE_BYTES)
                .create_with_backend(InMemoryBackend::new())
                .map_err(|error| refused(Path::new("memory"), error))?,
        };
        let shown = path.clone().unwrap_or_default();
        // A damaged file can fail the library's own assertions.
        let state = catch_unwind(AssertUnwindSafe(|| read(&database, &shown)))
            .unwrap_or_else(|_| Err(damaged(&shown, "its parts do not fit together")))?;
        let file = Self {
            path,
            database: Mutex::new(Some(Arc::new(database))),
        };
        Ok((file, state))
    }

    /// Writes `batch`, all of it or nothing, and waits until it is on the disk.
    pub(super) fn write(&self, batch: &[(Key, Option<Vec<u8>>)]) -> Result<(), redb::Error> {
        let database = self.database()?;
        let transaction = database.begin_write()?;
        {
            let mut kept = transaction.open_table(KEPT)?;
            for (key, value) in batch {
                let key = key.encode();
                match value {
                    Some(value) => kept.insert(&*key, &**value)?,
                    None => kept.remove(&*key)?,
                };
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// Opens the file again: after an error of the disk the library uses it no more.
    pub(super) fn reopen(&self) -> Result<(), EmbeddedError> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        *self.lock() = None;
        let database = open(path)?;
        *self.lock() = Some(Arc::new(database));
        Ok(())
    }

    /// The bytes of a large value.
    pub(super) fn blob(&self, key: &Key) -> Result<Option<Vec<u8>>, redb::Error> {
        let transaction = self.database()?.begin_read()?;
        let kept = transaction.open_table(KEPT)?;
        let bytes = kept.get(&*key.encode())?;
        Ok(bytes.and_then(|bytes| Blob::decode(bytes.value()).map(<[u8]>::to_vec)))
    }

    /// Closes the file, so that another process may open it.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }

    fn database(&self) -> Result<Arc<Database>, redb::Error> {
        let database = self.lock().clone();
        database.ok_or(redb::Error::DatabaseClosed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Database>>> {
        // Nothing is left half done under this lock.
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the folder and the file, for nobody else's eyes: what is in it is personal.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)?;
    Ok(())
}

fn open(path: &Path) -> Result<Database, EmbeddedError> {
    let open = || {
        Builder::new()
            .set_cache_size(CACHE_BYTES)
            .set_check_integrity_on_open(true)
            .create(path)
    };
    catch_unwind(AssertUnwindSafe(open))
        .map_err(|_| damaged(path, "its parts do not fit together"))?
        .map_err(|error| refused(path, error))
}

fn read(database: &Database, path: &Path) -> Result<State, EmbeddedError> {
    let odd = |error: redb::Error| damaged(path, &error.to_string());
    prepare(database, path)?;
    let transaction = database.begin_read().map_err(|error| odd(error.into()))?;
    let kept = transaction
        .open_table(KEPT)
        .map_err(|error| odd(error.into()))?;
    let mut state = State::default();
    for entry in kept.iter().map_err(|error| odd(error.into()))? {
        let (key, value) = entry.map_err(|error| odd(error.into()))?;
        let key = key.value();
        let loaded = Key::decode(key).and_then(|key| state.load(key, value.value()));
        // The kind of an entry is in its first letter; the rest may be somebody's name.
        let kind: String = key.chars().take(1).collect();
        loaded
            .ok_or_else(|| damaged(path, &format!("an entry of kind {kind:?} makes no sense")))?;
    }
    state.loaded();
    Ok(state)
}

/// Makes the tables, or checks that they are of this release's format.
fn prepare(database: &Database, path: &Path) -> Result<(), EmbeddedError> {
    let prepared = || -> Result<u64, redb::Error> {
        let transaction = database.begin_write()?;
        let format = {
            let mut about = transaction.open_table(ABOUT)?;
            let format = about.get(FORMAT_KEY)?.map(|format| format.value());
            if format.is_none() {
                about.insert(FORMAT_KEY, FORMAT)?;
            }
            transaction.open_table(KEPT)?;
            format.unwrap_or(FORMAT)
        };
        transaction.commit()?;
        Ok(format)
    };
    match prepared() {
        Ok(FORMAT) => Ok(()),
        Ok(_) => Err(EmbeddedError::Newer { path: path.into() }),
        Err(error) => Err(damaged(path, &error.to_string())),
    }
}

fn refused(path: &Path, error: DatabaseError) -> EmbeddedError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => EmbeddedError::InUse { path: path.into() },
        // What is shorter than it says, or does not begin as it should, shows as these.
        DatabaseError::Storage(StorageError::Io(error))
            if !matches!(
                error.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ) =>
        {
            unusable(path, &error)
        }
        error => damaged(path, &error.to_string()),
    }
}

fn damaged(path: &Path, why: &str) -> EmbeddedError {
    EmbeddedError::Damaged {
        path: path.into(),
        why: why.to_owned(),
    }
}

fn unusable(path: &Path, error: &io::Error) -> EmbeddedError {
    EmbeddedError::Unusable {
        path: path.into(),
        why: error.to_string(),
    }
}
