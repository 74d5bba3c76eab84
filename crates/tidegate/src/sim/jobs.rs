//! Which scenarios to run, under which policies, at which seeds.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use tidegate_lab::scenario::{Arrangement, Scenario};
use tidegate_lab::sim::policy::Policy;
use tidegate_lab::suite::{self, SUITES, Suite};
use tidegate_lab::text::{escaped, shown};

use super::{Args, shape};
use crate::config::{self, Flags};

/// Seeds of policies that are there to compare with.
const SEEDS_BESIDE: u32 = 2;

/// The most events of one run: they take an hour.
const EVENTS_MAX: f64 = 1e10;

/// One scenario and what it is run under.
pub(super) struct Job {
    pub(super) scenario: Scenario,
    /// The suite or file it is from.
    pub(super) from: String,
    /// With how many seeds each.
    pub(super) policies: Vec<(Policy, u32)>,
}

/// All there is to do, and what it was read from.
pub(super) struct Work {
    pub(super) jobs: Vec<Job>,
    pub(super) inputs: Vec<PathBuf>,
}

/// What `args` ask for.
pub(super) fn work(args: &Args) -> anyhow::Result<Work> {
    let mut inputs = Vec::new();
    let (mut found, ours) = match (&args.config, &args.shape) {
        (Some(config), Some(shape)) => shaped(args, config, shape, &mut inputs)?,
        _ => (written(args, &mut inputs)?, Policy::named(Policy::OURS)?),
    };
    if !args.only.is_empty() {
        only(&mut found, &args.only)?;
    }
    ensure!(
        !found.is_empty(),
        "nothing to run: name a scenario file, --suite with one of {}, or --config with --shape",
        names()
    );
    let jobs = found
        .into_iter()
        .map(|(mut scenario, from)| {
            scenario
                .traffic
                .iter_mut()
                .for_each(|traffic| traffic.scale(args.scale));
            let policies = policies_for(args, &scenario, &ours)?;
            can_be_run(&scenario, &policies)?;
            Ok(Job {
                policies,
                scenario,
                from,
            })
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Work { jobs, inputs })
}

/// A run that could not end today, or could not mean anything, is not begun.
fn can_be_run(scenario: &Scenario, policies: &[(Policy, u32)]) -> anyhow::Result<()> {
    let events = scenario.events_least();
    ensure!(
        events <= EVENTS_MAX,
        "{}: each run would have {:.0} billion events, and the most is {:.0} billion: shorten \
         `length`, or lower the rates or --scale",
        scenario.id,
        (events / 1e9).ceil(),
        EVENTS_MAX / 1e9
    );
    let gateways = &scenario.gateways;
    let ours = policies
        .iter()
        .find(|(policy, _)| policy.name() == Policy::OURS);
    let learnt = ours.is_none_or(|(policy, _)| policy.pooled(scenario).is_some());
    ensure!(
        learnt || gateways.arrangement != Arrangement::Pooled || gateways.count == 1,
        "{}: gateways.arrangement is \"pooled\", but only the adaptive limit is shared out, not a \
         number of workers that is stated: write \"node\", for one limit beside the application, or \
         leave `workers` out",
        scenario.id
    );
    Ok(())
}

/// The names of all policies, for people.
pub(super) fn policies() -> String {
    Policy::ALL.join(", ")
}

/// Scenarios of files and suites, with where they are from.
fn written(args: &Args, inputs: &mut Vec<PathBuf>) -> anyhow::Result<Vec<(Scenario, String)>> {
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for file in &args.files {
        let place = file.canonicalize().unwrap_or_else(|_| file.clone());
        if seen.contains(&place) {
            continue;
        }
        seen.push(place);
        let scenario = read(file, inputs)?;
        for traffic in &scenario.traffic {
            ensure!(
                traffic.path.is_none(),
                "{}: traffic {:?} asks for a path, and a configuration has to say what that is: \
                 run it with --config FILE --shape {0}",
                file.display(),
                traffic.name
            );
        }
        found.push((scenario, escaped(&file.display().to_string())));
    }
    let mut suites: Vec<&Suite> = Vec::new();
    for name in &args.suite {
        let wanted = match name.trim() {
            "all" => SUITES.iter().collect(),
            name => vec![named(name)?],
        };
        for suite in wanted {
            if suites.iter().any(|known| known.name == suite.name) {
                continue;
            }
            suites.push(suite);
            let scenarios = suite.scenarios()?.into_iter();
            found.extend(scenarios.map(|scenario| (scenario, suite.name.to_owned())));
        }
    }
    Ok(found)
}

/// Its errors say their cause themselves, with the place in the file.
fn read(file: &Path, inputs: &mut Vec<PathBuf>) -> anyhow::Result<Scenario> {
    let scenario = suite::read(file).map_err(|error| anyhow!("{error}"))?;
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    inputs.push(file.to_owned());
    inputs.extend(scenario.files().map(|named| folder.join(named)));
    Ok(scenario)
}

fn named(name: &str) -> anyhow::Result<&'static Suite> {
    let Some(suite) = Suite::named(name) else {
        bail!(
            "there is no suite \"{}\"; there are {}, and all",
            shown(name),
            names()
        );
    };
    Ok(suite)
}

fn names() -> String {
    let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
    names.join(", ")
}

/// The scenario of `shape` as `config` sees it, and the policy that `config` makes.
fn shaped(
    args: &Args,
    config: &Path,
    shape: &Path,
    inputs: &mut Vec<PathBuf>,
) -> anyhow::Result<(Vec<(Scenario, String)>, Policy)> {
    let text = config::read(config)?;
    inputs.push(config.to_owned());
    let plan = config::parse(&config.display().to_string(), &text, &Flags::default())?.gateway;
    let mut scenario = read(shape, inputs)?;
    let app = shape::resolve(&mut scenario, &plan, args.app.as_deref())
        .with_context(|| format!("{} does not fit {}", shape.display(), config.display()))?;
    let policy = Policy::configured(Policy::OURS, app.admission.clone(), app.limit);
    let from = format!("{} on {}", shape.display(), config.display());
    let from = escaped(&from);
    Ok((vec![(scenario, from)], policy))
}

fn only(found: &mut Vec<(Scenario, String)>, wanted: &[String]) -> anyhow::Result<()> {
    let wanted: Vec<&str> = wanted.iter().map(|id| id.trim()).collect();
    for id in &wanted {
        let known: Vec<&str> = found.iter().map(|(scenario, _)| &*scenario.id).collect();
        ensure!(
            known.contains(id),
            "there is no scenario \"{}\" among {}",
            shown(id),
            known.join(", ")
        );
    }
    found.retain(|(scenario, _)| wanted.contains(&&*scenario.id));
    Ok(())
}

fn policies_for(
    args: &Args,
    scenario: &Scenario,
    ours: &Policy,
) -> anyhow::Result<Vec<(Policy, u32)>> {
    let named = |name: &str| {
        if name == Policy::OURS {
            Ok(ours.clone())
        } else {
            Policy::named(name)
        }
    };
    if !args.policy.is_empty() {
        let mut chosen: Vec<(Policy, u32)> = Vec::new();
        for name in args.policy.iter().map(|name| name.trim()) {
            if chosen.iter().all(|(policy, _)| policy.name() != name) {
                chosen.push((named(name)?, args.seeds));
            }
        }
        return Ok(chosen);
    }
    let mut policies = vec![(ours.clone(), args.seeds)];
    let peers = Policy::PEERS.iter().copied().filter(|_| args.peers);
    for name in scenario.beside.iter().map(String::as_str).chain(peers) {
        if policies.iter().all(|(policy, _)| policy.name() != name) {
            policies.push((named(name)?, args.seeds.min(SEEDS_BESIDE)));
        }
    }
    Ok(policies)
}
