//! What has to be said to HAProxy so that its servers are as they should be.
//!
//! One writer at a time: while the agent of a server answers, it sets the server, and nothing is said here that the agent would
//! contradict two seconds later. Where there is no agent, or a dead one, this does.

use std::collections::HashMap;
use std::fmt;

use tidegate_http::verdict::{Told, Verdict};

use super::super::adapter::Wanted;
use super::observed::{Agent, Server};

/// A change of one server; it reads as the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    backend: String,
    server: String,
    change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// So much of the initial weight, in percent.
    Weight(u32),
    /// It takes requests.
    Ready,
    /// It takes nothing new. What it has is finished.
    Drain,
    /// What a dead agent said is forgotten.
    AgentUp,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set server {}/{} ", self.backend, self.server)?;
        match self.change {
            Change::Weight(percent) => write!(f, "weight {percent}%"),
            Change::Ready => f.write_str("state ready"),
            Change::Drain => f.write_str("state drain"),
            Change::AgentUp => f.write_str("agent up"),
        }
    }
}

/// What has to change at `observed` so that it is as `wanted`.
pub(super) fn plan(wanted: &[Wanted], observed: &[Server]) -> Vec<Op> {
    let wanted: HashMap<&str, Told> = wanted
        .iter()
        .map(|it| (it.node.as_str(), it.told))
        .collect();
    let mut ops = Vec::new();
    for server in observed {
        // An operator who takes a server out has the last word.
        if server.is_maintained {
            continue;
        }
        let told = match (server.agent, wanted.get(server.name.as_str())) {
            (Agent::Answers | Agent::Quiet, _) => continue,
            (_, Some(told)) => *told,
            // What a dead agent said last is no opinion any more, and silence means healthy.
            (Agent::Dead, None) => Verdict::UNKNOWN.told(),
            (Agent::Absent, None) => continue,
        };
        let changes = changes(server, told);
        ops.extend(changes.into_iter().flatten().map(|change| Op {
            backend: server.backend.clone(),
            server: server.name.clone(),
            change,
        }));
    }
    ops
}

fn changes(server: &Server, told: Told) -> [Option<Change>; 3] {
    match told {
        // Down would do as well, but only an agent could undo it, and there is none that could.
        Told::Out | Told::Leave => [(!server.is_drained).then_some(Change::Drain), None, None],
        Told::Serve(percent) => {
            let percent = percent_of(server.initial_weight, percent.into());
            let is_off = weight_of(server.initial_weight, percent) != server.weight;
            [
                is_off.then_some(Change::Weight(percent)),
                server.is_drained.then_some(Change::Ready),
                // Last, so that it comes back with the right weight.
                server.is_down_by_agent.then_some(Change::AgentUp),
            ]
        }
    }
}

/// The percentage to be said for `percent`: of a small weight it is rounded down, and must not become nothing.
fn percent_of(initial_weight: u32, percent: u32) -> u32 {
    match initial_weight {
        // Whoever configures 0 wants 0.
        0 => percent,
        initial => percent.max(100_u32.div_ceil(initial)),
    }
}

/// What HAProxy makes of a percentage.
fn weight_of(initial_weight: u32, percent: u32) -> u32 {
    (initial_weight * percent / 100).min(256)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn server() -> Server {
        Server {
            backend: "nodes".to_owned(),
            name: "a".to_owned(),
            is_maintained: false,
            is_drained: false,
            is_down_by_agent: false,
            agent: Agent::Dead,
            weight: 100,
            initial_weight: 100,
        }
    }

    fn wanted(told: Told) -> Vec<Wanted> {
        vec![Wanted {
            node: "a".to_owned(),
            told,
        }]
    }

    fn lines(wanted: &[Wanted], server: &Server) -> Vec<String> {
        let ops = plan(wanted, std::slice::from_ref(server));
        ops.iter().map(ToString::to_string).collect()
    }

    /// What HAProxy makes of a command, as a real one does in the tests of the binary.
    fn apply(op: &Op, server: &mut Server) {
        match op.change {
            Change::Weight(percent) => server.weight = weight_of(server.initial_weight, percent),
            Change::Ready => server.is_drained = false,
            Change::Drain => server.is_drained = true,
            Change::AgentUp => server.is_down_by_agent = false,
        }
    }

    #[test]
    fn what_a_dead_agent_left_behind_is_put_right() {
        let stale = Server {
            weight: 25,
            is_down_by_agent: true,
            is_drained: true,
            ..server()
        };

        assert_eq!(
            lines(&[], &stale),
            [
                "set server nodes/a weight 100%",
                "set server nodes/a state ready",
                "set server nodes/a agent up"
            ]
        );
        assert!(lines(&[], &server()).is_empty());
    }

    #[test]
    fn an_agent_that_answers_is_not_contradicted() {
        for agent in [Agent::Answers, Agent::Quiet] {
            let answering = Server {
                agent,
                weight: 25,
                is_down_by_agent: true,
                ..server()
            };
            assert!(lines(&wanted(Told::Serve(100)), &answering).is_empty());
        }
    }

    #[test]
    fn a_server_without_an_agent_is_set_when_somebody_has_an_opinion() {
        let plain = Server {
            agent: Agent::Absent,
            weight: 7,
            ..server()
        };

        assert!(lines(&[], &plain).is_empty());
        assert_eq!(
            lines(&wanted(Told::Serve(40)), &plain),
            ["set server nodes/a weight 40%"]
        );
        for told in [Told::Out, Told::Leave] {
            assert_eq!(
                lines(&wanted(told), &plain),
                ["set server nodes/a state drain"]
            );
        }
    }

    #[test]
    fn maintenance_is_the_operators_own() {
        let maintained = Server {
            is_maintained: true,
            is_drained: true,
            weight: 1,
            ..server()
        };

        assert!(lines(&[], &maintained).is_empty());
    }

    #[test]
    fn a_small_weight_does_not_become_nothing() {
        let small = |initial_weight, weight| Server {
            initial_weight,
            weight,
            ..server()
        };
        let five = wanted(Told::Serve(5));

        assert_eq!(
            lines(&five, &small(1, 0)),
            ["set server nodes/a weight 100%"]
        );
        assert_eq!(
            lines(&five, &small(3, 3)),
            ["set server nodes/a weight 34%"]
        );
        assert!(lines(&five, &small(3, 1)).is_empty());
        assert!(lines(&five, &small(0, 0)).is_empty());
    }

    /// A server called `name` in any state.
    fn any_server(name: usize) -> impl Strategy<Value = Server> {
        let agents = [Agent::Absent, Agent::Answers, Agent::Quiet, Agent::Dead];
        (
            any::<[bool; 3]>(),
            0..agents.len(),
            0..=256_u32,
            0..=256_u32,
        )
            .prop_map(move |(flags, agent, weight, initial_weight)| Server {
                backend: "nodes".to_owned(),
                name: format!("n{name}"),
                is_maintained: flags[0],
                is_drained: flags[1],
                is_down_by_agent: flags[2],
                agent: agents[agent],
                weight,
                initial_weight,
            })
    }

    /// What somebody wants of a node called `name`, or that nobody has an opinion.
    fn any_wish(name: usize) -> impl Strategy<Value = Option<Wanted>> {
        (0..4_u8, 1..=100_u8).prop_map(move |(kind, weight)| {
            let told = match kind {
                0 => Told::Serve(weight),
                1 => Told::Out,
                2 => Told::Leave,
                _ => return None,
            };
            Some(Wanted {
                node: format!("n{name}"),
                told,
            })
        })
    }

    proptest! {
        #[test]
        fn a_plan_that_was_applied_leaves_nothing_to_plan(
            mut observed in [any_server(0), any_server(1), any_server(2)],
            wishes in [any_wish(0), any_wish(1), any_wish(2)],
        ) {
            let wanted: Vec<Wanted> = wishes.iter().flatten().cloned().collect();

            for op in plan(&wanted, &observed) {
                let server = observed.iter_mut().find(|it| it.name == op.server);
                apply(&op, server.expect("a plan is about what was observed"));
            }

            prop_assert_eq!(plan(&wanted, &observed), Vec::new());
            for (server, wish) in observed.iter().zip(&wishes) {
                let serves = wish.as_ref().is_some_and(|it| matches!(it.told, Told::Serve(_)));
                let is_ours = [Agent::Absent, Agent::Dead].contains(&server.agent);
                if serves && is_ours && !server.is_maintained {
                    prop_assert!(!server.is_drained && !server.is_down_by_agent);
                    prop_assert!(server.weight > 0 || server.initial_weight == 0);
                }
            }
        }
    }
}
