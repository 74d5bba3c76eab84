//! The lab's shop as a process of its own.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_lab::measure::{self, Child};
use tidegate_lab::shop::ShopStats;

use super::{ask, gateway};

/// Longest time from start to the line that says it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// A shop to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShopSetup {
    /// Jobs done at once.
    pub(crate) slots: u32,
    /// Time of one job, in milliseconds.
    pub(crate) service_ms: u64,
    /// Bytes of an ordinary answer's body.
    pub(crate) answer_bytes: usize,
    /// By how much `/recommend` jobs take longer.
    pub(crate) recommend_factor: u32,
    /// Whether it keeps how long each slot was held.
    pub(crate) times_kept: bool,
    /// The core it is kept on; `None` for whichever is free.
    pub(crate) core: Option<usize>,
}

/// An open shop. Dropping it closes it.
pub(crate) struct ShopProcess {
    child: Child,
    address: SocketAddr,
}

impl ShopSetup {
    /// A shop of `slots` × `service_ms`.
    pub(crate) const fn new(slots: u32, service_ms: u64) -> Self {
        Self {
            slots,
            service_ms,
            answer_bytes: 256,
            recommend_factor: 1,
            times_kept: false,
            core: None,
        }
    }
}

impl ShopProcess {
    /// Opens one and waits until it listens.
    pub(crate) fn open(setup: &ShopSetup) -> anyhow::Result<Self> {
        let mut command = Command::new(gateway::binary()?);
        command.args(["shop", "--listen", "127.0.0.1:0"]);
        command.args(["--slots", &setup.slots.to_string()]);
        command.args(["--service-ms", &setup.service_ms.to_string()]);
        command.args(["--answer-bytes", &setup.answer_bytes.to_string()]);
        command.args(["--recommend-factor", &setup.recommend_factor.to_string()]);
        if setup.times_kept {
            command.arg("--keep-times");
        }

        let child = Child::start(command, "shop: listening on ", READY_TIMEOUT)?;
        if let Some(core) = setup.core {
            measure::pin_process(child.id(), core)?;
        }
        let line = child.ready_line();
        let address = line
            .strip_prefix("shop: listening on ")
            .and_then(|address| address.trim().parse().ok())
            .with_context(|| format!("not a line of readiness: {line}"))?;
        Ok(Self { child, address })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its own counters.
    pub(crate) fn stats(&self) -> anyhow::Result<ShopStats> {
        Ok(serde_json::from_slice(&ask(self.address, "/stats")?)?)
    }

    /// How long slots were held for `/recommend` jobs, or for all others, in µs and one a line.
    pub(crate) fn times(&self, recommend: bool) -> anyhow::Result<Vec<u8>> {
        let work = if recommend { "recommend" } else { "serve" };
        ask(self.address, &format!("/times?work={work}"))
    }

    /// Changes it while it runs: `slots=N`, `recommend_factor=F`, `stall_ms=N`, joined by `&`.
    pub(crate) fn control(&self, query: &str) -> anyhow::Result<ShopStats> {
        let path = format!("/control?{query}");
        Ok(serde_json::from_slice(&ask(self.address, &path)?)?)
    }
}
