//! The files that results go to: opened before anything is simulated, filled when all of it is done.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

/// Where the results go besides the table.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    pub(super) html: Option<Output>,
    pub(super) json: Option<Output>,
}

/// One file, open for writing, with its old content still in it.
#[derive(Debug)]
pub(super) struct Output {
    flag: &'static str,
    path: PathBuf,
    file: File,
    /// Whether it was not there before.
    created: bool,
}

impl Outputs {
    /// Opens the files of `--html` and `--json`, neither of which may be one of `inputs`, or the
    /// other one.
    pub(super) fn open(
        html: Option<&Path>,
        json: Option<&Path>,
        inputs: &[PathBuf],
    ) -> anyhow::Result<Self> {
        let html = html.map(|path| Output::open("--html", path, inputs));
        let html = html.transpose()?;
        let json = json.map(|path| Output::open("--json", path, inputs));
        let outputs = match json.transpose() {
            Ok(json) => Self { html, json },
            Err(error) => {
                html.iter().for_each(Output::discard);
                return Err(error);
            }
        };
        if let (Some(html), Some(json)) = (&outputs.html, &outputs.json)
            && same(&html.file.metadata()?, &json.file.metadata()?)
        {
            html.discard();
            bail!(
                "--html and --json are both to be written to {}: name two files",
                html.path.display()
            );
        }
        Ok(outputs)
    }
}

impl Output {
    fn open(flag: &'static str, path: &Path, inputs: &[PathBuf]) -> anyhow::Result<Self> {
        if let Ok(there) = path.metadata() {
            // The same file may go by many names.
            let input = inputs.iter().find(|input| {
                let input = input.metadata();
                input.is_ok_and(|input| same(&there, &input))
            });
            if let Some(input) = input {
                bail!(
                    "{flag} would overwrite {}, which is read: name another file",
                    input.display()
                );
            }
        }
        let begun = |opened: io::Result<File>, created| {
            opened.map(|file| Self {
                flag,
                path: path.to_owned(),
                file,
                created,
            })
        };
        // What is in it stays until there is something better.
        let mut options = OpenOptions::new();
        options.write(true);
        let output = match begun(options.open(path), false) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                begun(options.create(true).truncate(false).open(path), true)
            }
            opened => opened,
        };
        output.with_context(|| format!("cannot write what {flag} asks for to {}", path.display()))
    }

    /// Replaces what is in the file.
    pub(super) fn write(&mut self, text: &str) -> anyhow::Result<()> {
        let written = self.replace(text);
        written.with_context(|| {
            format!(
                "cannot write what {} asks for to {}",
                self.flag,
                self.path.display()
            )
        })
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        // A pipe or a terminal has nothing to cut off.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())?;
        self.file.flush()
    }

    /// Leaves nothing behind that was not there before.
    pub(super) fn discard(&self) {
        if self.created {
            // An empty file is a nuisance, not a reason to fail in another way.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// `path` is no scenario that `flag` has taken for its own.
pub(super) fn ending(flag: &str, path: Option<&Path>) -> anyhow::Result<()> {
    let path = path.unwrap_or_else(|| Path::new(""));
    ensure!(
        path.extension().is_none_or(|ending| ending != "toml"),
        "{flag} would overwrite {}: name scenario files before it, or another file for it",
        path.display()
    );
    Ok(())
}

/// Whether both are one file. Devices and pipes may be written to by many.
fn same(one: &Metadata, other: &Metadata) -> bool {
    one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A directory of its own for the test called `name`.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn what_was_in_a_file_stays_until_it_is_written() {
        let folder = folder("outputs-stay");
        let file = folder.join("r.json");
        fs::write(&file, "older and longer").unwrap();

        let outputs = Outputs::open(None, Some(&file), &[]).unwrap();

        assert_eq!(fs::read_to_string(&file).unwrap(), "older and longer");
        outputs.json.unwrap().write("new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn nothing_is_left_of_outputs_that_are_refused() {
        let folder = folder("outputs-left");
        let file = folder.join("r");

        let twice = Outputs::open(Some(&file), Some(&folder.join("./r")), &[]).unwrap_err();
        assert!(twice.to_string().contains("name two files"), "{twice}");
        Outputs::open(Some(&file), Some(&folder), &[]).unwrap_err();

        assert!(!file.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
