//! Which limits a descriptor meets.

use std::collections::HashMap;

use crate::messages::DescriptorEntry;
use crate::plan::{Entry, Fit, RlsLimit, Wanted};

/// The limits of all domains, to be looked up.
pub(crate) struct Book(Vec<Domain>);

struct Domain {
    name: String,
    /// Limits that fit as a whole, by the keys of their entries; the most specific first.
    whole: HashMap<String, Vec<usize>>,
    /// The others.
    part: Vec<usize>,
}

impl Book {
    pub(crate) fn new(domains: &[String], limits: &[RlsLimit]) -> Self {
        let mut book: Vec<Domain> = domains.iter().map(|name| Domain::new(name)).collect();
        for (at, limit) in limits.iter().enumerate() {
            let domain = &mut book[limit.domain];
            match limit.fit {
                Fit::Part => domain.part.push(at),
                Fit::Whole => {
                    let keys = limit.descriptor.iter().map(|entry| entry.key.as_str());
                    domain.whole.entry(joined(keys)).or_default().push(at);
                }
            }
        }
        for domain in &mut book {
            for alike in domain.whole.values_mut() {
                // A stable order: of equals the first that was written.
                alike.sort_by(|&one, &other| {
                    let rank = |at: usize| limits[at].descriptor.iter().map(Entry::rank);
                    rank(other).cmp(rank(one))
                });
            }
        }
        Self(book)
    }

    /// The place of the domain with that name.
    pub(crate) fn domain(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|domain| domain.name == name)
    }

    /// Calls `met` with the place of each limit that a descriptor with these entries meets.
    pub(crate) fn look_up(
        &self,
        domain: usize,
        limits: &[RlsLimit],
        entries: &[DescriptorEntry],
        mut met: impl FnMut(usize),
    ) {
        let domain = &self.0[domain];
        if !domain.whole.is_empty() {
            let keys = joined(entries.iter().map(|entry| entry.key.as_str()));
            let alike = domain.whole.get(&keys).map_or(&[][..], Vec::as_slice);
            let fits = |&&at: &&usize| fits_whole(&limits[at].descriptor, entries);
            if let Some(&at) = alike.iter().find(fits) {
                met(at);
            }
        }
        for &at in &domain.part {
            let found = |wanted: &Entry| wanted.found_in(entries).is_some();
            if limits[at].descriptor.iter().all(found) {
                met(at);
            }
        }
    }
}

impl Domain {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            whole: HashMap::new(),
            part: Vec::new(),
        }
    }
}

impl Entry {
    /// How specific it is: a value before a beginning, a longer one before a shorter one, both before anything.
    fn rank(&self) -> (u8, usize) {
        match &self.value {
            Wanted::Is(_) => (3, 0),
            Wanted::Begins(beginning) => (2, beginning.len()),
            Wanted::Not(_) => (1, 0),
            Wanted::Any => (0, 0),
        }
    }

    fn fits(&self, entry: &DescriptorEntry) -> bool {
        self.key == entry.key
            && match &self.value {
                Wanted::Any => true,
                Wanted::Is(value) => entry.value == value.as_bytes(),
                Wanted::Begins(beginning) => entry.value.starts_with(beginning.as_bytes()),
                Wanted::Not(value) => entry.value != value.as_bytes(),
            }
    }

    /// The first of `entries` that is meant.
    pub(crate) fn found_in<'e>(
        &self,
        entries: &'e [DescriptorEntry],
    ) -> Option<&'e DescriptorEntry> {
        entries.iter().find(|entry| self.fits(entry))
    }

    /// Whether each value counts apart.
    pub(crate) fn tells_values_apart(&self) -> bool {
        match self.value {
            Wanted::Any | Wanted::Begins(_) => !self.together,
            Wanted::Is(_) | Wanted::Not(_) => false,
        }
    }
}

fn fits_whole(wanted: &[Entry], entries: &[DescriptorEntry]) -> bool {
    wanted.len() == entries.len()
        && wanted
            .iter()
            .zip(entries)
            .all(|(wanted, entry)| wanted.fits(entry))
}

/// Keys in one text. Two lists may give the same, which costs a comparison: who is found is compared in full.
fn joined<'k>(keys: impl Iterator<Item = &'k str>) -> String {
    let mut text = String::new();
    for key in keys {
        text.push_str(key);
        text.push('\0');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_core::rate::set::Standing;
    use tidegate_core::rate::{Algorithm, Rate, Spec};

    use super::*;
    use crate::plan::{Allowance, OnStoreLoss, Scope};

    fn limit(fit: Fit, descriptor: &[(&str, Wanted)]) -> RlsLimit {
        let rate: Rate = "1/s".parse().unwrap();
        let entry = |(key, value): &(&str, Wanted)| Entry {
            key: (*key).to_owned(),
            value: value.clone(),
            together: false,
        };
        RlsLimit {
            name: "limit".to_owned(),
            domain: 0,
            descriptor: descriptor.iter().map(entry).collect(),
            fit,
            allowance: Allowance::Limited {
                rate,
                algorithm: Algorithm::Bucket,
                spec: Arc::new(Spec::new(Algorithm::Bucket, rate, None).unwrap()),
            },
            cost: 1,
            standing: Standing::Enforced,
            scope: Scope::Node,
            on_store_loss: OnStoreLoss::Local,
            replaces: Vec::new(),
        }
    }

    /// The places of the limits that a descriptor meets.
    fn met(limits: &[RlsLimit], entries: &[(&str, &str)]) -> Vec<usize> {
        let book = Book::new(&["edge".to_owned()], limits);
        let entry = |&(key, value): &(&str, &str)| DescriptorEntry {
            key: key.to_owned(),
            value: value.as_bytes().to_vec(),
        };
        let entries: Vec<_> = entries.iter().map(entry).collect();
        let mut found = Vec::new();
        book.look_up(0, limits, &entries, |at| found.push(at));
        found
    }

    fn is(value: &str) -> Wanted {
        Wanted::Is(value.to_owned())
    }

    fn begins(value: &str) -> Wanted {
        Wanted::Begins(value.to_owned())
    }

    #[test]
    fn the_most_specific_whole_is_met_whatever_the_order_in_the_file() {
        let whole = |descriptor: &[(&str, Wanted)]| limit(Fit::Whole, descriptor);
        let limits = [
            whole(&[("path", Wanted::Any)]),
            whole(&[("path", Wanted::Not("/x".to_owned()))]),
            whole(&[("path", begins("/a"))]),
            whole(&[("path", begins("/a/b"))]),
            whole(&[("path", is("/a/b/c"))]),
        ];
        let met = |path: &str| met(&limits, &[("path", path)]);

        assert_eq!(met("/a/b/c"), [4]);
        assert_eq!(met("/a/b/d"), [3]);
        assert_eq!(met("/a/c"), [2]);
        assert_eq!(met("/c"), [1]);
        assert_eq!(met("/x"), [0]);
    }

    #[test]
    fn a_limit_that_stands_nearer_does_not_hide_one_that_fits() {
        let limits = [
            limit(Fit::Whole, &[("a", is("1")), ("b", is("2"))]),
            limit(Fit::Whole, &[("a", Wanted::Any), ("c", Wanted::Any)]),
        ];

        assert_eq!(met(&limits, &[("a", "1"), ("c", "3")]), [1]);
        assert_eq!(met(&limits, &[("a", "1"), ("b", "2")]), [0]);
        assert_eq!(met(&limits, &[("a", "1"), ("b", "3")]), [0_usize; 0]);
        assert_eq!(met(&limits, &[("a", "1")]), [0_usize; 0]);
    }

    #[test]
    fn keys_that_only_look_alike_when_they_are_joined_are_others() {
        let limits = [limit(Fit::Whole, &[("a\0b", Wanted::Any)])];

        assert_eq!(met(&limits, &[("a", "1"), ("b", "2")]), [0_usize; 0]);
        assert_eq!(met(&limits, &[("a\0b", "1")]), [0]);
    }

    #[test]
    fn all_parts_are_met_in_any_order() {
        let limits = [
            limit(Fit::Part, &[]),
            limit(Fit::Part, &[("b", is("2")), ("a", Wanted::Any)]),
            limit(Fit::Part, &[("a", Wanted::Not("1".to_owned()))]),
            limit(Fit::Whole, &[("a", Wanted::Any), ("b", Wanted::Any)]),
        ];

        assert_eq!(met(&limits, &[("a", "1"), ("b", "2")]), [3, 0, 1]);
        assert_eq!(met(&limits, &[("c", "3")]), [0]);
        assert_eq!(met(&limits, &[("a", "2")]), [0, 2]);
    }
}
