//! A file of the kernel that is read every second.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::agent::sight::Blank;

/// Bytes read of a file. What matters in the files that are read here stands in the first few kilobytes.
const BYTES_MAX: usize = 64 * 1024;
/// Bytes read of a file that is read once: a machine may have thousands of mounts.
const ONCE_BYTES_MAX: u64 = 1024 * 1024;
/// Bytes of a buffer at first.
const BYTES_FIRST: usize = 4 * 1024;

/// The file stays open and the buffer is used again: a look in steady state takes no memory.
pub(super) struct KernelFile {
    path: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
}

impl KernelFile {
    /// The file at `path`, which need not be there.
    pub(super) const fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            buffer: Vec::new(),
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// All of it as it is now, or its first 64 KiB.
    pub(super) fn read(&mut self) -> Result<&str, Blank> {
        match self.fill() {
            Ok(length) => std::str::from_utf8(&self.buffer[..length])
                .map_err(|_| Blank::error(format!("{} is no text", self.path.display()))),
            Err(error) => {
                // Of a group of processes that was made anew the old file says nothing any more.
                self.file = None;
                Err(Blank::of_file(&error, &self.path))
            }
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            empty => empty.insert(open(&self.path)?),
        };
        if self.buffer.is_empty() {
            self.buffer.resize(BYTES_FIRST, 0);
        }
        let mut length = 0;
        loop {
            let read = file.read_at(&mut self.buffer[length..], length as u64)?;
            length += read;
            if read == 0 || length == BYTES_MAX {
                return Ok(length);
            }
            if length == self.buffer.len() {
                self.buffer.resize((length * 2).min(BYTES_MAX), 0);
            }
        }
    }
}

/// Opens a file, and nothing that would wait for somebody on the other side, as a pipe does: that would be the last look.
fn open(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(io::Error::other("it is no regular file"))
    }
}

/// The first MiB of a file that is read once.
pub(super) fn text_of(path: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    open(path)?.take(ONCE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The value behind `name` in lines of a name and a number.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    let of = |line: &str| {
        line.strip_prefix(name)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    };
    text.lines().find_map(of)
}

/// The only number of a file.
pub(super) fn number(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use tidegate_core::health::Validity;

    use super::*;

    #[test]
    fn a_file_is_read_anew_each_time_and_may_come_later() {
        let path = std::env::temp_dir().join(format!("tidegate-file-{}", std::process::id()));
        let mut file = KernelFile::new(path.clone());
        assert_eq!(file.read().unwrap_err().validity, Validity::Unsupported);

        std::fs::write(&path, "first").unwrap();
        assert_eq!(file.read(), Ok("first"));
        std::fs::write(&path, "2nd").unwrap();
        assert_eq!(file.read(), Ok("2nd"));
        let long = "x".repeat(BYTES_FIRST * 3);
        std::fs::write(&path, &long).unwrap();
        assert_eq!(file.read(), Ok(long.as_str()));

        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("tidegate-pipe-{}", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());

        let blank = KernelFile::new(path.clone()).read().map(str::to_owned);
        let once = text_of(&path);

        std::fs::remove_file(&path).unwrap();
        let blank = blank.unwrap_err();
        assert_eq!(blank.validity, Validity::Error);
        assert!(blank.why.contains("no regular file"), "{}", blank.why);
        assert!(once.is_err());
    }

    #[test]
    fn a_name_is_not_found_in_a_longer_one() {
        let stat = "nr_throttled_x 9\nnr_throttled 3\nnr_periods 8\n";

        assert_eq!(field(stat, "nr_throttled"), Some(3));
        assert_eq!(field(stat, "nr_bursts"), None);
    }
}
