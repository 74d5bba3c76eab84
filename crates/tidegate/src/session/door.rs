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
use crate::config::Setup;
use crate::run::{self, Nodes};

/// How long a sidecar may take to say that it is there.
const HELLO_PATIENCE: Duration = Duration::from_millis(500);
/// How often a store is asked again whose connections are not up yet.
const STORE_PAUSE: Duration = Duration::from_millis(50);

/// How long is waited for whoever is asked.
#[derive(Clone, Copy)]
struct Patience {
    /// For connections to the store to come up.
    store: Duration,
    /// For an operation of the store.
    operation: Duration,
    /// For an answer, all in all.
    answer: Duration,
}

/// For sessions: lists of them may be long.
const FOR_SESSIONS: Patience = Patience {
    store: Duration::from_secs(5),
    operation: Duration::from_secs(10),
    answer: Duration::from_secs(90),
};
/// For nodes: who asks in an incident has no time, and a store that does not answer by then is what they want to know. With
/// [`HELLO_PATIENCE`] it comes to two seconds.
const FOR_NODES: Patience = Patience {
    store: Duration::from_millis(1_400),
    operation: Duration::from_millis(1_000),
    answer: Duration::from_millis(1_400),
};

/// The way to sessions and nodes.
pub(crate) struct Door {
    to: Listen,
    patience: Patience,
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
            return Self::at(address(text)?, FOR_SESSIONS);
        }
        let (file, setup) = configured(place)?;
        if setup.sessions.is_none() {
            bail!("{} has no section [sessions]", file.display());
        }
        if let Some(listen) = running(&setup) {
            return Self::at(listen, FOR_SESSIONS);
        }
        Self::into_store(setup).with_context(|| {
            "no sidecar is running, and the store itself cannot be opened (a running gateway has the file of \
             an embedded store: ask it through its [sidecar])"
        })
    }

    /// The way to nodes that `place` says.
    pub(crate) fn to_nodes(place: &Place) -> anyhow::Result<Self> {
        if let Some(text) = &place.sidecar {
            return Self::at(address(text)?, FOR_NODES);
        }
        let (file, setup) = configured(place)?;
        if let Some(listen) = running(&setup) {
            return Self::at(listen, FOR_NODES);
        }
        let nodes = run::start_nodes(&setup)?.with_context(|| {
            format!(
                "no sidecar is running, and {} has no servers in [store]: without them a fleet is one process, which \
                 only its [sidecar] can tell of",
                file.display()
            )
        })?;
        Self::own(setup, None, Some(nodes), FOR_NODES)
    }

    const fn at(to: Listen, patience: Patience) -> anyhow::Result<Self> {
        Ok(Self {
            to,
            patience,
            own: None,
        })
    }

    fn into_store(mut setup: Setup) -> anyhow::Result<Self> {
        let desk = run::start_desk(&mut setup)?;
        anyhow::ensure!(desk.is_some(), "there is no store to ask");
        Self::own(setup, desk.as_ref(), None, FOR_SESSIONS)
    }

    fn own(
        mut setup: Setup,
        desk: Option<&Desk>,
        nodes: Option<Nodes>,
        patience: Patience,
    ) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let to = Listen::Socket(folder.0.join("sidecar.sock"));
        setup.sidecar = Some(SidecarPlan {
            listen: to.clone(),
            connections_max: 4,
            requests_max: 4,
            body_bytes_max: 1024 * 1024,
            timeout: patience.operation,
        });
        let fleet = nodes.as_ref().map(|nodes| nodes.fleet.clone());
        let sidecar = run::start_sidecar(&setup, desk, &PermitDoor::default(), fleet)?;
        let sidecar = sidecar.context("there is no store to ask")?;
        Ok(Self {
            to,
            patience,
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
            let left = self.patience.answer.saturating_sub(begun.elapsed());
            let asked = client::ask(left, "sidecar", &self.to, method, path, body.as_deref());
            let answer = match asked {
                // It is not the sidecar that is slow: it is ours.
                Err(_) if self.own.is_some() && begun.elapsed() >= self.patience.answer => {
                    bail!("{}", self.is_away())
                }
                asked => asked?,
            };
            let said: Value = serde_json::from_slice(&answer.body)
                .context("what answers is no sidecar: it does not say JSON")?;
            if answer.status < 300 {
                return Ok(said);
            }
            // Our own connections may not be up yet.
            let is_away = self.own.is_some() && said["reason"] == "store_away";
            if is_away && begun.elapsed() + STORE_PAUSE < self.patience.store {
                std::thread::sleep(STORE_PAUSE);
                continue;
            }
            let detail = said["detail"].as_str().unwrap_or("no detail");
            let reason = said["reason"].as_str().unwrap_or("unknown");
            let about = said["field"].as_str();
            let about = about.map_or_else(String::new, |field| format!("{field}: "));
            // Or the answer took as long as it may.
            let away = if is_away || self.own.is_some() && reason == "late" {
                format!("{}: ", self.is_away())
            } else {
                String::new()
            };
            bail!("{away}{about}{detail} ({reason}, {})", answer.status);
        }
    }

    /// What is said of a store that has not answered for as long as is waited.
    fn is_away(&self) -> String {
        let waited = humantime::format_duration(self.patience.store);
        format!("no sidecar is running, and the store has not answered within {waited}")
    }
}

/// The configuration that `place` names.
fn configured(place: &Place) -> anyhow::Result<(&Path, Setup)> {
    let file = place.config.as_deref();
    let file = file.context("name a configuration file with -c, or a sidecar with --sidecar")?;
    Ok((file, crate::load_any(file)?))
}

/// Where the sidecar of `setup` listens, if it runs.
fn running(setup: &Setup) -> Option<Listen> {
    let listen = &setup.sidecar.as_ref()?.listen;
    let hello = HELLO_PATIENCE;
    let answer = client::ask(hello, "sidecar", listen, "GET", "/v1/openapi.json", None);
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
