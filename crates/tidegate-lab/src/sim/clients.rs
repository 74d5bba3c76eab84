//! The clients of one traffic: what they ask for, how long they wait, whether they try again.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_core::facts::{COHORTS, Class, Facts, GroupId, RouteId};
use tidegate_core::retry::{self, Budget};
use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

use super::arrivals::Schedule;
use super::attempts::{Call, Id};
use super::seeds::{self, Concern};
use crate::scenario::{App, Label, Pause, Retry, Traffic, Weight};

/// The way to the application and back: no retry follows sooner on what it answers to.
const ROUND_TRIP: Duration = Duration::from_millis(1);

/// Memory that a queued request is taken to hold.
const BYTES: u32 = 1024;

/// Clients that are alike.
#[derive(Debug)]
pub(super) struct Clients {
    number: u16,
    pub(super) class: Class,
    labelled: bool,
    label: Option<Label>,
    patience: Duration,
    users: u64,
    mixes: Vec<Mix>,
    mix: usize,
    schedule: Schedule,
    /// When the next first attempt is made; [`Mono::MAX`] for never.
    pub(super) next: Mono,
    arrivals: Rng,
    calls: Rng,
    retrying: Option<Retrying>,
    /// Attempts whose clients try again when their patience ends. Everybody here is equally
    /// patient, so the order of arrival is that of giving up; those that ended are passed over.
    waiting: VecDeque<(Mono, Id)>,
}

/// From `from` on, how often each route is asked for: weights summed up.
#[derive(Debug)]
struct Mix {
    from: Mono,
    routes: Vec<(f64, u16)>,
}

#[derive(Debug)]
struct Retrying {
    policy: retry::Policy,
    budget: Option<Budget>,
    grain: Option<Duration>,
    rng: Rng,
}

impl Clients {
    pub(super) fn new(number: usize, traffic: &Traffic, app: &App, seed: u64) -> Self {
        let rng = |concern| Rng::new(seeds::of(seed, concern, number));
        let mut schedule = Schedule::new(traffic);
        let mut arrivals = rng(Concern::Arrivals);
        let changed = traffic.changes.iter().filter_map(|change| {
            let routes = change.routes.as_ref()?;
            Some(Mix::new(change.at, routes, app))
        });
        Self {
            number: number as u16,
            class: Class::from_name(traffic.class_name())
                .expect("a scenario's classes are checked"),
            label: traffic.label,
            labelled: traffic.labelled,
            patience: traffic.patience,
            users: u64::from(traffic.users),
            mixes: [Mix::new(Duration::ZERO, &traffic.routes, app)]
                .into_iter()
                .chain(changed)
                .collect(),
            mix: 0,
            next: schedule.next(&mut arrivals),
            schedule,
            arrivals,
            calls: rng(Concern::Calls),
            retrying: traffic
                .retry
                .as_ref()
                .map(|retry| Retrying::new(retry, rng(Concern::Retries))),
            waiting: VecDeque::new(),
        }
    }

    /// The first attempt that is due now, and which of `doors` it comes to.
    pub(super) fn first(&mut self, now: Mono, doors: u32) -> (Call, u16) {
        self.next = self.schedule.next(&mut self.arrivals);
        while self
            .mixes
            .get(self.mix + 1)
            .is_some_and(|next| next.from <= now)
        {
            self.mix += 1;
        }
        if let Some(budget) = self.budget() {
            budget.first_attempt(now);
        }
        let call = Call {
            traffic: self.number,
            user: self.calls.below(self.users) as u32,
            route: self.mixes[self.mix].draw(&mut self.calls),
            attempt: 1,
        };
        (call, self.calls.below(u64::from(doors)) as u16)
    }

    /// Which of `doors` a retry comes to.
    pub(super) fn door(&mut self, doors: u32) -> u16 {
        let door = |retrying: &mut Retrying| retrying.rng.below(u64::from(doors)) as u16;
        self.retrying.as_mut().map_or(0, door)
    }

    /// What a gateway sees of an attempt.
    pub(super) fn facts(&self, now: Mono, call: Call) -> Facts {
        let (route, group, patience) = match self.label {
            Some(label) => (label.route, label.group, label.patience),
            None => {
                let route = RouteId(if self.labelled { call.route } else { 0 });
                (route, GroupId(0), self.patience)
            }
        };
        Facts {
            class: self.class,
            route,
            group,
            deadline: now + patience,
            bytes: BYTES,
            cohort: (call.user % u32::from(COHORTS)) as u8,
            retry: call.attempt > 1,
        }
    }

    /// When the client of an attempt made at `arrived` stops waiting.
    pub(super) fn gives_up(&self, arrived: Mono) -> Mono {
        arrived + self.patience
    }

    /// Whether `Retry-After` makes a difference.
    pub(super) fn heed_retry_after(&self) -> bool {
        self.retrying
            .as_ref()
            .is_some_and(|retrying| retrying.policy.heed_retry_after)
    }

    /// An attempt waits from now on. Only a client that would try again has to be told when its
    /// patience ends, or one that a gateway takes to be more patient than it is; of the others the
    /// end of the work will tell that it came too late.
    pub(super) fn waits(&mut self, now: Mono, call: Call, id: Id) {
        let again = |retrying: &Retrying| call.attempt < retrying.policy.attempts;
        let early = |label: Label| self.patience < label.patience;
        if self.retrying.as_ref().is_some_and(again) || self.label.is_some_and(early) {
            self.waiting.push_back((self.gives_up(now), id));
        }
    }

    /// Whose patience ends next, and when; `living` tells which attempts are still waited for.
    pub(super) fn next_to_give_up(&mut self, living: impl Fn(Id) -> bool) -> Option<(Mono, Id)> {
        while let Some(&(at, id)) = self.waiting.front() {
            if living(id) {
                return Some((at, id));
            }
            self.waiting.pop_front();
        }
        None
    }

    /// Whoever [`Clients::next_to_give_up`] named has done so.
    pub(super) fn gave_up(&mut self) {
        self.waiting.pop_front();
    }

    /// When the client of `call`, which has just failed, tries again; `None` for never.
    pub(super) fn again(
        &mut self,
        now: Mono,
        call: Call,
        retry_after: Option<Duration>,
    ) -> Option<Mono> {
        let retrying = self.retrying.as_mut()?;
        let pause = retrying
            .policy
            .pause(call.attempt + 1, retry_after, &mut retrying.rng)?;
        if let Some(budget) = &mut retrying.budget
            && !budget.try_spend(now, call.attempt)
        {
            return None;
        }
        let at = now + pause.max(ROUND_TRIP);
        Some(retrying.grain.map_or(at, |grain| up_to_grain(at, grain)))
    }

    fn budget(&mut self) -> Option<&mut Budget> {
        self.retrying.as_mut()?.budget.as_mut()
    }
}

impl Mix {
    fn new(from: Duration, weights: &[Weight], app: &App) -> Self {
        let mut sum = 0.0;
        let mut routes: Vec<(f64, u16)> = weights
            .iter()
            .map(|weight| {
                let named = |route: &crate::scenario::Service| route.name == weight.route;
                let route = app.routes.iter().position(named);
                sum += weight.weight;
                (sum, route.expect("a scenario's routes are checked") as u16)
            })
            .collect();
        if routes.is_empty() {
            routes.push((1.0, 0));
        }
        Self {
            from: Mono::default() + from,
            routes,
        }
    }

    fn draw(&self, rng: &mut Rng) -> u16 {
        let last = self.routes[self.routes.len() - 1];
        let at = rng.unit() * last.0;
        let route = self.routes.iter().find(|(sum, _)| at < *sum);
        route.unwrap_or(&last).1
    }
}

impl Retrying {
    fn new(retry: &Retry, rng: Rng) -> Self {
        let pause = match retry.pause {
            Pause::None {} => retry::Pause::None,
            Pause::Fixed { pause } => retry::Pause::Fixed(pause),
            Pause::Backoff { base, most, jitter } => retry::Pause::Backoff { base, most, jitter },
        };
        let budget = retry.budget.as_ref().map(|budget| {
            Budget::new(
                (budget.ratio * 1000.0).round() as u32,
                budget.per_second.round() as u32,
                budget.most.round() as u32,
                budget.growth,
            )
        });
        Self {
            policy: retry::Policy {
                attempts: retry.attempts,
                pause,
                heed_retry_after: retry.retry_after,
            },
            budget,
            grain: retry.grain,
            rng,
        }
    }
}

/// The first whole multiple of `grain` that is not before `at`.
fn up_to_grain(at: Mono, grain: Duration) -> Mono {
    let grain = grain.as_nanos().max(1) as u64;
    Mono::from_nanos(at.as_nanos().div_ceil(grain).saturating_mul(grain))
}
