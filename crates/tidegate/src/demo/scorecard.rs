//! What the two runs came to, side by side, and whether protection held.

use std::fmt::Write as _;

use serde::Serialize;
use tidegate_lab::load::{Percentiles, Report};
use tidegate_lab::report::Table;

use super::scene::Scene;
use super::side::Outcome;

/// Both runs, judged.
#[derive(Debug, Serialize)]
pub(super) struct Scorecard<'a> {
    /// What was played.
    pub(super) scene: &'a str,
    /// The shop's closed-loop maximum, measured in this very run: jobs per second.
    pub(super) capacity: f64,
    pub(super) verdict: Verdict,
    pub(super) bars: Vec<BarResult<'a>>,
    pub(super) bare: &'a Outcome,
    pub(super) tidegate: &'a Outcome,
}

/// What the demo's exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    Held,
    Failed,
    Invalid,
}

/// One thing that had to hold.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct BarResult<'a> {
    pub(super) phase: &'a str,
    pub(super) wanted_per_second: f64,
    pub(super) bare_per_second: f64,
    pub(super) tidegate_per_second: f64,
}

impl<'a> Scorecard<'a> {
    pub(super) fn new(
        scene: &'a Scene,
        capacity: f64,
        bare: &'a Outcome,
        tidegate: &'a Outcome,
    ) -> Self {
        let bars: Vec<_> = scene
            .bars
            .iter()
            .map(|bar| {
                let seconds = |report: &Report| {
                    let phase = &report.phases[bar.phase];
                    phase.from_s as usize + bar.settling_s..phase.to_s as usize
                };
                let goodput =
                    |outcome: &Outcome| outcome.report.goodput(seconds(&outcome.report), |_| true);
                BarResult {
                    phase: scene.phases[bar.phase].name,
                    wanted_per_second: scene.wanted(bar, capacity),
                    bare_per_second: goodput(bare),
                    tidegate_per_second: goodput(tidegate),
                }
            })
            .collect();
        let verdict = if !bare.report.is_valid() || !tidegate.report.is_valid() {
            Verdict::Invalid
        } else if bars
            .iter()
            .all(|bar| bar.tidegate_per_second >= bar.wanted_per_second)
        {
            Verdict::Held
        } else {
            Verdict::Failed
        };
        Self {
            scene: &scene.title,
            capacity,
            verdict,
            bars,
            bare,
            tidegate,
        }
    }

    /// The scorecard for people.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{}: C = {:.0} requests/s (closed loop, measured before)\n\n{}\n",
            self.scene,
            self.capacity,
            self.phases()
        );
        for (index, phase) in self.tidegate.report.phases.iter().enumerate() {
            if self.bars.iter().any(|bar| bar.phase == phase.name) {
                push(
                    &mut text,
                    &format!("{}\n{}\n", phase.name, self.classes(index)),
                );
            }
        }
        let last = |outcome: &Outcome| outcome.samples.last().copied().unwrap_or_default();
        let (bare, tidegate) = (last(self.bare), last(self.tidegate));
        push(
            &mut text,
            &format!(
                "work for visitors who had left: {} of {} jobs bare, {} of {} behind Tidegate\n\n",
                bare.finished_dead, bare.finished, tidegate.finished_dead, tidegate.finished
            ),
        );
        for bar in &self.bars {
            push(
                &mut text,
                &format!(
                    "{}: {:.0} good/s behind Tidegate (at least {:.0} wanted), {:.0} good/s bare\n",
                    bar.phase, bar.tidegate_per_second, bar.wanted_per_second, bar.bare_per_second
                ),
            );
        }
        push(&mut text, &self.conclusion());
        text
    }

    fn conclusion(&self) -> String {
        match self.verdict {
            Verdict::Held => "Protection held.\n".to_owned(),
            Verdict::Failed => "Protection did NOT hold.\n".to_owned(),
            Verdict::Invalid => {
                let heading = "INVALID: this machine was too busy for the run to count.\n";
                let mut text = heading.to_owned();
                for outcome in [self.bare, self.tidegate] {
                    for reason in &outcome.report.invalid {
                        push(
                            &mut text,
                            &format!("  {}: {reason}\n", outcome.guard.name()),
                        );
                    }
                }
                text
            }
        }
    }

    /// All kinds together, a row for each phase.
    fn phases(&self) -> Table {
        let mut table = Table::new([
            "per second",
            "offered",
            "bare: jobs done",
            "goodput",
            "p99 ms",
            "Tidegate: jobs done",
            "goodput",
            "p99 ms",
        ]);
        for (index, phase) in self.tidegate.report.phases.iter().enumerate() {
            let report = &self.tidegate.report;
            let steady = report.steady(index);
            let offered =
                report.sum(steady.clone(), |_| true).offered as f64 / steady.len().max(1) as f64;
            let mut row = vec![phase.name.clone(), format!("{offered:.0}")];
            for outcome in [self.bare, self.tidegate] {
                let report = &outcome.report;
                row.push(format!("{:.0}", outcome.throughput(index)));
                row.push(format!(
                    "{:.0}",
                    report.goodput(report.steady(index), |_| true)
                ));
                row.push(p99(&report.phases[index].good_all));
            }
            table.row(row);
        }
        table
    }

    /// Phase `index`, a row for each kind.
    fn classes(&self, index: usize) -> Table {
        let mut table = Table::new([
            "visitors (class), per second",
            "offered",
            "bare: answered",
            "good",
            "%",
            "p99 ms",
            "Tidegate: answered",
            "good",
            "%",
            "p99 ms",
        ]);
        for (position, kind) in self.tidegate.report.kinds.iter().enumerate() {
            let mut row = vec![format!("{} ({})", kind.name, kind.class)];
            for (side, outcome) in [self.bare, self.tidegate].into_iter().enumerate() {
                let report = &outcome.report;
                let steady = report.steady(index);
                let length = steady.len().max(1) as f64;
                let tally = report.sum(steady, |other| other.name == kind.name);
                if side == 0 {
                    row.push(format!("{:.0}", tally.offered as f64 / length));
                }
                row.push(format!("{:.0}", tally.answers as f64 / length));
                row.push(format!("{:.0}", tally.good as f64 / length));
                row.push(format!("{:.1}", tally.good_share() * 100.0));
                row.push(p99(&report.phases[index].good[position]));
            }
            table.row(row);
        }
        table
    }
}

fn p99(latency: &Percentiles) -> String {
    if latency.count == 0 {
        "-".to_owned()
    } else {
        format!("{:.0}", latency.p99_ms)
    }
}

fn push(text: &mut String, more: &str) {
    // Writing to a String does not fail.
    let _ = text.write_str(more);
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tidegate_lab::load::{Invalidity, KindReport, PhaseReport, SecondReport, Tally};

    use super::super::Args;
    use super::super::side::{Guard, Sample};
    use super::*;

    fn scene() -> Scene {
        let json = Some(PathBuf::from("-"));
        Scene::new(&Args {
            seconds: None,
            slow_dependency: false,
            incident: false,
            json,
        })
    }

    /// Phases of 5 s in which so many visits per second were good, one kind, jobs at 1,000/s.
    fn outcome(guard: Guard, good: [u64; 4]) -> Outcome {
        let second = |good| {
            let offered = 5_000;
            let refused = offered - good;
            SecondReport {
                kinds: vec![Tally {
                    offered,
                    good,
                    refused,
                    answers: good,
                    ..Tally::default()
                }],
            }
        };
        let phase = |index: usize| PhaseReport {
            name: scene().phases[index].name.to_owned(),
            from_s: 5.0 * index as f64,
            to_s: 5.0 * (index + 1) as f64,
            good: vec![Percentiles::default()],
            good_all: Percentiles::default(),
        };
        let kind = KindReport {
            name: "visitor".to_owned(),
            class: "anonymous".to_owned(),
            total: Tally::default(),
            good: Percentiles::default(),
            refusal: Percentiles::default(),
        };
        let seconds = good
            .into_iter()
            .flat_map(|good| (0..5).map(move |_| second(good)));
        let sample = |tick: u64| Sample {
            at_s: tick as f64 / 4.0,
            finished: tick * 250,
            ..Sample::default()
        };
        Outcome {
            guard,
            report: Report {
                seed: 1,
                phases: (0..4).map(phase).collect(),
                kinds: vec![kind],
                seconds: seconds.collect(),
                send_lag_p99_ms: 1.0,
                steal_share: 0.0,
                invalid: Vec::new(),
            },
            samples: (0..80).map(sample).collect(),
        }
    }

    #[test]
    fn protection_holds_when_it_does_so_in_every_phase_past_the_knee() {
        let scene = scene();
        let bare = outcome(Guard::Bare, [1_400, 300, 0, 0]);
        let good = outcome(Guard::Tidegate, [1_400, 1_800, 1_801, 1_400]);
        let bad = outcome(Guard::Tidegate, [1_400, 1_900, 1_799, 1_400]);

        let held = Scorecard::new(&scene, 2_000.0, &bare, &good);
        let failed = Scorecard::new(&scene, 2_000.0, &bare, &bad);

        assert_eq!(held.verdict, Verdict::Held);
        assert_eq!(failed.verdict, Verdict::Failed);
        assert_eq!(held.bars[0].bare_per_second, 300.0);
        assert!(held.text().ends_with("Protection held.\n"));
        assert!(failed.text().ends_with("Protection did NOT hold.\n"));
    }

    #[test]
    fn an_invalid_run_is_no_result_however_it_ended() {
        let scene = scene();
        let mut bare = outcome(Guard::Bare, [1_400, 300, 0, 0]);
        let tidegate = outcome(Guard::Tidegate, [1_400, 1_900, 1_900, 1_400]);
        bare.report
            .invalid
            .push(Invalidity::SendLag { p99_ms: 7.0 });

        let scorecard = Scorecard::new(&scene, 2_000.0, &bare, &tidegate);

        assert_eq!(scorecard.verdict, Verdict::Invalid);
        assert!(
            scorecard
                .text()
                .contains("bare shop: send lag p99 7.0 ms is over 5 ms")
        );
    }

    #[test]
    fn jobs_are_counted_by_the_shop_in_the_steady_part_of_a_phase() {
        let bare = outcome(Guard::Bare, [1_400, 300, 0, 0]);

        assert_eq!(bare.throughput(2), 1_000.0);
    }
}
