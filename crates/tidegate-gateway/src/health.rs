//! What health probes are told about, and how often they may ask from just anywhere.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::time::Mono;

/// Probes answered per second from outside the probe networks; also how many at once.
const PROBES_PER_SECOND: u64 = 50;

/// A thread whose loop has not come round for this long is stuck.
const LOOP_SILENCE_MAX: Duration = Duration::from_secs(1);

/// The process's health as probes see it.
#[derive(Debug)]
pub struct Health {
    /// When each thread's loop last came round.
    beats: Vec<AtomicU64>,
    shedding: AtomicBool,
    allowance: Mutex<Allowance>,
}

/// A bucket of probes: one second's worth, filled as time goes by.
#[derive(Debug)]
struct Allowance {
    nanos: u64,
    filled_at: Mono,
}

const PROBE_NANOS: u64 = 1_000_000_000 / PROBES_PER_SECOND;
const ALLOWANCE_NANOS_MAX: u64 = 1_000_000_000;

impl Health {
    /// The health of `threads` threads that are about to start.
    pub fn new(threads: usize, now: Mono) -> Self {
        Self {
            beats: (0..threads)
                .map(|_| AtomicU64::new(now.as_nanos()))
                .collect(),
            shedding: AtomicBool::new(false),
            allowance: Mutex::new(Allowance {
                nanos: ALLOWANCE_NANOS_MAX,
                filled_at: now,
            }),
        }
    }

    /// The loop of `thread` has come round.
    pub(crate) fn beat(&self, thread: usize, now: Mono) {
        self.beats[thread].store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Whether the loop of every thread comes round.
    pub(crate) fn is_alive(&self, now: Mono) -> bool {
        self.beats.iter().all(|beat| {
            now.since(Mono::from_nanos(beat.load(Ordering::Relaxed))) <= LOOP_SILENCE_MAX
        })
    }

    /// Notes whether requests were refused for want of capacity of late.
    pub(crate) fn set_shedding(&self, shedding: bool) {
        self.shedding.store(shedding, Ordering::Relaxed);
    }

    /// Whether requests were refused for want of capacity of late.
    pub(crate) fn is_shedding(&self) -> bool {
        self.shedding.load(Ordering::Relaxed)
    }

    /// Whether one more probe from outside the probe networks is answered now.
    pub(crate) fn take_probe(&self, now: Mono) -> bool {
        self.allowance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(now)
    }
}

impl Allowance {
    fn take(&mut self, now: Mono) -> bool {
        let elapsed = now.since(self.filled_at).as_nanos();
        let filled = u128::from(self.nanos) + elapsed;
        self.nanos = u64::try_from(filled)
            .unwrap_or(u64::MAX)
            .min(ALLOWANCE_NANOS_MAX);
        self.filled_at = self.filled_at.max(now);
        match self.nanos.checked_sub(PROBE_NANOS) {
            Some(left) => {
                self.nanos = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_from_anywhere_are_answered_so_often_and_no_more() {
        let at = Mono::from_millis;
        let health = Health::new(1, at(0));

        let at_once = (0..1_000).filter(|_| health.take_probe(at(0))).count();
        let a_second_later = (0..1_000).filter(|_| health.take_probe(at(1_000))).count();
        let soon_after = (0..1_000).filter(|_| health.take_probe(at(1_100))).count();

        assert_eq!((at_once, a_second_later, soon_after), (50, 50, 5));
    }

    #[test]
    fn one_silent_loop_is_one_too_many() {
        let at = Mono::from_millis;
        let health = Health::new(2, at(0));
        health.beat(0, at(1_500));
        assert!(!health.is_alive(at(1_501)));

        health.beat(1, at(1_500));

        assert!(health.is_alive(at(1_501)));
    }
}
