//! What a run has to clear.

use std::time::Duration;

use serde::Deserialize;

use super::duration;

/// One line that must hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// The policy it is for.
    #[serde(default = "ours")]
    pub policy: String,
    /// What is measured.
    pub measure: Measure,
    /// Only this class, by name.
    #[serde(default)]
    pub class: Option<String>,
    /// The window begins here; the scenario's `warm_up` where none is given.
    #[serde(with = "duration::option", default)]
    pub from: Option<Duration>,
    /// The window ends here; the scenario's `length` where none is given.
    #[serde(with = "duration::option", default)]
    pub to: Option<Duration>,
    /// The least that is allowed.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// The most that is allowed.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// For which seeds.
    #[serde(default)]
    pub over: Over,
    /// For [`Measure::Recovery`]: the goodput per second that counts as recovered.
    #[serde(default)]
    pub recovered: Option<f64>,
}

/// What is measured in a window.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Good answers within the client's patience, per second.
    Goodput,
    /// Attempts, per second.
    Offered,
    /// Attempts that are retries, per second.
    Retries,
    /// Attempts refused by a gateway or by the application, per second.
    Refused,
    /// Attempts that did not get a good answer in time, whatever the reason: a count.
    Failures,
    /// Good answers as a part of first attempts, in per cent.
    Share,
    /// Median time of good answers, in milliseconds.
    P50Ms,
    /// 99th percentile of the same.
    P99Ms,
    /// The least limit outside probes.
    LimitLeast,
    /// The largest limit outside probes.
    LimitMost,
    /// Time in probes, in per cent.
    ProbeShare,
    /// Seconds from the window's beginning until goodput is back for good.
    Recovery,
    /// Least to largest goodput of a gateway, each relative to the traffic it got.
    Fairness,
    /// The largest difference of the learnt baseline from the median gateway's, in per cent.
    BaselineSpread,
    /// The longest queue, the application's own included.
    QueueMost,
    /// Work done for clients who had gone, in completions per second.
    Wasted,
}

/// For which seeds a bar has to hold.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Each of them.
    #[default]
    Every,
    /// Their mean.
    Mean,
}

fn ours() -> String {
    "tidegate".to_owned()
}
