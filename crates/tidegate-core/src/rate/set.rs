//! Several limits on one request: either each of them is spent from, or none is.
//!
//! All are asked with one `now` before any is spent from, so a request that the last one refuses has cost the first
//! nothing. A limit in the shadow is asked like the others and keeps a state of its own, but what it
//! says is only counted.

use super::{Short, Spec, State, Tick};

/// The most limits on one request.
pub const LIMITS_MAX: usize = 32;

/// One limit of a request.
#[derive(Debug)]
pub struct Member<'a> {
    /// What it allows.
    pub spec: &'a Spec,
    /// What was used of it, for the key of this request.
    pub state: &'a mut State,
    /// What the request costs.
    pub cost: u64,
    /// Whether it decides.
    pub standing: Standing,
}

/// Whether what a limit says is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// A request that it refuses does not pass.
    Enforced,
    /// It is spent from when the request passes and it would have let it pass.
    Shadow,
}

/// Some of the limits of a request, by their places in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Places(u32);

/// The request passes. Holds what was spent, for giving it back or settling it, each at most once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what was spent can be given back or settled"]
pub struct Spent {
    from: Places,
    at: Tick,
    /// Those in the shadow that would have refused.
    pub shadowed: Places,
}

/// The request does not pass, and nothing was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// All that refuse.
    pub by: Places,
    /// The place of the one with the longest wait; the first of several.
    pub binding: usize,
    /// How long that is.
    pub short: Short,
    /// Those in the shadow that would have refused, too.
    pub shadowed: Places,
}

/// Spends from every limit if all that are enforced let it, and from none otherwise.
///
/// No two members may stand for the same key of the same limit. Panics at more than [`LIMITS_MAX`] of them.
pub fn take(members: &mut [Member<'_>], now: Tick) -> Result<Spent, Refused> {
    let shadowed = check(members, now)?;
    let mut from = Places::default();
    for (place, member) in members.iter_mut().enumerate() {
        if !shadowed.contains(place) {
            let taken = member.spec.take(member.state, now, member.cost);
            debug_assert!(taken.is_ok(), "asked a moment ago, with the same now");
            from.insert(place);
        }
    }
    Ok(Spent {
        from,
        at: now,
        shadowed,
    })
}

/// What [`take`] would say, without spending: the places of those in the shadow that would refuse.
///
/// Panics at more than [`LIMITS_MAX`] members.
pub fn check(members: &[Member<'_>], now: Tick) -> Result<Places, Refused> {
    assert!(
        members.len() <= LIMITS_MAX,
        "more limits than a request may have"
    );
    let mut shadowed = Places::default();
    let mut by = Places::default();
    let mut binding: Option<(usize, Short)> = None;
    for (place, member) in members.iter().enumerate() {
        let Err(short) = member.spec.check(member.state, now, member.cost) else {
            continue;
        };
        match member.standing {
            Standing::Shadow => shadowed.insert(place),
            Standing::Enforced => {
                by.insert(place);
                if binding.is_none_or(|(_, longest)| short > longest) {
                    binding = Some((place, short));
                }
            }
        }
    }
    match binding {
        None => Ok(shadowed),
        Some((binding, short)) => Err(Refused {
            by,
            binding,
            short,
            shadowed,
        }),
    }
}

impl Spent {
    /// Puts everything back: the request was refused later, by something else. `members` are those it was taken from, in
    /// the same order.
    pub fn give_back(self, members: &mut [Member<'_>], now: Tick) {
        for place in self.from.iter() {
            let member = &mut members[place];
            let cost = member.cost;
            member.spec.give_back(member.state, now, self.at, cost);
        }
    }

    /// Settles what it really cost: `actual` has that for each of `members`, which are those it was taken from, in the same
    /// order.
    pub fn commit(self, members: &mut [Member<'_>], now: Tick, actual: &[u64]) {
        assert_eq!(members.len(), actual.len(), "a cost for each member");
        for place in self.from.iter() {
            let member = &mut members[place];
            let (reserved, actual) = (member.cost, actual[place]);
            member
                .spec
                .commit(member.state, now, self.at, reserved, actual);
        }
    }

    /// Those that were spent from.
    pub const fn from(&self) -> Places {
        self.from
    }
}

impl Places {
    /// Whether `place` is one of them.
    pub const fn contains(self, place: usize) -> bool {
        place < LIMITS_MAX && self.0 & (1 << place) != 0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All of them, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..LIMITS_MAX).filter(move |&place| self.contains(place))
    }

    const fn insert(&mut self, place: usize) {
        self.0 |= 1 << place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Algorithm;
    use Standing::{Enforced, Shadow};

    const NOW: Tick = Tick(5_500_000);

    /// Limits a second with their states.
    struct Limits(Vec<(Spec, State, Standing)>);

    impl Limits {
        fn new(limits: &[(u64, Standing)]) -> Self {
            let kinds = Algorithm::ALL.into_iter().cycle();
            Self::of(limits.iter().zip(kinds).map(|(&limit, kind)| (kind, limit)))
        }

        fn of(limits: impl Iterator<Item = (Algorithm, (u64, Standing))>) -> Self {
            let limit = |(kind, (tokens, standing))| {
                let rate = format!("{tokens}/s").parse().unwrap();
                let spec = Spec::new(kind, rate, None).unwrap();
                (spec, spec.full(NOW), standing)
            };
            Self(limits.map(limit).collect())
        }

        fn members(&mut self, cost: u64) -> Vec<Member<'_>> {
            let mut members = Vec::new();
            for (spec, state, standing) in &mut self.0 {
                members.push(Member {
                    spec,
                    state,
                    cost,
                    standing: *standing,
                });
            }
            members
        }

        fn take(&mut self, now: Tick, cost: u64) -> Result<Spent, Refused> {
            take(&mut self.members(cost), now)
        }

        fn remaining(&self, now: Tick) -> Vec<u64> {
            let remaining = |(spec, state, _): &(Spec, State, _)| spec.remaining(state, now);
            self.0.iter().map(remaining).collect()
        }
    }

    fn places(places: Places) -> Vec<usize> {
        places.iter().collect()
    }

    #[test]
    fn a_request_that_one_refuses_costs_the_others_nothing() {
        let mut limits = Limits::new(&[(10, Enforced), (3, Enforced)]);

        let passed = (0..5).filter(|_| limits.take(NOW, 1).is_ok()).count();

        assert_eq!(passed, 3);
        assert_eq!(limits.remaining(NOW), [7, 0]);
    }

    #[test]
    fn all_that_refuse_are_told_and_the_longest_wait_binds() {
        let mut limits = Limits::of(
            [2, 5, 2, 1]
                .into_iter()
                .map(|tokens| (Algorithm::Bucket, (tokens, Enforced))),
        );
        for _ in 0..2 {
            limits.0[3].1 = limits.0[3].0.full(NOW);
            let _ = limits.take(NOW, 1).unwrap();
        }

        let refused = limits.take(NOW, 1).unwrap_err();

        assert_eq!(places(refused.by), [0, 2, 3]);
        assert_eq!(refused.binding, 3);
        assert_eq!(refused.short, Short::Wait { wait_us: 1_000_000 });

        // Who never passes waits longest.
        let refused = limits.take(NOW, 3).unwrap_err();
        assert_eq!(places(refused.by), [0, 2, 3]);
        assert_eq!((refused.binding, refused.short), (0, Short::Never));
    }

    #[test]
    fn a_shadow_never_refuses_and_remembers_for_itself() {
        let mut limits = Limits::new(&[(4, Enforced), (2, Shadow), (9, Shadow)]);

        let shadowed: Vec<_> = (0..6)
            .map(|_| match limits.take(NOW, 1) {
                Ok(spent) => (true, places(spent.shadowed)),
                Err(refused) => (false, places(refused.shadowed)),
            })
            .collect();

        let (none, second): (Vec<usize>, _) = (vec![], vec![1]);
        assert_eq!(
            shadowed,
            [
                (true, none.clone()),
                (true, none),
                (true, second.clone()),
                (true, second.clone()),
                (false, second.clone()),
                (false, second),
            ]
        );
        // What was refused cost the shadows nothing, either.
        assert_eq!(limits.remaining(NOW), [0, 0, 5]);
    }

    #[test]
    fn what_was_spent_comes_back_from_where_it_was_spent() {
        let mut limits = Limits::new(&[(5, Enforced), (5, Enforced), (5, Enforced), (1, Shadow)]);
        let _ = limits.take(NOW, 1).unwrap();
        let before = limits.remaining(NOW);

        let spent = limits.take(NOW, 1).unwrap();
        assert_eq!(places(spent.from()), [0, 1, 2]);
        assert_eq!(limits.remaining(NOW), [3, 3, 3, 0]);
        spent.give_back(&mut limits.members(1), NOW.plus(1));

        assert_eq!(limits.remaining(NOW.plus(1)), before);
    }

    #[test]
    fn what_it_really_cost_is_settled_for_each() {
        let mut limits = Limits::new(&[(10, Enforced), (10, Enforced), (10, Enforced)]);
        let spent = limits.take(NOW, 4).unwrap();

        spent.commit(&mut limits.members(4), NOW, &[1, 4, 7]);

        assert_eq!(limits.remaining(NOW), [9, 6, 3]);
    }

    #[test]
    fn a_request_without_limits_passes() {
        let spent = take(&mut [], NOW).unwrap();

        assert!(spent.from().is_empty());
        assert_eq!(check(&[], NOW), Ok(Places::default()));
    }

    #[test]
    fn as_many_limits_as_there_may_be_are_all_or_nothing() {
        let many: Vec<_> = (0..LIMITS_MAX)
            .map(|place| (if place == 20 { 1 } else { 2 }, Enforced))
            .collect();
        let mut limits = Limits::new(&many);
        let _ = limits.take(NOW, 1).unwrap();

        let refused = limits.take(NOW, 1).unwrap_err();

        assert_eq!(places(refused.by), [20]);
        assert_eq!(limits.remaining(NOW).iter().sum::<u64>(), 31);
    }
}
