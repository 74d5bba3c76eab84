//! A limit divided among nodes: each has a bucket of its own, that is one part of the whole.
//!
//! Nothing is asked of anybody. What that costs: a node uses no more than its part though the others have nothing to
//! do. With all traffic at one of ten nodes a tenth of the limit passes.
//!
//! Which part is known from [`super::following`], and parts never add up to more than the whole. Neither do tokens:
//! when a part grows the bucket gets no fuller, only its flow becomes stronger, and who joins starts empty. So
//! that all nodes together never let more pass than the whole would, also while nodes come and go.

use super::Verdict;
use super::following::{Following, Part};
use crate::rate::{BucketSpec, BucketState, Short, SpecError, Tick};

/// A limit to divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Divided {
    whole: BucketSpec,
}

/// What is in a node's bucket. One that nobody has used need not be kept, nor one that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartState {
    bucket: BucketState,
    /// The bucket is one part in so many.
    parts: u32,
}

impl Divided {
    /// The limit `whole`, for up to `nodes_max` nodes; an error if it is too fine to be counted in such parts.
    pub fn new(whole: BucketSpec, nodes_max: u32) -> Result<Self, SpecError> {
        part(&whole, nodes_max)?;
        Ok(Self { whole })
    }

    /// Spends `cost` tokens of what is in the bucket, `None` for one that nobody has used.
    pub fn take(
        &self,
        state: &mut Option<PartState>,
        following: &Following,
        now: Tick,
        cost: u64,
    ) -> Verdict {
        match following.part(now) {
            Part::OneIn(_) => self.take_anyway(state, following, now, cost),
            Part::Joining { wait_us } => Verdict::Short { wait_us },
            Part::Out => Verdict::Lost,
        }
    }

    /// Like [`Self::take`], for [`super::OnLoss::Local`]: who went on with a part while the store was away keeps it until it has one
    /// again. Otherwise the whole fleet would refuse everything once the store is back, for as long as all wait for each other.
    pub fn take_through(
        &self,
        state: &mut Option<PartState>,
        following: &Following,
        now: Tick,
        cost: u64,
    ) -> Verdict {
        match following.part(now) {
            Part::Joining { .. } if following.last().is_some() => {
                self.take_anyway(state, following, now, cost)
            }
            _ => self.take(state, following, now, cost),
        }
    }

    /// Like [`Self::take`], by the part that the node last had, also when its membership is over: for
    /// [`super::OnLoss::Local`]. Lost for a node that never had a part.
    pub fn take_anyway(
        &self,
        state: &mut Option<PartState>,
        following: &Following,
        now: Tick,
        cost: u64,
    ) -> Verdict {
        let Some((spec, mut here)) = self.here(state.as_ref(), following, now) else {
            return Verdict::Lost;
        };
        match spec.take(&mut here.bucket, now, cost) {
            Ok(_) => {
                *state = Some(here);
                Verdict::Passed
            }
            Err(Short::Wait { wait_us }) => Verdict::Short { wait_us },
            Err(Short::Never) => Verdict::Never,
        }
    }

    /// Puts `tokens` back that were spent and not used.
    pub fn give_back(
        &self,
        state: &mut Option<PartState>,
        following: &Following,
        now: Tick,
        tokens: u64,
    ) {
        if let Some((spec, mut here)) = self.here(state.as_ref(), following, now) {
            spec.give_back(&mut here.bucket, now, tokens);
            *state = Some(here);
        }
    }

    /// Takes `tokens` whether they are there or not: what has been used already cannot be refused. Leaves at most as much
    /// debt as the part's burst.
    pub fn charge(
        &self,
        state: &mut Option<PartState>,
        following: &Following,
        now: Tick,
        tokens: u64,
    ) {
        if let Some((spec, mut here)) = self.here(state.as_ref(), following, now) {
            spec.charge(&mut here.bucket, now, tokens);
            *state = Some(here);
        }
    }

    /// Whole tokens that are there.
    pub fn remaining(&self, state: Option<&PartState>, following: &Following, now: Tick) -> u64 {
        self.here(state, following, now)
            .map_or(0, |(spec, here)| spec.remaining(&here.bucket, now))
    }

    /// Whole tokens in the bucket when it is full; 0 for a node that never had a part.
    pub fn most(&self, following: &Following, now: Tick) -> u64 {
        self.here(None, following, now)
            .map_or(0, |(spec, _)| spec.burst())
    }

    /// Microseconds until a bucket is full and need not be kept.
    pub fn time_to_full_us(&self, state: &PartState, following: &Following, now: Tick) -> u64 {
        self.here(Some(state), following, now)
            .map_or(0, |(spec, here)| spec.time_to_full_us(&here.bucket, now))
    }

    /// The bucket as it is under the part of now, having gone through every part since it was last
    /// touched; `None` if there never was one.
    fn here(
        &self,
        state: Option<&PartState>,
        following: &Following,
        now: Tick,
    ) -> Option<(BucketSpec, PartState)> {
        let changes = following.changes();
        let joined = changes.joined()?;
        let mut here = match state {
            Some(state) if joined < state.bucket.at => *state,
            // What it had before the node joined, others have by now. Debt stays.
            Some(state) => PartState {
                bucket: BucketState {
                    credits: state.bucket.credits.min(0),
                    at: joined,
                },
                ..*state
            },
            None => PartState {
                bucket: BucketState {
                    credits: 0,
                    at: joined,
                },
                parts: changes.at(joined)?,
            },
        };
        here.turn(changes.at(here.bucket.at)?);
        let mut spec = part(&self.whole, here.parts).ok()?;
        for (at, parts) in changes.after(here.bucket.at) {
            spec.give_back(&mut here.bucket, at, 0);
            here.turn(parts);
            spec = part(&self.whole, parts).ok()?;
        }
        spec.give_back(&mut here.bucket, now, 0);
        Some((spec, here))
    }
}

impl PartState {
    /// Makes it a bucket that is one part in `parts`, with the same tokens.
    fn turn(&mut self, parts: u32) {
        let credits = i128::from(self.bucket.credits) * i128::from(parts);
        self.bucket.credits = credits.div_euclid(i128::from(self.parts)) as i64;
        self.parts = parts;
    }
}

/// One part in `parts` of `whole`. It holds one token at least, or nothing would ever pass.
pub(super) fn part(whole: &BucketSpec, parts: u32) -> Result<BucketSpec, SpecError> {
    if whole.burst() >= u64::from(parts) {
        return whole.divided(parts);
    }
    let (flow, token) = (whole.credits_per_us(), whole.credits_per_token());
    BucketSpec::new(flow, token, u64::from(parts))?.divided(parts)
}

/// The most tokens that up to `nodes_max` nodes together let pass in any `window_us` microseconds, whoever comes and goes.
///
/// That is what the whole lets pass, but for this: a bucket holds at least one token, so the burst is no less than the nodes
/// are.
pub fn worst_in(whole: &BucketSpec, nodes_max: u32, window_us: u64) -> u64 {
    let more = u64::from(nodes_max).saturating_sub(whole.burst());
    match window_us {
        0 => 0,
        _ => whole.worst_in(window_us).saturating_add(more),
    }
}

/// The same when nodes may lose the store and each other and go on with their parts
/// ([`super::OnLoss::Local`]): those that still have the store take over what the others go on using.
pub fn worst_apart(whole: &BucketSpec, nodes: u32, window_us: u64) -> u64 {
    let (one, nodes) = (worst_in(whole, nodes, window_us), u64::from(nodes.max(1)));
    let twice = u128::from(one) * u128::from(2 * nodes - 1) / u128::from(nodes);
    u64::try_from(twice).unwrap_or(u64::MAX)
}

/// The most that a node lets pass in any `window_us` microseconds while there are `nodes` of them: what is left of the limit when
/// one node gets all the traffic.
pub fn one_node(whole: &BucketSpec, nodes: u32, window_us: u64) -> Result<u64, SpecError> {
    Ok(part(whole, nodes)?.worst_in(window_us))
}

#[cfg(test)]
mod tests {
    use super::super::Life;
    use super::super::following::{Epoch, Roll};
    use super::*;

    const SECOND: u64 = 1_000_000;
    const LEASE: u64 = 3 * SECOND;

    fn hundred() -> BucketSpec {
        BucketSpec::new(100, SECOND, 100).unwrap()
    }

    /// A node of a fleet whose others say at once that they follow.
    struct Node {
        roll: Roll,
        following: Following,
        divided: Divided,
        bucket: Option<PartState>,
    }

    impl Node {
        /// Joined at 10 s, as one of `nodes`.
        fn of(nodes: u64) -> Self {
            let mut node = Self {
                roll: Roll::new(Tick(0)),
                following: Following::new(Life(0), LEASE),
                divided: Divided::new(hundred(), 4_096).unwrap(),
                bucket: None,
            };
            node.among(10 * SECOND, nodes);
            node
        }

        fn among(&mut self, now: u64, nodes: u64) {
            for other in 1..100 {
                self.roll.leave(Tick(now), Life(other));
            }
            for other in 0..nodes {
                self.roll
                    .renew(Tick(now), Life(other), Epoch(u64::MAX), LEASE);
            }
            let membership = self.roll.membership(Tick(now));
            self.following
                .take(Tick(now), Tick(now), &membership)
                .unwrap();
        }

        fn take(&mut self, now: u64, cost: u64) -> Verdict {
            self.divided
                .take(&mut self.bucket, &self.following, Tick(now), cost)
        }

        fn remaining(&self, now: u64) -> u64 {
            self.divided
                .remaining(self.bucket.as_ref(), &self.following, Tick(now))
        }
    }

    #[test]
    fn a_part_is_as_large_as_it_sounds_and_fills_as_slowly() {
        let mut node = Node::of(8);
        assert_eq!(node.remaining(12 * SECOND), 12);

        assert_eq!(node.take(12 * SECOND, 12), Verdict::Passed);
        let later = node.take(12 * SECOND, 1);

        // Half a token was left, and one comes each 80 ms.
        assert_eq!(later, Verdict::Short { wait_us: 40_000 });
        assert_eq!(node.take(12 * SECOND, 13), Verdict::Never);
    }

    #[test]
    fn what_was_used_beyond_what_was_taken_is_owed_up_to_a_burst_of_the_part() {
        let mut node = Node::of(10);
        assert_eq!(node.divided.most(&node.following, Tick(12 * SECOND)), 10);
        assert_eq!(node.take(12 * SECOND, 4), Verdict::Passed);

        let now = Tick(12 * SECOND);
        node.divided
            .charge(&mut node.bucket, &node.following, now, 8);

        // Two are owed, and one comes each 100 ms.
        assert_eq!(
            node.take(12 * SECOND, 1),
            Verdict::Short { wait_us: 300_000 }
        );
        node.divided
            .charge(&mut node.bucket, &node.following, now, u64::MAX);
        let later = Verdict::Short { wait_us: 1_100_000 };
        assert_eq!(node.take(12 * SECOND, 1), later);
    }

    #[test]
    fn who_comes_back_from_an_outage_goes_on_with_its_part_until_it_has_one() {
        let mut node = Node::of(4);
        assert_eq!(node.take(12 * SECOND, 25), Verdict::Passed);
        // Nobody has renewed for longer than a lease: all that are there join anew, and nobody has said yet that they follow.
        let now = Tick(60 * SECOND);
        for other in 0..4 {
            node.roll.renew(now, Life(other), Epoch(0), LEASE);
        }
        let membership = node.roll.membership(now);
        let part = node.following.take(now, now, &membership).unwrap();
        assert!(matches!(part, Part::Joining { .. }), "{part:?}");

        let refused = node.take(60 * SECOND, 1);
        assert!(matches!(refused, Verdict::Short { .. }), "{refused:?}");
        let through = |node: &mut Node, cost| {
            let (divided, following) = (node.divided, &node.following);
            divided.take_through(&mut node.bucket, following, now, cost)
        };
        assert_eq!(through(&mut node, 25), Verdict::Passed);
        assert!(matches!(through(&mut node, 1), Verdict::Short { .. }));
        // Who never had one waits.
        let new = Following::new(Life(9), LEASE);
        let verdict = node.divided.take_through(&mut None, &new, now, 1);
        assert_eq!(verdict, Verdict::Lost);
    }

    #[test]
    fn who_joins_starts_empty() {
        let node = Node::of(10);

        assert_eq!(node.remaining(10 * SECOND), 0);
        assert_eq!(node.remaining(10 * SECOND + 99_999), 0);
        assert_eq!(node.remaining(10 * SECOND + 100_000), 1);
        assert_eq!(node.remaining(11 * SECOND), 10);
    }

    #[test]
    fn a_part_that_grows_has_no_more_tokens_only_more_to_come() {
        let mut node = Node::of(10);
        node.take(12 * SECOND, 1);

        node.among(12 * SECOND, 5);

        assert_eq!(node.remaining(12 * SECOND), 9);
        assert_eq!(node.remaining(12 * SECOND + 50_000), 10);
        assert_eq!(node.remaining(13 * SECOND), 20);
        let unused = node
            .divided
            .remaining(None, &node.following, Tick(12 * SECOND));
        assert_eq!(unused, 10);
    }

    #[test]
    fn a_part_that_shrinks_leaves_no_more_than_fits() {
        let mut node = Node::of(10);
        node.take(12 * SECOND, 1);

        node.among(12 * SECOND, 20);

        assert_eq!(node.remaining(12 * SECOND), 5);
        node.among(12 * SECOND + 1, 10);
        assert_eq!(node.remaining(12 * SECOND + 1), 5);
    }

    #[test]
    fn there_is_a_token_for_each_node_though_they_are_more_than_the_burst() {
        let mut node = Node::of(10);
        node.divided = Divided::new(BucketSpec::new(10, SECOND, 4).unwrap(), 10).unwrap();

        assert_eq!(node.take(12 * SECOND, 1), Verdict::Passed);
        assert_eq!(
            node.take(12 * SECOND, 1),
            Verdict::Short { wait_us: SECOND }
        );
        assert_eq!(
            worst_in(&BucketSpec::new(10, SECOND, 4).unwrap(), 10, 1),
            10
        );
    }

    #[test]
    fn who_lost_its_membership_goes_on_with_its_last_part_only_where_that_is_wanted() {
        let mut node = Node::of(10);
        let late = 20 * SECOND;

        assert_eq!(node.take(late, 1), Verdict::Lost);
        let anyway = node
            .divided
            .take_anyway(&mut node.bucket, &node.following, Tick(late), 1);
        assert_eq!(anyway, Verdict::Passed);

        // What it had does not count when it joins anew.
        node.among(late, 10);
        assert_eq!(node.remaining(late), 0);
    }

    #[test]
    fn what_is_given_back_is_there_again() {
        let mut node = Node::of(10);
        node.take(12 * SECOND, 10);

        node.divided
            .give_back(&mut node.bucket, &node.following, Tick(12 * SECOND), 4);

        assert_eq!(node.remaining(12 * SECOND), 4);
    }

    #[test]
    fn a_limit_too_fine_for_so_many_nodes_is_refused() {
        let fine = BucketSpec::new(1, 365 * 24 * 3_600 * SECOND, 1).unwrap();

        assert!(Divided::new(fine, 10).is_ok());
        assert!(Divided::new(fine, 4_096).is_err());
    }

    #[test]
    fn the_bounds_are_those_of_the_whole() {
        let whole = hundred();

        assert_eq!(worst_in(&whole, 10, 10 * SECOND), 1_099);
        assert_eq!(one_node(&whole, 10, 10 * SECOND), Ok(109));
        assert_eq!(worst_apart(&whole, 10, 10 * SECOND), 2_088);
        assert_eq!(worst_in(&whole, 10, 0), 0);
    }
}
