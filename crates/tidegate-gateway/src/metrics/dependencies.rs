//! Metrics of dependencies, and of the breakers before them and before applications.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use tidegate_core::breaker::Trip;
use tidegate_core::facts::Class;
use tidegate_http::refusal::Refusal;

use super::Completion;
use super::exposition::{Rows, Source, counter, gauge};
use crate::breaker::CallBreaker;
use crate::context::App;
use crate::dependency::fleet::FleetTally;
use crate::upstream::UpstreamFailure;

/// What a breaker may let through, in the words of [`CallBreaker::lets`].
const LETS: [&str; 3] = ["calls", "probes", "nothing"];

impl Source {
    /// Every metric of the dependencies; none where there are none.
    pub(super) fn dependencies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let doors = self.doors();
        if doors.is_empty() {
            return Ok(());
        }
        self.dependency_calls(&doors, encoder)?;
        let help = "Calls to a dependency that may be under way at once";
        let mut rows = gauge(encoder, "tidegate_dependency_concurrency", help)?;
        for &(_, door) in &doors {
            rows.gauge(
                &[("dependency", &door.plan.name)],
                door.gate.snapshot().limit,
            )?;
        }
        let shared = self.shared();
        let following: Vec<_> = (shared.iter())
            .flat_map(|shared| {
                let all = shared.dependencies.iter().enumerate();
                all.filter_map(|(at, it)| Some((it.plan.name(), shared.share_of(at)?)))
            })
            .collect();
        if !following.is_empty() {
            let help = "Part of what may be asked of a dependency that holds now, where it follows what is left of it";
            let mut rows = gauge(encoder, "tidegate_dependency_share_ratio", help)?;
            for (name, (share, _)) in following {
                rows.gauge(&[("dependency", name)], share)?;
            }
        }
        let help = "Calls to a dependency that are under way";
        let mut rows = gauge(encoder, "tidegate_dependency_in_flight", help)?;
        for &(_, door) in &doors {
            let gate = door.gate.snapshot();
            for class in Class::ALL {
                let labels = [
                    ("dependency", door.plan.name.as_str()),
                    ("class", class.name()),
                ];
                rows.gauge(&labels, gate.in_flight_by_class[class.index()])?;
            }
        }
        self.dependency_permits(encoder)?;
        self.dependency_fleet(encoder)?;
        let help = "Calls to a dependency that wait for others to finish";
        let mut rows = gauge(encoder, "tidegate_dependency_waiting", help)?;
        for &(_, door) in &doors {
            rows.gauge(
                &[("dependency", &door.plan.name)],
                door.gate.snapshot().queued,
            )?;
        }
        Ok(())
    }

    fn dependency_calls(
        &self,
        doors: &[(usize, &App)],
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let help = "Calls to a dependency that were made, by what that was worth to the caller";
        let mut rows = counter(encoder, "tidegate_dependency_calls", help)?;
        for &(at, door) in doors {
            for completion in Completion::ALL {
                let classes = Class::ALL.into_iter().map(|class| {
                    self.sum(|recorder| {
                        let work = &recorder.apps[at].routes[0][class.index()];
                        &work.completions[completion.index()]
                    })
                });
                let labels = [
                    ("dependency", door.plan.name.as_str()),
                    ("outcome", completion.label()),
                ];
                rows.count(&labels, classes.sum::<u64>())?;
            }
        }
        let help =
            "Calls to a dependency that were not made, or had no answer, by class and reason";
        let mut rows = counter(encoder, "tidegate_dependency_refused", help)?;
        for &(at, door) in doors {
            for class in Class::ALL {
                for refusal in Refusal::ALL {
                    let count = self.sum(|recorder| {
                        &recorder.apps[at].classes[class.index()].refused[refusal.index()]
                    });
                    // Most reasons never are: a row for each would be most of the page.
                    if count > 0 {
                        let labels = [
                            ("dependency", door.plan.name.as_str()),
                            ("class", class.name()),
                            ("reason", refusal.label()),
                        ];
                        rows.count(&labels, count)?;
                    }
                }
            }
        }
        let help = "Failures of a dependency or of the way to it";
        let mut rows = counter(encoder, "tidegate_dependency_failures", help)?;
        for &(at, door) in doors {
            for failure in UpstreamFailure::ALL {
                let count =
                    self.sum(|recorder| &recorder.apps[at].upstream_failures[failure.index()]);
                let labels = [
                    ("dependency", door.plan.name.as_str()),
                    ("reason", failure.label()),
                ];
                rows.count(&labels, count)?;
            }
        }
        Ok(())
    }

    fn dependency_permits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(shared) = self.shared() else {
            return Ok(());
        };
        let names = || {
            shared
                .dependencies
                .iter()
                .map(|it| it.plan.name())
                .enumerate()
        };
        let help = "Permits for calls to a dependency that are held";
        let mut rows = gauge(encoder, "tidegate_dependency_permits", help)?;
        for (at, name) in names() {
            rows.gauge(&[("dependency", name)], shared.permits.count(at) as u64)?;
        }
        let help = "Permits that went back because they were not renewed in time";
        let mut rows = counter(encoder, "tidegate_dependency_permits_lapsed", help)?;
        for (at, name) in names() {
            rows.count(&[("dependency", name)], shared.permits.lapsed(at))?;
        }
        Ok(())
    }

    /// Those whose calls count over all gateways.
    fn dependency_fleet(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some((shared, fleet)) = self.shared().and_then(|it| Some((it, it.fleet.as_ref()?)))
        else {
            return Ok(());
        };
        let dependencies = shared.dependencies.iter().enumerate();
        let tallies: Vec<(&str, FleetTally)> = dependencies
            .filter_map(|(at, it)| Some((it.plan.name(), fleet.tally(at)?)))
            .collect();
        let help = "Calls to the store about permits of the fleet, by what they were for; a batch is one call";
        let mut rows = counter(encoder, "tidegate_dependency_store_calls", help)?;
        for (name, tally) in &tallies {
            for &(call, outcome, count) in &tally.store_calls {
                let labels = [("dependency", *name), ("call", call), ("outcome", outcome)];
                rows.count(&labels, count)?;
            }
        }
        let help = "Calls to a dependency that were decided on while the store did not answer, by what became of them";
        let mut rows = counter(encoder, "tidegate_dependency_store_lost", help)?;
        for (name, tally) in &tallies {
            for &(outcome, count) in &tally.without {
                rows.count(&[("dependency", name), ("outcome", outcome)], count)?;
            }
        }
        type Of = fn(&FleetTally) -> u64;
        let counters: [(&str, &str, Of); 2] = [
            (
                "tidegate_dependency_fleet_lost",
                "Permits of the fleet whose lease passed while they were held",
                |it| it.lost,
            ),
            (
                "tidegate_dependency_fleet_unreturned",
                "Permits of the fleet that count until their lease is over, as the store could not be told that they went back",
                |it| it.unreturned,
            ),
        ];
        for (name, help, of) in counters {
            let mut rows = counter(encoder, name, help)?;
            for (dependency, tally) in &tallies {
                rows.count(&[("dependency", dependency)], of(tally))?;
            }
        }
        let gauges: [(&str, &str, Of); 2] = [
            (
                "tidegate_dependency_fleet_held",
                "What this gateway holds of the permits of the fleet",
                |it| it.held,
            ),
            (
                "tidegate_dependency_fleet_unknown",
                "Of these, what the store does not know of",
                |it| it.unknown,
            ),
        ];
        for (name, help, of) in gauges {
            let mut rows = gauge(encoder, name, help)?;
            for (dependency, tally) in &tallies {
                rows.gauge(&[("dependency", dependency)], of(tally))?;
            }
        }
        Ok(())
    }

    /// Breakers before dependencies, and before those applications that have one.
    pub(super) fn breakers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let apps = self.apps().map(|(_, app, _)| ("app", app));
        let doors = self
            .doors()
            .into_iter()
            .map(|(_, door)| ("dependency", door));
        let breakers: Vec<_> = (apps.chain(doors))
            .filter_map(|(kind, app)| Some((kind, &*app.plan.name, app.breaker.as_deref()?)))
            .collect();
        if breakers.is_empty() {
            return Ok(());
        }
        let help = "What a breaker lets through: 1 for what it does";
        let mut rows = gauge(encoder, "tidegate_breaker_lets", help)?;
        for &(kind, name, breaker) in &breakers {
            let now = breaker.lets();
            for lets in LETS {
                rows.gauge(&[(kind, name), ("lets", lets)], u32::from(lets == now))?;
            }
        }
        let help =
            "Times that a breaker stopped calls, or a probe found that it should go on, by reason";
        let rows = counter(encoder, "tidegate_breaker_trips", help)?;
        trips(rows, &breakers)
    }

    /// The doors of the dependencies, with their places among all applications.
    fn doors(&self) -> Vec<(usize, &App)> {
        let Some(shared) = self.shared() else {
            return Vec::new();
        };
        let dependencies = shared.dependencies.iter();
        dependencies
            .map(|dependency| (dependency.app, &shared.apps[dependency.app]))
            .collect()
    }
}

fn trips(mut rows: Rows<'_>, breakers: &[(&str, &str, &CallBreaker)]) -> fmt::Result {
    for &(kind, name, breaker) in breakers {
        for by in Trip::ALL {
            rows.count(&[(kind, name), ("by", by.name())], breaker.trips(by))?;
        }
    }
    Ok(())
}
