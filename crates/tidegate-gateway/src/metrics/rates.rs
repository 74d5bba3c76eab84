//! Metrics of the rate limits. Their only label is the limit: keys come from clients.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::exposition::{Source, counter, gauge};
use super::{Cell, RateCells};

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
        Ok(())
    }
}
