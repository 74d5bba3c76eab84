//! The configuration file as text.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// More than a thousand routes take; a device or a log given by mistake ends here.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Why there is no text to parse.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The system does not give it to us.
    #[error("cannot read the configuration file {}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// It is no configuration, or somebody's mistake.
    #[error(
        "the configuration file {} is larger than {} MiB: is it the right file?",
        .path.display(), FILE_BYTES_MAX >> 20
    )]
    TooLarge { path: PathBuf },
    /// It is in another encoding, or not text at all.
    #[error(
        "the configuration file {}, line {line}, holds bytes that are not UTF-8: save it as UTF-8 text",
        .path.display()
    )]
    NotUtf8 { path: PathBuf, line: usize },
}

/// The text of the file at `path`.
pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    let unreadable = |source| FileError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
        });
    }
    String::from_utf8(bytes).map_err(|error| {
        let sound = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        FileError::NotUtf8 {
            path: path.to_owned(),
            line: 1 + sound.iter().filter(|&&byte| byte == b'\n').count(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_too_large() {
        assert!(matches!(
            read(Path::new("/dev/zero")),
            Err(FileError::TooLarge { .. })
        ));
    }

    #[test]
    fn a_directory_cannot_be_read() {
        assert!(matches!(
            read(Path::new("/")),
            Err(FileError::Unreadable { .. })
        ));
    }

    #[test]
    fn bytes_that_are_no_text_are_found_by_their_line() {
        let path = std::env::temp_dir().join(format!("tidegate-latin-{}", std::process::id()));
        std::fs::write(&path, b"threads = 1\n# caf\xe9\n").unwrap();

        let error = read(&path).unwrap_err();

        std::fs::remove_file(&path).unwrap();
        assert!(
            matches!(error, FileError::NotUtf8 { line: 2, .. }),
            "{error}"
        );
    }
}
