//! One thread's counters.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use tidegate_core::admission::Verdict;
use tidegate_core::facts::Class;
use tidegate_http::framing::FramingFault;
use tidegate_http::refusal::Refusal;

use crate::classify::Malformed;
use crate::context::Thread;
use crate::metrics::Completion;
use crate::metrics::histogram::{Histogram, nanos};
use crate::plan::Plan;
use crate::serve::Ending;
use crate::session::{BadCookie, CookieSet, Done, Dropped, Outcome};
use crate::upstream::UpstreamFailure;

/// One thread's counters. Only that thread may record; anybody may read.
#[derive(Debug)]
pub struct Recorder {
    pub(crate) apps: Vec<AppCells>,
    pub(crate) bad_requests: [Cell; FramingFault::ALL.len()],
    pub(crate) turned_away: [Cell; Refusal::ALL.len()],
    pub(crate) malformed: [Cell; Malformed::ALL.len()],
    pub(crate) endings: [Cell; Ending::ALL.len()],
    /// By limit.
    pub(crate) rates: Vec<RateCells>,
}

/// The counters of one application.
#[derive(Debug)]
pub(crate) struct AppCells {
    pub(crate) classes: [ClassCells; Class::COUNT],
    /// By route and class.
    pub(crate) routes: Vec<[WorkCells; Class::COUNT]>,
    pub(crate) unlabelled: Cell,
    pub(crate) upstream_failures: [Cell; UpstreamFailure::ALL.len()],
    /// By the first digit of the status, less one.
    pub(crate) answers: [Cell; 5],
    pub(crate) sessions: SessionCells,
}

/// What is counted of the sessions of one application.
#[derive(Debug)]
pub(crate) struct SessionCells {
    pub(crate) outcomes: [Cell; Outcome::ALL.len()],
    pub(crate) bad_cookies: [Cell; BadCookie::ALL.len()],
    pub(crate) cookies: [Cell; CookieSet::ALL.len()],
    pub(crate) done: [Cell; Done::ALL.len()],
    pub(crate) dropped: [Cell; Dropped::ALL.len()],
    pub(crate) omitted: Cell,
    pub(crate) asked: Histogram,
}

/// The counters of one class of one application.
#[derive(Debug)]
pub(crate) struct ClassCells {
    pub(crate) arrivals: Cell,
    pub(crate) admitted_at_once: Cell,
    pub(crate) admitted_waited: Cell,
    pub(crate) refused: [Cell; Refusal::ALL.len()],
    pub(crate) shadow_admit: Cell,
    pub(crate) shadow_wait: Cell,
    pub(crate) shadow_refuse: [Cell; Refusal::ALL.len()],
    pub(crate) queue_wait: Histogram,
    pub(crate) service: Histogram,
}

/// What became of admitted work, and the slot time that it took.
#[derive(Debug, Default)]
pub(crate) struct WorkCells {
    pub(crate) completions: [Cell; Completion::ALL.len()],
    pub(crate) slot_nanos: [Cell; Completion::ALL.len()],
}

/// The counters of one rate limit.
#[derive(Debug, Default)]
pub(crate) struct RateCells {
    pub(crate) passed: Cell,
    pub(crate) refused: Cell,
    pub(crate) shadow_refused: Cell,
    pub(crate) given_back: Cell,
}

/// A counter with one writer, which therefore needs no locked instruction to add.
#[derive(Debug, Default)]
pub(crate) struct Cell(AtomicU64);

impl Recorder {
    /// Counters for everything in `plan`.
    pub fn new(plan: &Plan) -> Self {
        let doors = plan.dependencies.iter().map(|dependency| &dependency.app);
        let apps = plan.apps.iter().chain(doors).map(|app| AppCells {
            classes: array::from_fn(|_| ClassCells::new()),
            routes: app
                .routes
                .iter()
                .map(|_| array::from_fn(|_| WorkCells::default()))
                .collect(),
            unlabelled: Cell::default(),
            upstream_failures: cells(),
            answers: cells(),
            sessions: SessionCells::new(),
        });
        Self {
            apps: apps.collect(),
            bad_requests: cells(),
            turned_away: cells(),
            malformed: cells(),
            endings: cells(),
            rates: plan
                .rates
                .limits
                .iter()
                .map(|_| RateCells::default())
                .collect(),
        }
    }

    /// A request for an application has arrived.
    pub fn arrived(&self, app: usize, class: Class, labelled: bool) {
        self.class(app, class).arrivals.add(1);
        if !labelled {
            self.apps[app].unlabelled.add(1);
        }
    }

    /// It holds a slot; `waited` is `None` when it got it at once.
    pub fn admitted(&self, app: usize, class: Class, waited: Option<Duration>) {
        let cells = self.class(app, class);
        match waited {
            None => cells.admitted_at_once.add(1),
            Some(_) => cells.admitted_waited.add(1),
        }
        cells.queue_wait.observe(waited.unwrap_or_default());
    }

    /// It was answered by Tidegate itself.
    pub fn refused(&self, app: usize, class: Class, refusal: Refusal) {
        self.class(app, class).refused[refusal.index()].add(1);
    }

    /// What enforcing would have done with it.
    pub fn shadow(&self, app: usize, class: Class, verdict: Verdict) {
        let cells = self.class(app, class);
        match verdict {
            Verdict::Admit => cells.shadow_admit.add(1),
            Verdict::Wait => cells.shadow_wait.add(1),
            Verdict::Refuse(reason) => cells.shadow_refuse[Refusal::from(reason).index()].add(1),
        }
    }

    /// Its slot has ended after `slot_time`.
    pub fn completed(
        &self,
        app: usize,
        route: usize,
        class: Class,
        completion: Completion,
        slot_time: Duration,
    ) {
        let work = &self.apps[app].routes[route][class.index()];
        work.completions[completion.index()].add(1);
        work.slot_nanos[completion.index()].add(nanos(slot_time));
        self.class(app, class).service.observe(slot_time);
    }

    /// The application, or the way to it, failed.
    pub fn upstream_failed(&self, app: usize, failure: UpstreamFailure) {
        self.apps[app].upstream_failures[failure.index()].add(1);
    }

    /// A request was refused for its framing, before it belonged to an application.
    pub fn bad_request(&self, fault: FramingFault) {
        self.bad_requests[fault.index()].add(1);
    }

    /// A request was refused before it belonged to an application, for another reason.
    pub fn turned_away(&self, refusal: Refusal) {
        self.turned_away[refusal.index()].add(1);
    }

    /// A header of a request was ignored because it makes no sense.
    pub fn malformed(&self, header: Malformed) {
        self.malformed[header.index()].add(1);
    }

    /// A request for an application was answered, by whomever.
    pub fn answered(&self, app: usize, status: StatusCode) {
        let digit = usize::from(status.as_u16() / 100).clamp(1, 5);
        self.apps[app].answers[digit - 1].add(1);
    }

    /// A request was spent for from this limit.
    pub(crate) fn rate_passed(&self, limit: u16) {
        self.rates[usize::from(limit)].passed.add(1);
    }

    /// The limit refused a request.
    pub(crate) fn rate_refused(&self, limit: u16) {
        self.rates[usize::from(limit)].refused.add(1);
    }

    /// In the shadow, the limit would have refused a request.
    pub(crate) fn rate_shadow_refused(&self, limit: u16) {
        self.rates[usize::from(limit)].shadow_refused.add(1);
    }

    /// What a request had spent of the limit was given back.
    pub(crate) fn rate_given_back(&self, limit: u16) {
        self.rates[usize::from(limit)].given_back.add(1);
    }

    /// What became of a request's session.
    pub(crate) fn session(&self, app: usize, outcome: Outcome) {
        self.apps[app].sessions.outcomes[outcome.index()].add(1);
    }

    /// It took so long to find out.
    pub(crate) fn session_asked(&self, app: usize, span: Duration) {
        self.apps[app].sessions.asked.observe(span);
    }

    /// So many cookies of a request were of no use.
    pub(crate) fn bad_cookie(&self, app: usize, bad: BadCookie, count: u64) {
        self.apps[app].sessions.bad_cookies[bad.index()].add(count);
    }

    /// So many attributes did not fit into the headers for the application.
    pub(crate) fn session_omitted(&self, app: usize, count: u64) {
        self.apps[app].sessions.omitted.add(count);
    }

    /// Something was done to a session.
    pub(crate) fn session_done(&self, app: usize, done: Done) {
        self.apps[app].sessions.done[done.index()].add(1);
    }

    /// So many things were not done to a session.
    pub(crate) fn session_dropped(&self, app: usize, why: Dropped, count: u64) {
        self.apps[app].sessions.dropped[why.index()].add(count);
    }

    /// A cookie goes out with an answer.
    pub(crate) fn session_cookie(&self, app: usize, cookie: CookieSet) {
        self.apps[app].sessions.cookies[cookie.index()].add(1);
    }

    /// A client connection has ended.
    pub fn connection_ended(&self, ending: Ending) {
        self.endings[ending.index()].add(1);
    }

    fn class(&self, app: usize, class: Class) -> &ClassCells {
        &self.apps[app].classes[class.index()]
    }
}

impl ClassCells {
    fn new() -> Self {
        Self {
            arrivals: Cell::default(),
            admitted_at_once: Cell::default(),
            admitted_waited: Cell::default(),
            refused: cells(),
            shadow_admit: Cell::default(),
            shadow_wait: Cell::default(),
            shadow_refuse: cells(),
            queue_wait: Histogram::default(),
            service: Histogram::default(),
        }
    }
}

impl SessionCells {
    fn new() -> Self {
        Self {
            outcomes: cells(),
            bad_cookies: cells(),
            cookies: cells(),
            done: cells(),
            dropped: cells(),
            omitted: Cell::default(),
            asked: Histogram::default(),
        }
    }
}

impl Cell {
    pub(crate) fn add(&self, count: u64) {
        let value = self.0.load(Ordering::Relaxed).wrapping_add(count);
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The sum over all threads of the counter that `of` picks.
pub(crate) fn total(threads: &[Arc<Thread>], of: impl Fn(&Recorder) -> &Cell) -> u64 {
    threads
        .iter()
        .map(|thread| of(&thread.recorder).value())
        .sum()
}

fn cells<const N: usize>() -> [Cell; N] {
    array::from_fn(|_| Cell::default())
}
