//! Scripts and the rest of what is said to servers use only commands that Redis 7.0 and Valkey 7.2
//! both have. The lists are what the servers themselves tell (`COMMAND DOCS`): a command and the
//! version that it came with; Valkey's later ones are in its list with theirs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const REDIS: (&str, &str) = (include_str!("commands/redis-7.0.txt"), "7.0.999");
const VALKEY: (&str, &str) = (include_str!("commands/valkey-9.1.txt"), "7.2.999");

/// What Sentinels are asked, which no list of a server's has.
const SENTINEL: &str = "sentinel";

#[test]
fn servers_are_asked_only_what_redis_and_valkey_both_know() {
    let asked = asked();
    assert!(asked.len() > 15, "hardly anything was found: {asked:?}");

    for (list, version_max) in [REDIS, VALKEY] {
        let known = known(list);
        for (command, place) in &asked {
            let since = known.get(command.as_str());
            let since = since.unwrap_or_else(|| panic!("{command} of {place} is not known"));
            assert!(
                numbers(since) <= numbers(version_max),
                "{command} of {place} came only with {since}"
            );
        }
    }
}

#[test]
fn a_newer_command_would_be_noticed() {
    let known = known(VALKEY.0);

    assert!(numbers(known["hexpire"]) > numbers(VALKEY.1));
    assert!(numbers(known["waitaof"]) > numbers(REDIS.1));
    assert!(!self::known(REDIS.0).contains_key("hexpire"));
}

/// Every command that scripts and sources name, with a file that does.
fn asked() -> BTreeMap<String, String> {
    let mut asked = BTreeMap::new();
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(&path).unwrap();
        let openings: &[&str] = match path.extension().and_then(|extension| extension.to_str()) {
            Some("lua") => &["redis.call('", "redis.pcall('"],
            _ => &["cmd(\"", "command(\"", "command: \""],
        };
        for opening in openings {
            for rest in text.split(opening).skip(1) {
                let command: String = rest
                    .chars()
                    .take_while(|character| character.is_ascii_uppercase() || *character == ' ')
                    .collect();
                let command = command.trim().to_ascii_lowercase();
                if !command.is_empty() && !command.starts_with(SENTINEL) {
                    asked.insert(command, path.file_name().unwrap().display().to_string());
                }
            }
        }
    }
    asked
}

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path);
        }
    }
    found
}

fn known(list: &str) -> BTreeMap<&str, &str> {
    list.lines()
        .map(|line| line.rsplit_once(' ').unwrap())
        .collect()
}

fn numbers(version: &str) -> Vec<u32> {
    version
        .split('.')
        .map(|part| part.parse().unwrap())
        .collect()
}
