//! One of the two runs: the shop bare, or the same shop behind Tidegate.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use tidegate_gateway::Gateway;
use tidegate_lab::load::{Report, Run, SecondReport, Tally};
use tidegate_lab::shop::Shop;

use super::scene::Scene;
use super::view::{View, Wish};
use crate::config::{self, Flags};

/// How often a run is looked at.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Guard {
    Bare,
    Tidegate,
}

impl Guard {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare shop",
            Self::Tidegate => "behind Tidegate",
        }
    }
}

/// A run as far as it has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Time since its start.
    pub(super) elapsed: Duration,
    /// All kinds together, by second; the last one is still going on.
    pub(super) seconds: Vec<Tally>,
    /// What was seen inside, in order.
    pub(super) samples: Vec<Sample>,
}

impl Progress {
    /// What was seen inside at `seconds`, or last before that.
    pub(super) fn sample_at(&self, seconds: f64) -> Option<&Sample> {
        self.samples
            .iter()
            .rev()
            .find(|sample| sample.at_s <= seconds)
    }
}

/// The inside of a run at one moment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Sample {
    /// Seconds since the run's start.
    pub(super) at_s: f64,
    /// Jobs the shop has finished.
    pub(super) finished: u64,
    /// Of these: for callers who had left.
    pub(super) finished_dead: u64,
    /// Jobs that wait inside the shop.
    pub(super) shop_queue: u64,
    /// Requests that wait in Tidegate, and those it has let in.
    pub(super) gateway: Option<GatewaySample>,
}

/// Tidegate at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct GatewaySample {
    pub(super) queued: u32,
    pub(super) in_flight: u32,
    pub(super) limit: u32,
}

/// A run that is over.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) guard: Guard,
    pub(super) report: Report,
    pub(super) samples: Vec<Sample>,
}

impl Outcome {
    /// Jobs the shop finished per second in the steady part of phase `index`, whoever for.
    pub(super) fn throughput(&self, index: usize) -> f64 {
        let phase = &self.report.phases[index];
        let mut inside = self
            .samples
            .iter()
            .filter(|s| (phase.from_s + 1.0..phase.to_s).contains(&s.at_s));
        match (inside.next(), inside.next_back()) {
            (Some(first), Some(last)) => {
                (last.finished - first.finished) as f64 / (last.at_s - first.at_s)
            }
            _ => 0.0,
        }
    }
}

/// Plays `scene` on a new shop. `None` when whoever watches wants to stop.
pub(super) fn play(
    scene: &Scene,
    guard: Guard,
    c: f64,
    length: Duration,
    view: &mut View,
) -> anyhow::Result<Option<Outcome>> {
    let shop = Shop::open(([127, 0, 0, 1], 0).into(), scene.shop.clone())
        .context("cannot open the shop")?;
    let gateway = match guard {
        Guard::Bare => None,
        Guard::Tidegate => Some(protect(scene, shop.address())?),
    };
    let target = gateway
        .as_ref()
        .map_or_else(|| shop.address(), Gateway::address);
    let run = Run::start(scene.load(target, c, length)).context("cannot start the visitors")?;

    let mut progress = Progress::default();
    while !run.is_finished() {
        progress.elapsed = run.elapsed();
        progress.seconds = run.seconds().iter().map(all_kinds).collect();
        progress
            .samples
            .push(look(&shop, gateway.as_ref(), progress.elapsed));
        if view.show(guard, &progress, LOOK_INTERVAL)? == Wish::Stop {
            return Ok(None);
        }
    }
    progress.seconds = run.seconds().iter().map(all_kinds).collect();
    let report = run.join().context("the visitors failed")?;
    view.keep(guard, progress.clone())?;
    Ok(Some(Outcome {
        guard,
        report,
        samples: progress.samples,
    }))
}

/// Tidegate in front of `shop`, with what an operator would write for it.
fn protect(scene: &Scene, shop: SocketAddr) -> anyhow::Result<Gateway> {
    let text = format!(
        "[listen]\naddress = \"127.0.0.1:0\"\nconnections_max = 30000\n\n[admin]\n\
         address = \"off\"\n\n[[app]]\nname = \"shop\"\nupstream = \"http://{shop}\"\n{}",
        scene.app
    );
    let plan = config::parse("the demo's configuration", &text, &Flags::default())?.gateway;
    Gateway::start(plan).context("cannot start Tidegate")
}

fn look(shop: &Shop, gateway: Option<&Gateway>, elapsed: Duration) -> Sample {
    let stats = shop.stats();
    let status = gateway.map(Gateway::status);
    Sample {
        at_s: elapsed.as_secs_f64(),
        finished: stats.finished,
        finished_dead: stats.finished_dead,
        shop_queue: stats.queue,
        gateway: status
            .as_ref()
            .and_then(|status| status.apps.first())
            .map(|app| GatewaySample {
                queued: app.queued,
                in_flight: app.in_flight,
                limit: app.limit,
            }),
    }
}

fn all_kinds(second: &SecondReport) -> Tally {
    let mut sum = Tally::default();
    for tally in &second.kinds {
        sum += *tally;
    }
    sum
}
