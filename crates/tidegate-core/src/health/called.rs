//! What is left of something that nodes call, from what they see of it themselves.
//!
//! A dependency tells nobody how full it is. But its callers see how many calls fail, how long the others take of the
//! time that they may, and whose breaker has given up; over all nodes that is enough to ask less of it before it is lost.

/// Shares of calls that fail, from where it counts to where nothing is left.
const FAILED: (f64, f64) = (0.05, 0.5);
/// The same of the longest time, that calls take on average.
const SLOW: (f64, f64) = (0.3, 0.9);

/// How calls to one dependency went lately at one node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Called {
    /// Calls that ended, per second.
    pub per_second: f64,
    /// The share of them that failed, 0 to 1.
    pub failed: f64,
    /// How long they took on average, of the longest that they may; `None` when that is not known.
    pub slow: Option<f64>,
    /// The node's breaker lets nothing through.
    pub is_tripped: bool,
}

/// What is left of a dependency that nodes have `called`, 0 to 1; `None` when nobody calls it.
///
/// Nodes count by their calls, and breakers by nodes: one that has given up makes none.
pub fn left_of(called: &[Called]) -> Option<f64> {
    let usual = |value: f64| value.is_finite() && value > 0.0;
    let known = || called.iter().filter(|it| usual(it.per_second));
    let tripped = called.iter().filter(|it| it.is_tripped).count();
    let nodes = called
        .iter()
        .filter(|it| it.is_tripped || usual(it.per_second))
        .count();
    if nodes == 0 {
        return None;
    }
    // What a node does not know is no part of the mean: taken for nothing it would make what the others know half as bad.
    let mean = |of: &dyn Fn(&Called) -> Option<f64>| {
        let (mut sum, mut calls) = (0.0, 0.0);
        for it in known() {
            if let Some(share) = of(it).filter(|share| share.is_finite()) {
                sum += it.per_second * share;
                calls += it.per_second;
            }
        }
        if calls > 0.0 { sum / calls } else { 0.0 }
    };
    let used =
        |(soft, hard): (f64, f64), value: f64| ((value - soft) / (hard - soft)).clamp(0.0, 1.0);
    let failed = used(FAILED, mean(&|it| Some(it.failed.clamp(0.0, 1.0))));
    let slow = used(SLOW, mean(&|it| it.slow));
    let given_up = tripped as f64 / nodes as f64;
    Some(1.0 - failed.max(slow).max(given_up))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(per_second: f64, failed: f64, slow: f64) -> Called {
        Called {
            per_second,
            failed,
            slow: Some(slow),
            is_tripped: false,
        }
    }

    #[test]
    fn a_dependency_that_answers_in_time_has_all_of_it_left() {
        assert_eq!(
            left_of(&[node(100.0, 0.0, 0.1), node(1.0, 0.04, 0.3)]),
            Some(1.0)
        );
        assert_eq!(left_of(&[]), None);
        assert_eq!(left_of(&[node(0.0, 1.0, 1.0)]), None);
    }

    #[test]
    fn failures_slowness_and_breakers_leave_less_and_the_worst_counts() {
        assert_eq!(left_of(&[node(10.0, 0.5, 0.0)]), Some(0.0));
        assert_eq!(left_of(&[node(10.0, 0.0, 0.9)]), Some(0.0));
        let half = left_of(&[node(10.0, 0.0, 0.6)]).unwrap();
        assert!((half - 0.5).abs() < 1e-9);
        let tripped = Called {
            is_tripped: true,
            ..Called::default()
        };
        assert_eq!(left_of(&[tripped]), Some(0.0));
        let of_four = [
            tripped,
            node(1.0, 0.0, 0.0),
            node(1.0, 0.0, 0.0),
            node(1.0, 0.0, 0.0),
        ];
        assert_eq!(left_of(&of_four), Some(0.75));
    }

    #[test]
    fn a_node_that_does_not_know_how_long_calls_take_says_nothing_of_it() {
        let unknown = Called {
            slow: None,
            ..node(10.0, 0.0, 0.0)
        };

        assert_eq!(left_of(&[node(10.0, 0.0, 0.9), unknown]), Some(0.0));
        assert_eq!(left_of(&[unknown]), Some(1.0));
    }

    #[test]
    fn nodes_count_by_their_calls() {
        let one_of_many = [node(99.0, 0.0, 0.0), node(1.0, 1.0, 1.0)];

        assert_eq!(left_of(&one_of_many), Some(1.0));
        assert_eq!(left_of(&[node(f64::NAN, 1.0, 1.0)]), None);
        assert_eq!(left_of(&[node(5.0, 0.0, f64::NAN)]), Some(1.0));
    }
}
