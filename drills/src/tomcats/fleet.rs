//! Three nodes and their store.

use std::net::SocketAddr;
use std::thread;

use anyhow::Context as _;
use tidegate_lab::peers::{FaultProxy, RedisServer};

use super::shop::{Shop, WORKERS};
use crate::harness::{Gateway, GatewaySetup, TempDir, free_port};

/// Their names, here and in HAProxy.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The nodes and what they share. Dropping it stops all.
pub(crate) struct Fleet {
    /// The nodes.
    pub(crate) nodes: Vec<Node>,
    /// The way from all of them to their store.
    pub(crate) way: FaultProxy,
    /// The store.
    pub(crate) redis: RedisServer,
    /// Where the nodes look for the kernel's files. There are none: three nodes on one machine would see each other's
    /// processor time, and that of everything else which runs here.
    kernel: TempDir,
}

/// A Tomcat, and the Tidegate that looks at it.
pub(crate) struct Node {
    /// What it is called.
    pub(crate) name: &'static str,
    /// Its Tomcat.
    pub(crate) shop: Shop,
    /// Where HAProxy asks how it is.
    pub(crate) agent: SocketAddr,
    tidegate: Option<Gateway>,
}

impl Fleet {
    /// Starts everything. Each Tidegate has `environment`.
    pub(crate) fn start(environment: &[(&str, String)]) -> anyhow::Result<Self> {
        let redis = RedisServer::plain()?;
        let way = FaultProxy::start(redis.address())?;
        let shops: Vec<anyhow::Result<Shop>> = thread::scope(|scope| {
            let starts: Vec<_> = NAMES.iter().map(|_| scope.spawn(Shop::start)).collect();
            let shops = starts.into_iter().map(|start| start.join());
            shops
                .map(|shop| shop.unwrap_or_else(|_| anyhow::bail!("starting a Tomcat panicked")))
                .collect()
        });
        let mut fleet = Self {
            nodes: Vec::new(),
            way,
            redis,
            kernel: TempDir::new()?,
        };
        for (name, shop) in NAMES.into_iter().zip(shops) {
            let agent = SocketAddr::from(([127, 0, 0, 1], free_port()?));
            fleet.nodes.push(Node {
                name,
                shop: shop?,
                agent,
                tidegate: None,
            });
        }
        for at in 0..fleet.nodes.len() {
            fleet.start_tidegate(at, environment)?;
        }
        Ok(fleet)
    }

    /// Starts the Tidegate of the node at `at`, which has none.
    pub(crate) fn start_tidegate(
        &mut self,
        at: usize,
        environment: &[(&str, String)],
    ) -> anyhow::Result<()> {
        let setup = GatewaySetup::new(self.sections(&self.nodes[at]));
        self.nodes[at].tidegate = Some(Gateway::start_in(&setup, environment)?);
        Ok(())
    }

    /// The node whose Tidegate decides for all, if anybody does.
    pub(crate) fn leader(&self) -> anyhow::Result<Option<usize>> {
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(tidegate) = &node.tidegate else {
                continue;
            };
            if tidegate.metrics()?.sum("tidegate_leads", &[]) > 0.0 {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn sections(&self, node: &Node) -> String {
        let kernel = self.kernel.path().display();
        format!(
            "[store]\nurl = \"redis://{way}\"\n[fleet]\nnode = \"{name}\"\n\
             [agent]\nruntime = \"tomcat\"\nurl = \"http://{probe}/manager\"\nuser = \"probe\"\n\
             password_file = \"{password}\"\nlisten = [\"{shop}\"]\nproc_root = \"{kernel}\"\nsys_root = \"{kernel}\"\n\
             [balancer]\nagent_listen = \"{agent}\"\n\
             [[app]]\nname = \"shop\"\nupstream = \"http://{shop}\"\nworkers = {WORKERS}\n",
            way = self.way.address(),
            name = node.name,
            probe = node.shop.probe(),
            password = node.shop.password_file(),
            shop = node.shop.address(),
            agent = node.agent,
        )
    }
}

impl Node {
    /// Its Tidegate.
    pub(crate) fn tidegate(&self) -> anyhow::Result<&Gateway> {
        self.tidegate.as_ref().context("it was killed")
    }

    /// Kills its Tidegate as a crash does; its Tomcat stays.
    pub(crate) fn kill_tidegate(&mut self) -> anyhow::Result<()> {
        self.tidegate.take().map_or(Ok(()), Gateway::kill)
    }
}
