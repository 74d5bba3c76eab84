//! What a bar measures in a run.

use tidegate_core::facts::Class;

use crate::scenario::{Bar, Measure, Scenario};
use crate::sim::record::{Record, Window};

/// What `bar` measures in `record`, a run of `scenario`.
///
/// `None` where there is nothing to measure, such as the median time of no answers. A recovery
/// that does not happen takes for ever: [`f64::INFINITY`].
pub fn measure(scenario: &Scenario, bar: &Bar, record: &Record) -> Option<f64> {
    let window = record.window(
        bar.from.unwrap_or(scenario.warm_up),
        bar.to.unwrap_or(scenario.length),
    );
    if window.bins().is_empty() {
        return None;
    }
    let class = bar.class.as_deref().and_then(Class::from_name);
    match bar.measure {
        Measure::Goodput => Some(window.goodput(class)),
        Measure::Offered => Some(window.offered(class)),
        Measure::Retries => Some(window.retries(class)),
        Measure::Refused => Some(window.refused(class)),
        Measure::Wasted => Some(window.wasted()),
        Measure::Failures => Some(window.failures(class) as f64),
        Measure::Share => window.share(class),
        Measure::P50Ms => quantile_ms(window, 0.5),
        Measure::P99Ms => quantile_ms(window, 0.99),
        Measure::LimitLeast => window.limits().map(|(least, _)| least),
        Measure::LimitMost => window.limits().map(|(_, most)| most),
        Measure::ProbeShare => Some(window.probe_share()),
        Measure::Recovery => Some(window.recovery(bar.recovered.unwrap_or_default())),
        Measure::Fairness => window.fairness(),
        Measure::BaselineSpread => Some(window.baseline_spread()),
        Measure::QueueMost => Some(f64::from(window.queue_most())),
    }
}

fn quantile_ms(window: Window<'_>, part: f64) -> Option<f64> {
    let time = window.latencies().quantile(part)?;
    Some(time.as_secs_f64() * 1e3)
}
