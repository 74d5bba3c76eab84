//! The suites that are part of the program.

use std::path::Path;

use crate::scenario::Scenario;

use super::read::{ReadError, parse};

/// Scenarios that are run together.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// What `--suite` calls it.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// File names and contents, in the order they are reported in.
    files: &'static [(&'static str, &'static str)],
}

/// All of them.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "limiter",
        about: "the adaptive limit against every published one",
        files: &[
            ("s01.toml", include_str!("../../scenarios/limiter/s01.toml")),
            (
                "s01e.toml",
                include_str!("../../scenarios/limiter/s01e.toml"),
            ),
            (
                "s01u.toml",
                include_str!("../../scenarios/limiter/s01u.toml"),
            ),
            (
                "s01u90.toml",
                include_str!("../../scenarios/limiter/s01u90.toml"),
            ),
            (
                "s01x.toml",
                include_str!("../../scenarios/limiter/s01x.toml"),
            ),
            ("s03.toml", include_str!("../../scenarios/limiter/s03.toml")),
            ("s04.toml", include_str!("../../scenarios/limiter/s04.toml")),
            (
                "s04u.toml",
                include_str!("../../scenarios/limiter/s04u.toml"),
            ),
            ("s05.toml", include_str!("../../scenarios/limiter/s05.toml")),
            (
                "s05r.toml",
                include_str!("../../scenarios/limiter/s05r.toml"),
            ),
            (
                "s05w.toml",
                include_str!("../../scenarios/limiter/s05w.toml"),
            ),
            ("s06.toml", include_str!("../../scenarios/limiter/s06.toml")),
            ("s07.toml", include_str!("../../scenarios/limiter/s07.toml")),
            ("s08.toml", include_str!("../../scenarios/limiter/s08.toml")),
            ("s09.toml", include_str!("../../scenarios/limiter/s09.toml")),
            ("s10.toml", include_str!("../../scenarios/limiter/s10.toml")),
            (
                "s10u.toml",
                include_str!("../../scenarios/limiter/s10u.toml"),
            ),
            ("s11.toml", include_str!("../../scenarios/limiter/s11.toml")),
            ("m1.toml", include_str!("../../scenarios/limiter/m1.toml")),
            (
                "m1n4.toml",
                include_str!("../../scenarios/limiter/m1n4.toml"),
            ),
            (
                "m1n16.toml",
                include_str!("../../scenarios/limiter/m1n16.toml"),
            ),
            (
                "m1n16q.toml",
                include_str!("../../scenarios/limiter/m1n16q.toml"),
            ),
            (
                "m1a4.toml",
                include_str!("../../scenarios/limiter/m1a4.toml"),
            ),
            (
                "m1a16.toml",
                include_str!("../../scenarios/limiter/m1a16.toml"),
            ),
            ("m2.toml", include_str!("../../scenarios/limiter/m2.toml")),
            ("m3.toml", include_str!("../../scenarios/limiter/m3.toml")),
            ("m4.toml", include_str!("../../scenarios/limiter/m4.toml")),
            ("m4h.toml", include_str!("../../scenarios/limiter/m4h.toml")),
            ("x1.toml", include_str!("../../scenarios/limiter/x1.toml")),
            ("x2.toml", include_str!("../../scenarios/limiter/x2.toml")),
            ("x3.toml", include_str!("../../scenarios/limiter/x3.toml")),
            ("x4.toml", include_str!("../../scenarios/limiter/x4.toml")),
        ],
    },
    Suite {
        name: "queue",
        about: "queues, stalls and what does not end by itself",
        files: &[
            ("q1.toml", include_str!("../../scenarios/queue/q1.toml")),
            ("q1b.toml", include_str!("../../scenarios/queue/q1b.toml")),
            ("q2.toml", include_str!("../../scenarios/queue/q2.toml")),
            ("q3.toml", include_str!("../../scenarios/queue/q3.toml")),
            ("q4.toml", include_str!("../../scenarios/queue/q4.toml")),
            ("q5.toml", include_str!("../../scenarios/queue/q5.toml")),
            ("q6.toml", include_str!("../../scenarios/queue/q6.toml")),
            ("q7.toml", include_str!("../../scenarios/queue/q7.toml")),
            ("q8.toml", include_str!("../../scenarios/queue/q8.toml")),
        ],
    },
    Suite {
        name: "retry-storm",
        about: "clients that come back, with and without a budget",
        files: &[
            (
                "e1.toml",
                include_str!("../../scenarios/retry-storm/e1.toml"),
            ),
            (
                "e2.toml",
                include_str!("../../scenarios/retry-storm/e2.toml"),
            ),
            (
                "e3.toml",
                include_str!("../../scenarios/retry-storm/e3.toml"),
            ),
            (
                "e4.toml",
                include_str!("../../scenarios/retry-storm/e4.toml"),
            ),
            (
                "e5.toml",
                include_str!("../../scenarios/retry-storm/e5.toml"),
            ),
            (
                "e6.toml",
                include_str!("../../scenarios/retry-storm/e6.toml"),
            ),
        ],
    },
    Suite {
        name: "faults",
        about: "an incident that has happened, and a cold cache",
        files: &[
            (
                "incident.toml",
                include_str!("../../scenarios/faults/incident.toml"),
            ),
            (
                "cold-cache.toml",
                include_str!("../../scenarios/faults/cold-cache.toml"),
            ),
        ],
    },
];

impl Suite {
    /// The suite called `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        SUITES.iter().find(|suite| suite.name == name)
    }

    /// Its scenarios, read and checked.
    pub fn scenarios(&self) -> Result<Vec<Scenario>, ReadError> {
        self.files
            .iter()
            .map(|(file, text)| parse(Path::new(file), text))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_scenario_of_its_suite() {
        for suite in SUITES {
            let scenarios = suite
                .scenarios()
                .unwrap_or_else(|error| panic!("{}: {error}", suite.name));

            let mut ids: Vec<&str> = scenarios.iter().map(|scenario| &*scenario.id).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), scenarios.len(), "{}", suite.name);
            for scenario in &scenarios {
                assert_eq!(
                    scenario.suite.as_deref(),
                    Some(suite.name),
                    "{}",
                    scenario.id
                );
            }
        }
    }
}
