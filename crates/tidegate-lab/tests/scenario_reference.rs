//! Every key that a scenario may have is in its reference.

use serde::de::DeserializeOwned;
use tidegate_lab::scenario::{
    App, Arrivals, Bar, Budget, Cache, Change, Fault, Gateways, Pause, Protection, Retry, Scenario,
    Service, ServiceKind, Traffic, Weight,
};

/// The names that serde would have accepted in place of one that it does not know.
fn known<T: DeserializeOwned>(text: &str) -> Vec<String> {
    let error = match toml::from_str::<T>(text) {
        Ok(_) => panic!("{text} should not be known"),
        Err(error) => error.message().to_owned(),
    };
    let Some((_, names)) = error.split_once(", expected ") else {
        assert!(error.contains("there are no fields"), "{error}");
        return Vec::new();
    };
    names
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The keys of a table of one of several kinds.
fn known_of_kinds<T: DeserializeOwned>() -> Vec<String> {
    let kinds = known::<T>("kind = \"zzz\"");
    let keys = kinds
        .iter()
        .flat_map(|kind| known::<T>(&format!("kind = \"{kind}\"\nzzz = 1")));
    keys.chain(["kind".to_owned()]).collect()
}

#[test]
fn every_key_of_a_scenario_is_in_its_reference() {
    let reference = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/simulator.md"
    ))
    .unwrap();

    for (section, keys) in [
        ("`top level`", known::<Scenario>("zzz = 1")),
        ("`[[traffic]]`", known::<Traffic>("zzz = 1")),
        ("`arrivals`", known_of_kinds::<Arrivals>()),
        ("`routes`", known::<Weight>("zzz = 1")),
        ("`change`", known::<Change>("zzz = 1")),
        ("`retry`", known::<Retry>("zzz = 1")),
        ("`pause`", known_of_kinds::<Pause>()),
        ("`budget`", known::<Budget>("zzz = 1")),
        ("`[app]`", known::<App>("zzz = 1")),
        ("`[[app.route]]`", known::<Service>("zzz = 1")),
        ("`service`", known_of_kinds::<ServiceKind>()),
        ("`[app.cache]`", known::<Cache>("zzz = 1")),
        ("`[[fault]]`", known_of_kinds::<Fault>()),
        ("`[gateways]`", known::<Gateways>("zzz = 1")),
        ("`[protection]`", known::<Protection>("zzz = 1")),
        ("`[[bar]]`", known::<Bar>("zzz = 1")),
        ("Measures", known::<Bar>("measure = \"zzz\"")),
    ] {
        let (_, rest) = reference
            .split_once(&format!("\n### {section}\n"))
            .unwrap_or_else(|| panic!("no section {section}"));
        let table = rest.split("\n#").next().unwrap();
        for key in keys {
            let row = table.lines().find(|line| {
                let first = line.split('|').nth(1).unwrap_or_default();
                first.contains(&format!("`{key}`"))
            });
            assert!(row.is_some(), "{section} does not explain `{key}`");
        }
    }
}
