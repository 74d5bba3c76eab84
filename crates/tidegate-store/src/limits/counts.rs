//! How many keys a table has of each limit.
//!
//! A slot has no room for the number of its limit. It has the limit, and that lies at an address of its own: so the
//! number is looked up by it, whenever a key comes or goes.

use std::sync::Arc;

use tidegate_core::rate::Spec;

/// The limits whose keys are counted.
#[derive(Default)]
pub(super) struct Counted {
    /// Kept here, so that no other limit comes to lie at the address of one of them.
    specs: Vec<Arc<Spec>>,
    /// Address and place of each, sorted.
    places: Vec<(usize, usize)>,
}

/// What is counted of the keys of one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// Those that are remembered.
    pub kept: u64,
    /// Those that were dropped before they were full again, to make room.
    pub forgotten: u64,
}

/// The counts of a shard.
pub(super) struct Counts {
    of: Arc<Counted>,
    by_limit: Box<[KeyCounts]>,
}

impl Counted {
    pub(super) fn new(specs: &[Arc<Spec>]) -> Self {
        let mut places: Vec<_> = specs.iter().map(address).zip(0..).collect();
        places.sort_unstable();
        Self {
            specs: specs.to_vec(),
            places,
        }
    }

    fn place(&self, spec: &Arc<Spec>) -> Option<usize> {
        let wanted = address(spec);
        let found = self
            .places
            .binary_search_by_key(&wanted, |(address, _)| *address);
        found.ok().map(|at| self.places[at].1)
    }
}

impl Counts {
    pub(super) fn new(of: Arc<Counted>) -> Self {
        Self {
            by_limit: vec![KeyCounts::default(); of.specs.len()].into(),
            of,
        }
    }

    /// Those of the limit at `place` among the counted ones.
    pub(super) fn at(&self, place: usize) -> KeyCounts {
        self.by_limit[place]
    }

    /// A key of `spec` has come.
    pub(super) fn came(&mut self, spec: &Arc<Spec>) {
        self.with(spec, |counts| counts.kept += 1);
    }

    /// A key of `spec` has gone.
    pub(super) fn went(&mut self, spec: &Arc<Spec>) {
        self.with(spec, |counts| counts.kept -= 1);
    }

    /// The key of `spec` that has gone would have been remembered if there had been room.
    pub(super) fn was_forgotten(&mut self, spec: &Arc<Spec>) {
        self.with(spec, |counts| counts.forgotten += 1);
    }

    fn with(&mut self, spec: &Arc<Spec>, change: impl FnOnce(&mut KeyCounts)) {
        if let Some(place) = self.of.place(spec) {
            change(&mut self.by_limit[place]);
        }
    }
}

fn address(spec: &Arc<Spec>) -> usize {
    Arc::as_ptr(spec).addr()
}

#[cfg(test)]
mod tests {
    use tidegate_core::rate::Algorithm;

    use super::*;

    #[test]
    fn limits_that_look_alike_are_counted_apart_and_others_not_at_all() {
        let rate = "10/s".parse().unwrap();
        let spec = || Arc::new(Spec::new(Algorithm::Bucket, rate, None).unwrap());
        let specs: Vec<_> = (0..20).map(|_| spec()).collect();
        let mut counts = Counts::new(Arc::new(Counted::new(&specs)));

        for (spec, times) in specs.iter().zip(0..) {
            (0..times).for_each(|_| counts.came(spec));
        }
        counts.came(&spec());
        counts.went(&specs[7]);
        counts.was_forgotten(&specs[7]);

        let kept: Vec<u64> = (0..20).map(|place| counts.at(place).kept).collect();
        assert_eq!(kept[..7], [0, 1, 2, 3, 4, 5, 6]);
        let (kept, forgotten) = (6, 1);
        assert_eq!(counts.at(7), KeyCounts { kept, forgotten });
        assert_eq!(counts.at(19).kept, 19);
    }
}
