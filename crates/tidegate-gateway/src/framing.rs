//! Verdicts on the raw heads of a connection's requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_http::framing::FramingFault;

/// One verdict per request of a connection, in the order of the requests.
#[derive(Clone, Debug, Default)]
pub struct FramingLog(Arc<Mutex<VecDeque<Result<(), FramingFault>>>>);

impl FramingLog {
    /// Notes the verdict on the next head that was read.
    pub fn push(&self, verdict: Result<(), FramingFault>) {
        self.lock().push_back(verdict);
    }

    /// Takes the verdict on the next request's head. A request without one is not trusted.
    pub fn next(&self) -> Result<(), FramingFault> {
        self.lock()
            .pop_front()
            .unwrap_or(Err(FramingFault::Unreadable))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Result<(), FramingFault>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
