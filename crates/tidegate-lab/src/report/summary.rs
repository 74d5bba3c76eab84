//! Results as text: a table by scenario, its bars, and a line about all of them.

use std::fmt::Write as _;

use super::figures::Figures;
use super::results::{BarResult, Results, ScenarioResult};
use super::table::Table;

/// The heads of a table of figures, and whether a column may be left out where it says nothing.
pub(super) const HEADS: [&str; 11] = [
    "policy",
    "offered/s",
    "goodput/s",
    "users %",
    "refused/s",
    "timed out/s",
    "p50 ms",
    "p99 ms",
    "limit",
    "queue most",
    "recovery s",
];

/// The whole text.
pub fn summary(results: &Results) -> String {
    let mut text = String::new();
    for scenario in &results.scenarios {
        write_scenario(&mut text, scenario);
    }
    let bars = || {
        let all = results.scenarios.iter();
        all.flat_map(|scenario| scenario.bars.iter().map(move |bar| (scenario, bar)))
    };
    let runs: usize = results
        .scenarios
        .iter()
        .flat_map(|scenario| &scenario.policies)
        .map(|policy| policy.seeds.len())
        .sum();
    let per_second = results.events as f64 / results.cpu_s.max(0.01) / 1e6;
    line(
        &mut text,
        &format!(
            "{runs} runs, {} events in {:.1} s of CPU time: {per_second:.1} million a second",
            grouped(results.events),
            results.cpu_s
        ),
    );
    let missed: Vec<String> = bars()
        .filter(|(_, bar)| !bar.held)
        .map(|(scenario, bar)| format!("  {} {}: {}", scenario.id, bar.policy, bar.wanted))
        .collect();
    match (bars().count(), missed.len()) {
        (0, _) => line(&mut text, "there are no bars to clear"),
        (all, 0) => line(&mut text, &format!("all {all} bars hold")),
        (all, some) => {
            line(&mut text, &format!("{some} of {all} bars missed:"));
            missed.iter().for_each(|bar| line(&mut text, bar));
        }
    }
    text
}

fn write_scenario(text: &mut String, scenario: &ScenarioResult) {
    line(
        text,
        &format!("{}  {}  ({})", scenario.id, scenario.title, scenario.from),
    );
    let mut table = Table::new(HEADS);
    for policy in &scenario.policies {
        table.row(cells(&policy.policy, &policy.figures));
    }
    text.push_str(&table.to_string());
    for bar in &scenario.bars {
        line(text, &bar_line(bar));
    }
    text.push('\n');
}

/// One row of the table of figures.
pub(super) fn cells(policy: &str, figures: &Figures) -> [String; 11] {
    let limit = match (figures.limit_least, figures.limit_most) {
        (Some(least), Some(most)) if least == most => format!("{least:.0}"),
        (Some(least), Some(most)) => format!("{least:.0}–{most:.0}"),
        _ => "–".to_owned(),
    };
    let share = figures
        .users_percent
        .map_or_else(|| "–".to_owned(), |percent| format!("{percent:.1}"));
    [
        policy.to_owned(),
        figure(Some(figures.offered)),
        figure(Some(figures.goodput)),
        share,
        figure(Some(figures.refused)),
        figure(Some(figures.timed_out)),
        figure(figures.p50_ms),
        figure(figures.p99_ms),
        limit,
        figure(Some(figures.queue_most)),
        figure(figures.recovery_s),
    ]
}

fn bar_line(bar: &BarResult) -> String {
    let verdict = match bar.verdict() {
        "missed" => "MISSED",
        other => other,
    };
    format!(
        "  {verdict:<6}  {}: {}: {}",
        bar.policy,
        bar.wanted,
        value(bar)
    )
}

/// What a bar measured, for people.
pub(super) fn value(bar: &BarResult) -> String {
    match bar.value {
        None => "nothing to measure".to_owned(),
        value => figure(value),
    }
}

/// A figure with the digits that say something: 1986, 56.5, 0.03.
fn figure(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.is_infinite() => "never".to_owned(),
        Some(value) if value == 0.0 || value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// 1234567 is `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a text takes whatever is written to it");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{PolicyResult, Series};

    fn results(held: bool) -> Results {
        let policy = PolicyResult {
            policy: "tidegate".to_owned(),
            figures: Figures {
                goodput: 1986.4,
                p50_ms: Some(56.54),
                limit_least: Some(101.0),
                limit_most: Some(128.0),
                recovery_s: Some(f64::INFINITY),
                ..Figures::default()
            },
            seeds: Vec::new(),
            series: Series::default(),
        };
        let bar = BarResult {
            policy: "tidegate".to_owned(),
            measure: "goodput",
            wanted: "goodput ≥ 1960 /s".to_owned(),
            at_least: Some(1960.0),
            at_most: None,
            values: vec![Some(1986.4)],
            value: Some(1986.4),
            held,
        };
        Results {
            scenarios: vec![ScenarioResult {
                id: "S1".to_owned(),
                title: "too much".to_owned(),
                from: "limiter".to_owned(),
                length_s: 60.0,
                warm_up_s: 30.0,
                policies: vec![policy],
                bars: vec![bar],
            }],
            events: 12_345_678,
            cpu_s: 2.0,
        }
    }

    #[test]
    fn figures_bars_and_speed_are_all_there() {
        let text = summary(&results(true));

        assert!(text.starts_with("S1  too much  (limiter)\n"), "{text}");
        assert!(text.contains("1986"), "{text}");
        assert!(text.contains("101–128"), "{text}");
        assert!(text.contains("never"), "{text}");
        assert!(
            text.contains("  holds   tidegate: goodput ≥ 1960 /s: 1986\n"),
            "{text}"
        );
        assert!(text.contains("12,345,678 events in 2.0 s of CPU time: 6.2 million a second"));
        assert!(text.ends_with("all 1 bars hold\n"), "{text}");
    }

    #[test]
    fn a_missed_bar_is_named_again_at_the_end() {
        let text = summary(&results(false));

        assert!(
            text.ends_with("1 of 1 bars missed:\n  S1 tidegate: goodput ≥ 1960 /s\n"),
            "{text}"
        );
    }
}
