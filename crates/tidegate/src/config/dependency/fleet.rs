//! Whether calls of all gateways count together: `scope` and `on_store_loss`.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::bulkhead::{Bulkheads, Loan, Reserve};
use tidegate_core::facts::Class;
use tidegate_core::rate::permits::{Keep, Terms};
use tidegate_core::rate::share::OnLoss;
use tidegate_gateway::dependency::FleetDependency;

use super::super::section::Section;
use super::Around;

/// The shortest lease that is renewed in time though a call to the store is lost.
const LEASE_MIN: Duration = Duration::from_millis(500);

/// How calls of all gateways count together, if they do.
pub(super) fn fleet(
    section: &Section<'_>,
    concurrency: NonZeroU32,
    bulkheads: &Bulkheads,
    lease: Duration,
    around: &Around<'_>,
) -> Option<FleetDependency> {
    if section.choice("scope") != Some("fleet") {
        if section.has("on_store_loss") && section.sound(&["scope"]) {
            section.refuse(
                "on_store_loss",
                "`on_store_loss` has no effect: calls count on each gateway by itself",
                "write scope = \"fleet\" beside it, or remove on_store_loss",
            );
        }
        return None;
    }
    let nodes = around.nodes;
    if !around.shares_limits {
        refuse_without_store(section, concurrency, nodes);
        return None;
    }
    let on_loss = match section.choice("on_store_loss") {
        Some("open") => OnLoss::Open,
        Some("closed") => OnLoss::Closed,
        _ => OnLoss::Local,
    };
    if lease < LEASE_MIN && section.sound(&["lease"]) {
        section.refuse(
            "lease",
            format!(
                "`lease` is shorter than {} ms, so a permit would be lost with one late answer of the store",
                LEASE_MIN.as_millis()
            ),
            "write lease = \"500ms\" or more, or scope = \"node\"",
        );
    }
    let mut terms = Terms::of(concurrency.get().into(), lease.as_micros() as u64);
    for class in Class::ALL {
        if let Some(reserve) = bulkheads.reserves[class.index()] {
            terms.keeps[class.index()] = keep(reserve, concurrency);
        }
    }
    if on_loss == OnLoss::Local
        && terms.part(nodes).all == 0
        && section.sound(&["concurrency", "on_store_loss"])
    {
        section.refuse(
            "on_store_loss",
            format!("{concurrency} calls cannot be divided among {nodes} gateways while the store is away"),
            "write on_store_loss = \"closed\" (no calls are made then) or \"open\" (all are), or lower limit_nodes at \
             the top level",
        );
    }
    Some(FleetDependency {
        terms,
        on_loss,
        nodes,
    })
}

/// Each gateway would let all calls in.
fn refuse_without_store(section: &Section<'_>, concurrency: NonZeroU32, nodes: u32) {
    section.refuse(
        "scope",
        format!(
            "`scope = \"fleet\"` needs a store that all gateways share, and there is none: each would let \
             {concurrency} calls in, and {nodes} gateways together {}",
            u64::from(concurrency.get()) * u64::from(nodes)
        ),
        "name the store, as in [store] with url = \"redis://10.0.0.5:6379\"; or write scope = \"node\" and a \
         concurrency of the whole divided by the number of gateways",
    );
}

/// What a class keeps for itself. Nobody knows when it was last seen at another gateway, so of a lent reserve the
/// spare is kept always.
fn keep(reserve: Reserve, concurrency: NonZeroU32) -> Keep {
    let slots = reserve.portion.slots(concurrency.get());
    let idle = match reserve.loan {
        Loan::Strict => slots,
        Loan::Lent => Loan::spare(slots),
    };
    Keep {
        reserve: slots.into(),
        idle: idle.into(),
    }
}
