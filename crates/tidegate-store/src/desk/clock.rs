//! What time it is in the store.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_core::time::Wall;

/// A reply that seems later than this is not late: a clock was set.
const LATE_MICROS_MAX: i64 = 2_000_000;
/// Of what a late reply says so small a part is believed.
const BELIEVED: i64 = 256;

/// The store's clock, as far as its replies tell; this machine's until the first reply.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// By how much the store is ahead of this machine.
    ahead_micros: AtomicI64,
}

impl Clock {
    /// Notes that it was `now` in the store a moment ago. Replies come late, not early: the one that
    /// says that the store is further ahead is the better one, and is believed more than others
    /// until they add up.
    pub(super) fn note(&self, now: Wall) {
        let said = (now.as_micros() as i64).wrapping_sub(here_micros());
        let known = self.ahead_micros.load(Ordering::Relaxed);
        let behind = known.saturating_sub(said);
        let believed = if (0..LATE_MICROS_MAX).contains(&behind) {
            known - behind / BELIEVED
        } else {
            said
        };
        self.ahead_micros.store(believed, Ordering::Relaxed);
    }

    /// What time it is in the store.
    pub(super) fn now(&self) -> Wall {
        let ahead = self.ahead_micros.load(Ordering::Relaxed);
        Wall::from_micros(here_micros().wrapping_add(ahead).max(0) as u64)
    }
}

fn here_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_follows_the_store_however_wrong_this_machine_is() {
        let clock = Clock::default();
        let store = Wall::from_micros(1_795_000_000_000_000);

        clock.note(store);

        assert!(clock.now().since(store) < Duration::from_secs(5));
        assert!(store.since(clock.now()) < Duration::from_secs(5));
    }

    #[test]
    fn a_late_reply_sets_it_back_only_a_little() {
        let clock = Clock::default();
        let store = Wall::from_micros(1_795_000_000_000_000);
        clock.note(store);
        let before = clock.ahead_micros.load(Ordering::Relaxed);

        let late = Wall::from_micros(store.as_micros() - 500_000);
        clock.note(late);

        let after = clock.ahead_micros.load(Ordering::Relaxed);
        assert!((before - 500_000 / BELIEVED - 200_000..=before).contains(&after));
    }
}
