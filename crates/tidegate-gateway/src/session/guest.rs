//! Who a request comes from, once the desk has been asked.

use std::sync::Arc;

use http::HeaderMap;
use tidegate_core::facts::Class;
use tidegate_core::session::Name;
use tidegate_store::desk::{Desk, Seen};

use crate::context::Thread;
use crate::plan::RoutePlan;
use crate::session::attributes::{self, State as Said};
use crate::session::plan::SessionPlan;
use crate::session::ticket::Issued;
use crate::session::token::Token;

/// Who a request comes from.
pub(crate) enum Guest {
    /// Nobody asks: the request has nothing to do with sessions.
    Uninvolved,
    /// Somebody without a cookie.
    New,
    /// Somebody with one, whatever it is worth.
    Known(Arc<Known>),
}

/// Somebody with cookies of ours.
pub(crate) struct Known {
    pub(crate) thread: Arc<Thread>,
    pub(crate) app: usize,
    pub(crate) route: usize,
    pub(crate) state: State,
    /// Whether the session has another id than the browser knows.
    pub(crate) moved: bool,
    /// Whether the browser has a session's cookie.
    pub(crate) has_cookie: bool,
    /// Whether it has a ticket's.
    pub(crate) has_ticket: bool,
    /// That ticket, if it is one and goes with the session's cookie.
    pub(crate) issued: Option<Issued>,
    pub(crate) led: Led,
}

/// What became of the session that the cookies name.
pub(crate) enum State {
    /// There it is.
    Open { token: Token, seen: Seen },
    /// The store is away and nothing here knows of it.
    Away { token: Token },
    /// A sign-in has replaced it, and the browser has or gets a new cookie by that answer.
    Replaced {
        /// The token that was good for it.
        token: Token,
    },
    /// There is none any more.
    Dead,
}

/// Where the affinity cookie leads a visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Led {
    Nowhere,
    Here,
    Elsewhere,
}

impl Guest {
    /// The class that the session earns.
    pub(crate) fn class(&self) -> Option<Class> {
        let Self::Known(known) = self else {
            return None;
        };
        let principal = known.seen()?.session.head.principal.as_ref()?;
        Some(known.plan().class_of(principal.tier.as_ref()))
    }

    /// The user whose session it is.
    pub(crate) fn uid(&self) -> Option<&str> {
        let Self::Known(known) = self else {
            return None;
        };
        let principal = known.seen()?.session.head.principal.as_ref()?;
        Some(principal.uid.as_str())
    }

    /// Whether the store that would have this visitor's session is away.
    pub(crate) fn lacks_store(&self, desk: Option<&Desk>) -> bool {
        match self {
            Self::Uninvolved => false,
            // Where a session of theirs would lie nobody knows: one place is as good as another.
            Self::New => desk.is_some_and(|desk| desk.is_away(&Token::draw().id())),
            Self::Known(known) => match &known.state {
                State::Open { seen, .. } => seen.standing.is_degraded(),
                State::Away { .. } => true,
                State::Replaced { .. } | State::Dead => false,
            },
        }
    }

    /// Whether the session has something that its user could go on with another time.
    pub(crate) fn can_resume(&self) -> bool {
        let Self::Known(known) = self else {
            return false;
        };
        let State::Open { seen, .. } = &known.state else {
            return false;
        };
        let plan = &known.desk().plan().attributes;
        let resumes = |name: &Name| plan.of(name).resume.is_some();
        let found = &seen.session.found;
        let mut attributes = found.attributes.iter();
        if attributes.any(|(name, _)| resumes(name)) {
            return true;
        }
        let mut counters = found.counters.iter();
        if counters.any(|(name, _)| resumes(name)) {
            return true;
        }
        // What the route does not read is in the ticket, perhaps.
        let issued = known.issued.as_ref();
        let ticket = issued.map(|issued| &issued.ticket);
        let ticket = ticket.filter(|ticket| ticket.id == seen.id);
        ticket.is_some_and(|ticket| ticket.attributes.iter().any(|(name, _)| resumes(name)))
    }

    /// Tells the application who it is.
    pub(crate) fn introduce(&self, route: &RoutePlan, headers: &mut HeaderMap) {
        let known = match self {
            Self::Uninvolved => return,
            Self::New => return Said::New.tell(headers),
            Self::Known(known) => known,
        };
        match &known.state {
            State::Open { seen, .. } => {
                let omitted = attributes::tell(seen, &route.session.exposed, headers);
                if omitted > 0 {
                    let recorder = &known.thread.recorder;
                    recorder.session_omitted(known.app, omitted);
                }
            }
            State::Away { .. } => Said::Degraded.tell(headers),
            State::Replaced { .. } | State::Dead => Said::New.tell(headers),
        }
    }

    /// The holder of a session, whose wishes hold though the client has left.
    pub(crate) fn holder(&self) -> Option<Arc<Known>> {
        match self {
            Self::Known(known)
                if matches!(known.state, State::Open { .. } | State::Away { .. }) =>
            {
                Some(Arc::clone(known))
            }
            _ => None,
        }
    }
}

impl Known {
    /// Somebody without any cookie.
    pub(crate) fn newcomer(thread: &Arc<Thread>, app: usize, route: usize) -> Self {
        Self {
            thread: Arc::clone(thread),
            app,
            route,
            state: State::Dead,
            moved: false,
            has_cookie: false,
            has_ticket: false,
            issued: None,
            led: Led::Nowhere,
        }
    }

    /// Whether the application is told of attributes of this name.
    pub(crate) fn is_told(&self, name: &Name) -> bool {
        let plan = &self.thread.shared.apps[self.app].plan;
        plan.routes[self.route].session.exposed.contains(name)
    }

    pub(crate) fn plan(&self) -> &SessionPlan {
        let plan = &self.thread.shared.apps[self.app].plan;
        plan.sessions
            .as_ref()
            .expect("only an application with sessions has guests")
    }

    pub(crate) fn desk(&self) -> &Desk {
        let desk = self.thread.shared.desk.as_ref();
        desk.expect("only a gateway with a desk has guests")
    }

    pub(crate) const fn seen(&self) -> Option<&Seen> {
        match &self.state {
            State::Open { seen, .. } => Some(seen),
            _ => None,
        }
    }
}
