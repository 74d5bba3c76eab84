//! HAProxy's runtime API: what its servers hold, and the commands that put it right.
//!
//! HAProxy is fail-static: what an agent said last holds for ever, also when the agent is dead. Somebody has to notice, and to
//! say over the command line what the agent no longer can.

mod commands;
mod observed;
mod plan;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

pub use commands::{CommandError, Commands, Socket};
pub use observed::{Agent, Server};
pub use plan::Op;

use self::commands::first_line;
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
    /// Backends of which nothing was known at the last look.
    unknown: HashSet<String>,
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
            unknown: HashSet::new(),
        }
    }

    /// The servers of `backend`.
    fn servers(&self, backend: &str) -> Result<Vec<Server>, CommandError> {
        let stat = self.commands.ask(&format!("show stat {backend} 4 -1"))?;
        let state = format!("show servers state {backend}");
        let state = self.commands.ask(&state)?;
        observed::servers(&stat, &state).map_err(|error| {
            // A table begins with its columns, and anything else is HAProxy's word for why there is none.
            let why = match first_line(&stat) {
                said if said.is_empty() || said.starts_with('#') => error.to_string(),
                said => format!("HAProxy says: {said}"),
            };
            CommandError::Backend {
                backend: backend.to_owned(),
                why,
            }
        })
    }

    /// Tells people of a backend that is not there, once, and again when it is.
    fn note(&mut self, backend: &str, unknown: Option<&CommandError>) {
        match unknown {
            Some(error) => {
                if self.unknown.insert(backend.to_owned()) {
                    tracing::warn!(balancer = self.name, %error, "the other backends are set all the same");
                }
            }
            None => {
                if self.unknown.remove(backend) {
                    tracing::info!(balancer = self.name, backend, "the backend is there again");
                }
            }
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

    /// What all backends hold that HAProxy knows. One that it does not know, since it was renamed or is misspelt, keeps nobody
    /// from looking after the others.
    ///
    /// # Errors
    ///
    /// When HAProxy does not answer, or knows none of the backends.
    fn observe(&mut self, now: Instant) -> Result<Vec<Server>, CommandError> {
        let (mut all, mut is_any_known, mut first) = (Vec::new(), false, None);
        for backend in self.backends.clone() {
            match self.servers(&backend) {
                Ok(servers) => {
                    self.note(&backend, None);
                    is_any_known = true;
                    all.extend(servers);
                }
                Err(error @ CommandError::Backend { .. }) => {
                    self.note(&backend, Some(&error));
                    first.get_or_insert(error);
                }
                // Who does not answer now does not for the next backend, and each would take as long.
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = first.filter(|_| !is_any_known) {
            return Err(error);
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
