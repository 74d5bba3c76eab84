//! `tidegate room key`: key files for waiting rooms.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tidegate_core::time::Wall;
use tidegate_gateway::room::{Algorithm, Keys, PUBLIC_BEFORE_SIGNING_S, draw_key};

use crate::print;

/// By default every gateway has so long to get the file and be restarted.
const SIGNS_IN: Duration = Duration::from_secs(3_600);
/// A larger file is none of keys.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Draw keys for waiting rooms: a new key file, or one more key in a file that there is.
///
/// Every gateway of a fleet needs the same file: `tidegate room key --file room-keys.json` makes one. Without --file it is printed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file to make, for its owner alone. One that is there already is left as it is.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Add a key to the file instead, which takes the place of those for the same algorithm.
    #[arg(long, requires = "file")]
    add: bool,
    /// What passes are signed with: HS256, EdDSA or ES256. Tickets need a key for HS256 in any case.
    #[arg(long, value_name = "NAME", default_value = "HS256", value_parser = algorithm)]
    algorithm: Algorithm,
    /// With --add, in how long the key begins to sign: by then every gateway has the file and was restarted.
    /// 5 minutes at least; an hour unless it is said.
    #[arg(long, value_name = "DURATION", value_parser = signs_in, requires = "add")]
    signs_in: Option<Duration>,
}

fn algorithm(text: &str) -> Result<Algorithm, String> {
    let names = Algorithm::ALL.map(Algorithm::name);
    Algorithm::parse(text).ok_or_else(|| format!("write one of {}", names.join(", ")))
}

fn signs_in(text: &str) -> Result<Duration, String> {
    let least = Duration::from_secs(PUBLIC_BEFORE_SIGNING_S);
    match humantime::parse_duration(text) {
        Ok(span) if span >= least => Ok(span),
        Ok(_) => Err(format!(
            "a key is public for {} before it signs: write that or more",
            humantime::format_duration(least)
        )),
        Err(_) => Err("write a number with its unit, such as 1h or 30m".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = since
        .context("the clock of this machine is before 1970")?
        .as_secs();
    let Some(path) = &args.file else {
        return print(fresh(args.algorithm, now_s)?.trim_end());
    };
    if args.add {
        return add(path, args, now_s);
    }
    create(path, &fresh(args.algorithm, now_s)?)?;
    let shown = path.display();
    print(&format!(
        "{shown}: the keys sign at once\n\nCopy it to every gateway, for the user that Tidegate runs as alone, and name it in \
         key_file of [[room]]."
    ))
}

/// A file for a fresh installation: nobody has kept a set of keys without these.
fn fresh(algorithm: Algorithm, now_s: u64) -> anyhow::Result<String> {
    let published = now_s.saturating_sub(PUBLIC_BEFORE_SIGNING_S);
    let mut keys = Vec::new();
    for needed in [Algorithm::Hs256, algorithm] {
        if keys.is_empty() || needed != Algorithm::Hs256 {
            let kid = name(&keys, needed, now_s);
            keys.push(drawn(&kid, needed, published)?);
        }
    }
    written(&keys)
}

/// Writes `text` into a new file at `path`.
fn create(path: &Path, text: &str) -> anyhow::Result<()> {
    let shown = path.display();
    let opened = new_file(path);
    if let Err(error) = &opened
        && error.kind() == ErrorKind::AlreadyExists
    {
        bail!("{shown} is there already, and is left as it is: --add adds a key to it");
    }
    let written = opened.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.with_context(|| format!("cannot write {shown}"))
}

/// Adds a key to the file at `path`.
fn add(path: &Path, args: &Args, now_s: u64) -> anyhow::Result<ExitCode> {
    let shown = path.display();
    let before = read(path).with_context(|| format!("cannot read {shown}"))?;
    let signs_in = args.signs_in.unwrap_or(SIGNS_IN);
    let signs_s = now_s + signs_in.as_secs();
    let after = added(&before, args.algorithm, now_s, signs_s)
        .with_context(|| format!("no key can be added to {shown}"))?;
    replace(path, &after.text).with_context(|| format!("cannot write {shown}"))?;
    let at = |second: u64| humantime::format_rfc3339(UNIX_EPOCH + Duration::from_secs(second));
    let mut page = format!(
        "{shown}: key {} is public from now on and signs from {}\n\nUntil then copy the file to every gateway and restart them.",
        after.kid,
        at(signs_s)
    );
    if !after.former.is_empty() {
        page += &format!(
            " From {} on only what these have signed is verified: {}. Take them out a day later, when nothing of that is good any \
             more.",
            at(signs_s + PUBLIC_BEFORE_SIGNING_S),
            after.former.join(", "),
        );
    }
    print(&page)
}

/// A file with one more key.
#[derive(Debug)]
struct Added {
    text: String,
    /// The new key.
    kid: String,
    /// Those in whose place it signs.
    former: Vec<String>,
}

/// The file `text` with one more key for `algorithm`, which is public from `now_s` on and signs from `signs_s` on.
///
/// Whatever signs with the algorithm till then only verifies from five minutes later on: clocks differ, and of two that sign the
/// one that began last does anyway.
fn added(text: &str, algorithm: Algorithm, now_s: u64, signs_s: u64) -> anyhow::Result<Added> {
    let known = Keys::from_json(text)?;
    let mut file: Value = serde_json::from_str(text)?;
    let keys = file.get_mut("keys").and_then(Value::as_array_mut);
    let keys = keys.context("`keys` is missing")?;
    let until_s = signs_s + PUBLIC_BEFORE_SIGNING_S;
    let mut former = Vec::new();
    // In the order of the file.
    let named = known.states(Wall::default());
    for ((kid, its, _), key) in named.zip(keys.iter_mut()) {
        let second = |member: &str| key.get(member).and_then(Value::as_u64);
        let ends = ["verify_only_from", "revoked_from"].map(second);
        let ends_before = ends.into_iter().flatten().any(|end| end <= until_s);
        let usual = second("published").map(|public| public + PUBLIC_BEFORE_SIGNING_S);
        // One that begins later than the new one is to take its place in turn.
        let begins_later = second("signs_from")
            .or(usual)
            .is_some_and(|begins| begins >= until_s);
        if its == algorithm && !ends_before && !begins_later {
            key["verify_only_from"] = until_s.into();
            former.push(kid.to_owned());
        }
    }
    let kid = name(keys, algorithm, now_s);
    let mut new = drawn(&kid, algorithm, now_s)?;
    new["signs_from"] = signs_s.into();
    keys.push(new);
    let text = written(keys)?;
    Ok(Added { text, kid, former })
}

fn drawn(kid: &str, algorithm: Algorithm, published_s: u64) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&draw_key(
        kid,
        algorithm,
        published_s,
    ))?)
}

/// A name that none of `keys` has: the day, and what the key is for where that is not as usual.
fn name(keys: &[Value], algorithm: Algorithm, now_s: u64) -> String {
    let day = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(now_s));
    let mut name: String = day.to_string().chars().take("2026-12-24".len()).collect();
    if algorithm != Algorithm::Hs256 {
        name = format!("{name}-{}", algorithm.name().to_ascii_lowercase());
    }
    let is_taken = |name: &str| keys.iter().any(|key| key["kid"] == name);
    // There are no more keys in a file.
    let numbered = (2..=Keys::COUNT_MAX + 2).map(|nth| format!("{name}-{nth}"));
    let mut free = std::iter::once(name.clone()).chain(numbered);
    free.find(|name| !is_taken(name))
        .unwrap_or_else(|| name.clone())
}

/// A file with `keys`, one in a line; as a gateway takes it.
fn written(keys: &[Value]) -> anyhow::Result<String> {
    let lines: Vec<String> = keys.iter().map(|key| format!("  {key}")).collect();
    let text = format!("{{\"keys\": [\n{}\n]}}\n", lines.join(",\n"));
    Keys::from_json(&text)?;
    Ok(text)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)?;
    ensure!(
        text.len() as u64 <= FILE_BYTES_MAX,
        "it is larger than {} KiB: is it the right file?",
        FILE_BYTES_MAX >> 10
    );
    Ok(text)
}

/// A new file at `path`, for its owner alone.
fn new_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Has `text` in the file at `path`, whole or not at all, with the owner and the mode that it has.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    // What a link leads to is the file, and not the link.
    let path = &fs::canonicalize(path)?;
    let known = fs::metadata(path)?;
    let mut draft = path.clone().into_os_string();
    draft.push(format!(".new{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let written = fill(&draft, &known, text).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written.map_err(anyhow::Error::from)
}

fn fill(draft: &Path, like: &fs::Metadata, text: &str) -> std::io::Result<()> {
    let mut file = new_file(draft)?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        chown(draft, Some(like.uid()), Some(like.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(like.mode() & 0o777))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use tidegate_gateway::room::KeyState;

    use super::*;

    const NOW_S: u64 = 1_798_106_400;

    /// The keys of `text` that do this at that second.
    fn at(text: &str, second: u64, wanted: KeyState) -> Vec<String> {
        let keys = Keys::from_json(text).unwrap();
        let states = keys.states(Wall::from_micros(second * 1_000_000));
        let those = states.filter(|(_, _, state)| *state == wanted);
        those.map(|(kid, ..)| kid.to_owned()).collect()
    }

    #[test]
    fn a_fresh_file_signs_at_once_and_always_has_a_secret() {
        for (algorithm, names) in [
            (Algorithm::Hs256, vec!["2026-12-24"]),
            (Algorithm::EdDsa, vec!["2026-12-24", "2026-12-24-eddsa"]),
            (Algorithm::Es256, vec!["2026-12-24", "2026-12-24-es256"]),
        ] {
            let text = fresh(algorithm, NOW_S).unwrap();

            assert_eq!(at(&text, NOW_S, KeyState::Signing), names);
        }
    }

    #[test]
    fn a_key_that_is_added_takes_over_without_a_gap() {
        let text = fresh(Algorithm::Hs256, NOW_S).unwrap();
        let later_s = NOW_S + 86_400;

        let added = added(&text, Algorithm::Hs256, later_s, later_s + 3_600).unwrap();

        let (old, new) = ("2026-12-24".to_owned(), "2026-12-25".to_owned());
        assert_eq!((&added.kid, &added.former), (&new, &vec![old.clone()]));
        let signs = |second| at(&added.text, second, KeyState::Signing);
        assert_eq!(signs(later_s + 3_599), std::slice::from_ref(&old));
        let published = at(&added.text, later_s, KeyState::Published);
        assert_eq!(published, std::slice::from_ref(&new));
        assert_eq!(signs(later_s + 3_600), [old.clone(), new.clone()]);
        assert_eq!(signs(later_s + 3_900), [new]);
        let verifies = at(&added.text, later_s + 1_000_000, KeyState::VerifyOnly);
        assert_eq!(verifies, [old]);
    }

    #[test]
    fn a_key_for_something_else_leaves_the_others_as_they_are() {
        let text = fresh(Algorithm::Hs256, NOW_S).unwrap();

        let added = added(&text, Algorithm::EdDsa, NOW_S, NOW_S + 300).unwrap();

        assert_eq!(added.former, [""; 0]);
        let signs = at(&added.text, NOW_S + 10_000, KeyState::Signing);
        assert_eq!(signs, ["2026-12-24", "2026-12-24-eddsa"]);
    }

    #[test]
    fn what_ends_before_is_not_made_to_last_longer_and_names_are_not_given_twice() {
        let text = fresh(Algorithm::Hs256, NOW_S).unwrap();
        let first = added(&text, Algorithm::Hs256, NOW_S, NOW_S + 300).unwrap();

        let second = added(&first.text, Algorithm::Hs256, NOW_S, NOW_S + 7_200).unwrap();

        assert_eq!(first.kid, "2026-12-24-2");
        assert_eq!(second.kid, "2026-12-24-3");
        assert_eq!(second.former, ["2026-12-24-2"]);
        let only = at(&second.text, NOW_S + 600, KeyState::VerifyOnly);
        assert_eq!(only, ["2026-12-24"]);
    }

    #[test]
    fn a_file_of_something_else_gets_no_key_and_a_full_one_neither() {
        for text in ["", "{}", "{\"keys\":[]}", "keys"] {
            assert!(added(text, Algorithm::Hs256, NOW_S, NOW_S + 300).is_err());
        }
        let mut text = fresh(Algorithm::Hs256, NOW_S).unwrap();
        for _ in 1..Keys::COUNT_MAX {
            text = added(&text, Algorithm::EdDsa, NOW_S, NOW_S + 300)
                .unwrap()
                .text;
        }
        let refused = added(&text, Algorithm::EdDsa, NOW_S, NOW_S + 300).unwrap_err();
        assert!(refused.to_string().contains("17 of them"), "{refused}");
    }

    #[test]
    fn a_file_is_made_for_its_owner_and_never_written_over() {
        let name = format!("tidegate-room-key-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_file(&path);

        create(&path, "one").unwrap();
        let again = create(&path, "two").unwrap_err().to_string();

        assert!(again.contains("is there already"), "{again}");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((read(&path).unwrap().as_str(), mode(&path)), ("one", 0o600));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, "three").unwrap();
        assert_eq!(
            (read(&path).unwrap().as_str(), mode(&path)),
            ("three", 0o640)
        );
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_key_is_public_for_five_minutes_before_it_signs() {
        assert_eq!(signs_in("2h"), Ok(Duration::from_secs(7_200)));
        assert!(signs_in("1m").unwrap_err().contains("5m before it signs"));
        assert!(signs_in("soon").is_err());
        assert!(algorithm("RS256").unwrap_err().contains("EdDSA"));
    }
}
