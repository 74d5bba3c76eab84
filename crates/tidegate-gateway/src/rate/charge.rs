//! What a request has spent of its limits, until it is known whether the application gets to see it.

use http::Response;
use tidegate_core::rate::Short;
use tidegate_core::rate::set::{Places, Spent};
use tidegate_http::quota::{self, Left, Policy};
use tidegate_http::refusal::Refusal;

use super::table::{Denied, Wanted};
use super::{Asked, Stage, tick};
use crate::body::Body;
use crate::context::Thread;

/// What a request has spent. Dropped, for whatever reason, it gives everything back, unless the request has
/// been sent to its application.
pub(crate) struct Charge<'t> {
    thread: &'t Thread,
    /// Before admission, and with the session.
    taken: [Option<Taken>; 2],
    sent: bool,
}

struct Taken {
    wanted: Vec<Wanted>,
    spent: Spent,
}

/// Why a request does not pass its limits: nothing was spent of them.
pub(crate) struct Refused {
    /// The limits that refuse, by their places in the plan; never empty.
    violated: Vec<u16>,
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
        let shared = &self.thread.shared;
        let met = shared.rates.meets(asked.app, asked.route, stage);
        if met.is_empty() {
            return Ok(());
        }
        let recorder = &self.thread.recorder;
        let trusted = &shared.plan.trusted;
        let ignored = |header| recorder.malformed(header);
        let wanted = shared.rates.wanted(met, asked, trusted, ignored);
        let now = tick(shared.clock.now());
        match shared.rates.table.take(&wanted, now) {
            Ok(spent) => {
                let count = |places: Places, count: fn(&Thread, &Wanted)| {
                    places.iter().for_each(|at| count(self.thread, &wanted[at]));
                };
                count(spent.from(), |thread, it| {
                    thread.recorder.rate_passed(it.limit)
                });
                count(spent.shadowed, |thread, it| {
                    thread.recorder.rate_shadow_refused(it.limit);
                });
                let place = stage as usize;
                self.taken[place] = Some(Taken { wanted, spent });
                Ok(())
            }
            Err(denied) => Err(self.refused(&wanted, &denied)),
        }
    }

    /// The application gets the request now: what was spent is spent.
    pub(crate) const fn sent(&mut self) {
        self.sent = true;
    }

    /// It did not get it after all.
    pub(crate) const fn not_sent(&mut self) {
        self.sent = false;
    }

    fn refused(&self, wanted: &[Wanted], denied: &Denied) -> Refused {
        let Denied { refused, remaining } = denied;
        let recorder = &self.thread.recorder;
        for at in refused.by.iter() {
            recorder.rate_refused(wanted[at].limit);
        }
        for at in refused.shadowed.iter() {
            recorder.rate_shadow_refused(wanted[at].limit);
        }
        Refused {
            violated: refused.by.iter().map(|at| wanted[at].limit).collect(),
            binding: wanted[refused.binding].limit,
            left: Left {
                remaining: *remaining,
                wait_s: match refused.short {
                    Short::Wait { wait_us } => Some(wait_us.div_ceil(1_000_000)),
                    Short::Never => None,
                },
            },
        }
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        if self.sent {
            return;
        }
        let shared = &self.thread.shared;
        for Taken { wanted, spent } in self.taken.iter_mut().filter_map(Option::take) {
            for at in spent.from().iter() {
                self.thread.recorder.rate_given_back(wanted[at].limit);
            }
            let now = tick(shared.clock.now());
            shared.rates.table.give_back(&wanted, spent, now);
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
