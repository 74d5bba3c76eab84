//! HAProxy's runtime API: what its servers hold, and the commands that put it right.
//!
//! HAProxy is fail-static: what an agent said last holds for ever, also when the agent is dead. Somebody has to notice, and to
//! say over the command line what the agent no longer can.

mod commands;
mod observed;
mod plan;

use std::collections::HashMap;
use std::time::{Duration, Instant};

pub use commands::{CommandError, Commands, Socket};
pub use observed::{Agent, Server};
pub use plan::Op;

use super::adapter::{Adapter, Wanted};

/// The servers of some backends of one HAProxy.
#[derive(Debug)]
pub struct Haproxy {
    name: String,
    commands: Commands,
    backends: Vec<String>,
    lease: Duration,
    /// Since when the agents of servers, by backend and server, do not answer.
    silent: HashMap<(String, String), Instant>,
}

impl Haproxy {
    /// What is at `socket`, as far as `backends` go; a server is called as its node is. An agent that was not heard for `lease`
    /// counts as dead.
    pub fn new(socket: Socket, backends: Vec<String>, lease: Duration) -> Self {
        Self {
            name: format!("haproxy {socket}"),
            commands: Commands::new(socket),
            backends,
            lease,
            silent: HashMap::new(),
        }
    }

    /// What `server` says of its agent, with what was seen of it before.
    fn aged(&mut self, server: &Server, now: Instant) -> Agent {
        let key = (server.backend.clone(), server.name.clone());
        if server.agent != Agent::Quiet {
            self.silent.remove(&key);
            return server.agent;
        }
        let since = *self.silent.entry(key).or_insert(now);
        if now.duration_since(since) >= self.lease {
            Agent::Dead
        } else {
            Agent::Quiet
        }
    }
}

impl Adapter for Haproxy {
    type Observed = Vec<Server>;
    type Op = Op;
    type Error = CommandError;

    fn name(&self) -> &str {
        &self.name
    }

    fn observe(&mut self, now: Instant) -> Result<Vec<Server>, CommandError> {
        let mut all = Vec::new();
        for backend in self.backends.clone() {
            let stat = self.commands.ask(&format!("show stat {backend} 4 -1"))?;
            let state = self
                .commands
                .ask(&format!("show servers state {backend}"))?;
            all.extend(observed::servers(&stat, &state)?);
        }
        for server in &mut all {
            server.agent = self.aged(server, now);
        }
        // Of servers that are gone nothing is remembered.
        self.silent.retain(|(backend, name), _| {
            all.iter()
                .any(|it| it.backend == *backend && it.name == *name)
        });
        Ok(all)
    }

    fn plan(&self, wanted: &[Wanted], observed: &Vec<Server>) -> Vec<Op> {
        plan::plan(wanted, observed)
    }

    fn apply(&mut self, op: &Op) -> Result<(), CommandError> {
        self.commands.tell(&op.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> Server {
        Server {
            backend: "nodes".to_owned(),
            name: "a".to_owned(),
            is_maintained: false,
            is_drained: false,
            is_down_by_agent: false,
            agent: Agent::Quiet,
            weight: 25,
            initial_weight: 100,
        }
    }

    #[test]
    fn an_agent_is_dead_when_it_was_quiet_for_the_lease() {
        let socket = Socket::Unix("/nowhere".into());
        let mut haproxy = Haproxy::new(socket, Vec::new(), Duration::from_secs(3));
        let begun = Instant::now();
        let mut at =
            |millis, server: &Server| haproxy.aged(server, begun + Duration::from_millis(millis));
        let heard = Server {
            agent: Agent::Answers,
            ..quiet()
        };

        assert_eq!(at(0, &quiet()), Agent::Quiet);
        assert_eq!(at(2_999, &quiet()), Agent::Quiet);
        assert_eq!(at(3_000, &quiet()), Agent::Dead);
        assert_eq!(at(4_000, &heard), Agent::Answers);
        assert_eq!(at(5_000, &quiet()), Agent::Quiet);
    }
}
