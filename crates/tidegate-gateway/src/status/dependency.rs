//! Dependencies as `/status.json` shows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_core::facts::Class;
use tidegate_http::refusal::Refusal;

use crate::context::Thread;
use crate::dependency::Dependency;
use crate::metrics::{Completion, total};

/// One dependency: counts since the start, of calls, but for the first eleven.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DependencyStatus {
    /// Its name.
    pub name: String,
    /// Where applications call it through us; absent when they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listens: Option<String>,
    /// Calls that may be under way at once.
    pub concurrency: u32,
    /// The part of what may be asked of it that holds now, 0 to 1, where that follows what is left of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Why: `told` while that is said, `held` for what was said last, `nobody` for everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_by: Option<String>,
    /// Calls that are under way.
    pub in_flight: u32,
    /// Calls that wait for others to finish.
    pub waiting: u32,
    /// What its breaker lets through: `calls`, `probes` or `nothing`; absent when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker_lets: Option<String>,
    /// Permits that are held.
    #[serde(default)]
    pub permits: u64,
    /// Permits that went back because they were not renewed in time.
    #[serde(default)]
    pub permits_lapsed: u64,
    /// What this gateway holds of the permits of the fleet; absent when calls count on each gateway by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet_held: Option<u64>,
    /// Of that, what the store does not know of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet_unknown: Option<u64>,
    /// Calls that were decided on while the store did not answer: `passed`, `refused`, `closed`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub store_lost: BTreeMap<String, u64>,
    /// Calls that were made, by what that was worth to the caller: `in_time`, `late`, `gone`.
    pub calls: BTreeMap<String, u64>,
    /// Calls that were not made, or had no answer, by reason; reasons that never were are left out.
    pub refused: BTreeMap<String, u64>,
}

impl DependencyStatus {
    /// All of them, in the order of the configuration.
    pub(super) fn all(threads: &[Arc<Thread>]) -> Vec<Self> {
        let dependencies = threads.iter().take(1);
        dependencies
            .flat_map(|thread| &thread.shared.dependencies)
            .enumerate()
            .map(|(at, dependency)| Self::of(threads, at, dependency))
            .collect()
    }

    fn of(threads: &[Arc<Thread>], place: usize, dependency: &Dependency) -> Self {
        let at = dependency.app;
        let shared = &threads[0].shared;
        let door = &shared.apps[at];
        let gate = door.gate.snapshot();
        let classes = |count: &dyn Fn(Class) -> u64| Class::ALL.into_iter().map(count).sum::<u64>();
        let calls = Completion::ALL.map(|completion| {
            let count = classes(&|class| {
                total(threads, |recorder| {
                    let work = &recorder.apps[at].routes[0][class.index()];
                    &work.completions[completion.index()]
                })
            });
            (completion.label().to_owned(), count)
        });
        let refused = Refusal::ALL.into_iter().map(|refusal| {
            let count = classes(&|class| {
                total(threads, |recorder| {
                    &recorder.apps[at].classes[class.index()].refused[refusal.index()]
                })
            });
            (refusal.label().to_owned(), count)
        });
        let fleet = shared.fleet.as_ref().and_then(|fleet| fleet.tally(place));
        let share = shared.share_of(place);
        let without = fleet.iter().flat_map(|fleet| &fleet.without);
        Self {
            name: dependency.plan.name().to_owned(),
            listens: dependency.listens.get().map(ToString::to_string),
            concurrency: gate.limit,
            share: share.map(|(share, _)| share),
            share_by: share.map(|(_, by)| by.name().to_owned()),
            in_flight: gate.in_flight,
            waiting: gate.queued,
            breaker_lets: door
                .breaker
                .as_ref()
                .map(|breaker| breaker.lets().to_owned()),
            permits: shared.permits.count(place) as u64,
            permits_lapsed: shared.permits.lapsed(place),
            fleet_held: fleet.as_ref().map(|fleet| fleet.held),
            fleet_unknown: fleet.as_ref().map(|fleet| fleet.unknown),
            store_lost: without
                .map(|&(what, count)| (what.to_owned(), count))
                .collect(),
            calls: calls.into(),
            refused: refused.filter(|(_, count)| *count > 0).collect(),
        }
    }
}
