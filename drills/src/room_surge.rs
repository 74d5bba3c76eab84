//! Five times as many come as a shop of two nodes can serve. With the room the shop does as much as it can, who is inside is
//! never sent back, and orders are served; the line follows by itself when a node is lost, when another one comes, when something
//! that the shop calls becomes slow, and when visitors bring more. Beside it the same people without the room.
//!
//! A visit is long enough that people have something to lose: whoever cannot see a page three times leaves without ordering.

mod crowd;

use std::sync::Arc;
use std::time::Duration;

use crate::harness::{
    Args, Drill, Figure, Gateway, Keeps, ShopProcess, ShopSetup, Site, Verdict, capacity,
};
use crate::room::{Front, Ground, Pool, RoomSettings};
use crowd::{Crowd, World};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-surge",
    promise: "5 times the demand: goodput ≥ 95 % of capacity, orders ≥ 99.9 %, tiers in order, and the line follows what there is",
    takes: Duration::from_secs(680),
    run,
};

/// What a node of the shop can do.
const SHOP: ShopSetup = ShopSetup::new(12, 80);
/// Requests that a gateway may put into it at once: half as many again, so that no worker waits for its next one while the room
/// fills it to 0.95 of that.
const INSIDE: u32 = 18;
/// Times the capacity that would be wanted by all who come.
const DEMAND: f64 = 5.0;
/// How long somebody looks at a page.
const THINK: Duration = Duration::from_millis(1_500);
/// Seconds of a stage, without `--seconds`, and of a visit.
const STAGE: u64 = 45;
/// How much slower what the shop calls becomes.
const SLOWER: u32 = 6;
/// Twice the load must halve the rate within that.
const HALVES_WITHIN: Duration = Duration::from_secs(30);

/// A node: a gateway, and its part of the shop.
struct Node {
    gateway: Gateway,
    shop: ShopProcess,
}

/// When what happens, in stages.
struct Stages(Duration);

impl Stages {
    const STEADY: f64 = 2.0;
    const LOST: f64 = 3.0;
    const BACK: f64 = 4.0;
    const SLOW: f64 = 6.0;
    const FAST: f64 = 7.0;
    const HEAVY: f64 = 9.5;
    const END: f64 = 10.5;

    fn at(&self, stages: f64) -> Duration {
        self.0.mul_f64(stages)
    }

    /// People let in per second, from one time to another.
    fn let_in(&self, world: &World, from: f64, until: f64) -> f64 {
        let (from, until) = (self.at(from), self.at(until));
        f64::from(world.sum(from, until).let_in) / (until - from).as_secs_f64()
    }
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let stages = Stages(args.length(STAGE).max(HALVES_WITHIN));
    let one = capacity(ShopProcess::open(&SHOP)?.address(), SHOP.slots)?.per_second;
    let visit = stages.0.as_secs_f64() / THINK.as_secs_f64() + 2.0;
    let rate = DEMAND * 2.0 * one / visit;
    verdict.say(format!(
        "two nodes do {:.0}/s together; a visit is {visit:.0} requests in {:?}, and {rate:.1} visitors come in a second",
        2.0 * one,
        stages.0
    ));

    let with = with_room(&stages, rate)?;
    let without = without_room(&stages, rate)?;
    for (who, world) in [("with the room", &with), ("without", &without)] {
        verdict.say(format!(
            "{who}, pages in time by tens of seconds: {}",
            world.series(|it| it.good)
        ));
        verdict.say(format!("{who}, let in: {}", world.series(|it| it.let_in)));
        verdict.say(format!("{who}, orders: {}", world.series(|it| it.orders)));
    }
    judge_goodput(&mut verdict, &stages, &with, &without, 2.0 * one);
    judge_speed(&mut verdict, &stages, &with);
    Ok(verdict)
}

fn with_room(stages: &Stages, rate: f64) -> anyhow::Result<Arc<World>> {
    let (ground, door) = (Ground::shared()?, Site::start("door", Keeps::InTidegate)?);
    let settings = settings(&door);
    let (first, second) = (
        node(&ground, "gw1", &settings)?,
        node(&ground, "gw2", &settings)?,
    );
    let front = Front::of(pools(&[&first, &second]));
    let length = stages.at(Stages::END);
    let crowd = Crowd::start(&front, rate, length, stages.0, THINK)?;

    crowd.wait_until(stages.at(Stages::LOST));
    second.gateway.kill()?;
    front.set(pools(&[&first]));
    crowd.wait_until(stages.at(Stages::BACK));
    let third = node(&ground, "gw3", &settings)?;
    front.set(pools(&[&first, &third]));
    crowd.wait_until(stages.at(Stages::SLOW));
    for node in [&first, &third] {
        node.shop.control(&format!("recommend_factor={SLOWER}"))?;
    }
    crowd.wait_until(stages.at(Stages::FAST));
    for node in [&first, &third] {
        node.shop.control("recommend_factor=1")?;
    }
    crowd.wait_until(stages.at(Stages::HEAVY));
    crowd.set_think(THINK / 2);
    crowd.join()
}

fn without_room(stages: &Stages, rate: f64) -> anyhow::Result<Arc<World>> {
    let (ground, door) = (Ground::shared()?, Site::start("door", Keeps::InTidegate)?);
    let settings = settings(&door).without_room();
    let nodes = [
        node(&ground, "gw1", &settings)?,
        node(&ground, "gw2", &settings)?,
    ];
    let front = Front::of(pools(&nodes.each_ref()));
    Crowd::start(&front, rate, stages.at(Stages::LOST), stages.0, THINK)?.join()
}

fn settings(door: &Site) -> RoomSettings {
    RoomSettings::phase("auto")
        .with("rate_min = \"1/s\"\nrate_max = \"30/s\"\nfill = \"5s\"\nvisitor_rps = 0.6")
        .app(&format!(
            "workers = {INSIDE}\npatience = \"2s\"\n\
             [[app.route]]\nname = \"checkout\"\npath = \"/checkout/**\"\nclass = \"critical\"\n\
             [[app.route]]\nname = \"pages\"\npath = \"/**\"\n"
        ))
        .outside("door", "/sign-in", door.address())
        .outside("cart", "/add", door.address())
        // A node is to be used to the last, and nobody steers it by anything but the room.
        .section(
            "[fleet.health]\nsaturated_below = 0.01\nstressed_below = 0.02\nrecover_above = 0.03\ntarget_used = 0.95",
        )
}

fn node(ground: &Ground, name: &str, settings: &RoomSettings) -> anyhow::Result<Node> {
    let shop = ShopProcess::open(&SHOP)?;
    let gateway = ground.gateway(name, shop.address(), settings)?;
    Ok(Node { gateway, shop })
}

fn pools(nodes: &[&Node]) -> Vec<Arc<Pool>> {
    nodes
        .iter()
        .map(|node| Pool::to(node.gateway.address()))
        .collect()
}

/// What was served, to whom, and what of it was worth anything.
fn judge_goodput(verdict: &mut Verdict, stages: &Stages, with: &World, without: &World, c: f64) {
    let (from, until) = (stages.at(Stages::STEADY), stages.at(Stages::LOST));
    let seconds = (until - from).as_secs_f64();
    let (ours, theirs) = (with.sum(from, until), without.sum(from, until));
    let share = |good: u32| f64::from(good) / seconds / c;
    verdict.add(
        Figure::share("goodput, of the capacity of two nodes", share(ours.good))
            .at_least(0.95)
            .beside("without the room", share(theirs.good)),
    );
    verdict.add(
        Figure::per_second(
            "visits that end with an order",
            f64::from(ours.orders) / seconds,
        )
        .at_least(f64::from(theirs.orders) / seconds)
        .beside("without the room", f64::from(theirs.orders) / seconds),
    );
    let all = with.sum(Duration::ZERO, stages.at(Stages::END));
    let orders = f64::from(all.orders) / f64::from(all.orders + all.orders_failed);
    verdict.add(
        Figure::share("orders that were served in time, in the whole run", orders).at_least(0.999),
    );
    verdict.add(
        Figure::count(
            "times that somebody inside saw the line again",
            f64::from(all.thrown_out),
        )
        .exactly(0.0),
    );
    verdict.add(
        Figure::count(
            "visits that were broken off for want of a page",
            f64::from(ours.gave_up),
        )
        .beside("without the room", f64::from(theirs.gave_up)),
    );
    let waits = [1, 2, 3].map(|tier| with.wait_ms(tier) / 1_000.0);
    verdict.say(format!(
        "median waits: {:.1} s back for a cart, {:.1} s signed in, {:.1} s strangers",
        waits[0], waits[1], waits[2]
    ));
    for (wait, who) in waits.iter().zip(["back for a cart", "signed in"]) {
        let what = format!("median wait of those who are {who}, of that of strangers");
        verdict.add(Figure::share(what, wait / waits[2]).at_most(0.25));
    }
}

/// How fast the line moves as things change.
fn judge_speed(verdict: &mut Verdict, stages: &Stages, world: &World) {
    let steady = stages.let_in(world, Stages::STEADY, Stages::LOST);
    let lost = stages.let_in(world, Stages::LOST + 0.3, Stages::BACK);
    let back = stages.let_in(world, Stages::BACK + 0.3, Stages::SLOW);
    let slow = stages.let_in(world, Stages::SLOW + 0.3, Stages::FAST);
    verdict.add(
        Figure::ratio("let in with one node of two, of before", lost / steady)
            .at_most(0.75)
            .beside("a second", steady),
    );
    verdict.add(
        Figure::ratio(
            "let in when a second node is there again, of with one",
            back / lost,
        )
        .at_least(1.3),
    );
    verdict.add(
        Figure::ratio(
            "let in while what the shop calls is slow, of before",
            slow / back,
        )
        .at_most(0.8),
    );
    let before = stages.let_in(world, Stages::HEAVY - 1.0, Stages::HEAVY);
    let heavy = stages.at(Stages::HEAVY);
    let (from, until) = (heavy + HALVES_WITHIN / 2, heavy + HALVES_WITHIN);
    let after = f64::from(world.sum(from, until).let_in) / (until - from).as_secs_f64();
    verdict.add(
        Figure::ratio(
            "let in 15 to 30 s after visitors bring twice as much, of before",
            after / before,
        )
        .at_most(0.5),
    );
}
