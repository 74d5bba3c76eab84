//! Who was called, until when they may come, and how often they were given more time.

use super::Place;
use super::place::millis;
use super::scored::Scored;
use crate::time::Wall;

/// Most times that more time is given for one call.
pub const EXTENSIONS_MAX: u8 = 9;

/// A call and its extensions are one number: sixteenths of a millisecond, of which the last ones are how often.
const TIMES: u64 = 16;

/// Somebody who was called was given more time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// Until then they may go in, in milliseconds since 1970.
    pub until_ms: u64,
    /// How many more times they can have more.
    pub left: u8,
}

/// Those who were called and have not come yet. What is known of a call takes no more room when it is extended, and goes
/// with the call.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Scored);

impl Calls {
    /// Calls `place`, which may come until `until_ms`. It has had no more time yet.
    pub(super) fn put(&mut self, place: Place, until_ms: u64) {
        self.0.put(place, score(until_ms, 0));
    }

    /// Until when `place` may come, in milliseconds since 1970.
    pub(super) fn until_ms(&self, place: Place) -> Option<u64> {
        self.0.score(place).map(|score| score / TIMES)
    }

    /// Takes the call back, with whatever more time it was given.
    pub(super) fn remove(&mut self, place: Place) {
        self.0.remove(place);
    }

    /// Gives `place` `claim_ms` from now on, never less than it has, `most` times at most.
    pub(super) fn extend(
        &mut self,
        now: Wall,
        place: Place,
        claim_ms: u64,
        most: u8,
    ) -> Option<Extended> {
        let was = self.0.score(place)?;
        let (until_ms, had) = (was / TIMES, was % TIMES);
        let left = u64::from(most.min(EXTENSIONS_MAX)).checked_sub(had + 1)?;
        if until_ms <= millis(now) {
            return None;
        }
        let until_ms = until_ms.max(millis(now).saturating_add(claim_ms));
        self.0.put(place, score(until_ms, had + 1));
        Some(Extended {
            until_ms,
            left: left as u8,
        })
    }

    /// So many at most that did not come in time, who had the least first.
    pub(super) fn overdue(&self, now: Wall, most: usize) -> Vec<Place> {
        self.0.upto(score(millis(now), TIMES - 1), most)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

const fn score(until_ms: u64, times: u64) -> u64 {
    until_ms.saturating_mul(TIMES).saturating_add(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Place = Place(1);
    const B: Place = Place(2);

    fn at(ms: u64) -> Wall {
        Wall::from_micros(ms * 1_000)
    }

    #[test]
    fn more_time_is_from_now_on_never_less_and_not_after_the_end() {
        let mut calls = Calls::default();
        calls.put(A, 100);
        let mut extend = |now, ms| calls.extend(at(now), A, ms, 5);

        let until = |until_ms, left| Some(Extended { until_ms, left });
        assert_eq!(extend(50, 100), until(150, 4));
        assert_eq!(extend(60, 10), until(150, 3));
        assert_eq!(extend(149, 1), until(150, 2));
        assert_eq!(extend(150, 100), None);
        assert_eq!(calls.until_ms(A), Some(150));
        assert_eq!(calls.extend(at(0), B, 100, 5), None, "it was not called");
    }

    #[test]
    fn so_many_times_and_no_more_and_another_call_begins_anew() {
        let mut calls = Calls::default();
        for _ in 0..2 {
            calls.put(A, 100);
            assert_eq!(calls.extend(at(1), A, 100, 0), None);
            let lefts = [0; 12].map(|_| calls.extend(at(1), A, 100, 200).map(|it| it.left));
            let given: Vec<_> = lefts.into_iter().map_while(|left| left).collect();
            assert_eq!(given, [8, 7, 6, 5, 4, 3, 2, 1, 0]);
            assert_eq!(lefts[9..], [None; 3]);
            calls.remove(A);
            assert_eq!(calls.len(), 0);
        }
    }

    #[test]
    fn whoever_had_more_time_is_overdue_with_the_others_and_behind_them() {
        let mut calls = Calls::default();
        calls.put(A, 100);
        calls.put(B, 100);
        calls.extend(at(1), A, 1, 9);

        assert_eq!(calls.overdue(at(99), 9), []);
        assert_eq!(calls.overdue(at(100), 9), [B, A]);
        assert_eq!(calls.overdue(at(100), 1), [B]);
    }
}
