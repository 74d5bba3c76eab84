//! What holds for this node, as balancers are told.

use tidegate_core::health::{self, VERDICT_LEASE};
use tidegate_core::time::Mono;
use tidegate_fleet::control::Standing;
use tidegate_http::verdict::{Binding, Board, State, Verdict};

/// Puts up on `board` what holds at `now`. What nobody renews is over with the lease, and then the node is healthy.
pub(super) fn put_up(board: &Board, standing: &Standing, now: Mono) {
    let drains = standing.drain.is_some();
    let left = standing.verdict.valid_until.since(now);
    // An order to drain is no evidence: it holds though nobody knows how the node is.
    let lease = if drains {
        VERDICT_LEASE
    } else {
        left.min(VERDICT_LEASE)
    };
    board.post(verdict(&standing.verdict, drains), lease);
}

fn verdict(it: &health::Verdict, drain: bool) -> Verdict {
    Verdict {
        state: match it.state {
            health::State::Healthy => State::Healthy,
            health::State::Stressed => State::Stressed,
            health::State::Saturated => State::Saturated,
            health::State::Unknown => State::Unknown,
        },
        weight: it.weight,
        drain,
        kept: it.guard.is_some(),
        headroom: it.left,
        binding: it.binding.zip(it.left).map(|(dimension, left)| Binding {
            dimension: dimension.name(),
            used: 1.0 - left,
        }),
        load: None,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::health::Dimension;
    use tidegate_fleet::control::Drained;
    use tidegate_http::verdict::Told;

    use super::*;

    fn standing(state: health::State, until: u64) -> Standing {
        Standing {
            verdict: health::Verdict {
                state,
                weight: 40,
                left: Some(0.25),
                binding: Some(Dimension::Threads),
                valid_until: Mono::from_millis(until),
                ..health::Verdict::UNKNOWN
            },
            ..Standing::SILENCE
        }
    }

    #[test]
    fn a_balancer_is_told_what_was_decided_and_why() {
        let board = Board::default();

        put_up(
            &board,
            &standing(health::State::Stressed, 60_000),
            Mono::default(),
        );

        let told = board.current();
        assert_eq!((told.state, told.weight), (State::Stressed, 40));
        let binding = told.binding.unwrap();
        assert_eq!((binding.dimension, binding.used), ("threads", 0.75));
    }

    #[test]
    fn what_is_over_is_no_verdict() {
        let board = Board::default();

        let over = standing(health::State::Saturated, 1_000);
        put_up(&board, &over, Mono::from_millis(1_000));

        assert_eq!(board.current(), Verdict::UNKNOWN);
    }

    #[test]
    fn a_node_that_drains_leaves_though_nobody_knows_how_it_is() {
        let board = Board::default();
        let mut standing = Standing::SILENCE;
        standing.drain = Some(Drained {
            by: "ann".to_owned(),
            why: None,
            left_ms: None,
            is_done: true,
        });

        put_up(&board, &standing, Mono::from_millis(1_000));

        assert_eq!(board.current().told(), Told::Leave);
    }
}
