//! What answers: workers, service times, and what goes wrong with them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::duration;

/// The application.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub struct App {
    /// How its work shares the machine.
    pub style: Style,
    /// Requests it keeps waiting inside before it refuses at once; no bound, where none is given.
    pub backlog_max: Option<u32>,
    /// Its routes. At least one.
    pub routes: Vec<Service>,
    /// A cache in front of the slow part of its work.
    pub cache: Option<Cache>,
}

/// How work shares the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Style {
    /// A fixed pool of workers, first come first served.
    Slots {
        /// How many.
        slots: u32,
    },
    /// Everything inside runs at once and shares the cores.
    Sharing {
        /// How many.
        cores: u32,
    },
    /// Answers so many per second of the clock, at once, and refuses the rest.
    Quota {
        /// How many in each whole second.
        per_second: u32,
    },
}

/// An application as it is written: the style's keys stand beside the others, which serde can
/// only flatten where it lets unknown keys pass.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    kind: Kind,
    slots: Option<u32>,
    cores: Option<u32>,
    per_second: Option<u32>,
    backlog_max: Option<u32>,
    #[serde(rename = "route")]
    routes: Vec<Service>,
    cache: Option<Cache>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Slots,
    Sharing,
    Quota,
}

impl TryFrom<Written> for App {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let keys = [
            ("slots", written.slots),
            ("cores", written.cores),
            ("per_second", written.per_second),
        ];
        let (kind, wanted) = match written.kind {
            Kind::Slots => ("slots", 0),
            Kind::Sharing => ("sharing", 1),
            Kind::Quota => ("quota", 2),
        };
        for (index, (key, value)) in keys.into_iter().enumerate() {
            if index != wanted && value.is_some() {
                return Err(format!("an app of kind \"{kind}\" has no `{key}`"));
            }
        }
        let (key, value) = keys[wanted];
        let value = value.ok_or_else(|| format!("an app of kind \"{kind}\" needs `{key}`"))?;
        if value == 0 {
            return Err(format!("`{key}` has to be at least 1"));
        }
        Ok(Self {
            style: match written.kind {
                Kind::Slots => Style::Slots { slots: value },
                Kind::Sharing => Style::Sharing { cores: value },
                Kind::Quota => Style::Quota { per_second: value },
            },
            backlog_max: written.backlog_max,
            routes: written.routes,
            cache: written.cache,
        })
    }
}

/// A route and the time it takes when nothing is in its way.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// How long it takes.
    pub service: ServiceKind,
}

/// A distribution of service times.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum ServiceKind {
    /// Always the same.
    Constant {
        /// How long.
        #[serde(with = "duration")]
        mean: Duration,
    },
    /// The sum of `shape` exponentials: 1 is exponential, more is steadier.
    Erlang {
        /// The mean.
        #[serde(with = "duration")]
        mean: Duration,
        /// How many.
        shape: u32,
    },
    /// Log-normal: a long tail.
    Lognormal {
        /// The mean.
        #[serde(with = "duration")]
        mean: Duration,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Mostly one thing and sometimes another, where the two cannot be told apart from outside.
    Mixed {
        /// The usual time.
        #[serde(with = "duration")]
        usual: Duration,
        /// The other time.
        #[serde(with = "duration")]
        other: Duration,
        /// How often the other, 0 to 1.
        share: f64,
    },
    /// Drawn from what was measured.
    Recorded(Recorded),
}

/// Service times that were measured.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// One number of microseconds per line; relative to the scenario's file.
    pub file: PathBuf,
    /// What is in it; filled in when the scenario is read.
    #[serde(skip)]
    pub times: Arc<[Duration]>,
}

/// A cache: a hit is short, a miss takes the route's service time and fills one entry.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// How long a hit takes.
    #[serde(with = "duration")]
    pub hit: Duration,
    /// How many different entries are asked for, all equally often.
    pub entries: u32,
}

/// Something that goes wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Fault {
    /// Nothing moves for a while: a collector's pause, a stopped process, an outage.
    Stall {
        /// When it begins.
        #[serde(with = "duration")]
        at: Duration,
        /// How long.
        #[serde(with = "duration", rename = "for")]
        lasts: Duration,
        /// How often again; once, where none is given.
        #[serde(with = "duration::option", default)]
        every: Option<Duration>,
        /// Whether the cache is empty afterwards.
        #[serde(default)]
        cold: bool,
    },
    /// Another number of slots or cores.
    Capacity {
        /// When it begins.
        #[serde(with = "duration")]
        at: Duration,
        /// When it ends; never, where none is given.
        #[serde(with = "duration::option", default)]
        until: Option<Duration>,
        /// How many there are meanwhile.
        to: u32,
    },
    /// Work begun meanwhile takes longer: a slow dependency.
    Slow {
        /// When it begins.
        #[serde(with = "duration")]
        at: Duration,
        /// When it ends; never, where none is given.
        #[serde(with = "duration::option", default)]
        until: Option<Duration>,
        /// How many times as long.
        factor: f64,
        /// Which route; all, where none is given.
        #[serde(default)]
        route: Option<String>,
    },
    /// A part of the requests fails at once instead of being worked on.
    FailFast {
        /// When it begins.
        #[serde(with = "duration")]
        at: Duration,
        /// When it ends; never, where none is given.
        #[serde(with = "duration::option", default)]
        until: Option<Duration>,
        /// Which part, 0 to 1.
        share: f64,
        /// How long it takes to fail.
        #[serde(with = "duration")]
        takes: Duration,
        /// Whether it fails with 503, an application's own word for too much work.
        #[serde(default)]
        refused: bool,
    },
    /// Work nobody here has sent: jobs that appear in the application's own queue.
    Backlog {
        /// When.
        #[serde(with = "duration")]
        at: Duration,
        /// How many, of the first route.
        jobs: u32,
    },
}
