//! Nodes that share a store: what all of them need, and how each is configured.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use anyhow::Context as _;
use tidegate_lab::peers::RedisServer;

use super::{Invalid, Keeps, Node, Store, TempDir, gateway};

/// The store of a fleet, and the keys that its gateways have in common.
pub(crate) struct Fleet {
    redis: RedisServer,
    dir: TempDir,
}

/// What is configured of sessions, besides where they are. `Default` is what holds when nothing is
/// said, but that no replica is waited for: a store of one server has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionSettings {
    /// Lines of `[[app]]`, and its tables.
    app: String,
    /// Lines of `[sessions]`.
    sessions: String,
    /// Attributes that are told to the application, besides cart and hits.
    exposed: Vec<String>,
    /// Further sections.
    sections: String,
    /// Whether the gateway leaves a cookie that leads the balancer back to it.
    affinity: bool,
}

impl SessionSettings {
    /// The same with one more line in `[sessions]`.
    #[must_use]
    pub(crate) fn with(mut self, line: &str) -> Self {
        self.sessions.push_str(line);
        self.sessions.push('\n');
        self
    }

    /// The same with these lines in `[[app]]`, or tables below it.
    #[must_use]
    pub(crate) fn app(mut self, lines: &str) -> Self {
        self.app.push_str(lines);
        self.app.push('\n');
        self
    }

    /// The same with one more section.
    #[must_use]
    pub(crate) fn section(mut self, section: &str) -> Self {
        self.sections.push_str(section);
        self.sections.push('\n');
        self
    }

    /// The same where the attribute called `name` is told to the application as well.
    #[must_use]
    pub(crate) fn exposing(mut self, name: &str) -> Self {
        self.exposed.push(name.to_owned());
        self
    }

    /// The same where a visitor is led back to the gateway that knows them.
    #[must_use]
    pub(crate) fn with_affinity(mut self) -> Self {
        self.affinity = true;
        self
    }

    fn sections(&self, node: &str, store: SocketAddr, key_file: &str) -> String {
        let affinity = if self.affinity {
            format!("affinity = \"{node}\"\n")
        } else {
            String::new()
        };
        let names = ["cart", "hits"].into_iter();
        let attributes: String = names
            .chain(self.exposed.iter().map(String::as_str))
            .map(|name| format!("\n[[sessions.attribute]]\nname = \"{name}\"\nexpose = true\n"))
            .collect();
        format!(
            "
[store]
url = \"redis://{store}\"

[sessions]
key_file = \"{key_file}\"
{affinity}{lines}
[sessions.durability]
sign-in = \"redo\"
sign-out = \"redo\"
{attributes}
{sections}",
            lines = self.sessions,
            sections = self.sections,
        )
    }
}

impl Fleet {
    /// Starts a Redis that keeps nothing on disk, and draws the keys.
    pub(crate) fn start() -> anyhow::Result<Self> {
        Self::with_store(RedisServer::plain()?)
    }

    /// The same with this Redis.
    pub(crate) fn with_store(redis: RedisServer) -> anyhow::Result<Self> {
        let dir = TempDir::new()?;
        let drawn = Command::new(gateway::binary()?)
            .args(["session", "key"])
            .output()?;
        anyhow::ensure!(
            drawn.status.success(),
            "no key: {}",
            String::from_utf8_lossy(&drawn.stderr)
        );
        fs::write(dir.path().join("keys"), drawn.stdout)?;
        Ok(Self { redis, dir })
    }

    /// Starts a node of it called `name`.
    pub(crate) fn node(&self, name: &str, settings: &SessionSettings) -> anyhow::Result<Node> {
        self.node_at(name, settings, self.address())
    }

    /// The same, which reaches the store at `store`: by way of a proxy, say.
    pub(crate) fn node_at(
        &self,
        name: &str,
        settings: &SessionSettings,
        store: SocketAddr,
    ) -> anyhow::Result<Node> {
        let key_file = self.dir.path().join("keys");
        let key_file = key_file.to_str().context("a path that is no text")?;
        let sections = settings.sections(name, store, key_file);
        Node::start_with(name, Keeps::InTidegate, &settings.app, &sections)
    }

    /// Says that the run is no result if one of `nodes` took the store for away, though nothing was
    /// done to it: then the machine was too busy to answer within the few milliseconds that count.
    pub(crate) fn ensure_never_away<'a>(
        nodes: impl IntoIterator<Item = &'a Node>,
    ) -> anyhow::Result<()> {
        let mut without = 0.0;
        for node in nodes {
            let metrics = node.metrics()?;
            for name in [
                "opened_degraded",
                "opened_away",
                "patch_degraded",
                "timed_out",
            ] {
                without += metrics.sum(&format!("tidegate_session_{name}_total"), &[]);
            }
        }
        if without == 0.0 {
            return Ok(());
        }
        let reason = format!("a store that was well did not answer in time for {without} requests");
        Err(Invalid(reason).into())
    }

    /// Where its store is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.redis.address()
    }

    /// Its store, to be frozen or killed.
    pub(crate) fn redis(&mut self) -> &mut RedisServer {
        &mut self.redis
    }

    /// A look into its store.
    pub(crate) fn store(&self) -> anyhow::Result<Store> {
        Store::connect(self.address())
    }
}
