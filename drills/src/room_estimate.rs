//! How right the waits are that people in the room are told, in virtual time, beside what others would tell them.
//!
//! Nothing runs but the core: its ledger, release, positions, poll governor and estimate, before people who come, leave
//! without a word, sign in, and miss their turn. Every run follows from its seed.

use std::time::Duration;

use tidegate_lab::report::Table;
use tidegate_lab::room::{self, Accuracy, Formula, Record, Story};

use crate::harness::{Args, Drill, Figure, Verdict};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-estimate",
    promise: "waits are told to within 8 % when all is steady and 25 % through a dip, and four in five end within their band",
    takes: Duration::from_secs(50),
    run,
};

/// Of each story; `--rounds` says how many instead.
const SEEDS: u32 = 20;
const INSIDE: (f64, f64) = (0.75, 0.9);

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let seeds = args.rounds.unwrap_or(SEEDS);
    for story in &Story::ALL {
        let records: Vec<_> = (1..=seeds)
            .map(|seed| room::run(story, seed.into()))
            .collect();
        judge(&mut verdict, story, &records);
    }
    Ok(verdict)
}

fn judge(verdict: &mut Verdict, story: &Story, records: &[Record]) {
    let of = |formula| Accuracy::of(records.iter().flat_map(|record| &record.told), formula);
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut table = Table::new([story.name, "off by", "with its sign", "in the band"]);
    for formula in Formula::ALL {
        let it = of(formula);
        let inside = match formula {
            Formula::Tidegate => percent(it.inside),
            _ => String::new(),
        };
        let signed = format!("{:+.1} %", 100.0 * it.signed);
        table.row([formula.name().to_owned(), percent(it.off), signed, inside]);
    }
    verdict.table(&table);
    let ours = of(Formula::Tidegate);
    let others = Formula::ALL
        .into_iter()
        .filter(|it| *it != Formula::Tidegate);
    let (best, off) = others
        .map(|formula| (formula.name().trim(), of(formula).off))
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .unwrap_or_default();
    let spread = records.iter().map(|it| it.accuracy(Formula::Tidegate).off);
    let worst = spread.fold(0.0, f64::max);
    verdict.say(format!(
        "{} waits in {} runs; the worst run is off by {}",
        ours.count,
        records.len(),
        percent(worst),
    ));
    let figure = Figure::share(format!("{}: off by", story.name), ours.off);
    let figure = figure.beside(format!("the best other, {best}"), off);
    verdict.add(match bar(story) {
        Some(bar) => figure.at_most(bar),
        None => figure,
    });
    let watched: u64 = records.iter().map(|it| it.watched).sum();
    let jumps: u64 = records.iter().map(|it| it.jumps).sum();
    let jumps = jumps as f64 / watched.max(1) as f64;
    verdict.add(Figure::ratio(
        format!(
            "{}: jumps up by more than a quarter, each visitor",
            story.name
        ),
        jumps,
    ));
    let inside = Figure::share(format!("{}: in the band", story.name), ours.inside);
    verdict.add(inside.between(INSIDE.0, INSIDE.1));
}

/// By how much the waits of a story may be off.
fn bar(story: &Story) -> Option<f64> {
    match story.name {
        "steady" => Some(0.08),
        "dip" => Some(0.25),
        _ => None,
    }
}
