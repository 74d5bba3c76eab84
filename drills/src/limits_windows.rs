//! What passes around the end of a window, over any window, under polling, with clocks that differ, and after a rest:
//! ours beside what is usually written.
//!
//! Times are the drill's, so that a hundred seconds of polling take a second. Ours is two each time, the table of a process
//! and the script on a real Redis, and they have to agree. Only clocks that differ are tried in real time as well, with
//! two clients of one store.

mod clocks;
mod usual;
mod worst;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm, Spec, Tick};
use tidegate_core::session::SlotTag;
use tidegate_store::limits::{Asked, LimitTable, LimitTablePlan, Said};

use crate::harness::clockwork::{Clockwork, Script};
use crate::harness::limit_script::{Told, said, taking};
use crate::harness::{Args, Drill, Figure, Verdict};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "limits-windows",
    promise: "burst + rate × time is never passed: not around a window's end, not by polling, not by clocks, not by a rest",
    takes: Duration::from_secs(60),
    run,
};

const SECOND: u64 = 1_000_000;
/// A whole number of seconds, as a store's clock has them.
const START: Tick = Tick(1_790_000_000 * SECOND);

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let mut redis = Clockwork::start()?;
    worst::around_the_end(&mut verdict, &mut redis)?;
    worst::in_any_second(&mut verdict, &mut redis)?;
    polled(&mut verdict, &mut redis)?;
    clocks::of_two_nodes(&mut verdict, &mut redis, args)?;
    rested(&mut verdict, &mut redis)?;
    Ok(verdict)
}

/// A limit of ours in the table and in Redis, which are asked the same.
struct Ours {
    spec: Arc<Spec>,
    table: LimitTable,
    script: Script,
    name: String,
}

impl Ours {
    /// One called `name`, which no other one is.
    fn new(
        redis: &mut Clockwork,
        name: &str,
        algorithm: Algorithm,
        rate: &str,
        burst: Option<u64>,
    ) -> anyhow::Result<Self> {
        let rate_of = rate.parse();
        let rate_of = rate_of.map_err(|error| anyhow::anyhow!("{rate}: {error}"))?;
        let spec = Spec::new(algorithm, rate_of, burst);
        Ok(Self {
            spec: Arc::new(spec.map_err(|error| anyhow::anyhow!("{rate}: {error}"))?),
            table: LimitTable::new(LimitTablePlan {
                keys_max: 16,
                shards: 1,
            }),
            script: redis.limit()?,
            name: format!("tg:l:{{drill}}:{name}"),
        })
    }

    /// Whether `cost` tokens pass now, and what is left then.
    fn take(&self, redis: &mut Clockwork, cost: u64, now: Tick) -> anyhow::Result<(bool, u64)> {
        let asked = Asked {
            key: 1 << 100,
            tag: SlotTag::from_bits(0),
            spec: &self.spec,
            cost,
            standing: Standing::Enforced,
        };
        let here = match self.table.take(&[asked], now).said[0] {
            Said::Passes { remaining, .. } => (true, remaining),
            Said::Short { remaining, .. } => (false, remaining),
            Said::Unasked => anyhow::bail!("the table has to say something"),
        };
        let told = Told {
            spec: &self.spec,
            cost,
            shadow: false,
        };
        let arguments = taking("take", &[told]);
        let ran = redis.run(
            &self.script,
            std::slice::from_ref(&self.name),
            &arguments,
            now,
        )?;
        let there = said(&ran.reply);
        let there = there.first().context("the script has to say something")?;
        let there = (there.wait_us == Some(0), there.remaining);
        anyhow::ensure!(
            here == there,
            "{}: the table says {here:?} and Redis {there:?} at {now:?}",
            self.name
        );
        Ok(here)
    }

    /// How many of `count` requests pass now.
    fn passes(&self, redis: &mut Clockwork, count: u64, now: Tick) -> anyhow::Result<u64> {
        let mut passed = 0;
        for _ in 0..count {
            passed += u64::from(self.take(redis, 1, now)?.0);
        }
        Ok(passed)
    }
}

/// Whoever polls gets the whole rate: ours counts in whole numbers.
fn polled(verdict: &mut Verdict, redis: &mut Clockwork) -> anyhow::Result<()> {
    let ours = Ours::new(redis, "polled", Algorithm::Bucket, "10/s", Some(1))?;
    let usual = usual::Bucket::new(redis, 10.0, 1.0, usual::Late::Trusted)?;
    let (mut passed, mut theirs) = (0, 0);
    for poll in 0..10_000 {
        let now = START.plus(poll * 10_000);
        passed += u64::from(ours.take(redis, 1, now)?.0);
        theirs += u64::from(usual.take(redis, "usual:polled", now)?);
    }
    verdict.add(
        Figure::count("10/s polled every 10 ms for 100 s", passed as f64)
            .beside("float bucket in Lua", theirs as f64)
            .exactly(1_000.0),
    );
    Ok(())
}

/// Whoever has spent everything of a slow limit and rests for two minutes has not got it back.
fn rested(verdict: &mut Verdict, redis: &mut Clockwork) -> anyhow::Result<()> {
    let ours = Ours::new(redis, "rested", Algorithm::Bucket, "10/h", None)?;
    let usual = usual::Bucket::new(redis, 10.0 / 3_600.0, 10.0, usual::Late::Trusted)?;
    let later = START.plus(121 * SECOND);
    let first = ours.passes(redis, 20, START)?;
    anyhow::ensure!(first == 10, "a full bucket let {first} pass");
    let passed = ours.passes(redis, 20, later)?;
    let mut theirs = [0; 2];
    for (theirs, now) in theirs.iter_mut().zip([START, later]) {
        for _ in 0..20 {
            *theirs += u64::from(usual.take(redis, "usual:rested", now)?);
        }
    }
    verdict.add(
        Figure::count("10/h, all spent, after 121 s of rest", passed as f64)
            .beside("key that goes after 120 s", f64::from(theirs[1] as u32))
            .exactly(0.0),
    );
    Ok(())
}
