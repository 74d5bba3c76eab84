//! An HAProxy before two nodes, which are frontends of its own that answer with their names.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tidegate_fleet::balancer::{AgentCheck, AgentCheckPlan};
use tidegate_http::verdict::{Board, State, Verdict};
use tidegate_lab::patience;
use tidegate_lab::peers::{Haproxy, free_port};

/// How often HAProxy asks an agent.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// Longer than any test.
pub(crate) const LEASE: Duration = Duration::from_secs(600);

/// The balancer, and where it listens.
pub(crate) struct Site {
    pub(crate) haproxy: Haproxy,
    pub(crate) address: SocketAddr,
}

/// An agent on a port of its own, and what it tells.
pub(crate) struct Agent {
    pub(crate) check: AgentCheck,
    pub(crate) board: Arc<Board>,
}

impl Agent {
    pub(crate) fn start() -> Self {
        let board = Arc::new(Board::default());
        let plan = AgentCheckPlan {
            listen: ([127, 0, 0, 1], free_port().unwrap()).into(),
            connections_max: 8,
            interval: INTERVAL,
            maxconn: None,
        };
        let check = AgentCheck::start(&plan, board.clone()).unwrap();
        Self { check, board }
    }

    pub(crate) fn port(&self) -> u16 {
        self.check.address().port()
    }
}

impl Site {
    /// Node `a` has these settings beside its check, node `b` the weight 100 and no agent.
    pub(crate) fn start(a: &str) -> Self {
        let [front, first, second] = [(); 3].map(|()| free_port().unwrap());
        let sections = format!(
            "frontend clients\n bind 127.0.0.1:{front}\n default_backend nodes\n\
             frontend node_a\n bind 127.0.0.1:{first}\n http-request return status 200 content-type text/plain string a\n\
             frontend node_b\n bind 127.0.0.1:{second}\n http-request return status 200 content-type text/plain string b\n\
             backend nodes\n balance roundrobin\n option redispatch 1\n\
             \x20server a 127.0.0.1:{first} check inter 100ms {a}\n\
             \x20server b 127.0.0.1:{second} check inter 100ms weight 100\n"
        );
        Self {
            haproxy: Haproxy::start(&sections).unwrap(),
            address: ([127, 0, 0, 1], front).into(),
        }
    }

    /// The settings of node `a` with the weight 100 and this agent.
    pub(crate) fn with_agent(agent: &Agent) -> Self {
        let port = agent.port();
        let every = INTERVAL.as_millis();
        Self::start(&format!(
            "weight 100 agent-check agent-port {port} agent-inter {every}ms"
        ))
    }

    /// What HAProxy says of node `a`.
    pub(crate) fn says(&self, column: &str) -> String {
        self.haproxy.stat("nodes", "a", column).unwrap()
    }

    /// Waits until HAProxy says this of node `a`.
    pub(crate) async fn until(&self, column: &str, value: &str) {
        patience::until_so(&format!("{column} is {value}"), || {
            self.says(column) == value
        })
        .await;
    }

    /// How many of `requests` node `a` answers.
    pub(crate) fn share(&self, requests: usize) -> usize {
        let is_a = (0..requests).map(|_| self.ask() == "a");
        is_a.filter(|&is_a| is_a).count()
    }

    fn ask(&self) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        answer.rsplit("\r\n").next().unwrap().to_owned()
    }
}

pub(crate) fn stressed(weight: u8) -> Verdict {
    Verdict {
        state: State::Stressed,
        weight,
        ..Verdict::UNKNOWN
    }
}

pub(crate) fn saturated() -> Verdict {
    Verdict {
        state: State::Saturated,
        ..stressed(5)
    }
}
