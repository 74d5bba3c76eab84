//! Every scenario that is part of the program clears its bars, with one seed, or with a few where a
//! bar is over their mean. What takes ten seeds is `tidegate sim --suite`.

use tidegate_lab::report::{Digest, ScenarioResult};
use tidegate_lab::scenario::{Over, Scenario};
use tidegate_lab::sim::policy::Policy;
use tidegate_lab::suite::{Case, Suite, run_all, threads};

/// How many seeds a mean is taken over.
const SEEDS_OF_A_MEAN: u64 = 3;

/// Runs every scenario of `suite` under each policy that it has a bar for, and names the bars that
/// are missed.
fn assert_holds(suite: &str) {
    let suite = Suite::named(suite).expect("the suite exists");
    let scenarios = suite.scenarios().expect("its files are right");
    let policies: Vec<Vec<Policy>> = scenarios.iter().map(judged).collect();
    let cases: Vec<Case<'_>> = scenarios
        .iter()
        .zip(&policies)
        .flat_map(|(scenario, policies)| {
            policies.iter().flat_map(move |policy| {
                (1..=seeds(scenario)).map(move |seed| Case {
                    scenario,
                    policy,
                    seed,
                })
            })
        })
        .collect();

    let digest = |case: &Case<'_>, record| Digest::of(case.scenario, case.seed, &record, false);
    let mut digests = run_all(&cases, threads(), digest, |_| {}).into_iter();

    let mut missed = Vec::new();
    for (scenario, policies) in scenarios.iter().zip(&policies) {
        let runs: Vec<(&str, Vec<Digest>)> = policies
            .iter()
            .map(|policy| {
                let digests = digests.by_ref().take(seeds(scenario) as usize);
                (policy.name(), digests.collect())
            })
            .collect();
        let result = ScenarioResult::new(scenario, suite.name, &runs);
        for bar in result.bars.iter().filter(|bar| !bar.held) {
            missed.push(format!(
                "{} under {}: {}, and it is {:?}",
                result.id, bar.policy, bar.wanted, bar.value
            ));
        }
    }
    assert!(missed.is_empty(), "{}: {missed:#?}", suite.name);
}

fn seeds(scenario: &Scenario) -> u64 {
    let over_mean = scenario.bars.iter().any(|bar| bar.over == Over::Mean);
    if over_mean { SEEDS_OF_A_MEAN } else { 1 }
}

/// Ours, and those others that a bar with bounds is for.
fn judged(scenario: &Scenario) -> Vec<Policy> {
    let names = scenario.bars.iter().filter_map(|bar| {
        let bounded = bar.at_least.is_some() || bar.at_most.is_some();
        bounded.then_some(&*bar.policy)
    });
    let mut wanted = vec![Policy::OURS];
    for name in names {
        if !wanted.contains(&name) {
            wanted.push(name);
        }
    }
    let policy = |name| Policy::named(name).expect("a bar's policy is checked");
    wanted.into_iter().map(policy).collect()
}

#[test]
fn the_limit_clears_every_bar() {
    assert_holds("limiter");
}

#[test]
fn the_queue_clears_every_bar() {
    assert_holds("queue");
}

#[test]
fn retry_storms_go_as_computed_by_hand() {
    assert_holds("retry-storm");
}

#[test]
fn an_incident_and_a_cold_cache_are_survived() {
    assert_holds("faults");
}
