//! What tells load balancers about this node, and keeps them as they should be.

use std::sync::Arc;

use anyhow::Context;
use tidegate_fleet::balancer::haproxy::Haproxy;
use tidegate_fleet::balancer::{AgentCheck, AgentCheckTally, ReconcileTally, Reconciler};
use tidegate_gateway::metrics::{Counted, CountedRow};
use tidegate_http::verdict::Board;

use crate::config::BalancerPlan;
use crate::control::Everybody;

/// All that runs for the sake of balancers.
pub(crate) struct Balancers {
    pub(crate) agent_check: Option<AgentCheck>,
    /// By the name of the balancer.
    reconcilers: Vec<(String, Reconciler)>,
}

/// Starts what `plan` asks for. Balancers that ask are told what hangs on `board`, and those that are set hold what
/// `everybody` says.
pub(crate) fn start(
    plan: &BalancerPlan,
    board: Arc<Board>,
    everybody: &Everybody,
) -> anyhow::Result<Balancers> {
    let agent_check = match &plan.agent_check {
        Some(plan) => {
            let listen = plan.listen;
            let agent = AgentCheck::start(plan, board);
            Some(agent.with_context(|| format!("cannot listen on {listen} for agent checks"))?)
        }
        None => None,
    };
    let mut reconcilers = Vec::new();
    for haproxy in &plan.haproxies {
        let name = haproxy.socket.to_string();
        let adapter = Haproxy::new(
            haproxy.socket.clone(),
            haproxy.backends.clone(),
            haproxy.lease,
        );
        let everybody = everybody.clone();
        let desired = move || everybody.desired();
        // Of nodes that nobody has decided about, what dead agents have left behind is put right all the same.
        let reconciler = Reconciler::start(adapter, haproxy.interval, desired);
        let reconciler = reconciler.context("cannot start a thread for a balancer")?;
        reconcilers.push((name, reconciler));
    }
    Ok(Balancers {
        agent_check,
        reconcilers,
    })
}

impl Balancers {
    /// Tells the metrics, as often as it is asked.
    pub(crate) fn teller(&self) -> impl Fn() -> Vec<Counted> + Send + Sync + use<> {
        let agent = self.agent_check.as_ref().map(AgentCheck::teller);
        let reconcilers = self.reconcilers.iter();
        let reconcilers: Vec<_> = reconcilers
            .map(|(name, it)| (name.clone(), it.teller()))
            .collect();
        move || {
            let mut all = Vec::new();
            if let Some(agent) = &agent {
                all.push(agent_counts(agent()));
            }
            if !reconcilers.is_empty() {
                let tallies = reconcilers.iter();
                let tallies: Vec<_> = tallies
                    .map(|(name, tally)| (name.as_str(), tally()))
                    .collect();
                all.extend(reconciled(&tallies));
            }
            all
        }
    }

    /// Whether any balancer is told of all nodes.
    pub(crate) const fn tells_of_all(&self) -> bool {
        !self.reconcilers.is_empty()
    }

    /// Has the agent check say its last word. What is set elsewhere goes on until then.
    pub(crate) async fn leave(self) {
        if let Some(agent) = self.agent_check {
            agent.leave().await;
        }
    }
}

fn agent_counts(tally: AgentCheckTally) -> Counted {
    let row = |outcome: &str, count| (vec![("outcome", outcome.to_owned())], count);
    Counted {
        name: "tidegate_agent_checks",
        help: "Agent checks of balancers, by what became of them; those that crowded were told and not waited for",
        rows: vec![
            row("told", tally.told - tally.crowded.min(tally.told)),
            row("crowded", tally.crowded),
            row("failed", tally.failed),
        ],
    }
}

/// A row of what one balancer's reconciliation has counted: its result, if it has several, and how to read it.
type Row = (&'static str, fn(&ReconcileTally) -> u64);

/// The metrics of balancers that are set. They are named as they are configured.
fn reconciled(tallies: &[(&str, ReconcileTally)]) -> [Counted; 3] {
    [
        Counted {
            name: "tidegate_lb_looks",
            help: "Looks at what a balancer holds, by whether it could be asked",
            rows: rows(
                tallies,
                &[("ok", |it| it.looks - it.lost), ("lost", |it| it.lost)],
            ),
        },
        Counted {
            name: "tidegate_lb_apply",
            help: "Changes at a balancer, by what became of them; unsettled are those that did not show when it was read back",
            rows: rows(
                tallies,
                &[
                    ("ok", |it| it.applied),
                    ("refused", |it| it.refused),
                    ("unsettled", |it| it.unsettled),
                ],
            ),
        },
        Counted {
            name: "tidegate_lb_mismatch",
            help: "Things at a balancer that were not as wanted",
            rows: rows(tallies, &[("", |it| it.mismatches)]),
        },
    ]
}

fn rows(tallies: &[(&str, ReconcileTally)], of_each: &[Row]) -> Vec<CountedRow> {
    let pairs = tallies
        .iter()
        .flat_map(|tally| of_each.iter().map(move |row| (tally, row)));
    let row = |((name, tally), (result, count)): (&(&str, ReconcileTally), &Row)| {
        let mut labels = vec![("adapter", format!("haproxy {name}"))];
        if !result.is_empty() {
            labels.push(("result", (*result).to_owned()));
        }
        (labels, count(tally))
    };
    pairs.map(row).collect()
}
