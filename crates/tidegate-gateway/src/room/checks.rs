//! How much may be spent on signatures that nobody has verified yet: for each network, and altogether.
//!
//! Whoever sends junk pays with the budget of their network. What many networks send together pays with that of all, so that
//! it costs a known part of a core at most. Passes that are known (see `verified`) cost nothing of either, and who
//! was let in goes on meanwhile. Counted in microseconds of a core, as an algorithm takes them; by the
//! buckets of the core.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::rate::key::{Part, Prefix, PrefixLengths};
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm as Counting, Rate, Short, Spec, SpecError, State, Tick};
use tidegate_core::session::SlotTag;
use tidegate_store::limits::{Asked, LimitTable, LimitTablePlan, Said};
use tidegate_store::{RateKeys, RateSecret};

use super::keys::Algorithm;
use crate::session::keys::random;

/// Microseconds of a core that may be spent each second. Twice as many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksPlan {
    /// On one network: a /24 of IPv4 or a /48 of IPv6. 50 or more.
    pub network_us: u64,
    /// On all of them together. 50 or more.
    pub all_us: u64,
    /// Networks that are remembered at once.
    pub networks_max: u64,
}

/// What is left of it.
pub(super) struct Checks {
    table: LimitTable,
    network: Arc<Spec>,
    keys: RateKeys,
    /// Not in the table: there it could be forgotten for a network.
    all: (Arc<Spec>, Mutex<State>),
}

impl Default for ChecksPlan {
    /// A fiftieth of a core for one network, and 8 % of one for all: 10,000 or 200 new passes a second from one network,
    /// with HS256 or without.
    fn default() -> Self {
        Self {
            network_us: 20_000,
            all_us: 80_000,
            networks_max: 1 << 16,
        }
    }
}

impl Checks {
    /// As `plan` has it.
    pub(super) fn new(plan: ChecksPlan) -> Result<Self, SpecError> {
        let spec = |tokens: u64| -> Result<Arc<Spec>, SpecError> {
            let rate = Rate {
                tokens,
                period_us: 1_000_000,
            };
            if tokens == 0 {
                return Err(SpecError::RateZero);
            }
            let burst = Some(tokens.saturating_mul(2));
            let spec = Spec::new(Counting::Bucket, rate, burst)?;
            for algorithm in Algorithm::ALL {
                spec.fits(algorithm.price_us())?;
            }
            Ok(Arc::new(spec))
        };
        let all = spec(plan.all_us)?;
        let full = Mutex::new(all.full(Tick(0)));
        Ok(Self {
            table: LimitTable::new(LimitTablePlan::for_keys(plan.networks_max)),
            network: spec(plan.network_us)?,
            keys: RateSecret::new(random()).limit("room checks"),
            all: (all, full),
        })
    }

    /// Spends what verifying with `algorithm` takes, or says in how many microseconds it will be there.
    pub(super) fn spend(&self, now: Tick, from: IpAddr, algorithm: Algorithm) -> Result<(), u64> {
        let lengths = PrefixLengths::new(24, 48).expect("addresses have so many bits");
        let network = Part::Address(Prefix::of(from, lengths));
        let cost = algorithm.price_us();
        let asked = Asked {
            key: self.keys.key(&[network]),
            // Nobody else has this table.
            tag: SlotTag::from_bits(0),
            spec: &self.network,
            cost,
            standing: Standing::Enforced,
        };
        // The narrow one first, without spending: what the wide one refuses has cost nothing.
        waited(self.table.ask(&[asked], now).said[0])?;
        let (spec, state) = &self.all;
        {
            // A panic in there leaves a state that could have been.
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            spec.take(&mut state, now, cost).map_err(wait_us)?;
        }
        waited(self.table.take(&[asked], now).said[0])
    }
}

fn waited(said: Said) -> Result<(), u64> {
    match said {
        Said::Passes { .. } | Said::Unasked => Ok(()),
        Said::Short { short, .. } => Err(wait_us(short)),
    }
}

/// In how many microseconds there will be enough.
pub(super) const fn wait_us(short: Short) -> u64 {
    match short {
        Short::Wait { wait_us } => wait_us,
        Short::Never => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: ChecksPlan = ChecksPlan {
        network_us: 200,
        all_us: 600,
        networks_max: 128,
    };

    fn spent(checks: &Checks, now: Tick, from: &str) -> Result<(), u64> {
        checks.spend(now, from.parse().unwrap(), Algorithm::EdDsa)
    }

    #[test]
    fn a_network_that_has_spent_its_part_leaves_the_others_theirs() {
        let checks = Checks::new(PLAN).unwrap();
        let passed = |from: &str| {
            (0..9)
                .filter(|_| spent(&checks, Tick(0), from).is_ok())
                .count()
        };

        assert_eq!(passed("192.0.2.1"), 4);
        assert_eq!(passed("192.0.2.200"), 0);
        assert_eq!(passed("192.0.3.1"), 4);
        assert_eq!(passed("2001:db8:1:2::3"), 4);
        assert_eq!(passed("2001:db8:1:3::3"), 0);
        assert_eq!(passed("198.51.100.1"), 0, "together they have spent all");
        let wait = spent(&checks, Tick(0), "198.51.100.1").unwrap_err();
        assert!(spent(&checks, Tick(wait - 1), "198.51.100.1").is_err());
        assert!(spent(&checks, Tick(wait), "198.51.100.1").is_ok());
    }

    #[test]
    fn what_never_has_room_for_one_signature_is_no_plan() {
        for network_us in [0, 49] {
            let plan = ChecksPlan { network_us, ..PLAN };

            assert!(Checks::new(plan).is_err(), "{network_us}");
        }
    }
}
