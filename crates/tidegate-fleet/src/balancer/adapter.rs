//! The one shape of everything that sets something at a balancer.

use std::fmt::Display;
use std::time::Instant;

use tidegate_http::verdict::{Told, Verdict};

/// What a balancer should hold of one node, and until when.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The node's name, which is the server's name at the balancer.
    pub node: String,
    /// What was decided about it.
    pub verdict: Verdict,
    /// Afterwards nothing is known of it, and that counts as healthy; only an operator's order to drain it goes on. By the
    /// monotonic clock of this machine.
    pub valid_until: Instant,
}

/// What is wanted of one node at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The node.
    pub node: String,
    /// How it is to be treated.
    pub told: Told,
}

/// Sets nodes at one balancer.
///
/// `plan` decides and does nothing else: what is observed after all of a plan was applied has an empty plan. Observing and
/// applying may block, up to timeouts of the adapter's own: each one has a thread to itself.
pub trait Adapter {
    /// What the balancer holds.
    type Observed;
    /// One change of it, which reads as what it does.
    type Op: Display;
    /// Why it could not be asked or told.
    type Error: Display;

    /// What it is called in logs and metrics.
    fn name(&self) -> &str;

    /// Asks the balancer what it holds at `now`.
    ///
    /// # Errors
    ///
    /// When it cannot be asked, or says what makes no sense.
    fn observe(&mut self, now: Instant) -> Result<Self::Observed, Self::Error>;

    /// What has to change so that `observed` is as `wanted`. A node that is not in `wanted` is one that nobody has an opinion of.
    fn plan(&self, wanted: &[Wanted], observed: &Self::Observed) -> Vec<Self::Op>;

    /// Makes one change.
    ///
    /// # Errors
    ///
    /// When the balancer refuses it or cannot be reached.
    fn apply(&mut self, op: &Self::Op) -> Result<(), Self::Error>;
}

impl Desired {
    /// What is wanted at `now`: when the time is over, a node that serves with all its weight, unless an operator has taken
    /// it out. That is no finding, and does not end with those who find.
    pub fn at(&self, now: Instant) -> Wanted {
        let told = if now < self.valid_until {
            self.verdict.told()
        } else {
            self.verdict.last_word().told()
        };
        Wanted {
            node: self.node.clone(),
            told,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_http::verdict::State;

    use super::*;

    #[test]
    fn what_is_over_counts_as_healthy() {
        let now = Instant::now();
        let desired = Desired {
            node: "a".to_owned(),
            verdict: Verdict {
                state: State::Saturated,
                weight: 5,
                ..Verdict::UNKNOWN
            },
            valid_until: now + Duration::from_secs(3),
        };

        assert_eq!(desired.at(now).told, Told::Out);
        assert_eq!(desired.at(desired.valid_until).told, Told::Serve(100));
    }

    #[test]
    fn an_order_is_not_over_with_what_was_found() {
        let now = Instant::now();
        let drained = Desired {
            node: "a".to_owned(),
            verdict: Verdict {
                drain: true,
                ..Verdict::UNKNOWN
            },
            valid_until: now,
        };

        assert_eq!(drained.at(now).told, Told::Leave);
    }
}
