//! A database that slows down behind a pool of connections. Everything is real: PostgreSQL, Tomcat with the pool that it
//! makes by itself, and Tidegate before it; what Tidegate says of the node is held beside what it says when it may see
//! threads and processor alone, and beside what visitors feel.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_lab::load::{Arrivals, Kind, LoadPlan, Phase, Report, Run};

use crate::harness::{
    Args, DRIVER, Drill, Figure, Keys, Postgres, Seen, Tomcat, TomcatSetup, Verdict, Viewer,
    Watched, ask, finish,
};

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-pool",
    promise: "a database slows down: the wait for a connection is named ≥ 2 s before 1 % of the answers take over a second",
    takes: Duration::from_secs(105),
    run,
};

const CONNECTIONS: u32 = 8;
const THREADS: u32 = 200;
/// Requests each second, each of which asks the database once: with 40 ms for that, half of the connections are in use.
const RATE: f64 = 100.0;
const PACE: Duration = Duration::from_millis(40);
/// By how much a query takes longer each second, once the database slows down.
const SLOWER: Duration = Duration::from_millis(1);
/// Before that.
const CALM: Duration = Duration::from_secs(8);
const SLOWING: Duration = Duration::from_secs(56);
/// Within this, 99 of 100 answers should come.
const BUDGET: Duration = Duration::from_secs(1);
const GOOD_SHARE_MIN: f64 = 0.99;
/// The wait for a connection that is no trouble, in milliseconds: what a wait is told of.
const WAIT_BUDGET_MS: f64 = 100.0;
const LEAD_MIN: f64 = 2.0;
/// Below this a node is stressed.
const STRESSED_BELOW: f64 = 0.45;
const LOOK: Duration = Duration::from_millis(100);
/// Longest time that the node has to be well again in when nobody comes any more.
const RECOVERY_MS_MAX: f64 = 30_000.0;
/// What Tomcat may write to its log, in bytes, while it is looked at every second.
const LOGGED_MAX: f64 = 65_536.0;

/// When what was seen, since the load began.
#[derive(Default)]
struct Moments {
    /// The node is in trouble, and its pool is why.
    stressed: Option<Duration>,
    /// The wait for a connection is over its budget, and there is nothing of which less is left.
    wait_named: Option<Duration>,
    /// What was said of the node then, with all there is to see and with threads and processor alone.
    then: Option<(Seen, Seen)>,
    /// The same for the latency of answers.
    latency_named: Option<Duration>,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let postgres = Postgres::start()?;
    let tomcat = shop(&postgres)?;
    // What is shown is when it is noticed. Who acts on it turns visitors away, and then there is no wait.
    let keys = Keys {
        app: "mode = \"shadow\"\n",
        agent: "latency_budget = \"1s\"\n",
    };
    let ours = Watched::start("ours", &tomcat, Viewer::Probe, None, keys)?;
    let plain = Watched::start("plain", &tomcat, Viewer::Plain, None, keys)?;
    plain.healthy_after(&[])?;
    ours.healthy_after(&[])?;
    let logged = tomcat.logged()?;

    let mut kind = Kind::get("visitor", "/item.jsp");
    kind.patience.visit = BUDGET;
    let phases = vec![
        Phase::new("calm", RATE, CALM),
        Phase::new("slowing", RATE, SLOWING),
    ];
    let mut plan = LoadPlan::new(ours.address(), vec![kind], phases);
    plan.arrivals = Arrivals::Even;
    let load = Run::start(plan)?;
    let begun = Instant::now();
    let moments = watch(&verdict, &postgres, (&ours, &plain), begun)?;
    let report = finish(load)?;

    judge(&mut verdict, &moments, &report);
    let logged = (tomcat.logged()? - logged) as f64;
    verdict.add(
        Figure::count(
            "bytes that Tomcat logs while it is looked at each second",
            logged,
        )
        .at_most(LOGGED_MAX),
    );
    recovers(&mut verdict, &postgres, &ours)?;
    Ok(verdict)
}

/// A Tomcat whose pages ask `postgres`, and have been compiled.
fn shop(postgres: &Postgres) -> anyhow::Result<Tomcat> {
    let setup = TomcatSetup::new(THREADS)
        .page(("item.jsp", Postgres::PAGE))
        .resource(postgres.pool(CONNECTIONS), DRIVER);
    let tomcat = Tomcat::start(&setup)?;
    ask(tomcat.address(), "/item.jsp")?;
    postgres.pace(PACE, Duration::ZERO)?;
    Ok(tomcat)
}

/// Slows the database down after a while, and looks at both until the load is over.
fn watch(
    verdict: &Verdict,
    postgres: &Postgres,
    (ours, plain): (&Watched, &Watched),
    begun: Instant,
) -> anyhow::Result<Moments> {
    let mut moments = Moments::default();
    let mut slows = false;
    while begun.elapsed() < CALM + SLOWING {
        let at = begun.elapsed();
        if !slows && at >= CALM {
            postgres.pace(PACE, SLOWER)?;
            slows = true;
        }
        if let Some((seen, beside)) = ours.seen()?.zip(plain.seen()?) {
            moments.note(at, seen, beside);
        }
        sleep(LOOK);
    }
    for (what, at) in [
        ("stressed, for want of connections", moments.stressed),
        ("the wait for a connection is named", moments.wait_named),
        ("the latency of answers is named", moments.latency_named),
    ] {
        let at = at.map_or_else(
            || "never".to_owned(),
            |at| format!("{:.1} s", at.as_secs_f64()),
        );
        verdict.say(format!("{what}: {at}"));
    }
    Ok(moments)
}

impl Moments {
    fn note(&mut self, at: Duration, seen: Seen, beside: Seen) {
        if seen.is_bound_by("pool") {
            if seen.is_in_trouble() {
                self.stressed.get_or_insert(at);
            }
            // What is shown of the pool is what is worst in it: its connections, or the wait for one.
            let wait = seen.value.filter(|_| seen.limit == Some(WAIT_BUDGET_MS));
            if self.wait_named.is_none() && wait.is_some_and(|ms| ms >= WAIT_BUDGET_MS) {
                self.wait_named = Some(at);
                self.then = Some((seen, beside));
            }
        } else if seen.is_bound_by("latency") {
            self.latency_named.get_or_insert(at);
        }
    }
}

fn judge(verdict: &mut Verdict, moments: &Moments, report: &Report) {
    // A visitor counts in the second in which they came: that it was too long shows a second later.
    let seconds = &report.seconds;
    let broke = seconds.iter().position(|second| {
        second.kinds[0].offered > 0 && second.kinds[0].good_share() < GOOD_SHARE_MIN
    });
    let broke = broke.map_or(f64::NAN, |second| second as f64);
    verdict.say(format!(
        "more than 1 in 100 who came take over a second from second {broke:.0} on; before, p99 of all answers was {:.0} ms",
        report.phases[0].good_all.p99_ms
    ));
    let lead = |at: Option<Duration>| at.map_or(f64::NAN, |at| broke - at.as_secs_f64());
    verdict.add(
        Figure::ms(
            "the wait for a connection is named before answers are late by",
            1_000.0 * lead(moments.wait_named),
        )
        .at_least(1_000.0 * LEAD_MIN)
        .beside(
            "stressed for want of connections",
            1_000.0 * lead(moments.stressed),
        )
        .beside("by latency", 1_000.0 * lead(moments.latency_named)),
    );
    let Some((seen, beside)) = &moments.then else {
        return;
    };
    verdict.say(format!("then the node is {}", seen.text()));
    verdict.say(format!("by threads and processor alone: {}", beside.text()));
    let left = |seen: &Seen| seen.headroom.unwrap_or(f64::NAN);
    verdict.add(
        Figure::share("what is left of the node then", left(seen))
            .below(STRESSED_BELOW)
            .beside("by threads and processor alone", left(beside)),
    );
    verdict.add(
        Figure::share(
            "what is left by threads and processor alone, which warn of nothing",
            left(beside),
        )
        .at_least(STRESSED_BELOW),
    );
}

/// Nobody comes any more, and the database is well: what the pool said last is no reason to stay in trouble.
fn recovers(verdict: &mut Verdict, postgres: &Postgres, ours: &Watched) -> anyhow::Result<()> {
    postgres.pace(PACE, Duration::ZERO)?;
    let took = ours.healthy_after(&["pool", "latency"])?;
    verdict.add(Figure::ms("healthy again without a visitor after", took).at_most(RECOVERY_MS_MAX));
    Ok(())
}
