//! What the cookies of a request claim, and the question to the desk whether it is so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use smallvec::SmallVec;
use tidegate_core::facts::Class;
use tidegate_core::session::{Gone, Principal, SessionId, SlotTag};
use tidegate_core::time::Mono;
use tidegate_store::desk::{Desk, Visit};

use crate::context::Thread;
use crate::session::cookie::leads_here;
use crate::session::guest::{Guest, Known, Led, State};
use crate::session::jar::{Jar, SESSIONS_MAX};
use crate::session::keys::Purpose;
use crate::session::outcome::{BadCookie, Outcome};
use crate::session::plan::{Need, SessionPlan};
use crate::session::ticket::{Issued, is_stale};
use crate::session::token::{BadToken, Token};

/// Longest time that a request waits for its session.
const OPEN_BUDGET: Duration = Duration::from_millis(8);

/// What the cookies of a request say, checked with our keys alone.
pub(crate) struct Claim<'r> {
    thread: &'r Arc<Thread>,
    app: usize,
    route: usize,
    plan: &'r SessionPlan,
    desk: &'r Desk,
    jar: Jar<'r>,
    tokens: [Option<Token>; SESSIONS_MAX],
    ticket: Ticket,
}

/// Who the cookies of a request show to be behind it, without anybody having been asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// The sessions whose secrets they have, the one that counts first.
    pub(crate) ids: SmallVec<[SessionId; SESSIONS_MAX]>,
    /// Whether a ticket says that somebody has signed in.
    pub(crate) is_signed_in: bool,
}

/// A ticket is opened when it is first asked for.
enum Ticket {
    Sealed,
    Opened(Option<Issued>),
}

/// Counts what became of a session once it is known, or that its client did not wait for that.
struct Count<'r> {
    thread: &'r Thread,
    app: usize,
    began: Mono,
    outcome: Outcome,
}

impl<'r> Claim<'r> {
    /// What `headers` claim; `None` when the request has nothing to do with sessions: its
    /// application keeps none here, its route says so, or its answer is one for caches.
    pub(crate) fn of(
        thread: &'r Arc<Thread>,
        app: usize,
        route: usize,
        class: Class,
        headers: &'r HeaderMap,
    ) -> Option<Self> {
        let need = thread.shared.apps[app].plan.routes[route].session.need;
        if need == Need::None || class == Class::Static {
            return None;
        }
        Self::read(thread, app, route, headers)
    }

    /// The same for who wants to know it though the route does not.
    pub(crate) fn read(
        thread: &'r Arc<Thread>,
        app: usize,
        route: usize,
        headers: &'r HeaderMap,
    ) -> Option<Self> {
        let desk = thread.shared.desk.as_ref()?;
        let plan = thread.shared.apps[app].plan.sessions.as_ref()?;
        let jar = Jar::of(headers, plan);
        let mut claim = Self {
            thread,
            app,
            route,
            plan,
            desk,
            jar,
            tokens: [None; SESSIONS_MAX],
            ticket: Ticket::Sealed,
        };
        if !jar.is_empty() {
            claim.check();
        }
        Some(claim)
    }

    /// Whether the class can only be known by asking: there are cookies, and no ticket says so.
    pub(crate) const fn has_unknown_class(&self) -> bool {
        !self.plan.tickets && !self.jar.is_empty()
    }

    /// Where the session that the cookies name would be: the same for all requests of a visitor, and
    /// given by us.
    pub(crate) fn tag(&self) -> Option<SlotTag> {
        self.tokens.iter().flatten().next().map(Token::tag)
    }

    /// The highest class that the cookies can earn, before anybody has been asked. With tickets it
    /// takes one: anybody can keep the cookie of a session that is long over.
    pub(crate) fn earns(&mut self) -> Option<Class> {
        if !self.plan.tickets {
            let has_token = self.tokens.iter().any(Option::is_some);
            return has_token.then(|| self.plan.highest_class());
        }
        let plan = self.plan;
        let principal = self.principal()?;
        Some(plan.class_of(principal.tier.as_ref()))
    }

    /// Who the cookies show to be behind the request, without anybody being asked.
    pub(crate) fn shown(&mut self) -> Shown {
        let tokens = self.tokens.iter().flatten();
        Shown {
            ids: tokens.map(Token::id).collect(),
            is_signed_in: self.principal().is_some(),
        }
    }

    /// Who has signed in by the ticket, as far as is known here.
    fn principal(&mut self) -> Option<&Principal> {
        let (now, desk) = (self.desk.now(), self.desk);
        let ticket = &self.issued()?.ticket;
        if desk.is_over(&ticket.id) || now >= ticket.deadline {
            return None;
        }
        ticket.principal.as_ref()
    }

    /// Asks for the session, where there may be one, and what of it the route wants to know.
    pub(crate) async fn ask(mut self) -> Guest {
        if self.jar.is_empty() {
            self.thread.recorder.session(self.app, Outcome::Absent);
            return Guest::New;
        }
        let mut count = Count {
            thread: self.thread,
            app: self.app,
            began: self.thread.shared.clock.now(),
            outcome: Outcome::Left,
        };
        self.issued();
        let (state, outcome, moved) = self.open().await;
        count.outcome = outcome;
        let led = match (&self.plan.affinity, self.jar.affinity) {
            (_, None) => Led::Nowhere,
            (Some(affinity), Some(value)) if leads_here(value, affinity, &self.plan.keys) => {
                Led::Here
            }
            (_, Some(_)) => Led::Elsewhere,
        };
        Guest::Known(Arc::new(Known {
            thread: Arc::clone(self.thread),
            app: self.app,
            route: self.route,
            state,
            moved,
            has_cookie: !self.jar.sessions().is_empty(),
            has_ticket: self.jar.ticket.is_some(),
            issued: match self.ticket {
                Ticket::Opened(issued) => issued,
                Ticket::Sealed => None,
            },
            led,
        }))
    }

    /// The state of the first of the cookies that leads to a session, and whether it has another id
    /// by now.
    async fn open(&self) -> (State, Outcome, bool) {
        let until = Instant::now() + OPEN_BUDGET;
        let (mut state, mut outcome) = (State::Dead, Outcome::Invalid);
        for token in self.tokens.iter().flatten() {
            let (mut token, mut visit) = (*token, self.visit(token, until).await);
            let mut moved = false;
            if let Visit::Gone(Gone::Rotated { successor }) = &visit
                && let Some(next) = self.successor(successor)
            {
                (token, visit) = (next, self.visit(&next, until).await);
                moved = true;
            }
            match visit {
                Visit::Open(seen) => {
                    let outcome = seen.standing.into();
                    return (State::Open { token, seen }, outcome, moved);
                }
                Visit::Away => return (State::Away { token }, Outcome::Away, moved),
                // Another cookie may still lead somewhere, but not to be told that this one is over.
                Visit::Gone(Gone::Replaced) => {
                    (state, outcome) = (State::Replaced { token }, Outcome::Replaced);
                }
                Visit::Gone(gone) if outcome == Outcome::Invalid => outcome = Outcome::from(&gone),
                Visit::Gone(_) => {}
            }
        }
        (state, outcome, false)
    }

    async fn visit(&self, token: &Token, until: Instant) -> Visit {
        let id = token.id();
        let ticket = match &self.ticket {
            Ticket::Opened(Some(issued)) if issued.ticket.id == id => Some(&issued.ticket),
            _ => None,
        };
        let budget = until.saturating_duration_since(Instant::now());
        let app = &self.thread.shared.apps[self.app];
        let renewed =
            self.plan.tickets && ticket.is_none_or(|ticket| is_stale(ticket, self.desk.now()));
        let fields = if renewed {
            &app.ticket_fields[self.route]
        } else {
            app.plan.routes[self.route].session.exposed.fields()
        };
        self.desk.open(&id, ticket, fields, budget).await
    }

    fn successor(&self, sealed: &[u8]) -> Option<Token> {
        let kept = self.plan.keys.open(Purpose::Successor, sealed)?;
        Token::of_kept(&kept)
    }

    /// Reads the tokens. What is none is counted.
    fn check(&mut self) {
        let recorder = &self.thread.recorder;
        for (place, text) in self.tokens.iter_mut().zip(self.jar.sessions()) {
            let bad = match Token::parse(text, &self.plan.keys) {
                Ok(token) => {
                    *place = Some(token);
                    continue;
                }
                Err(BadToken::Malformed) => BadCookie::Malformed,
                Err(BadToken::Unchecked) => BadCookie::Unchecked,
            };
            recorder.bad_cookie(self.app, bad, 1);
        }
        if self.jar.surplus > 0 {
            recorder.bad_cookie(self.app, BadCookie::Surplus, self.jar.surplus);
        }
    }

    /// The ticket, if it is one and goes with a token.
    fn issued(&mut self) -> Option<&Issued> {
        if let (Ticket::Sealed, Some(text), true) =
            (&self.ticket, self.jar.ticket, self.plan.tickets)
        {
            let issued = Issued::unseal(text, &self.plan.keys).filter(|issued| {
                let mut tokens = self.tokens.iter().flatten();
                tokens.any(|token| token.id() == issued.ticket.id)
            });
            if issued.is_none() {
                let recorder = &self.thread.recorder;
                recorder.bad_cookie(self.app, BadCookie::Ticket, 1);
            }
            self.ticket = Ticket::Opened(issued);
        }
        match &self.ticket {
            Ticket::Opened(issued) => issued.as_ref(),
            Ticket::Sealed => None,
        }
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        let span = self.thread.shared.clock.now().since(self.began);
        let recorder = &self.thread.recorder;
        recorder.session(self.app, self.outcome);
        recorder.session_asked(self.app, span);
    }
}
