//! Of which class there is more than can be served, and not by chance.

use std::time::Duration;

use crate::facts::Class;
use crate::time::Mono;

/// A surplus has lasted once some have been turned away for so many longest waits. A burst or a pause
/// of the application is over sooner, and first come first served loses the fewest then.
const LASTING: u32 = 4;

/// It is over once nobody has been turned away for so many: a surplus of a few per cent has lulls.
const OVER: u32 = 10;

/// What has been started and turned away lately, by class.
#[derive(Debug, Default)]
pub(super) struct Surplus {
    started: [Option<Mono>; Class::COUNT],
    turned_away: [Option<Streak>; Class::COUNT],
}

/// Some were turned away, again and again.
#[derive(Clone, Copy, Debug)]
struct Streak {
    since: Mono,
    last: Mono,
}

impl Surplus {
    /// A request of `class` got a slot.
    pub(super) const fn started(&mut self, now: Mono, class: Class) {
        self.started[class.index()] = Some(now);
    }

    /// A request of `class` is refused, or has waited in vain.
    pub(super) fn turned_away(&mut self, now: Mono, class: Class, wait_max: Duration) {
        let streak = &mut self.turned_away[class.index()];
        let since = streak
            .filter(|streak| now.since(streak.last) <= wait_max * OVER)
            .map_or(now, |streak| streak.since);
        *streak = Some(Streak { since, last: now });
    }

    /// Whether there is lastingly more of `class` than can be served: some of it are turned away
    /// again and again, and nothing lower, which would be turned away first, has been started for as
    /// long as anybody waits. That only lower classes are turned away is no sign: a burst of those
    /// above keeps them out for as long too, and everybody else is served in time.
    pub(super) fn is_of(&self, now: Mono, class: Class, wait_max: Duration) -> bool {
        let lower = &self.started[class.index() + 1..];
        let lasts = |streak: Streak| {
            streak.last.since(streak.since) >= wait_max * LASTING
                && now.since(streak.last) <= wait_max * OVER
        };
        self.turned_away[class.index()].is_some_and(lasts)
            && lower.iter().flatten().all(|&at| now.since(at) > wait_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_millis(100);

    /// Somebody of `class` is turned away every 50 ms from 0 to `until`, in milliseconds.
    fn turn_away(surplus: &mut Surplus, class: Class, until: u64) {
        for millis in (0..=until).step_by(50) {
            surplus.turned_away(Mono::from_millis(millis), class, WAIT);
        }
    }

    fn is_of(surplus: &Surplus, millis: u64, class: Class) -> bool {
        surplus.is_of(Mono::from_millis(millis), class, WAIT)
    }

    #[test]
    fn there_is_too_much_of_a_class_that_is_turned_away_for_four_longest_waits() {
        let mut surplus = Surplus::default();

        turn_away(&mut surplus, Class::SignedIn, 350);
        assert!(!is_of(&surplus, 350, Class::SignedIn));

        turn_away(&mut surplus, Class::SignedIn, 400);
        assert!(is_of(&surplus, 400, Class::SignedIn));
        assert!(is_of(&surplus, 1400, Class::SignedIn));
        assert!(!is_of(&surplus, 1401, Class::SignedIn));
    }

    #[test]
    fn two_bursts_with_a_rest_between_them_are_no_lasting_surplus() {
        let mut surplus = Surplus::default();

        surplus.turned_away(Mono::from_millis(0), Class::SignedIn, WAIT);
        surplus.turned_away(Mono::from_millis(1001), Class::SignedIn, WAIT);

        assert!(!is_of(&surplus, 1001, Class::SignedIn));
    }

    #[test]
    fn a_class_is_not_the_one_there_is_too_much_of_while_a_lower_one_is_served() {
        let mut surplus = Surplus::default();

        turn_away(&mut surplus, Class::SignedIn, 500);
        surplus.started(Mono::from_millis(500), Class::Background);

        assert!(!is_of(&surplus, 600, Class::SignedIn));
        assert!(is_of(&surplus, 601, Class::SignedIn));
    }

    #[test]
    fn a_lower_class_that_is_turned_away_says_nothing_about_a_higher_one() {
        let mut surplus = Surplus::default();

        turn_away(&mut surplus, Class::Background, 500);

        assert!(!is_of(&surplus, 500, Class::SignedIn));
    }

    #[test]
    fn a_higher_class_that_is_turned_away_says_nothing_about_a_lower_one() {
        let mut surplus = Surplus::default();

        turn_away(&mut surplus, Class::Critical, 500);

        assert!(!is_of(&surplus, 500, Class::SignedIn));
    }
}
