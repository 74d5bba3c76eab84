//! How much may be asked of each dependency, by what all nodes see of it.

use std::collections::BTreeMap;

use tidegate_core::health::{Bands, Called, Pace, left_of, room};
use tidegate_core::time::Mono;

/// Most dependencies that are kept apart; of more the first by name.
const BUDGETS_MAX: usize = 32;
/// Bytes of a name. Configurations have no longer ones, and so many of these fit into the word about the fleet: one that
/// did not would keep it and all verdicts from being published.
const NAME_BYTES_MAX: usize = 64;

/// The share that holds of each; of those that are not there everything does.
#[derive(Clone, Debug, Default)]
pub(super) struct Budgets(BTreeMap<String, Pace>);

impl Budgets {
    /// Those that were published as these shares, and go on at `now`.
    pub(super) fn resumed(now: Mono, shares: &BTreeMap<String, f64>) -> Self {
        let shares = shares.iter().take(BUDGETS_MAX);
        Self(
            shares
                .map(|(name, share)| {
                    let pace = Pace {
                        share: share.clamp(0.0, 1.0),
                        fell: Some(now),
                    };
                    (name.clone(), pace)
                })
                .collect(),
        )
    }

    /// A tick on, by how calls went at all nodes. What nobody calls comes back by and by: there is nobody to be hurt.
    pub(super) fn step<'c>(
        &mut self,
        now: Mono,
        bands: &Bands,
        calls: impl Iterator<Item = &'c (String, Called)>,
    ) {
        let mut by_name: BTreeMap<&str, Vec<Called>> = BTreeMap::new();
        for (name, called) in calls.filter(|(name, _)| is_name(name)) {
            by_name.entry(name).or_default().push(*called);
        }
        for name in by_name.keys() {
            if self.0.len() < BUDGETS_MAX && !self.0.contains_key(*name) {
                self.0.insert((*name).to_owned(), Pace::ALL);
            }
        }
        for (name, pace) in &mut self.0 {
            let left = by_name.get(&**name).and_then(|called| left_of(called));
            *pace = pace.step(now, Some(left.map_or(1.0, |left| room(left, bands))));
        }
        self.0
            .retain(|name, pace| *pace != Pace::ALL || by_name.contains_key(&**name));
    }

    /// The share of each of which not everything holds.
    pub(super) fn shares(&self) -> BTreeMap<String, f64> {
        let less = self.0.iter().filter(|(_, pace)| pace.share < 1.0);
        less.map(|(name, pace)| (name.clone(), (pace.share * 1e3).round() / 1e3))
            .collect()
    }
}

/// Whether a dependency can be called so.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use tidegate_core::health::Pulse;
    use tidegate_store::FLEET_BYTES_MAX;

    use super::super::verdict::{Counts, Word};
    use super::*;

    fn at(second: u64) -> Mono {
        Mono::from_millis(second * 1_000)
    }

    fn called(name: &str, failed: f64) -> (String, Called) {
        let called = Called {
            per_second: 10.0,
            failed,
            ..Called::default()
        };
        (name.to_owned(), called)
    }

    #[test]
    fn what_fails_gets_less_and_what_works_keeps_what_it_has() {
        let (mut budgets, bands) = (Budgets::default(), Bands::default());
        for second in 0..10 {
            let calls = [called("db", 0.6), called("db", 0.4), called("mail", 0.0)];
            budgets.step(at(second), &bands, calls.iter());
        }

        let shares = budgets.shares();
        assert_eq!(shares.len(), 1, "{shares:?}");
        assert!(shares["db"] < 0.3, "{shares:?}");

        let resumed = Budgets::resumed(at(10), &shares);
        assert_eq!(resumed.shares(), shares);
        for second in 10..120 {
            budgets.step(at(second), &bands, std::iter::empty());
        }
        assert!(budgets.shares().is_empty() && budgets.0.is_empty());
    }

    #[test]
    fn there_is_an_end_of_names() {
        let mut budgets = Budgets::default();
        let calls: Vec<_> = (0..200).map(|n| called(&format!("d{n}"), 1.0)).collect();

        budgets.step(at(1), &Bands::default(), calls.iter());

        assert_eq!(budgets.shares().len(), BUDGETS_MAX);
    }

    #[test]
    fn whatever_nodes_call_their_dependencies_the_word_can_be_published() {
        let mut budgets = Budgets::default();
        let long = (0..99).map(|n| called(&format!("{n:0>64}"), 1.0));
        let odd = ["x".repeat(1_900), "\u{1}".repeat(64), String::new()];
        let odd = odd.iter().map(|name| called(name, 1.0));
        let calls: Vec<_> = odd.chain(long).collect();
        for second in 0..3 {
            budgets.step(at(second), &Bands::default(), calls.iter());
        }

        let word = Word {
            budgets: budgets.shares(),
            ..Word::of(&"l".repeat(64), &Pulse::default(), 0, Counts::default())
        };

        assert_eq!(word.budgets.len(), BUDGETS_MAX);
        let bytes = word.encode().len();
        assert!(bytes <= FLEET_BYTES_MAX, "{bytes}");
    }
}
