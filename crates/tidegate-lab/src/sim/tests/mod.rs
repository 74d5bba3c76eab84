//! The world against what is known without it.

mod clients;
mod determinism;
mod pooled;
mod queueing;
mod retries;

use std::time::Duration;

use super::policy::Policy;
use super::record::{Record, Window};
use super::run;
use crate::scenario::Scenario;

/// A scenario of `length`, the rest of which is `text`.
fn scenario(length: &str, text: &str) -> Scenario {
    let text = format!("id = \"T\"\ntitle = \"a test\"\nlength = \"{length}\"\n{text}");
    toml::from_str(&text).unwrap()
}

fn run_under(policy: &str, scenario: &Scenario) -> Record {
    run(scenario, &Policy::named(policy).unwrap(), 1)
}

fn whole(record: &Record) -> Window<'_> {
    record.window(Duration::ZERO, Duration::MAX)
}

/// Attempts made within each second.
fn offered(record: &Record) -> Vec<u32> {
    let attempts = |second: Window<'_>| second.offered(None) as u32;
    (0..record.bins.len() as u64 / 10)
        .map(|at| attempts(record.window(Duration::from_secs(at), Duration::from_secs(at + 1))))
        .collect()
}
