//! Everything inside runs at once and shares the cores.

use tidegate_core::time::Mono;

use super::agenda::Agenda;
use super::{Done, Entry, Work};

/// Processor sharing in virtual time (Parekh and Gallager, "A generalized processor sharing
/// approach to flow control", 1993): a clock that goes as fast as each job is worked on. A job is
/// done when that clock has gone on by its work, so nothing has to be recomputed when another
/// comes or goes.
#[derive(Debug)]
pub(super) struct Sharing {
    cores: u32,
    running: Agenda,
    /// Virtual time, in units of 1/[`GRAIN`] ns.
    virtual_now: u64,
    /// The application's time at which `virtual_now` was right.
    at: Mono,
}

/// Units per nanosecond of virtual time. Whole numbers make a run the same on every machine; each
/// event rounds by less than one unit.
const GRAIN: u64 = 1024;

impl Sharing {
    pub(super) fn new(cores: u32) -> Self {
        Self {
            cores,
            running: Agenda::default(),
            virtual_now: 0,
            at: Mono::default(),
        }
    }

    pub(super) fn resize(&mut self, app_now: Mono, cores: u32) {
        self.pass(app_now);
        self.cores = cores;
    }

    pub(super) fn begin(&mut self, app_now: Mono, began: Mono, entry: Entry, work: Work) {
        self.pass(app_now);
        let time = u64::try_from(work.time.as_nanos()).unwrap_or(u64::MAX);
        let end = self.virtual_now.saturating_add(time.saturating_mul(GRAIN));
        self.running.add(end, Done { entry, work, began });
    }

    pub(super) fn next_done(&self) -> Option<Mono> {
        let left = self.running.next_end()?.saturating_sub(self.virtual_now);
        let (served, jobs) = self.rate();
        if served == 0 {
            return None;
        }
        let per_nano = u128::from(GRAIN) * u128::from(served);
        let nanos = (u128::from(left) * u128::from(jobs)).div_ceil(per_nano);
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Some(Mono::from_nanos(self.at.as_nanos().saturating_add(nanos)))
    }

    pub(super) fn complete(&mut self, app_now: Mono) -> Option<Done> {
        self.pass(app_now);
        self.running.pop()
    }

    pub(super) fn working(&self) -> u32 {
        self.running.len()
    }

    /// Lets the virtual clock go on until `app_now`.
    fn pass(&mut self, app_now: Mono) {
        let nanos = app_now.since(self.at).as_nanos();
        let (served, jobs) = self.rate();
        let passed = nanos * u128::from(GRAIN) * u128::from(served) / u128::from(jobs);
        self.virtual_now = self
            .virtual_now
            .saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        self.at = self.at.max(app_now);
    }

    /// Cores in use, and the jobs that share them; a job uses one core at most.
    fn rate(&self) -> (u32, u32) {
        let jobs = self.running.len().max(1);
        (self.cores.min(jobs), jobs)
    }
}
