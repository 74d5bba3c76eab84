//! `tidegate demo`: the same surge on the same shop, once bare and once behind Tidegate.

mod scene;
mod scorecard;
mod screen;
mod shop;
mod side;
mod view;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_lab::load::{ClosedLoop, LoadPlan, Request, closed_loop};
use tidegate_lab::shop::Shop;

pub(crate) use shop::{ShopArgs, shop};

use scene::Scene;
use scorecard::{Scorecard, Verdict};
use side::{Guard, play};
use view::{Setting, View};

/// The machine was too busy for the run to count.
const EXIT_INVALID: u8 = 3;
/// Stopped by hand, as a shell would say it.
const EXIT_STOPPED: u8 = 130;
/// How long the capacity is measured, after a second that does not count.
const CAPACITY_LENGTH: Duration = Duration::from_secs(2);

/// Show what Tidegate does: a shop past its knee, without it and with it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of load on each of the two shops, instead of 20 (150 with --incident).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(12..=3_600))]
    pub(crate) seconds: Option<u32>,
    /// Slow the shop's recommendation dependency down 20 times.
    #[arg(long, conflicts_with = "incident")]
    pub(crate) slow_dependency: bool,
    /// Play a real incident instead: 64 workers of 64 ms, callers who wait 2 s and come twice more,
    /// a fifth above the usual peak.
    #[arg(long)]
    pub(crate) incident: bool,
    /// Write the results as JSON to FILE, or to standard output for `-`.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Runs the demo. Exit code 0: protection held; 1: it did not; 3: the machine was too busy for the
/// run to count.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let scene = Scene::new(&args);
    let length = args.seconds.map_or_else(
        || Scene::usual_length(&args),
        |seconds| Duration::from_secs(seconds.into()),
    );
    let json_to_stdout = args.json.as_deref() == Some(Path::new("-"));
    eprintln!(
        "{}\nfirst bare, then behind Tidegate: about {} s in all",
        scene.title,
        2 * length.as_secs() + 8
    );

    let capacity = capacity(&scene)?;
    let plan = scene.load(([127, 0, 0, 1], 0).into(), capacity, length);
    let mut view = View::open(setting(&scene, capacity, &plan), json_to_stdout)?;
    let mut outcomes = Vec::new();
    for guard in [Guard::Bare, Guard::Tidegate] {
        let Some(outcome) = play(&scene, guard, capacity, length, &mut view)? else {
            return Ok(ExitCode::from(EXIT_STOPPED));
        };
        outcomes.push(outcome);
    }
    // The terminal is itself again from here on.
    drop(view);

    let [bare, tidegate] = outcomes.as_slice() else {
        unreachable!("two runs were played");
    };
    let scorecard = Scorecard::new(&scene, capacity, bare, tidegate);
    publish(&scorecard, args.json.as_deref())?;
    Ok(match scorecard.verdict {
        Verdict::Held => ExitCode::SUCCESS,
        Verdict::Failed => ExitCode::FAILURE,
        Verdict::Invalid => ExitCode::from(EXIT_INVALID),
    })
}

/// What the scene's shop can do at most. All rates are multiples of this, and goodput is judged by
/// it, so that it does not matter how fast this machine is.
fn capacity(scene: &Scene) -> anyhow::Result<f64> {
    let shop = Shop::open(([127, 0, 0, 1], 0).into(), scene.shop.clone())
        .context("cannot open the shop")?;
    let measured = closed_loop(&ClosedLoop {
        target: shop.address(),
        request: Request::get("/browse/shoes"),
        connections: 2 * scene.shop.slots as usize,
        warm_up: Duration::from_secs(1),
        length: CAPACITY_LENGTH,
    })
    .context("cannot measure the shop's capacity")?;
    anyhow::ensure!(measured.per_second > 0.0, "the shop answered nothing");
    Ok(measured.per_second)
}

fn setting(scene: &Scene, capacity: f64, plan: &LoadPlan) -> Setting {
    let mut end_s = 0.0;
    let phases = scene.phases.iter().zip(&plan.phases).map(|(phase, load)| {
        end_s += load.length.as_secs_f64();
        (phase.name, end_s)
    });
    let patience = plan.kinds.iter().map(|kind| kind.patience.visit).max();
    Setting {
        title: scene.title.clone(),
        capacity,
        phases: phases.collect(),
        patience_s: patience.map_or(0, |longest| longest.as_secs_f64().ceil() as usize),
    }
}

fn publish(scorecard: &Scorecard<'_>, json: Option<&Path>) -> anyhow::Result<()> {
    let text = scorecard.text();
    let Some(path) = json else {
        std::io::stdout().write_all(text.as_bytes())?;
        return Ok(());
    };
    let bytes = serde_json::to_vec_pretty(scorecard)?;
    if path == Path::new("-") {
        std::io::stderr().write_all(text.as_bytes())?;
        std::io::stdout().write_all(&bytes)?;
        writeln!(std::io::stdout())?;
    } else {
        std::io::stdout().write_all(text.as_bytes())?;
        std::fs::write(path, &bytes)
            .with_context(|| format!("cannot write the results to {}", path.display()))?;
    }
    Ok(())
}
