//! What a shared store has refused a moment ago, so that whoever keeps asking costs it nothing.
//!
//! A limit that refuses a cost and names a wait refuses it until then, and every higher one, whatever others do: they can only
//! spend more. Only what is given back or forgotten changes that, and another limit under the same key. What
//! this node does of it, it knows; what others do shows when the store is asked again, after a second at the latest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use tidegate_core::rate::{Short, Spec, Tick};

use super::{Asked, Said};

/// Refusals, a bounded number of them.
pub(super) struct Denied {
    /// A power of two of them.
    sets: Box<[Mutex<Set>]>,
    used: AtomicU64,
}

/// The refusals of some keys.
#[derive(Default)]
struct Set {
    refusals: [Option<Refusal>; WAYS],
    /// How often something was cleared here.
    clearings: u32,
}

/// A refusal.
#[derive(Clone, Copy)]
struct Refusal {
    key: u128,
    /// By which limit.
    spec: Spec,
    /// Of this cost and any higher one.
    cost: u64,
    /// Whole tokens that were there.
    remaining: u64,
    /// The cost will be there then, by this node's clock, or a moment earlier.
    due: Tick,
    /// It is believed until then.
    until: Tick,
}

/// What a question is asked under, so that its answer is not believed after something was cleared that it may not know of.
#[derive(Clone, Copy)]
pub(super) struct Mark(u32);

/// Most refusals: about 350 kB of them.
const REFUSALS_MAX: usize = 4_096;
/// Refusals in a set.
const WAYS: usize = 4;
/// Longest time for which one is believed.
const BELIEVED_US_MAX: u64 = 1_000_000;

impl Denied {
    pub(super) fn new() -> Self {
        Self {
            sets: (0..REFUSALS_MAX / WAYS).map(|_| Mutex::default()).collect(),
            used: AtomicU64::new(0),
        }
    }

    /// The refusal of what is `asked`, if it is known.
    pub(super) fn refuses(&self, asked: &Asked<'_>, now: Tick) -> Option<Said> {
        let set = self.set(asked.key);
        let of_key = |it: &&Refusal| it.key == asked.key;
        let refusal = set.refusals.iter().flatten().find(of_key)?;
        if refusal.spec != **asked.spec || asked.cost < refusal.cost || refusal.until <= now {
            return None;
        }
        let more_us = longer(&refusal.spec, asked.cost - refusal.cost)?;
        self.used.fetch_add(1, Ordering::Relaxed);
        Some(Said::Short {
            short: Short::Wait {
                wait_us: refusal.due.since(now).saturating_add(more_us),
            },
            remaining: refusal.remaining,
        })
    }

    /// To be taken before `key` is asked about.
    pub(super) fn mark(&self, key: u128) -> Mark {
        Mark(self.set(key).clearings)
    }

    /// Remembers that what was `asked` has been refused and `now` is to wait, unless something was cleared since `mark`.
    pub(super) fn note(&self, asked: &Asked<'_>, said: Said, mark: Mark, now: Tick) {
        let Said::Short {
            short: Short::Wait { wait_us },
            remaining,
        } = said
        else {
            return;
        };
        let mut set = self.set(asked.key);
        if set.clearings != mark.0 {
            return;
        }
        let refusal = Refusal {
            key: asked.key,
            spec: **asked.spec,
            cost: asked.cost,
            remaining,
            due: now.plus(wait_us),
            until: now.plus(wait_us.min(BELIEVED_US_MAX)),
        };
        let of_key = |it: &Option<Refusal>| it.is_some_and(|it| it.key == asked.key);
        // The one that is believed for the shortest time makes room, those before all that nobody believes.
        let place = match set.refusals.iter().position(of_key) {
            Some(place) => Some(place),
            None => (0..WAYS).min_by_key(|&place| set.refusals[place].map(|it| it.until)),
        };
        set.refusals[place.expect("a set is not empty")] = Some(refusal);
    }

    /// Forgets what was refused of `key`: its limit may have become fuller than by time.
    pub(super) fn clear(&self, key: u128) {
        let mut set = self.set(key);
        set.clearings = set.clearings.wrapping_add(1);
        for refusal in &mut set.refusals {
            if refusal.is_some_and(|it| it.key == key) {
                *refusal = None;
            }
        }
    }

    /// How often a refusal was known.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn set(&self, key: u128) -> MutexGuard<'_, Set> {
        let set = key as usize & (self.sets.len() - 1);
        let set = self.sets[set].lock();
        set.expect("nobody panics while holding it")
    }
}

/// By how many microseconds `more` tokens come later, or `None` if that depends on what was spent when.
fn longer(spec: &Spec, more: u64) -> Option<u64> {
    match spec {
        _ if more == 0 => Some(0),
        Spec::Bucket(spec) => {
            let credits = u128::from(more) * u128::from(spec.credits_per_token());
            let more_us = credits.div_ceil(u128::from(spec.credits_per_us()));
            Some(u64::try_from(more_us).unwrap_or(u64::MAX))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_core::rate::Algorithm;
    use tidegate_core::rate::set::Standing;
    use tidegate_core::session::SlotTag;

    use super::*;

    fn spec(algorithm: Algorithm, rate: &str) -> Arc<Spec> {
        Arc::new(Spec::new(algorithm, rate.parse().unwrap(), None).unwrap())
    }

    fn asked(key: u128, spec: &Arc<Spec>, cost: u64) -> Asked<'_> {
        Asked {
            key,
            tag: SlotTag::from_bits(0),
            spec,
            cost,
            standing: Standing::Enforced,
        }
    }

    fn short(wait_us: u64) -> Said {
        Said::Short {
            short: Short::Wait { wait_us },
            remaining: 0,
        }
    }

    fn refuse(denied: &Denied, asked: &Asked<'_>, wait_us: u64, now: Tick) {
        denied.note(asked, short(wait_us), denied.mark(asked.key), now);
    }

    #[test]
    fn a_refusal_holds_for_its_wait_and_for_costs_as_high() {
        let (denied, bucket) = (Denied::new(), spec(Algorithm::Bucket, "10/s"));
        refuse(&denied, &asked(1, &bucket, 2), 150_000, Tick(0));

        let two = asked(1, &bucket, 2);
        assert_eq!(denied.refuses(&two, Tick(50_000)), Some(short(100_000)));
        let three = asked(1, &bucket, 3);
        assert_eq!(denied.refuses(&three, Tick(50_000)), Some(short(200_000)));
        let one = asked(1, &bucket, 1);
        assert_eq!(denied.refuses(&one, Tick(50_000)), None);
        assert_eq!(denied.refuses(&asked(2, &bucket, 2), Tick(50_000)), None);
        assert_eq!(denied.refuses(&two, Tick(150_000)), None);
        assert_eq!(denied.used(), 2);
    }

    #[test]
    fn a_log_says_of_a_higher_cost_nothing_that_it_was_not_asked() {
        let (denied, log) = (Denied::new(), spec(Algorithm::Log, "10/s"));
        refuse(&denied, &asked(1, &log, 2), 150_000, Tick(0));

        let one_more = denied.refuses(&asked(1, &log, 3), Tick(0));

        assert_eq!(one_more, None);
        assert!(denied.refuses(&asked(1, &log, 2), Tick(0)).is_some());
    }

    #[test]
    fn a_long_wait_is_asked_about_again_after_a_second() {
        let (denied, slow) = (Denied::new(), spec(Algorithm::Bucket, "1/h"));
        let it = asked(1, &slow, 1);
        refuse(&denied, &it, 3_600_000_000, Tick(0));

        let told = denied.refuses(&it, Tick(999_999));

        assert_eq!(told, Some(short(3_599_000_001)));
        assert_eq!(denied.refuses(&it, Tick(1_000_000)), None);
    }

    #[test]
    fn another_limit_may_think_otherwise() {
        let (denied, slow) = (Denied::new(), spec(Algorithm::Bucket, "1/min"));
        let (fast, same) = (
            spec(Algorithm::Bucket, "9/min"),
            spec(Algorithm::Bucket, "1/min"),
        );
        refuse(&denied, &asked(1, &slow, 1), 900_000, Tick(0));

        assert_eq!(denied.refuses(&asked(1, &fast, 1), Tick(0)), None);
        assert!(denied.refuses(&asked(1, &same, 1), Tick(0)).is_some());
    }

    #[test]
    fn what_is_cleared_meanwhile_is_not_believed() {
        let (denied, bucket) = (Denied::new(), spec(Algorithm::Bucket, "1/s"));
        let it = asked(1, &bucket, 1);
        refuse(&denied, &it, 900_000, Tick(0));
        let mark = denied.mark(1);

        denied.clear(1);

        assert_eq!(denied.refuses(&it, Tick(0)), None);
        denied.note(&it, short(900_000), mark, Tick(0));
        assert_eq!(denied.refuses(&it, Tick(0)), None);
        refuse(&denied, &it, 900_000, Tick(0));
        assert!(denied.refuses(&it, Tick(0)).is_some());
    }

    #[test]
    fn those_that_are_over_soonest_make_room() {
        let (denied, bucket) = (Denied::new(), spec(Algorithm::Bucket, "1/s"));
        let keys: Vec<u128> = (0..=WAYS as u128)
            .map(|n| n * REFUSALS_MAX as u128)
            .collect();
        for (n, &key) in (1..).zip(&keys) {
            refuse(&denied, &asked(key, &bucket, 1), 100_000 * n, Tick(0));
        }

        let known = |key| denied.refuses(&asked(key, &bucket, 1), Tick(0)).is_some();

        assert!(!known(keys[0]));
        assert!(keys[1..].iter().all(|&key| known(key)));
    }
}
