//! The request path: one function, read from top to bottom, cheapest refusal first.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::header::EXPECT;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use tidegate_core::deadline;
use tidegate_core::facts::{Class, Facts, RouteId};
use tidegate_core::time::Mono;
use tidegate_http::hops;
use tidegate_http::refusal::Refusal;

use crate::body::{Body, BodyError, Upload};
use crate::breaker::CallBreaker;
use crate::classify::{self, Label};
use crate::cohort;
use crate::context::{Conn, Thread};
use crate::dependency::tags::{self, Busy};
use crate::forward;
use crate::gate::{Entry, Gate, Turned, Wait};
use crate::own;
use crate::plan::{AppPlan, Mode};
use crate::rate::{Asked, Bearer, Charge, Refused, Stage};
use crate::room;
use crate::room::visit::{Comes, Stay, Turned as RoomTurned};
use crate::session::{self, Claim, Dropped, Guest, Need, Settled};
use crate::slot::Slot;
use crate::upstream::exchange::{Answer, NoAnswer, exchange};
use tidegate_http::framing::FramingLog;

/// Answers one request.
///
/// The future may be dropped at any await: hyper does so when the client leaves. Whatever was taken
/// by then is owned by a guard.
pub async fn handle(
    thread: &Arc<Thread>,
    conn: &Conn,
    request: Request<Incoming>,
) -> Response<Body> {
    let shared = &thread.shared;
    if let Err(fault) = conn.framing.next() {
        thread.recorder.bad_request(fault);
        return answer(Refusal::BadFraming, None);
    }
    if let Some(own) = room::answer::recognise(shared, request.uri().path()) {
        let (head, _unread) = request.into_parts();
        return room::answer::serve(thread, conn, &head, own).await;
    }
    if let Some(response) = own::answer(thread, conn, &request) {
        return response;
    }

    let apps = shared.applications().iter().map(|app| &*app.plan);
    let Some(index) = classify::app_of(&request, apps) else {
        return turn_away(thread, Refusal::NoApp);
    };
    let app = &shared.apps[index];
    let now = shared.clock.now();
    let wall = || shared.clock.wall();
    let ignored = |header| thread.recorder.malformed(header);
    let label = classify::label(&request, &app.plan, conn.trusted, now, wall, ignored);
    let mut visit = Visit {
        thread,
        app: index,
        label,
        conn,
        now,
        bearer: Bearer::default(),
        stay: None,
    };

    let (head, incoming) = request.into_parts();
    let upload = Upload::new(incoming, shared.plan.listener.body_timeout);
    let mut response = visit.serve(head, upload).await;
    if let Some(stay) = visit.stay {
        // Whatever the answer is: who was let in and is refused now comes again with their pass.
        stay.finish(response.headers_mut());
    }
    response
}

/// The answer that `refusal` has in the table.
pub fn answer(refusal: Refusal, retry_after_s: Option<u64>) -> Response<Body> {
    let mut response = Response::new(Body::full(refusal.body()));
    *response.status_mut() = refusal.status();
    *response.headers_mut() = refusal.headers(retry_after_s);
    response
}

/// Answers a request that belongs to no application.
pub(crate) fn turn_away(thread: &Thread, refusal: Refusal) -> Response<Body> {
    thread.recorder.turned_away(refusal);
    answer(
        refusal,
        Some(thread.draw(|rng| deadline::retry_after(Duration::ZERO, rng))),
    )
}

/// A request at the door of its application.
struct Visit<'a> {
    thread: &'a Arc<Thread>,
    app: usize,
    label: Label,
    conn: &'a Conn,
    /// When it came to where it is now.
    now: Mono,
    /// What its token says.
    bearer: Bearer,
    /// What it has to do with the waiting rooms of its application.
    stay: Option<Stay<'a>>,
}

impl Visit<'_> {
    /// Has it answered by its application, or says why not.
    async fn serve(&mut self, mut head: Parts, mut upload: Upload) -> Response<Body> {
        let mut charge = Charge::new(self.thread);
        let received = self.receive(&head, &mut upload, &mut charge).await;
        let (mut slot, guest) = match received {
            Ok(received) => received,
            Err(left) => return self.left(left),
        };

        forward::rewrite(&mut head, self.conn, &self.plan().upstream);
        forward::say_deadline(&mut head, self.label.deadline, slot.sent());
        self.introduce(&guest, &mut head.headers, &mut slot);
        let request = Request::from_parts(head, upload);
        charge.sent();
        match exchange(slot, request, guest.holder()).await {
            Ok(Answer {
                response,
                mut orders,
            }) => {
                charge.answered(response.headers());
                if let Some(stay) = &mut self.stay {
                    stay.obey(&mut orders);
                }
                let route = self.label.route;
                let settled = orders.settle(self.thread, self.app, route, guest).await;
                self.finish(response, settled)
            }
            Err(no_answer) => {
                if no_answer.came_before_sending() {
                    charge.not_sent();
                }
                self.no_answer(no_answer)
            }
        }
    }

    /// What a request is told that got no slot.
    fn left(&self, left: Left) -> Response<Body> {
        match left {
            Left::Turned(turned) => self.refuse(turned.reason.into(), turned.drain),
            Left::Rate(refused) => self.over_rate(&refused),
            Left::Room(turned) => self.waits(*turned),
            Left::StoreAway => self.refuse(Refusal::StoreAway, Duration::ZERO),
            Left::Busy((refusal, wait)) => self.refuse(refusal, wait),
            // Counted when it left the queue.
            Left::Body(refusal) => self.answer(refusal, Duration::ZERO),
        }
    }

    /// A slot for the request, and who sends it.
    ///
    /// It waits as what its cookies show without anybody being asked, and its session is asked for
    /// once it has its slot: whatever is refused for want of capacity, at once or after a wait, has cost
    /// the store nothing. A ticket whose session turns out to be over has got its slot for the last
    /// time: the desk knows then. Where there are no tickets the class cannot be known without asking, and the
    /// question comes first, unless even the highest class would be refused.
    ///
    /// Rate limits that need no session are asked before everything else, the others as soon as the session is
    /// known. Whatever `charge` has then been charged it gives back if the request is refused after all.
    ///
    /// Behind a waiting room nobody is refused for want of capacity who could wait there.
    async fn receive(
        &mut self,
        head: &Parts,
        upload: &mut Upload,
        charge: &mut Charge<'_>,
    ) -> Result<(Slot, Guest), Left> {
        let headers = &head.headers;
        let busy = self.busy();
        if let Some(busy) = busy.filter(|_| !self.has_room()) {
            self.arrived();
            return Err(Left::Busy(busy));
        }
        let asked = self.asked(headers, None);
        if let Err(refused) = charge.take(Stage::Edge, &asked).await {
            self.arrived();
            return Err(Left::Rate(refused));
        }
        let mut claim = Claim::of(
            self.thread,
            self.app,
            self.label.route,
            self.label.class,
            headers,
        );
        let facts = self.facts(claim.as_ref(), headers, upload);
        if let Err(left) = self.pass_room(head, claim.as_mut(), busy, facts).await {
            self.arrived();
            return Err(left);
        }
        self.admit(claim, facts, headers, upload, charge).await
    }

    /// Step 9: whoever has to wait is answered by the room.
    async fn pass_room(
        &mut self,
        head: &Parts,
        claim: Option<&mut Claim<'_>>,
        busy: Option<Busy>,
        facts: Facts,
    ) -> Result<(), Left> {
        let comes = Comes {
            thread: self.thread,
            app: self.app,
            route: self.label.route,
            conn: self.conn,
            head,
            now: self.now,
        };
        let (gate, now) = (&self.thread.shared.apps[self.app].gate, self.now);
        let has_room = || busy.is_none() && gate.peek(now, facts).is_none();
        let stay = room::visit::step(&comes, claim, busy.is_some(), has_room).await;
        self.stay = stay.map_err(Left::Room)?;
        if self.stay.is_some() {
            // Its answer may have taken its time.
            self.now = self.thread.shared.clock.now();
        }
        busy.map_or(Ok(()), |busy| Err(Left::Busy(busy)))
    }

    /// A slot for a request that has no line to stand in, or has passed it, and who sends it.
    async fn admit(
        &mut self,
        mut claim: Option<Claim<'_>>,
        mut facts: Facts,
        headers: &HeaderMap,
        upload: &mut Upload,
        charge: &mut Charge<'_>,
    ) -> Result<(Slot, Guest), Left> {
        let usual = self.label.class;
        let expects_continue = headers.contains_key(EXPECT);
        if self.plan().mode == Mode::Shadow {
            let guest = self.ask(claim, usual, &mut facts).await;
            self.arrived();
            // Limits only count here, as everything does.
            self.charge_known(&guest, headers, charge).await?;
            return Ok((self.enter_shadow(facts), guest));
        }

        let earned = claim.as_mut().and_then(Claim::earns);
        facts.class = earned.map_or(usual, |earned| self.label.class_with(earned));
        if claim.as_ref().is_some_and(Claim::has_unknown_class) {
            let gate = &self.thread.shared.apps[self.app].gate;
            if let Some(turned) = gate.peek(self.now, facts) {
                self.arrived();
                return Err(Left::Turned(turned));
            }
            let guest = self.ask(claim, usual, &mut facts).await;
            self.arrived();
            self.require_store(&guest)?;
            self.charge_known(&guest, headers, charge).await?;
            let slot = self.enter(facts, expects_continue, upload).await?;
            return Ok((self.ready(slot, facts).await?, guest));
        }

        self.label.class = facts.class;
        self.arrived();
        let mut slot = self.enter(facts, expects_continue, upload).await?;
        let guest = self.ask(claim, usual, &mut facts).await;
        let allowed = match self.require_store(&guest) {
            Ok(()) => self.charge_known(&guest, headers, charge).await,
            Err(left) => Err(left),
        };
        if let Err(left) = allowed {
            slot.give_back();
            return Err(left);
        }
        if let Guest::Known(_) = guest {
            slot.send(self.now, facts.class);
        }
        Ok((self.ready(slot, facts).await?, guest))
    }

    /// Asks for the session, and gives the request the class that it earns, or else the `usual` one.
    async fn ask(&mut self, claim: Option<Claim<'_>>, usual: Class, facts: &mut Facts) -> Guest {
        let guest = match claim {
            Some(claim) => claim.ask().await,
            None => Guest::Uninvolved,
        };
        if let Guest::Known(_) = guest {
            // The answer took its time.
            self.now = self.thread.shared.clock.now();
        }
        let earned = guest.class();
        self.label.labelled |= earned.is_some();
        self.label.class = earned.map_or(usual, |earned| self.label.class_with(earned));
        facts.class = self.label.class;
        guest
    }

    /// Refuses a request that needs its session while the store is away.
    fn require_store(&self, guest: &Guest) -> Result<(), Left> {
        let required = self.plan().routes[self.label.route].session.need == Need::Required;
        let desk = self.thread.shared.desk.as_ref();
        if required && guest.lacks_store(desk) {
            return Err(Left::StoreAway);
        }
        Ok(())
    }

    /// Spends from the limits that count by users.
    async fn charge_known(
        &self,
        guest: &Guest,
        headers: &HeaderMap,
        charge: &mut Charge<'_>,
    ) -> Result<(), Left> {
        let asked = self.asked(headers, guest.uid());
        charge.take(Stage::Known, &asked).await.map_err(Left::Rate)
    }

    /// What rate limits may look at.
    fn asked<'r>(&'r self, headers: &'r HeaderMap, uid: Option<&'r str>) -> Asked<'r> {
        Asked {
            app: self.app,
            route: self.label.route,
            route_name: &self.plan().routes[self.label.route].name,
            headers,
            conn: self.conn,
            bearer: &self.bearer,
            uid,
        }
    }

    fn arrived(&self) {
        let Label {
            class, labelled, ..
        } = self.label;
        self.thread.recorder.arrived(self.app, class, labelled);
    }

    /// What is known of it as it comes.
    fn facts(&self, claim: Option<&Claim<'_>>, headers: &HeaderMap, upload: &Upload) -> Facts {
        Facts {
            class: self.label.class,
            route: RouteId(self.label.route as u16),
            group: self.label.group,
            deadline: self.label.deadline,
            bytes: upload.bytes_kept_at_most(),
            cohort: self.cohort(claim, headers),
            retry: self.label.retry,
        }
    }

    fn cohort(&self, claim: Option<&Claim<'_>>, headers: &HeaderMap) -> u8 {
        let shared = &self.thread.shared;
        let tag = claim.and_then(Claim::tag);
        let session = tag.as_ref().map(|tag| tag.as_str().as_bytes());
        let session = session.or_else(|| classify::session(headers, self.plan()));
        let peer = self.conn.peer.ip();
        let address = match session {
            None if self.conn.trusted => cohort::client(headers, peer, &shared.plan.trusted),
            _ => peer,
        };
        shared.cohorts.of(self.now, session, address)
    }

    async fn enter(
        &self,
        facts: Facts,
        expects_continue: bool,
        upload: &mut Upload,
    ) -> Result<Slot, Left> {
        match Gate::enter(self.thread, self.app, self.now, facts) {
            Entry::Admitted(slot) => {
                let recorder = &self.thread.recorder;
                recorder.admitted(self.app, facts.class, None);
                Ok(slot)
            }
            Entry::Refused(turned) => Err(Left::Turned(turned)),
            // Asking for a body that was announced with Expect makes the client send it: a refusal
            // before that is the cheaper one, so it is left alone, and a client that leaves is only
            // seen later.
            Entry::Waiting(wait) if expects_continue => wait.await.map_err(Left::Turned),
            Entry::Waiting(wait) => wait_and_read(wait, upload, self.conn).await,
        }
    }

    /// Why the application, or something that its route calls, cannot be asked now.
    fn busy(&self) -> Option<Busy> {
        let breaker = self.breaker();
        if let Some(wait) = breaker.and_then(|breaker| breaker.refuses_for(self.now)) {
            return Some((Refusal::Breaker, wait));
        }
        tags::look(self.thread, self.calls()).err()
    }

    /// Whether its route is behind a waiting room.
    fn has_room(&self) -> bool {
        let rooms = &self.thread.shared.apps[self.app].rooms;
        !rooms.is_empty() && self.plan().routes[self.label.route].room.is_some()
    }

    /// What stops calling the application, where that binds.
    fn breaker(&self) -> Option<&Arc<CallBreaker>> {
        let app = &self.thread.shared.apps[self.app];
        app.breaker
            .as_ref()
            .filter(|_| app.plan.mode == Mode::Enforce)
    }

    /// The dependencies that the route calls by itself, where they bind.
    fn calls(&self) -> &[usize] {
        match self.plan().mode {
            Mode::Enforce => &self.plan().routes[self.label.route].dependencies,
            Mode::Shadow => &[],
        }
    }

    /// Takes what the request in `slot`, which has not been sent, needs of dependencies, and has the breaker told what
    /// becomes of it.
    async fn ready(&self, mut slot: Slot, facts: Facts) -> Result<Slot, Left> {
        let now = self.thread.shared.clock.now();
        // First the breaker: what it refuses has then spent nothing of the dependencies' rates.
        let call = self.breaker().map(|breaker| breaker.admit(now));
        let call = call.transpose().map_err(|wait| (Refusal::Breaker, wait));
        let busy = match call {
            Err(busy) => busy,
            Ok(call) => match tags::take(self.thread, self.calls(), now, facts).await {
                Ok(others) => {
                    slot.hold_with(others);
                    slot.tell(call);
                    return Ok(slot);
                }
                Err(busy) => busy,
            },
        };
        slot.give_back();
        Err(Left::Busy(busy))
    }

    fn enter_shadow(&self, facts: Facts) -> Slot {
        let (slot, verdict) = Gate::enter_shadow(self.thread, self.app, self.now, facts);
        let recorder = &self.thread.recorder;
        recorder.shadow(self.app, facts.class, verdict);
        recorder.admitted(self.app, facts.class, None);
        slot
    }

    /// Tells the application of the session and of the waiting room, and takes out what others say of them.
    fn introduce(&mut self, guest: &Guest, headers: &mut HeaderMap, slot: &mut Slot) {
        if let Some(stay) = &self.stay {
            stay.redact(headers, self.conn.trusted);
        }
        let has_desk = self.thread.shared.desk.is_some();
        if let Some(plan) = self.plan().sessions.as_ref().filter(|_| has_desk) {
            if self.conn.trusted {
                // What strangers say has been taken out already.
                hops::strip_session(headers);
            }
            session::redact(headers, plan);
            guest.introduce(&self.plan().routes[self.label.route], headers);
        }
        if let Some(stay) = &mut self.stay {
            stay.send(guest, headers, slot);
        }
    }

    /// The answer of the application, with what the session makes of it.
    fn finish(&mut self, mut response: Response<Body>, settled: Settled) -> Response<Body> {
        if let Some(stay) = &mut self.stay {
            stay.settle(settled.since);
        }
        let sessions = self.plan().sessions.as_ref();
        if sessions.is_some_and(|plan| settled.fails(plan.on_unstored)) {
            response = self.refuse(Refusal::SessionUnstored, Duration::ZERO);
        } else {
            let recorder = &self.thread.recorder;
            recorder.answered(self.app, response.status());
            if let Some(plan) = sessions {
                let count = session::take_out_foreign(response.headers_mut(), plan);
                recorder.session_dropped(self.app, Dropped::OwnCookie, count);
            }
        }
        settled.cookies.put_on(response.headers_mut());
        response
    }

    fn no_answer(&self, no_answer: NoAnswer) -> Response<Body> {
        match no_answer {
            NoAnswer::Failed(failure) => self.refuse(failure.into(), Duration::ZERO),
            NoAnswer::Client(BodyError::ClientSilent) => {
                self.refuse(Refusal::BodyTimeout, Duration::ZERO)
            }
            NoAnswer::Client(_) => match body_refusal(&self.conn.framing) {
                // It was admitted, and counted as work for a caller who had gone: as a refusal it
                // would be counted twice.
                Refusal::ClientGone => self.answer(Refusal::ClientGone, Duration::ZERO),
                refusal => self.refuse(refusal, Duration::ZERO),
            },
        }
    }

    fn plan(&self) -> &AppPlan {
        &self.thread.shared.apps[self.app].plan
    }

    /// What the room says.
    fn waits(&self, turned: RoomTurned) -> Response<Body> {
        let RoomTurned { response, refusal } = turned;
        let recorder = &self.thread.recorder;
        recorder.refused(self.app, self.label.class, refusal);
        // As what it is, whatever status its page is configured to have.
        recorder.answered(self.app, refusal.status());
        response
    }

    fn over_rate(&self, refused: &Refused) -> Response<Body> {
        let refusal = refused.refusal();
        let recorder = &self.thread.recorder;
        recorder.refused(self.app, self.label.class, refusal);
        recorder.answered(self.app, refusal.status());
        refused.answer(self.thread)
    }

    fn refuse(&self, refusal: Refusal, drain: Duration) -> Response<Body> {
        let recorder = &self.thread.recorder;
        recorder.refused(self.app, self.label.class, refusal);
        self.answer(refusal, drain)
    }

    /// Answers with a refusal that is counted already.
    fn answer(&self, refusal: Refusal, drain: Duration) -> Response<Body> {
        if refusal != Refusal::ClientGone {
            let recorder = &self.thread.recorder;
            recorder.answered(self.app, refusal.status());
        }
        let seconds = refusal
            .says_when_to_retry()
            .then(|| self.thread.draw(|rng| deadline::retry_after(drain, rng)));
        answer(refusal, seconds)
    }
}

/// How a request left the queue without a slot.
enum Left {
    Turned(Turned),
    /// It is over a rate limit.
    Rate(Refused),
    /// Its room has answered it.
    Room(Box<RoomTurned>),
    /// It needs its session, and the store is away.
    StoreAway,
    /// The application, or something that its route calls, cannot be asked now.
    Busy(Busy),
    /// Its body broke off.
    Body(Refusal),
}

/// Waits for a slot and meanwhile reads the body, which is how a client that leaves is seen while
/// its body is on its way.
async fn wait_and_read(mut wait: Wait, upload: &mut Upload, conn: &Conn) -> Result<Slot, Left> {
    let entered = std::future::poll_fn(|context| {
        if let Poll::Ready(entered) = Pin::new(&mut wait).poll(context) {
            return Poll::Ready(Some(entered));
        }
        upload.poll_keep(context).map(|_| None)
    })
    .await;
    match entered {
        Some(entered) => entered.map_err(Left::Turned),
        None => {
            let refusal = body_refusal(&conn.framing);
            wait.leave_for(refusal);
            Err(Left::Body(refusal))
        }
    }
}

/// Why a body broke off: what came was none, or nothing more came.
pub(crate) fn body_refusal(framing: &FramingLog) -> Refusal {
    match framing.body_fault() {
        Some(_) => Refusal::BadFraming,
        None => Refusal::ClientGone,
    }
}
