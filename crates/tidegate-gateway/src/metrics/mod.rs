//! What is counted, per thread, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use tidegate_core::admission::Verdict;
use tidegate_core::facts::Class;
use tidegate_http::framing::FramingFault;
use tidegate_http::refusal::Refusal;

use crate::classify::Malformed;
use crate::plan::Plan;
use crate::upstream::UpstreamFailure;

/// How an admitted request's work was worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The answer was there before the caller's deadline.
    InTime,
    /// It was there, but later than that.
    Late,
    /// The caller had gone before the answer was there.
    Gone,
}

/// One thread's counters.
pub struct Recorder {
    arrived: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
    completed: [AtomicU64; 3],
}

impl Recorder {
    /// Counters for everything in `plan`.
    pub fn new(_plan: &Plan) -> Self {
        Self {
            arrived: AtomicU64::new(0),
            refused: [const { AtomicU64::new(0) }; Refusal::ALL.len()],
            completed: [const { AtomicU64::new(0) }; 3],
        }
    }

    /// A request for an application has arrived.
    pub fn arrived(&self, _app: usize, _class: Class, _labelled: bool) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }

    /// It holds a slot; `waited` is `None` when it got it at once.
    pub fn admitted(&self, _app: usize, _class: Class, _waited: Option<Duration>) {}

    /// It was answered by Tidegate itself.
    pub fn refused(&self, _app: usize, _class: Class, refusal: Refusal) {
        self.refused[refusal.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// What enforcing would have done with it.
    pub fn shadow(&self, _app: usize, _class: Class, _verdict: Verdict) {}

    /// Its slot has ended after `slot_time`.
    pub fn completed(
        &self,
        _app: usize,
        _route: usize,
        _class: Class,
        completion: Completion,
        _slot_time: Duration,
    ) {
        self.completed[completion as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The application, or the way to it, failed.
    pub fn upstream_failed(&self, _app: usize, _failure: UpstreamFailure) {}

    /// A request was refused for its framing, before it belonged to an application.
    pub fn bad_request(&self, _fault: FramingFault) {}

    /// A request was refused before it belonged to an application, for another reason.
    pub fn turned_away(&self, _refusal: Refusal) {}

    /// A header of a request was ignored because it makes no sense.
    pub fn malformed(&self, _header: Malformed) {}

    /// A request for an application was answered, by whomever.
    pub fn answered(&self, _app: usize, _status: StatusCode) {}
}
