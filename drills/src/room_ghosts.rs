//! Those who are not there any more, those who wait behind others for ever, and visitors who bring more than before: a
//! whole room in virtual time over the core.

#[path = "../../crates/tidegate-core/tests/room_site/mod.rs"]
#[allow(dead_code, reason = "the tests of the core look at more of it")]
mod room_site;

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::room::Order;
use tidegate_lab::room::{self, Accuracy, Crowd, Formula, Record, Story};

use crate::harness::{Args, Drill, Figure, Verdict};
use room_site::Site;

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-ghosts",
    promise: "30 % close the page: what is told counts the living, and no turn is lost on those who left",
    takes: Duration::from_secs(8),
    run,
};

/// Of each story; `--rounds` says how many instead.
const SEEDS: u32 = 5;
/// Head starts of the tiers, in milliseconds.
const CREDIT: [u64; 3] = [1_200_000, 300_000, 0];

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let seeds = args.rounds.unwrap_or(SEEDS);
    ghosts(&mut verdict, seeds);
    starvation(&mut verdict, seeds);
    load(&mut verdict, seeds);
    Ok(verdict)
}

/// A quarter only has a look, three in ten of the others close the page, one in twenty does not see the turn.
fn ghosts(verdict: &mut Verdict, seeds: u32) {
    let deaf = Story {
        sweeps: false,
        ..Story::STEADY
    };
    let played = |story: &Story| -> Vec<Record> {
        (1..=seeds)
            .map(|seed| room::run(story, seed.into()))
            .collect()
    };
    let (ours, theirs) = (played(&Story::STEADY), played(&deaf));
    let beside = "nobody swept";
    let add = |verdict: &mut Verdict, what: &str, of: &dyn Fn(&[Record]) -> f64, most: f64| {
        let figure = Figure::share(what, of(&ours)).at_most(most);
        verdict.add(figure.beside(beside, of(&theirs)));
    };
    add(
        verdict,
        "people in the line who are not there, of those told",
        &not_there,
        0.1,
    );
    add(
        verdict,
        "positions off at most, of the line",
        &position_off,
        0.1,
    );
    add(verdict, "waits off by", &off, 0.08);
    add(
        verdict,
        "called for nobody, of those called",
        &for_nobody,
        0.1,
    );
    let rate = Story::STEADY.rate;
    let claimed = |records: &[Record]| {
        mean(records, |it| {
            went_in(it).iter().sum::<f64>() / went_in(it).len() as f64 / rate
        })
    };
    let used = Figure::share("went in, of those who may", claimed(&ours)).between(0.97, 1.02);
    verdict.add(used.beside(beside, claimed(&theirs)));
    let least = |records: &[Record]| {
        let minutes = records.iter().flat_map(went_in);
        minutes.fold(f64::INFINITY, f64::min) / rate
    };
    let worst = Figure::share("the same in the worst minute", least(&ours)).at_least(0.8);
    verdict.add(worst.beside(beside, least(&theirs)));
    let open = |it: &Record| it.released.abs_diff(it.claimed + it.returned + it.ready);
    let open: u64 = ours.iter().map(open).sum();
    let what = "turns neither used, nor returned, nor open";
    verdict.add(Figure::count(what, open as f64).exactly(0.0));
    let returned: u64 = ours.iter().map(|it| it.returned).sum();
    verdict.add(Figure::count("turns that were returned", returned as f64).at_least(1.0));
}

/// Those with something to go on with come at nine tenths of the rate, without end.
fn starvation(verdict: &mut Verdict, seeds: u32) {
    let story = |order| Story {
        name: "starvation",
        order,
        crowd: Crowd {
            tiers: [0.9, 0.0, 0.1],
            ..Crowd::PATIENT
        },
        first: 3_000.0,
        coming: Story::STEADY.rate,
        told: (0, 7_200),
        ..Story::STEADY
    };
    let mut over = f64::NEG_INFINITY;
    let mut longest = [0.0_f64; 3];
    for seed in 1..=seeds {
        let delays = [Order::Credit([0; 3]), Order::Credit(CREDIT), Order::Strict]
            .map(|order| delays(&room::run(&story(order), seed.into())));
        let [fifo, credit, _] = &delays;
        for (who, delay) in credit {
            if let Some(before) = fifo.get(who) {
                over = over.max(delay - before);
            }
        }
        for (longest, delays) in longest.iter_mut().zip(&delays) {
            *longest = delays.values().copied().fold(*longest, f64::max);
        }
    }
    let [fifo, credit, strict] = longest;
    let most = Figure::ms("longest wait of tier 3 with credit", 1_000.0 * credit);
    let most = most.beside("first come, first served", 1_000.0 * fifo);
    verdict.add(most.beside("strict, of those called at all", 1_000.0 * strict));
    let bar = (CREDIT[0] - CREDIT[2]) as f64;
    // A tick is a second here.
    let bar = bar + 2_000.0;
    verdict.add(
        Figure::ms(
            "longer than first come, first served, at most",
            1_000.0 * over,
        )
        .at_most(bar),
    );
}

/// Visitors bring twice as much from one moment to the next.
fn load(verdict: &mut Verdict, seeds: u32) {
    let (mut at_once, mut in_the_end) = (0.0_f64, Vec::new());
    for seed in 0..seeds {
        let mut site = Site::new(0.9, seed.into());
        site.run(600);
        let before = site.pace(300);
        site.each *= 2.0;
        site.run(30);
        at_once = at_once.max(site.pace(30) / before);
        site.run(600);
        in_the_end.push(site.pace(600) / before);
    }
    let what = "visitors bring twice as much: let in 30 s later, of before, at most";
    verdict.add(Figure::share(what, at_once).at_most(0.5));
    let end = in_the_end.iter().sum::<f64>() / in_the_end.len() as f64;
    verdict.add(Figure::share("the same after ten minutes", end).between(0.4, 0.6));
}

fn not_there(records: &[Record]) -> f64 {
    let counted = records.iter().flat_map(|it| &it.counted);
    let (told, living) = counted.fold((0, 0), |sum, it| (sum.0 + it.told, sum.1 + it.living));
    1.0 - living as f64 / told as f64
}

fn position_off(records: &[Record]) -> f64 {
    mean(records, |it| {
        let each = it.counted.iter().map(|it| it.position_off);
        each.sum::<f64>() / it.counted.len() as f64
    })
}

fn off(records: &[Record]) -> f64 {
    let told = records.iter().flat_map(|it| &it.told);
    Accuracy::of(told, Formula::Tidegate).off
}

fn for_nobody(records: &[Record]) -> f64 {
    mean(records, |it| it.returned as f64 / it.released as f64)
}

/// Per second, in each minute in which waits were told.
fn went_in(record: &Record) -> Vec<f64> {
    let (from, until) = Story::STEADY.told;
    let minutes = &record.claimed_by_minute[(from / 60) as usize..(until / 60) as usize];
    minutes.iter().map(|count| *count as f64 / 60.0).collect()
}

/// Seconds that everybody of tier 3 waited who was called, by who it was.
fn delays(record: &Record) -> BTreeMap<u32, f64> {
    let passed = record.passed.iter().filter(|it| it.tier == 3);
    passed
        .map(|it| (it.who, (it.called - it.came) as f64))
        .collect()
}

fn mean(records: &[Record], of: impl Fn(&Record) -> f64) -> f64 {
    records.iter().map(of).sum::<f64>() / records.len() as f64
}
