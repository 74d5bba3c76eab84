//! What a request has spent of its limits, until it is known whether the application gets to see it.

use std::borrow::Cow;

use http::{HeaderMap, Response};
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Price, Short, Tick};
use tidegate_http::quota::{self, Left, Policy};
use tidegate_http::refusal::Refusal;
use tidegate_store::limits::{self, Few, Said, Settled};

use super::fleet::{self, Held};
use super::{Asked, Stage, Wanted, tick};
use crate::body::Body;
use crate::context::Thread;
use crate::request;

/// What a request has spent. Dropped, for whatever reason, it gives everything back, unless the request has
/// been sent to its application.
pub(crate) struct Charge<'t> {
    thread: &'t Thread,
    /// Before admission, and with the session.
    taken: [Option<Taken<'t>>; 2],
    /// From limits of the fleet.
    held: Vec<Held>,
    /// So many of those, the first, were counted as passed: the others belong to a decision that was not reached.
    counted: usize,
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
    /// Nobody knows whether it would pass: the store is away.
    lacks_store: bool,
}

/// Which sample of a limit a request counts in.
enum Which {
    Spent,
    Refused,
}

/// To come back after, when the store of limits is away.
const STORE_AWAY_RETRY_S: u64 = 1;

impl<'t> Charge<'t> {
    /// Nothing yet, for a request on `thread`.
    pub(crate) const fn new(thread: &'t Thread) -> Self {
        Self {
            thread,
            taken: [const { None }; 2],
            held: Vec::new(),
            counted: 0,
            sent: false,
        }
    }

    /// Spends from all limits that the request meets at `stage`, or from none: first from those of this node, which
    /// cost least, then from those of the fleet. May be dropped at any await.
    pub(crate) async fn take(&mut self, stage: Stage, asked: &Asked<'_>) -> Result<(), Refused> {
        self.take_of_node(stage, asked)?;
        self.take_of_fleet(stage, asked).await
    }

    async fn take_of_fleet(&mut self, stage: Stage, asked: &Asked<'_>) -> Result<(), Refused> {
        let shared = &self.thread.shared;
        let met = &shared.rates.meets(asked.app, asked.route, stage).fleet;
        let Some(fleet) = shared.rates.fleet.as_ref().filter(|_| !met.is_empty()) else {
            return Ok(());
        };
        let recorder = &self.thread.recorder;
        let trusted = &shared.plan.trusted;
        let ignored = |header| recorder.malformed(header);
        let wants = shared
            .rates
            .wanted_of_fleet(fleet, met, asked, trusted, ignored);
        let before = self.held.len();
        let taken = fleet.take(&wants, &mut self.held).await;
        let now = tick(shared.clock.now());
        let sample = |limit: u16, which: Which| {
            let (Some(want), its) = (wants.of(limit), &shared.rates.limits()[usize::from(limit)])
            else {
                return;
            };
            let hash = wants.key_hash();
            let words = || shared.rates.in_words(its, asked, trusted, hash);
            let (sample, amount) = match which {
                Which::Spent => (&its.spent, want.price.tokens(want.cost)),
                Which::Refused => (&its.refused, 1),
            };
            sample.count((want.key, want.standing), amount, now, words);
        };
        match taken {
            Ok(shadowed) => {
                for held in &self.held[before..] {
                    recorder.rate_passed(held.limit);
                    sample(held.limit, Which::Spent);
                }
                self.counted = self.held.len();
                for limit in shadowed {
                    recorder.rate_shadow_refused(limit);
                    sample(limit, Which::Refused);
                }
                Ok(())
            }
            Err(denied) => {
                for held in self.held.drain(before..) {
                    fleet.give_back(&held);
                }
                for &limit in &denied.violated {
                    recorder.rate_refused(limit);
                    sample(limit, Which::Refused);
                }
                for &limit in &denied.shadowed {
                    recorder.rate_shadow_refused(limit);
                    sample(limit, Which::Refused);
                }
                let price = wants
                    .of(denied.binding)
                    .map_or(Price::FIXED, |want| want.price);
                Err(Refused::by_fleet(denied, price))
            }
        }
    }

    fn take_of_node(&mut self, stage: Stage, asked: &Asked<'_>) -> Result<(), Refused> {
        let thread = self.thread;
        let shared = &thread.shared;
        let met = &shared.rates.meets(asked.app, asked.route, stage).node;
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
            left: left(answer.said[binding], wanted.prices[binding]),
            lacks_store: false,
        })
    }

    /// The application gets the request now: what was spent is spent.
    pub(crate) const fn sent(&mut self) {
        self.sent = true;
    }

    /// The head of its answer is here, and may say what the request has really cost: the difference is charged, at most
    /// until there is a burst of debt, or given back. Without an answer it has cost what was taken for it.
    pub(crate) fn answered(&mut self, headers: &HeaderMap) {
        let shared = &self.thread.shared;
        let ignored = |header| self.thread.recorder.malformed(header);
        let cost = |limit: u16, taken: u64, price: Price| -> Option<u64> {
            let limit = &shared.rates.limits()[usize::from(limit)];
            let used = limit.cost_by_answer(headers, ignored)?;
            // At the price that it had when it came: what it took then is what it is compared with.
            let used = price.of(used, limit.spec.most());
            // More debt than a burst is not kept, and so much more is enough for it from wherever it is.
            Some(used.min(taken.saturating_add(limit.spec.most().saturating_mul(2))))
        };
        if let Some(fleet) = &shared.rates.fleet {
            for held in self.held.drain(..) {
                if let Some(used) = cost(held.limit, held.cost, held.price) {
                    fleet.settle(&held, used);
                }
            }
        }
        for Taken { from, at } in self.taken.iter_mut().filter_map(Option::take) {
            let settled = from
                .limits
                .iter()
                .zip(&from.asked)
                .zip(&from.prices)
                .filter_map(|((&limit, asked), &price)| {
                    Some(Settled {
                        key: asked.key,
                        tag: asked.tag,
                        spec: asked.spec,
                        at,
                        taken: asked.cost,
                        used: cost(limit, asked.cost, price)?,
                    })
                });
            let settled: Few<Settled<'_>> = settled.collect();
            if !settled.is_empty() {
                let now = tick(shared.clock.now());
                shared.rates.table.settle(&settled, now);
            }
        }
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
    let limits = wanted.limits.iter().zip(&wanted.prices);
    for (((&at, price), asked), said) in limits.zip(&wanted.asked).zip(&answer.said) {
        let limit = &shared.rates.limits()[usize::from(at)];
        let (trusted, hash) = (&shared.plan.trusted, &shared.rates.key_hash);
        let words = || shared.rates.in_words(limit, request, trusted, hash);
        let key = (asked.key, asked.standing);
        match said {
            Said::Passes { .. } if answer.passes() => {
                recorder.rate_passed(at);
                limit.spent.count(key, price.tokens(asked.cost), now, words);
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
fn left(said: Said, price: Price) -> Left {
    match said {
        Said::Short { short, remaining } => Left {
            remaining: price.tokens(remaining),
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
        if let Some(fleet) = &shared.rates.fleet {
            for (place, held) in self.held.drain(..).enumerate() {
                if place < self.counted {
                    self.thread.recorder.rate_given_back(held.limit);
                }
                fleet.give_back(&held);
            }
        }
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
    fn by_fleet(denied: fleet::Denied, price: Price) -> Self {
        let wait_s = match denied.short {
            Some(Short::Wait { wait_us }) => Some(wait_us.div_ceil(1_000_000)),
            Some(Short::Never) => None,
            None => Some(STORE_AWAY_RETRY_S),
        };
        Self {
            violated: denied.violated.into_iter().collect(),
            binding: denied.binding,
            left: Left {
                remaining: price.tokens(denied.remaining),
                wait_s,
            },
            lacks_store: denied.short.is_none(),
        }
    }

    /// What it is in the table of refusals.
    pub(crate) const fn refusal(&self) -> Refusal {
        if self.lacks_store {
            return Refusal::LimitStoreAway;
        }
        match self.left.wait_s {
            Some(_) => Refusal::RateLimited,
            None => Refusal::RateNever,
        }
    }

    /// The answer.
    pub(crate) fn answer(&self, thread: &Thread) -> Response<Body> {
        let refusal = self.refusal();
        if self.lacks_store {
            // Nobody is over a limit as far as is known.
            return request::answer(refusal, self.left.wait_s);
        }
        let rates = &thread.shared.rates;
        let policy = |at: u16| rates.policy(&rates.limits()[usize::from(at)]);
        let policies: Few<Cow<'_, Policy>> = self.violated.iter().map(|&at| policy(at)).collect();
        let violated = || policies.iter().map(|policy| &**policy);
        let mut response = Response::new(Body::full(quota::body(refusal, violated())));
        *response.status_mut() = refusal.status();
        let headers = response.headers_mut();
        *headers = refusal.headers(self.left.wait_s);
        let binding = policy(self.binding);
        quota::add_headers(headers, violated(), &binding, self.left);
        response
    }
}
