//! One limit for many nodes, without asking a store for every request.
//!
//! | way | a node asks the store | more than the limit | goes on without the store |
//! |---|---|---|---|
//! | `shared` | for each request | never | no |
//! | [`lease`] | for each chunk of tokens | never; tokens may be used a little later | for as long as a chunk lasts |
//! | [`aggregate`] | so many times a second | by what the others report too late | up to what may be unreported |
//! | [`divided`] | never; it follows who is there | never | for as long as its membership lasts |
//!
//! Each has a side for the node, which is a state machine (events in, messages out), and, where
//! there is one, a side for the store, small enough to be a script. Messages may be lost, come twice, and
//! come late: they carry the life of the node and a number, so that what they say counts once. What is
//! promised is a function beside each, for the linter to print and for the tests to hold.
//!
//! [`hot`] finds the keys that are worth a lease. All times of a node are of its own clock, all
//! those of a store of the store's; only spans pass between them. Spans are taken to be as long here as
//! there, give or take what each module says.

pub mod aggregate;
pub mod apart;
pub mod divided;
pub mod following;
pub mod hot;
pub mod lease;

use super::BucketSpec;

/// One life of a node: the incarnation that the fleet's membership knows it by, drawn anew whenever
/// its process starts, so that no two of a fleet are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(pub u64);

/// What a node says to a request for some tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are there; with `take` they are spent.
    Passed,
    /// They are not, and to come back in less than this is no use.
    Short {
        /// Microseconds, 1 or more.
        wait_us: u64,
    },
    /// They never will be: this is more than there ever is at once.
    Never,
    /// The store has to be asked; to be decided again with its answer.
    Ask,
    /// The store should have answered by now: what then happens is for the limit to say ([`OnLoss`]).
    Lost,
}

/// What a limit does while the store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnLoss {
    /// The node goes on with its part of the limit, as large as it last was.
    Local,
    /// Everything passes.
    Open,
    /// Nothing passes.
    Closed,
}

impl OnLoss {
    /// The most that all nodes let pass, in tokens, in an outage of `outage_us` in which `offered` are asked for.
    ///
    /// Nodes that had the limit divided among them before keep to it. When the store is away for only some, those
    /// that still reach it share the limit among themselves as soon as the leases of the others have passed, and
    /// these go on with their part, so that up to twice as much passes.
    pub fn worst(self, whole: &BucketSpec, nodes: u32, outage_us: u64, offered: u64) -> u64 {
        let most = match self {
            Self::Local => divided::worst_apart(whole, nodes, outage_us),
            Self::Open => u64::MAX,
            Self::Closed => 0,
        };
        most.min(offered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_outage_lets_pass_is_known_before() {
        let hundred = BucketSpec::new(100, 1_000_000, 100).expect("coarse enough");
        let worst = |on_loss: OnLoss| on_loss.worst(&hundred, 10, 10_000_000, 10_000);

        assert_eq!(worst(OnLoss::Closed), 0);
        assert_eq!(worst(OnLoss::Open), 10_000);
        // A part each, and nine tenths of it once more when one node alone still has the store.
        assert_eq!(worst(OnLoss::Local), 1_099 * 19 / 10);
    }
}
