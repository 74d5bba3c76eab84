//! Metrics of the rate limits. Their only label is the limit: keys come from clients.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::exposition::{Source, counter, gauge};
use super::{Cell, RateCells};
use crate::heard::Source as Follows;
use crate::rate::{FleetTally, LimitTally, Rates};

/// Where a count of a limit is.
type CellOf = fn(&RateCells) -> &Cell;

/// What became of requests in a limit, with its label.
pub(crate) const RATE_COUNTS: [(&str, CellOf); 4] = [
    ("passed", |cells| &cells.passed),
    ("refused", |cells| &cells.refused),
    ("shadow_refused", |cells| &cells.shadow_refused),
    ("given_back", |cells| &cells.given_back),
];

impl Source {
    /// Every metric of the rate limits; none where there are none.
    pub(super) fn rates(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(rates) = self.shared().map(|shared| &shared.rates) else {
            return Ok(());
        };
        let limits: Vec<(usize, &str)> = rates
            .limits()
            .iter()
            .enumerate()
            .map(|(at, limit)| (at, limit.plan.name.as_str()))
            .collect();
        if limits.is_empty() {
            return Ok(());
        }
        let help = "Requests that met a rate limit, by what became of them in it";
        let mut rows = counter(encoder, "tidegate_rate_requests", help)?;
        for &(at, name) in &limits {
            for (outcome, of) in RATE_COUNTS {
                let count = self.sum(|recorder| of(&recorder.rates[at]));
                rows.count(&[("limit", name), ("outcome", outcome)], count)?;
            }
        }
        let help = "Keys that a rate limit remembers";
        let mut rows = gauge(encoder, "tidegate_rate_keys", help)?;
        for &(at, name) in &limits {
            rows.gauge(&[("limit", name)], rates.keys(at).kept)?;
        }
        let help = "Keys that a rate limit forgot before they were full again, for want of room";
        let mut rows = counter(encoder, "tidegate_rate_evicted", help)?;
        for &(at, name) in &limits {
            rows.count(&[("limit", name)], rates.keys(at).forgotten)?;
        }
        shares(encoder, rates)?;
        match rates.fleet_tally() {
            Some(tally) => fleet(encoder, &tally, &limits),
            None => Ok(()),
        }
    }
}

/// Where the limits are that follow the headroom of the fleet.
fn shares(encoder: &mut DescriptorEncoder<'_>, rates: &Rates) -> fmt::Result {
    let following: Vec<_> = (rates.limits().iter())
        .filter_map(|limit| Some((limit.plan.name.as_str(), rates.share(limit)?)))
        .collect();
    if following.is_empty() {
        return Ok(());
    }
    let help = "Part of the rate of a limit that holds now, where it follows the fleet's headroom";
    let mut rows = gauge(encoder, "tidegate_rate_share_ratio", help)?;
    for &(name, (share, _)) in &following {
        rows.gauge(&[("limit", name)], share)?;
    }
    let help =
        "Why that part holds: 1 for what was told, for what was told last, or for nobody's word";
    let mut rows = gauge(encoder, "tidegate_rate_share_source", help)?;
    for &(name, (_, by)) in &following {
        for source in Follows::ALL {
            let labels = [("limit", name), ("source", source.name())];
            rows.gauge(&labels, u32::from(by == source))?;
        }
    }
    Ok(())
}

/// Those of the limits that hold over all gateways.
fn fleet(
    encoder: &mut DescriptorEncoder<'_>,
    tally: &FleetTally,
    limits: &[(usize, &str)],
) -> fmt::Result {
    let help =
        "Calls to the store for limits of the fleet, by what they were for; a batch is one call";
    let mut rows = counter(encoder, "tidegate_rate_store_calls", help)?;
    for &(mode, outcome, count) in &tally.calls {
        rows.count(&[("mode", mode), ("outcome", outcome)], count)?;
    }
    let help = "This gateway's part of divided limits is one in so many; 0 while it has none";
    let mut rows = gauge(encoder, "tidegate_rate_fleet_part", help)?;
    rows.gauge(&[], u64::from(tally.part))?;
    let help = "Requests whose unused tokens of limits of the fleet did not go back";
    let mut rows = counter(encoder, "tidegate_rate_give_backs_lost", help)?;
    rows.count(&[], tally.give_backs_lost)?;
    let help =
        "Keys of divided limits that were forgotten before they were full again, for want of room";
    let mut rows = counter(encoder, "tidegate_rate_fleet_evicted", help)?;
    rows.count(&[], tally.evicted)?;
    let of_fleet: Vec<_> = limits
        .iter()
        .filter(|(at, _)| tally.limits[*at].is_of_fleet)
        .map(|&(at, name)| (name, &tally.limits[at]))
        .collect();
    let help =
        "Requests that were decided on while the store did not answer, by what became of them";
    let mut rows = counter(encoder, "tidegate_rate_store_lost", help)?;
    for (name, limit) in &of_fleet {
        for &(outcome, count) in &limit.without {
            rows.count(&[("limit", name), ("outcome", outcome)], count)?;
        }
    }
    type Of = fn(&LimitTally) -> u64;
    let gauges: [(&str, &str, Of); 4] = [
        (
            "tidegate_rate_fleet_keys",
            "Keys of a limit of the fleet that this gateway has something of",
            |it| it.seats,
        ),
        (
            "tidegate_rate_fleet_hot_keys",
            "Of these, those that are leased because they are asked for so often",
            |it| it.hot,
        ),
        (
            "tidegate_rate_leased_tokens",
            "Tokens of a limit that this gateway has ahead",
            |it| it.ahead,
        ),
        (
            "tidegate_rate_unreported_tokens",
            "Tokens of a limit that this gateway has spent and the store does not know of",
            |it| it.unreported,
        ),
    ];
    for (name, help, of) in gauges {
        let mut rows = gauge(encoder, name, help)?;
        for (limit, tally) in &of_fleet {
            rows.gauge(&[("limit", limit)], of(tally))?;
        }
    }
    Ok(())
}
