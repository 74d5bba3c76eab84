//! Everything that watches over a fleet fails, one thing after the other: the leader, the store, the way to it, all agents frozen,
//! their clocks, and in the end all agents. The Tomcats that they look at are well, so none of them may leave the pool. Beside it a
//! pool where a node is in as long as its agent is, and a HAProxy that nobody puts right.

mod clock;

use std::time::{Duration, Instant};

use tidegate_lab::load::{Kind, Report, Run, Tally};
use tidegate_lab::measure;

use crate::harness::{Args, Drill, Figure, Gateway, GatewaySetup, Verdict, send, wait_for};
use crate::health_runtimes::clients::Clients;
use crate::tomcats::{Fleet, Front, Look, Servers, WORKERS, Watch, Way};
use clock::Clock;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-fail-open",
    promise: "leader killed, store lost, beacons stopped, agents frozen, clocks an hour off, agents killed: no node leaves the pool, and what agents said last is put right within 8 s",
    takes: Duration::from_secs(140),
    run,
};

/// Requests each second to each of two pools.
const RATE: f64 = 30.0;
/// How long a fault lasts: longer than any lease, and than two polls.
const FAULT: Duration = Duration::from_secs(8);
/// How long a clock is off.
const JUMP: Duration = Duration::from_secs(6);
/// An hour, in seconds.
const HOUR: i64 = 3_600;
/// By so much of it at least the drill must have seen a process's clock move.
const HOUR_SEEN: i64 = 3_590;
/// What agents are left to say last: one that its node is stressed, another that its node is full.
const STRESSED: usize = 0;
const FULL: usize = 1;
/// Workers taken at the one that is to be stressed, and at the one that is to be full.
const TAKEN_FEW: usize = 12;
const TAKEN_ALL: usize = WORKERS as usize;
/// How long they are taken, if nobody frees them.
const TAKEN_FOR: Duration = Duration::from_secs(60);
/// Two nodes that get worse within three ticks would be taken for one cause.
const APART: Duration = Duration::from_secs(5);
/// The lease of an agent and 5 s.
const RIGHT_WITHIN_MS: f64 = 8_000.0;
/// How long it is watched whether stale weights stay.
const STALE_FOR: Duration = Duration::from_secs(12);
/// Of the visitors that come while something is broken.
const ERRORS_MAX: f64 = 0.005;
/// Visitors keep coming for longer than everything takes.
const SECONDS: u64 = 115;

/// What is broken, and when.
struct Fault {
    what: &'static str,
    from: Instant,
    to: Instant,
}

/// The pools that are looked at.
struct Pools {
    /// What looks after `ours`.
    keeper: Gateway,
    ours: Watch,
    alone: Watch,
    usual: Watch,
    /// Visitors of `ours` and of `usual`, and when they began to come.
    visitors: [Run; 2],
    begun: Instant,
    _fronts: [Front; 2],
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    // What is measured is who hears of what, not who gets the processor of this machine.
    measure::prefer_thread();
    let mut verdict = Verdict::new(args);
    let clock = Clock::new()?;
    let environment = clock.environment()?;
    let mut fleet = Fleet::start(&environment)?;
    let pools = Pools::start(&fleet, args)?;
    wait_for("somebody leads", || Ok(fleet.leader()?.is_some()))?;
    pools
        .ours
        .wait_until("all nodes have all their weight", |look| {
            left(look, 100) == 0
        })?;

    let mut faults = Vec::new();
    faults.push(leader_killed(&mut verdict, &mut fleet, &environment)?);
    faults.extend(store_lost(&mut fleet)?);
    faults.push(agents_frozen(&fleet)?);
    faults.extend(clocks_off(&mut verdict, &fleet, &clock)?);
    let killed = agents_killed(&mut verdict, &pools, &mut fleet)?;
    faults.push(Fault {
        what: "agents killed, once that is right",
        ..killed
    });
    pools.report(&mut verdict, &faults, killed.from)?;
    Ok(verdict)
}

/// Whoever leads is killed, and started again when another one leads.
fn leader_killed(
    verdict: &mut Verdict,
    fleet: &mut Fleet,
    environment: &[(&str, String)],
) -> anyhow::Result<Fault> {
    let leads = fleet.leader()?;
    let leads = leads.ok_or_else(|| anyhow::anyhow!("nobody leads"))?;
    let from = Instant::now();
    fleet.nodes[leads].kill_tidegate()?;
    wait_for("another one leads", || Ok(fleet.leader()?.is_some()))?;
    let after = from.elapsed();
    verdict.say(format!(
        "another leads {:.1} s after the leader was killed",
        after.as_secs_f64()
    ));
    std::thread::sleep(FAULT.saturating_sub(after));
    fleet.start_tidegate(leads, environment)?;
    Ok(Fault {
        what: "leader killed",
        from,
        to: Instant::now(),
    })
}

/// The store is killed, and comes back empty; then nothing comes through to it or from it.
fn store_lost(fleet: &mut Fleet) -> anyhow::Result<[Fault; 2]> {
    let from = Instant::now();
    fleet.redis.kill()?;
    std::thread::sleep(FAULT);
    fleet.redis.restart()?;
    wait_for("somebody leads again", || Ok(fleet.leader()?.is_some()))?;
    let to = Instant::now();
    let lost = Fault {
        what: "store lost",
        from,
        to,
    };

    fleet.way.hang();
    std::thread::sleep(FAULT);
    fleet.way.heal();
    wait_for("somebody leads again", || Ok(fleet.leader()?.is_some()))?;
    let stopped = Fault {
        what: "beacons stopped",
        from: to,
        to: Instant::now(),
    };
    Ok([lost, stopped])
}

/// All agents stand still: whoever connects waits in vain.
fn agents_frozen(fleet: &Fleet) -> anyhow::Result<Fault> {
    let from = Instant::now();
    for node in &fleet.nodes {
        node.tidegate()?.pause()?;
    }
    std::thread::sleep(FAULT);
    for node in &fleet.nodes {
        node.tidegate()?.resume()?;
    }
    wait_for("somebody leads again", || Ok(fleet.leader()?.is_some()))?;
    Ok(Fault {
        what: "agents frozen",
        from,
        to: Instant::now(),
    })
}

/// The clocks of all agents go on by an hour, then they go back by two, and then they are right.
fn clocks_off(verdict: &mut Verdict, fleet: &Fleet, clock: &Clock) -> anyhow::Result<[Fault; 2]> {
    let dates = || -> anyhow::Result<Vec<i64>> {
        let nodes = fleet.nodes.iter();
        nodes
            .map(|node| clock::seconds_ahead(node.tidegate()?.admin()))
            .collect()
    };
    let from = Instant::now();
    clock.set(HOUR)?;
    std::thread::sleep(JUMP);
    let least = dates()?.into_iter().min().unwrap_or(0);
    verdict.add(
        Figure::count(
            "seconds that the clock of every agent is ahead",
            least as f64,
        )
        .at_least(HOUR_SEEN as f64),
    );
    let ahead = Fault {
        what: "clocks an hour ahead",
        from,
        to: Instant::now(),
    };

    clock.set(-HOUR)?;
    std::thread::sleep(JUMP);
    let behind = -clock.seconds_ahead()?;
    verdict.add(
        Figure::count("seconds that this clock is behind then", behind as f64)
            .at_least(HOUR_SEEN as f64),
    );
    // Whoever writes the date of answers goes on with the last one until its clock is there again. So where that stands still,
    // the clock was set back.
    let since = dates()?.into_iter();
    let lag = JUMP.as_secs() as i64 - 3;
    let back = since.filter(|ahead| (0..=HOUR - lag).contains(ahead));
    verdict.add(
        Figure::count("agents whose clocks went back", back.count() as f64)
            .exactly(fleet.nodes.len() as f64),
    );
    let behind = Fault {
        what: "clocks an hour behind",
        from: ahead.to,
        to: Instant::now(),
    };
    clock.set(0)?;
    std::thread::sleep(JUMP);
    Ok([ahead, behind])
}

/// One node is stressed and one is full, and so their agents said; then all agents are killed, and the nodes are well.
fn agents_killed(verdict: &mut Verdict, pools: &Pools, fleet: &mut Fleet) -> anyhow::Result<Fault> {
    let take = |at: usize, count| -> anyhow::Result<Clients> {
        fleet.nodes[at].shop.take(count, TAKEN_FOR)
    };
    let few = take(STRESSED, TAKEN_FEW)?;
    let is_stressed = |look: &Look| look.servers[STRESSED].weight < 100;
    for watch in [&pools.ours, &pools.alone] {
        watch.wait_until(
            "the node whose workers are taken has less weight",
            is_stressed,
        )?;
    }
    std::thread::sleep(APART);
    let all = take(FULL, TAKEN_ALL)?;
    let are_stale = |look: &Look| is_stressed(look) && !look.servers[FULL].is_in();
    for watch in [&pools.ours, &pools.alone] {
        watch.wait_until("the node that is full is out", are_stale)?;
    }
    let from = Instant::now();
    for node in &mut fleet.nodes {
        node.kill_tidegate()?;
    }
    // Nobody is left to say that they are well again.
    for node in &fleet.nodes {
        node.shop.free()?;
    }
    few.stop();
    all.stop();
    let right = pools
        .ours
        .wait_until("what dead agents said last is put right", |look| {
            left(look, 100) == 0
        })?;
    let after = right.saturating_duration_since(from).as_secs_f64() * 1_000.0;
    verdict
        .add(Figure::ms("agents killed: weights are right after", after).at_most(RIGHT_WITHIN_MS));
    std::thread::sleep(STALE_FOR);
    Ok(Fault {
        what: "agents killed",
        from: right,
        to: Instant::now(),
    })
}

/// Nodes that are out, or have another weight than `weight`.
fn left(look: &Look, weight: u32) -> usize {
    let all = look.servers.iter();
    all.filter(|server| !server.is_in() || server.weight != weight)
        .count()
}

/// Nodes that are out.
fn out(look: &Look) -> usize {
    look.servers.iter().filter(|server| !server.is_in()).count()
}

impl Pools {
    /// Two HAProxies before the Tomcats of `fleet`, with its agents; one of them is looked after, and the other one has
    /// a second pool, which goes by whether agents are there.
    fn start(fleet: &Fleet, args: &Args) -> anyhow::Result<Self> {
        let beside = |name| Servers::new(name, "roundrobin", Way::Beside);
        let ours = Front::start(fleet, &[beside("nodes")])?;
        let usual = Servers::new("usual", "roundrobin", Way::Monitoring);
        let alone = Front::start(fleet, &[beside("nodes"), usual])?;
        let keeper = Gateway::start(&GatewaySetup::new(format!(
            "[[app]]\nupstream = \"http://127.0.0.1:1\"\n[[balancer.haproxy]]\nsocket = \"unix:{}\"\nbackends = [\"nodes\"]\n",
            ours.haproxy.socket().display()
        )))?;
        let watch = |front: &Front, backend| Watch::start(front.haproxy.clone(), backend, None);
        let length = args.length(SECONDS);
        let visit = |front: &Front, at| {
            send(
                front.address(at),
                vec![Kind::get("visitor", "/page.jsp")],
                RATE,
                length,
            )
        };
        Ok(Self {
            keeper,
            ours: watch(&ours, "nodes")?,
            alone: watch(&alone, "nodes")?,
            usual: watch(&alone, "usual")?,
            visitors: [visit(&ours, 0)?, visit(&alone, 1)?],
            begun: Instant::now(),
            _fronts: [ours, alone],
        })
    }

    /// What was seen during each of `faults`; the last one was that all agents are killed.
    fn report(self, verdict: &mut Verdict, faults: &[Fault], right: Instant) -> anyhow::Result<()> {
        let [ours, usual] = self.visitors.map(Run::join);
        let (ours, usual) = (ours?, usual?);
        let (looks, alone) = (self.ours.finish()?, self.alone.finish()?);
        let usually = self.usual.finish()?;
        for fault in faults {
            let within = |look: &&Look| (fault.from..=fault.to).contains(&look.at);
            let most = |looks: &[Look]| looks.iter().filter(within).map(out).max();
            let most = |looks: &[Look]| most(looks).map_or(f64::NAN, |most| most as f64);
            verdict.add(
                Figure::count(
                    format!("{}: nodes out of the pool, at most", fault.what),
                    most(&looks),
                )
                .exactly(0.0)
                .beside("where a node is in as long as its agent is", most(&usually)),
            );
        }
        let later = alone.iter().filter(|look| look.at >= right);
        let (all, wrong) = later.fold((0, 0), |(all, wrong), look| {
            (all + 1, wrong + usize::from(left(look, 100) > 0))
        });
        verdict.add(
            Figure::share(
                "of the time after that in which weights are wrong where nobody puts them right",
                wrong as f64 / all as f64,
            )
            .exactly(1.0),
        );
        let second = |at: Instant| at.saturating_duration_since(self.begun).as_secs() as usize;
        let errors = |report: &Report| {
            let mut all = Tally::default();
            for fault in faults {
                all += report.sum(second(fault.from)..second(fault.to), |_| true);
            }
            1.0 - all.good_share()
        };
        verdict.add(
            Figure::share(
                "visitors without an answer in time, during all that",
                errors(&ours),
            )
            .below(ERRORS_MAX)
            .beside("where a node is in as long as its agent is", errors(&usual)),
        );
        self.keeper.stop()
    }
}
