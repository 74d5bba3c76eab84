//! The three, each as one would use it for a limit by a string.

use std::collections::HashMap;
use std::error::Error;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governor::clock::FakeRelativeClock;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter as Governor};
use limitador::RateLimiter as Limitador;
use limitador::limit::{Context, Expression, Limit, Namespace};
use tidegate_core::rate::key::Part;
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm, Rate, Spec, Tick};
use tidegate_core::session::SlotTag;
use tidegate_store::limits::{Asked, LimitTable, LimitTablePlan};
use tidegate_store::{RateKeys, RateSecret};

/// So many in a minute.
#[derive(Clone, Copy)]
pub struct Allowance(pub u32);

/// Ours: the key of a string, and the table of a process.
pub struct Ours {
    keys: RateKeys,
    table: LimitTable,
    spec: Arc<Spec>,
    origin: Instant,
}

impl Ours {
    pub fn new(allowance: Allowance, keys_max: u64) -> Result<Self, Box<dyn Error>> {
        let rate = Rate {
            tokens: allowance.0.into(),
            period_us: 60_000_000,
        };
        let spec = Spec::new(Algorithm::Bucket, rate, None).map_err(|error| error.to_string())?;
        Ok(Self {
            keys: RateSecret::new(*b"sixteen bytes it").limit("peers"),
            table: LimitTable::new(LimitTablePlan::for_keys(keys_max)),
            spec: Arc::new(spec),
            origin: Instant::now(),
        })
    }

    /// By the clock that gateways read.
    pub fn passes(&self, key: &str) -> bool {
        let elapsed = self.origin.elapsed();
        self.passes_at(key, Tick(1_000_000 + elapsed.as_micros() as u64))
    }

    pub fn passes_at(&self, key: &str, now: Tick) -> bool {
        let asked = Asked {
            key: self.keys.key(&[Part::Identity(key.as_bytes())]),
            tag: SlotTag::from_bits(0),
            spec: &self.spec,
            cost: 1,
            standing: Standing::Enforced,
        };
        self.table.take(&[asked], now).passes()
    }
}

/// governor with its own clock.
pub fn governor(allowance: Allowance) -> DefaultKeyedRateLimiter<String> {
    Governor::keyed(quota(allowance))
}

/// governor with a clock that costs nothing, which stands where it is put.
pub fn governor_at(
    allowance: Allowance,
    clock: FakeRelativeClock,
) -> Governor<
    String,
    governor::state::keyed::DefaultKeyedStateStore<String>,
    FakeRelativeClock,
    governor::middleware::NoOpMiddleware<<FakeRelativeClock as governor::clock::Clock>::Instant>,
> {
    Governor::dashmap_with_clock(quota(allowance), clock)
}

fn quota(allowance: Allowance) -> Quota {
    Quota::per_minute(NonZeroU32::new(allowance.0).expect("something is allowed"))
}

/// limitador in memory.
pub struct InMemory {
    limits: Limitador,
    namespace: Namespace,
}

impl InMemory {
    pub fn new(allowance: Allowance, keys_max: u64) -> Result<Self, Box<dyn Error>> {
        let limits = Limitador::new(keys_max);
        let by = Expression::parse("user").map_err(|error| error.to_string())?;
        let minute = Duration::from_secs(60).as_secs();
        limits.add_limit(Limit::new("peers", allowance.0.into(), minute, [], [by]));
        Ok(Self {
            limits,
            namespace: "peers".into(),
        })
    }

    pub fn passes(&self, key: &str) -> bool {
        let values = HashMap::from([("user".to_owned(), key.to_owned())]);
        let context = Context::from(values);
        let checked = self
            .limits
            .check_rate_limited_and_update(&self.namespace, &context, 1);
        checked.is_ok_and(|checked| !checked.limited)
    }
}
