//! Which scenarios to run, under which policies, at which seeds.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use tidegate_lab::scenario::Scenario;
use tidegate_lab::sim::policy::Policy;
use tidegate_lab::suite::{self, SUITES, Suite};

use super::{Args, shape};
use crate::config::{self, Flags};

/// Seeds of policies that are there to compare with.
const SEEDS_BESIDE: u32 = 2;

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
            Ok(Job {
                policies: policies_for(args, &scenario, &ours)?,
                scenario,
                from,
            })
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Work { jobs, inputs })
}

/// The names of all policies, for people.
pub(super) fn policies() -> String {
    Policy::ALL.join(", ")
}

/// Scenarios of files and suites, with where they are from.
fn written(args: &Args, inputs: &mut Vec<PathBuf>) -> anyhow::Result<Vec<(Scenario, String)>> {
    let mut found = Vec::new();
    for file in &args.files {
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
        found.push((scenario, file.display().to_string()));
    }
    for name in &args.suite {
        let suites: Vec<&Suite> = match name.as_str() {
            "all" => SUITES.iter().collect(),
            name => vec![named(name)?],
        };
        for suite in suites {
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
            "there is no suite \"{name}\"; there are {}, and all",
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
    let plan = config::parse(&config.display().to_string(), &text, &Flags::default())?;
    let mut scenario = read(shape, inputs)?;
    let app = shape::resolve(&mut scenario, &plan, args.app.as_deref())
        .with_context(|| format!("{} does not fit {}", shape.display(), config.display()))?;
    let policy = Policy::configured(Policy::OURS, app.admission.clone(), app.limit);
    let from = format!("{} on {}", shape.display(), config.display());
    Ok((vec![(scenario, from)], policy))
}

fn only(found: &mut Vec<(Scenario, String)>, wanted: &[String]) -> anyhow::Result<()> {
    for id in wanted {
        let known: Vec<&str> = found.iter().map(|(scenario, _)| &*scenario.id).collect();
        ensure!(
            known.contains(&id.as_str()),
            "there is no scenario \"{id}\" among {}",
            known.join(", ")
        );
    }
    found.retain(|(scenario, _)| wanted.contains(&scenario.id));
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
        let chosen = args
            .policy
            .iter()
            .map(|name| Ok((named(name)?, args.seeds)));
        return chosen.collect();
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
