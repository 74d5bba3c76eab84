//! What a node gets of HAProxy's traffic when its agent says so many percent.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tidegate_fleet::balancer::{AgentCheck, AgentCheckPlan};
use tidegate_http::verdict::{Board, State, Verdict as Said};
use tidegate_lab::peers::{Haproxy, free_port};

use super::written;
use crate::harness::{Drive, Figure, TempDir, Verdict, binary, loopback, wait_for};

/// Longer than the drill.
const LEASE: Duration = Duration::from_secs(7_200);
/// Requests of each look, on one connection.
const REQUESTS: u64 = 1_000;
/// What a share may be off by, in requests.
const OFF_MAX: f64 = 2.0;
/// What the agent says, and what the node gets then of 1,000 requests beside one that says nothing.
const SHARES: [(u8, f64); 5] = [(50, 333.0), (25, 200.0), (10, 91.0), (1, 10.0), (0, 0.0)];

/// A HAProxy before two nodes of its own, the first of which has an agent that says what `board` has.
struct Site {
    haproxy: Haproxy,
    /// Its sections.
    text: String,
    board: Arc<Board>,
    front: u16,
    _agent: AgentCheck,
}

/// Two servers of weight 100: 50 % is a third of all, not a half.
pub(super) fn of_percent(verdict: &mut Verdict) -> anyhow::Result<()> {
    let site = Site::start(100)?;
    for (percent, expected) in SHARES {
        site.says(percent);
        wait_for("HAProxy has heard it", || {
            // A weight of 0 says that it leaves: 0% alone would be what a node of weight 1 has at 75%.
            Ok(match percent {
                0 => site
                    .haproxy
                    .stat("nodes", "a", "status")?
                    .starts_with("DRAIN"),
                _ => site.haproxy.stat("nodes", "a", "uweight")? == percent.to_string(),
            })
        })?;
        let got = site.share()?;
        verdict.add(
            Figure::count(
                format!("of 1,000 requests at {percent}%: off by"),
                (got - expected).abs(),
            )
            .at_most(OFF_MAX)
            .beside("got", got)
            .beside("expected", expected),
        );
    }
    Ok(())
}

/// Two servers of weight 1, which is what they have when nothing is written: 75 % of 1 is 0.
pub(super) fn of_weight_one(verdict: &mut Verdict) -> anyhow::Result<()> {
    let site = Site::start(1)?;
    site.says(75);
    wait_for("HAProxy has heard it", || {
        Ok(site.haproxy.stat("nodes", "a", "uweight")? == "0")
    })?;
    let up = site.haproxy.stat("nodes", "a", "status")? == "UP";
    let got = site.share()?;
    verdict.add(Figure::count("of 1,000 requests at 75% of the weight 1", got).exactly(0.0));
    verdict
        .add(Figure::count("and HAProxy still calls it UP", f64::from(u8::from(up))).exactly(1.0));
    let dir = TempDir::new()?;
    let file = written(&dir, "haproxy.cfg", &site.text)?;
    let lint = Command::new(binary()?)
        .args(["lint-lb", "--from", "haproxy", "--json"])
        .arg(&file)
        .output()?;
    let named = String::from_utf8_lossy(&lint.stdout).contains("small-weight");
    verdict.add(
        Figure::count(
            "exit code of tidegate lint-lb for it",
            lint.status.code().map_or(f64::NAN, f64::from),
        )
        .exactly(1.0)
        .beside("the weight is named", f64::from(u8::from(named))),
    );
    Ok(())
}

impl Site {
    fn start(weight: u32) -> anyhow::Result<Self> {
        let board = Arc::new(Board::default());
        board.post(Said::UNKNOWN, LEASE);
        let (front, node) = (free_port()?, free_port()?);
        let plan = AgentCheckPlan {
            listen: loopback(free_port()?),
            connections_max: 16,
            interval: Duration::from_secs(1),
            maxconn: None,
        };
        // What listens belongs to the thread that the check has for itself.
        let agent = AgentCheck::start(&plan, Arc::clone(&board))?;
        let written = if weight == 1 {
            String::new()
        } else {
            format!(" weight {weight}")
        };
        let text = format!(
            "frontend node\n bind 127.0.0.1:{node}\n http-request return status 200\n\
             frontend front\n bind 127.0.0.1:{front}\n default_backend nodes\n\
             backend nodes\n balance roundrobin\n\
             \x20server a 127.0.0.1:{node}{written} check inter 1s agent-check agent-port {} agent-inter 200ms\n\
             \x20server b 127.0.0.1:{node}{written} check inter 1s\n",
            agent.address().port()
        );
        let haproxy = Haproxy::start(&text)?;
        wait_for("both nodes are up", || {
            Ok(haproxy.stat("nodes", "a", "status")? == "UP"
                && haproxy.stat("nodes", "b", "status")? == "UP")
        })?;
        Ok(Self {
            haproxy,
            text,
            board,
            front,
            _agent: agent,
        })
    }

    fn says(&self, percent: u8) {
        let said = Said {
            state: State::Stressed,
            weight: percent,
            drain: percent == 0,
            ..Said::UNKNOWN
        };
        self.board.post(said, LEASE);
    }

    /// What the first of the two gets of the next 1,000 requests.
    fn share(&self) -> anyhow::Result<f64> {
        let had = |name: &str| -> anyhow::Result<f64> {
            Ok(self.haproxy.stat("nodes", name, "stot")?.parse()?)
        };
        let before = had("a")?;
        let beside = had("b")?;
        let sent = Drive::times(loopback(self.front), "/", REQUESTS)?;
        let (got, others) = (had("a")? - before, had("b")? - beside);
        anyhow::ensure!(
            got + others == sent as f64,
            "{got} and {others} are not {sent}"
        );
        Ok(got)
    }
}
