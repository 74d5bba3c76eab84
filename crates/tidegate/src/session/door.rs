//! The way to sessions and nodes: a running sidecar, or the store itself.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;
use tidegate_fleet::{Listen, PermitDoor, Sidecar, SidecarPlan};
use tidegate_store::desk::Desk;

use super::Place;
use crate::client;
use crate::config::{Flags, Setup};
use crate::run::{self, Nodes};

/// How long connections to the store may take to come up.
const STORE_PATIENCE: Duration = Duration::from_secs(5);
/// How often it is asked again meanwhile.
const STORE_PAUSE: Duration = Duration::from_millis(50);
/// How long an operation may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The way to sessions and nodes.
pub(crate) struct Door {
    to: Listen,
    /// A sidecar of our own before the store, where there is no other.
    own: Option<Own>,
}

/// A sidecar in this process.
struct Own {
    _sidecar: Sidecar,
    _folder: Folder,
    _nodes: Option<Nodes>,
}

/// A folder that nobody else can enter, and that goes with us.
struct Folder(PathBuf);

impl Door {
    /// The way to sessions that `place` says.
    pub(super) fn open(place: &Place) -> anyhow::Result<Self> {
        if let Some(text) = &place.sidecar {
            return Self::at(address(text)?);
        }
        let (file, setup) = configured(place)?;
        if setup.sessions.is_none() {
            bail!("{} has no section [sessions]", file.display());
        }
        if let Some(listen) = running(&setup) {
            return Self::at(listen);
        }
        Self::into_store(setup).with_context(|| {
            "no sidecar is running, and the store itself cannot be opened (a running gateway has the file of \
             an embedded store: ask it through its [sidecar])"
        })
    }

    /// The way to nodes that `place` says.
    pub(crate) fn to_nodes(place: &Place) -> anyhow::Result<Self> {
        if let Some(text) = &place.sidecar {
            return Self::at(address(text)?);
        }
        let (file, setup) = configured(place)?;
        if let Some(listen) = running(&setup) {
            return Self::at(listen);
        }
        let nodes = run::start_nodes(&setup)?.with_context(|| {
            format!(
                "no sidecar is running, and {} has no servers in [store]: without them a fleet is one process, which \
                 only its [sidecar] can tell of",
                file.display()
            )
        })?;
        Self::own(setup, None, Some(nodes))
    }

    const fn at(to: Listen) -> anyhow::Result<Self> {
        Ok(Self { to, own: None })
    }

    fn into_store(mut setup: Setup) -> anyhow::Result<Self> {
        let desk = run::start_desk(&mut setup)?;
        anyhow::ensure!(desk.is_some(), "there is no store to ask");
        Self::own(setup, desk.as_ref(), None)
    }

    fn own(mut setup: Setup, desk: Option<&Desk>, nodes: Option<Nodes>) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let to = Listen::Socket(folder.0.join("sidecar.sock"));
        setup.sidecar = Some(SidecarPlan {
            listen: to.clone(),
            connections_max: 4,
            requests_max: 4,
            body_bytes_max: 1024 * 1024,
            timeout: TIMEOUT,
        });
        let fleet = nodes.as_ref().map(|nodes| nodes.fleet.clone());
        let sidecar = run::start_sidecar(&setup, desk, &PermitDoor::default(), fleet)?;
        let sidecar = sidecar.context("there is no store to ask")?;
        Ok(Self {
            to,
            own: Some(Own {
                _sidecar: sidecar,
                _folder: folder,
                _nodes: nodes,
            }),
        })
    }

    /// The answer to a request, if it is a good one; else an error in the words of the sidecar.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let begun = Instant::now();
        let body = body.map(ToString::to_string);
        loop {
            let answer = client::ask("sidecar", &self.to, method, path, body.as_deref())?;
            let said: Value = serde_json::from_slice(&answer.body)
                .context("what answers is no sidecar: it does not say JSON")?;
            if answer.status < 300 {
                return Ok(said);
            }
            // Our own connections may not be up yet.
            let is_new = self.own.is_some() && begun.elapsed() < STORE_PATIENCE;
            if is_new && said["reason"] == "store_away" {
                std::thread::sleep(STORE_PAUSE);
                continue;
            }
            let detail = said["detail"].as_str().unwrap_or("no detail");
            let reason = said["reason"].as_str().unwrap_or("unknown");
            bail!("{detail} ({reason}, {})", answer.status);
        }
    }
}

/// The configuration that `place` names.
fn configured(place: &Place) -> anyhow::Result<(&Path, Setup)> {
    let file = place.config.as_deref();
    let file = file.context("name a configuration file with -c, or a sidecar with --sidecar")?;
    Ok((file, crate::load(Some(file), &Flags::default())?))
}

/// Where the sidecar of `setup` listens, if it runs.
fn running(setup: &Setup) -> Option<Listen> {
    let listen = &setup.sidecar.as_ref()?.listen;
    let answer = client::ask("sidecar", listen, "GET", "/v1/openapi.json", None);
    answer.is_ok().then(|| listen.clone())
}

fn address(text: &str) -> anyhow::Result<Listen> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Listen::Socket(PathBuf::from(path)));
    }
    let address: SocketAddr = text.parse().with_context(|| {
        format!(
            "\"{text}\" is no sidecar: write unix:/run/tidegate/sidecar.sock or 127.0.0.1:9091, say"
        )
    })?;
    Ok(Listen::Loopback(address))
}

impl Folder {
    fn new() -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;

        let name = format!("tidegate-session-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
