//! The paths of a room itself, below `/.tidegate/v1/`, and that of the public keys. docs/room-page.md has what each is for.
//!
//! They are no probes: the cap of those does not hold for them. What each visitor may ask is bounded by their place, what places
//! a network may take by the network, and how long an answer takes by the clerk. Bodies are not read.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use serde_json::json;
use tidegate_core::room::{Epoch, Phase, Stage, Whereabouts};
use tidegate_http::refusal::Refusal;
use tidegate_page::Variation;
use tidegate_page::document::{Me, Missed, VERSION};

use super::{bare_page, json as write_json, jwks, keep_private, respond};
use crate::body::Body;
use crate::context::{Conn, Shared, Thread};
use crate::rate::tick;
use crate::request::{self, turn_away};
use crate::room::hall::{Asked, ClerkError, Hall};
use crate::room::visit::{
    AWAY_RETRY, CLOSED_RETRY, Caller, Claimed, Gifts, Heard, NEAR, NotJoined, Wants, address_of,
    is_browser, is_form_from_elsewhere, known, stands, whole_seconds,
};
use crate::room::{Held, JWKS_PATH, Ticket, Why};

/// What is below is versioned by it.
pub(super) const PREFIX: &str = "/.tidegate/v1/";

/// Whoever keeps the document longer shows an old line.
const CACHED: &str = "public, max-age=1, s-maxage=1, stale-while-revalidate=5";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// The public keys of all rooms.
    Keys,
    /// Something of the room at this place.
    Room(usize, Asked),
}

/// What is ours of a request; `None` for what is somebody else's, rooms included that are not there.
pub(crate) fn recognise(shared: &Shared, path: &str) -> Option<Own> {
    if shared.halls.is_empty() {
        return None;
    }
    if path == JWKS_PATH {
        return Some(Own::Keys);
    }
    let (asked, name) = parse(path)?;
    let mut halls = shared.halls.iter();
    let room = halls.position(|hall| hall.plan.tokens.room.as_str() == name)?;
    Some(Own::Room(room, asked))
}

/// What is asked for by a path, and of which room.
fn parse(path: &str) -> Option<(Asked, &str)> {
    let (what, name) = path.strip_prefix(PREFIX)?.split_once('/')?;
    let asked = match what {
        "room" => return Some((Asked::Document, name.strip_suffix(".json")?)),
        "me" => Asked::Me,
        "join" => Asked::Join,
        "claim" => Asked::Claim,
        "leave" => Asked::Leave,
        "more-time" => Asked::MoreTime,
        "nojs" => Asked::Still,
        _ => return None,
    };
    Some((asked, name))
}

impl Own {
    /// The methods that it answers to.
    const fn allows(self) -> &'static str {
        match self {
            Self::Keys | Self::Room(_, Asked::Document | Asked::Me | Asked::Still) => {
                "GET, HEAD, OPTIONS"
            }
            Self::Room(_, Asked::Join | Asked::Claim | Asked::Leave | Asked::MoreTime) => {
                "OPTIONS, POST"
            }
        }
    }

    /// What a method gets that asks for nothing here.
    fn other_method(self, method: &Method) -> Option<StatusCode> {
        let allows = self.allows();
        let mut allowed = allows.split(", ");
        if method == Method::OPTIONS {
            Some(StatusCode::NO_CONTENT)
        } else if allowed.any(|known| known == method.as_str()) {
            None
        } else {
            Some(StatusCode::METHOD_NOT_ALLOWED)
        }
    }
}

/// Answers what is ours.
pub(crate) async fn serve(
    thread: &Arc<Thread>,
    conn: &Conn,
    head: &Parts,
    own: Own,
) -> Response<Body> {
    let shared = &thread.shared;
    if conn.overflow {
        return turn_away(thread, Refusal::Connections);
    }
    if let Some(status) = own.other_method(&head.method) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        let allow = HeaderValue::from_static(own.allows());
        response.headers_mut().insert(ALLOW, allow);
        return response;
    }
    let now = shared.clock.now();
    let (room, asked) = match own {
        Own::Keys => return jwks::answer(shared, now),
        Own::Room(room, asked) => (room, asked),
    };
    let hall = &*shared.halls[room];
    hall.counts.asked(asked);
    if is_form_from_elsewhere(&head.method, &head.uri, &head.headers) {
        // A new place would take that of whoever was sent here.
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::FORBIDDEN;
        keep_private(response.headers_mut());
        return response;
    }
    match asked {
        Asked::Document => return document(thread, hall, &head.headers),
        Asked::Still => {
            return bare_page(hall, &head.headers, Variation::Still, StatusCode::OK);
        }
        _ => {}
    }
    let mut applications = shared.applications().iter();
    let app = applications.position(|app| app.rooms.contains(&room));
    let (shown, tier) = known(thread, app.unwrap_or_default(), &head.headers);
    let caller = Caller {
        thread,
        head,
        hall,
        view: hall.view(),
        now,
        address: address_of(shared, conn, &head.headers),
        sessions: &shown.ids,
        tier,
        device: None,
        gifts: Gifts::default(),
    };
    let mut window = Window { caller };
    let mut response = match window.answer(asked).await {
        Ok(me) => write_json(StatusCode::OK, &me),
        Err(response) => *response,
    };
    let is_browser = is_browser(&head.headers);
    let gifts = window.caller.gifts;
    gifts.put_on(response.headers_mut(), is_browser);
    response
}

/// The room's document, the same bytes for everybody.
fn document(thread: &Thread, hall: &Hall, asked: &HeaderMap) -> Response<Body> {
    let view = hall.view();
    if view.document.is_empty() {
        return *refuse(thread, Refusal::RoomAway, Duration::from_secs(1));
    }
    // It says itself when it was made, and that is another time at each gateway.
    let (made, length) = (view.store_now.as_micros(), view.document.len());
    let tag = HeaderValue::try_from(format!("\"{made:x}-{length:x}\""));
    let mut headers = HeaderMap::with_capacity(6);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(CACHED));
    if let Ok(tag) = tag {
        let is_known = has_tag(asked, tag.as_bytes());
        headers.insert(ETAG, tag);
        if is_known {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            *response.headers_mut() = headers;
            return response;
        }
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    respond(StatusCode::OK, headers, view.document.clone())
}

/// Whether `tag` is one of those that the asker has (RFC 9110, 13.1.2).
fn has_tag(asked: &HeaderMap, tag: &[u8]) -> bool {
    let lines = asked.get_all(IF_NONE_MATCH).iter();
    let mut tags = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    tags.any(|known| {
        let known = known.trim_ascii();
        known == b"*" || known.strip_prefix(b"W/").unwrap_or(known) == tag
    })
}

/// A refusal that belongs to no application.
fn refuse(thread: &Thread, refusal: Refusal, wait: Duration) -> Box<Response<Body>> {
    thread.recorder.turned_away(refusal);
    let mut response = request::answer(refusal, Some(whole_seconds(wait)));
    keep_private(response.headers_mut());
    Box::new(response)
}

/// Where somebody asks for their own place.
struct Window<'c> {
    caller: Caller<'c>,
}

/// One's own document, or another answer.
type Answer = Result<Me, Box<Response<Body>>>;

impl Window<'_> {
    async fn answer(&mut self, asked: Asked) -> Answer {
        let Ok(held) = self.caller.read() else {
            return Err(self.refuse(Refusal::RoomBadTokens, Duration::ZERO));
        };
        match held.pass {
            // Taken away like a place, below.
            Ok(_) if asked == Asked::Leave => {}
            Ok(_) => return Ok(self.me(Stage::Passed, held.ticket.as_ref().ok())),
            Err(Why::Unverified { wait_us }) => {
                let wait = Duration::from_micros(wait_us);
                return Err(self.refuse(Refusal::PassUnverified, wait));
            }
            Err(_) => {}
        }
        if let Ok(ticket) = &held.ticket {
            let wants = match asked {
                Asked::Me => Wants::Look,
                _ => Wants::Act,
            };
            self.not_too_often(ticket, wants)?;
        }
        match (asked, &held.ticket) {
            (Asked::Join, _) => self.join(&held).await,
            (Asked::Claim, Ok(ticket)) => self.claim(ticket).await,
            (Asked::MoreTime, Ok(ticket)) => self.more_time(ticket).await,
            (Asked::Leave, Ok(ticket)) => self.leave(ticket).await,
            (Asked::Claim | Asked::MoreTime, Err(_)) => Err(self.not_their_turn()),
            (_, Ok(ticket)) => self.look(&held, ticket).await,
            (_, Err(_)) => Ok(self.me(Stage::Nobody, None)),
        }
    }

    /// How it stands with a place. It is heard of by that.
    async fn look(&mut self, held: &Held<'_>, ticket: &Ticket) -> Answer {
        let is_revoked = matches!(held.pass, Err(Why::Revoked));
        match self.caller.hear(ticket, is_revoked).await {
            Heard::Void { epoch, is_ghost } => Ok(self.void(ticket, epoch, is_ghost)),
            heard => self.heard(ticket, heard).await,
        }
    }

    async fn join(&mut self, held: &Held<'_>) -> Answer {
        match self.caller.view.phase {
            Phase::Closed => return Err(self.refuse(Refusal::RoomClosed, CLOSED_RETRY)),
            // Nobody waits.
            Phase::Off => return Ok(self.me(Stage::Nobody, None)),
            _ => {}
        }
        if let Ok(ticket) = &held.ticket {
            let is_revoked = matches!(held.pass, Err(Why::Revoked));
            match self.caller.hear(ticket, is_revoked).await {
                Heard::Void { .. } => {}
                // Of two tabs the second one finds the place of the first.
                heard => return self.heard(ticket, heard).await,
            }
        }
        let ticket = match self.caller.join().await {
            Ok(ticket) => ticket,
            Err(NotJoined::Often(wait)) => return Err(self.too_often(wait)),
            Err(NotJoined::Full) => return Err(self.refuse(Refusal::RoomFull, AWAY_RETRY)),
            Err(NotJoined::Away) => return Err(self.away()),
        };
        if self.caller.give_ticket(&ticket).is_err() {
            return Err(self.away());
        }
        Ok(self.me(Stage::Provisional, Some(&ticket)))
    }

    async fn claim(&mut self, ticket: &Ticket) -> Answer {
        let at_ms = match self.caller.claim(ticket).await {
            Claimed::In { at_ms } => at_ms,
            Claimed::Late | Claimed::Early => return Err(self.not_their_turn()),
            Claimed::Away => return Err(self.away()),
        };
        // They are in for the line by now, and come again to the door: so nobody can take from it whose turn it is not.
        let hall = self.caller.hall;
        if let Err(wait) = hall.door.claims(self.caller.now) {
            hall.counts.at_the_door.add(1);
            return Err(self.refuse(Refusal::RoomDoor, wait));
        }
        self.passed(ticket, at_ms)
    }

    async fn more_time(&mut self, ticket: &Ticket) -> Answer {
        let (hall, now) = (self.caller.hall, self.caller.now);
        let who = (ticket.epoch, ticket.place);
        match hall.clerk.extend(ticket.epoch, ticket.place).await {
            Ok(Some(extended)) => {
                hall.limits.extended(now, who, extended.left);
                Ok(self.ready(ticket, extended.until_ms))
            }
            Ok(None) => {
                hall.limits.not_extended(who);
                Err(self.not_their_turn())
            }
            Err(ClerkError::Epoch(_)) => Err(self.not_their_turn()),
            Err(_) => Err(self.away()),
        }
    }

    async fn leave(&mut self, ticket: &Ticket) -> Answer {
        let hall = self.caller.hall;
        match hall.clerk.leave(ticket.epoch, ticket.place).await {
            Ok(_) | Err(ClerkError::Epoch(_)) => {}
            Err(_) => return Err(self.away()),
        }
        let who = (ticket.epoch, ticket.place);
        hall.limits.done(who);
        self.caller.gifts.take_ticket(&hall.tokens);
        Ok(self.me(Stage::Nobody, None))
    }

    /// What was heard of a place that still is one.
    async fn heard(&mut self, ticket: &Ticket, heard: Heard) -> Answer {
        match heard {
            Heard::Waits { ticket, is_new } => {
                if is_new && self.caller.give_ticket(&ticket).is_err() {
                    return Err(self.away());
                }
                Ok(self.waits(&ticket).await)
            }
            Heard::Ready { until_ms } => Ok(self.ready(ticket, until_ms)),
            Heard::Passed { at_ms } => self.passed(ticket, at_ms),
            Heard::Full => Ok(self.me(Stage::Provisional, Some(ticket))),
            Heard::Unasked => Err(self.away()),
            Heard::Void { epoch, is_ghost } => Ok(self.void(ticket, epoch, is_ghost)),
        }
    }

    async fn waits(&mut self, ticket: &Ticket) -> Me {
        let who = (ticket.epoch, ticket.place);
        let is_missed = self.caller.hall.limits.missed(who);
        Me {
            ahead: self.exactly(ticket).await,
            reason: is_missed.then_some(Missed::Missed),
            ..self.me(Stage::Waiting, Some(ticket))
        }
    }

    /// How many are ahead exactly: for who is near the front, and looks.
    async fn exactly(&self, ticket: &Ticket) -> Option<u64> {
        let Caller { view, hall, .. } = &self.caller;
        let is_near = view.positions.ahead(ticket.tier, ticket.place) < NEAR;
        let sees = self.caller.head.uri.query() != Some("vis=0");
        if !view.phase.shows_positions() || !is_near || !sees {
            return None;
        }
        let found = hall.clerk.find(ticket.epoch, ticket.tier, ticket.place);
        let found = found.await.ok()?;
        matches!(found.whereabouts, Whereabouts::Waiting(_)).then_some(found.ahead)
    }

    fn ready(&self, ticket: &Ticket, until_ms: u64) -> Me {
        let Caller { hall, now, .. } = self.caller;
        let who = (ticket.epoch, ticket.place);
        let most = hall.plan.extensions_max;
        let left_ms = until_ms.saturating_sub(self.now_ms());
        Me {
            left_ms: Some(left_ms),
            extensions_left: hall.limits.turn(now, who, most),
            ahead: Some(0),
            ..self.me(Stage::Ready, Some(ticket))
        }
    }

    fn passed(&mut self, ticket: &Ticket, at_ms: u64) -> Answer {
        match self.caller.give_pass(ticket, at_ms) {
            Ok(()) => Ok(self.me(Stage::Passed, Some(ticket))),
            Err(_) => Err(self.away()),
        }
    }

    /// A place that leads nowhere any more.
    fn void(&self, ticket: &Ticket, epoch: Option<Epoch>, is_ghost: bool) -> Me {
        if is_ghost {
            return self.me(Stage::Ghost, Some(ticket));
        }
        let mut me = self.me(Stage::Nobody, None);
        me.epoch = epoch.unwrap_or(me.epoch);
        me
    }

    fn me(&self, stage: Stage, ticket: Option<&Ticket>) -> Me {
        let Caller { view, hall, .. } = &self.caller;
        let epoch = ticket.map(|ticket| ticket.epoch).or(view.epoch);
        Me {
            v: VERSION,
            server_now_ms: self.now_ms(),
            state: stage,
            epoch: epoch.unwrap_or(Epoch(0)),
            place: ticket.map(|ticket| ticket.place),
            tier: ticket.map(|ticket| ticket.tier),
            ahead: None,
            left_ms: None,
            extensions_left: hall.plan.extensions_max,
            poll_s: self.poll_s(stage, ticket),
            beat_s: None,
            reason: None,
        }
    }

    /// When to ask again, for an application: a page knows by the room's document.
    fn poll_s(&self, stage: Stage, ticket: Option<&Ticket>) -> Option<f64> {
        if is_browser(&self.caller.head.headers) || !stage.is_kept() {
            return None;
        }
        let Caller { thread, view, .. } = &self.caller;
        let likely = stands(&self.caller, stage, ticket).eta_s;
        let wait = likely.map(|[_, likely, _]| Duration::from_secs(likely));
        let next = view.policy.next(wait, thread.draw(|rng| rng.unit()));
        Some(whole_seconds(next) as f64)
    }

    fn now_ms(&self) -> u64 {
        self.caller.wall().as_micros() / 1_000
    }

    fn not_too_often(&self, ticket: &Ticket, wants: Wants) -> Result<(), Box<Response<Body>>> {
        let Caller { hall, now, .. } = self.caller;
        let who = (ticket.epoch, ticket.place);
        let asked = hall.limits.ask(tick(now), who, wants);
        asked.map_err(|wait| self.too_often(wait))
    }

    fn too_often(&self, wait: Duration) -> Box<Response<Body>> {
        self.caller.hall.counts.too_often.add(1);
        self.refuse(Refusal::RoomDoor, wait)
    }

    fn away(&self) -> Box<Response<Body>> {
        self.refuse(Refusal::RoomAway, AWAY_RETRY)
    }

    fn refuse(&self, refusal: Refusal, wait: Duration) -> Box<Response<Body>> {
        refuse(self.caller.thread, refusal, wait)
    }

    /// The page asks how it stands then.
    fn not_their_turn(&self) -> Box<Response<Body>> {
        let status = StatusCode::CONFLICT;
        let problem = json!({
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "reason": "room_turn",
        });
        let mut response = write_json(status, &problem);
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Box::new(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_is_asked_of_which_room() {
        for (path, expected) in [
            ("room/shop.json", Some((Asked::Document, "shop"))),
            ("me/shop", Some((Asked::Me, "shop"))),
            ("join/shop", Some((Asked::Join, "shop"))),
            ("claim/shop", Some((Asked::Claim, "shop"))),
            ("leave/shop", Some((Asked::Leave, "shop"))),
            ("more-time/shop", Some((Asked::MoreTime, "shop"))),
            ("nojs/shop", Some((Asked::Still, "shop"))),
            ("room/shop", None),
            ("me", None),
            ("you/shop", None),
            ("", None),
        ] {
            assert_eq!(parse(&format!("{PREFIX}{path}")), expected, "{path}");
        }
        assert_eq!(parse("/.tidegate/v2/me/shop"), None);
        assert_eq!(parse("/me/shop"), None);
        // No room is called so.
        let deep = format!("{PREFIX}me/shop/x");
        assert_eq!(parse(&deep), Some((Asked::Me, "shop/x")));
    }

    #[test]
    fn reading_changes_nothing_and_what_changes_something_is_posted() {
        let status = |asked, method: &Method| Own::Room(0, asked).other_method(method);
        let no = Some(StatusCode::METHOD_NOT_ALLOWED);
        for asked in [Asked::Document, Asked::Me, Asked::Still] {
            assert_eq!(status(asked, &Method::GET), None);
            assert_eq!(status(asked, &Method::HEAD), None);
            assert_eq!(status(asked, &Method::POST), no);
            let own = Own::Room(0, asked);
            assert_eq!(own.allows(), "GET, HEAD, OPTIONS");
        }
        for asked in [Asked::Join, Asked::Claim, Asked::Leave, Asked::MoreTime] {
            assert_eq!(status(asked, &Method::POST), None);
            assert_eq!(status(asked, &Method::GET), no);
            assert_eq!(status(asked, &Method::HEAD), no);
            assert_eq!(status(asked, &Method::DELETE), no);
            let options = status(asked, &Method::OPTIONS);
            assert_eq!(options, Some(StatusCode::NO_CONTENT));
        }
        assert_eq!(Own::Keys.other_method(&Method::GET), None);
        assert_eq!(Own::Keys.other_method(&Method::PUT), no);
    }

    #[test]
    fn who_has_the_document_is_not_sent_it_again() {
        let has = |known: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::from_str(known).unwrap());
            has_tag(&headers, b"\"1f-2a\"")
        };

        for known in ["\"1f-2a\"", "W/\"1f-2a\"", "\"x\", \"1f-2a\"", "*"] {
            assert!(has(known), "{known}");
        }
        for known in ["", "\"1f-2b\"", "1f-2a", "\"1f-2a", "W/"] {
            assert!(!has(known), "{known}");
        }
        assert!(!has_tag(&HeaderMap::new(), b"\"1f-2a\""));
    }
}
