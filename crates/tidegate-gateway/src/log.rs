//! Refusals in the log: one line per reason and second, however many there were; and what rate limits forget.
//!
//! The lines come from the counters, not from the requests, so that a refusal costs no formatting.

use std::sync::Arc;

use tidegate_core::admission::Reason;
use tidegate_core::facts::Class;
use tidegate_http::framing::FramingFault;
use tidegate_http::refusal::Refusal;
use tracing::{info, warn};

use crate::context::Thread;
use crate::metrics::total;

/// Reads the counters of refusals once a second and logs what has grown.
pub(crate) struct RefusalLog {
    threads: Vec<Arc<Thread>>,
    /// By application, then by refusal.
    refused: Vec<[u64; Refusal::ALL.len()]>,
    turned_away: [u64; Refusal::ALL.len()],
    bad_requests: [u64; FramingFault::ALL.len()],
    /// By rate limit, the keys that there was no room for.
    forgotten: Vec<u64>,
}

impl RefusalLog {
    pub(crate) fn new(threads: Vec<Arc<Thread>>) -> Self {
        let apps = threads.first().map_or(0, |thread| thread.shared.apps.len());
        let limits = threads.first();
        let limits = limits.map_or(0, |thread| thread.shared.rates.limits().len());
        Self {
            threads,
            forgotten: vec![0; limits],
            refused: vec![[0; Refusal::ALL.len()]; apps],
            turned_away: [0; Refusal::ALL.len()],
            bad_requests: [0; FramingFault::ALL.len()],
        }
    }

    /// Logs what was refused since the last call; whether any of it was for want of capacity.
    pub(crate) fn report(&mut self) -> bool {
        let mut shed = false;
        for app in 0..self.refused.len() {
            for refusal in Refusal::ALL {
                let sum = Class::ALL.map(|class| {
                    total(&self.threads, |recorder| {
                        &recorder.apps[app].classes[class.index()].refused[refusal.index()]
                    })
                });
                let count = grown(&mut self.refused[app][refusal.index()], sum.iter().sum());
                if count == 0 {
                    continue;
                }
                let shared = &self.threads[0].shared;
                let (name, reason) = (shared.apps[app].plan.name.as_str(), refusal.label());
                if app < shared.applications().len() {
                    info!(app = name, reason, count, "requests refused");
                    shed |= is_admissions(refusal);
                } else {
                    info!(dependency = name, reason, count, "calls refused");
                }
            }
        }
        for refusal in Refusal::ALL {
            let sum = total(&self.threads, |recorder| {
                &recorder.turned_away[refusal.index()]
            });
            let count = grown(&mut self.turned_away[refusal.index()], sum);
            if count > 0 {
                info!(reason = refusal.label(), count, "requests turned away");
            }
        }
        for fault in FramingFault::ALL {
            let sum = total(&self.threads, |recorder| {
                &recorder.bad_requests[fault.index()]
            });
            let count = grown(&mut self.bad_requests[fault.index()], sum);
            if count > 0 {
                warn!(
                    reason = fault.label(),
                    count, "requests with bad framing refused"
                );
            }
        }
        self.report_forgotten();
        shed
    }

    /// Keys of rate limits that there was no room for: their limits let through more than they should.
    fn report_forgotten(&mut self) {
        let Some(thread) = self.threads.first() else {
            return;
        };
        let rates = &thread.shared.rates;
        for (at, (limit, last)) in rates.limits().iter().zip(&mut self.forgotten).enumerate() {
            let count = grown(last, rates.keys(at).forgotten);
            if count > 0 {
                warn!(
                    limit = limit.plan.name.as_str(),
                    count,
                    "keys of a rate limit were forgotten before they were full again: raise limit_keys_max"
                );
            }
        }
    }
}

/// Whether admission refuses so, which means that there is more to do than the application can.
fn is_admissions(refusal: Refusal) -> bool {
    Reason::ALL
        .into_iter()
        .any(|reason| Refusal::from(reason) == refusal)
}

/// What `sum` has gained over `last`, which becomes `sum`.
fn grown(last: &mut u64, sum: u64) -> u64 {
    sum.saturating_sub(std::mem::replace(last, sum))
}
