//! What drills stand on: real servers on free loopback ports, stopped by id whatever happens, and
//! figures that are held against bars.

mod args;
mod ask;
mod balancer;
pub(crate) mod clockwork;
mod crowd;
mod drive;
mod envoy;
mod fleet;
mod gateway;
mod jar;
pub(crate) mod limit_script;
mod limits;
mod metrics;
mod monitor;
mod node;
mod peer;
pub(crate) mod php;
mod place;
mod play;
mod postgres;
mod probe;
pub(crate) mod session_server;
mod shop;
pub(crate) mod site;
mod store;
mod tomcat;
mod verdict;
mod visitor;
mod wait;
mod watched;

pub(crate) use args::Args;
pub(crate) use ask::ask;
pub(crate) use balancer::{Balancer, BalancerSetup, HEALTH};
pub(crate) use crowd::{Crowd, CrowdPlan, Visits, visitors};
pub(crate) use drive::Drive;
pub(crate) use envoy::EnvoySetup;
pub(crate) use fleet::{Fleet, SessionSettings};
pub(crate) use gateway::{Gateway, GatewaySetup, binary};
pub(crate) use jar::Jar;
pub(crate) use limits::{SharedLimits, come_of, send, send_all};
pub(crate) use metrics::Metrics;
pub(crate) use monitor::Monitor;
pub(crate) use node::Node;
pub(crate) use peer::{Peer, PeerSetup, loopback, program};
pub(crate) use place::{Cores, TempDir, free_port};
pub(crate) use play::{Invalid, capacity, finish, play, play_watched, series, until_valid};
pub(crate) use postgres::{DRIVER, Postgres};
pub(crate) use probe::probe;
pub(crate) use shop::{ShopProcess, ShopSetup};
pub(crate) use site::{Blobs, Keeps, Known, Site};
pub(crate) use store::Store;
pub(crate) use tomcat::{HEALTH_PAGE, SLOW_PAGE, Tomcat, TomcatSetup, Viewer};
pub(crate) use verdict::{Figure, Verdict, say};
pub(crate) use visitor::{Loss, Step, Visitor};
pub(crate) use wait::{runtime, wait_for};
pub(crate) use watched::{Keys, Outlook, Seen, Watched};

use std::time::Duration;

/// One promise as a command.
pub(crate) struct Drill {
    /// What it is called by.
    pub(crate) name: &'static str,
    /// What it shows, in a line.
    pub(crate) promise: &'static str,
    /// About how long it takes with nothing set.
    pub(crate) takes: Duration,
    /// Does it.
    pub(crate) run: fn(&Args) -> anyhow::Result<Verdict>,
}
