//! How much of the work was worth something to its callers.

use std::time::Duration;

use crate::time::Mono;

/// A count begins anew after this time.
const WINDOW: Duration = Duration::from_secs(1);

/// The part of the work that was in time, over the last one to two seconds in which any ended.
///
/// For those who look on: whether to escape goes by counts of its own.
#[derive(Debug, Default)]
pub(super) struct Worth {
    since: Mono,
    counts: Counts,
    before: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    in_time: u32,
    late: u32,
}

impl Worth {
    /// Work has ended, or nobody waits for it any more.
    pub(super) fn ended(&mut self, now: Mono, in_time: bool) {
        let age = now.since(self.since);
        if age >= WINDOW {
            self.before = if age < 2 * WINDOW {
                self.counts
            } else {
                Counts::default()
            };
            self.counts = Counts::default();
            self.since = now;
        }
        let counter = if in_time {
            &mut self.counts.in_time
        } else {
            &mut self.counts.late
        };
        *counter = counter.saturating_add(1);
    }

    /// `None` before any has ended.
    pub(super) fn part_in_time(&self) -> Option<f64> {
        let Counts { in_time, late } = self.counts;
        let in_time = f64::from(in_time) + f64::from(self.before.in_time);
        let all = in_time + f64::from(late) + f64::from(self.before.late);
        (all > 0.0).then(|| in_time / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_about_the_last_work_however_long_ago() {
        let mut worth = Worth::default();
        assert_eq!(worth.part_in_time(), None);
        for (at, in_time, part) in [
            (5000, true, 1.0),
            (5999, false, 0.5),
            (6000, false, 1.0 / 3.0),
            (7000, false, 0.0),
            (60_000, true, 1.0),
        ] {
            worth.ended(Mono::from_millis(at), in_time);
            assert_eq!(worth.part_in_time(), Some(part), "{at}");
        }
    }
}
