//! The application: it works on what it is offered and knows nothing of who asked.
//!
//! A state machine in virtual time. Its own clock stands still while a stall lasts, so that work
//! in progress is late by as long as the stall took. Everything random is drawn when work on a job
//! begins, from the backend's own generator.

mod agenda;
mod cache;
mod faults;
mod quota;
mod service;
mod sharing;
mod slots;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

use crate::scenario::{App, Fault, Style};

use cache::Cache;
use faults::{Edge, Faults};
use quota::Quota;
use service::Times;
use sharing::Sharing;
use slots::Slots;

/// A request as the application knows it: whatever number its sender gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Job(pub u32);

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Which.
    pub job: Job,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it was worked on, standstills included.
    pub took: Duration,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Worked on and answered.
    Answered,
    /// Failed before any work was done.
    FailedFast,
    /// Not taken: no room inside, or the second's quota is used up.
    Refused,
}

/// The application.
#[derive(Debug)]
pub struct Backend {
    pool: Pool,
    load: Load,
    faults: Faults,
    clock: Clock,
}

/// Work in progress, and what may come after it.
#[derive(Debug)]
enum Pool {
    Slots(Slots),
    Sharing(Sharing),
    Quota(Quota),
}

/// The application's own clock, which stalls stop.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// How long it has stood still so far, the present standstill not counted.
    behind: Duration,
    /// Since when it has been standing still.
    stopped: Option<Mono>,
}

/// What a job is worth in work.
#[derive(Debug)]
struct Load {
    routes: Vec<Times>,
    cache: Option<Cache>,
    rng: Rng,
}

/// The work on one job, drawn when it begins.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// Time it takes on a worker or core of its own.
    time: Duration,
    outcome: Outcome,
    /// The cache entry that is there when the work is done.
    fills: Option<u32>,
}

/// A job inside: one of ours, or one of the backlog nobody here has sent.
#[derive(Clone, Copy, Debug)]
struct Entry {
    job: Option<Job>,
    route: u32,
}

/// Work that is done.
#[derive(Clone, Copy, Debug)]
struct Done {
    entry: Entry,
    work: Work,
    /// On the real clock.
    began: Mono,
}

impl Backend {
    /// An idle application at time 0 with a warm cache. What `app` and `faults` name must exist.
    pub fn new(app: &App, faults: &[Fault], seed: u64) -> Self {
        let pool = match app.style {
            Style::Slots { slots } => Pool::Slots(Slots::new(slots, app.backlog_max)),
            Style::Sharing { cores } => Pool::Sharing(Sharing::new(cores)),
            Style::Quota { per_second } => Pool::Quota(Quota::new(per_second)),
        };
        Self {
            pool,
            load: Load {
                routes: app
                    .routes
                    .iter()
                    .map(|route| Times::new(&route.service))
                    .collect(),
                cache: app.cache.as_ref().map(Cache::new),
                rng: Rng::new(seed),
            },
            faults: Faults::new(app, faults),
            clock: Clock::default(),
        }
    }

    /// Hands in `job` for the route at place `route`. What is decided at once is added to `out`.
    ///
    /// [`Backend::advance`] has been called for everything before `now`.
    pub fn offer(&mut self, now: Mono, job: Job, route: usize, out: &mut Vec<Finished>) {
        let entry = Entry {
            job: Some(job),
            route: route as u32,
        };
        let app_now = self.clock.read(now);
        let taken = match &mut self.pool {
            Pool::Slots(slots) => slots.offer(entry),
            Pool::Sharing(sharing) => {
                let work = self.load.draw(entry, &self.faults);
                sharing.begin(app_now, now, entry, work);
                true
            }
            Pool::Quota(quota) => {
                let fails = self.faults.fail_fast(&mut self.load.rng);
                let outcome = if let Some((outcome, _)) = fails {
                    outcome
                } else if quota.take(now) {
                    Outcome::Answered
                } else {
                    Outcome::Refused
                };
                out.push(Finished {
                    job,
                    outcome,
                    took: Duration::ZERO,
                });
                return;
            }
        };
        if !taken {
            out.push(Finished {
                job,
                outcome: Outcome::Refused,
                took: Duration::ZERO,
            });
        }
        self.start(now);
    }

    /// When something happens next without anybody asking: work is done, or a fault begins or
    /// ends.
    pub fn next_event(&self) -> Option<Mono> {
        let edge = self.faults.next_edge();
        let done = self.next_done();
        match (edge, done) {
            (Some(edge), Some(done)) => Some(edge.min(done)),
            (edge, done) => edge.or(done),
        }
    }

    /// Lets time pass up to and including `now`; what is finished by then is added to `out`.
    pub fn advance(&mut self, now: Mono, out: &mut Vec<Finished>) {
        loop {
            let edge = self.faults.next_edge().filter(|&at| at <= now);
            let done = self.next_done().filter(|&at| at <= now);
            // What is done at the moment a fault begins was done before it.
            match (edge, done) {
                (Some(edge), done) if done.is_none_or(|done| edge < done) => self.pass(edge),
                (_, Some(done)) => self.complete(done, out),
                _ => break,
            }
        }
    }

    /// Jobs inside that nobody is working on yet.
    pub fn waiting(&self) -> u32 {
        match &self.pool {
            Pool::Slots(slots) => slots.waiting(),
            Pool::Sharing(_) | Pool::Quota(_) => 0,
        }
    }

    /// Jobs being worked on.
    pub fn working(&self) -> u32 {
        match &self.pool {
            Pool::Slots(slots) => slots.working(),
            Pool::Sharing(sharing) => sharing.working(),
            Pool::Quota(_) => 0,
        }
    }

    fn next_done(&self) -> Option<Mono> {
        if self.clock.stopped.is_some() {
            return None;
        }
        let app_time = match &self.pool {
            Pool::Slots(slots) => slots.next_done(),
            Pool::Sharing(sharing) => sharing.next_done(),
            Pool::Quota(_) => None,
        };
        app_time.map(|at| at + self.clock.behind)
    }

    /// The first job is done at `now`: what it leaves is given to the next.
    fn complete(&mut self, now: Mono, out: &mut Vec<Finished>) {
        let app_now = self.clock.read(now);
        let done = match &mut self.pool {
            Pool::Slots(slots) => slots.complete(),
            Pool::Sharing(sharing) => sharing.complete(app_now),
            Pool::Quota(_) => None,
        };
        let Some(done) = done else {
            return;
        };
        if let (Some(entry), Some(cache)) = (done.work.fills, &mut self.load.cache) {
            cache.fill(entry);
        }
        if let Some(job) = done.entry.job {
            out.push(Finished {
                job,
                outcome: done.work.outcome,
                took: now.since(done.began),
            });
        }
        self.start(now);
    }

    /// A fault begins or ends at `now`.
    fn pass(&mut self, now: Mono) {
        let app_now = self.clock.read(now);
        match self.faults.pass() {
            Edge::Stop => self.clock.stop(now),
            Edge::Go { cold } => {
                self.clock.go(now);
                if let (true, Some(cache)) = (cold, &mut self.load.cache) {
                    cache.empty();
                }
            }
            Edge::Capacity(to) => match &mut self.pool {
                Pool::Slots(slots) => slots.resize(to),
                Pool::Sharing(sharing) => sharing.resize(app_now, to),
                Pool::Quota(quota) => quota.resize(to),
            },
            Edge::Backlog(jobs) => self.pile_up(app_now, now, jobs),
            Edge::Other => {}
        }
        self.start(now);
    }

    /// `jobs` that nobody here has sent appear; no bound holds for them.
    fn pile_up(&mut self, app_now: Mono, now: Mono, jobs: u32) {
        let entry = Entry {
            job: None,
            route: 0,
        };
        for _ in 0..jobs {
            match &mut self.pool {
                Pool::Slots(slots) => slots.push(entry),
                Pool::Sharing(sharing) => {
                    let work = self.load.draw(entry, &self.faults);
                    sharing.begin(app_now, now, entry, work);
                }
                Pool::Quota(_) => {}
            }
        }
    }

    /// Begins as much of what waits as there are free slots for.
    fn start(&mut self, now: Mono) {
        let app_now = self.clock.read(now);
        let Pool::Slots(slots) = &mut self.pool else {
            return;
        };
        while let Some(entry) = slots.next() {
            let work = self.load.draw(entry, &self.faults);
            slots.begin(app_now, now, entry, work);
        }
    }
}

impl Clock {
    fn read(&self, now: Mono) -> Mono {
        self.stopped.unwrap_or(now).minus(self.behind)
    }

    fn stop(&mut self, now: Mono) {
        self.stopped = self.stopped.or(Some(now));
    }

    fn go(&mut self, now: Mono) {
        if let Some(since) = self.stopped.take() {
            self.behind += now.since(since);
        }
    }
}

impl Load {
    fn draw(&mut self, entry: Entry, faults: &Faults) -> Work {
        let route = entry.route as usize;
        // Jobs of a foreign backlog are work by definition.
        let fails = entry.job.and_then(|_| faults.fail_fast(&mut self.rng));
        if let Some((outcome, takes)) = fails {
            return Work {
                time: takes,
                outcome,
                fills: None,
            };
        }
        let asked = self.cache.as_ref().map(|cache| cache.ask(&mut self.rng));
        let (time, fills) = match asked {
            Some(cache::Asked::Hit { takes }) => (takes, None),
            Some(cache::Asked::Miss { entry }) => (self.service(route, faults), Some(entry)),
            None => (self.service(route, faults), None),
        };
        Work {
            time,
            outcome: Outcome::Answered,
            fills,
        }
    }

    fn service(&mut self, route: usize, faults: &Faults) -> Duration {
        let time = self.routes[route].draw(&mut self.rng);
        match faults.slowness(route) {
            1.0 => time,
            factor => time.mul_f64(factor),
        }
    }
}
