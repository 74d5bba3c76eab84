//! The right to be inside an application, from admission until the application has finished.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tidegate_core::admission::Ticket;
use tidegate_core::facts::{Class, Facts};
use tidegate_core::limit::Ending;
use tidegate_core::time::Mono;

use crate::breaker::Call;
use crate::context::Thread;
use crate::dependency::fleet::Share;
use crate::metrics::Completion;
use crate::room::Using;
use crate::upstream::UpstreamFailure;

/// An error that comes faster than this says nothing about how long work takes: counted as a
/// latency, a failing application would look like a fast one.
const FAST_ERROR_MAX: Duration = Duration::from_millis(1);

/// One slot. Dropping it, for whatever reason, frees the slot, teaches the limit and counts the
/// completion: each exactly once.
pub struct Slot {
    thread: Arc<Thread>,
    app: usize,
    route: usize,
    class: Class,
    ticket: Ticket,
    started: Mono,
    /// When the application was given the request: that is when what the limit learns from begins.
    sent: Mono,
    deadline: Mono,
    first_byte: FirstByte,
    ending: Ending,
    caller: Caller,
    outcome: Outcome,
    /// Who wants to hear whether there was an answer, to its end.
    call: Option<Call>,
    /// What is held of dependencies meanwhile. It ends as this does.
    with: Vec<Self>,
    /// A permit of the fleet, which goes back with it. Most have none.
    share: Option<Box<Share>>,
    /// A request of the pass of whoever sent it, which counts as long. Only behind a waiting room.
    using: Option<Using>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstByte {
    NotYet,
    /// Seen, and the limit does not know yet: most answers end right away, and one visit will do.
    Seen(Mono),
    Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Waits,
    /// It was told that the answer takes too long.
    ToldOff,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It was given back before anything was sent.
    Unused,
    /// No answer was read to its end.
    Unfinished,
    /// The last byte of the answer was read, at this time.
    Answered(Mono),
    /// The application, or the way to it, failed.
    Failed,
}

impl Slot {
    /// The slot that `ticket` stands for, held since `started`.
    pub(crate) fn new(
        thread: &Arc<Thread>,
        app: usize,
        facts: &Facts,
        ticket: Ticket,
        started: Mono,
    ) -> Self {
        Self {
            thread: Arc::clone(thread),
            app,
            route: usize::from(facts.route.0),
            class: facts.class,
            ticket,
            started,
            sent: started,
            deadline: facts.deadline,
            first_byte: FirstByte::NotYet,
            // Nothing has been sent, so nothing is to be learnt.
            ending: Ending::Ignored,
            caller: Caller::Waits,
            outcome: Outcome::Unfinished,
            call: None,
            with: Vec::new(),
            share: None,
            using: None,
        }
    }

    /// The thread it is held on.
    pub fn thread(&self) -> &Arc<Thread> {
        &self.thread
    }

    /// Its application.
    pub fn app(&self) -> usize {
        self.app
    }

    /// When the request was ready to be sent.
    pub fn sent(&self) -> Mono {
        self.sent
    }

    /// Now the request, of this class after all, is ready to be sent.
    pub(crate) fn send(&mut self, now: Mono, class: Class) {
        self.sent = now;
        self.class = class;
    }

    /// Has `call`, if there is one, told whether there is an answer.
    pub(crate) fn tell(&mut self, call: Option<Call>) {
        self.call = call;
    }

    /// Holds `others` for as long as this is held.
    pub(crate) fn hold_with(&mut self, others: Vec<Self>) {
        self.with = others;
    }

    /// Holds a permit of the fleet for as long as this is held.
    pub(crate) fn hold_share(&mut self, share: Share) {
        self.share = Some(Box::new(share));
    }

    /// Counts as a request of a pass for as long as this is held: also when its client has left, and the application has
    /// not.
    pub(crate) fn hold_pass(&mut self, using: Using) {
        self.using = Some(using);
    }

    /// The fence of that permit.
    pub(crate) fn fence(&self) -> Option<u64> {
        self.share.as_deref().map(Share::fence)
    }

    /// Whether somebody else may have that permit by now.
    pub(crate) fn has_lost_share(&self) -> bool {
        self.share.as_ref().is_some_and(|share| !share.is_held())
    }

    /// Gives it back: nothing has been sent, and its request counts otherwise.
    pub(crate) fn give_back(mut self) {
        self.outcome = Outcome::Unused;
    }

    /// The head of the answer is here.
    pub fn first_byte(&mut self, now: Mono, status: StatusCode) {
        self.first_byte = FirstByte::Seen(now);
        if let Some(call) = self.call.take() {
            self.call = call.began(now, status);
        }
        let fast = now.since(self.sent) < FAST_ERROR_MAX;
        // 503 is an application's own word for too much work.
        self.ending = if self.caller == Caller::ToldOff || status == StatusCode::SERVICE_UNAVAILABLE
        {
            Ending::Overloaded
        } else if fast && status.is_server_error() {
            Ending::Ignored
        } else {
            Ending::Worked
        };
    }

    /// The answer takes longer than this moment: the limit hears of its first byte now.
    pub fn goes_on(&mut self) {
        if let FirstByte::Seen(at) = self.first_byte {
            let at = self.as_if_sent_at_once(at);
            self.thread.shared.apps[self.app]
                .gate
                .first_byte(at, self.ticket);
            self.first_byte = FirstByte::Told;
        }
    }

    /// More of the answer came, after a wait for it.
    pub(crate) fn came_on(&mut self) {
        if let Some(call) = &mut self.call {
            call.goes_on(Some(self.thread.shared.clock.now()));
        }
    }

    /// More of the answer came than its client takes for the time being.
    pub(crate) fn ran_ahead(&mut self) {
        if let Some(call) = &mut self.call {
            call.goes_on(None);
        }
    }

    /// The last byte of the answer has been read.
    pub fn answered(&mut self, now: Mono) {
        if let Some(call) = self.call.take() {
            call.answered(now);
        }
        self.outcome = Outcome::Answered(now);
    }

    /// The application, or the way to it, failed.
    pub fn failed(&mut self, failure: UpstreamFailure) {
        self.thread.recorder.upstream_failed(self.app, failure);
        if let Some(call) = self.call.take() {
            call.failed_by(failure);
        }
        self.outcome = Outcome::Failed;
    }

    /// The application took too long to begin and its caller was told so; the work goes on.
    pub fn told_off(&mut self) {
        self.thread
            .recorder
            .upstream_failed(self.app, UpstreamFailure::Timeout);
        self.not_answered();
        self.caller = Caller::ToldOff;
        self.ending = Ending::Overloaded;
        self.tell_abandoned();
    }

    /// The application did not begin to answer for as long as a slot is held for nobody.
    pub fn gave_up(&mut self) {
        self.not_answered();
        self.ending = Ending::Overloaded;
    }

    /// The caller has left; the work may go on.
    pub fn caller_gone(&mut self) {
        if self.caller == Caller::Waits {
            self.caller = Caller::Gone;
            self.tell_abandoned();
        }
    }

    fn not_answered(&mut self) {
        if let Some(call) = self.call.take() {
            call.failed();
        }
    }

    fn tell_abandoned(&self) {
        let shared = &self.thread.shared;
        let gate = &shared.apps[self.app].gate;
        gate.abandoned(shared.clock.now(), self.ticket);
    }

    /// A first byte at `at`, without what passed before the application was asked.
    fn as_if_sent_at_once(&self, at: Mono) -> Mono {
        at.minus(self.sent.since(self.started))
    }

    /// Ends as another one did.
    fn end_as(mut self, outcome: Outcome, caller: Caller) {
        self.outcome = outcome;
        self.caller = caller;
    }

    fn completion(&self, now: Mono) -> Option<Completion> {
        match (self.outcome, self.caller) {
            (_, Caller::ToldOff) => Some(Completion::Late),
            (Outcome::Failed | Outcome::Unused, _) => None,
            (Outcome::Unfinished, _) | (_, Caller::Gone) => Some(Completion::Gone),
            (Outcome::Answered(_), Caller::Waits) if now <= self.deadline => {
                Some(Completion::InTime)
            }
            (Outcome::Answered(_), Caller::Waits) => Some(Completion::Late),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let app = &self.thread.shared.apps[self.app];
        let now = match self.outcome {
            Outcome::Answered(at) => at,
            Outcome::Unused | Outcome::Unfinished | Outcome::Failed => {
                self.thread.shared.clock.now()
            }
        };
        let first_byte = match self.first_byte {
            FirstByte::Seen(at) => Some(self.as_if_sent_at_once(at)),
            FirstByte::NotYet | FirstByte::Told => None,
        };
        app.gate.done(now, self.ticket, first_byte, self.ending);
        for other in std::mem::take(&mut self.with) {
            other.end_as(self.outcome, self.caller);
        }
        if let Some(completion) = self.completion(now) {
            let slot_time = now.since(self.started);
            self.thread
                .recorder
                .completed(self.app, self.route, self.class, completion, slot_time);
        }
    }
}
