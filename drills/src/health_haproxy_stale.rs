//! HAProxy is fail-static: what an agent said last holds for ever once the agent is dead. Two HAProxies with the same agents,
//! one of them looked after by a running Tidegate; the agents die, and both are watched.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_fleet::balancer::{AgentCheck, AgentCheckPlan};
use tidegate_http::verdict::{Binding, Board, State, Verdict as Said};
use tidegate_lab::peers::{Haproxy, free_port};

use crate::harness::{
    Args, Drill, Figure, Gateway, GatewaySetup, Verdict, loopback, runtime, wait_for,
};

/// Longer than the drill.
const LEASE: Duration = Duration::from_secs(7_200);
/// HAProxy's own default.
const INTERVAL: Duration = Duration::from_secs(2);
/// How often both are looked at.
const LOOK: Duration = Duration::from_millis(100);
const SECONDS: u64 = 60;
/// The lease of an agent and 5 s.
const RIGHT_WITHIN_MS: f64 = 8_000.0;

/// The drill.
pub(crate) const DRILL: Drill = Drill {
    name: "health-haproxy-stale",
    promise: "what dead agents said last, 25% and down, is put right at a real HAProxy within 8 s, and an agent that leaves says 100% first",
    takes: Duration::from_secs(75),
    run,
};

/// An agent, and what it says.
struct Agent {
    check: AgentCheck,
}

/// What one HAProxy showed while it was watched.
#[derive(Default)]
struct Watched {
    looks: u32,
    stale_looks: u32,
    /// When it was first right and stayed so.
    right_at: Option<Duration>,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    put_right(&mut verdict, args.length(SECONDS))?;
    verdict.add(farewell()?);
    Ok(verdict)
}

/// What two agents said last, and how long it holds at two HAProxies that are watched for `length`.
pub(crate) fn put_right(verdict: &mut Verdict, length: Duration) -> anyhow::Result<()> {
    let slow = Agent::start(&Said {
        state: State::Stressed,
        weight: 25,
        ..Said::UNKNOWN
    })?;
    let full = Agent::start(&Said {
        state: State::Saturated,
        binding: Some(Binding {
            dimension: "threads",
            used: 1.0,
        }),
        ..Said::UNKNOWN
    })?;
    let agents = [slow.address(), full.address()];
    let (ours, alone) = (balancer(agents)?, balancer(agents)?);
    for haproxy in [&ours, &alone] {
        wait_for("both agents were heard", || {
            Ok(slow_is_stale(haproxy)? && full_is_stale(haproxy)?)
        })?;
    }
    let keeper = Gateway::start(&GatewaySetup::new(format!(
        "[[app]]\nupstream = \"http://127.0.0.1:1\"\n[[balancer.haproxy]]\nsocket = \"unix:{}\"\nbackends = [\"nodes\"]\n",
        ours.socket().display()
    )))?;

    drop((slow, full));

    let begun = Instant::now();
    let mut watched: [Watched; 4] = Default::default();
    while begun.elapsed() < length {
        let looks = [
            slow_is_stale(&ours)?,
            full_is_stale(&ours)?,
            slow_is_stale(&alone)?,
            full_is_stale(&alone)?,
        ];
        for (watched, is_stale) in watched.iter_mut().zip(looks) {
            watched.look(begun.elapsed(), is_stale);
        }
        sleep(LOOK);
    }
    let [our_slow, our_full, slow_alone, full_alone] = watched;
    for (what, ours, alone) in [
        ("25% of a dead agent", our_slow, slow_alone),
        ("down of a dead agent", our_full, full_alone),
    ] {
        verdict.add(
            Figure::ms(format!("{what} is right after"), ours.right_ms()).at_most(RIGHT_WITHIN_MS),
        );
        verdict.add(
            Figure::share(
                format!("{what}, part of the time it was wrong without"),
                alone.stale(),
            )
            .exactly(1.0)
            .beside("with", ours.stale()),
        );
    }
    keeper.stop()
}

/// The weight that HAProxy has of an agent that leaves while it says 10%, right after its port closed.
pub(crate) fn farewell() -> anyhow::Result<Figure> {
    let agent = Agent::start(&Said {
        state: State::Stressed,
        weight: 10,
        ..Said::UNKNOWN
    })?;
    let haproxy = balancer([agent.address(); 2])?;
    wait_for("the agent was heard", || {
        Ok(haproxy.stat("nodes", "slow", "uweight")? == "10")
    })?;
    let address = agent.address();
    runtime()?.block_on(agent.check.leave());
    wait_for("the port is closed", || {
        Ok(std::net::TcpStream::connect(address).is_err())
    })?;
    let weight: f64 = haproxy.stat("nodes", "slow", "uweight")?.parse()?;
    let what = "weight when an agent that said 10% has left";
    Ok(Figure::count(what, weight).exactly(100.0))
}

/// An HAProxy before two nodes, which are frontends of its own, with these agents.
fn balancer([slow, full]: [SocketAddr; 2]) -> anyhow::Result<Haproxy> {
    let node = free_port()?;
    let every = INTERVAL.as_secs();
    let server = |name: &str, agent: SocketAddr| {
        format!(
            " server {name} 127.0.0.1:{node} weight 100 check inter 1s agent-check agent-port {} agent-inter {every}s\n",
            agent.port()
        )
    };
    let haproxy = Haproxy::start(&format!(
        "frontend node\n bind 127.0.0.1:{node}\n http-request return status 200\nbackend nodes\n{}{}",
        server("slow", slow),
        server("full", full)
    ))?;
    Ok(haproxy)
}

fn slow_is_stale(haproxy: &Haproxy) -> anyhow::Result<bool> {
    Ok(haproxy.stat("nodes", "slow", "uweight")? == "25")
}

fn full_is_stale(haproxy: &Haproxy) -> anyhow::Result<bool> {
    Ok(haproxy.stat("nodes", "full", "status")? == "DOWN (agent)")
}

impl Agent {
    fn start(said: &Said) -> anyhow::Result<Self> {
        let board = Arc::new(Board::default());
        board.post(said.clone(), LEASE);
        let plan = AgentCheckPlan {
            listen: loopback(free_port()?),
            connections_max: 16,
            interval: INTERVAL,
            maxconn: None,
        };
        Ok(Self {
            check: AgentCheck::start(&plan, board)?,
        })
    }

    fn address(&self) -> SocketAddr {
        self.check.address()
    }
}

impl Watched {
    fn look(&mut self, at: Duration, is_stale: bool) {
        self.looks += 1;
        if is_stale {
            self.stale_looks += 1;
            self.right_at = None;
        } else {
            self.right_at.get_or_insert(at);
        }
    }

    /// Not a number when it never was right.
    fn right_ms(&self) -> f64 {
        self.right_at
            .map_or(f64::NAN, |at| at.as_secs_f64() * 1_000.0)
    }

    fn stale(&self) -> f64 {
        f64::from(self.stale_looks) / f64::from(self.looks.max(1))
    }
}
