//! Gateways that share limits: a store, an application that keeps up, and as many gateways as a drill wants.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidegate_lab::load::{Arrivals, Kind, LoadPlan, Phase, Run};
use tidegate_lab::peers::RedisServer;

use super::{Gateway, GatewaySetup, ShopProcess, ShopSetup, wait_for};

/// What the application may have inside at once: more than any limit here lets pass.
const SLOTS: u32 = 400;

/// A store and an application, for gateways with one limit.
pub(crate) struct SharedLimits {
    /// Where the limits are.
    pub(crate) redis: RedisServer,
    shop: ShopProcess,
    /// How many gateways there are to be.
    nodes: usize,
}

/// What came to some gateways.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Came {
    /// Requests.
    pub(crate) offered: u64,
    /// Those that passed.
    pub(crate) passed: u64,
    /// Those that were refused.
    pub(crate) refused: u64,
    /// Those that had neither.
    pub(crate) failed: u64,
    /// From before the first to after the last.
    pub(crate) seconds: f64,
}

impl SharedLimits {
    /// Starts both.
    pub(crate) fn start(nodes: usize) -> anyhow::Result<Self> {
        Ok(Self {
            redis: RedisServer::plain()?,
            shop: ShopProcess::open(&ShopSetup::new(SLOTS, 0))?,
            nodes,
        })
    }

    /// Starts a gateway with these sections, and waits until the store has answered it.
    pub(crate) fn gateway(&self, limits: &str) -> anyhow::Result<Gateway> {
        let gateway = Gateway::start(&self.setup(limits))?;
        wait_for("the gateway has found the store", || {
            let calls = [("mode", "divided"), ("outcome", "answered")];
            let metrics = gateway.metrics()?;
            Ok(!limits.contains("fleet")
                || metrics.sum("tidegate_rate_store_calls_total", &calls) > 0.0)
        })?;
        Ok(gateway)
    }

    /// As many as there are to be.
    pub(crate) fn gateways(&self, limits: &str) -> anyhow::Result<Vec<Gateway>> {
        (0..self.nodes).map(|_| self.gateway(limits)).collect()
    }

    /// Waits until each of `gateways` has one part in as many as they are.
    pub(crate) fn wait_for_parts(gateways: &[Gateway]) -> anyhow::Result<()> {
        wait_for("every gateway has its part", || {
            for gateway in gateways {
                let part = gateway.metrics()?.sum("tidegate_rate_fleet_part", &[]);
                if part != gateways.len() as f64 {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Commands that run scripts which the store has had so far.
    pub(crate) fn scripts(&self) -> anyhow::Result<u64> {
        let calls = self.redis.calls()?;
        let scripts = calls.iter().filter(|(name, _)| name.starts_with("eval"));
        Ok(scripts.map(|(_, count)| count).sum())
    }

    fn setup(&self, limits: &str) -> GatewaySetup {
        GatewaySetup::new(format!(
            "[store]\nurl = \"redis://{}\"\n[trust]\nproxies = [\"127.0.0.0/8\"]\n\
             [[app]]\nname = \"shop\"\nupstream = \"http://{}\"\nworkers = {SLOTS}\n{limits}",
            self.redis.address(),
            self.shop.address(),
        ))
    }
}

/// Begins to send `per_s` requests each second for `length` to one gateway.
pub(crate) fn send(
    target: SocketAddr,
    kinds: Vec<Kind>,
    per_s: f64,
    length: Duration,
) -> anyhow::Result<Run> {
    let mut plan = LoadPlan::new(target, kinds, vec![Phase::new("offered", per_s, length)]);
    plan.arrivals = Arrivals::Even;
    Ok(Run::start(plan)?)
}

/// Sends `per_s` requests each second to each of `targets` for `length`, and says what came of them together.
pub(crate) fn send_all(
    targets: &[SocketAddr],
    per_s: f64,
    length: Duration,
) -> anyhow::Result<Came> {
    let begun = Instant::now();
    let runs: Vec<Run> = targets
        .iter()
        .map(|&target| {
            send(
                target,
                vec![Kind::get("client", "/browse/x")],
                per_s,
                length,
            )
        })
        .collect::<anyhow::Result<_>>()?;
    come_of(runs, begun)
}

/// What came of `runs` together, of which the first began at `begun`. Whether the generator kept its times does not
/// matter here: all that passed is counted over all the time that it took.
pub(crate) fn come_of(runs: Vec<Run>, begun: Instant) -> anyhow::Result<Came> {
    let mut came = Came::default();
    for run in runs {
        let report = run.join()?;
        for kind in &report.kinds {
            came.offered += kind.total.offered;
            came.passed += kind.total.good + kind.total.late;
            came.refused += kind.total.refused;
            came.failed += kind.total.error + kind.total.timeout;
        }
    }
    came.seconds = begun.elapsed().as_secs_f64();
    Ok(came)
}
