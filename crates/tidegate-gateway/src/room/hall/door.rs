//! How many come in at this gateway: its part of the rate.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::time::Mono;

/// So much more than its part may come to one gateway of those who were called: they do not come evenly to all.
const CLAIMS_OVER: f64 = 1.1;
/// So many of them may come at once, or as many as in a second.
const CLAIMS_BURST: f64 = 5.0;
/// However little there is to spare, those who were called before get in: so many a second.
const CLAIMS_MIN: f64 = 0.2;
/// Who was called was called at the rate of then, and may come for a while. A greater part wears off over this time.
const CLAIMS_HELD: Duration = Duration::from_secs(30);
/// Nobody is told to come again later than after that.
const CLAIMS_WAIT_MAX: Duration = Duration::from_secs(30);
/// What should be whole may be a hair less.
const HAIR: f64 = 1e-9;

/// The door of one gateway. Nothing is waited for under its lock.
pub(crate) struct Door(Mutex<Doors>);

struct Doors {
    at: Mono,
    /// Those who go in without waiting, and those who were called.
    admits: Bucket,
    claims: Bucket,
}

struct Bucket {
    per_second: f64,
    most: f64,
    tokens: f64,
}

impl Door {
    /// One that lets nobody in before its part is set, but a few who were called.
    pub(crate) fn new() -> Self {
        let bucket = |per_second, most| Bucket {
            per_second,
            most,
            tokens: most,
        };
        Self(Mutex::new(Doors {
            at: Mono::default(),
            admits: bucket(0.0, 0.0),
            claims: bucket(CLAIMS_MIN, CLAIMS_BURST),
        }))
    }

    /// From `now` on so many may come in per second.
    pub(crate) fn set(&self, now: Mono, per_second: f64) {
        let part = if per_second.is_finite() {
            per_second.max(0.0)
        } else {
            0.0
        };
        let mut doors = self.lock();
        let span = doors.refill(now);
        let most = if part > 0.0 { part.max(1.0) } else { 0.0 };
        doors.admits.set(part, most);
        let kept = (-span.as_secs_f64() / CLAIMS_HELD.as_secs_f64()).exp();
        let held = doors.claims.per_second * kept;
        let claims = (CLAIMS_OVER * part).max(held).max(CLAIMS_MIN);
        doors.claims.set(claims, claims.max(CLAIMS_BURST));
    }

    /// Lets one in without waiting. What is refused has cost nothing.
    pub(crate) fn admits(&self, now: Mono) -> bool {
        let mut doors = self.lock();
        doors.refill(now);
        doors.admits.take().is_ok()
    }

    /// Lets one in who was called, or says in how long there will be room.
    pub(crate) fn claims(&self, now: Mono) -> Result<(), Duration> {
        let mut doors = self.lock();
        doors.refill(now);
        doors
            .claims
            .take()
            .map_err(|wait| wait.min(CLAIMS_WAIT_MAX))
    }

    fn lock(&self) -> MutexGuard<'_, Doors> {
        // Numbers are all there is: none of them is half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Doors {
    /// Fills up what has come together by `now`; how long that was.
    fn refill(&mut self, now: Mono) -> Duration {
        let span = now.since(self.at);
        self.at = self.at.max(now);
        for bucket in [&mut self.admits, &mut self.claims] {
            let filled = bucket.tokens + bucket.per_second * span.as_secs_f64();
            bucket.tokens = filled.min(bucket.most);
        }
        span
    }
}

impl Bucket {
    fn set(&mut self, per_second: f64, most: f64) {
        self.per_second = per_second;
        self.most = most;
        self.tokens = self.tokens.min(most);
    }

    fn take(&mut self) -> Result<(), Duration> {
        if self.tokens < 1.0 - HAIR {
            let wait = (1.0 - self.tokens) / self.per_second.max(HAIR);
            // Rounded up, so that what is promised is enough.
            return Err(Duration::from_secs_f64(wait.min(1e6)) + Duration::from_nanos(1));
        }
        self.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    fn admitted(door: &Door, now: Mono) -> u32 {
        (0..1_000).filter(|_| door.admits(now)).count() as u32
    }

    #[test]
    fn nobody_goes_in_before_the_part_is_known() {
        let door = Door::new();

        assert!(!door.admits(at(60_000)));
        assert!(door.claims(at(60_000)).is_ok(), "who was called may");
    }

    #[test]
    fn its_part_goes_in_and_a_second_of_it_at_once() {
        let door = Door::new();
        door.set(at(0), 20.0);

        assert_eq!(admitted(&door, at(0)), 0);
        assert_eq!(admitted(&door, at(500)), 10);
        assert_eq!(admitted(&door, at(60_000)), 20, "a rest saves a second");
        door.set(at(60_000), 0.0);
        assert_eq!(admitted(&door, at(90_000)), 0);
    }

    #[test]
    fn a_part_below_one_a_second_lets_one_in_every_now_and_then() {
        let door = Door::new();
        door.set(at(0), 0.25);

        let times: Vec<u64> = (0..=120)
            .map(|tenth| 100 * tenth)
            .filter(|ms| door.admits(at(*ms)))
            .collect();

        assert_eq!(times, [4_000, 8_000, 12_000]);
    }

    #[test]
    fn who_was_called_is_told_when_there_is_room() {
        let door = Door::new();
        door.set(at(0), 10.0);
        door.set(at(1_000), 10.0);
        let now = at(2_000);

        let let_in = (0..100).filter(|_| door.claims(now).is_ok()).count();
        let wait = door.claims(now).unwrap_err();

        assert_eq!(let_in, 11, "a tenth more than its part");
        assert!(door.claims(now + wait).is_ok());
        assert!(door.claims(now + wait).is_err());
    }

    #[test]
    fn who_was_called_before_the_rate_fell_still_gets_in() {
        let door = Door::new();
        door.set(at(0), 100.0);

        door.set(at(1_000), 0.0);
        door.set(at(2_000), 0.0);

        let let_in = (0..1_000).filter(|_| door.claims(at(3_000)).is_ok());
        let let_in = let_in.count();
        assert!((90..=110).contains(&let_in), "{let_in}");
        for second in 3..600 {
            door.set(at(1_000 * second), 0.0);
        }
        while door.claims(at(600_000)).is_ok() {}
        let wait = door.claims(at(600_000)).unwrap_err();
        assert!(wait <= Duration::from_millis(5_001), "{wait:?}");
    }
}
