//! The file that a log is written to, and the one before it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use tidegate_core::journal::MAGIC;
use tracing::info;

/// A new file at `path`. A log that is there already is kept as `path` with `.old` behind it, in the
/// place of the one before; a file that is no log is left alone, and that is an error.
pub(super) fn begin(path: &Path) -> io::Result<File> {
    if is_log(path)? {
        let old = old(path);
        is_log(&old)?;
        fs::rename(path, &old)?;
        info!(path = %old.display(), "the last decision log is kept");
    }
    File::options().write(true).create_new(true).open(path)
}

fn old(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".old");
    name.into()
}

/// Whether there is a log at `path`, or an empty file that may have become one. An error when
/// something else is there.
fn is_log(path: &Path) -> io::Result<bool> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        metadata => metadata?,
    };
    let known = &MAGIC[..MAGIC.len() - 1];
    let mut beginning = Vec::new();
    if metadata.is_file() {
        File::open(path)?
            .take(known.len() as u64)
            .read_to_end(&mut beginning)?;
    }
    if metadata.is_file() && (beginning.is_empty() || beginning == known) {
        Ok(true)
    } else {
        let what = format!("{} is there and is no decision log", path.display());
        Err(io::Error::new(ErrorKind::AlreadyExists, what))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A directory that goes when it is dropped.
    struct Directory(PathBuf);

    impl Directory {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("tidegate-journal-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn log(text: &str) -> Vec<u8> {
        [&MAGIC[..], text.as_bytes()].concat()
    }

    #[test]
    fn the_log_before_is_kept_once() {
        let directory = Directory::new();
        let path = directory.0.join("shop.tglog");

        for text in ["first", "second", "third"] {
            begin(&path).unwrap().write_all(&log(text)).unwrap();
        }

        assert_eq!(fs::read(&path).unwrap(), log("third"));
        assert_eq!(
            fs::read(directory.0.join("shop.tglog.old")).unwrap(),
            log("second")
        );
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_is_no_log_is_left_alone() {
        let directory = Directory::new();
        let path = directory.0.join("shop.tglog");
        fs::write(&path, "something dear").unwrap();

        assert_eq!(begin(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"something dear");

        fs::write(directory.0.join("b.old"), "something dear").unwrap();
        fs::write(directory.0.join("b"), log("log")).unwrap();
        assert!(begin(&directory.0.join("b")).is_err());
        assert_eq!(fs::read(directory.0.join("b")).unwrap(), log("log"));
        assert_eq!(
            begin(&directory.0).unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
    }
}
