//! What a scenario file may say: the traffic, the clients behind it, the application with its
//! faults, the gateways in front, and the bars that a run has to clear.
//!
//! The simulator and the load tester read the same words. A file is checked as a whole when it is
//! read; what a [`Scenario`] holds can be run.

mod app;
mod bar;
mod duration;
mod traffic;

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

pub use app::{App, Cache, Fault, Recorded, Service, ServiceKind, Style};
pub use bar::{Bar, Measure, Over};
pub use traffic::{Arrivals, Budget, Change, Label, Pause, Retry, Step, Traffic, Weight};

/// One scenario: everything a run needs but the policy and the seed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short name, unique in its suite: `S1`.
    pub id: String,
    /// One line for people.
    pub title: String,
    /// The suite it belongs to; none for a file of the user's own.
    #[serde(default)]
    pub suite: Option<String>,
    /// Simulated time of a run.
    #[serde(with = "duration")]
    pub length: Duration,
    /// Figures and bars without a window of their own are over `warm_up..length`.
    #[serde(default, with = "duration")]
    pub warm_up: Duration,
    /// Who asks. At least one.
    pub traffic: Vec<Traffic>,
    /// What answers.
    pub app: App,
    /// What goes wrong, and when.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
    /// What stands in front.
    #[serde(default)]
    pub gateways: Gateways,
    /// How the application is protected where the policy does not say.
    #[serde(default)]
    pub protection: Protection,
    /// Policies this scenario is run under besides the one asked for, to show the contrast.
    #[serde(default)]
    pub beside: Vec<String>,
    /// What must hold. None in a file that only shows.
    #[serde(default, rename = "bar")]
    pub bars: Vec<Bar>,
}

impl Scenario {
    /// Events that a run has at least, on average: first attempts and shares handed out.
    pub fn events_least(&self) -> f64 {
        let attempts = self.traffic.iter();
        let attempts: f64 = attempts
            .map(|traffic| traffic.first_attempts(self.length))
            .sum();
        let gateways = &self.gateways;
        let shares = if gateways.arrangement == Arrangement::Pooled {
            let times = self.length.as_secs_f64() / gateways.refresh.as_secs_f64();
            f64::from(gateways.count) * times
        } else {
            0.0
        };
        attempts + shares
    }

    /// The files it names, relative to its own.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let traces = self.traffic.iter().filter_map(|traffic| {
            let Arrivals::Trace { file, .. } = &traffic.arrivals else {
                return None;
            };
            Some(&**file)
        });
        let recorded = self.app.routes.iter().filter_map(|route| {
            let ServiceKind::Recorded(recorded) = &route.service else {
                return None;
            };
            Some(&*recorded.file)
        });
        traces.chain(recorded)
    }
}

/// The gateways in front of the application.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gateways {
    /// How many; arrivals are spread over them at random.
    pub count: u32,
    /// What they know of each other.
    pub arrangement: Arrangement,
    /// How often shares of a pooled limit are handed out; half of it is the way to a gateway.
    #[serde(with = "duration")]
    pub refresh: Duration,
    /// When the control plane is lost for good.
    #[serde(with = "duration::option")]
    pub lost_at: Option<Duration>,
    /// When the first gateway is restarted, losing what it holds; a pooled limit starts warm.
    #[serde(with = "duration::option")]
    pub restarted_at: Option<Duration>,
    /// When the control plane is restarted, losing what it holds in memory.
    #[serde(with = "duration::option")]
    pub hub_restarted_at: Option<Duration>,
}

/// What gateways before one application know of each other.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Arrangement {
    /// Nothing: each has a limit that learns for itself.
    Alone,
    /// One limit in a hub, handed out in shares.
    Pooled,
    /// One limit and queue beside the application; the gateways only pass on.
    Node,
}

impl Default for Gateways {
    fn default() -> Self {
        Self {
            count: 1,
            arrangement: Arrangement::Node,
            refresh: Duration::from_millis(100),
            lost_at: None,
            restarted_at: None,
            hub_restarted_at: None,
        }
    }
}

/// How the application is protected, as in the gateway's configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Protection {
    /// The application's workers, where they are stated: the limit is then that number.
    pub workers: Option<u32>,
    /// The longest time in queue and service that is aimed at.
    #[serde(with = "duration")]
    pub hold: Duration,
    /// Most requests in the queue.
    pub queue_max: u32,
    /// Whoever is refused is told to come back at a time of its own, so many to each second; where
    /// none is given, at a random time as the gateway does it.
    pub retry_slots: Option<u32>,
}

impl Default for Protection {
    fn default() -> Self {
        Self {
            workers: None,
            hold: Duration::from_millis(200),
            queue_max: 10_000,
            retry_slots: None,
        }
    }
}
