//! A limit whose tokens are paid for before they are used: a node takes a chunk of them from the store, and spends
//! that by itself.
//!
//! Together nodes never get more than the limit, since the store's bucket gives each token once. A chunk may be used
//! a while after it was paid for, so in a short window more can pass than the bucket gave in it: by what nodes can hold
//! ([`LeasePlan::held_max`]). What a node does not use in time it gives back; what a node had that died is lost.
//!
//! A chunk is what the node needs for a while, so that a busy node asks as seldom as an idle one, and near the end of the
//! tokens half of what is left, so that no node sits on the last ones. When there are too few for all, the store
//! says when to ask again, and who refuses until then asks nothing.
//!
//! An [`Ask`] has a number. One that had no answer is asked again as it was, and gets the answer that it had. A node
//! counts the time of a chunk from when it first asked; the store gave it later than that.

mod lessee;
mod lessor;

use super::Life;
use crate::rate::BucketSpec;

pub use lessee::Lessee;
pub use lessor::{ASKERS_MAX, Lessor};

/// How tokens are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeasePlan {
    /// How long a node may use a chunk, in microseconds.
    pub ttl_us: u64,
    /// A chunk is what the node needs for so many microseconds, 1 or more, ...
    pub horizon_us: u64,
    /// ... but at least so many tokens, 1 or more, if they are there, ...
    pub chunk_min: u64,
    /// ... and at most so many, except that a single call may cost more.
    pub chunk_max: u64,
    /// A node asks for the next chunk when what it has will last for less than this, in microseconds. With 0 it asks
    /// when it has too little.
    pub ahead_us: u64,
}

/// What a node asks the store for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Who asks.
    pub life: Life,
    /// Counts up with the asks of a life, from 1.
    pub seq: u64,
    /// Tokens that it would like; 0 when it only gives back.
    pub wanted: u64,
    /// With fewer than this nothing is gained.
    pub least: u64,
    /// Tokens that it had and does not use.
    pub returned: u64,
}

/// What the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Which ask.
    pub seq: u64,
    /// Tokens to spend.
    pub tokens: u64,
    /// To ask for as much as the least of it again earlier than this is no use: microseconds, 0 when all that was wanted is
    /// given.
    pub again_us: u64,
}

impl LeasePlan {
    /// What suits a limit with this burst: what a node needs for 200 ms, to be used within 2 s, and never more
    /// than a tenth of the burst.
    pub const fn usual(burst: u64) -> Self {
        let tenth = burst / 10;
        Self {
            ttl_us: 2_000_000,
            horizon_us: 200_000,
            chunk_min: 1,
            chunk_max: if tenth > 1 { tenth } else { 1 },
            ahead_us: 20_000,
        }
    }

    /// Tokens that up to `nodes` nodes can hold and not use, if no call costs more than a chunk: one chunk in use and the
    /// next each.
    pub const fn held_max(&self, nodes: u32) -> u64 {
        self.chunk_max
            .saturating_mul(2)
            .saturating_mul(nodes as u64)
    }
}

/// The most tokens that up to `nodes` nodes together let pass in any `window_us` microseconds. From the first
/// request on it is less: what the bucket lets pass.
pub fn worst_in(whole: &BucketSpec, plan: &LeasePlan, nodes: u32, window_us: u64) -> u64 {
    match window_us {
        0 => 0,
        _ => whole
            .worst_in(window_us)
            .saturating_add(plan.held_max(nodes)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::rate::Tick;

    const SECOND: u64 = 1_000_000;

    fn hundred() -> BucketSpec {
        BucketSpec::new(100, SECOND, 100).unwrap()
    }

    fn plan() -> LeasePlan {
        LeasePlan {
            chunk_min: 10,
            chunk_max: 10,
            ahead_us: 0,
            ..LeasePlan::usual(100)
        }
    }

    fn lessee(life: u64) -> Lessee {
        Lessee::new(&hundred(), plan(), Life(life))
    }

    fn lessor() -> Lessor {
        Lessor::new(hundred(), plan(), Tick(0))
    }

    /// Asks and is answered at once.
    fn fetch(lessee: &mut Lessee, lessor: &mut Lessor, now: u64) -> Grant {
        assert_eq!(lessee.take(Tick(now), 1), Verdict::Ask);
        let ask = lessee.ask(Tick(now)).unwrap();
        let grant = lessor.ask(Tick(now), &ask).unwrap();
        lessee.granted(Tick(now), &grant);
        grant
    }

    #[test]
    fn a_chunk_is_paid_for_once_and_spent_here() {
        let (mut lessee, mut lessor) = (lessee(1), lessor());

        fetch(&mut lessee, &mut lessor, 0);

        assert_eq!(lessor.remaining(Tick(0)), 90);
        for _ in 0..10 {
            assert_eq!(lessee.take(Tick(0), 1), Verdict::Passed);
            assert_eq!(lessee.ask(Tick(0)), None);
        }
        assert_eq!(lessee.take(Tick(0), 1), Verdict::Ask);
        assert_eq!(lessee.take(Tick(0), 101), Verdict::Never);
    }

    #[test]
    fn an_ask_that_was_not_answered_is_asked_again_and_given_once() {
        let (mut lessee, mut lessor) = (lessee(1), lessor());
        lessee.take(Tick(0), 1);
        let ask = lessee.ask(Tick(0)).unwrap();
        let first = lessor.ask(Tick(0), &ask).unwrap();

        lessee.lost(ask.seq);
        assert_eq!(lessee.take(Tick(1), 1), Verdict::Lost);
        assert_eq!(lessee.ask(Tick(1)), Some(ask));
        let again = lessor.ask(Tick(1), &ask).unwrap();

        assert_eq!(again, first);
        assert_eq!(lessor.remaining(Tick(1)), 90);
        lessee.granted(Tick(2), &again);
        lessee.granted(Tick(2), &first);
        assert_eq!(lessee.remaining(Tick(2)), 10);
    }

    #[test]
    fn an_ask_that_was_overtaken_gets_nothing() {
        let mut lessor = lessor();
        let ask = |seq| Ask {
            life: Life(1),
            seq,
            wanted: 10,
            least: 1,
            returned: 0,
        };
        lessor.ask(Tick(0), &ask(2));

        assert_eq!(lessor.ask(Tick(0), &ask(1)), None);
        assert_eq!(lessor.remaining(Tick(0)), 90);
    }

    #[test]
    fn what_was_not_used_in_time_is_given_back_once() {
        let (mut lessee, mut lessor) = (lessee(1), lessor());
        fetch(&mut lessee, &mut lessor, 0);
        assert_eq!(lessee.take(Tick(0), 3), Verdict::Passed);
        assert_eq!(lessee.due_at(), Some(Tick(2 * SECOND)));

        let ask = lessee.ask(Tick(2 * SECOND)).unwrap();
        assert_eq!((ask.wanted, ask.returned), (0, 7));

        // Nothing of the bucket has been used for long, and it holds no more than it does.
        let mut other = Lessor::new(hundred(), plan(), Tick(2 * SECOND));
        other.ask(
            Tick(2 * SECOND),
            &Ask {
                seq: 1,
                wanted: 50,
                least: 50,
                returned: 0,
                ..ask
            },
        );
        for _ in 0..2 {
            other.ask(Tick(2 * SECOND), &ask);
            assert_eq!(other.remaining(Tick(2 * SECOND)), 57);
        }
        assert_eq!(
            lessor.ask(Tick(2 * SECOND), &ask).map(|grant| grant.tokens),
            Some(0)
        );
        assert_eq!(lessor.remaining(Tick(2 * SECOND)), 100);
    }

    #[test]
    fn nobody_gives_back_what_the_bucket_does_not_know_it_gave() {
        let mut lessor = lessor();
        let take = Ask {
            life: Life(2),
            seq: 1,
            wanted: 80,
            least: 80,
            returned: 0,
        };
        lessor.ask(Tick(0), &take);

        let stranger = Ask {
            life: Life(1),
            seq: 9,
            wanted: 0,
            least: 0,
            returned: 50,
        };
        lessor.ask(Tick(0), &stranger);

        assert_eq!(lessor.remaining(Tick(0)), 20);
    }

    #[test]
    fn a_chunk_ends_a_while_after_it_was_first_asked_for() {
        let (mut lessee, mut lessor) = (lessee(1), lessor());
        lessee.take(Tick(0), 1);
        let ask = lessee.ask(Tick(0)).unwrap();
        let grant = lessor.ask(Tick(SECOND), &ask).unwrap();

        lessee.granted(Tick(SECOND), &grant);

        assert_eq!(lessee.remaining(Tick(2 * SECOND - 1)), 10);
        assert_eq!(lessee.remaining(Tick(2 * SECOND)), 0);
    }

    #[test]
    fn who_gets_less_than_it_wants_is_told_when_to_ask_again_and_refuses_until_then() {
        let mut lessor = lessor();
        let mut nodes: Vec<_> = (1..=11).map(lessee).collect();
        for node in &mut nodes[..10] {
            assert_eq!(fetch(node, &mut lessor, 0).tokens, 10);
        }

        let grant = fetch(&mut nodes[10], &mut lessor, 0);

        // At least ten tokens are wanted, and those take 100 ms; for eleven such nodes there is a chunk each second and a
        // bit, which is longer than a horizon.
        assert_eq!((grant.tokens, grant.again_us), (0, 200_000));
        let wait = nodes[10].take(Tick(1), 1);
        assert_eq!(wait, Verdict::Short { wait_us: 199_999 });
        assert_eq!(nodes[10].ask(Tick(1)), None);
        assert_eq!(nodes[10].take(Tick(200_000), 1), Verdict::Ask);
    }

    #[test]
    fn nobody_takes_more_than_half_of_the_last_tokens() {
        let mut lessor = lessor();
        let ask = |life, least| Ask {
            life: Life(life),
            seq: 1,
            wanted: 90,
            least,
            returned: 0,
        };

        let grants = [1, 2, 3, 4].map(|life| lessor.ask(Tick(0), &ask(life, 1)).unwrap().tokens);
        assert_eq!(grants, [50, 25, 13, 6]);

        // A call that costs more gets what it costs.
        assert_eq!(lessor.ask(Tick(0), &ask(5, 6)).unwrap().tokens, 6);
    }

    #[test]
    fn a_busy_node_asks_for_what_it_needs_for_a_while_and_before_it_runs_out() {
        let plan = LeasePlan {
            chunk_max: 1_000,
            ..LeasePlan::usual(10_000)
        };
        let whole = BucketSpec::new(10_000, SECOND, 10_000).unwrap();
        let mut lessee = Lessee::new(&whole, plan, Life(1));
        let mut lessor = Lessor::new(whole, plan, Tick(0));
        let (mut asks, mut largest, mut waited) = (0, 0, 0);

        // A thousand a second for ten seconds.
        for number in 0..10_000 {
            let now = Tick(number * 1_000);
            waited += u64::from(lessee.take(now, 1) == Verdict::Ask);
            if let Some(ask) = lessee.ask(now) {
                asks += 1;
                largest = largest.max(ask.wanted);
                let grant = lessor.ask(now, &ask).unwrap();
                lessee.granted(now, &grant);
            }
        }

        assert!((190..=210).contains(&largest), "{largest}");
        assert!((50..=65).contains(&asks), "{asks}");
        assert!(waited <= 5, "{waited}");
    }

    #[test]
    fn a_node_that_leaves_gives_everything_back() {
        let (mut lessee, mut lessor) = (lessee(1), lessor());
        fetch(&mut lessee, &mut lessor, 0);

        lessee.close();
        let ask = lessee.ask(Tick(0)).unwrap();
        lessor.ask(Tick(0), &ask);

        assert_eq!(lessor.remaining(Tick(0)), 100);
        assert_eq!(lessee.take(Tick(0), 1), Verdict::Lost);
    }

    #[test]
    fn what_is_given_back_in_time_is_spent_here_and_else_goes_to_the_store() {
        let (mut lessee, mut lessor) = (lessee(1), lessor());
        fetch(&mut lessee, &mut lessor, 0);
        lessee.take(Tick(0), 10);

        lessee.give_back(Tick(1), 4);
        assert_eq!(lessee.remaining(Tick(1)), 4);

        lessee.take(Tick(1), 4);
        lessee.give_back(Tick(2 * SECOND), 4);
        assert_eq!(lessee.ask(Tick(2 * SECOND)).unwrap().returned, 4);
    }

    /// A node of a limit of one a second, and a store that has 30 of 100 left.
    fn thirty_left() -> (Lessee, Lessor) {
        let whole = BucketSpec::new(1, SECOND, 100).unwrap();
        let plan = LeasePlan::usual(100);
        let mut lessor = Lessor::new(whole, plan, Tick(0));
        let other = Ask {
            life: Life(9),
            seq: 1,
            wanted: 70,
            least: 70,
            returned: 0,
        };
        assert_eq!(lessor.ask(Tick(0), &other).unwrap().tokens, 70);
        (Lessee::new(&whole, plan, Life(1)), lessor)
    }

    fn exchange(lessee: &mut Lessee, lessor: &mut Lessor, now: u64) -> Grant {
        let ask = lessee.ask(Tick(now)).unwrap();
        let grant = lessor.ask(Tick(now), &ask).unwrap();
        lessee.granted(Tick(now), &grant);
        grant
    }

    #[test]
    fn a_call_that_costs_more_than_there_is_does_not_keep_cheaper_ones_waiting() {
        let (mut lessee, mut lessor) = thirty_left();
        assert_eq!(lessee.take(Tick(0), 50), Verdict::Ask);
        let grant = exchange(&mut lessee, &mut lessor, 0);
        let wait_us = 20 * SECOND;
        assert_eq!((grant.tokens, grant.again_us), (0, wait_us));

        // The dear one has to wait, and costs the store nothing meanwhile.
        assert_eq!(lessee.take(Tick(0), 50), Verdict::Short { wait_us });
        assert_eq!(lessee.ask(Tick(0)), None);
        // There is something for the cheap one.
        assert_eq!(lessee.take(Tick(1), 1), Verdict::Ask);
        assert!(exchange(&mut lessee, &mut lessor, 1).tokens > 0);
        assert_eq!(lessee.take(Tick(1), 1), Verdict::Passed);
        let wait_us = wait_us - 1;
        assert_eq!(lessee.take(Tick(1), 50), Verdict::Short { wait_us });
    }

    #[test]
    fn a_call_that_costs_more_than_both_chunks_is_asked_for() {
        let (mut lessee, mut lessor) = (lessee(1), lessor());
        fetch(&mut lessee, &mut lessor, 0);
        lessee.take(Tick(0), 9);
        assert_eq!(lessee.take(Tick(0), 2), Verdict::Ask);
        exchange(&mut lessee, &mut lessor, 0);
        assert_eq!(lessee.remaining(Tick(0)), 11);

        assert_eq!(lessee.take(Tick(1), 50), Verdict::Ask);
        assert_eq!(exchange(&mut lessee, &mut lessor, 1).tokens, 50);

        assert_eq!(lessee.take(Tick(1), 50), Verdict::Passed);
        assert_eq!(lessee.remaining(Tick(1)), 11);
    }

    #[test]
    fn what_comes_back_to_a_node_that_has_left_goes_to_the_store() {
        let (mut lessee, mut lessor) = (lessee(1), lessor());
        fetch(&mut lessee, &mut lessor, 0);
        lessee.take(Tick(0), 10);

        lessee.close();
        lessee.give_back(Tick(1), 10);

        assert_eq!(lessee.ask(Tick(1)).unwrap().returned, 10);
    }
}
