//! A time in which nothing in the shop moves.

use std::time::Duration;

use tokio::time::Instant;

/// The latest stall, over or not. One that begins before the last has ended makes it longer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall(Option<(Instant, Instant)>);

impl Stall {
    /// Nothing moves for `lasts` from `now` on.
    pub(super) fn begin(&mut self, now: Instant, lasts: Duration) {
        let from = match self.0 {
            Some((from, to)) if now < to => from,
            _ => now,
        };
        self.0 = Some((from, now + lasts));
    }

    /// When work that began at `begun` and would have ended at `end` does end, as far as is known
    /// now, and how long it stands still before that.
    pub(super) fn end(&self, begun: Instant, end: Instant) -> (Instant, Duration) {
        match self.0 {
            Some((from, to)) if from < end && begun < to => {
                let stalled = to - from.max(begun);
                (end + stalled, stalled)
            }
            _ => (end, Duration::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn work_is_held_up_by_what_it_meets_of_a_stall() {
        let start = Instant::now();
        let mut stall = Stall::default();
        assert_eq!(stall.end(start, start + ms(50)), (start + ms(50), ms(0)));

        stall.begin(start + ms(20), ms(100));

        assert_eq!(stall.end(start, start + ms(50)), (start + ms(150), ms(100)));
        let meanwhile = start + ms(70);
        assert_eq!(
            stall.end(meanwhile, meanwhile + ms(50)),
            (start + ms(170), ms(50))
        );
        let before = (start, start + ms(20));
        let after = (start + ms(120), start + ms(170));
        for (begun, end) in [before, after] {
            assert_eq!(stall.end(begun, end), (end, ms(0)));
        }
    }

    #[test]
    fn a_stall_in_a_stall_makes_it_longer() {
        let start = Instant::now();
        let mut stall = Stall::default();
        stall.begin(start, ms(100));
        stall.begin(start + ms(60), ms(100));

        assert_eq!(stall.end(start, start + ms(50)), (start + ms(210), ms(160)));
    }
}
