//! limitador over a Redis: the load only, what it costs is measured at the server.

use std::error::Error;
use std::time::Duration;

use limitador::RateLimiter as Limitador;
use limitador::storage::redis::RedisStorage;

use crate::peer::{Allowance, Named};
use crate::speed::key;

/// A counter lives through the measurement, and nothing is refused.
const WINDOW: Duration = Duration::from_secs(86_400);
const ALLOWANCE: Allowance = Allowance(1_000_000);

/// Asks the Redis at `address` (`host:port`) for one unit of one limit, `checks` times one after the other, by `keys`
/// strings in turns.
///
/// # Errors
///
/// When the server does not answer, or refuses.
pub fn limitador(address: &str, keys: u64, checks: u64) -> Result<(), Box<dyn Error>> {
    let storage = RedisStorage::new(&format!("redis://{address}/"))?;
    let limits = Limitador::new_with_storage(Box::new(storage));
    let named = Named::new(limits, ALLOWANCE, WINDOW)?;
    for number in 0..checks {
        if !named.passes(&key(number % keys)) {
            return Err(format!("check {number} was refused").into());
        }
    }
    Ok(())
}
