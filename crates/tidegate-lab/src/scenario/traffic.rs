//! Who asks: arrivals, patience, and what a client does with a refusal.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tidegate_core::facts::{Class, GroupId, RouteId};

use super::duration;

/// One stream of clients that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Its name in reports.
    pub name: String,
    /// First attempts per second.
    #[serde(default)]
    pub rate: f64,
    /// How they are spread in time.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// The class its requests are in, by name; `anonymous` where none is given.
    #[serde(default)]
    pub class: Option<String>,
    /// Which routes it asks for, and how often each; all of the first route where none is given.
    #[serde(default)]
    pub routes: Vec<Weight>,
    /// Whether requests carry their route, so that it can be told apart.
    #[serde(default = "yes")]
    pub labelled: bool,
    /// How long a client waits for an answer to one attempt.
    #[serde(with = "duration", default = "second")]
    pub patience: Duration,
    /// When it begins.
    #[serde(with = "duration", default)]
    pub from: Duration,
    /// When it ends; never, where none is given.
    #[serde(with = "duration::option", default)]
    pub until: Option<Duration>,
    /// What changes while it lasts, in the order of time.
    #[serde(default, rename = "change")]
    pub changes: Vec<Change>,
    /// Distinct users; each attempt belongs to one of them at random.
    #[serde(default = "users")]
    pub users: u32,
    /// What a client does when it is refused or its patience ends; nothing where none is given.
    #[serde(default)]
    pub retry: Option<Retry>,
    /// Instead of a class and routes: the path its requests ask for, for a gateway's configuration
    /// to tell what that is.
    #[serde(default)]
    pub path: Option<String>,
    /// With `path`: the method; `GET` where none is given.
    #[serde(default)]
    pub method: Option<String>,
    /// With `path`: header fields by name.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// With `path`: whether the requests come from a peer whose headers are believed.
    #[serde(default)]
    pub trusted: bool,
    /// What a gateway's configuration makes of these requests; not in any file.
    #[serde(skip)]
    pub label: Option<Label>,
}

/// What a gateway makes of the requests of one traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// How much they matter.
    pub class: Class,
    /// Whose service times they share.
    pub route: RouteId,
    /// Whose bulkhead they are in.
    pub group: GroupId,
    /// How long their callers are taken to wait.
    pub patience: Duration,
}

impl Traffic {
    /// The name of the class its requests are in.
    pub fn class_name(&self) -> &str {
        match (&self.label, &self.class) {
            (Some(label), _) => label.class.name(),
            (None, Some(class)) => class,
            (None, None) => Class::Anonymous.name(),
        }
    }

    /// `factor` times as much of it.
    pub fn scale(&mut self, factor: f64) {
        self.rate *= factor;
        for rate in self
            .changes
            .iter_mut()
            .filter_map(|change| change.rate.as_mut())
        {
            *rate *= factor;
        }
        match &mut self.arrivals {
            Arrivals::Poisson {} | Arrivals::Fixed {} => {}
            Arrivals::Bursts { size, .. } => *size = (f64::from(*size) * factor).round() as u32,
            Arrivals::Trace { steps, .. } => {
                let scaled = steps.iter().map(|step| Step {
                    rate: step.rate * factor,
                    ..*step
                });
                *steps = scaled.collect();
            }
        }
    }
}

impl Traffic {
    /// First attempts that it makes on average in a run of that `length`.
    pub fn first_attempts(&self, length: Duration) -> f64 {
        let end = self.until.map_or(length, |until| until.min(length));
        let lasts = end.saturating_sub(self.from).as_secs_f64();
        let pieces: Vec<(Duration, f64)> = match &self.arrivals {
            Arrivals::Bursts { size, every } => {
                let again = every.map_or(0.0, |every| (lasts / every.as_secs_f64()).floor());
                return if lasts > 0.0 {
                    f64::from(*size) * (1.0 + again)
                } else {
                    0.0
                };
            }
            Arrivals::Poisson {} | Arrivals::Fixed {} => {
                let changes = self.changes.iter();
                let changes = changes.filter_map(|change| Some((change.at, change.rate?)));
                [(self.from, self.rate)]
                    .into_iter()
                    .chain(changes)
                    .collect()
            }
            Arrivals::Trace { steps, .. } => {
                let steps = steps.iter();
                steps
                    .map(|step| (self.from.saturating_add(step.at), step.rate))
                    .collect()
            }
        };
        let ends = pieces
            .iter()
            .skip(1)
            .map(|&(at, _)| at.min(end))
            .chain([end]);
        pieces
            .iter()
            .zip(ends)
            .map(|(&(from, rate), to)| rate * to.saturating_sub(from).as_secs_f64())
            .sum()
    }
}

/// How first attempts are spread in time.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Arrivals {
    // Braces without fields: of a variant without them, serde lets unknown keys pass.
    /// Independent of each other.
    Poisson {},
    /// Evenly.
    Fixed {},
    /// `size` at once every `every`, beginning at the traffic's `from`; `rate` is not used.
    Bursts {
        /// How many at once.
        size: u32,
        /// How often; once, where none is given.
        #[serde(with = "duration::option", default)]
        every: Option<Duration>,
    },
    /// From a file: lines of `seconds,rate`, each rate holding until the next line; Poisson within.
    Trace {
        /// The file, relative to the scenario's.
        file: PathBuf,
        /// What is in it; filled in when the scenario is read.
        #[serde(skip)]
        steps: Arc<[Step]>,
    },
}

/// One line of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// When it begins.
    pub at: Duration,
    /// First attempts per second from then on.
    pub rate: f64,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::Poisson {}
    }
}

/// A route and how much of the traffic asks for it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Weight {
    /// The route's name in the application.
    pub route: String,
    /// Its part, relative to the other weights.
    pub weight: f64,
}

/// From `at` on, the traffic is different.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When.
    #[serde(with = "duration")]
    pub at: Duration,
    /// The new rate.
    #[serde(default)]
    pub rate: Option<f64>,
    /// The new routes.
    #[serde(default)]
    pub routes: Option<Vec<Weight>>,
}

/// What a client does after an attempt that failed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Attempts in all, the first included.
    pub attempts: u32,
    /// How long it pauses.
    #[serde(default)]
    pub pause: Pause,
    /// Whether it heeds `Retry-After`.
    #[serde(default)]
    pub retry_after: bool,
    /// What all clients of this traffic may spend on retries together.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// Retries happen at whole multiples of this only, as with clients that act once a second.
    #[serde(with = "duration::option", default)]
    pub grain: Option<Duration>,
}

/// The pause before the next attempt.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Pause {
    /// None.
    None {},
    /// Always the same.
    Fixed {
        /// How long.
        #[serde(with = "duration")]
        pause: Duration,
    },
    /// Doubling from `base` up to `most`.
    Backoff {
        /// The first pause.
        #[serde(with = "duration")]
        base: Duration,
        /// The longest one.
        #[serde(with = "duration")]
        most: Duration,
        /// Whether the pause is drawn evenly between 0 and that (full jitter).
        jitter: bool,
    },
}

impl Default for Pause {
    fn default() -> Self {
        Self::None {}
    }
}

/// A retry budget shared by the clients of one traffic.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Retries earned per first attempt.
    #[serde(default)]
    pub ratio: f64,
    /// Retries earned per second whatever happens.
    #[serde(default)]
    pub per_second: f64,
    /// The most that can be saved up, in retries.
    pub most: f64,
    /// A second retry of the same request costs this many times the first, a third this squared.
    #[serde(default = "one")]
    pub growth: u32,
}

const fn yes() -> bool {
    true
}

const fn one() -> u32 {
    1
}

const fn users() -> u32 {
    10_000
}

const fn second() -> Duration {
    Duration::from_secs(1)
}
