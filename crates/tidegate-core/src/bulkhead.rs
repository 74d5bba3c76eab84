//! Who may use the next slot: reserves that classes hold, and shares that groups may not exceed.
//!
//! One question, `Occupancy::admits`, is asked at every admission with the counters of that very
//! moment, so no check can be outrun by an act.

use std::time::Duration;

use crate::facts::{Class, GroupId};
use crate::time::Mono;

/// How long a lent reserve keeps its hot spare after the last sign of its class.
const SPARE_KEPT: Duration = Duration::from_secs(10);

/// The part of a lent reserve that stays free for its class.
const SPARE_SHARE: f64 = 0.25;

/// An amount of slots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Portion {
    /// A share of the limit, from 0 to 1; follows the limit.
    Share(f64),
    /// A number of slots.
    Slots(u32),
}

/// Whether idle reserved slots may be used by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loan {
    /// Nobody else ever uses them.
    Strict,
    /// Idle ones are lent, less a hot spare of a quarter and at least one slot that is kept for ten
    /// seconds after the class was last seen. They come back with the next completions.
    Lent,
}

/// Slots that one class may always use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reserve {
    /// How many.
    pub portion: Portion,
    /// What others may do with them.
    pub loan: Loan,
}

/// Reserves and shares as configured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bulkheads {
    /// By class index.
    pub reserves: [Option<Reserve>; Class::COUNT],
    /// The most that groups 1, 2, … may use; group 0 has no such cap.
    pub groups: Vec<Portion>,
}

impl Portion {
    /// Slots out of `limit`, to the nearest whole one; something is never nothing.
    pub fn slots(self, limit: u32) -> u32 {
        match self {
            Self::Share(share) if share <= 0.0 => 0,
            Self::Share(share) => ((f64::from(limit) * share).round() as u32).max(1),
            Self::Slots(slots) => slots,
        }
    }
}

impl Bulkheads {
    /// The most that requests of `class` can ever use of `limit` slots: all but what others keep for themselves whoever
    /// comes. What is lent may be used while its class stays away.
    pub fn most(&self, limit: u32, class: Class) -> u32 {
        let reserves = self.slots(limit);
        let strict = |other: &Class| {
            let reserve = self.reserves[other.index()];
            *other != class && reserve.is_some_and(|reserve| reserve.loan == Loan::Strict)
        };
        let kept = Class::ALL.into_iter().filter(strict);
        let kept: u32 = kept.map(|other| reserves[other.index()]).sum();
        limit - kept
    }

    /// Reserved slots by class, the highest class first, together at most `limit` − 1: a limit that
    /// has shrunk below its reserves must not shut everybody else out for good.
    fn slots(&self, limit: u32) -> [u32; Class::COUNT] {
        let mut left = limit.saturating_sub(1);
        self.reserves.map(|reserve| {
            let slots = reserve
                .map_or(0, |reserve| reserve.portion.slots(limit))
                .min(left);
            left -= slots;
            slots
        })
    }
}

impl Loan {
    /// Of so many lent slots, those that are kept free for their class.
    pub fn spare(slots: u32) -> u32 {
        ((f64::from(slots) * SPARE_SHARE) as u32).max(1)
    }
}

/// Requests inside the application, counted by class and group.
#[derive(Clone, Debug)]
pub(crate) struct Occupancy {
    bulkheads: Bulkheads,
    total: u32,
    by_class: [u32; Class::COUNT],
    by_group: Vec<u32>,
    seen: [Option<Mono>; Class::COUNT],
}

impl Occupancy {
    pub(crate) fn new(bulkheads: Bulkheads) -> Self {
        let groups = bulkheads.groups.len() + 1;
        Self {
            bulkheads,
            total: 0,
            by_class: [0; Class::COUNT],
            by_group: vec![0; groups],
            seen: [None; Class::COUNT],
        }
    }

    /// Whether one more of `class` in `group` may start under `limit`.
    pub(crate) fn admits(&self, now: Mono, limit: u32, class: Class, group: GroupId) -> bool {
        if self.total >= limit || self.by_group[usize::from(group.0)] >= self.cap(limit, group) {
            return false;
        }
        let reserves = self.bulkheads.slots(limit);
        if self.by_class[class.index()] < reserves[class.index()] {
            return true;
        }
        let held: u32 = Class::ALL
            .into_iter()
            .filter(|&other| other != class)
            .map(|other| self.held(now, other, reserves[other.index()]))
            .sum();
        self.total.saturating_add(held) < limit
    }

    /// Whether `class` uses less than what is reserved for it.
    pub(crate) fn is_owed(&self, limit: u32, class: Class) -> bool {
        self.bulkheads.reserves[class.index()].is_some()
            && self.by_class[class.index()] < self.bulkheads.slots(limit)[class.index()]
    }

    /// A request of `class` has shown up: its hot spare is worth keeping.
    pub(crate) const fn see(&mut self, now: Mono, class: Class) {
        self.seen[class.index()] = Some(now);
    }

    pub(crate) fn enter(&mut self, class: Class, group: GroupId) {
        self.total += 1;
        self.by_class[class.index()] += 1;
        self.by_group[usize::from(group.0)] += 1;
    }

    pub(crate) fn leave(&mut self, class: Class, group: GroupId) {
        self.total -= 1;
        self.by_class[class.index()] -= 1;
        self.by_group[usize::from(group.0)] -= 1;
    }

    /// Requests inside.
    pub(crate) const fn total(&self) -> u32 {
        self.total
    }

    /// Requests inside by class index.
    pub(crate) const fn by_class(&self) -> [u32; Class::COUNT] {
        self.by_class
    }

    /// Requests inside by group id.
    pub(crate) fn by_group(&self) -> &[u32] {
        &self.by_group
    }

    /// Groups, group 0 included.
    pub(crate) const fn groups(&self) -> usize {
        self.by_group.len()
    }

    /// The most that `group` may use under `limit`.
    pub(crate) fn cap(&self, limit: u32, group: GroupId) -> u32 {
        match usize::from(group.0).checked_sub(1) {
            Some(index) => self.bulkheads.groups[index].slots(limit).clamp(1, limit),
            None => limit,
        }
    }

    /// Slots of `class` that are idle and that nobody else may have now.
    fn held(&self, now: Mono, class: Class, reserve: u32) -> u32 {
        let idle = reserve.saturating_sub(self.by_class[class.index()]);
        let loan = self.bulkheads.reserves[class.index()].map(|reserve| reserve.loan);
        match (loan, self.seen[class.index()]) {
            (Some(Loan::Strict), _) => idle,
            (Some(Loan::Lent), Some(seen)) if now.since(seen) < SPARE_KEPT => {
                idle.min(Loan::spare(reserve))
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Mono = Mono::from_millis(1000);
    const MAIN: GroupId = GroupId(0);

    fn occupancy(critical: Reserve, groups: Vec<Portion>) -> Occupancy {
        let mut bulkheads = Bulkheads {
            groups,
            ..Bulkheads::default()
        };
        bulkheads.reserves[Class::Critical.index()] = Some(critical);
        Occupancy::new(bulkheads)
    }

    fn fill(occupancy: &mut Occupancy, now: Mono, class: Class, group: GroupId) -> u32 {
        let before = occupancy.total();
        while occupancy.admits(now, 20, class, group) {
            occupancy.enter(class, group);
        }
        occupancy.total() - before
    }

    #[test]
    fn a_strict_reserve_is_left_alone_and_is_there_at_once() {
        let reserve = Reserve {
            portion: Portion::Share(0.2),
            loan: Loan::Strict,
        };
        let mut occupancy = occupancy(reserve, Vec::new());

        assert_eq!(fill(&mut occupancy, NOW, Class::Anonymous, MAIN), 16);
        assert_eq!(fill(&mut occupancy, NOW, Class::Critical, MAIN), 4);
    }

    #[test]
    fn the_most_that_a_class_can_use_is_what_it_gets_when_nobody_else_comes() {
        for loan in [Loan::Strict, Loan::Lent] {
            for reserved in [0, 4, 19, 30] {
                let reserve = Reserve {
                    portion: Portion::Slots(reserved),
                    loan,
                };
                for class in [Class::Critical, Class::Anonymous] {
                    let mut occupancy = occupancy(reserve, Vec::new());

                    let most = occupancy.bulkheads.most(20, class);

                    assert_eq!(fill(&mut occupancy, NOW, class, MAIN), most);
                    assert!(most >= 1, "{loan:?} {reserved} {class:?}");
                }
            }
        }
    }

    #[test]
    fn a_lent_reserve_keeps_a_spare_only_for_a_class_that_was_seen() {
        let reserve = Reserve {
            portion: Portion::Slots(8),
            loan: Loan::Lent,
        };
        let mut idle = occupancy(reserve, Vec::new());
        let mut lively = idle.clone();
        lively.see(NOW, Class::Critical);

        assert_eq!(fill(&mut idle, NOW, Class::Anonymous, MAIN), 20);
        assert_eq!(fill(&mut lively, NOW, Class::Anonymous, MAIN), 18);
        let later = NOW + Duration::from_secs(10);
        assert_eq!(fill(&mut lively, later, Class::Anonymous, MAIN), 2);
    }

    #[test]
    fn a_group_never_exceeds_its_share_and_leaves_the_rest_to_others() {
        let reserve = Reserve {
            portion: Portion::Slots(0),
            loan: Loan::Strict,
        };
        let mut occupancy = occupancy(reserve, vec![Portion::Share(0.25)]);

        assert_eq!(fill(&mut occupancy, NOW, Class::Anonymous, GroupId(1)), 5);
        assert_eq!(fill(&mut occupancy, NOW, Class::Background, MAIN), 15);
    }

    #[test]
    fn a_limit_below_its_reserves_still_lets_others_in() {
        let reserve = Reserve {
            portion: Portion::Slots(30),
            loan: Loan::Strict,
        };
        let occupancy = occupancy(reserve, Vec::new());

        assert!(occupancy.admits(NOW, 20, Class::Background, MAIN));
        assert!(occupancy.admits(NOW, 1, Class::Background, MAIN));
        assert!(!occupancy.admits(NOW, 0, Class::Critical, MAIN));
    }
}
