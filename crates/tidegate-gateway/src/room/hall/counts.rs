//! What a room counts at one gateway.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::room::Why;
use tidegate_core::room::Tier;

/// What became of a request for a route behind the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It had a good pass.
    Passed,
    /// Nobody waited, and there was room: it got a place and went in with it.
    Admitted,
    /// It was its turn, and it went in without having asked for that first.
    Claimed,
    /// The room is off, open for want of its store, or drained: everybody passes.
    Open,
    /// It passed, though in another phase it would have waited.
    Shadow,
    /// It waits: it got the page, or was told so as an application.
    Waits,
    /// It is over.
    Closed,
    /// Its pass is good, and has used up its budget.
    Spent,
    /// Nobody could look at its pass now.
    Unverified,
    /// So many wait that nobody else can, or its network takes too many places.
    Full,
    /// It shows two different tokens of a kind.
    Ambiguous,
}

impl Outcome {
    /// All of them.
    pub(crate) const ALL: [Self; 11] = [
        Self::Passed,
        Self::Admitted,
        Self::Claimed,
        Self::Open,
        Self::Shadow,
        Self::Waits,
        Self::Closed,
        Self::Spent,
        Self::Unverified,
        Self::Full,
        Self::Ambiguous,
    ];

    /// The label in metrics.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Admitted => "admitted",
            Self::Claimed => "claimed",
            Self::Open => "open",
            Self::Shadow => "shadow",
            Self::Waits => "waits",
            Self::Closed => "closed",
            Self::Spent => "spent",
            Self::Unverified => "unverified",
            Self::Full => "full",
            Self::Ambiguous => "ambiguous",
        }
    }
}

/// A request for one of the room's own paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The room's document.
    Document,
    /// One's own.
    Me,
    /// A place.
    Join,
    /// To go in.
    Claim,
    /// To leave.
    Leave,
    /// More time.
    MoreTime,
    /// The page that does not refresh by itself.
    Still,
}

impl Asked {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [
        Self::Document,
        Self::Me,
        Self::Join,
        Self::Claim,
        Self::Leave,
        Self::MoreTime,
        Self::Still,
    ];

    /// The label in metrics.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Me => "me",
            Self::Join => "join",
            Self::Claim => "claim",
            Self::Leave => "leave",
            Self::MoreTime => "more_time",
            Self::Still => "still",
        }
    }
}

/// A count that threads share.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// So many more.
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// How many by now.
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a room counts at one gateway.
#[derive(Debug, Default)]
pub(crate) struct RoomCounts {
    /// Requests for routes behind it, by [`Outcome`].
    pub(crate) outcomes: [Count; Outcome::ALL.len()],
    /// Of those that wait, by tier.
    pub(crate) waits: [Count; Tier::COUNT],
    /// Requests for its own paths, by [`Asked`].
    pub(crate) asked: [Count; Asked::ALL.len()],
    /// Of these: came too early or too often.
    pub(crate) too_often: Count,
    /// Places given.
    pub(crate) joined: Count,
    /// Passes given, and those given again for longer.
    pub(crate) passes: Count,
    pub(crate) renewed: Count,
    /// Claims that had to wait at the door, and that came too late.
    pub(crate) at_the_door: Count,
    pub(crate) late: Count,
    /// Calls to the store that had no answer.
    pub(crate) unanswered: Count,
    /// What was wrong with tokens that were shown, in the order of [`bad`].
    pub(crate) bad_tickets: [Count; BAD],
    pub(crate) bad_passes: [Count; BAD],
    /// As the leader: called, swept for being silent, taken back because nobody came.
    pub(crate) called: Count,
    pub(crate) slept: Count,
    pub(crate) returned: Count,
    /// As the leader: ticks refused because somebody else leads by now.
    pub(crate) deposed: Count,
}

/// In how many ways a token can be bad.
pub(crate) const BAD: usize = 10;

/// Where a bad token is counted; `None` for one that is not there.
pub(crate) const fn bad(why: Why) -> Option<(usize, &'static str)> {
    Some(match why {
        Why::Absent => return None,
        Why::Malformed => (0, "malformed"),
        Why::Key => (1, "key"),
        Why::Signature => (2, "signature"),
        Why::Foreign => (3, "foreign"),
        Why::Epoch => (4, "epoch"),
        Why::Early => (5, "early"),
        Why::Expired => (6, "expired"),
        Why::Revoked => (7, "revoked"),
        Why::Bond => (8, "bond"),
        Why::Unverified { .. } => (9, "unverified"),
    })
}

impl RoomCounts {
    /// Counts what became of a request.
    pub(crate) fn count(&self, outcome: Outcome) {
        self.outcomes[outcome as usize].add(1);
    }

    /// Counts a request for one of the room's own paths.
    pub(crate) fn asked(&self, asked: Asked) {
        self.asked[asked as usize].add(1);
    }
}
