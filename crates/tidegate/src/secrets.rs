//! Passwords and keys, read from their files when they are needed and not before: a configuration
//! can be checked where they are not.

mod rooms;

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use tidegate_gateway::rate::TokenKeys;
use tidegate_gateway::session::{Keys, draw_line};
use tidegate_store::redis::{Arrangement, RedisPlan, Use};

use crate::config::{Fault, KeyFile, Servers, Setup};

pub(crate) use self::rooms::fill as fill_rooms;

/// A password or a page of keys is shorter; something else was named by mistake.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Bits of a file's mode by which others than owner and group may read it.
const OTHERS: u32 = 0o007;

/// What is said of a file that others may read.
const OPEN_TO_OTHERS: &str = "everybody on this machine may read a secret: chmod o= it";

/// What a file has.
struct Content {
    text: String,
    is_open_to_others: bool,
}

/// What a look into files has found.
#[derive(Default)]
struct Look {
    notes: Vec<String>,
    faults: Vec<Fault>,
}

/// Looks into the files of `setup` that can be read here, as a start would, but makes none. Returns
/// what there is to say of them.
///
/// # Errors
///
/// As a start has them, but all of them, and not for files that are not here or that we may not read.
pub(crate) fn look(setup: &Setup) -> Result<Vec<String>, Vec<Fault>> {
    let mut look = Look::default();
    if let Some(sessions) = &setup.sessions {
        let (path, is_needed) = match &sessions.key_file {
            KeyFile::Shared(path) => (path, true),
            KeyFile::Own(path) => (path, false),
        };
        // Where nothing names it, it is the section's own.
        let named = vec![vec!["sessions", "key_file"], vec!["sessions"]];
        look.file(named, path, "key file", is_needed, parse_keys);
    }
    for used in Use::ALL {
        let Some(servers) = setup.store.servers(used) else {
            continue;
        };
        for (key, path) in [
            ("password_file", &servers.password_file),
            ("sentinel_password_file", &servers.sentinel_password_file),
        ] {
            let Some(path) = path else { continue };
            let named = vec![vec!["store", used.name(), key], vec!["store", key]];
            look.file(named, path, "password file", true, first_line);
        }
    }
    if let Some(tokens) = &setup.gateway.rates.tokens {
        let named = vec![vec!["tokens", "key_file"]];
        look.file(named, &tokens.key_file, "key file", true, parse_token_keys);
    }
    if let Some(agent) = &setup.agent {
        for (key, path, kind) in [
            ("password_file", &agent.look.password_file, "password file"),
            ("token_file", &agent.look.token_file, "token file"),
        ] {
            if let Some(path) = path {
                let named = vec![vec!["agent", key]];
                look.file(named, path, kind, true, |path, _| {
                    crate::agent::secret(path)
                });
            }
        }
    }
    rooms::look(setup, &mut look);
    let Look { mut notes, faults } = look;
    notes.dedup();
    match faults.is_empty() {
        true => Ok(notes),
        false => Err(faults),
    }
}

impl Look {
    /// Looks into the file at `path` with `parse`. What is `named` is the key that says where it is.
    fn file<T>(
        &mut self,
        named: Vec<Vec<&'static str>>,
        path: &Path,
        kind: &str,
        is_needed: bool,
        parse: impl FnOnce(&Path, &str) -> anyhow::Result<T>,
    ) {
        if let Err(error) = note(path, kind, is_needed, &mut self.notes, parse) {
            self.fault(named, Vec::new(), &error);
        }
    }

    /// Notes that something which is `named` will not do.
    fn fault(&mut self, named: Vec<Vec<&'static str>>, at: Vec<usize>, error: &anyhow::Error) {
        let message = format!("{error:#}");
        // Several uses of the store may name one file.
        if self.faults.iter().all(|fault| fault.message != message) {
            self.faults.push(Fault {
                named,
                at,
                message,
                fix: "put right what is in the file, or name another one",
            });
        }
    }
}

/// Looks into one file with `parse`.
fn note<T>(
    path: &Path,
    kind: &str,
    is_needed: bool,
    notes: &mut Vec<String>,
    parse: impl FnOnce(&Path, &str) -> anyhow::Result<T>,
) -> anyhow::Result<()> {
    let shown = path.display();
    if let Err(error) = File::open(path)
        && matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::PermissionDenied
        )
    {
        if is_needed {
            notes.push(format!(
                "note: the {kind} {shown} is not looked into: {error}"
            ));
        }
        return Ok(());
    }
    let content = read(path).with_context(|| format!("cannot read the {kind} {shown}"))?;
    parse(path, &content.text)?;
    if content.is_open_to_others {
        notes.push(format!("warning: {shown}: {OPEN_TO_OTHERS}"));
    }
    Ok(())
}

/// The plan for `servers`, with the passwords from their files.
pub(crate) fn with_passwords(servers: &Servers) -> anyhow::Result<RedisPlan> {
    let mut plan = servers.plan.clone();
    if let Some(path) = &servers.password_file {
        plan.credentials.password = Some(password(path)?);
    }
    if let Some(path) = &servers.sentinel_password_file
        && let Arrangement::Sentinel { credentials, .. } = &mut plan.arrangement
    {
        credentials.password = Some(password(path)?);
    }
    Ok(plan)
}

/// The keys in `file`, which is made if it is nobody else's and missing.
pub(crate) fn keys(file: &KeyFile) -> anyhow::Result<Keys> {
    let path = match file {
        KeyFile::Shared(path) => path,
        KeyFile::Own(path) => {
            if !path.exists() {
                make(path)
                    .with_context(|| format!("cannot make the key file {}", path.display()))?;
            }
            path
        }
    };
    let text = read_and_warn(path).with_context(|| {
        format!(
            "cannot read the key file {}; `tidegate session key` prints a line for a new one",
            path.display()
        )
    })?;
    parse_keys(path, &text)
}

/// The keys of those who sign tokens, in the file at `path`.
pub(crate) fn token_keys(path: &Path) -> anyhow::Result<TokenKeys> {
    // Most of them are public, and may be read by everybody.
    let content = read(path).with_context(|| {
        format!(
            "cannot read {}, the keys that tokens are verified by",
            path.display()
        )
    })?;
    parse_token_keys(path, &content.text)
}

fn parse_token_keys(path: &Path, text: &str) -> anyhow::Result<TokenKeys> {
    TokenKeys::parse(text).with_context(|| format!("the key file {} will not do", path.display()))
}

fn parse_keys(path: &Path, text: &str) -> anyhow::Result<Keys> {
    Keys::parse(text).with_context(|| format!("the key file {} will not do", path.display()))
}

/// The first line of the file at `path`.
fn password(path: &Path) -> anyhow::Result<String> {
    let text = read_and_warn(path)
        .with_context(|| format!("cannot read the password file {}", path.display()))?;
    first_line(path, &text)
}

fn first_line(path: &Path, text: &str) -> anyhow::Result<String> {
    let line = text.lines().next().unwrap_or_default();
    ensure!(
        !line.is_empty(),
        "the password file {} has no password in its first line",
        path.display()
    );
    Ok(line.to_owned())
}

fn read_and_warn(path: &Path) -> anyhow::Result<String> {
    let content = read(path)?;
    if content.is_open_to_others {
        tracing::warn!(path = %path.display(), "{OPEN_TO_OTHERS}");
    }
    Ok(content.text)
}

fn read(path: &Path) -> anyhow::Result<Content> {
    let file = File::open(path)?;
    let is_open_to_others = file.metadata()?.permissions().mode() & OTHERS != 0;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        bail!(
            "it is larger than {} KiB: is it the right file?",
            FILE_BYTES_MAX >> 10
        );
    }
    Ok(Content {
        text,
        is_open_to_others,
    })
}

/// Makes a key file at `path`, whole or not at all: another process may be making it too.
fn make(path: &Path) -> anyhow::Result<()> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(folder)?;
    }
    let draft = path.with_extension(format!("new{}", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    writeln!(file, "{}", draw_line())?;
    file.sync_all()?;
    let placed = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match placed {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own for one test.
    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn a_key_file_of_our_own_is_made_once_and_for_us_alone() {
        let folder = folder("keys");
        let path = folder.join("deep/session.key");

        keys(&KeyFile::Own(path.clone())).unwrap();
        let first = fs::read_to_string(&path).unwrap();
        keys(&KeyFile::Own(path.clone())).unwrap();

        assert_eq!(fs::read_to_string(&path).unwrap(), first);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_key_file_that_is_shared_is_never_made() {
        let path = folder("shared").join("session.key");

        let error = keys(&KeyFile::Shared(path.clone())).unwrap_err();

        assert!(
            error.to_string().contains("tidegate session key"),
            "{error:#}"
        );
        assert!(!path.exists());
    }

    #[test]
    fn a_password_is_the_first_line_of_its_file() {
        let folder = folder("password");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("password");

        fs::write(&path, "sesame \nrest\n").unwrap();
        assert_eq!(password(&path).unwrap(), "sesame ");
        fs::write(&path, "\n").unwrap();
        assert!(
            password(&path)
                .unwrap_err()
                .to_string()
                .contains("no password")
        );
        fs::write(&path, vec![b'x'; 100_000]).unwrap();
        assert!(format!("{:#}", password(&path).unwrap_err()).contains("right file"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
