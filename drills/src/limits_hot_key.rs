//! A client that keeps coming far above its limit costs the store about one question for each token, though the store is
//! asked for each request of everybody else. Beside it the requests that it sends.

use std::time::{Duration, Instant};

use tidegate_lab::load::Kind;

use crate::harness::{Args, Drill, Figure, SharedLimits, Verdict, come_of, send};

/// What the limit lets pass each second.
const RATE: f64 = 10.0;
/// What the client asks for: what two cores can send and refuse beside everything else.
const OFFERED: f64 = 5_000.0;
const SECONDS: u64 = 10;
/// Other calls to the store: who is there, once a second, and more often at first.
const RENEWALS_PER_S: f64 = 1.0;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "limits-hot-key",
    promise: "an abuser at 5,000/s against a limit of 10/s in the store causes no more than 20 store operations a second",
    takes: Duration::from_secs(25),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let shared = SharedLimits::start(1)?;
    let gateway = shared.gateway(
        "[[limit]]\nname = \"all\"\nrate = \"10/s\"\nscope = \"fleet\"\nmode = \"shared\"\n\
         on_store_loss = \"closed\"\n",
    )?;
    SharedLimits::wait_for_parts(std::slice::from_ref(&gateway))?;
    let length = args.length(SECONDS);
    let before = shared.scripts()?;
    let begun = Instant::now();

    let kinds = vec![Kind::get("abuser", "/browse/x")];
    let came = come_of(
        vec![send(gateway.address(), kinds, OFFERED, length)?],
        begun,
    )?;

    let operations = (shared.scripts()? - before) as f64;
    verdict.say(format!(
        "{} requests in {:.2} s, {:.0}/s: passed {}, refused {}; the store ran {operations:.0} scripts",
        came.offered,
        came.seconds,
        came.offered as f64 / came.seconds,
        came.passed,
        came.refused,
    ));
    let per_s = operations / came.seconds;
    verdict.add(
        Figure::per_second("store operations", per_s)
            .at_most(20.0)
            .beside("requests", came.offered as f64 / came.seconds)
            .beside("of these to say who is there, about", RENEWALS_PER_S),
    );
    verdict.add(
        Figure::count("passed", came.passed as f64)
            .at_most((RATE + RATE * came.seconds).floor())
            .beside("burst and rate", RATE + RATE * came.seconds),
    );
    verdict.add(Figure::per_second("sent", came.offered as f64 / came.seconds).at_least(1_000.0));
    Ok(verdict)
}
