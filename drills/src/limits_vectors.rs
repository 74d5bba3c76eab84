//! Three that decide the same: the core in a process's table, the script on a real Redis, and exact fractions.
//!
//! Random stories: limits of all kinds, requests that meet several, settling, limits that change, time that passes. Each
//! answer of each limit is compared, and each wait that is promised is tried: it is enough, and a microsecond less is not.
//! Times are the drill's, so keys in Redis really go when their time to live is over, and nothing may change by that.

mod draw;
#[path = "../../crates/tidegate-core/tests/rate_model/mod.rs"]
#[expect(dead_code, reason = "the tests of the core ask more of it")]
mod rate_model;
mod story;

use std::time::Duration;

use crate::harness::clockwork::Clockwork;
use crate::harness::{Args, Drill, Figure, Verdict};
use story::{Counts, Keepers, Story};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "limits-vectors",
    promise: "core, script on a real Redis and exact fractions agree on ≥ 100,000 random steps, to the microsecond",
    takes: Duration::from_secs(60),
    run,
};

/// Stories, with `--rounds` so many thousands.
const STORIES: u64 = 1_000;
/// Steps of each.
const STEPS: u64 = 160;
const STEPS_MIN: f64 = 100_000.0;
/// Differences that are told in full.
const TOLD_MAX: usize = 3;

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let mut redis = Clockwork::start()?;
    let script = redis.limit()?;
    let stories = args
        .rounds
        .map_or(STORIES, |rounds| u64::from(rounds) * 1_000);
    let mut counts = Counts::default();
    for seed in 0..stories {
        let keepers = Keepers {
            redis: &mut redis,
            script: &script,
        };
        let mut story = Story::new(seed, keepers);
        for _ in 0..STEPS {
            story.step(&mut counts)?;
        }
    }
    for difference in counts.differences.iter().take(TOLD_MAX) {
        verdict.say(difference);
    }
    verdict.say(format!(
        "{} requests to {} limits, {} passed; {} settled, {} changes of a limit; {} keys went by themselves",
        counts.requests, counts.asked, counts.passed, counts.settled, counts.changes, redis.expired()
    ));
    verdict.add(Figure::count("random steps", counts.steps as f64).at_least(STEPS_MIN));
    verdict.add(
        Figure::count(
            "answers on which the three differ",
            counts.differences.len() as f64,
        )
        .exactly(0.0),
    );
    verdict.add(Figure::count("refusals that wrote to Redis", counts.written as f64).exactly(0.0));
    let waits = counts.waits as f64;
    verdict.add(Figure::count("promised waits that were tried", waits).at_least(10_000.0));
    verdict.add(Figure::count("of them enough", counts.enough as f64).exactly(waits));
    let unchanged = counts.unchanged as f64;
    verdict
        .add(Figure::count("waits of limits that had not changed", unchanged).at_least(10_000.0));
    verdict.add(
        Figure::count(
            "of them not enough a microsecond earlier",
            counts.tight as f64,
        )
        .exactly(unchanged),
    );
    Ok(verdict)
}
