//! What goes wrong with the application, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

use super::Outcome;
use crate::scenario::{App, Fault, Style};

/// What the application has to do when a fault begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// Stand still.
    Stop,
    /// Go on again, with an empty cache where it is `cold`.
    Go { cold: bool },
    /// Have so many slots or cores.
    Capacity(u32),
    /// Find so many foreign jobs in its line.
    Backlog(u32),
    /// Nothing at once; what is drawn from now on is different.
    Other,
}

/// All faults of a scenario and which of them are present.
#[derive(Debug)]
pub(super) struct Faults {
    known: Vec<Known>,
    /// When, and which of `known`; a fault is put in again for its end or its next time. At the
    /// same moment, the one written first comes first.
    edges: BinaryHeap<Reverse<(Mono, usize)>>,
    /// Those with a present capacity, the latest last.
    steps: Vec<usize>,
    capacity: u32,
    /// Stalls that last, and whether one that ended among them leaves the cache empty.
    standing: u32,
    cold: bool,
}

#[derive(Clone, Debug)]
struct Known {
    fault: Fault,
    /// The place of the route it is about.
    route: Option<usize>,
    began: Option<Mono>,
}

impl Faults {
    pub(super) fn new(app: &App, faults: &[Fault]) -> Self {
        let place = |name: &str| app.routes.iter().position(|route| route.name == name);
        let known: Vec<Known> = faults
            .iter()
            .map(|fault| Known {
                route: match fault {
                    Fault::Slow { route, .. } => route.as_deref().and_then(place),
                    _ => None,
                },
                fault: fault.clone(),
                began: None,
            })
            .collect();
        let edges = known
            .iter()
            .enumerate()
            .map(|(index, known)| Reverse((Mono::default() + begin(&known.fault), index)))
            .collect();
        Self {
            known,
            edges,
            steps: Vec::new(),
            capacity: match app.style {
                Style::Slots { slots } => slots,
                Style::Sharing { cores } => cores,
                Style::Quota { per_second } => per_second,
            },
            standing: 0,
            cold: false,
        }
    }

    pub(super) fn next_edge(&self) -> Option<Mono> {
        self.edges.peek().map(|&Reverse((at, _))| at)
    }

    /// The next fault begins or ends.
    pub(super) fn pass(&mut self) -> Edge {
        let Some(Reverse((at, index))) = self.edges.pop() else {
            return Edge::Other;
        };
        if self.known[index].began.is_none() {
            self.begin(at, index)
        } else {
            self.end(index)
        }
    }

    /// How many times as long work on a route takes that begins now.
    pub(super) fn slowness(&self, on: usize) -> f64 {
        self.present()
            .filter_map(|known| match known.fault {
                Fault::Slow {
                    factor, ref route, ..
                } if route.is_none() || known.route == Some(on) => Some(factor),
                _ => None,
            })
            .product()
    }

    /// How a request that is begun now fails at once, and how long that takes, where it does.
    pub(super) fn fail_fast(&self, rng: &mut Rng) -> Option<(Outcome, Duration)> {
        self.present().find_map(|known| match known.fault {
            Fault::FailFast {
                share,
                takes,
                refused,
                ..
            } if rng.unit() < share => {
                let outcome = if refused {
                    Outcome::Refused
                } else {
                    Outcome::FailedFast
                };
                Some((outcome, takes))
            }
            _ => None,
        })
    }

    fn present(&self) -> impl Iterator<Item = &Known> {
        self.known.iter().filter(|known| known.began.is_some())
    }

    fn begin(&mut self, at: Mono, index: usize) -> Edge {
        let known = &mut self.known[index];
        known.began = Some(at);
        let (until, edge) = match known.fault {
            Fault::Stall { lasts, .. } => {
                self.standing += 1;
                (Some(at + lasts), Edge::Stop)
            }
            Fault::Capacity { until, to, .. } => {
                self.steps.push(index);
                (until.map(|span| Mono::default() + span), Edge::Capacity(to))
            }
            Fault::Slow { until, .. } | Fault::FailFast { until, .. } => {
                (until.map(|span| Mono::default() + span), Edge::Other)
            }
            Fault::Backlog { jobs, .. } => (None, Edge::Backlog(jobs)),
        };
        if let Some(until) = until {
            self.edges.push(Reverse((until, index)));
        }
        edge
    }

    fn end(&mut self, index: usize) -> Edge {
        let known = &mut self.known[index];
        let began = known.began.take();
        match known.fault {
            Fault::Stall { every, cold, .. } => {
                if let (Some(every), Some(began)) = (every, began) {
                    self.edges.push(Reverse((began + every, index)));
                }
                self.standing -= 1;
                self.cold |= cold;
                if self.standing > 0 {
                    return Edge::Other;
                }
                Edge::Go {
                    cold: std::mem::take(&mut self.cold),
                }
            }
            Fault::Capacity { .. } => {
                self.steps.retain(|&step| step != index);
                Edge::Capacity(self.present_capacity())
            }
            Fault::Slow { .. } | Fault::FailFast { .. } | Fault::Backlog { .. } => Edge::Other,
        }
    }

    fn present_capacity(&self) -> u32 {
        match self.steps.last().map(|&index| &self.known[index].fault) {
            Some(&Fault::Capacity { to, .. }) => to,
            _ => self.capacity,
        }
    }
}

const fn begin(fault: &Fault) -> Duration {
    match fault {
        Fault::Stall { at, .. }
        | Fault::Capacity { at, .. }
        | Fault::Slow { at, .. }
        | Fault::FailFast { at, .. }
        | Fault::Backlog { at, .. } => *at,
    }
}
