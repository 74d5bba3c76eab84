//! So many answers in each second of the clock.

use tidegate_core::time::Mono;

const SECOND: u64 = 1_000_000_000;

/// What is left of the present second. A second begins with its whole number: what comes at 1.0 s
/// belongs to the one from 1 to 2.
#[derive(Debug)]
pub(super) struct Quota {
    per_second: u32,
    second: u64,
    used: u32,
}

impl Quota {
    pub(super) const fn new(per_second: u32) -> Self {
        Self {
            per_second,
            second: 0,
            used: 0,
        }
    }

    pub(super) const fn resize(&mut self, per_second: u32) {
        self.per_second = per_second;
    }

    /// Whether there is one left at `now`; takes it.
    pub(super) const fn take(&mut self, now: Mono) -> bool {
        let second = now.as_nanos() / SECOND;
        if second > self.second {
            self.second = second;
            self.used = 0;
        }
        let left = self.used < self.per_second;
        if left {
            self.used += 1;
        }
        left
    }
}
