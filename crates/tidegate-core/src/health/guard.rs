//! Who may be taken out of the fleet, asked of the fleet as it would be afterwards.

use super::state::State;
use super::weight::WEIGHT_MIN;

/// Of so many nodes in a hundred may be out, but of every fleet of two or more at least one.
pub(super) const OUT_PERCENT_MAX: u8 = 30;
/// What must remain, in what is offered.
const REMAINING_MIN: f64 = 1.1;

/// A node as the guard sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// By the node's own evidence.
    pub state: State,
    /// What is left of it, 0 to 1; the worst go first.
    pub left: f64,
    /// What it can do, in the unit of what is offered. What is not known of counts as nothing.
    pub capacity: f64,
    /// Whether it is out now.
    pub out: bool,
    /// Whether sessions live in its heap, and would be lost on another node.
    pub keeps_sessions: bool,
    /// Whether it was put back a moment ago.
    pub rests: bool,
}

/// Why a saturated node stays in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// As many are out as may be.
    Fraction,
    /// The others could not carry what is offered.
    Capacity,
    /// There is no other.
    Last,
    /// Without it less than half of the fleet would be in and heard of.
    Silence,
    /// Its sessions live in its heap.
    Sessions,
    /// Many became worse in the same way: it is not the node.
    Dependency,
    /// It was put back a moment ago.
    Rest,
    /// Less than half of the fleet is heard of.
    Panic,
}

impl Hold {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Fraction,
        Self::Capacity,
        Self::Last,
        Self::Silence,
        Self::Sessions,
        Self::Dependency,
        Self::Rest,
        Self::Panic,
    ];

    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fraction => "fraction",
            Self::Capacity => "capacity",
            Self::Last => "last",
            Self::Silence => "silence",
            Self::Sessions => "sessions",
            Self::Dependency => "dependency",
            Self::Rest => "rest",
            Self::Panic => "panic",
        }
    }

    /// What is called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Whether the guard itself stands against what evidence asks for. Sessions hold a node by what it is.
    pub const fn is_guard(self) -> bool {
        !matches!(self, Self::Sessions)
    }
}

/// What the guard makes of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ruling {
    /// As its evidence says.
    #[default]
    In,
    /// Out: nothing new.
    Out,
    /// Saturated, and in with the least weight.
    Floor(Hold),
    /// Saturated, and in with the part that its capacity earns: the others could not carry it.
    Share(Hold),
    /// In with full weight, as everybody.
    Open,
}

impl Ruling {
    /// Why a node that would be out is in.
    pub const fn hold(self) -> Option<Hold> {
        match self {
            Self::In | Self::Out => None,
            Self::Floor(hold) | Self::Share(hold) => Some(hold),
            Self::Open => Some(Hold::Panic),
        }
    }
}

/// Rules on `cases`, in their order, into `rulings`; `order` is room to sort in. `offered` is what comes to all of them,
/// `dependency` whether many became worse in the same way, and of so many nodes in a hundred may be out.
///
/// Nodes that are out stay out before others go, so that two of the same mind do not take turns. Each ruling is checked
/// against what remains when it and all before it are carried out, and that goes for the least weight as well, which takes
/// away nearly as much as being out.
pub fn rule(
    out_percent_max: u8,
    cases: &[Case],
    offered: f64,
    dependency: bool,
    order: &mut Vec<usize>,
    rulings: &mut Vec<Ruling>,
) {
    rulings.clear();
    let heard = cases
        .iter()
        .filter(|case| case.state != State::Unknown)
        .count();
    let is_half = |nodes: usize| nodes * 2 >= cases.len();
    if !is_half(heard) {
        // What little is known of the fleet is no ground for steering it.
        rulings.resize(cases.len(), Ruling::Open);
        return;
    }
    rulings.resize(cases.len(), Ruling::In);
    order.clear();
    order.extend((0..cases.len()).filter(|&at| cases[at].state == State::Saturated));
    order.sort_unstable_by(|&a, &b| {
        let (left, right) = (&cases[a], &cases[b]);
        (right.out.cmp(&left.out))
            .then(left.left.total_cmp(&right.left))
            .then(a.cmp(&b))
    });

    let out_max = (cases.len() * usize::from(out_percent_max) / 100).max(1);
    let mut remaining: f64 = cases.iter().map(|case| case.capacity).sum();
    let mut out = 0;
    for &at in &*order {
        let case = &cases[at];
        let carries = |taken: f64| remaining - taken >= offered * REMAINING_MIN;
        let hold = if case.keeps_sessions {
            Hold::Sessions
        } else if dependency && !case.out {
            Hold::Dependency
        } else if out == out_max {
            Hold::Fraction
        } else if out + 1 == cases.len() {
            Hold::Last
        } else if !is_half(heard - out - 1) {
            Hold::Silence
        } else if !carries(case.capacity) {
            Hold::Capacity
        } else if case.rests && !case.out {
            Hold::Rest
        } else {
            out += 1;
            remaining -= case.capacity;
            rulings[at] = Ruling::Out;
            continue;
        };
        let slowed = case.capacity * (1.0 - f64::from(WEIGHT_MIN) / 100.0);
        rulings[at] = if hold != Hold::Dependency && carries(slowed) {
            remaining -= slowed;
            Ruling::Floor(hold)
        } else {
            Ruling::Share(hold)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(state: State, left: f64) -> Case {
        Case {
            state,
            left,
            capacity: 100.0,
            out: false,
            keeps_sessions: false,
            rests: false,
        }
    }

    fn full(left: f64) -> Case {
        case(State::Saturated, left)
    }

    fn fine() -> Case {
        case(State::Healthy, 0.8)
    }

    fn rule(cases: &[Case], offered: f64) -> Vec<Ruling> {
        let mut rulings = Vec::new();
        super::rule(
            OUT_PERCENT_MAX,
            cases,
            offered,
            false,
            &mut Vec::new(),
            &mut rulings,
        );
        rulings
    }

    #[test]
    fn three_in_ten_may_be_out_and_the_worst_go_first() {
        let mut cases = vec![fine(); 10];
        for (at, left) in [(1, 0.10), (3, 0.0), (5, 0.05), (7, 0.15)] {
            cases[at] = full(left);
        }

        let rulings = rule(&cases, 300.0);

        for at in [1, 3, 5] {
            assert_eq!(rulings[at], Ruling::Out);
        }
        assert_eq!(rulings[7], Ruling::Floor(Hold::Fraction));
        assert_eq!(rulings[0], Ruling::In);
    }

    #[test]
    fn what_remains_afterwards_must_carry_what_is_offered() {
        // Two of three would be 100 of 150: looked at before the change, both would still be fine.
        let cases = [full(0.0), fine(), fine()];

        assert_eq!(rule(&cases, 181.0)[0], Ruling::Out);
        assert_eq!(rule(&cases, 182.0)[0], Ruling::Floor(Hold::Capacity));
        assert_eq!(
            rule(&cases, 190.0)[0],
            Ruling::Share(Hold::Capacity),
            "the least weight takes as much from the fleet as being out"
        );
    }

    #[test]
    fn of_two_full_nodes_among_three_one_goes_and_one_has_the_least_weight() {
        assert_eq!(
            rule(&[full(0.1), full(0.0), fine()], 10.0),
            [Ruling::Floor(Hold::Fraction), Ruling::Out, Ruling::In]
        );
    }

    #[test]
    fn the_last_node_is_never_out() {
        assert_eq!(rule(&[full(0.0)], 0.0), [Ruling::Floor(Hold::Last)]);
        assert_eq!(
            rule(&[full(0.0), fine()], 10.0),
            [Ruling::Out, Ruling::In],
            "of two one may be"
        );
    }

    #[test]
    fn a_fleet_that_is_hardly_heard_of_is_let_alone() {
        let unheard = case(State::Unknown, 1.0);

        assert_eq!(
            rule(&[full(0.0), unheard, unheard], 10.0),
            [Ruling::Open; 3]
        );
        assert_eq!(
            rule(&[full(0.0), fine(), unheard], 10.0)[0],
            Ruling::Floor(Hold::Silence),
            "nor may it come to that"
        );
    }

    #[test]
    fn who_is_out_stays_out_before_another_goes() {
        let mut cases = vec![fine(); 4];
        cases[0] = full(0.0);
        cases[3] = Case {
            out: true,
            ..full(0.4)
        };

        assert_eq!(rule(&cases, 100.0)[3], Ruling::Out);
        assert_eq!(rule(&cases, 100.0)[0], Ruling::Floor(Hold::Fraction));
    }

    #[test]
    fn sessions_in_a_heap_are_slowed_and_stay() {
        let mut cases = vec![fine(); 4];
        cases[2] = Case {
            keeps_sessions: true,
            ..full(0.0)
        };

        assert_eq!(rule(&cases, 100.0)[2], Ruling::Floor(Hold::Sessions));
    }

    #[test]
    fn a_dependency_takes_nobody_out_and_puts_nobody_back() {
        let mut cases = vec![fine(); 4];
        cases[0] = full(0.0);
        cases[1] = Case {
            out: true,
            ..full(0.0)
        };
        let mut rulings = Vec::new();

        super::rule(
            OUT_PERCENT_MAX,
            &cases,
            100.0,
            true,
            &mut Vec::new(),
            &mut rulings,
        );

        assert_eq!(rulings[0], Ruling::Share(Hold::Dependency));
        assert_eq!(rulings[1], Ruling::Out);
    }

    #[test]
    fn who_was_put_back_rests_before_it_goes_again() {
        let mut cases = vec![fine(); 4];
        cases[0] = Case {
            rests: true,
            ..full(0.0)
        };

        assert_eq!(rule(&cases, 100.0)[0], Ruling::Floor(Hold::Rest));
    }
}
