//! A Tomcat that can do three fifths of what it could. With weights by what a node can do it gets three fifths of its part; with
//! two states, out at a threshold and in again, it is out, and what it carried falls on the others.

mod two_states;

use std::time::{Duration, Instant};

use tidegate_lab::load::{Kind, Report};
use tidegate_lab::measure;

use crate::harness::{Args, Drill, Figure, Verdict, send};
use crate::tomcats::{Fleet, Front, Look, SERVICE, Servers, WEIGHT_WHOLE, Watch, Way};
use two_states::TwoStates;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-capacity",
    promise: "a Tomcat that loses 40 % of what it can do is stressed and gets less, is never out, and has all its weight after; two states take it out again and again",
    takes: Duration::from_secs(126),
    run,
};

/// Requests each second: 40 % of all workers are busy with them.
const RATE: f64 = 288.0;
/// The node in trouble.
const NODE: usize = 0;
/// How long its pages take then, five thirds of [`SERVICE`]: with as many workers, that is 60 % of what it could do.
const SLOWED: Duration = Duration::from_millis(167);
/// How long it lasts.
const TROUBLE: Duration = Duration::from_secs(20);
/// Before that: what nodes can do is learnt from a load that has just begun, and good news is believed by and by.
const CALM: Duration = Duration::from_secs(20);
/// Visitors keep coming for so long: until the node has its part again.
const SECONDS: u64 = 78;
/// The node's part by the end of the trouble, which was a third.
const SHARE_MAX: f64 = 0.27;
/// Over which time a share is taken.
const SHARE_WINDOW: Duration = Duration::from_secs(3);

/// What came of a run.
struct Outcome {
    /// How often a node went out.
    outs: usize,
    /// Nodes that were out at the same time, at most.
    out_max: usize,
    /// Visitors that got no answer in time, of all.
    errors: f64,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    // What is measured is who hears of what, not who gets the processor of this machine.
    measure::prefer_thread();
    let mut verdict = Verdict::new(args);
    let fleet = Fleet::start(&[])?;
    let ours = by_capacity(&mut verdict, &fleet, args)?;
    let two = by_two_states(&fleet)?;
    verdict.add(
        Figure::count("times that a node goes out", ours.outs as f64)
            .exactly(0.0)
            .beside("with two states", two.outs as f64),
    );
    verdict.add(
        Figure::count("nodes out at the same time", ours.out_max as f64)
            .exactly(0.0)
            .beside("with two states", two.out_max as f64),
    );
    verdict.add(
        Figure::share("visitors without an answer in time", ours.errors)
            .below(0.005)
            .beside("with two states", two.errors),
    );
    Ok(verdict)
}

/// With Tidegate, until the node has all its weight again.
fn by_capacity(verdict: &mut Verdict, fleet: &Fleet, args: &Args) -> anyhow::Result<Outcome> {
    let node = &fleet.nodes[NODE];
    // By turns, so that a part is what the weight says and nothing else.
    let servers = Servers::new("nodes", "roundrobin", Way::Tidegate);
    let front = Front::start(fleet, &[servers])?;
    let watch = Watch::start(
        front.haproxy.clone(),
        "nodes",
        Some(node.tidegate()?.admin()),
    )?;
    let visitors = send(front.address(0), kinds(), RATE, args.length(SECONDS))?;
    let is_whole = |look: &Look| {
        let all = &mut look.servers.iter();
        all.all(|server| server.is_in() && server.weight >= WEIGHT_WHOLE)
            && look.word.as_deref() == Some("HEALTHY")
    };
    watch.wait_until("every node has its part", is_whole)?;
    std::thread::sleep(CALM);

    let began = Instant::now();
    node.shop.set_service(SLOWED)?;
    std::thread::sleep(TROUBLE);
    node.shop.set_service(SERVICE)?;
    let over = Instant::now();
    let back = watch.wait_until("the node has all its weight again", is_whole)?;
    let looks = watch.finish()?;
    let report = visitors.join()?;

    let since = |at| {
        looks
            .iter()
            .position(|look: &Look| look.at >= at)
            .unwrap_or(looks.len())
    };
    let trouble = &looks[since(began)..since(over)];
    let words: Vec<&str> = looks[since(began)..]
        .iter()
        .filter_map(|look| look.word.as_deref())
        .collect();
    let counts = |word: &str| words.iter().filter(|it| **it == word).count() as f64;
    verdict.add(Figure::count("looks at which it is stressed", counts("STRESSED")).at_least(1.0));
    verdict.add(Figure::count("looks at which it is saturated", counts("SATURATED")).exactly(0.0));
    let last = trouble.last();
    let earlier = trouble.iter().rev().find(|it| over - it.at >= SHARE_WINDOW);
    let share = last
        .zip(earlier)
        .and_then(|(last, earlier)| last.share_since(earlier, NODE));
    verdict.add(
        Figure::share(
            "its part of all requests by then",
            share.unwrap_or(f64::NAN),
        )
        .at_most(SHARE_MAX)
        .beside("before", 1.0 / 3.0)
        .beside("of what all can do", 0.6 / 2.6),
    );
    let again = back.saturating_duration_since(over).as_secs_f64();
    verdict.add(Figure::ms(
        "from its whole capacity to its whole weight",
        again * 1_000.0,
    ));
    Ok(Outcome::of(&looks, &report))
}

/// With agents that know two states, and HAProxy before the Tomcats themselves.
fn by_two_states(fleet: &Fleet) -> anyhow::Result<Outcome> {
    let agents = fleet.nodes.iter().map(|node| TwoStates::start(&node.shop));
    let agents: Vec<TwoStates> = agents.collect::<anyhow::Result<_>>()?;
    let asked = agents.iter().map(TwoStates::address).collect();
    let servers = Servers::new("two", "roundrobin", Way::Agents(asked));
    let front = Front::start(fleet, &[servers])?;
    let watch = Watch::start(front.haproxy.clone(), "two", None)?;
    let visitors = send(front.address(0), kinds(), RATE, CALM + TROUBLE)?;
    std::thread::sleep(CALM);

    let node = &fleet.nodes[NODE];
    node.shop.set_service(SLOWED)?;
    let report = visitors.join()?;
    node.shop.set_service(SERVICE)?;
    Ok(Outcome::of(&watch.finish()?, &report))
}

fn kinds() -> Vec<Kind> {
    vec![Kind::get("visitor", "/page.jsp")]
}

impl Outcome {
    fn of(looks: &[Look], report: &Report) -> Self {
        let out = |look: &Look| look.servers.iter().filter(|server| !server.is_in()).count();
        let went_out = |pair: &[Look]| {
            let both = pair[0].servers.iter().zip(&pair[1].servers);
            both.filter(|(was, is)| was.is_in() && !is.is_in()).count()
        };
        let all = report.sum(0..report.length().as_secs() as usize, |_| true);
        Self {
            outs: looks.windows(2).map(went_out).sum(),
            out_max: looks.iter().map(out).max().unwrap_or(0),
            errors: 1.0 - all.good_share(),
        }
    }
}
