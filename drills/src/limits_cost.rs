//! What limits cost: decisions in a process beside governor and limitador, and what each request costs Redis.
//!
//! The peers are in a workspace of their own (`bench/peers`), whose program decides for all three in turns; `./drill` builds
//! it. The server of the second part has one core to itself, and what it is asked comes in pipelines of one connection.

mod redis_side;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tidegate_lab::measure::HostTimes;

use crate::harness::{Args, Cores, Drill, Figure, Invalid, Verdict};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "limits-cost",
    promise: "≥ 0.85 × governor's keyed decisions/s, no clock read, and ≤ 64 B a key; a refusal writes nothing to Redis",
    takes: Duration::from_secs(90),
    run,
};

const OF_GOVERNOR_MIN: f64 = 0.85;
const BYTES_PER_KEY_MAX: f64 = 64.0;
const STEAL_SHARE_MAX: f64 = 0.05;
/// Where the program with the peers is, if not beside this one.
const PEERS_BIN: &str = "TIDEGATE_PEERS_BIN";

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let cores = Cores::pick()?;
    let host = HostTimes::now()?;
    in_process(&mut verdict, args, cores)?;
    redis_side::costs(&mut verdict, args, cores)?;
    let steal = HostTimes::now()?.steal_share_since(&host);
    if steal > STEAL_SHARE_MAX {
        return Err(Invalid(format!("steal {steal:.3} is over {STEAL_SHARE_MAX}")).into());
    }
    Ok(verdict)
}

/// Lets the program with the peers measure, on one core.
fn in_process(verdict: &mut Verdict, args: &Args, cores: Cores) -> anyhow::Result<()> {
    let program = peers()?;
    // It and all it starts stay on the core that this thread is on when it starts it.
    let mut command = Command::new("taskset");
    command.args(["-c", &cores.measured.to_string()]);
    command.arg(&program);
    if let Some(rounds) = args.rounds {
        command.args(["--rounds", &rounds.to_string()]);
    }
    let output = command.output().context("cannot run taskset")?;
    anyhow::ensure!(
        output.status.success(),
        "{} failed: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let told: Value = serde_json::from_slice(&output.stdout)?;
    for case in ["passing", "refused"] {
        let number = |name: &str| {
            let number = told.pointer(&format!("/speed/{case}/{name}"));
            let number = number.and_then(Value::as_f64);
            number.with_context(|| format!("nothing is said of {case}/{name}"))
        };
        // A decision of the core is told the time. A gateway reads its clock once for all that a request needs.
        verdict.add(
            Figure::per_second(
                format!("{case}: decisions by string in a second of CPU time, the time given"),
                number("ours_clockless")?,
            )
            .beside("governor", number("governor_clockless")?),
        );
        verdict.add(
            Figure::ratio(
                format!("{case}: of governor's"),
                number("ours_of_governor_clockless")?,
            )
            .at_least(OF_GOVERNOR_MIN),
        );
        verdict.add(
            Figure::per_second(
                format!("{case}: with a clock read for each, ours the system's"),
                number("ours")?,
            )
            .beside("governor, the processor's", number("governor")?)
            .beside("limitador", number("limitador")?),
        );
    }
    let bytes = |who: &str| {
        let bytes = told.pointer(&format!("/bytes_per_key/{who}"));
        let bytes = bytes.and_then(Value::as_f64);
        bytes.with_context(|| format!("nothing is said of the memory of {who}"))
    };
    verdict.add(
        Figure::count("bytes a key, of 400,000", bytes("ours")?)
            .beside("governor", bytes("governor")?)
            .beside("limitador", bytes("limitador")?)
            .at_most(BYTES_PER_KEY_MAX),
    );
    Ok(())
}

/// The program with the peers: in the folder of builds that this one is in, unless the environment says otherwise.
fn peers() -> anyhow::Result<PathBuf> {
    let path = match std::env::var_os(PEERS_BIN) {
        Some(path) => PathBuf::from(path),
        None => {
            let this = std::env::current_exe()?;
            let builds = this.parent().and_then(|folder| folder.parent());
            let builds = builds.context("a program is in a folder")?;
            builds.join("peers/release/tidegate-peers")
        }
    };
    anyhow::ensure!(
        path.is_file(),
        "{} is not there: `./drill limits-cost` builds it, or name it in {PEERS_BIN}",
        path.display()
    );
    Ok(path)
}
