//! What is asked for lately, by class and cohort of users.

use crate::facts::{COHORTS, Class};

/// Cohorts of all classes, in the order in which they are let in.
pub(super) const STEPS: usize = Class::COUNT * COHORTS as usize;

/// With each step a count loses one in so many.
const FADE: u64 = 30;

/// Work that was asked for, the latest most.
#[derive(Debug)]
pub(super) struct Demand(Box<[u64; STEPS]>);

impl Demand {
    pub(super) fn new() -> Self {
        Self(Box::new([0; STEPS]))
    }

    #[cfg(test)]
    pub(super) fn of(asked: &[u64]) -> Self {
        let mut demand = Self::new();
        demand.0.copy_from_slice(asked);
        demand
    }

    pub(super) fn add(&mut self, class: Class, cohort: u8, work: u64) {
        let asked = &mut self.0[step(class, cohort)];
        *asked = asked.saturating_add(work);
    }

    /// A step of time passes.
    pub(super) fn fade(&mut self) {
        for asked in &mut *self.0 {
            *asked = faded(*asked);
        }
    }

    /// All of it.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, it| sum.saturating_add(*it))
    }

    /// The first cohort, from the top, that no longer fits into `work`; `None` when all do.
    pub(super) fn filled(&self, work: u64) -> Option<usize> {
        Some(self.filled_in_part(work)?.0)
    }

    /// The same, with the part of that cohort that does fit, 0 to 1.
    pub(super) fn filled_in_part(&self, work: u64) -> Option<(usize, f64)> {
        let mut left = work;
        for (step, &asked) in self.0.iter().enumerate() {
            match left.checked_sub(asked) {
                Some(rest) => left = rest,
                None => return Some((step, left as f64 / asked as f64)),
            }
        }
        None
    }
}

/// What a step of time leaves of a count, rounded so that it comes to nothing.
pub(super) const fn faded(count: u64) -> u64 {
    count - count.div_ceil(FADE)
}

/// What a steady count comes to, in steps.
pub(super) const FADED_STEPS: u64 = FADE;

/// Position from the top, by class and then by cohort.
pub(super) const fn step(class: Class, cohort: u8) -> usize {
    let cohort = if cohort < COHORTS {
        cohort
    } else {
        COHORTS - 1
    };
    class.index() * COHORTS as usize + cohort as usize
}
