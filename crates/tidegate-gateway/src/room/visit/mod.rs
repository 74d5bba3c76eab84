//! Step 9 of the request path: who goes in, and who waits.
//!
//! [`step`] is all that the path calls. A good pass is verified with keys alone and goes on at once, with a budget that lasts as
//! long as its answer. Whoever has none is asked for as what they are ([`Asker`]): a visit, the script of a page, an
//! application. What the room says to them is in [`Caller`], how they are answered in [`answer`](super::answer), and what is
//! left to be done when the application has answered in [`Stay`].

mod asker;
mod caller;
mod command;
mod gifts;
mod limits;
mod resume;
mod stay;

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Response};
use tidegate_core::room::{Ask, Phase, Ruling, Stage, Standing, Tier};
use tidegate_core::time::Mono;
use tidegate_http::refusal::Refusal;
use tidegate_page::Variation;
use tidegate_page::document::Reason;

pub(crate) use self::asker::{Asker, is_browser, is_form_from_elsewhere, takes_gzip};
use self::asker::{is_preflight, keeps_no_cookies};
pub(crate) use self::caller::{Caller, Claimed, Heard, NotJoined, address_of, stands};
pub(crate) use self::command::Wishes;
pub(crate) use self::gifts::Gifts;
pub(crate) use self::limits::{Limits, Wants};
pub(crate) use self::stay::{Stay, known};
use super::answer::{self, Stands, Told};
use super::hall::{ClerkError, Outcome};
use super::{Held, Pass, Spent, Ticket, Using, Why};
use crate::body::Body;
use crate::classify;
use crate::context::{Conn, Thread};
use crate::plan::{AppPlan, Mode};
use crate::rate::tick;
use crate::request;
use crate::session::Claim;

/// Nobody needs to come again sooner to what is closed.
pub(crate) const CLOSED_RETRY: Duration = Duration::from_secs(300);
/// Whoever could not be answered comes again after that.
pub(crate) const AWAY_RETRY: Duration = Duration::from_secs(5);
/// Places are exact for those who have fewer ahead of them than this; for the others the room's document will do.
pub(crate) const NEAR: u64 = 2_000;

/// A request that has passed the limits at the edge.
pub(crate) struct Comes<'t, 'r> {
    pub(crate) thread: &'t Arc<Thread>,
    pub(crate) app: usize,
    pub(crate) route: usize,
    pub(crate) conn: &'r Conn,
    pub(crate) head: &'r Parts,
    pub(crate) now: Mono,
}

/// A request that is answered by the room.
pub(crate) struct Turned {
    pub(crate) response: Response<Body>,
    pub(crate) refusal: Refusal,
}

/// Somebody who goes in, or in whose way nothing is.
#[derive(Default)]
struct In {
    /// As what they came through the room.
    tier: Option<Tier>,
    /// The text of their pass.
    pass: Option<String>,
    gifts: Gifts,
    device: Option<super::Device>,
    using: Option<Using>,
}

/// Lets a request go on to its application, or answers it. `None` for an application that has no room. `is_busy` says that the
/// application cannot be asked now, and `has_room` whether one more could go in.
pub(crate) async fn step<'t>(
    comes: &Comes<'t, '_>,
    claim: Option<&mut Claim<'_>>,
    is_busy: bool,
    has_room: impl FnOnce() -> bool,
) -> Result<Option<Stay<'t>>, Box<Turned>> {
    let shared = &comes.thread.shared;
    let app = &shared.apps[comes.app];
    if app.rooms.is_empty() {
        return Ok(None);
    }
    let room = app.plan.routes[comes.route].room;
    let room = room.filter(|_| is_behind(comes, &app.plan));
    let mut stay = Stay::begin(comes, claim, room);
    let Some(hall) = room.and_then(|room| shared.halls.get(room)) else {
        return Ok(Some(stay));
    };
    let caller = Caller {
        thread: comes.thread,
        head: comes.head,
        hall,
        view: hall.view(),
        now: comes.now,
        address: stay.address(),
        sessions: stay.sessions(),
        tier: stay.standing(),
        device: None,
        gifts: Gifts::default(),
    };
    let mut visit = Visit {
        asker: Asker::of(&comes.head.method, &comes.head.headers),
        is_busy,
        caller,
    };
    let entered = match app.plan.mode {
        Mode::Enforce => visit.decide(has_room).await?,
        Mode::Shadow => visit.count(has_room),
    };
    stay.go_in(entered);
    Ok(Some(stay))
}

/// Whether a request for a route behind a room needs a pass. What is static is shed first anyway, and a question before the
/// question cannot have one. The class that it says itself is not asked for: whoever calls a basket static has to wait.
fn is_behind(comes: &Comes<'_, '_>, app: &AppPlan) -> bool {
    let head = comes.head;
    !classify::is_static(head, app, comes.route) && !is_preflight(&head.method, &head.headers)
}

/// A request for what is behind a room.
struct Visit<'c> {
    asker: Asker,
    is_busy: bool,
    caller: Caller<'c>,
}

impl Visit<'_> {
    async fn decide(&mut self, has_room: impl FnOnce() -> bool) -> Result<In, Box<Turned>> {
        let Ok(held) = self.caller.read() else {
            self.count_as(Outcome::Ambiguous);
            return Err(plain(Refusal::RoomBadTokens, Duration::ZERO));
        };
        match &held.pass {
            Ok(pass) => return self.pass(pass),
            Err(Why::Unverified { wait_us }) => {
                self.count_as(Outcome::Unverified);
                let wait = Duration::from_micros(*wait_us);
                return Err(self.unverified(&held, wait));
            }
            Err(_) => {}
        }
        match self.rule(has_room) {
            Ruling::Pass => Ok(self.goes_on(Outcome::Open)),
            Ruling::Shadow(_) => Ok(self.goes_on(Outcome::Shadow)),
            Ruling::Admit(_) => self.admit(&held).await,
            Ruling::Wait(_) => self.wait(&held).await,
            Ruling::Over => self.closed(&held).await,
        }
    }

    /// What would become of it, where nobody is to wait.
    fn count(&mut self, has_room: impl FnOnce() -> bool) -> In {
        let passes = self.caller.read().map(|held| {
            let pass = held.pass.ok()?;
            self.caller.hall.inside.saw(self.caller.now, pass.id());
            Some(())
        });
        let outcome = match passes {
            Err(_) => Outcome::Ambiguous,
            Ok(Some(())) => Outcome::Passed,
            Ok(None) => match self.rule(has_room) {
                Ruling::Pass => Outcome::Open,
                Ruling::Admit(_) => Outcome::Admitted,
                Ruling::Shadow(_) | Ruling::Wait(_) | Ruling::Over => Outcome::Shadow,
            },
        };
        self.goes_on(outcome)
    }

    /// What the room does with who has no pass. The door is asked only where it decides, since it counts who asks.
    fn rule(&self, has_room: impl FnOnce() -> bool) -> Ruling {
        let Caller {
            view, hall, now, ..
        } = &self.caller;
        if view.is_open {
            return Ruling::Pass;
        }
        let is_line_empty = view.is_line_empty();
        let asks_door = is_line_empty && matches!(view.phase, Phase::Auto | Phase::Off);
        view.phase.rule(&Ask {
            standing: Standing::Waits(self.caller.tier),
            has_pass: false,
            is_line_empty,
            is_room: asks_door && has_room() && hall.door.admits(*now),
        })
    }

    /// With a good pass: straight on, as far as its budget goes.
    fn pass(&mut self, pass: &Pass<'_>) -> Result<In, Box<Turned>> {
        let Caller { hall, now, .. } = self.caller;
        let using = match hall.tokens.begin(tick(now), pass) {
            Ok(using) => using,
            Err(spent) => return Err(self.spent(spent)),
        };
        hall.inside.saw(now, pass.id());
        self.count_as(Outcome::Passed);
        // Where no key signs it goes on with the one that it has.
        let renewed = hall.tokens.renew(self.caller.wall(), pass).ok().flatten();
        if renewed.is_some() {
            hall.counts.renewed.add(1);
        }
        self.caller.gifts.pass = renewed;
        Ok(In {
            tier: Some(pass.tier()),
            pass: Some(pass.text.to_owned()),
            using: Some(using),
            ..self.goes_in()
        })
    }

    /// Nobody waits, and there is room for one more.
    async fn admit(&mut self, held: &Held<'_>) -> Result<In, Box<Turned>> {
        if let (Ok(ticket), false) = (&held.ticket, self.looks_only()) {
            // Whose turn it is goes in with that, and whoever waited is nobody that is waited for.
            match self.hear(held, ticket).await {
                Heard::Ready { .. } if !self.is_busy => return self.claim(ticket).await,
                Heard::Passed { at_ms } => return self.again(ticket, at_ms),
                Heard::Waits { .. } => {
                    let clerk = &self.caller.hall.clerk;
                    let _ = clerk.leave(ticket.epoch, ticket.place).await;
                }
                _ => {}
            }
        }
        if self.is_form_from_elsewhere() {
            return Ok(self.goes_on(Outcome::Admitted));
        }
        let ticket = match self.caller.place().await {
            Ok(ticket) => ticket,
            Err(ClerkError::Held) => {
                let ticket = held.ticket.as_ref().ok();
                return Err(self.waits(Stage::Nobody, ticket, Some(AWAY_RETRY)));
            }
            // No place to give a pass for: the door has let them in all the same.
            Err(_) => return Ok(self.goes_on(Outcome::Admitted)),
        };
        if held.ticket.is_ok() {
            self.caller.gifts.take_ticket(&self.caller.hall.tokens);
        }
        let at_ms = ticket.arrived.as_micros() / 1_000;
        // Without a key to sign they go in now, and have to be let in again.
        let _ = self.caller.give_pass(&ticket, at_ms);
        self.count_as(Outcome::Admitted);
        Ok(self.goes_in())
    }

    /// There is a line, and nobody goes past it.
    async fn wait(&mut self, held: &Held<'_>) -> Result<In, Box<Turned>> {
        let looks_only = self.looks_only();
        match &held.ticket {
            Ok(ticket) if looks_only => return Err(self.waits(Stage::Waiting, Some(ticket), None)),
            _ if self.asker == Asker::Part || self.is_head() => {
                return Err(self.waits(Stage::Nobody, None, None));
            }
            Ok(ticket) => match self.hear(held, ticket).await {
                Heard::Waits { ticket, is_new } => {
                    if is_new {
                        // With the old one they are known as well, at the next beat.
                        let _ = self.caller.give_ticket(&ticket);
                    }
                    return Err(self.waits(Stage::Waiting, Some(&ticket), None));
                }
                Heard::Ready { .. } => return self.claim(ticket).await,
                Heard::Passed { at_ms } => return self.again(ticket, at_ms),
                Heard::Full => {
                    return Err(self.full(Stage::Provisional, Some(ticket), AWAY_RETRY));
                }
                Heard::Unasked => {
                    return Err(self.waits(Stage::Waiting, Some(ticket), Some(AWAY_RETRY)));
                }
                Heard::Void { .. } => {}
            },
            // The page asks who they are, with their cookies.
            Err(_) if self.is_form_from_elsewhere() => {
                return Err(self.waits(Stage::Nobody, None, Some(AWAY_RETRY)));
            }
            Err(_) => {
                let head = self.caller.head;
                if self.asker == Asker::Navigation
                    && keeps_no_cookies(&head.method, &head.uri, &head.headers)
                {
                    return Err(self.no_cookies());
                }
            }
        }
        Err(self.join().await)
    }

    /// It is over. Whoever was called by then may still come.
    async fn closed(&mut self, held: &Held<'_>) -> Result<In, Box<Turned>> {
        if let (Ok(ticket), false) = (&held.ticket, self.looks_only()) {
            match self.hear(held, ticket).await {
                Heard::Ready { .. } => return self.claim(ticket).await,
                Heard::Passed { at_ms } => return self.again(ticket, at_ms),
                // Perhaps it is their turn: the page of the end would be the last that they see.
                Heard::Unasked => {
                    return Err(self.waits(Stage::Waiting, Some(ticket), Some(AWAY_RETRY)));
                }
                _ => {}
            }
        }
        Err(self.over())
    }

    /// Gives who has none a place, which counts when they come back with it.
    async fn join(&mut self) -> Box<Turned> {
        match self.caller.join().await {
            Ok(ticket) if self.caller.give_ticket(&ticket).is_ok() => {
                self.waits(Stage::Provisional, Some(&ticket), None)
            }
            Ok(_) | Err(NotJoined::Away) => self.waits(Stage::Nobody, None, Some(AWAY_RETRY)),
            Err(NotJoined::Full) => self.full(Stage::Nobody, None, AWAY_RETRY),
            Err(NotJoined::Often(wait)) => self.full(Stage::Nobody, None, wait),
        }
    }

    /// It is their turn: they go in at once, without having asked for that.
    async fn claim(&mut self, ticket: &Ticket) -> Result<In, Box<Turned>> {
        if self.is_busy {
            return Err(self.waits(Stage::Ready, Some(ticket), Some(AWAY_RETRY)));
        }
        let hall = self.caller.hall;
        if let Err(wait) = hall.door.claims(self.caller.now) {
            hall.counts.at_the_door.add(1);
            return Err(self.waits(Stage::Ready, Some(ticket), Some(wait)));
        }
        match self.caller.claim(ticket).await {
            Claimed::In { at_ms } if self.caller.give_pass(ticket, at_ms).is_ok() => {
                self.goes_back(ticket, at_ms)
            }
            Claimed::In { .. } | Claimed::Away => {
                Err(self.waits(Stage::Ready, Some(ticket), Some(AWAY_RETRY)))
            }
            Claimed::Late | Claimed::Early => Err(self.waits(Stage::Waiting, Some(ticket), None)),
        }
    }

    /// They went in before, and have lost their pass: they get the same again.
    fn again(&mut self, ticket: &Ticket, at_ms: u64) -> Result<In, Box<Turned>> {
        if self.caller.give_pass(ticket, at_ms).is_err() {
            return Err(self.waits(Stage::Passed, Some(ticket), Some(AWAY_RETRY)));
        }
        self.goes_back(ticket, at_ms)
    }

    /// Goes on with the pass of a place, as far as its budget goes.
    fn goes_back(&mut self, ticket: &Ticket, at_ms: u64) -> Result<In, Box<Turned>> {
        let using = self.caller.begin(ticket, at_ms);
        let using = using.map_err(|spent| self.spent(spent))?;
        self.count_as(Outcome::Claimed);
        Ok(In {
            using,
            ..self.goes_in()
        })
    }

    /// Hears of whoever has `ticket`, but not as often as they like: each time asks the store.
    async fn hear(&self, held: &Held<'_>, ticket: &Ticket) -> Heard {
        let Caller { hall, now, .. } = &self.caller;
        let who = (ticket.epoch, ticket.place);
        match hall.limits.ask(tick(*now), who, Wants::Visit) {
            Ok(()) => {
                let is_revoked = matches!(held.pass, Err(Why::Revoked));
                self.caller.hear(ticket, is_revoked).await
            }
            Err(_) => Heard::Unasked,
        }
    }

    /// Goes on with what it was given.
    fn goes_in(&mut self) -> In {
        let gifts = std::mem::take(&mut self.caller.gifts);
        In {
            tier: Some(self.caller.tier),
            pass: gifts.pass.as_ref().map(|given| given.text.clone()),
            device: self.caller.device.clone(),
            gifts,
            using: None,
        }
    }

    /// Goes on with nothing.
    fn goes_on(&mut self, outcome: Outcome) -> In {
        self.count_as(outcome);
        In {
            tier: Some(self.caller.tier),
            device: self.caller.device.clone(),
            ..In::default()
        }
    }

    fn count_as(&self, outcome: Outcome) {
        self.caller.hall.counts.count(outcome);
    }

    /// Whether it asks for nothing but what is known here already: a page asks for itself, and a picture for nothing. So a
    /// page in the background neither keeps a place alive nor takes the turn of its reader.
    fn looks_only(&self) -> bool {
        matches!(self.asker, Asker::Script | Asker::Part) || self.is_head()
    }

    fn is_form_from_elsewhere(&self) -> bool {
        let head = self.caller.head;
        is_form_from_elsewhere(&head.method, &head.uri, &head.headers)
    }

    fn is_head(&self) -> bool {
        self.caller.head.method == Method::HEAD
    }

    // ---- answers

    fn waits(
        &mut self,
        stage: Stage,
        ticket: Option<&Ticket>,
        retry: Option<Duration>,
    ) -> Box<Turned> {
        self.count_as(Outcome::Waits);
        let tier = ticket.map_or(self.caller.tier, |ticket| ticket.tier);
        self.caller.hall.counts.waits[tier.index()].add(1);
        self.told(Refusal::Room, stage, ticket, retry)
    }

    fn full(&mut self, stage: Stage, ticket: Option<&Ticket>, retry: Duration) -> Box<Turned> {
        self.count_as(Outcome::Full);
        self.told(Refusal::RoomFull, stage, ticket, Some(retry))
    }

    fn unverified(&mut self, held: &Held<'_>, wait: Duration) -> Box<Turned> {
        match self.asker {
            // The page comes again by itself.
            Asker::Navigation => {
                let ticket = held.ticket.as_ref().ok();
                self.told(Refusal::PassUnverified, Stage::Passed, ticket, Some(wait))
            }
            _ => plain(Refusal::PassUnverified, wait),
        }
    }

    /// Somebody who stays outside is told how things are.
    fn told(
        &mut self,
        refusal: Refusal,
        stage: Stage,
        ticket: Option<&Ticket>,
        retry: Option<Duration>,
    ) -> Box<Turned> {
        let Caller {
            thread, view, hall, ..
        } = &self.caller;
        let is_page = self.asker == Asker::Navigation;
        // A page is the same for everybody, and its script knows how long it takes.
        let stands = match is_page {
            true => None,
            false => Some(self.stands(stage, ticket)),
        };
        let retry = retry.unwrap_or_else(|| {
            let likely = stands.as_ref().and_then(|stands| stands.eta_s);
            let wait = likely.map(|[_, likely, _]| Duration::from_secs(likely));
            view.policy.next(wait, thread.draw(|rng| rng.unit()))
        });
        let told = Told {
            refusal,
            retry_s: whole_seconds(retry),
        };
        let response = match &stands {
            Some(stands) => answer::problem(hall, stands, told),
            None => self.page(wait_page(&self.caller.head.method), told),
        };
        self.turn(response, refusal)
    }

    /// The pass brings all that it may.
    fn spent(&self, spent: Spent) -> Box<Turned> {
        self.count_as(Outcome::Spent);
        let wait = match spent {
            Spent::InFlight => Duration::from_secs(1),
            Spent::Rate { wait_us } => Duration::from_micros(wait_us),
        };
        plain(Refusal::PassBudget, wait)
    }

    fn over(&mut self) -> Box<Turned> {
        self.count_as(Outcome::Closed);
        let Caller { hall, view, .. } = &self.caller;
        let told = Told {
            refusal: Refusal::RoomClosed,
            retry_s: whole_seconds(CLOSED_RETRY),
        };
        let response = match self.asker {
            Asker::Navigation => self.page(end_page(view.reason), told),
            _ => answer::problem(hall, &self.stands(Stage::Nobody, None), told),
        };
        self.turn(response, Refusal::RoomClosed)
    }

    /// A browser that keeps no cookies is told so; the answer tries to set one, and who comes with it gets a place.
    fn no_cookies(&mut self) -> Box<Turned> {
        self.count_as(Outcome::Waits);
        self.caller.hall.counts.waits[self.caller.tier.index()].add(1);
        self.caller.give_device();
        let told = Told {
            refusal: Refusal::Room,
            retry_s: whole_seconds(AWAY_RETRY),
        };
        let response = self.page(Variation::NoCookies, told);
        self.turn(response, Refusal::Room)
    }

    fn page(&self, variation: Variation, told: Told) -> Response<Body> {
        answer::page(self.caller.hall, &self.caller.head.headers, variation, told)
    }

    fn stands(&self, stage: Stage, ticket: Option<&Ticket>) -> Stands {
        stands(&self.caller, stage, ticket)
    }

    fn turn(&mut self, mut response: Response<Body>, refusal: Refusal) -> Box<Turned> {
        let gifts = std::mem::take(&mut self.caller.gifts);
        let is_browser = is_browser(&self.caller.head.headers);
        gifts.put_on(response.headers_mut(), is_browser);
        Box::new(Turned { response, refusal })
    }
}

/// The page for who waits, by what they did.
fn wait_page(method: &Method) -> Variation {
    match *method {
        Method::GET | Method::HEAD => Variation::Waiting,
        _ => Variation::Unsent,
    }
}

/// The page for what is closed.
fn end_page(reason: Option<Reason>) -> Variation {
    match reason {
        Some(Reason::SoldOut) => Variation::SoldOut,
        _ => Variation::Ended,
    }
}

/// A refusal that is the same for a page and a program.
fn plain(refusal: Refusal, retry: Duration) -> Box<Turned> {
    let response = request::answer(refusal, Some(whole_seconds(retry)));
    Box::new(Turned { response, refusal })
}

/// Rounded up, so that whoever keeps to it is not too early; at least one.
pub(crate) fn whole_seconds(span: Duration) -> u64 {
    let more = u64::from(span.subsec_nanos() > 0);
    span.as_secs().saturating_add(more).clamp(1, 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_with_a_form_is_not_lost_by_asking_again() {
        for method in [Method::GET, Method::HEAD] {
            assert_eq!(wait_page(&method), Variation::Waiting);
        }
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            assert_eq!(wait_page(&method), Variation::Unsent);
        }
    }

    #[test]
    fn what_is_over_says_why() {
        assert_eq!(end_page(Some(Reason::SoldOut)), Variation::SoldOut);
        for reason in [None, Some(Reason::Ended), Some(Reason::Slower)] {
            assert_eq!(end_page(reason), Variation::Ended);
        }
    }

    #[test]
    fn whoever_keeps_to_a_wait_is_not_too_early() {
        for (millis, seconds) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (2_999, 3)] {
            let span = Duration::from_millis(millis);
            assert_eq!(whole_seconds(span), seconds, "{millis}");
        }
        assert_eq!(whole_seconds(Duration::MAX), 86_400);
    }
}
