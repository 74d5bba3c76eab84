//! How much each gateway is asked for, and the shares that follow from it.

use std::time::Duration;

use super::Totals;
use crate::time::Mono;

/// Demand is an average over about this long. Shorter, and the shares follow chance: a gateway
/// that is asked 200 times a second is asked 20 ± 4 times in a refresh.
const MEMORY: Duration = Duration::from_secs(1);

/// Latencies are averaged for longer, since they differ more from each other than counts do.
const MEMORY_LATENCY: Duration = Duration::from_secs(5);

/// The part of the limit, in per cent, that is handed out by demand. The rest is the same for
/// everybody, so that a gateway whose demand begins has something to begin with.
const BY_DEMAND_PERCENT: f64 = 90.0;

/// What one gateway was asked for of late.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    seen: Option<(Mono, Totals)>,
    arrived: Average,
    latency_us: Average,
    finished: Average,
}

/// A sum that fades, and the time it stands for.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    sum: f64,
    seconds: f64,
}

impl Average {
    fn add(&mut self, sum: f64, seconds: f64, memory: Duration) {
        let memory = memory.as_secs_f64();
        self.sum += sum;
        self.seconds += seconds;
        if self.seconds > memory {
            let kept = memory / self.seconds;
            self.sum *= kept;
            self.seconds *= kept;
        }
    }

    fn per_second(&self) -> f64 {
        if self.seconds > 0.0 {
            self.sum / self.seconds
        } else {
            0.0
        }
    }
}

impl Demand {
    /// Counts since its start were `totals` at `at`, by the gateway's own clock.
    pub(super) fn see(&mut self, at: Mono, totals: &Totals) {
        if let Some((before, last)) = self.seen {
            let seconds = at.since(before).as_secs_f64();
            if seconds <= 0.0 {
                return;
            }
            let grown = |now: u64, then: u64| now.saturating_sub(then) as f64;
            self.arrived
                .add(grown(totals.asked, last.asked), seconds, MEMORY);
            let latency_us = grown(totals.latency_us, last.latency_us);
            self.latency_us.add(latency_us, seconds, MEMORY_LATENCY);
            let finished = grown(totals.finished, last.finished);
            self.finished.add(finished, seconds, MEMORY_LATENCY);
        }
        self.seen = Some((at, *totals));
    }

    /// The gateway was restarted: it counts from 0 again, and its clients are the same.
    pub(super) fn restart(&mut self) {
        self.seen = None;
    }

    /// Requests per second.
    fn asked_per_second(&self) -> f64 {
        self.arrived.per_second()
    }

    /// Requests that end per second.
    pub(super) fn finished_per_second(&self) -> f64 {
        self.finished.per_second()
    }

    /// Latencies added up and how many there were, per second.
    const fn latencies(&self) -> (f64, f64) {
        (self.latency_us.sum, self.finished.sum)
    }

    /// Slots it would keep busy: requests times how long one takes (Little's law). A gateway whose
    /// clients ask for slow things needs more slots for as many requests. `mean_us` stands for the
    /// latency of one that has none of its own.
    fn slots(&self, mean_us: f64) -> f64 {
        let (latency_us, finished) = self.latencies();
        let mean_us = if finished > 0.0 {
            latency_us / finished
        } else {
            mean_us
        };
        self.asked_per_second() * mean_us / 1e6
    }
}

/// The mean latency of all gateways together. Without any, a second: all that matters then is that
/// it is the same for everybody.
pub(super) fn mean_latency<'a>(demands: impl Iterator<Item = &'a Demand>) -> Duration {
    let (mut latency_us, mut finished) = (0.0, 0.0);
    for demand in demands {
        let (sum_us, number) = demand.latencies();
        latency_us += sum_us;
        finished += number;
    }
    if finished > 0.0 {
        Duration::try_from_secs_f64(latency_us / finished / 1e6).unwrap_or(Duration::MAX)
    } else {
        Duration::from_secs(1)
    }
}

/// Divides `whole` thousandths of a slot by demand. The parts add up to `whole` at the most.
pub(super) fn divide<'a>(
    whole: u64,
    demands: impl Iterator<Item = &'a Demand> + Clone,
) -> Vec<u64> {
    let count = demands.clone().count();
    let mean_us = mean_latency(demands.clone()).as_secs_f64() * 1e6;
    let slots = demands.map(|demand| demand.slots(mean_us));
    let slots: Vec<f64> = slots.collect();
    let all: f64 = slots.iter().sum();
    let evenly = 1.0 / count.max(1) as f64;
    let part = |slots: &f64| {
        let by_demand = if all > 0.0 { slots / all } else { evenly };
        let percent = BY_DEMAND_PERCENT * by_demand + (100.0 - BY_DEMAND_PERCENT) * evenly;
        (whole as f64 * percent / 100.0) as u64
    };
    let mut parts: Vec<u64> = slots.iter().map(part).collect();
    // Each part is rounded down, but the sum of the fractions may be a hair above 1.
    let over = parts.iter().sum::<u64>().saturating_sub(whole);
    if let Some(largest) = parts.iter_mut().max() {
        *largest = largest.saturating_sub(over);
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, proptest};

    use super::*;

    fn demand(asked: u64, mean_ms: u64) -> Demand {
        let mut demand = Demand::default();
        demand.see(Mono::default(), &Totals::default());
        let totals = Totals {
            asked,
            finished: asked,
            latency_us: asked * mean_ms * 1000,
        };
        demand.see(Mono::from_millis(1000), &totals);
        demand
    }

    #[test]
    fn nine_tenths_follow_demand_and_one_tenth_goes_to_everybody() {
        let demands = [demand(300, 50), demand(100, 50), demand(0, 0), demand(0, 0)];

        let parts = divide(100_000, demands.iter());

        assert_eq!(parts, [70_000, 25_000, 2500, 2500]);
    }

    #[test]
    fn slow_requests_need_more_slots_than_fast_ones() {
        let demands = [demand(1000, 10), demand(100, 400)];

        let parts = divide(100_000, demands.iter());

        assert_eq!(parts, [23_000, 77_000]);
    }

    #[test]
    fn without_any_demand_everybody_gets_the_same() {
        let demands = [Demand::default(), Demand::default()];

        assert_eq!(divide(9_001, demands.iter()), [4500, 4500]);
        assert_eq!(divide(9_001, [].iter()), [0u64; 0]);
    }

    #[test]
    fn chance_in_one_refresh_moves_demand_by_a_tenth_of_itself() {
        let mut demand = demand(1000, 50);

        let totals = Totals {
            asked: 1200,
            finished: 1100,
            latency_us: 55_000_000,
        };
        demand.see(Mono::from_millis(1100), &totals);

        assert!((demand.asked_per_second() - 1090.9).abs() < 1.0);
    }

    proptest! {
        #[test]
        fn parts_never_add_up_to_more_than_the_whole(
            whole in 0u64..1_000_000_000,
            figures in prop::collection::vec(
                (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()), 0..20),
        ) {
            let demands: Vec<Demand> = figures.iter().map(|&(asked, finished, latency_us, at)| {
                let mut demand = Demand::default();
                demand.see(Mono::default(), &Totals::default());
                demand.see(Mono::from_nanos(at), &Totals { asked, finished, latency_us });
                demand
            }).collect();

            let parts = divide(whole, demands.iter());

            prop_assert!(parts.iter().sum::<u64>() <= whole);
        }
    }
}
