//! The way out of overload that feeds itself.
//!
//! A bounded queue recovers by itself, as long as it is the only one. Behind a queue inside the
//! application, or under clients who come back at once, work can go on being done for callers who
//! have left long after what began it is over. What gives that away is the part of the finished
//! work that was in time: near 1 under any healthy overload, below a half in a state like this.
//!
//! ```text
//!            2 windows below 1/2, or 1 after a stall          a cohort in which hardly anything
//! [normal] ------------------------------------------> [escaping] ---------------------> [draining]
//!     ^     3 windows above 0.9, or it takes too long      |  ^    is in time and all takes    |
//!     +----------------------------------------------------+  |    several times the usual     |
//!                                                             +--------------------------------+
//!                                                               one alone is quick, or time is up
//! ```
//!
//! *Escaping*: fewer are let in than the last time that all was well, and then a quarter more after
//! each cohort that was in time; the newest first, those who come back and the lowest classes not at
//! all. *Draining*: one at a time, so that a queue which is not ours runs empty; once per escape.
//! What has turned out to be enough is kept afterwards and widened slowly: a limit that is far too
//! large would lead straight back.
//!
//! Only counting is done here. Who leaves the queue is [`Admission`](super::Admission)'s affair.

use std::time::Duration;

use super::types::{Recovery, Trigger};
use crate::facts::Class;
use crate::time::Mono;

/// The shortest time over which the part in time is judged.
const WINDOW: Duration = Duration::from_secs(1);

/// Judged over at least as many finished requests; a window is as long as it takes.
const WORK_MIN: u32 = 8;

/// Below this part in time a window is bad.
const BAD: f64 = 0.5;

/// Above this part in time a window, or a cohort, is good.
const GOOD: f64 = 0.9;

/// Bad windows in a row that begin an escape.
const BAD_WINDOWS: u8 = 2;

/// Good windows in a row that end it.
const GOOD_WINDOWS: u8 = 3;

/// Nothing finished for as long, while all slots were taken: a stall. A collector's pause is over
/// before that, and what it left behind is gone at once.
const STALL_MIN: Duration = Duration::from_secs(1);

/// A stall is also as many times longer than work usually takes.
const STALL_TIMES: u32 = 10;

/// An escape that has not helped by then will not; the cause is another one.
const ESCAPE_MAX: Duration = Duration::from_secs(30);

/// And it is not tried again for as long.
const REST: Duration = Duration::from_secs(60);

/// The part of the last good limit with which an escape begins.
const CAP_FIRST: f64 = 0.7;

/// What a good cohort makes of the cap.
const CAP_RAISE: f64 = 1.25;

/// What a bad cohort makes of it.
const CAP_CUT: f64 = 0.7;

/// Below this part in time, next to nothing is lost by draining.
const HOPELESS: f64 = 0.1;

/// A latency is hidden waiting when it is as many times the usual one.
const HIDDEN_TIMES: u32 = 4;

/// The queue behind us is gone when one alone takes at most as many times the usual.
const DRAINED_TIMES: u32 = 2;

/// As many alone that came to their end and were not quick: it is slowness, not a queue.
const SLOW_ALONE_MAX: u8 = 2;

/// The longest time for which one at a time is let in.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// Slots for what the application is known to finish, with some in hand.
const SPARE: f64 = 1.2;

/// How much the newest good window counts in what is usual.
const USUAL_WEIGHT: f64 = 0.3;

/// The same for a time that is longer than usual: a queue grows into any average that lets it.
const USUAL_WEIGHT_LONGER: f64 = 0.01;

/// What a good window without a free slot makes of a cap that an escape has left.
const KEPT_RAISE: f64 = 1.02;

/// The state machine; see the module.
#[derive(Debug)]
pub(super) struct Escape {
    phase: Phase,
    window: Window,
    usual: Option<Usual>,
    /// Since when nothing has finished while something is inside.
    quiet_since: Mono,
    /// Whether somebody found no slot since then.
    full_since: bool,
    recovery: Recovery,
}

#[derive(Debug)]
enum Phase {
    Normal {
        /// Bad windows in a row; a stall counts as one.
        bad: u8,
        trigger: Trigger,
        /// No escape before that.
        rested: Mono,
        /// What the last escape has found to be enough.
        kept: Option<f64>,
    },
    Escaping(Escaping),
}

#[derive(Debug)]
struct Escaping {
    since: Mono,
    until: Mono,
    good: u8,
    /// Whether the last window was not bad.
    helps: bool,
    cap: f64,
    /// Requests that started after the last change of the cap.
    cohort: Tally,
    drain: Drain,
}

#[derive(Debug)]
enum Drain {
    NotYet,
    Now {
        until: Mono,
        slow_alone: u8,
        /// What finished before it, in time or not.
        per_second: f64,
    },
    Over,
}

#[derive(Debug)]
struct Window {
    opened: Mono,
    tally: Tally,
    /// Everything that finished, whenever it started.
    finished: u32,
    /// Whether somebody found no slot.
    full: bool,
    /// Whether anything above the lowest classes asked: now, and in the window before.
    higher: [bool; 2],
}

/// Finished requests.
#[derive(Debug)]
struct Tally {
    /// Only what started then or later counts.
    since: Mono,
    in_time: u32,
    late: u32,
    took: Duration,
}

/// How it is when all is well.
#[derive(Clone, Copy, Debug)]
struct Usual {
    limit: f64,
    took: Duration,
}

/// One finished request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) started: Mono,
    /// Whether its caller was still there and its deadline not past.
    pub(super) in_time: bool,
    /// Whether it came to its end, instead of being given up.
    pub(super) whole: bool,
}

/// What has just changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Begun,
    Over,
}

impl Escape {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Normal {
                bad: 0,
                trigger: Trigger::Waste,
                rested: Mono::default(),
                kept: None,
            },
            window: Window {
                opened: Mono::default(),
                tally: Tally::since(Mono::default()),
                finished: 0,
                full: false,
                higher: [false; 2],
            },
            usual: None,
            quiet_since: Mono::default(),
            full_since: false,
            recovery: Recovery::default(),
        }
    }

    /// A request of `class` asks.
    pub(super) fn asked(&mut self, class: Class) {
        self.window.higher[0] |= !is_low(class);
    }

    /// A request found no slot.
    pub(super) const fn full(&mut self) {
        self.window.full = true;
        self.full_since = true;
    }

    /// A request has started, and `in_flight` are inside, itself included.
    pub(super) const fn started(&mut self, now: Mono, in_flight: u32) {
        if in_flight == 1 {
            self.quiet_since = now;
            self.full_since = false;
        }
    }

    /// A request has finished, or was given up.
    pub(super) fn finished(&mut self, now: Mono, work: Work) {
        let stalled = self.full_since && now.since(self.quiet_since) >= self.stall_min();
        self.quiet_since = now;
        self.full_since = false;
        self.window.finished = self.window.finished.saturating_add(1);
        match &mut self.phase {
            Phase::Normal { bad, trigger, .. } => {
                if stalled {
                    // What was begun before it and ends now says nothing; one window after it does.
                    *bad = BAD_WINDOWS - 1;
                    *trigger = Trigger::Stall;
                    self.window.open(now, now);
                }
                self.window.tally.add(now, work);
            }
            Phase::Escaping(escaping) => {
                let drained = escaping.is_draining();
                escaping.finished(now, work, self.usual, &mut self.recovery);
                match (drained, escaping.is_draining()) {
                    (_, true) => {}
                    (true, false) => self.window.open(now, now),
                    (false, false) => self.window.tally.add(now, work),
                }
            }
        }
    }

    /// To be called with every event. `limit` is what the limit itself allows.
    pub(super) fn review(&mut self, now: Mono, limit: u32) -> Option<Turn> {
        let ready = now >= self.window.opened + WINDOW && self.window.tally.count() >= WORK_MIN;
        let escaping = match &mut self.phase {
            Phase::Normal { kept, .. } => {
                *kept = kept.filter(|&cap| cap < f64::from(limit));
                return if ready {
                    self.judge_normal(now, limit)
                } else {
                    None
                };
            }
            Phase::Escaping(escaping) => escaping,
        };
        escaping.cap = escaping.cap.min(f64::from(limit) * CAP_RAISE);
        if escaping.gives_up_draining(now, limit, self.usual) {
            self.window.open(now, now);
        } else if ready && !escaping.is_draining() {
            let part = self.window.close(now);
            escaping.good = if part > GOOD { escaping.good + 1 } else { 0 };
            escaping.helps = part >= BAD;
        }
        let late = now >= escaping.until && !escaping.is_draining();
        let over = escaping.good >= GOOD_WINDOWS || late;
        let helped = escaping.helps;
        over.then(|| self.end(now, helped))
    }

    /// The most that may be inside, whatever the limit says.
    pub(super) fn cap(&self) -> u32 {
        match &self.phase {
            Phase::Normal { kept: None, .. } => u32::MAX,
            Phase::Normal {
                kept: Some(cap), ..
            } => (*cap as u32).max(1),
            Phase::Escaping(escaping) if escaping.is_draining() => 1,
            Phase::Escaping(escaping) => (escaping.cap as u32).max(1),
        }
    }

    /// Whether an escape is under way.
    pub(super) const fn is_on(&self) -> bool {
        matches!(self.phase, Phase::Escaping(_))
    }

    /// Whether requests of `class` are kept out: the lowest ones during an escape, as long as
    /// there are others.
    pub(super) fn keeps_out(&self, class: Class) -> bool {
        self.is_on() && is_low(class) && self.window.higher.contains(&true)
    }

    /// How long a request takes when all is well.
    pub(super) fn usual_time(&self) -> Option<Duration> {
        self.usual.map(|usual| usual.took)
    }

    /// So many left the queue at the beginning of an escape.
    pub(super) const fn flushed(&mut self, requests: u64) {
        self.recovery.flushed += requests;
    }

    /// The figures for metrics and status.
    pub(super) fn recovery(&self, now: Mono) -> Recovery {
        let mut recovery = self.recovery;
        if let Phase::Escaping(escaping) = &self.phase {
            recovery.lasted += now.since(escaping.since);
        }
        recovery
    }

    fn stall_min(&self) -> Duration {
        let usual = self.usual.map_or(Duration::ZERO, |usual| usual.took);
        STALL_MIN.max(usual.saturating_mul(STALL_TIMES))
    }

    fn judge_normal(&mut self, now: Mono, limit: u32) -> Option<Turn> {
        let Phase::Normal {
            bad,
            trigger,
            rested,
            kept,
        } = &mut self.phase
        else {
            return None;
        };
        let (full, took) = (self.window.full, self.window.tally.mean());
        let per_second = self.window.per_second(now);
        let part = self.window.close(now);
        let limit = kept.map_or(f64::from(limit), |cap| cap.min(f64::from(limit)));
        // Where it takes several times as long as usual the queue is behind us, and slots that clients
        // leave behind may be free all the time.
        let pressed = full
            || self
                .usual
                .is_some_and(|usual| took >= usual.took * HIDDEN_TIMES);
        if part > GOOD {
            self.usual = Some(Usual::after(self.usual, limit, took));
            let raise = if full { KEPT_RAISE } else { CAP_RAISE };
            *kept = kept.map(|cap| (cap * raise).max(cap + 1.0));
        }
        if part >= BAD || !pressed {
            *bad = 0;
            *trigger = Trigger::Waste;
            return None;
        }
        if let (Some(cap), 0) = (kept.as_mut(), *bad) {
            *cap = (*cap * CAP_CUT).max(1.0);
        }
        *bad = (*bad + 1).min(BAD_WINDOWS);
        if *bad < BAD_WINDOWS || now < *rested {
            return None;
        }
        let trigger = *trigger;
        self.recovery.escaping = Some(trigger);
        self.recovery.begun[trigger.index()] += 1;
        self.phase = Phase::Escaping(Escaping {
            since: now,
            until: now + ESCAPE_MAX,
            good: 0,
            helps: false,
            cap: self.first_cap(limit, took, per_second),
            cohort: Tally::since(now),
            drain: Drain::NotYet,
        });
        Some(Turn::Begun)
    }

    /// Below the last good limit; and where work takes several times as long as usual, with what is
    /// finished all the same, no more than that takes usually (Little's law).
    fn first_cap(&self, limit: f64, took: Duration, per_second: f64) -> f64 {
        let Some(usual) = self.usual else {
            return limit * CAP_FIRST;
        };
        let most = usual.limit.min(limit) * CAP_FIRST;
        if took < usual.took * HIDDEN_TIMES {
            return most;
        }
        most.min((per_second * usual.took.as_secs_f64() * SPARE).max(1.0))
    }

    fn end(&mut self, now: Mono, helped: bool) -> Turn {
        let mut kept = None;
        if let Phase::Escaping(escaping) = &self.phase {
            self.recovery.lasted += now.since(escaping.since);
            kept = Some(escaping.cap);
        }
        self.recovery.escaping = None;
        self.phase = Phase::Normal {
            bad: 0,
            trigger: Trigger::Waste,
            rested: if helped { now } else { now + REST },
            kept: kept.filter(|_| helped),
        };
        Turn::Over
    }
}

impl Escaping {
    const fn is_draining(&self) -> bool {
        matches!(self.drain, Drain::Now { .. })
    }

    fn finished(&mut self, now: Mono, work: Work, usual: Option<Usual>, recovery: &mut Recovery) {
        let took = now.since(work.started);
        self.cohort.add(now, work);
        if let Drain::Now {
            slow_alone,
            per_second,
            ..
        } = &mut self.drain
        {
            // Of those that started since, each was alone.
            if work.started < self.cohort.since || !work.whole {
                return;
            }
            let quick = usual.is_some_and(|usual| took <= usual.took * DRAINED_TIMES);
            if quick {
                let enough = *per_second * took.as_secs_f64() * SPARE;
                let most = usual.map_or(1.0, |usual| usual.limit * CAP_FIRST).max(1.0);
                self.go_on(now, enough.clamp(1.0, most));
            } else {
                *slow_alone += 1;
            }
            return;
        }
        if self.cohort.count() < WORK_MIN.max(self.cap as u32) {
            return;
        }

        let part = self.cohort.part_in_time();
        let hidden = usual.is_some_and(|usual| self.cohort.mean() >= usual.took * HIDDEN_TIMES);
        if part < HOPELESS && hidden && matches!(self.drain, Drain::NotYet) {
            let span = now.since(self.cohort.since).as_secs_f64();
            self.drain = Drain::Now {
                until: now + DRAIN_MAX,
                slow_alone: 0,
                per_second: f64::from(self.cohort.count()) / span,
            };
            recovery.drains += 1;
        } else if part > GOOD {
            self.cap = (self.cap * CAP_RAISE).max(self.cap + 1.0);
        } else if part < BAD || hidden {
            self.cap = (self.cap * CAP_CUT).max(1.0);
        }
        self.cohort = Tally::since(now);
    }

    /// Whether draining has just ended without anything having become quick.
    fn gives_up_draining(&mut self, now: Mono, limit: u32, usual: Option<Usual>) -> bool {
        let Drain::Now {
            until, slow_alone, ..
        } = self.drain
        else {
            return false;
        };
        let over = now >= until || slow_alone >= SLOW_ALONE_MAX;
        if over {
            let last_good = usual.map_or_else(|| f64::from(limit), |usual| usual.limit);
            self.go_on(now, last_good * CAP_FIRST);
        }
        over
    }

    fn go_on(&mut self, now: Mono, cap: f64) {
        self.cap = cap;
        self.cohort = Tally::since(now);
        self.drain = Drain::Over;
        self.until = now + ESCAPE_MAX;
    }
}

impl Window {
    /// Begins anew at `now` with the work that started at `since` or later.
    const fn open(&mut self, now: Mono, since: Mono) {
        self.opened = now;
        self.tally = Tally::since(since);
        self.finished = 0;
        self.full = false;
    }

    fn per_second(&self, now: Mono) -> f64 {
        f64::from(self.finished) / now.since(self.opened).as_secs_f64()
    }

    /// The part in time, as this window ends and the next one begins.
    const fn close(&mut self, now: Mono) -> f64 {
        let part = self.tally.part_in_time();
        self.higher = [false, self.higher[0]];
        self.open(now, Mono::from_nanos(0));
        part
    }
}

impl Tally {
    const fn since(since: Mono) -> Self {
        Self {
            since,
            in_time: 0,
            late: 0,
            took: Duration::ZERO,
        }
    }

    fn add(&mut self, now: Mono, work: Work) {
        if work.started < self.since {
            return;
        }
        let counter = if work.in_time {
            &mut self.in_time
        } else {
            &mut self.late
        };
        *counter = counter.saturating_add(1);
        self.took = self.took.saturating_add(now.since(work.started));
    }

    const fn count(&self) -> u32 {
        self.in_time.saturating_add(self.late)
    }

    /// 1 when nothing has finished.
    const fn part_in_time(&self) -> f64 {
        match self.count() {
            0 => 1.0,
            count => self.in_time as f64 / count as f64,
        }
    }

    fn mean(&self) -> Duration {
        self.took / self.count().max(1)
    }
}

impl Usual {
    fn after(before: Option<Self>, limit: f64, took: Duration) -> Self {
        before.map_or(Self { limit, took }, |before| {
            let weight = if took > before.took {
                USUAL_WEIGHT_LONGER
            } else {
                USUAL_WEIGHT
            };
            Self {
                limit: before.limit + (limit - before.limit) * USUAL_WEIGHT,
                took: before.took.mul_f64(1.0 - weight) + took.mul_f64(weight),
            }
        })
    }
}

/// What is left out first: it can be had from a cache, or later.
const fn is_low(class: Class) -> bool {
    matches!(class, Class::Static | Class::Background)
}

#[cfg(test)]
mod tests;
