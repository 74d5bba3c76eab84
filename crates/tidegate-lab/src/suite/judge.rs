//! Bars and what becomes of them.

use crate::scenario::{Bar, Over};

/// Whether a bar was cleared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The value that decided: the worst of all seeds, or their mean. `None` where some seed had
    /// nothing to measure.
    pub value: Option<f64>,
    /// Whether it is within the bar's bounds; always so for a bar that has none.
    pub held: bool,
}

/// Holds `values`, one per seed, against `bar`.
pub fn judge(bar: &Bar, values: &[Option<f64>]) -> Verdict {
    let known: Option<Vec<f64>> = values.iter().copied().collect();
    let known = known.filter(|known| !known.is_empty());
    let free = bar.at_least.is_none() && bar.at_most.is_none();
    let Some(known) = known else {
        return Verdict {
            value: None,
            held: free,
        };
    };
    let value = match bar.over {
        Over::Every if !free => worst(bar, &known),
        Over::Every | Over::Mean => known.iter().sum::<f64>() / known.len() as f64,
    };
    Verdict {
        value: Some(value),
        held: excess(bar, value) <= 0.0,
    }
}

/// The value that is furthest out, or the nearest to being so.
fn worst(bar: &Bar, values: &[f64]) -> f64 {
    values
        .iter()
        .copied()
        .max_by(|one, other| excess(bar, *one).total_cmp(&excess(bar, *other)))
        .unwrap_or_default()
}

/// How far `value` is out of bounds; below 0 while it is within.
fn excess(bar: &Bar, value: f64) -> f64 {
    let below = bar
        .at_least
        .map_or(f64::NEG_INFINITY, |least| least - value);
    let above = bar.at_most.map_or(f64::NEG_INFINITY, |most| value - most);
    below.max(above)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::scenario::Measure;

    use super::*;

    fn bar(at_least: Option<f64>, at_most: Option<f64>, over: Over) -> Bar {
        Bar {
            policy: "tidegate".to_owned(),
            measure: Measure::Goodput,
            class: None,
            from: None,
            to: Some(Duration::from_secs(1)),
            at_least,
            at_most,
            over,
            recovered: None,
        }
    }

    #[test]
    fn every_seed_has_to_clear_a_bar() {
        let bar = bar(Some(10.0), None, Over::Every);

        let good = judge(&bar, &[Some(10.0), Some(12.0)]);
        let bad = judge(&bar, &[Some(9.0), Some(12.0)]);

        assert_eq!((good.value, good.held), (Some(10.0), true));
        assert_eq!((bad.value, bad.held), (Some(9.0), false));
    }

    #[test]
    fn a_mean_may_hide_a_seed() {
        let bar = bar(Some(10.0), None, Over::Mean);

        let verdict = judge(&bar, &[Some(9.0), Some(12.0)]);

        assert_eq!((verdict.value, verdict.held), (Some(10.5), true));
    }

    #[test]
    fn of_two_bounds_the_one_that_is_missed_decides() {
        let bar = bar(Some(100.0), Some(130.0), Over::Every);

        let high = judge(&bar, &[Some(110.0), Some(140.0), Some(101.0)]);
        let fine = judge(&bar, &[Some(110.0), Some(128.0)]);

        assert_eq!((high.value, high.held), (Some(140.0), false));
        assert_eq!((fine.value, fine.held), (Some(128.0), true));
    }

    #[test]
    fn a_bar_without_bounds_is_for_showing() {
        let bar = bar(None, None, Over::Every);

        let verdict = judge(&bar, &[Some(1.0), Some(2.0)]);

        assert_eq!((verdict.value, verdict.held), (Some(1.5), true));
        assert!(judge(&bar, &[None]).held);
    }

    #[test]
    fn what_could_not_be_measured_clears_no_bar() {
        let verdict = judge(&bar(None, Some(1.0), Over::Every), &[Some(0.0), None]);

        assert_eq!((verdict.value, verdict.held), (None, false));
    }

    #[test]
    fn never_is_longer_than_anything() {
        let never = [Some(f64::INFINITY)];

        assert!(judge(&bar(Some(200.0), None, Over::Every), &never).held);
        assert!(!judge(&bar(None, Some(3.0), Over::Mean), &never).held);
    }
}
