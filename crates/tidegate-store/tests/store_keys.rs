//! docs/store-keys.md is right: it has every script with its SHA-1, every kind of key, every field.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_core::session::layout;

const BOOK: &str = include_str!("../../../docs/store-keys.md");

#[test]
fn every_script_is_in_the_book_with_its_sha1() {
    let mut scripts = BTreeMap::new();
    for path in files("lua") {
        let body = fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        scripts.insert(name, redis::Script::new(&body).get_hash().to_owned());
    }
    assert!(scripts.len() >= 15, "hardly any was found: {scripts:?}");

    let missing: Vec<_> = scripts
        .iter()
        .map(|(name, sha1)| format!("| `{name}` | `{sha1}` |"))
        .filter(|row| !BOOK.contains(row))
        .collect();
    assert!(
        missing.is_empty(),
        "to be in the book:\n{}",
        missing.join("\n")
    );
    let rows = BOOK.lines().filter(|line| is_script(line)).count();
    assert_eq!(
        rows,
        scripts.len(),
        "the book has scripts that there are not"
    );
}

#[test]
fn every_kind_of_key_is_in_the_book() {
    let mut kinds = BTreeSet::new();
    for path in files("rs") {
        let text = fs::read_to_string(&path).unwrap();
        // What tests say is no key of ours.
        let text = text.split("#[cfg(test)]").next().unwrap();
        for rest in text.split("\"tg:").skip(1) {
            let kind = rest.split(['{', '"']).next().unwrap();
            kinds.insert(format!("`tg:{kind}"));
        }
    }
    assert!(kinds.len() >= 7, "hardly any was found: {kinds:?}");

    for kind in kinds {
        assert!(BOOK.contains(&kind), "{kind} is not in the book");
    }
}

#[test]
fn every_field_of_a_session_is_in_the_book() {
    let fields = [
        layout::VERSION,
        layout::CREATED,
        layout::LAST_USED,
        layout::IDLE,
        layout::DEADLINE,
        layout::ABSOLUTE,
        layout::USER,
        layout::TIER,
        layout::EPOCH,
        layout::BYTES,
        layout::COUNT,
        layout::SEEN,
    ];
    for field in fields {
        assert!(BOOK.contains(&format!("| `{field}` |")), "{field}");
    }
    for prefix in [layout::ATTRIBUTE, layout::COUNTER] {
        assert!(BOOK.contains(&format!("| `{prefix}NAME` |")), "{prefix}");
    }
}

/// A row of a script: its second cell is a SHA-1.
fn is_script(line: &str) -> bool {
    let cell = line.split('|').nth(2).unwrap_or_default().trim();
    let sha1 = cell.trim_matches('`');
    sha1.len() == 40 && sha1.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn files(extension: &str) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.insert(path);
            }
        }
    }
    found
}
