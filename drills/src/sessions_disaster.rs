//! Everything at once: the store with all that is in it, one gateway of three, and the one that
//! leads. What holds is printed. Beside it the usual practices, each with what it depends on lost.

mod leader;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tidegate_lab::load::Request;
use tidegate_lab::report::Table;

use crate::harness::{
    Args, Balancer, BalancerSetup, Crowd, CrowdPlan, Drill, Figure, Fleet, HEALTH, Keeps, Loss,
    Node, SessionSettings, Verdict, Visitor, Visits, runtime, visitors,
};
use leader::{Candidate, Term};

const RATE: f64 = 300.0;
const VISITORS: usize = 300;
const PATIENCE: Duration = Duration::from_secs(5);
/// Visitors who had signed out, at each of two nodes.
const LEFT: u64 = 50;
/// Before it happens: everybody has signed in.
const BEFORE: Duration = Duration::from_secs(8);
/// Without a store.
const WITHOUT: Duration = Duration::from_secs(6);
/// With an empty one.
const AFTER: Duration = Duration::from_secs(10);
/// Requests that were inside what died, or on the way there: a second's worth is far more.
const ERRORS_MAX: f64 = RATE;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-disaster",
    promise: "store, gateway and leader lost at once: what holds is printed, and logins do",
    takes: Duration::from_secs(90),
    run,
};

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let heap = in_heap()?;
    show(
        &verdict,
        "in the application's memory, sticky cookie",
        &heap,
    );
    let blob = as_blobs()?;
    show(&verdict, "as one value each in Redis", &blob);
    let ours = in_tidegate()?;
    show(&verdict, "in Tidegate", &ours.visits);

    for (what, loss, holds) in [
        ("logins", Loss::Login, true),
        ("carts", Loss::Cart, false),
        ("counters", Loss::Count, false),
    ] {
        let lost = |visits: &Visits| visits.losers(loss) as f64;
        let figure = Figure::count(
            format!("of {VISITORS} visitors, {what} lost"),
            lost(&ours.visits),
        )
        .beside("heap and sticky cookie", lost(&heap))
        .beside("one value each", lost(&blob));
        verdict.add(if holds { figure.exactly(0.0) } else { figure });
    }
    let errors = |visits: &Visits| visits.errors() as f64;
    verdict.add(
        Figure::count("requests that failed", errors(&ours.visits))
            .at_most(ERRORS_MAX)
            .beside("heap and sticky cookie", errors(&heap))
            .beside("one value each", errors(&blob)),
    );
    verdict.add(
        Figure::count(
            format!("of {LEFT} who had signed out at the node that stays, signed in again"),
            ours.back_here,
        )
        .exactly(0.0),
    );
    verdict.add(Figure::count(
        format!("of {LEFT} who had signed out at the node that died, signed in again"),
        ours.back_elsewhere,
    ));
    add_succession(&mut verdict, &ours.succession);
    Ok(verdict)
}

fn add_succession(verdict: &mut Verdict, succession: &Succession) {
    verdict.add(
        Figure::count(
            "leaders at a time, at most",
            if succession.overlap { 2.0 } else { 1.0 },
        )
        .exactly(1.0),
    );
    verdict.add(
        Figure::count(
            "fences that did not grow, with an empty store",
            f64::from(u8::from(!succession.fence_grew)),
        )
        .exactly(0.0),
    );
    verdict.add(Figure::ms(
        "without a leader",
        succession.nobody.as_secs_f64() * 1_000.0,
    ));
}

/// What became of the visitors, and of those who had signed out.
struct Told {
    visits: Visits,
    succession: Succession,
    back_here: f64,
    back_elsewhere: f64,
}

/// Who led after the leader was lost.
struct Succession {
    /// For how long nobody did.
    nobody: Duration,
    /// Whether two took themselves for the leader at the same time.
    overlap: bool,
    /// Whether the new fence is greater than the old one.
    fence_grew: bool,
}

impl Succession {
    fn of(before: &[Term], after: &[Term], lost_at: Instant) -> anyhow::Result<Self> {
        let old = before.last().context("nobody led before")?;
        let new = after.first().context("nobody led afterwards")?;
        Ok(Self {
            nobody: new.from.saturating_duration_since(lost_at),
            overlap: new.from < old.until,
            fence_grew: new.fence > old.fence,
        })
    }
}

fn in_tidegate() -> anyhow::Result<Told> {
    let mut fleet = Fleet::start()?;
    let settings = SessionSettings::default().with_affinity();
    let mut nodes = Vec::new();
    for name in ["first", "second", "third"] {
        nodes.push(fleet.node(name, &settings)?);
    }
    let entries = nodes.iter().map(Node::entry).collect();
    let balancer = Balancer::start(&BalancerSetup::new(entries, HEALTH).guided())?;
    let runtime = runtime()?;
    let left_here = runtime.block_on(leave(nodes[0].address(), "here"))?;
    let left_elsewhere = runtime.block_on(leave(nodes[1].address(), "elsewhere"))?;
    let leads = Candidate::start("second", fleet.address())?;
    leads.wait_until_it_leads()?;
    let waits = Candidate::start("first", fleet.address())?;
    let crowd = crowd(&balancer)?;

    crowd.wait_until(BEFORE);
    fleet.redis().kill()?;
    let lost_at = Instant::now();
    let first_terms = leads.lose()?;
    for node in nodes.drain(1..) {
        node.kill()?;
    }
    crowd.wait_until(BEFORE + WITHOUT);
    fleet.redis().restart()?;
    let (_, visits) = crowd.join()?;
    let target = nodes[0].address();
    Ok(Told {
        visits,
        succession: Succession::of(&first_terms, &waits.lose()?, lost_at)?,
        back_here: runtime.block_on(back(left_here, target))?,
        back_elsewhere: runtime.block_on(back(left_elsewhere, target))?,
    })
}

/// Two of three nodes die, which have the sessions of their visitors.
fn in_heap() -> anyhow::Result<Visits> {
    let mut nodes = Vec::new();
    for name in ["first", "second", "third"] {
        nodes.push(Node::start(name, Keeps::InHeap)?);
    }
    let entries = nodes.iter().map(Node::entry).collect();
    let balancer = Balancer::start(&BalancerSetup::new(entries, HEALTH).sticky())?;
    let crowd = crowd(&balancer)?;
    crowd.wait_until(BEFORE);
    for node in nodes.drain(1..) {
        node.kill()?;
    }
    Ok(crowd.join()?.1)
}

/// The same and the store, which has all sessions.
fn as_blobs() -> anyhow::Result<Visits> {
    let mut fleet = Fleet::start()?;
    let mut nodes = Vec::new();
    for name in ["first", "second", "third"] {
        nodes.push(Node::start(name, Keeps::AsBlob(fleet.address()))?);
    }
    let entries = nodes.iter().map(Node::entry).collect();
    let balancer = Balancer::start(&BalancerSetup::new(entries, HEALTH))?;
    let crowd = crowd(&balancer)?;
    crowd.wait_until(BEFORE);
    fleet.redis().kill()?;
    for node in nodes.drain(1..) {
        node.kill()?;
    }
    crowd.wait_until(BEFORE + WITHOUT);
    fleet.redis().restart()?;
    Ok(crowd.join()?.1)
}

fn crowd(balancer: &Balancer) -> anyhow::Result<Crowd> {
    Crowd::start(
        visitors(VISITORS),
        CrowdPlan {
            target: balancer.address(),
            rate: RATE,
            length: BEFORE + WITHOUT + AFTER,
            patience: PATIENCE,
        },
    )
}

/// Visitors who signed in and out again at `target`, with the cookies that they had in between.
async fn leave(target: SocketAddr, name: &str) -> anyhow::Result<Vec<Visitor>> {
    let mut left = Vec::new();
    for number in 0..LEFT {
        let mut visitor = Visitor::new(format!("{name}-{number}"), number);
        visitor.sign_in(target).await?;
        let old = visitor.jar.clone();
        visitor.known(target, Request::post("/sign-out", 0)).await?;
        visitor.jar = old;
        left.push(visitor);
    }
    Ok(left)
}

/// How many of them are taken for signed in.
async fn back(left: Vec<Visitor>, target: SocketAddr) -> anyhow::Result<f64> {
    let mut back = 0_u32;
    for mut visitor in left {
        back += u32::from(visitor.look(target).await?.uid.is_some());
    }
    Ok(f64::from(back))
}

fn show(verdict: &Verdict, what: &str, visits: &Visits) {
    let mut table = Table::new(["second", "answers", "errors", "99 % within"]);
    for second in 0..(BEFORE + WITHOUT + AFTER).as_secs() {
        let (from, to) = (Duration::from_secs(second), Duration::from_secs(second + 1));
        let within = |at: Duration| (from..to).contains(&at);
        let answers = visits.count(|visit| within(visit.at) && visit.is_answered());
        let errors = visits.count(|visit| within(visit.at) && !visit.is_answered());
        let took = visits.took(0.99, from, to).as_secs_f64() * 1_000.0;
        table.row([
            second.to_string(),
            answers.to_string(),
            errors.to_string(),
            format!("{took:.1} ms"),
        ]);
    }
    verdict.say(format!(
        "sessions {what}: all lost at {} s, an empty store again at {} s",
        BEFORE.as_secs(),
        (BEFORE + WITHOUT).as_secs()
    ));
    verdict.table(&table);
}
