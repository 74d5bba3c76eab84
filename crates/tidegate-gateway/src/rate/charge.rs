//! What a request has spent of its limits, until it is known whether the application gets to see it.

use http::Response;
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Short, Tick};
use tidegate_http::quota::{self, Left, Policy};
use tidegate_http::refusal::Refusal;
use tidegate_store::limits::{self, Few, Said, Settled};

use super::{Asked, Stage, Wanted, in_words, tick};
use crate::body::Body;
use crate::context::Thread;

/// What a request has spent. Dropped, for whatever reason, it gives everything back, unless the request has
/// been sent to its application.
pub(crate) struct Charge<'t> {
    thread: &'t Thread,
    /// Before admission, and with the session.
    taken: [Option<Taken<'t>>; 2],
    sent: bool,
}

/// What was spent at a stage: of these limits, by this time.
struct Taken<'t> {
    from: Wanted<'t>,
    at: Tick,
}

/// Why a request does not pass its limits: nothing was spent of them.
pub(crate) struct Refused {
    /// The limits that refuse, by their places in the plan; never empty.
    violated: Few<u16>,
    /// The one with the longest wait.
    binding: u16,
    left: Left,
}

impl<'t> Charge<'t> {
    /// Nothing yet, for a request on `thread`.
    pub(crate) const fn new(thread: &'t Thread) -> Self {
        Self {
            thread,
            taken: [const { None }; 2],
            sent: false,
        }
    }

    /// Spends from all limits that the request meets at `stage`, or from none.
    pub(crate) fn take(&mut self, stage: Stage, asked: &Asked<'_>) -> Result<(), Refused> {
        let thread = self.thread;
        let shared = &thread.shared;
        let met = shared.rates.meets(asked.app, asked.route, stage);
        if met.is_empty() {
            return Ok(());
        }
        let ignored = |header| thread.recorder.malformed(header);
        let trusted = &shared.plan.trusted;
        let wanted = shared.rates.wanted(met, asked, trusted, ignored);
        let now = tick(shared.clock.now());
        let answer = shared.rates.table.take(&wanted.asked, now);
        let refused = count(thread, asked, &wanted, &answer, now);
        let Some(binding) = answer.binding else {
            let from = wanted.those(|place| matches!(answer.said[place], Said::Passes { .. }));
            self.taken[stage as usize] = Some(Taken { from, at: now });
            return Ok(());
        };
        Err(Refused {
            violated: refused,
            binding: wanted.limits[binding],
            left: left(answer.said[binding]),
        })
    }

    /// The application gets the request now: what was spent is spent.
    pub(crate) const fn sent(&mut self) {
        self.sent = true;
    }

    /// It did not get it after all.
    pub(crate) const fn not_sent(&mut self) {
        self.sent = false;
    }
}

/// Counts what became of the `request` in each limit, and says which enforced ones refuse it.
fn count(
    thread: &Thread,
    request: &Asked<'_>,
    wanted: &Wanted<'_>,
    answer: &limits::Answer,
    now: Tick,
) -> Few<u16> {
    let (recorder, shared) = (&thread.recorder, &thread.shared);
    let mut refused = Few::new();
    for ((&at, asked), said) in wanted.limits.iter().zip(&wanted.asked).zip(&answer.said) {
        let limit = &shared.rates.limits()[usize::from(at)];
        let words = || in_words(limit, request, &shared.plan.trusted);
        let key = (asked.key, asked.standing);
        match said {
            Said::Passes { .. } if answer.passes() => {
                recorder.rate_passed(at);
                limit.spent.count(key, asked.cost, now, words);
            }
            Said::Passes { .. } | Said::Unasked => {}
            Said::Short { .. } => {
                limit.refused.count(key, 1, now, words);
                match asked.standing {
                    Standing::Shadow => recorder.rate_shadow_refused(at),
                    Standing::Enforced => {
                        recorder.rate_refused(at);
                        refused.push(at);
                    }
                }
            }
        }
    }
    refused
}

/// What the limit that binds has left.
fn left(said: Said) -> Left {
    match said {
        Said::Short { short, remaining } => Left {
            remaining,
            wait_s: match short {
                Short::Wait { wait_us } => Some(wait_us.div_ceil(1_000_000)),
                Short::Never => None,
            },
        },
        Said::Passes { .. } | Said::Unasked => unreachable!("a limit binds by refusing"),
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        if self.sent {
            return;
        }
        let shared = &self.thread.shared;
        for Taken { from, at } in self.taken.iter_mut().filter_map(Option::take) {
            for &limit in &from.limits {
                self.thread.recorder.rate_given_back(limit);
            }
            let settled = from.asked.iter().map(|asked| Settled {
                key: asked.key,
                tag: asked.tag,
                spec: asked.spec,
                at,
                taken: asked.cost,
                used: 0,
            });
            let settled: Few<Settled<'_>> = settled.collect();
            let now = tick(shared.clock.now());
            shared.rates.table.settle(&settled, now);
        }
    }
}

impl Refused {
    /// What it is in the table of refusals.
    pub(crate) const fn refusal(&self) -> Refusal {
        match self.left.wait_s {
            Some(_) => Refusal::RateLimited,
            None => Refusal::RateNever,
        }
    }

    /// The answer.
    pub(crate) fn answer(&self, thread: &Thread) -> Response<Body> {
        let refusal = self.refusal();
        let limits = thread.shared.rates.limits();
        let policy = |at: u16| -> &Policy { &limits[usize::from(at)].policy };
        let violated = || self.violated.iter().map(|&at| policy(at));
        let mut response = Response::new(Body::full(quota::body(refusal, violated())));
        *response.status_mut() = refusal.status();
        let headers = response.headers_mut();
        *headers = refusal.headers(self.left.wait_s);
        quota::add_headers(headers, violated(), policy(self.binding), self.left);
        response
    }
}
