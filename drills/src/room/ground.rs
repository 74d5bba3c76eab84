//! What gateways with a room have in common, and how each is configured.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use http::Method;
use serde_json::{Value, json};
use tidegate_lab::load::{Request, raw};
use tidegate_lab::peers::RedisServer;

use super::ROOM;
use crate::harness::{Gateway, GatewaySetup, Store, TempDir, binary, runtime, wait_for};

/// The store of gateways that show one line, and their keys.
pub(crate) struct Ground {
    redis: Option<RedisServer>,
    dir: TempDir,
}

/// How a gateway and its room differ from the usual ones.
#[derive(Clone, Debug)]
pub(crate) struct RoomSettings {
    /// Keys of `[[app]]`, and the tables below it.
    app: String,
    /// Keys of `[[room]]`; `None` for a gateway without one.
    room: Option<String>,
    /// Applications that come before it.
    before: String,
    /// Further sections.
    sections: String,
    /// Threads of the gateway.
    pub(crate) threads: u32,
    /// The core that the gateway is kept on.
    pub(crate) core: Option<usize>,
}

impl RoomSettings {
    /// A room in this phase, before an application that may have as many inside as it likes.
    pub(crate) fn phase(phase: &str) -> Self {
        Self {
            app: "workers = 1000\n".to_owned(),
            room: Some(format!("phase = \"{phase}\"\n")),
            before: String::new(),
            sections: String::new(),
            threads: 1,
            core: None,
        }
    }

    /// The same with so many visitors in a second, whatever is known of the fleet.
    #[must_use]
    pub(crate) fn rate(self, rate: &str) -> Self {
        self.with(&format!("rate_min = \"{rate}\"\nrate_max = \"{rate}\""))
    }

    /// The same with further lines in `[[room]]`.
    #[must_use]
    pub(crate) fn with(mut self, lines: &str) -> Self {
        if let Some(room) = &mut self.room {
            room.push_str(lines);
            room.push('\n');
        }
        self
    }

    /// The same with these lines in `[[app]]`, and tables below it, in place of those that were there.
    #[must_use]
    pub(crate) fn app(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.app);
        self
    }

    /// The same with an application of its own for what begins with `path`, outside the room.
    #[must_use]
    pub(crate) fn outside(mut self, name: &str, path: &str, upstream: SocketAddr) -> Self {
        // Writing to a String does not fail.
        let _ = write!(
            self.before,
            "[[app]]\nname = \"{name}\"\nupstream = \"http://{upstream}\"\npath_prefix = \"{path}\"\nworkers = 64\n\n"
        );
        self
    }

    /// The same with a further section.
    #[must_use]
    pub(crate) fn section(mut self, section: &str) -> Self {
        self.sections.push_str(section);
        self.sections.push('\n');
        self
    }

    /// The same without the room.
    #[must_use]
    pub(crate) fn without_room(mut self) -> Self {
        self.room = None;
        self
    }
}

impl Ground {
    /// For one gateway, which keeps the line itself.
    pub(crate) fn alone() -> anyhow::Result<Self> {
        Self::with(None)
    }

    /// For several, with a Redis that keeps nothing on disk.
    pub(crate) fn shared() -> anyhow::Result<Self> {
        Self::with(Some(RedisServer::plain()?))
    }

    fn with(redis: Option<RedisServer>) -> anyhow::Result<Self> {
        let dir = TempDir::new()?;
        for (name, args) in [
            ("room.jwks", ["room", "key"]),
            ("session.keys", ["session", "key"]),
        ] {
            let drawn = Command::new(binary()?).args(args).output()?;
            anyhow::ensure!(
                drawn.status.success(),
                "no key: {}",
                String::from_utf8_lossy(&drawn.stderr)
            );
            let path = dir.path().join(name);
            fs::write(&path, drawn.stdout)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        }
        Ok(Self { redis, dir })
    }

    /// Its store, to be looked at, frozen or killed.
    pub(crate) fn redis(&mut self) -> anyhow::Result<&mut RedisServer> {
        self.redis.as_mut().context("there is no Redis")
    }

    /// Where its store is.
    pub(crate) fn address(&self) -> anyhow::Result<SocketAddr> {
        let redis = self.redis.as_ref().context("there is no Redis")?;
        Ok(redis.address())
    }

    /// A look into its store.
    pub(crate) fn store(&self) -> anyhow::Result<Store> {
        Store::connect(self.address()?)
    }

    /// Starts a gateway called `node` before `upstream`, and waits until it knows its line.
    pub(crate) fn gateway(
        &self,
        node: &str,
        upstream: SocketAddr,
        settings: &RoomSettings,
    ) -> anyhow::Result<Gateway> {
        let mut setup = GatewaySetup::new(self.sections(node, upstream, settings)?);
        (setup.threads, setup.core) = (settings.threads, settings.core);
        let gateway = Gateway::start(&setup)?;
        if settings.room.is_some() {
            wait_for_line(&gateway)?;
        }
        Ok(gateway)
    }

    fn sections(
        &self,
        node: &str,
        upstream: SocketAddr,
        settings: &RoomSettings,
    ) -> anyhow::Result<String> {
        let file = |name: &str| -> anyhow::Result<String> {
            let path: PathBuf = self.dir.path().join(name);
            Ok(path.to_str().context("a path that is no text")?.to_owned())
        };
        let store = match &self.redis {
            Some(redis) => format!("url = \"redis://{}\"", redis.address()),
            None => format!("path = \"{}\"", file(&format!("state-{node}"))?),
        };
        let room = match &settings.room {
            Some(room) => format!(
                "[[room]]\nname = \"{ROOM}\"\napp = \"shop\"\nkey_file = \"{}\"\njoins_per_network = \"none\"\n{room}\n",
                file("room.jwks")?
            ),
            None => String::new(),
        };
        Ok(format!(
            "[store]\n{store}\n\n[fleet]\nnode = \"{node}\"\n\n[sessions]\nkey_file = \"{}\"\n\n\
             [[sessions.attribute]]\nname = \"cart\"\nexpose = true\n\n{}[[app]]\nname = \"shop\"\n\
             upstream = \"http://{upstream}\"\n{}\n{room}{}",
            file("session.keys")?,
            settings.before,
            settings.app,
            settings.sections,
        ))
    }

    /// The node that moves the line, and its right to do so.
    pub(crate) fn leader(store: &mut Store) -> anyhow::Result<Option<(String, u64)>> {
        let key = format!("tg:lead:{{room/{ROOM}}}");
        let (node, fence): (Option<String>, Option<u64>) =
            store.ask(&["HMGET", &key, "node", "fence"])?;
        Ok(node.zip(fence))
    }

    /// How many were called since the line began, or since the store forgot it.
    pub(crate) fn called(store: &mut Store) -> anyhow::Result<u64> {
        let key = format!("tg:r:{{room/{ROOM}}}");
        let called: Option<u64> = store.ask(&["HGET", &key, "released"])?;
        Ok(called.unwrap_or(0))
    }
}

/// Waits until `gateway` knows its line.
fn wait_for_line(gateway: &Gateway) -> anyhow::Result<()> {
    wait_for("the gateway knows its line", || {
        let told: Value = serde_json::from_slice(&gateway.told(&format!("/rooms/{ROOM}"))?)?;
        Ok(told["epoch"].is_u64() && told["leader"].is_string())
    })
}

/// Orders a phase, or with `None` the one that is configured, and waits until the gateway knows it.
pub(crate) fn set_phase(gateway: &Gateway, phase: Option<&str>) -> anyhow::Result<()> {
    order(
        gateway,
        Method::PUT,
        "phase",
        &json!({ "phase": phase, "by": "drill" }),
    )?;
    wait_for("the gateway knows the phase", || {
        let told: Value = serde_json::from_slice(&gateway.told(&format!("/rooms/{ROOM}"))?)?;
        Ok(match phase {
            Some(phase) => told["phase"] == phase,
            None => told["ordered"].is_null(),
        })
    })
}

/// Closes the room, and waits until the gateway knows it.
pub(crate) fn close(gateway: &Gateway) -> anyhow::Result<()> {
    order(
        gateway,
        Method::POST,
        "close",
        &json!({ "reason": "ended", "by": "drill" }),
    )?;
    wait_for("the gateway knows that the room is closed", || {
        let told: Value = serde_json::from_slice(&gateway.told(&format!("/rooms/{ROOM}"))?)?;
        Ok(told["phase"] == "closed")
    })
}

fn order(gateway: &Gateway, method: Method, what: &str, body: &Value) -> anyhow::Result<()> {
    let request = Request {
        method,
        headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
        body: serde_json::to_vec(body)?,
        ..Request::get(&format!("/rooms/{ROOM}/{what}"))
    };
    let answer = runtime()?.block_on(raw::ask(gateway.admin(), &request))?;
    anyhow::ensure!(
        answer.status.is_success(),
        "{what} {body} was not taken: {} {}",
        answer.status,
        String::from_utf8_lossy(&answer.body)
    );
    Ok(())
}
