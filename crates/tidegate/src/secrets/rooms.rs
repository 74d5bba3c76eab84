//! What waiting rooms have in files: keys, the secrets of webhooks, and themes.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use tidegate_core::time::Wall;
use tidegate_gateway::room::{Algorithm, KeyState, Keys, RoomPlan};
use tidegate_page::Pages;

use super::{Look, note, read_and_warn};
use crate::config::Setup;
use crate::room::theme;

/// A shorter secret is guessed.
const SECRET_LEN_MIN: usize = 16;

/// Looks into the files of the rooms of `setup` that can be read here, as a start would.
pub(super) fn look(setup: &Setup, look: &mut Look) {
    for (at, room) in setup.gateway.rooms.iter().enumerate() {
        look_at_keys(look, at, room);
        for (nth, hook) in room.webhooks.iter().enumerate() {
            let path = &hook.secret_file;
            let found = note(path, "secret file", true, &mut look.notes, secret_in);
            if let Err(error) = found {
                let named = vec![vec!["room", "webhook", "secret_file"]];
                look.fault(named, vec![at, nth], &error);
            }
        }
        if let Some(Some(path)) = setup.themes.get(at) {
            look_at_theme(look, at, room, path);
        }
    }
}

fn look_at_keys(look: &mut Look, at: usize, room: &RoomPlan) {
    let (path, algorithm) = (&room.key_file, room.tokens.algorithm);
    let mut idle = None;
    let parse = |path: &Path, text: &str| {
        let keys = keys_in(path, text, algorithm)?;
        idle = idle_at(&keys, algorithm, now());
        anyhow::Ok(())
    };
    if let Err(error) = note(path, "key file", true, &mut look.notes, parse) {
        look.fault(vec![vec!["room", "key_file"]], vec![at], &error);
    }
    if let Some(idle) = idle {
        let said = not_signing(idle);
        look.notes
            .push(format!("warning: {}: {said}", path.display()));
    }
}

fn look_at_theme(look: &mut Look, at: usize, room: &RoomPlan, path: &Path) {
    if let Err(error) = File::open(path)
        && matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::PermissionDenied
        )
    {
        let shown = path.display();
        look.notes.push(format!(
            "note: the theme {shown} is not looked into: {error}"
        ));
        return;
    }
    let pages = theme::read(path)
        .and_then(|theme| Pages::new(&room.tokens.room, &theme).map_err(anyhow::Error::from));
    if let Err(error) = pages {
        let error = error.context(format!("the theme {} will not do", path.display()));
        look.fault(vec![vec!["room", "theme"]], vec![at], &error);
    }
}

/// Gives the rooms of `setup` what they have in files.
pub(crate) fn fill(setup: &mut Setup) -> anyhow::Result<()> {
    for (room, theme) in setup.gateway.rooms.iter_mut().zip(&setup.themes) {
        room.keys = keys(&room.key_file, room.tokens.algorithm)?;
        for hook in &mut room.webhooks {
            hook.secret = secret(&hook.secret_file)?;
        }
        if let Some(path) = theme {
            room.theme = theme::read(path)
                .with_context(|| format!("the theme {} will not do", path.display()))?;
        }
    }
    Ok(())
}

fn keys(path: &Path, algorithm: Algorithm) -> anyhow::Result<Keys> {
    let shown = path.display();
    let text = read_and_warn(path).with_context(|| {
        format!("cannot read the key file {shown}; `tidegate room key --file {shown}` makes one")
    })?;
    let keys = keys_in(path, &text, algorithm)?;
    if let Some(idle) = idle_at(&keys, algorithm, now()) {
        tracing::warn!(path = %shown, "{}", not_signing(idle));
    }
    Ok(keys)
}

fn keys_in(path: &Path, text: &str, algorithm: Algorithm) -> anyhow::Result<Keys> {
    let shown = path.display();
    let keys =
        Keys::from_json(text).with_context(|| format!("the key file {shown} will not do"))?;
    let is_there = keys
        .states(Wall::default())
        .any(|(_, other, _)| other == algorithm);
    let name = algorithm.name();
    ensure!(
        is_there,
        "the key file {shown} will not do: it has no key for {name}, which passes are signed with; \
         `tidegate room key --file {shown} --add --algorithm {name}` adds one"
    );
    Ok(keys)
}

/// What is to be signed with and cannot be at `now`: passes by `algorithm`, and tickets by a secret in any case.
fn idle_at(keys: &Keys, algorithm: Algorithm, now: Wall) -> Option<Algorithm> {
    let signs = |wanted| {
        let mut states = keys.states(now);
        states.any(|(_, it, state)| it == wanted && state == KeyState::Signing)
    };
    [Algorithm::Hs256, algorithm]
        .into_iter()
        .find(|wanted| !signs(*wanted))
}

fn not_signing(algorithm: Algorithm) -> String {
    format!(
        "no key for {} signs at this moment, and nobody is let in: look at its times, published, signs_from, \
         verify_only_from and revoked_from",
        algorithm.name()
    )
}

/// The secret in the first line of the file at `path`.
fn secret(path: &Path) -> anyhow::Result<Vec<u8>> {
    let text = read_and_warn(path)
        .with_context(|| format!("cannot read the secret file {}", path.display()))?;
    secret_in(path, &text)
}

fn secret_in(path: &Path, text: &str) -> anyhow::Result<Vec<u8>> {
    let line = text.lines().next().unwrap_or_default();
    ensure!(
        line.len() >= SECRET_LEN_MIN,
        "the secret file {} has {} bytes in its first line, and a secret has {SECRET_LEN_MIN} or more: \
         `openssl rand -hex 32` prints one",
        path.display(),
        line.len()
    );
    Ok(line.as_bytes().to_vec())
}

fn now() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since.unwrap_or_default().as_micros();
    Wall::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use tidegate_gateway::room::draw_key;

    use super::*;
    use crate::config::{Flags, faulty, parse};

    /// A folder of its own for one test, which goes with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("tidegate-rooms-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.0.join(name), text).unwrap();
        }

        /// A room with these keys, whose configuration is here.
        fn setup(&self, keys: &str) -> (String, Setup) {
            let text = format!(
                "[[app]]\nupstream = \"http://127.0.0.1:1\"\n[[room]]\nname = \"shop\"\nkey_file = \"keys.json\"\n{keys}\n"
            );
            let file = self.0.join("t.toml").display().to_string();
            let setup = parse(&file, &text, &Flags::default());
            (text, setup.unwrap_or_else(|refused| panic!("{refused}")))
        }

        /// What a check says of it, and where it finds what is wrong.
        fn said(&self, keys: &str) -> String {
            let (text, setup) = self.setup(keys);
            match super::super::look(&setup) {
                Ok(notes) => notes.join("\n"),
                Err(faults) => faulty("t.toml", &text, faults).to_string(),
            }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A file of keys that have been public for long.
    fn file(algorithms: &[Algorithm]) -> String {
        let keys = algorithms.iter().enumerate();
        let keys = keys.map(|(at, it)| draw_key(&format!("k{at}"), *it, 1_000));
        let keys: Vec<String> = keys.collect();
        format!("{{\"keys\":[{}]}}", keys.join(","))
    }

    #[test]
    fn files_are_beside_the_configuration_and_read_when_they_are_needed() {
        let folder = Folder::new("filled");
        folder.write("keys.json", &file(&[Algorithm::Hs256]));
        folder.write("theme.toml", "name = \"Shop\"\n");
        folder.write("secret", "0123456789abcdef0123456789abcdef\nrest\n");
        let hook = "[[room.webhook]]\nurl = \"http://h:1/x\"\nsecret_file = \"secret\"";
        let (_, mut setup) = folder.setup(&format!("theme = \"theme.toml\"\n{hook}"));

        fill(&mut setup).unwrap();

        let room = &setup.gateway.rooms[0];
        let names: Vec<&str> = room.keys.states(now()).map(|(kid, ..)| kid).collect();
        assert_eq!(names, ["k0"]);
        assert_eq!(room.theme.name, "Shop");
        assert_eq!(room.webhooks[0].secret, b"0123456789abcdef0123456789abcdef");
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_at_the_key_that_names_it() {
        let folder = Folder::new("wrong");
        folder.write("keys.json", "{}");
        assert!(
            folder.said("").contains("t.toml:5:12"),
            "{}",
            folder.said("")
        );

        folder.write("keys.json", &file(&[Algorithm::Hs256]));
        let said = folder.said("algorithm = \"EdDSA\"");
        assert!(said.contains("it has no key for EdDSA"), "{said}");
        let both = file(&[Algorithm::Hs256, Algorithm::EdDsa]);
        folder.write("keys.json", &both);
        let said = folder.said("algorithm = \"EdDSA\"");
        assert!(!said.contains("error"), "{said}");

        folder.write("secret", "short\n");
        let said =
            folder.said("[[room.webhook]]\nurl = \"http://h:1/x\"\nsecret_file = \"secret\"");
        assert!(said.contains("t.toml:8:15"), "{said}");
        assert!(said.contains("5 bytes in its first line"), "{said}");

        folder.write("theme.toml", "[light]\naccent = \"#9ecbe8\"\n");
        let said = folder.said("theme = \"theme.toml\"");
        assert!(said.contains("t.toml:6:9"), "{said}");
        assert!(said.contains("has a contrast of"), "{said}");
        folder.write("theme.toml", "\nnome = \"Shop\"\n");
        let said = folder.said("theme = \"theme.toml\"");
        assert!(said.contains("line 2: unknown field `nome`"), "{said}");
    }

    #[test]
    fn what_is_not_here_is_noted_and_a_start_says_how_it_is_made() {
        let folder = Folder::new("missing");

        let said = folder.said("theme = \"theme.toml\"");

        assert!(said.contains("keys.json is not looked into"), "{said}");
        assert!(said.contains("theme.toml is not looked into"), "{said}");
        let (_, mut setup) = folder.setup("");
        let error = fill(&mut setup).unwrap_err().to_string();
        assert!(error.contains("`tidegate room key --file"), "{error}");
    }

    #[test]
    fn keys_that_do_not_sign_yet_are_warned_of() {
        let folder = Folder::new("pending");
        let later = now().as_micros() / 1_000_000 + 3_600;
        let key = draw_key("k", Algorithm::Hs256, later);
        folder.write("keys.json", &format!("{{\"keys\":[{key}]}}"));

        let said = folder.said("");

        assert!(
            said.contains("no key for HS256 signs at this moment"),
            "{said}"
        );
    }
}
