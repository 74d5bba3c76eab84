//! Who may enter an application: the core's decisions, and the wait for them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::admission::{Admission, Snapshot};

use crate::context::Clock;
use crate::plan::AppPlan;

/// The door of one application.
pub struct Gate {
    state: Mutex<State>,
}

struct State {
    admission: Admission,
}

impl Gate {
    /// A gate with nobody inside.
    pub fn new(plan: &AppPlan, _clock: Clock, seed: u64) -> Self {
        let admission = Admission::new(plan.admission.clone(), plan.limit.build(seed));
        Self {
            state: Mutex::new(State { admission }),
        }
    }

    /// Gauges for metrics and status.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().admission.snapshot()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
