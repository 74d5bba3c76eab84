//! How much the application finishes.

use crate::time::Mono;

/// Completions per second, counted over whole seconds.
#[derive(Debug, Default)]
pub(super) struct Throughput {
    since: Mono,
    count: u32,
    /// Over the last whole second that saw one.
    pub(super) per_second: f64,
}

impl Throughput {
    /// One more.
    pub(super) fn count(&mut self, now: Mono) {
        let elapsed = now.since(self.since).as_secs_f64();
        if elapsed >= 1.0 {
            self.per_second = f64::from(self.count) / elapsed;
            self.count = 0;
            self.since = now;
        }
        self.count = self.count.saturating_add(1);
    }
}
