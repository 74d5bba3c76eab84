//! What a simulated application is protected by: Tidegate, what others publish, and nothing.
//!
//! A policy makes the production [`Admission`] with a limit and a queue of its own. The limits of
//! others are written anew from their published formulas, constants included, each in a file of its
//! own; they run without a queue, as they do at home. Three policies are about the queue instead:
//! they have the application's workers as their limit.

mod brpc;
mod envoy;
mod gradient1;
mod named;
mod windowed;

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::admission::{Admission, Config};
use tidegate_core::bulkhead::{Bulkheads, Loan, Portion, Reserve};
use tidegate_core::facts::Class;
use tidegate_core::limit::adaptive::Settings;
use tidegate_core::limit::{Bounds, Kind, Limit};
use tidegate_core::queue::Discipline;

use crate::scenario::{Scenario, Style};

use brpc::Brpc;
use envoy::Envoy;
use gradient1::Gradient1;
pub use named::UnknownPolicy;
use windowed::Windowed;

/// A wait that nothing in a run comes near.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// In flight and queued together, of the policy `bounded`.
const BOUNDED_TOTAL: u32 = 300;

/// What critical requests keep, as in the gateway's own defaults.
const CRITICAL_RESERVE: Reserve = Reserve {
    portion: Portion::Share(0.1),
    loan: Loan::Lent,
};

/// A way to protect an application.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    name: String,
    make: Make,
}

/// How a policy's admission is made.
#[derive(Clone, Debug, PartialEq)]
enum Make {
    Tidegate,
    /// No limit and no queue.
    Nothing,
    /// A limit alone: what it does not let in is refused.
    Limit(LimitKind),
    /// A queue in front of the application's workers.
    Queue(QueueKind),
    /// As a configuration says.
    Configured {
        config: Config,
        limit: Kind,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LimitKind {
    Core(Kind),
    Windowed(Kind),
    Gradient1,
    WindowedGradient1,
    Envoy,
    Brpc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueKind {
    /// First come first served without a bound; what cannot be done in time is refused.
    Deadline,
    /// First come first served, so many in all.
    Bounded,
    /// First come first served, thinned by CoDel.
    CoDel,
}

impl Policy {
    /// The name of Tidegate's own.
    pub const OURS: &'static str = "tidegate";

    /// What `--peers` runs besides.
    pub const PEERS: &'static [&'static str] = &[
        "none",
        "fixed:100",
        "aimd",
        "vegas",
        "vegas-windowed",
        "gradient1-windowed",
        "gradient2",
        "gradient2-windowed",
        "envoy",
        "brpc",
    ];

    /// Every name, `fixed` with a number for N.
    pub const ALL: &'static [&'static str] = &[
        Self::OURS,
        "none",
        "fixed:N",
        "aimd",
        "vegas",
        "vegas-windowed",
        "gradient1",
        "gradient1-windowed",
        "gradient2",
        "gradient2-windowed",
        "envoy",
        "brpc",
        "deadline",
        "bounded",
        "codel",
    ];

    /// The policy called `name`.
    pub fn named(name: &str) -> Result<Self, UnknownPolicy> {
        let make = named::make(name)?;
        Ok(Self {
            name: name.to_owned(),
            make,
        })
    }

    /// What a gateway's configuration makes of one application.
    pub fn configured(name: &str, config: Config, limit: Kind) -> Self {
        Self {
            name: name.to_owned(),
            make: Make::Configured { config, limit },
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it tells classes apart. The queues of others are one for all, in which whoever
    /// matters more waits with the rest.
    pub const fn heeds_class(&self) -> bool {
        !matches!(self.make, Make::Queue(_))
    }

    /// A fresh admission for the application of `scenario`; `seed` feeds whatever the limit draws.
    pub fn admission(&self, scenario: &Scenario, seed: u64) -> Admission {
        Admission::new(self.config(scenario), self.limit(scenario, seed))
    }

    /// A fresh limit for the application of `scenario`.
    pub fn limit(&self, scenario: &Scenario, seed: u64) -> Box<dyn Limit> {
        let fixed = |limit: u32| {
            Kind::Static(NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN)).build(seed)
        };
        match &self.make {
            Make::Tidegate => match scenario.protection.workers {
                Some(workers) => fixed(workers),
                None => Kind::Adaptive(Settings::default()).build(seed),
            },
            Make::Nothing => fixed(u32::MAX),
            Make::Limit(kind) => kind.build(seed),
            Make::Queue(_) => fixed(workers(scenario)),
            Make::Configured { limit, .. } => limit.build(seed),
        }
    }

    /// The settings of the limit, where it is of the kind that gateways can have in common.
    pub fn pooled(&self, scenario: &Scenario) -> Option<Settings> {
        match self.make {
            Make::Tidegate if scenario.protection.workers.is_none() => Some(Settings::default()),
            Make::Configured {
                limit: Kind::Adaptive(settings),
                ..
            } => Some(settings),
            _ => None,
        }
    }

    /// How the application of `scenario` is protected beside the limit.
    pub fn config(&self, scenario: &Scenario) -> Config {
        let routes = u16::try_from(scenario.app.routes.len()).unwrap_or(u16::MAX);
        // Groups exist only in a gateway's configuration; to the others they are names without caps.
        let labels = scenario.traffic.iter().filter_map(|traffic| traffic.label);
        let groups = labels.map(|label| usize::from(label.group.0)).max();
        let uncapped = Bulkheads {
            groups: vec![Portion::Share(1.0); groups.unwrap_or(0)],
            ..Bulkheads::default()
        };
        let bare = Config {
            hold: FOR_EVER,
            queue_max: 0,
            queue_bytes_max: u64::MAX,
            discipline: Discipline::Fifo,
            bulkheads: uncapped,
            routes,
            escape: false,
            level: false,
        };
        let protection = &scenario.protection;
        match &self.make {
            Make::Tidegate => Config {
                hold: protection.hold,
                queue_max: protection.queue_max,
                discipline: Discipline::AdaptiveLifo,
                bulkheads: bulkheads_by_default(),
                escape: true,
                ..bare
            },
            Make::Nothing | Make::Limit(_) => bare,
            Make::Queue(QueueKind::Deadline) => Config {
                queue_max: u32::MAX,
                ..bare
            },
            Make::Queue(QueueKind::Bounded) => Config {
                queue_max: BOUNDED_TOTAL.saturating_sub(workers(scenario)),
                ..bare
            },
            Make::Queue(QueueKind::CoDel) => Config {
                hold: protection.hold,
                queue_max: protection.queue_max,
                discipline: Discipline::CoDel,
                ..bare
            },
            Make::Configured { config, .. } => config.clone(),
        }
    }
}

impl LimitKind {
    fn build(self, seed: u64) -> Box<dyn Limit> {
        match self {
            Self::Core(kind) => kind.build(seed),
            Self::Windowed(kind) => Box::new(Windowed::new(kind.build(seed))),
            Self::Gradient1 => Box::new(Gradient1::new(seed)),
            Self::WindowedGradient1 => Box::new(Windowed::new(Box::new(Gradient1::new(seed)))),
            Self::Envoy => Box::new(Envoy::new(seed)),
            Self::Brpc => Box::new(Brpc::new(seed)),
        }
    }
}

/// The application's workers: as stated for its protection, else as they are.
fn workers(scenario: &Scenario) -> u32 {
    let there_are = match scenario.app.style {
        Style::Slots { slots } => slots,
        Style::Sharing { cores } => cores,
        Style::Quota { per_second } => per_second,
    };
    scenario.protection.workers.unwrap_or(there_are)
}

fn bulkheads_by_default() -> Bulkheads {
    let mut bulkheads = Bulkheads::default();
    bulkheads.reserves[Class::Critical.index()] = Some(CRITICAL_RESERVE);
    bulkheads
}

const fn bounds(initial: u32, min: u32, max: u32) -> Bounds {
    match Bounds::new(initial, min, max) {
        Ok(bounds) => bounds,
        Err(_) => panic!("published bounds are in order"),
    }
}

#[cfg(test)]
mod tests;
