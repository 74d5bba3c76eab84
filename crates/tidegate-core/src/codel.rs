//! CoDel over a queue of requests (Nichols and Jacobson, RFC 8289): when even the shortest wait of an
//! interval was over the target, drop at dequeue, more often the longer that lasts.

use std::time::Duration;

use crate::time::Mono;

/// The control law's state for one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoDel {
    /// When the wait will have been over the target for an interval; `None` while it is under.
    above_until: Option<Mono>,
    dropping: bool,
    drop_next: Mono,
    /// Drops since dropping began.
    count: u32,
}

impl CoDel {
    /// Whether the request that leaves the queue at `now` after `waited` is to be dropped.
    pub(crate) fn drops(
        &mut self,
        now: Mono,
        waited: Duration,
        target: Duration,
        interval: Duration,
    ) -> bool {
        if waited < target {
            self.above_until = None;
            self.dropping = false;
            return false;
        }
        let Some(above_until) = self.above_until else {
            self.above_until = Some(now + interval);
            return false;
        };
        if now < above_until {
            return false;
        }

        if !self.dropping {
            self.dropping = true;
            // Coming back soon after the last episode, it goes on near the rate it had reached.
            let recent = now.since(self.drop_next) < interval.saturating_mul(16);
            self.count = if recent && self.count > 2 {
                self.count - 2
            } else {
                1
            };
        } else if now >= self.drop_next {
            self.count = self.count.saturating_add(1);
        } else {
            return false;
        }
        self.drop_next = now + interval.div_f64(f64::from(self.count).sqrt());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(50);
    const INTERVAL: Duration = Duration::from_millis(500);

    #[test]
    fn a_burst_shorter_than_the_interval_loses_nothing() {
        let mut codel = CoDel::default();
        let late = Duration::from_millis(90);

        let drops =
            (0..490).filter(|&ms| codel.drops(Mono::from_millis(ms), late, TARGET, INTERVAL));

        assert_eq!(drops.count(), 0);
    }

    #[test]
    fn a_standing_queue_is_dropped_from_faster_and_faster_until_it_is_gone() {
        let mut codel = CoDel::default();
        let late = Duration::from_millis(90);
        let drops: Vec<u64> = (0..3000)
            .filter(|&ms| codel.drops(Mono::from_millis(ms), late, TARGET, INTERVAL))
            .collect();

        let gaps: Vec<u64> = drops.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.len() > 5, "{drops:?}");
        assert!(gaps.windows(2).all(|pair| pair[1] <= pair[0]), "{gaps:?}");
        assert!(!codel.drops(Mono::from_millis(3001), Duration::ZERO, TARGET, INTERVAL));
        assert!(!codel.drops(Mono::from_millis(3002), late, TARGET, INTERVAL));
    }
}
