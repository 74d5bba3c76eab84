//! Who may enter an application: the core's decisions, and the wait for them.
//!
//! Every decision is taken under one short lock per application and carried out after it. A wait
//! and a slot are guards: whatever becomes of the request's future, what it took is given back.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::admission::{
    Action, Admission, Arrival, Level, Reason, Slowdown, Snapshot, Ticket, Verdict,
};
use tidegate_core::facts::Facts;
use tidegate_core::journal::{Event, Header, Outcome};
use tidegate_core::limit::{Change, Ending, Learnt};
use tidegate_core::time::Mono;
use tidegate_http::refusal::Refusal;
use tokio::time::Sleep;

use crate::context::{Clock, Thread};
use crate::journal::Journal;
use crate::plan::AppPlan;
use crate::slot::Slot;
use crate::warm;

/// The door of one application.
pub struct Gate {
    clock: Clock,
    state: Mutex<State>,
    journal: Option<Arc<Journal>>,
}

/// What became of a request at the door.
pub enum Entry {
    /// It holds a slot.
    Admitted(Slot),
    /// It waits for one.
    Waiting(Wait),
    /// No.
    Refused(Turned),
}

/// Why a request was turned away, and what that says about coming back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turned {
    /// Why.
    pub reason: Reason,
    /// How long it takes to work off what is queued.
    pub drain: Duration,
}

/// A request in the queue. Resolves to its slot or to why there is none; dropped before that, it
/// leaves the queue and counts as refused: for a client that has gone, unless something else is said.
pub struct Wait {
    thread: Arc<Thread>,
    app: usize,
    facts: Facts,
    ticket: Ticket,
    place: Arc<Place>,
    leave: Pin<Box<Sleep>>,
    over: bool,
    /// What it counts as when it is dropped before it is over.
    dropped_for: Refusal,
}

struct State {
    admission: Admission,
    /// What the whole fleet is to let in, where somebody says so. It stands before the admission.
    slowdown: Option<Slowdown>,
    /// What is noted of every decision, where that is asked for.
    journal: Option<Arc<Journal>>,
    /// Where to send the news of a ticket in the queue, by its index.
    places: Vec<Option<Arc<Place>>>,
    /// Reused by every call; empty between them.
    actions: Vec<Action>,
}

/// Where a waiting request hears how its wait ends. Has a lock of its own, which is only ever taken
/// after the gate's, so that looking for news does not hold up the door.
#[derive(Default)]
struct Place(Mutex<Letter>);

#[derive(Default)]
struct Letter {
    news: Option<News>,
    waker: Option<Waker>,
}

#[derive(Clone, Copy)]
enum News {
    Started { ticket: Ticket, waited: Duration },
    Evicted { reason: Reason, drain: Duration },
}

impl Gate {
    /// A gate with nobody inside.
    pub fn new(plan: &AppPlan, clock: Clock, seed: u64) -> Self {
        let header = Header {
            writer: concat!("tidegate ", env!("CARGO_PKG_VERSION")).to_owned(),
            app: plan.name.clone(),
            started: clock.wall(),
            config: plan.admission.clone(),
            limit: plan.limit,
            seed,
            learnt: warm::read(plan, clock.wall()),
        };
        let journal = plan.journal.as_ref();
        let journal = journal.map(|plan| Arc::new(Journal::start(plan, &header)));
        let state = State {
            admission: header.admission(),
            slowdown: None,
            journal: journal.clone(),
            places: Vec::new(),
            actions: Vec::new(),
        };
        Self {
            clock,
            state: Mutex::new(state),
            journal,
        }
    }

    /// Its decision log, if it has one.
    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.journal.as_deref()
    }

    /// Gauges for metrics and status.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().admission.snapshot()
    }

    /// Time in slots until now, added up over all who are or were inside.
    pub(crate) fn occupied(&self) -> Duration {
        let state = self.lock();
        // Read under the lock: nobody can enter at a later time than this.
        state.admission.occupied(self.clock.now())
    }

    /// What the limit of a later process may start from.
    pub(crate) fn learnt(&self) -> Option<Learnt> {
        self.lock().admission.learnt()
    }

    /// The last changes of the limit, the oldest first.
    pub fn limit_changes(&self) -> Vec<Change> {
        self.lock().admission.limit_changes()
    }

    /// Why a request like `facts` would be turned away now, whatever else becomes known of it.
    pub fn peek(&self, now: Mono, facts: Facts) -> Option<Turned> {
        let mut state = self.lock();
        let slowed = state.slowdown.as_mut();
        if slowed.is_some_and(|slowed| !slowed.peek(now, &facts)) {
            return Some(state.turned(Reason::Fleet));
        }
        let reason = state.admission.peek(now, &facts);
        state.note(now, Event::Peek(facts), Outcome::Peeked(reason));
        Some(state.turned(reason?))
    }

    /// A slot now, a wait, or a refusal, for a request to application `app` of `thread`.
    pub fn enter(thread: &Arc<Thread>, app: usize, now: Mono, facts: Facts) -> Entry {
        let gate = &thread.shared.apps[app].gate;
        let (entry, woken) = {
            let mut state = gate.lock();
            if !state.fleet_admits(now, &facts) {
                return Entry::Refused(state.turned(Reason::Fleet));
            }
            let State {
                admission, actions, ..
            } = &mut *state;
            let arrival = admission.arrive(now, &facts, actions);
            state.note(now, Event::Arrive(facts), Outcome::Arrived(arrival));
            if !matches!(arrival, Arrival::Refused(_))
                && let Some(slowdown) = &mut state.slowdown
            {
                slowdown.entered();
            }
            // Before the newcomer is seated: its ticket may have the index of one that was just
            // evicted for it, whose news is still to be delivered there.
            let woken = state.deliver();
            let entry = match arrival {
                Arrival::Admitted(ticket) => {
                    Entry::Admitted(Slot::new(thread, app, &facts, ticket, now))
                }
                Arrival::Refused(reason) => Entry::Refused(state.turned(reason)),
                Arrival::Queued { ticket, leave_at } => {
                    let place = Arc::new(Place::default());
                    state.seat(ticket, &place);
                    Entry::Waiting(Wait {
                        thread: Arc::clone(thread),
                        app,
                        facts,
                        ticket,
                        place,
                        leave: Box::pin(tokio::time::sleep_until(gate.clock.instant(leave_at))),
                        over: false,
                        dropped_for: Refusal::ClientGone,
                    })
                }
            };
            (entry, woken)
        };
        wake(woken);
        entry
    }

    /// `count` slots now, or none: whoever needs several does not wait for them. For doors without a decision log, which
    /// knows of no such thing.
    pub(crate) fn enter_all(
        thread: &Arc<Thread>,
        app: usize,
        now: Mono,
        facts: Facts,
        count: NonZeroU32,
    ) -> Result<Vec<Slot>, Turned> {
        let gate = &thread.shared.apps[app].gate;
        debug_assert!(
            gate.journal.is_none(),
            "its decisions would not be written down"
        );
        let (taken, woken) = {
            let mut state = gate.lock();
            let taken = state.take_all(now, &facts, count);
            (taken, state.deliver())
        };
        wake(woken);
        let slot = |ticket| Slot::new(thread, app, &facts, ticket, now);
        taken.map(|tickets| tickets.into_iter().map(slot).collect())
    }

    /// A slot in any case, and what enforcing would have done.
    pub fn enter_shadow(
        thread: &Arc<Thread>,
        app: usize,
        now: Mono,
        facts: Facts,
    ) -> (Slot, Verdict) {
        let gate = &thread.shared.apps[app].gate;
        let (ticket, verdict) = {
            let mut state = gate.lock();
            let slowed = !state.fleet_admits(now, &facts);
            let (ticket, verdict) = state.admission.arrive_shadow(now, &facts);
            let outcome = Outcome::Shadowed(ticket, verdict);
            state.note(now, Event::ArriveShadow(facts), outcome);
            if slowed {
                (ticket, Verdict::Refuse(Reason::Fleet))
            } else {
                if let Some(slowdown) = &mut state.slowdown {
                    slowdown.entered();
                }
                (ticket, verdict)
            }
        };
        (Slot::new(thread, app, &facts, ticket, now), verdict)
    }

    /// The whole fleet is to let in such a `share` of the usual, 0 to 1, for `lease` unless it is said again.
    pub(crate) fn slow(&self, share: f64, lease: Duration) {
        let now = self.clock.now();
        let mut state = self.lock();
        let slowdown = (state.slowdown).get_or_insert_with(|| Slowdown::new(now));
        slowdown.told(now, share, lease);
    }

    /// No more than `most` may be inside for `lease`; those who wait may start. For doors without a decision log, which
    /// knows of no such thing.
    pub(crate) fn cap(&self, most: u32, lease: Duration) {
        debug_assert!(
            self.journal.is_none(),
            "its decisions would not come out again"
        );
        let woken = {
            let mut state = self.lock();
            let State {
                admission, actions, ..
            } = &mut *state;
            let now = self.clock.now();
            admission.cap(now, most, now + lease, actions);
            state.deliver()
        };
        wake(woken);
    }

    /// The share of the usual that is let in because of that, and who it is; `None` where nobody has ever said so.
    pub(crate) fn slowed(&self) -> Option<(f64, Level)> {
        let now = self.clock.now();
        let mut state = self.lock();
        let slowdown = state.slowdown.as_mut()?;
        slowdown.review(now);
        Some((slowdown.share(), slowdown.level()))
    }

    /// The first byte of an answer is here.
    pub(crate) fn first_byte(&self, at: Mono, ticket: Ticket) {
        self.lock().first_byte(at, ticket);
    }

    /// Nobody waits for an answer any more.
    pub(crate) fn abandoned(&self, now: Mono, ticket: Ticket) {
        let mut state = self.lock();
        state.admission.abandoned(now, ticket);
        state.note(now, Event::Abandoned(ticket), Outcome::Nothing);
    }

    /// A slot is free again; its answer began at `first_byte`, if that has not been said before.
    pub(crate) fn done(&self, now: Mono, ticket: Ticket, first_byte: Option<Mono>, ending: Ending) {
        let woken = {
            let mut state = self.lock();
            if let Some(at) = first_byte {
                state.first_byte(at, ticket);
            }
            let State {
                admission, actions, ..
            } = &mut *state;
            admission.done(now, ticket, ending, actions);
            state.note(now, Event::Done(ticket, ending), Outcome::Nothing);
            state.deliver()
        };
        wake(woken);
    }

    /// Lets those leave who have waited too long.
    fn poll(&self) {
        let woken = {
            let mut state = self.lock();
            let State {
                admission, actions, ..
            } = &mut *state;
            let now = self.clock.now();
            admission.poll(now, actions);
            state.note(now, Event::Poll, Outcome::Nothing);
            state.deliver()
        };
        wake(woken);
    }

    /// A waiting request leaves; nothing happens when it is not in the queue any more.
    fn cancel(&self, ticket: Ticket) {
        let woken = {
            let mut state = self.lock();
            let State {
                admission, actions, ..
            } = &mut *state;
            let now = self.clock.now();
            let waited = admission.cancel(now, ticket, actions);
            state.note(now, Event::Cancel(ticket), Outcome::Left(waited));
            if waited.is_some() {
                state.places[ticket.index()] = None;
            }
            state.deliver()
        };
        wake(woken);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic inside is a defect in the core; going on is better than turning everybody away.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the whole fleet lets in such a request.
    fn fleet_admits(&mut self, now: Mono, facts: &Facts) -> bool {
        let slowdown = self.slowdown.as_mut();
        slowdown.is_none_or(|slowdown| slowdown.admits(now, facts))
    }

    /// A refusal for `reason`.
    fn turned(&self, reason: Reason) -> Turned {
        Turned {
            reason,
            drain: self.admission.drain(),
        }
    }

    /// Writes down a decision. `actions` are those of its call alone.
    fn note(&self, now: Mono, event: Event, outcome: Outcome) {
        if let Some(journal) = &self.journal {
            let limit = self.admission.limit();
            journal.record(now, &event, &outcome, &self.actions, limit);
        }
    }

    /// `count` slots, or none.
    fn take_all(
        &mut self,
        now: Mono,
        facts: &Facts,
        count: NonZeroU32,
    ) -> Result<Vec<Ticket>, Turned> {
        let Self {
            admission, actions, ..
        } = self;
        let snapshot = admission.snapshot();
        let free = snapshot.limit.saturating_sub(snapshot.in_flight);
        let mut tickets = Vec::new();
        let mut refused = (free < count.get()).then_some(Reason::QueueFull);
        while refused.is_none() && tickets.len() < count.get() as usize {
            match admission.arrive(now, facts, actions) {
                Arrival::Admitted(ticket) => tickets.push(ticket),
                Arrival::Refused(reason) => refused = Some(reason),
                Arrival::Queued { ticket, .. } => {
                    admission.cancel(now, ticket, actions);
                    refused = Some(Reason::QueueFull);
                }
            }
        }
        let Some(reason) = refused else {
            return Ok(tickets);
        };
        for ticket in tickets {
            admission.done(now, ticket, Ending::Ignored, actions);
        }
        Err(Turned {
            reason,
            drain: admission.drain(),
        })
    }

    fn first_byte(&mut self, at: Mono, ticket: Ticket) {
        self.admission.first_byte(at, ticket);
        self.note(at, Event::FirstByte(ticket), Outcome::Nothing);
    }

    fn seat(&mut self, ticket: Ticket, place: &Arc<Place>) {
        let index = ticket.index();
        if self.places.len() <= index {
            self.places.resize(index + 1, None);
        }
        self.places[index] = Some(Arc::clone(place));
    }

    /// Tells those concerned what was decided. They are to be woken once the lock is free.
    #[must_use]
    fn deliver(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        if self.actions.is_empty() {
            return woken;
        }
        let drain = self.admission.drain();
        for action in self.actions.drain(..) {
            let (index, news) = match action {
                Action::Start { ticket, waited } => {
                    (ticket.index(), News::Started { ticket, waited })
                }
                Action::Evict { ticket, reason, .. } => {
                    (ticket.index(), News::Evicted { reason, drain })
                }
            };
            let place = self.places.get_mut(index).and_then(Option::take);
            let place = place.expect("whoever is queued has a place for its news");
            let mut letter = place.lock();
            letter.news = Some(news);
            woken.extend(letter.waker.take());
        }
        woken
    }
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Letter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wait {
    /// Leaves the queue, counted as `refusal`.
    pub(crate) fn leave_for(mut self, refusal: Refusal) {
        self.dropped_for = refusal;
    }

    fn gate(&self) -> &Gate {
        &self.thread.shared.apps[self.app].gate
    }

    fn news(&self, context: &Context<'_>) -> Option<News> {
        let mut letter = self.place.lock();
        if letter.news.is_none() {
            match &mut letter.waker {
                Some(waker) => waker.clone_from(context.waker()),
                empty => *empty = Some(context.waker().clone()),
            }
        }
        letter.news
    }

    fn slot(&self, ticket: Ticket, waited: Duration) -> Slot {
        let now = self.gate().clock.now();
        self.thread
            .recorder
            .admitted(self.app, self.facts.class, Some(waited));
        Slot::new(&self.thread, self.app, &self.facts, ticket, now)
    }
}

impl Future for Wait {
    type Output = Result<Slot, Turned>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match self.news(context) {
                Some(News::Started { ticket, waited }) => {
                    self.over = true;
                    return Poll::Ready(Ok(self.slot(ticket, waited)));
                }
                Some(News::Evicted { reason, drain }) => {
                    self.over = true;
                    return Poll::Ready(Err(Turned { reason, drain }));
                }
                None => {}
            }
            if self.leave.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.gate().poll();
            // The timer's grain is a millisecond; should the core still see it waiting, look again
            // one grain later.
            let next = tokio::time::Instant::now() + Duration::from_millis(1);
            self.leave.as_mut().reset(next);
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.gate().cancel(self.ticket);
        let news = self.place.lock().news;
        let refusal = match news {
            // Out of the queue at the same moment: that decision stands, nobody hears of it.
            Some(News::Evicted { reason, .. }) => Refusal::from(reason),
            Some(News::Started { ticket, .. }) => {
                let gate = self.gate();
                gate.done(gate.clock.now(), ticket, None, Ending::Ignored);
                self.dropped_for
            }
            None => self.dropped_for,
        };
        self.thread
            .recorder
            .refused(self.app, self.facts.class, refusal);
    }
}

fn wake(woken: Vec<Waker>) {
    for waker in woken {
        waker.wake();
    }
}
