//! Every event of a run, folded into one number.

use tidegate_core::time::Mono;

/// What happened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Admitted,
    Queued,
    Refused,
    Started,
    Evicted,
    Finished,
    GaveUp,
    Restarted,
}

/// A hash over all events so far, in order.
#[derive(Debug, Default)]
pub(super) struct Trace {
    hash: u64,
    events: u64,
}

impl Trace {
    /// `event` at `now` to `whom`; `how` tells more, where there is more to tell.
    pub(super) const fn push(&mut self, now: Mono, event: Event, whom: u32, how: u16) {
        let what = ((event as u64) << 48) | ((how as u64) << 32) | whom as u64;
        self.hash = fold(fold(self.hash, now.as_nanos()), what);
        self.events += 1;
    }

    pub(super) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) const fn events(&self) -> u64 {
        self.events
    }
}

/// One multiplication whose halves are folded onto each other, as in wyhash (Wang Yi, 2019).
const fn fold(hash: u64, word: u64) -> u64 {
    let product = (hash ^ 0xA076_1D64_78BD_642F) as u128 * (word ^ 0xE703_7ED1_A0B4_28DB) as u128;
    (product >> 64) as u64 ^ product as u64
}
