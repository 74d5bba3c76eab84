//! A run is a function of the scenario, the policy and the seed.

use std::time::Duration;

use crate::sim::policy::Policy;
use crate::sim::run;
use crate::suite::SUITES;

/// Long enough for everything to have happened once, short enough for many.
const LENGTH: Duration = Duration::from_secs(6);

#[test]
fn every_scenario_runs_the_same_way_twice_and_another_with_another_seed() {
    let policies =
        ["tidegate", "none", "gradient2-windowed"].map(|name| Policy::named(name).unwrap());
    for suite in SUITES {
        for mut scenario in suite.scenarios().unwrap() {
            scenario.length = scenario.length.min(LENGTH);
            for policy in &policies {
                let hash = |seed| run(&scenario, policy, seed).hash;

                let id = &scenario.id;
                assert_eq!(hash(1), hash(1), "{id} under {}", policy.name());
                assert_ne!(hash(1), hash(2), "{id} under {}", policy.name());
            }
        }
    }
}
