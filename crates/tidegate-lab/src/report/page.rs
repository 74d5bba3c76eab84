//! Results as one page: tables, and plots over time by policy side by side. Everything is in the
//! page itself; nothing is fetched.

use std::fmt::Write as _;

use plotters::style::RGBColor;

use super::chart::{BLUE, Chart, GREEN, GREY, Line, ORANGE};
use super::html::escaped;
use super::results::{PolicyResult, Results, ScenarioResult};
use super::series::{Look, Series, Step};
use super::summary::{HEADS, cells, value};

/// Latencies are plotted up to this many times the largest 99th percentile of the first policy, so
/// that the collapse of another one does not flatten its line.
const LATENCY_ROOM: f64 = 2.5;

/// Limits and queues likewise.
const COUNT_ROOM: f64 = 2.5;

/// One row of plots: the same quantities for each policy.
struct Row {
    title: &'static str,
    keys: &'static [(&'static str, RGBColor)],
    lines: fn(&Series) -> Vec<Line>,
    /// How much higher than the first policy's lines the others' may go; `None` for any.
    room: Option<f64>,
    probes: bool,
}

const ROWS: [Row; 4] = [
    Row {
        title: "Attempts per second",
        keys: &[("offered", GREY), ("admitted", BLUE), ("good", GREEN)],
        lines: |series| {
            vec![
                by_step(GREY, series, |step| Some(step.offered)),
                by_step(BLUE, series, |step| Some(step.admitted)),
                by_step(GREEN, series, |step| Some(step.good)),
            ]
        },
        room: None,
        probes: false,
    },
    Row {
        title: "Time of good answers, ms",
        keys: &[("99th percentile", ORANGE), ("median", BLUE)],
        lines: |series| {
            vec![
                by_step(ORANGE, series, |step| step.p99_ms),
                by_step(BLUE, series, |step| step.p50_ms),
            ]
        },
        room: Some(LATENCY_ROOM),
        probes: false,
    },
    Row {
        title: "Limit (probes are shaded)",
        keys: &[("in flight", GREY), ("limit", BLUE)],
        lines: |series| {
            vec![
                by_look(GREY, series, |look| Some(look.in_flight)),
                by_look(BLUE, series, |look| look.limit),
            ]
        },
        room: Some(COUNT_ROOM),
        probes: true,
    },
    Row {
        title: "Waiting",
        keys: &[("inside the application", ORANGE), ("in the queue", BLUE)],
        lines: |series| {
            vec![
                by_look(ORANGE, series, |look| Some(look.backlog)),
                by_look(BLUE, series, |look| Some(look.queued)),
            ]
        },
        room: Some(COUNT_ROOM),
        probes: false,
    },
];

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">
<title>tidegate sim</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem; color: CanvasText; background: Canvas; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; } h3 { font-size: 1rem; margin: 1rem 0 0.2rem; }
table { border-collapse: collapse; margin: 0.7rem 0; }
th, td { padding: 0.15rem 0.7rem; text-align: right; border-bottom: 1px solid rgb(128 128 128 / 0.35); }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
.wide { overflow-x: auto; }
.plots { display: grid; grid-auto-flow: column; justify-content: start; gap: 0.5rem; }
figure { margin: 0; } figcaption { font-size: 0.85rem; }
.key { display: inline-block; width: 1.2em; height: 3px; vertical-align: middle; margin: 0 0.3em 0 1em; }
.held { color: #15803d; } .missed { color: #dc2626; font-weight: bold; }
@media (prefers-color-scheme: dark) { .held { color: #4ade80; } .missed { color: #f87171; } }
</style>
</head>
<body>
<h1>tidegate sim</h1>
<p>Tables are over all seeds, plots show the first. The plots of a row have one scale, made for the first
policy: what goes far beyond it is cut off at the top.</p>
";

/// The page for `results`.
pub fn page(results: &Results) -> String {
    let mut page = HEAD.to_owned();
    contents(&mut page, results);
    for (number, scenario) in results.scenarios.iter().enumerate() {
        section(&mut page, number, scenario);
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// A table of all scenarios with the verdict on each.
fn contents(page: &mut String, results: &Results) {
    page.push_str("<table><tr><th>scenario<th class=text>what<th>runs<th class=text>bars\n");
    for (number, scenario) in results.scenarios.iter().enumerate() {
        let runs: usize = scenario
            .policies
            .iter()
            .map(|policy| policy.seeds.len())
            .sum();
        let missed = scenario.bars.iter().filter(|bar| !bar.held).count();
        let (class, verdict) = match (scenario.bars.len(), missed) {
            (0, _) => ("", "none".to_owned()),
            (all, 0) => ("held", format!("{all} hold")),
            (all, some) => ("missed", format!("{some} of {all} missed")),
        };
        add(
            page,
            &format!(
                "<tr><td><a href=\"#s{number}\">{}</a><td class=text>{}<td>{runs}\
                 <td class=\"text {class}\">{verdict}\n",
                escaped(&scenario.id),
                escaped(&scenario.title),
            ),
        );
    }
    page.push_str("</table>\n");
}

fn section(page: &mut String, number: usize, scenario: &ScenarioResult) {
    add(
        page,
        &format!(
            "<h2 id=\"s{number}\">{} {}</h2>\n<p>{}, {} s simulated; figures from {} s on</p>\n",
            escaped(&scenario.id),
            escaped(&scenario.title),
            escaped(&scenario.from),
            scenario.length_s,
            scenario.warm_up_s,
        ),
    );
    page.push_str("<div class=wide><table><tr>");
    HEADS
        .iter()
        .for_each(|head| add(page, &format!("<th>{head}")));
    page.push('\n');
    for policy in &scenario.policies {
        page.push_str("<tr>");
        for cell in cells(&policy.policy, &policy.figures) {
            add(page, &format!("<td>{}", escaped(&cell)));
        }
        page.push('\n');
    }
    page.push_str("</table></div>\n");
    bars(page, scenario);
    ROWS.iter().for_each(|row| plots(page, scenario, row));
}

fn bars(page: &mut String, scenario: &ScenarioResult) {
    if scenario.bars.is_empty() {
        return;
    }
    page.push_str(
        "<table><tr><th>bar for<th class=text>what has to hold<th>value<th class=text>verdict\n",
    );
    for bar in &scenario.bars {
        let class = if bar.held { "held" } else { "missed" };
        add(
            page,
            &format!(
                "<tr><td>{}<td class=text>{}<td>{}<td class=\"text {class}\">{}\n",
                escaped(&bar.policy),
                escaped(&bar.wanted),
                escaped(&value(bar)),
                bar.verdict(),
            ),
        );
    }
    page.push_str("</table>\n");
}

fn plots(page: &mut String, scenario: &ScenarioResult, row: &Row) {
    add(page, &format!("<h3>{}", row.title));
    for (name, RGBColor(red, green, blue)) in row.keys {
        add(
            page,
            &format!(
                "<span class=key style=\"background: rgb({red} {green} {blue})\"></span>{name}"
            ),
        );
    }
    page.push_str("</h3>\n<div class=\"wide plots\">\n");
    let lines: Vec<Vec<Line>> = scenario
        .policies
        .iter()
        .map(|policy| (row.lines)(&policy.series))
        .collect();
    let most = scale(&lines, row.room);
    for (policy, lines) in scenario.policies.iter().zip(lines) {
        figure(page, scenario, policy, row, lines, most);
    }
    page.push_str("</div>\n");
}

fn figure(
    page: &mut String,
    scenario: &ScenarioResult,
    policy: &PolicyResult,
    row: &Row,
    lines: Vec<Line>,
    most: f64,
) {
    let label = format!("{}: {} under {}", scenario.id, row.title, policy.policy);
    let chart = Chart {
        label: &label,
        until: scenario.length_s,
        most,
        lines,
        marked: if row.probes {
            &policy.series.probes
        } else {
            &[]
        },
    };
    add(
        page,
        &format!(
            "<figure><figcaption>{}</figcaption>\n{}</figure>\n",
            escaped(&policy.policy),
            chart.svg()
        ),
    );
}

/// Where the scale of a row ends: the same for all policies, so that they can be compared.
fn scale(lines: &[Vec<Line>], room: Option<f64>) -> f64 {
    let highest = |lines: &[Line]| lines.iter().map(Line::highest).fold(0.0, f64::max);
    let all = lines.iter().map(|lines| highest(lines)).fold(0.0, f64::max);
    let first = lines.first().map_or(0.0, |lines| highest(lines));
    match room {
        Some(room) if first > 0.0 => all.min(first * room),
        _ => all,
    }
}

fn by_step(color: RGBColor, series: &Series, value: fn(&Step) -> Option<f64>) -> Line {
    let points = series.steps.iter().map(|step| (step.at, value(step)));
    Line {
        color,
        points: points.collect(),
    }
}

fn by_look(color: RGBColor, series: &Series, value: fn(&Look) -> Option<f64>) -> Line {
    let points = series.looks.iter().map(|look| (look.at, value(look)));
    Line {
        color,
        points: points.collect(),
    }
}

fn add(page: &mut String, text: &str) {
    page.write_str(text)
        .expect("a text takes whatever is written to it");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figures;

    fn results(title: &str) -> Results {
        let step = Step {
            at: 0.5,
            offered: 100.0,
            ..Step::default()
        };
        let policy = |name: &str, offered| PolicyResult {
            policy: name.to_owned(),
            figures: Figures::default(),
            seeds: Vec::new(),
            series: Series {
                steps: vec![Step { offered, ..step }, step],
                ..Series::default()
            },
        };
        Results {
            scenarios: vec![ScenarioResult {
                id: "S1".to_owned(),
                title: title.to_owned(),
                from: "a file".to_owned(),
                length_s: 10.0,
                warm_up_s: 0.0,
                policies: vec![policy("tidegate", 100.0), policy("none", 300.0)],
                bars: Vec::new(),
            }],
            events: 0,
            cpu_s: 0.0,
        }
    }

    #[test]
    fn each_policy_has_a_plot_of_each_kind_and_nothing_is_fetched() {
        let page = page(&results("t"));

        assert_eq!(page.matches("<svg ").count(), 8);
        assert_eq!(page.matches("</svg>").count(), 8);
        for fetched in ["src=", "href=\"http", "url(", "@import", "<script"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
    }

    #[test]
    fn what_a_file_says_is_text_and_no_markup() {
        let page = page(&results("<script>alert(1)</script>"));

        assert!(!page.contains("<script"));
        assert!(page.contains("&lt;script&gt;alert(1)"));
    }

    #[test]
    fn a_collapse_beside_does_not_flatten_the_first_policys_lines() {
        let line = |most: f64| Line {
            color: BLUE,
            points: vec![(0.0, Some(most))],
        };
        let lines = [vec![line(50.0)], vec![line(60_000.0)]];

        assert_eq!(scale(&lines, Some(3.0)), 150.0);
        assert_eq!(scale(&lines, None), 60_000.0);
        assert_eq!(scale(&[vec![line(0.0)], vec![line(9.0)]], Some(3.0)), 9.0);
    }
}
