//! The rules of the house, kept by a test: who may depend on whom, how long things may get, what
//! may not be written. Prints a ratchet of what is near or over a mark.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// Which crates of ours each crate may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("tidegate-core", &[]),
    ("tidegate-http", &["tidegate-core"]),
    // Apart, so that services which take tidegate-http need no compressor.
    ("tidegate-page", &["tidegate-core"]),
    // Its tests start real servers, and the laboratory knows how.
    ("tidegate-store", &["tidegate-core", "tidegate-lab"]),
    // The same goes for these.
    (
        "tidegate-fleet",
        &[
            "tidegate-core",
            "tidegate-http",
            "tidegate-store",
            "tidegate-lab",
        ],
    ),
    (
        "tidegate-gateway",
        &[
            "tidegate-core",
            "tidegate-http",
            "tidegate-page",
            "tidegate-store",
        ],
    ),
    (
        "tidegate-rls",
        &["tidegate-core", "tidegate-http", "tidegate-store"],
    ),
    ("tidegate-lab", &["tidegate-core", "tidegate-http"]),
    (
        "tidegate",
        &[
            "tidegate-core",
            "tidegate-http",
            "tidegate-store",
            "tidegate-fleet",
            "tidegate-gateway",
            "tidegate-page",
            "tidegate-rls",
            "tidegate-lab",
        ],
    ),
    (
        "tidegate-drills",
        &[
            "tidegate-core",
            "tidegate-http",
            "tidegate-store",
            "tidegate-fleet",
            "tidegate-gateway",
            "tidegate-lab",
        ],
    ),
];

/// Tables of a manifest that name dependencies.
const DEPENDENCIES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

struct Source {
    path: PathBuf,
    text: String,
}

#[test]
fn crates_depend_on_each_other_only_along_the_arrows() {
    for (name, manifest) in manifests() {
        let allowed = ARROWS.iter().find(|(known, _)| *known == name);
        let allowed = allowed
            .unwrap_or_else(|| panic!("{name} has no place in the arrows"))
            .1;

        for dependency in dependencies(&manifest, &DEPENDENCIES) {
            let ours = ARROWS.iter().any(|(known, _)| *known == dependency);
            assert!(
                !ours || allowed.contains(&dependency.as_str()),
                "{name} may not use {dependency}"
            );
        }
    }
}

#[test]
fn the_core_depends_on_nothing() {
    let manifest = &manifests()["tidegate-core"];

    assert_eq!(
        dependencies(manifest, &["dependencies", "build-dependencies"]),
        Vec::<String>::new()
    );
    assert_eq!(
        dependencies(manifest, &["dev-dependencies"]),
        ["allocation-counter", "proptest", "serde_json"]
    );
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let root: toml::Table = read("Cargo.toml").parse().unwrap();
    assert_eq!(
        root["workspace"]["lints"]["rust"]["unsafe_code"].as_str(),
        Some("forbid")
    );

    for (name, manifest) in manifests() {
        assert_eq!(
            manifest["lints"]["workspace"].as_bool(),
            Some(true),
            "{name}"
        );
    }
}

#[test]
fn files_stay_short() {
    let mut sources = rust_sources();
    sources.sort_by_key(|source| std::cmp::Reverse(source.text.lines().count()));

    println!("ratchet: longest files");
    for source in sources.iter().take(5) {
        println!(
            "  {:4} {}",
            source.text.lines().count(),
            source.path.display()
        );
    }
    let longest = &sources[0];
    assert!(
        longest.text.lines().count() <= FILE_LINES_MAX,
        "{} is over {FILE_LINES_MAX} lines: are there two ideas under its roof?",
        longest.path.display()
    );
}

#[test]
fn functions_stay_short_or_say_why_not() {
    let mut functions = Vec::new();
    let mut exceptions = 0;
    for source in rust_sources() {
        exceptions += source
            .text
            .matches("#[expect(clippy::too_many_lines")
            .count();
        for function in functions_of(&source.text) {
            functions.push((
                function.lines,
                function.excused,
                function.name,
                source.path.clone(),
            ));
        }
    }
    functions.sort_by_key(|(lines, ..)| std::cmp::Reverse(*lines));

    println!(
        "ratchet: {} functions, {exceptions} excused, the longest",
        functions.len()
    );
    for (lines, _, name, path) in functions.iter().take(5) {
        println!("  {lines:4} {name} in {}", path.display());
    }
    for (lines, excused, name, path) in functions {
        assert!(
            lines <= FUNCTION_LINES_MAX || excused,
            "{name} in {} is over {FUNCTION_LINES_MAX} lines and does not say why",
            path.display()
        );
    }
}

#[test]
fn only_the_upstream_part_of_the_gateway_is_a_client() {
    for source in rust_sources() {
        let gateway = source.path.starts_with("crates/tidegate-gateway/src");
        if gateway
            && !source
                .path
                .starts_with("crates/tidegate-gateway/src/upstream")
        {
            for module in ["hyper::client", "hyper_util::client"] {
                assert!(
                    !source.text.contains(module),
                    "{} uses {module}",
                    source.path.display()
                );
            }
        }
    }
}

#[test]
fn only_the_rate_limit_service_links_grpc() {
    for (name, manifest) in manifests() {
        for dependency in dependencies(&manifest, &["dependencies", "build-dependencies"]) {
            assert!(
                name == "tidegate-rls"
                    || !["tonic", "tonic-prost", "prost"].contains(&dependency.as_str()),
                "{name} links {dependency}"
            );
        }
    }
}

#[test]
fn there_are_no_macros_and_no_drawers_for_odds_and_ends() {
    for source in rust_sources() {
        let name = source.path.file_stem().unwrap().to_str().unwrap();
        for drawer in ["util", "utils", "common", "helpers", "misc"] {
            assert_ne!(name, drawer, "{} names no subject", source.path.display());
        }
        let definition = concat!("macro_", "rules!");
        assert!(
            !source.text.contains(definition),
            "{} defines a macro",
            source.path.display()
        );
    }
}

#[test]
fn every_source_file_is_part_of_its_crate() {
    let sources = rust_sources();
    for source in &sources {
        let name = source.path.file_stem().unwrap().to_str().unwrap();
        let in_src = source
            .path
            .components()
            .any(|part| part.as_os_str() == "src");
        if !in_src || ["main", "lib"].contains(&name) {
            continue;
        }
        // The module of a folder is named after the folder.
        let module = if name == "mod" {
            source
                .path
                .parent()
                .unwrap()
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
        } else {
            name
        };
        let declared = format!("mod {module};");
        let crate_root = source.path.components().take(2).collect::<PathBuf>();
        assert!(
            sources
                .iter()
                .any(|other| other.path.starts_with(&crate_root) && other.text.contains(&declared)),
            "nothing declares {}",
            source.path.display()
        );
    }
}

#[test]
fn nothing_is_left_for_later_and_nothing_knows_this_machine() {
    // In two parts, so that this file passes its own test.
    let banned = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
    ];
    for source in texts() {
        for word in banned {
            assert!(
                !source.text.contains(word),
                "{} contains {word}",
                source.path.display()
            );
        }
    }
}

#[test]
fn every_drill_is_in_the_book_of_drills() {
    let book = read("docs/drills.md");
    for source in rust_sources() {
        let name = source.path.file_stem().unwrap().to_str().unwrap();
        let subjects = [
            "gateway_",
            "health_",
            "limiter_",
            "limits_",
            "room_",
            "sessions_",
        ];
        let subject = subjects.iter().any(|subject| name.starts_with(subject));
        if source.path.starts_with("drills/src") && subject {
            let drill = name.replace('_', "-");
            assert!(
                book.contains(&format!("`{drill}`")),
                "docs/drills.md does not name {drill}"
            );
        }
    }
}

#[test]
fn every_dependency_is_argued() {
    let architecture = read("ARCHITECTURE.md");
    let root: toml::Table = read("Cargo.toml").parse().unwrap();
    for name in root["workspace"]["dependencies"].as_table().unwrap().keys() {
        let ours = name.starts_with("tidegate-");
        assert!(
            ours || architecture.contains(&format!("`{name}`")),
            "ARCHITECTURE.md has no reason for {name}"
        );
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    for source in texts() {
        if source
            .path
            .extension()
            .is_none_or(|extension| extension != "md")
        {
            continue;
        }
        for (_, rest) in source
            .text
            .match_indices("](")
            .map(|(at, found)| source.text.split_at(at + found.len()))
        {
            let target = rest.split([')', '#']).next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = root().join(source.path.parent().unwrap()).join(target);
            assert!(path.exists(), "{} links to {target}", source.path.display());
        }
    }
}

struct Function {
    name: String,
    /// Lines of its body that are neither blank nor only a comment.
    lines: usize,
    excused: bool,
}

/// The functions of formatted source: one ends at the first closing brace as far left as its start.
fn functions_of(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let Some(name) = function_name(trimmed) else {
            continue;
        };
        let end = format!("{}}}", &line[..line.len() - trimmed.len()]);
        let Some(length) = lines[at..].iter().position(|line| *line == end) else {
            continue;
        };
        let opening = lines[at..]
            .iter()
            .position(|line| line.ends_with('{'))
            .unwrap_or(0);
        let code = |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let body = lines[at + opening + 1..(at + length).max(at + opening + 1)]
            .iter()
            .filter(code)
            .count();
        let above = lines[..at]
            .iter()
            .rev()
            .take_while(|line| !line.trim().is_empty());
        functions.push(Function {
            name: name.to_owned(),
            lines: body,
            excused: above
                .take(8)
                .any(|line| line.contains("clippy::too_many_lines")),
        });
    }
    functions
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line;
    for word in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    // A declaration without body, all on one line.
    if line.ends_with(';') || line.ends_with('}') {
        return None;
    }
    name.split(['(', '<']).next()
}

/// Manifests of the workspace's members by their names.
fn manifests() -> BTreeMap<String, toml::Table> {
    let mut folders: Vec<PathBuf> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.push(root().join("drills"));
    folders
        .iter()
        .map(|folder| {
            let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml"))
                .unwrap()
                .parse()
                .unwrap();
            (
                manifest["package"]["name"].as_str().unwrap().to_owned(),
                manifest,
            )
        })
        .collect()
}

fn dependencies(manifest: &toml::Table, tables: &[&str]) -> Vec<String> {
    tables
        .iter()
        .filter_map(|table| manifest.get(*table)?.as_table())
        .flat_map(|table| table.keys().cloned())
        .collect()
}

fn rust_sources() -> Vec<Source> {
    texts()
        .into_iter()
        .filter(|source| {
            source
                .path
                .extension()
                .is_some_and(|extension| extension == "rs")
        })
        .collect()
}

/// Everything written by people, with paths from the root.
fn texts() -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                let own = name == ".ci" || !(name.starts_with('.') || name.starts_with("target"));
                if own {
                    folders.push(path);
                }
            } else if !["Cargo.lock", "LICENSE", ".git"].contains(&name) {
                // What is not text is not written by people.
                if let Ok(text) = fs::read_to_string(&path) {
                    found.push(Source {
                        path: path.strip_prefix(root()).unwrap().to_owned(),
                        text,
                    });
                }
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}
