//! No node is load-bearing: two nodes behind a balancer, one of which dies in the middle of the
//! traffic, and another one that joins. Beside it the usual practice: sessions in the application's
//! memory, and a cookie by which the balancer finds the node that has them.

use std::time::Duration;

use tidegate_lab::report::Table;

use crate::harness::{
    Args, Balancer, BalancerSetup, Crowd, CrowdPlan, Drill, Figure, Fleet, HEALTH, Keeps, Loss,
    Node, SessionSettings, Verdict, Visits, until_valid, visitors,
};

const RATE: f64 = 500.0;
const VISITORS: usize = 400;
const PATIENCE: Duration = Duration::from_secs(5);
/// Before the node is killed: everybody has signed in by then.
const BEFORE: Duration = Duration::from_secs(8);
/// With one node.
const ALONE: Duration = Duration::from_secs(4);
/// With the added node.
const AFTER: Duration = Duration::from_secs(8);
/// The time from the added node's first request over which its part is looked at.
const SHARE_SPAN: Duration = Duration::from_secs(2);
/// The part that it must have; a half is due to it.
const SHARE_MIN: f64 = 0.45;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-node-kill",
    promise: "a node killed with -9 under 500 requests a second takes no login and no cart along",
    takes: Duration::from_secs(50),
    run,
};

/// What became of the visitors in one of the two arrangements.
struct Told {
    visits: Visits,
    /// When the node was killed.
    killed: Duration,
    /// When the balancer sent requests to the added node.
    joined: Duration,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let heap = play(true, &|name| Node::start(name, Keeps::InHeap))?;
    show(
        &verdict,
        "in the application's memory, sticky cookie",
        &heap,
    );
    let fleet = Fleet::start()?;
    let settings = SessionSettings::default();
    let ours = until_valid(args, || play(false, &|name| fleet.node(name, &settings)))?;
    show(&verdict, "in Tidegate", &ours);

    let losers = |told: &Told, what| told.visits.losers(what) as f64;
    for (what, loss) in [
        ("a login", Loss::Login),
        ("a cart", Loss::Cart),
        ("a count", Loss::Count),
    ] {
        verdict.add(
            Figure::count(
                format!("of {VISITORS} visitors, lost {what}"),
                losers(&ours, loss),
            )
            .exactly(0.0)
            .beside("heap and sticky cookie", losers(&heap, loss)),
        );
    }
    verdict.add(
        Figure::share("the added node's part at once", ours.share_joined())
            .at_least(SHARE_MIN)
            .beside("heap and sticky cookie", heap.share_joined()),
    );
    verdict.add(
        Figure::count("requests that failed", ours.visits.errors() as f64)
            .beside("heap and sticky cookie", heap.visits.errors() as f64),
    );
    Ok(verdict)
}

impl Told {
    /// The added node's part of the answers in the time just after it joined.
    fn share_joined(&self) -> f64 {
        self.visits
            .share_of("third", self.joined, self.joined + SHARE_SPAN)
    }
}

/// Kills one node of two, adds one, and says what the visitors saw.
fn play(sticky: bool, start: &dyn Fn(&str) -> anyhow::Result<Node>) -> anyhow::Result<Told> {
    let stays = start("first")?;
    let dies = start("second")?;
    let mut setup = BalancerSetup::new(vec![stays.entry(), dies.entry()], HEALTH);
    if sticky {
        setup = setup.sticky();
    }
    let balancer = Balancer::start(&setup)?;
    let crowd = Crowd::start(
        visitors(VISITORS),
        CrowdPlan {
            target: balancer.address(),
            rate: RATE,
            length: BEFORE + ALONE + AFTER,
            patience: PATIENCE,
        },
    )?;

    crowd.wait_until(BEFORE);
    let killed = crowd.elapsed();
    dies.kill()?;
    balancer.wait_until_out("second")?;
    crowd.wait_until(BEFORE + ALONE);
    let added = start("third")?;
    let place = balancer.add(0, added.address())?;
    balancer.wait_until_well(&place)?;
    let joined = crowd.elapsed();
    let (_, visits) = crowd.join()?;
    Fleet::ensure_never_away([&stays, &added])?;
    Ok(Told {
        visits,
        killed,
        joined,
    })
}

fn show(verdict: &Verdict, what: &str, told: &Told) {
    let visits = &told.visits;
    let mut table = Table::new(["second", "answers", "errors", "first", "second", "third"]);
    let seconds = (BEFORE + ALONE + AFTER).as_secs();
    for second in 0..seconds {
        let (from, to) = (Duration::from_secs(second), Duration::from_secs(second + 1));
        let within = |at: Duration| (from..to).contains(&at);
        let answers = visits.count(|visit| within(visit.at) && visit.is_answered());
        let errors = visits.count(|visit| within(visit.at) && !visit.is_answered());
        let share = |name| format!("{:.0} %", 100.0 * visits.share_of(name, from, to));
        table.row([
            second.to_string(),
            answers.to_string(),
            errors.to_string(),
            share("first"),
            share("second"),
            share("third"),
        ]);
    }
    verdict.say(format!(
        "sessions {what}: killed at {:.1} s, another joined at {:.1} s",
        told.killed.as_secs_f64(),
        told.joined.as_secs_f64()
    ));
    verdict.table(&table);
    let took = |from, to| visits.took(0.99, from, to).as_secs_f64() * 1_000.0;
    verdict.say(format!(
        "99 % of answers within {:.1} ms before, {:.1} ms in the second after; begun late by {:.1} \
         ms at most (99 %), left out {}",
        took(Duration::ZERO, told.killed),
        took(told.killed, told.killed + Duration::from_secs(1)),
        visits.lag_p99.as_secs_f64() * 1_000.0,
        visits.left_out,
    ));
    verdict.say(format!(
        "lost a login {}, a cart {}, a count {}",
        visits.losers(Loss::Login),
        visits.losers(Loss::Cart),
        visits.losers(Loss::Count),
    ));
}
