//! What came of running scenarios: figures and plots by policy, and what became of the bars.

use std::time::Duration;

use serde::Serialize;

use super::figures::Figures;
use super::series::Series;
use crate::scenario::{Bar, Measure, Over, Scenario};
use crate::sim::record::Record;
use crate::suite::{judge, measure};

/// What is kept of one run.
#[derive(Clone, Debug)]
pub struct Digest {
    seed: u64,
    hash: u64,
    events: u64,
    figures: Figures,
    /// What each bar of the scenario measures, whomever it is for.
    values: Vec<Option<f64>>,
    series: Option<Series>,
}

/// Everything that was run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// In the order they were asked for.
    pub scenarios: Vec<ScenarioResult>,
    /// Events in all runs.
    pub events: u64,
    /// CPU time of all runs, in seconds.
    pub cpu_s: f64,
}

/// What came of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct ScenarioResult {
    /// Its short name.
    pub id: String,
    /// One line for people.
    pub title: String,
    /// The suite or file it is from.
    pub from: String,
    /// Simulated seconds.
    pub length_s: f64,
    /// Where the figures begin.
    pub warm_up_s: f64,
    /// By policy.
    pub policies: Vec<PolicyResult>,
    /// The bars of all policies that were run.
    pub bars: Vec<BarResult>,
}

/// What came of one scenario under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyResult {
    /// Its name.
    pub policy: String,
    /// Over all seeds.
    pub figures: Figures,
    /// Seed by seed.
    pub seeds: Vec<SeedResult>,
    /// The first seed over time.
    pub series: Series,
}

/// What came of one run.
#[derive(Clone, Debug, Serialize)]
pub struct SeedResult {
    /// Its seed.
    pub seed: u64,
    /// Over every event in order, in hexadecimal: the same for the same run, on any machine.
    pub hash: String,
    /// How many events there were.
    pub events: u64,
    /// Its figures.
    pub figures: Figures,
}

/// What became of a bar.
#[derive(Clone, Debug, Serialize)]
pub struct BarResult {
    /// The policy it is for.
    pub policy: String,
    /// What is measured.
    pub measure: &'static str,
    /// What has to hold, for people.
    pub wanted: String,
    /// The least that is allowed.
    pub at_least: Option<f64>,
    /// The most that is allowed.
    pub at_most: Option<f64>,
    /// Seed by seed; `None` where there was nothing to measure.
    pub values: Vec<Option<f64>>,
    /// What decided: the worst seed or the mean, as the bar says.
    pub value: Option<f64>,
    /// Whether it holds.
    pub held: bool,
}

impl Digest {
    /// What is kept of `record`, a run of `scenario`; what a plot needs only where it is `plotted`.
    pub fn of(scenario: &Scenario, seed: u64, record: &Record, plotted: bool) -> Self {
        let value = |bar| measure(scenario, bar, record);
        Self {
            seed,
            hash: record.hash,
            events: record.events,
            figures: Figures::of(scenario, record),
            values: scenario.bars.iter().map(value).collect(),
            series: plotted.then(|| Series::of(record)),
        }
    }
}

impl Results {
    /// What came of `scenarios`, whose runs took so much `cpu` time.
    pub fn new(scenarios: Vec<ScenarioResult>, cpu: Duration) -> Self {
        let seeds = scenarios
            .iter()
            .flat_map(|scenario| &scenario.policies)
            .flat_map(|policy| &policy.seeds);
        Self {
            events: seeds.map(|seed| seed.events).sum(),
            scenarios,
            cpu_s: cpu.as_secs_f64(),
        }
    }
}

impl ScenarioResult {
    /// What the digests of `scenario`'s runs come to. `runs` is by policy.
    pub fn new(scenario: &Scenario, from: &str, runs: &[(&str, Vec<Digest>)]) -> Self {
        let bars = scenario.bars.iter().enumerate().filter_map(|(index, bar)| {
            let (_, digests) = runs.iter().find(|(policy, _)| *policy == bar.policy)?;
            let values = digests.iter().map(|digest| digest.values[index]);
            Some(BarResult::new(scenario, bar, values.collect()))
        });
        Self {
            id: scenario.id.clone(),
            title: scenario.title.clone(),
            from: from.to_owned(),
            length_s: scenario.length.as_secs_f64(),
            warm_up_s: scenario.warm_up.as_secs_f64(),
            policies: runs
                .iter()
                .map(|(policy, digests)| PolicyResult::new(policy, digests))
                .collect(),
            bars: bars.collect(),
        }
    }
}

impl PolicyResult {
    fn new(policy: &str, digests: &[Digest]) -> Self {
        let figures: Vec<Figures> = digests.iter().map(|digest| digest.figures).collect();
        let seed = |digest: &Digest| SeedResult {
            seed: digest.seed,
            hash: format!("{:016x}", digest.hash),
            events: digest.events,
            figures: digest.figures,
        };
        Self {
            policy: policy.to_owned(),
            figures: Figures::over(&figures),
            seeds: digests.iter().map(seed).collect(),
            series: digests
                .iter()
                .find_map(|digest| digest.series.clone())
                .unwrap_or_default(),
        }
    }
}

impl BarResult {
    fn new(scenario: &Scenario, bar: &Bar, values: Vec<Option<f64>>) -> Self {
        let verdict = judge(bar, &values);
        Self {
            policy: bar.policy.clone(),
            measure: name(bar.measure),
            wanted: wanted(scenario, bar),
            at_least: bar.at_least,
            at_most: bar.at_most,
            values,
            value: verdict.value,
            held: verdict.held,
        }
    }

    /// The verdict in a word.
    pub const fn verdict(&self) -> &'static str {
        match (self.held, self.at_least, self.at_most) {
            (true, None, None) => "shown",
            (true, ..) => "holds",
            (false, ..) => "missed",
        }
    }
}

/// As in a scenario's file.
const fn name(measure: Measure) -> &'static str {
    match measure {
        Measure::Goodput => "goodput",
        Measure::Offered => "offered",
        Measure::Retries => "retries",
        Measure::Refused => "refused",
        Measure::Failures => "failures",
        Measure::Share => "share",
        Measure::P50Ms => "p50_ms",
        Measure::P99Ms => "p99_ms",
        Measure::LimitLeast => "limit_least",
        Measure::LimitMost => "limit_most",
        Measure::ProbeShare => "probe_share",
        Measure::Recovery => "recovery",
        Measure::Fairness => "fairness",
        Measure::BaselineSpread => "baseline_spread",
        Measure::QueueMost => "queue_most",
        Measure::Wasted => "wasted",
    }
}

/// `goodput ≥ 1960 /s`, with class, window and seeds where they are not the usual ones.
fn wanted(scenario: &Scenario, bar: &Bar) -> String {
    let unit = match bar.measure {
        Measure::Goodput
        | Measure::Offered
        | Measure::Retries
        | Measure::Refused
        | Measure::Wasted => " /s",
        Measure::Share | Measure::ProbeShare | Measure::BaselineSpread => " %",
        Measure::P50Ms | Measure::P99Ms => " ms",
        Measure::Recovery => " s",
        Measure::Failures
        | Measure::LimitLeast
        | Measure::LimitMost
        | Measure::Fairness
        | Measure::QueueMost => "",
    };
    let mut text = name(bar.measure).replace('_', " ").replace(" ms", "");
    if let Some(class) = &bar.class {
        text.extend([" of ", class]);
    }
    match (bar.at_least, bar.at_most) {
        (Some(least), Some(most)) => text.push_str(&format!(" {least} to {most}{unit}")),
        (Some(least), None) => text.push_str(&format!(" ≥ {least}{unit}")),
        (None, Some(most)) => text.push_str(&format!(" ≤ {most}{unit}")),
        (None, None) if unit.is_empty() => {}
        (None, None) => text.push_str(&format!(" ({})", unit.trim_start())),
    }
    if bar.from.is_some() || bar.to.is_some() {
        let seconds = |at: Option<Duration>, usual: Duration| at.unwrap_or(usual).as_secs_f64();
        let from = seconds(bar.from, scenario.warm_up);
        let to = seconds(bar.to, scenario.length);
        text.push_str(&format!(", {from}–{to} s"));
    }
    if let Some(recovered) = bar.recovered {
        text.push_str(&format!(" (back at {recovered} /s)"));
    }
    if bar.over == Over::Mean {
        text.push_str(", mean");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{self, policy::Policy};
    use crate::suite;

    const SMALL: &str = r#"
        id = "T"
        title = "a small one"
        length = "4s"
        warm_up = "1s"
        beside = ["fixed:10", "aimd"]
        [[traffic]]
        name = "people"
        rate = 400.0
        [app]
        kind = "slots"
        slots = 10
        [[app.route]]
        name = "page"
        service = { kind = "constant", mean = "50ms" }
        [[bar]]
        policy = "fixed:10"
        measure = "goodput"
        at_least = 150
        [[bar]]
        policy = "fixed:10"
        measure = "p50_ms"
        from = "2s"
        at_most = 1
        [[bar]]
        policy = "aimd"
        measure = "goodput"
        at_least = 1
    "#;

    #[test]
    fn bars_are_held_against_the_policy_they_are_for() {
        let scenario = suite::parse(std::path::Path::new("t.toml"), SMALL).unwrap();
        let policy = Policy::named("fixed:10").unwrap();
        let digests: Vec<Digest> = [1, 2]
            .into_iter()
            .map(|seed| {
                let record = sim::run(&scenario, &policy, seed);
                Digest::of(&scenario, seed, &record, seed == 1)
            })
            .collect();

        let result = ScenarioResult::new(&scenario, "t.toml", &[("fixed:10", digests)]);

        let verdicts: Vec<(&str, bool)> = result
            .bars
            .iter()
            .map(|bar| (&*bar.wanted, bar.held))
            .collect();
        assert_eq!(
            verdicts,
            [("goodput ≥ 150 /s", true), ("p50 ≤ 1 ms, 2–4 s", false)]
        );
        let figures = result.policies[0].figures;
        assert!((150.0..=201.0).contains(&figures.goodput), "{figures:?}");
        assert_eq!(figures.limit_most, Some(10.0));
        assert_eq!(result.policies[0].seeds.len(), 2);
        assert_eq!(result.policies[0].series.steps.len(), 4);
    }
}
