//! Figures that the design rests on, measured again: what HAProxy makes of what agents say, what the kernel tells of accept
//! queues, and whether what is shipped for Prometheus is sound. Each is printed with what is expected of it.

mod queues;
mod shares;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, TempDir, Verdict, program, wait_for,
};
use crate::health_haproxy_stale::{farewell, put_right};

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-figures",
    promise: "HAProxy's shares, stale agents, accept queues and what is shipped for Prometheus are as the design has them",
    takes: Duration::from_secs(85),
    run,
};

/// How long what dead agents said is watched.
const STALE_SECONDS: u64 = 60;
/// What is shipped for Prometheus.
const ALERTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/alerts");

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    shares::of_percent(&mut verdict)?;
    shares::of_weight_one(&mut verdict)?;
    queues::backlog(&mut verdict)?;
    queues::reuse_port(&mut verdict)?;
    shipped(&mut verdict)?;
    verdict.add(farewell()?);
    put_right(&mut verdict, args.length(STALE_SECONDS))?;
    Ok(verdict)
}

/// What `promtool` says of rules, of their tests, and of a gateway's own page of metrics; 0 when all is well.
fn shipped(verdict: &mut Verdict) -> anyhow::Result<()> {
    let promtool = program("promtool", "prometheus")?;
    for (kind, file) in [("check", "tidegate.yml"), ("test", "tidegate.test.yml")] {
        let mut command = Command::new(&promtool);
        command.args([kind, "rules", file]).current_dir(ALERTS);
        let code = code_of(&mut command)?;
        verdict.add(Figure::count(format!("promtool {kind} rules {file}"), code).exactly(0.0));
    }
    let page = page_of_metrics()?;
    let mut command = Command::new(&promtool);
    command.args(["check", "metrics"]);
    command.stdin(std::fs::File::open(page.path().join("metrics"))?);
    let code = code_of(&mut command)?;
    verdict.add(Figure::count("promtool check metrics, of a node", code).exactly(0.0));
    Ok(())
}

/// All that a gateway that is a node says of itself, in a file.
fn page_of_metrics() -> anyhow::Result<TempDir> {
    let dir = TempDir::new()?;
    let state = dir.path().join("state");
    let setup = GatewaySetup::new(format!(
        "[[app]]\nupstream = \"http://127.0.0.1:9\"\nworkers = 4\n[store]\npath = \"{}\"\n[fleet]\nnode = \"alone\"\n[agent]\n",
        state.display()
    ));
    let gateway = Gateway::start(&setup)?;
    wait_for("it leads", || {
        Ok(gateway.metrics()?.sum("tidegate_leads", &[]) == 1.0)
    })?;
    std::fs::write(dir.path().join("metrics"), gateway.told("/metrics")?)?;
    gateway.stop()?;
    Ok(dir)
}

/// The exit code of `command`; what it said is shown when that is another than 0.
fn code_of(command: &mut Command) -> anyhow::Result<f64> {
    let output = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?
        .wait_with_output()?;
    let code = output.status.code().context("it was ended")?;
    if code != 0 {
        eprint!("{}", String::from_utf8_lossy(&output.stdout));
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(f64::from(code))
}

/// A file in `dir` with `text`.
fn written(dir: &TempDir, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let file = dir.path().join(name);
    std::fs::write(&file, text)?;
    Ok(file)
}
