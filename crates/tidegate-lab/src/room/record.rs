//! What is left of a run.

use super::formulas::Formula;

/// Waits shorter than this are not judged: a page says "less than a minute" then.
pub const JUDGED_MIN_S: f64 = 60.0;

/// A run of a room.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// What somebody was told, and how long it took in truth.
    pub told: Vec<Told>,
    /// What was counted, and what was so.
    pub counted: Vec<Counted>,
    /// Everybody who went in.
    pub passed: Vec<Passed>,
    /// Called, went in, and did not come in time.
    pub released: u64,
    /// Of those, went in.
    pub claimed: u64,
    /// Of those, did not come in time.
    pub returned: u64,
    /// Of those called, may still come.
    pub ready: u64,
    /// By the minute, how many went in.
    pub claimed_by_minute: Vec<u64>,
    /// How many were watched from when they came until they were called or left.
    pub watched: u64,
    /// How often what they read became worse by more than a quarter, all together.
    pub jumps: u64,
    /// Places given.
    pub joined: u64,
    /// The last second.
    pub ended: u64,
}

/// A wait that was told.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The second.
    pub at: u64,
    /// How long it took from then on.
    pub took: f64,
    /// By formula, what was or would have been told, in seconds.
    pub waits: [Option<f64>; Formula::ALL.len()],
    /// The band that Tidegate told.
    pub band: (f64, f64),
}

/// The size of the line and a place in it, as told and in truth.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// People who wait, as told.
    pub told: u64,
    /// Those whose page is open.
    pub living: u64,
    /// The most that a position which was told is off by, in parts of the living.
    pub position_off: f64,
}

/// Somebody who went in.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Which one of those who came, from 0.
    pub who: u32,
    /// Their tier's number, 1 to 3.
    pub tier: u8,
    /// The second in which they came.
    pub came: u64,
    /// The second in which they were called.
    pub called: u64,
}

/// How right a formula was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accuracy {
    /// Mean of how far it is off, in parts of the true wait.
    pub off: f64,
    /// Mean of the same with its sign: more than 0 where too long a wait was told.
    pub signed: f64,
    /// What part of the waits ended within the band; of others than Tidegate 0.
    pub inside: f64,
    /// How many waits were judged.
    pub count: u64,
}

impl Record {
    /// How right `formula` was.
    pub fn accuracy(&self, formula: Formula) -> Accuracy {
        Accuracy::of(&self.told, formula)
    }
}

impl Accuracy {
    /// Of these waits.
    pub fn of<'a>(told: impl IntoIterator<Item = &'a Told>, formula: Formula) -> Self {
        let mut sum = Self::default();
        for it in told {
            let Some(wait) = it.waits[formula.index()].filter(|_| it.took >= JUDGED_MIN_S) else {
                continue;
            };
            let off = wait / it.took - 1.0;
            sum.off += off.abs();
            sum.signed += off;
            let is_inside = it.band.0 <= it.took && it.took <= it.band.1;
            sum.inside += f64::from(u8::from(is_inside && formula == Formula::Tidegate));
            sum.count += 1;
        }
        let count = sum.count.max(1) as f64;
        Self {
            off: sum.off / count,
            signed: sum.signed / count,
            inside: sum.inside / count,
            count: sum.count,
        }
    }
}
