//! The lying health check. Three Tomcats; somebody who comes past the balancer takes all workers of one, while its health page
//! goes on saying that it is well. With a Tidegate in front of each, behind a HAProxy with agent checks; then the same with the
//! health page alone, by turns and by fewest connections.

use std::time::{Duration, Instant};

use tidegate_lab::load::{Kind, Patience, Report, Run};
use tidegate_lab::measure;

use crate::harness::{Args, Drill, Figure, Verdict, ask, send, wait_for};
use crate::health_runtimes::clients::Clients;
use crate::tomcats::{Fleet, Front, Look, POLL, Servers, Shop, WEIGHT_WHOLE, WORKERS, Watch, Way};

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-tomcats",
    promise: "a Tomcat whose workers fill while its health page is well gets nothing new within 3 ticks and 2 polls; < 0.5 % of its clients notice, and none is cut off",
    takes: Duration::from_secs(150),
    run,
};

/// Requests each second of all visitors.
const RATE: f64 = 120.0;
/// Of so many, one is an export.
const EXPORT_EVERY: f64 = 120.0;
/// How long an export takes, and whoever wants one waits.
const EXPORT: Duration = Duration::from_secs(6);
const EXPORT_PATIENCE: Duration = Duration::from_secs(9);
/// The node in trouble.
const NODE: usize = 0;
/// From one taken worker to the next.
const TAKEN_EVERY: Duration = Duration::from_millis(300);
/// How long all of them are taken.
const FULL_FOR: Duration = Duration::from_secs(14);
/// Before and after that, where nothing else is waited for.
const CALM: Duration = Duration::from_secs(4);
/// Visitors keep coming for so long: until the node has its part again.
const SECONDS: u64 = 75;
/// Three ticks of a second and two polls.
const GONE_WITHIN: Duration = Duration::from_secs(3 + 2 * POLL.as_secs());
/// A share that is as good as nothing.
const SHARE_GONE: f64 = 0.01;
/// Over which time a share is taken.
const SHARE_WINDOW: Duration = Duration::from_secs(1);
/// Of the visitors that came while it filled and was full.
const ERRORS_MAX: f64 = 0.005;

/// What the trouble was.
struct Trouble {
    began: Instant,
    /// Since when no worker was left.
    full: Instant,
    /// How long the health page took then.
    page_ms: f64,
    /// Those who took the workers.
    _clients: Vec<Clients>,
}

/// What came of a run.
struct Outcome {
    /// Of the visitors that came during the trouble, those that got no answer in time.
    errors: f64,
    /// The node's largest part of all requests in a second, once it had been full for as long as it may take.
    share_max: f64,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    // What is measured is who hears of what, not who gets the processor of this machine.
    measure::prefer_thread();
    let mut verdict = Verdict::new(args);
    let fleet = Fleet::start(&[])?;
    let ours = guarded(&mut verdict, &fleet, args)?;
    let [turns, fewest] = unguarded(&verdict, &fleet)?;
    verdict.add(
        Figure::share(
            "its part of all requests after that, at most",
            ours.share_max,
        )
        .at_most(SHARE_GONE)
        .beside("health page alone, by turns", turns.share_max)
        .beside("by fewest connections", fewest.share_max),
    );
    verdict.add(
        Figure::share(
            "visitors without an answer, while it filled and was full",
            ours.errors,
        )
        .below(ERRORS_MAX)
        .beside("health page alone, by turns", turns.errors)
        .beside("by fewest connections", fewest.errors),
    );
    Ok(verdict)
}

/// With Tidegate, until the node has its part again.
fn guarded(verdict: &mut Verdict, fleet: &Fleet, args: &Args) -> anyhow::Result<Outcome> {
    let node = &fleet.nodes[NODE];
    let servers = Servers::new("nodes", "leastconn", Way::Tidegate);
    let front = Front::start(fleet, &[servers])?;
    let told = Some(node.tidegate()?.admin());
    let watch = Watch::start(front.haproxy.clone(), "nodes", told)?;
    let begun = Instant::now();
    let visitors = send(front.address(0), kinds(), RATE, args.length(SECONDS))?;
    watch.wait_until("every node has its part", |look| {
        look.servers
            .iter()
            .all(|server| server.is_in() && server.weight >= WEIGHT_WHOLE)
            && look.word.as_deref() == Some("HEALTHY")
    })?;
    std::thread::sleep(CALM);

    let trouble = trouble(&node.shop)?;
    let out = watch.wait_until("the node that is full is out", |look| {
        !look.servers[NODE].is_in()
    })?;
    let back = watch.wait_until("the node has its part again", |look| {
        let server = &look.servers[NODE];
        server.is_in() && server.weight >= WEIGHT_WHOLE && look.word.as_deref() == Some("HEALTHY")
    })?;
    let looks = watch.finish()?;
    let report = visitors.join()?;

    let since = looks.iter().position(|look| look.at >= trouble.began);
    let looks = &looks[since.unwrap_or(0)..];
    let way = words(looks);
    verdict.say(format!(
        "{}; its health page, meanwhile: 200 in {:.1} ms",
        way.join(" → "),
        trouble.page_ms
    ));
    let full = way
        .iter()
        .position(|word| word == "SATURATED")
        .unwrap_or(way.len());
    let is_by_steps = way
        .get(..=full)
        .is_some_and(|way| way == ["HEALTHY", "STRESSED", "SATURATED"]);
    verdict.add(
        Figure::count("it is stressed, and then saturated", f64::from(is_by_steps)).exactly(1.0),
    );
    let back_by = way.len().saturating_sub(full + 1) as f64;
    verdict.add(Figure::count("changes of its state on the way back", back_by).at_most(2.0));
    add_times(verdict, looks, &trouble, back);
    add_inside(verdict, looks, out, &report);
    Ok(Outcome {
        errors: errors(&report, begun, &trouble),
        share_max: share_max(looks, trouble.full + GONE_WITHIN, returned(looks, out)),
    })
}

/// When its part was gone, and when it had it again.
fn add_times(verdict: &mut Verdict, looks: &[Look], trouble: &Trouble, back: Instant) {
    let gone = shares(looks)
        .filter(|(at, share)| *at < trouble.full + FULL_FOR && *share > SHARE_GONE)
        .map(|(at, _)| at)
        .last()
        .unwrap_or(trouble.full);
    let ms = |span: Duration| span.as_secs_f64() * 1_000.0;
    verdict.add(
        Figure::ms(
            "from the last worker taken until its part is gone",
            ms(gone.saturating_duration_since(trouble.full)),
        )
        .at_most(ms(GONE_WITHIN)),
    );
    let free = trouble.full + FULL_FOR;
    let again = ms(back.saturating_duration_since(free));
    verdict.add(Figure::ms(
        "from workers free again until it has all its weight",
        again,
    ));
}

/// What became of requests that were with it when it went out.
fn add_inside(verdict: &mut Verdict, looks: &[Look], out: Instant, report: &Report) {
    let at_out = looks.iter().find(|look| look.at >= out);
    let inside = at_out.map_or(0, |look| look.servers[NODE].inside);
    let broken = |look: Option<&Look>| look.map_or(0, |look| look.servers[NODE].broken);
    let broken = broken(looks.last()) - broken(looks.first());
    let exports = &report.kinds[1].total;
    verdict.add(Figure::count("requests with it when it goes out", inside as f64).at_least(1.0));
    verdict.add(Figure::count("requests with it that break off", broken as f64).exactly(0.0));
    verdict.add(
        Figure::count(
            "exports that end in an error or a reset",
            exports.error as f64,
        )
        .exactly(0.0),
    );
}

/// The same trouble where nobody asks anything but the health page: by turns, and by fewest connections.
fn unguarded(verdict: &Verdict, fleet: &Fleet) -> anyhow::Result<[Outcome; 2]> {
    let backends = [("turns", "roundrobin"), ("fewest", "leastconn")];
    let servers = backends.map(|(name, balance)| Servers::new(name, balance, Way::HealthPage));
    let front = Front::start(fleet, &servers)?;
    let length = 2 * CALM + TAKEN_EVERY * WORKERS + FULL_FOR;
    let begun = Instant::now();
    let mut runs: Vec<(Watch, Run)> = Vec::new();
    for (at, (backend, _)) in backends.iter().enumerate() {
        let watch = Watch::start(front.haproxy.clone(), backend, None)?;
        // Together they are as many as came to ours.
        runs.push((watch, send(front.address(at), kinds(), RATE / 2.0, length)?));
    }
    std::thread::sleep(CALM);
    let trouble = trouble(&fleet.nodes[NODE].shop)?;
    let outcomes = runs.into_iter().map(|(watch, run)| {
        let report = run.join()?;
        let looks = watch.finish()?;
        let until = trouble.full + FULL_FOR;
        Ok(Outcome {
            errors: errors(&report, begun, &trouble),
            share_max: share_max(&looks, trouble.full + GONE_WITHIN, until),
        })
    });
    let outcomes: Vec<Outcome> = outcomes.collect::<anyhow::Result<_>>()?;
    verdict.say(format!(
        "where only the health page is asked it says 200 in {:.1} ms, and the node stays in",
        trouble.page_ms
    ));
    outcomes
        .try_into()
        .map_err(|_| anyhow::anyhow!("two runs have two outcomes"))
}

fn kinds() -> Vec<Kind> {
    let export = format!("/slow.jsp?ms={}", EXPORT.as_millis());
    vec![
        Kind::get("visitor", "/page.jsp").share(EXPORT_EVERY - 1.0),
        Kind::get("export", &export).patience(Patience::of(EXPORT_PATIENCE)),
    ]
}

/// Takes one worker after the other, and keeps all of them for [`FULL_FOR`].
fn trouble(shop: &Shop) -> anyhow::Result<Trouble> {
    let began = Instant::now();
    let over = began + TAKEN_EVERY * WORKERS + FULL_FOR;
    let mut clients = Vec::new();
    for _ in 0..WORKERS {
        clients.push(shop.take(1, over.saturating_duration_since(Instant::now()))?);
        std::thread::sleep(TAKEN_EVERY);
    }
    wait_for("no worker is left", || Ok(shop.busy()? >= WORKERS))?;
    let full = Instant::now();
    ask(shop.probe(), "/health.html")?;
    Ok(Trouble {
        began,
        full,
        page_ms: full.elapsed().as_secs_f64() * 1_000.0,
        _clients: clients,
    })
}

/// Of the visitors that came between its beginning and its end, those that got no answer in time.
fn errors(report: &Report, begun: Instant, trouble: &Trouble) -> f64 {
    let second = |at: Instant| at.saturating_duration_since(begun).as_secs() as usize;
    let seconds = second(trouble.began)..second(trouble.full + FULL_FOR);
    let all = report.sum(seconds, |_| true);
    1.0 - all.good_share()
}

/// When the node had requests again after `out`.
fn returned(looks: &[Look], out: Instant) -> Instant {
    let back = looks
        .iter()
        .find(|look| look.at > out && look.servers[NODE].is_in());
    back.map_or(out, |look| look.at)
}

/// Its largest part in any second between the two.
fn share_max(looks: &[Look], from: Instant, to: Instant) -> f64 {
    let within = shares(looks).filter(|(at, _)| (from + SHARE_WINDOW..to).contains(at));
    within.map(|(_, share)| share).fold(0.0, f64::max)
}

/// The node's part of all requests in the second before each look.
fn shares(looks: &[Look]) -> impl Iterator<Item = (Instant, f64)> {
    looks.iter().enumerate().filter_map(|(index, look)| {
        let earlier = looks[..index].iter().rev();
        let earlier = earlier
            .into_iter()
            .find(|it| look.at - it.at >= SHARE_WINDOW)?;
        Some((look.at, look.share_since(earlier, NODE)?))
    })
}

/// The words of its verdict, each once until it changes.
fn words(looks: &[Look]) -> Vec<String> {
    let mut words: Vec<String> = looks.iter().filter_map(|look| look.word.clone()).collect();
    words.dedup();
    words
}
