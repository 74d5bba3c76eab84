//! Who is inside, as far as this gateway sees them: distinct passes of the last minute, and their requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::time::Mono;

use crate::room::PassId;

/// Who was not seen for so long is not inside any more.
const SEEN_WITHIN: Duration = Duration::from_secs(60);
/// Locks, so that threads seldom meet at one.
const SHARDS: usize = 16;
/// Passes that are told apart in each of them. The requests of others count, and so each of those known is taken to bring more.
const PASSES_MAX: usize = 1 << 14;

/// Who is inside. Nothing is waited for under its locks.
pub(crate) struct Inside {
    shards: [Mutex<HashMap<PassId, Mono>>; SHARDS],
    requests: AtomicU64,
}

/// What was seen of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InsideSaid {
    /// How many of them have asked for something within the last minute.
    pub(crate) active: u64,
    /// Their requests since this was asked last.
    pub(crate) requests: u64,
}

impl Inside {
    /// Nobody was seen yet.
    pub(crate) fn new() -> Self {
        Self {
            shards: Default::default(),
            requests: AtomicU64::new(0),
        }
    }

    /// A request with this pass.
    pub(crate) fn saw(&self, now: Mono, pass: PassId) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut shard = lock(&self.shards[usize::from(pass.0[0]) % SHARDS]);
        if let Some(seen) = shard.get_mut(&pass) {
            *seen = now.max(*seen);
        } else if shard.len() < PASSES_MAX {
            shard.insert(pass, now);
        }
    }

    /// What was seen; once a second is meant.
    pub(crate) fn take(&self, now: Mono) -> InsideSaid {
        let mut active = 0;
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.retain(|_, seen| now.since(*seen) < SEEN_WITHIN);
            active += shard.len() as u64;
        }
        InsideSaid {
            active,
            requests: self.requests.swap(0, Ordering::Relaxed),
        }
    }
}

fn lock(shard: &Mutex<HashMap<PassId, Mono>>) -> MutexGuard<'_, HashMap<PassId, Mono>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(number: u16) -> PassId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_le_bytes());
        PassId(bytes)
    }

    #[test]
    fn a_pass_counts_once_and_for_a_minute() {
        let inside = Inside::new();
        let at = |second: u64| Mono::from_millis(1_000 * second);
        for number in 0..300 {
            inside.saw(at(0), pass(number));
            inside.saw(at(1), pass(number));
        }
        inside.saw(at(30), pass(7));

        let first = inside.take(at(31));
        let later = inside.take(at(61));
        let last = inside.take(at(90));

        assert_eq!((first.active, first.requests), (300, 601));
        assert_eq!((later.active, later.requests), (1, 0));
        assert_eq!(last, InsideSaid::default());
    }

    #[test]
    fn so_many_are_told_apart_and_the_requests_of_all_count() {
        let inside = Inside::new();
        let mut bytes = [0; 16];
        for number in 0..PASSES_MAX as u32 + 50 {
            bytes[4..8].copy_from_slice(&number.to_le_bytes());
            inside.saw(Mono::default(), PassId(bytes));
        }

        let said = inside.take(Mono::default());

        assert_eq!(said.active, PASSES_MAX as u64);
        assert_eq!(said.requests, PASSES_MAX as u64 + 50);
    }
}
