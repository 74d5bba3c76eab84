//! The rate limit service of a running process: what it needs at its start, and what is told of its counts.

use std::net::SocketAddr;

use anyhow::Context;
use tidegate_gateway::metrics::{Counted, CountedRow};
use tidegate_rls::{Rls, Scope, Tally};
use tidegate_store::Background;
use tidegate_store::limits::RedisLimits;
use tidegate_store::redis::{Redis, Use};

use crate::config::Setup;
use crate::secrets;

/// A running service, and the thread behind its store.
pub(crate) struct Service {
    rls: Rls,
    /// Dropped after the service.
    _background: Option<Background>,
}

/// Starts what proxies ask, if they may.
pub(crate) fn start(setup: &mut Setup) -> anyhow::Result<Option<Service>> {
    let Some(plan) = setup.rls.take() else {
        return Ok(None);
    };
    let is_shared = plan.limits.iter().any(|limit| limit.scope == Scope::Fleet);
    let (fleet, background) = match setup.store.servers(Use::Limits) {
        Some(servers) if is_shared => {
            let servers = secrets::with_passwords(servers)?;
            let background = Background::start().context("cannot start a thread for the store")?;
            let redis = Redis::start(&servers, Use::Limits, &background);
            (Some(RedisLimits::new(redis)), Some(background))
        }
        _ => (None, None),
    };
    Ok(Some(Service {
        rls: Rls::start(plan, fleet)?,
        _background: background,
    }))
}

impl Service {
    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.rls.address()
    }

    /// Tells the metrics, as often as it is asked.
    pub(crate) fn teller(&self) -> impl Fn() -> Vec<Counted> + Send + Sync + use<> {
        let tally = self.rls.teller();
        move || counts(&tally())
    }
}

/// The metrics of a service. Domains and limits are named as they are configured.
fn counts(tally: &Tally) -> Vec<Counted> {
    let domains = tally.domains.iter().flat_map(|it| {
        let row = |outcome: &str, count: u64| {
            let labels = vec![("domain", it.name.clone()), ("outcome", outcome.to_owned())];
            (labels, count)
        };
        [
            row("ok", it.ok),
            row("over_limit", it.over_limit),
            row("unavailable", it.unavailable),
        ]
    });
    let limits = tally.limits.iter().flat_map(|it| {
        let row = |outcome: &str, count: u64| {
            let labels = vec![
                ("domain", tally.domains[it.domain].name.clone()),
                ("limit", it.name.clone()),
                ("outcome", outcome.to_owned()),
            ];
            (labels, count)
        };
        [
            row("passed", it.passed),
            row("refused", it.refused),
            row("shadow_refused", it.shadow_refused),
            row("store_lost", it.store_lost),
        ]
    });
    let reason = |reason: &str, count| (vec![("reason", reason.to_owned())], count);
    let failed = vec![
        reason("invalid", tally.invalid),
        reason("busy", tally.busy),
        reason("late", tally.late),
    ];
    let counted = |name, help, rows: Vec<CountedRow>| Counted { name, help, rows };
    vec![
        counted(
            "tidegate_rls_requests",
            "Calls of proxies to the rate limit service, by what they were told",
            domains.collect(),
        ),
        counted(
            "tidegate_rls_limit_calls",
            "Calls that met a limit of the rate limit service, by what became of them in it",
            limits.collect(),
        ),
        counted(
            "tidegate_rls_failed",
            "Calls to the rate limit service that were not decided on",
            failed,
        ),
        Counted::one(
            "tidegate_rls_forgotten",
            "Keys of the rate limit service that were forgotten before they were full again, for want of room",
            tally.forgotten,
        ),
    ]
}
