//! What a request has to do with the rooms of its application from its head to its answer: who is behind it, which passes it
//! shows, and what the answer gives or takes.
//!
//! Passes are tied to the visitor's session, whose id may be another one by the time of the answer. Then each pass that the
//! request shows is given anew in the same answer, also where its route is outside the room: somebody may sign in at the till.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use smallvec::SmallVec;
use tidegate_core::room::{Standing, Tier};
use tidegate_core::session::SessionId;
use tidegate_http::names::{
    COMMAND, TIDEGATE_DEVICE, TIDEGATE_PASS, TIDEGATE_TICKET, TIDEGATE_TIER,
};

use super::caller::{address_of, bond_to, read};
use super::command::{Command, Wishes};
use super::gifts::Gifts;
use super::{Comes, In, is_browser, resume};
use crate::context::{App, Shared, Thread};
use crate::rate::tick;
use crate::room::hall::Hall;
use crate::room::{Bond, Device, Given, Moment, Using};
use crate::session::{Claim, Cookies, Dropped, Guest, Orders, Shown, Since, take_out};
use crate::slot::Slot;

/// What a request has to do with the rooms of its application.
pub(crate) struct Stay<'t> {
    thread: &'t Arc<Thread>,
    app: usize,
    /// The room that it is behind, if it is.
    room: Option<usize>,
    address: IpAddr,
    is_browser: bool,
    shown: Shown,
    /// Until when it says that there is something to go on with.
    resume_until: Option<u64>,
    /// Whether there is.
    resumes: bool,
    /// As what its sender came through the room.
    tier: Option<Tier>,
    device: Option<Device>,
    passes: SmallVec<[Kept; 1]>,
    using: Option<Using>,
    command: Command,
}

/// The pass of a room.
struct Kept {
    room: usize,
    /// As it was shown, or given.
    text: Option<String>,
    gifts: Gifts,
}

impl<'t> Stay<'t> {
    /// Of a request behind `room`, or outside.
    pub(super) fn begin(
        comes: &Comes<'t, '_>,
        claim: Option<&mut Claim<'_>>,
        room: Option<usize>,
    ) -> Self {
        let thread = comes.thread;
        let shared = &thread.shared;
        let app = &shared.apps[comes.app];
        let headers = &comes.head.headers;
        let shown = match (claim, room) {
            (Some(claim), _) => claim.shown(),
            // The route has nothing to do with sessions, and the pass has.
            (None, Some(_)) => shown(thread, comes.app, headers),
            (None, None) => Shown::default(),
        };
        let mut stay = Self {
            thread,
            app: comes.app,
            room,
            address: address_of(shared, comes.conn, headers),
            is_browser: is_browser(headers),
            shown,
            resume_until: resume_until(shared, app, headers),
            resumes: false,
            tier: None,
            device: None,
            passes: SmallVec::new(),
            using: None,
            command: Command::default(),
        };
        for other in app.rooms.iter().copied().filter(|it| Some(*it) != room) {
            let (text, device) = shared.halls[other].tokens.find(headers);
            stay.device = device.or(stay.device);
            if let Some(text) = text {
                stay.passes.push(Kept {
                    room: other,
                    text: Some(text.to_owned()),
                    gifts: Gifts::default(),
                });
            }
        }
        stay
    }

    /// The sessions that the cookies prove.
    pub(super) fn sessions(&self) -> &[SessionId] {
        &self.shown.ids
    }

    pub(super) const fn address(&self) -> IpAddr {
        self.address
    }

    /// The tier that its sender waits in, without anybody having been asked.
    pub(super) const fn standing(&self) -> Tier {
        tier_of(self.resume_until.is_some(), self.shown.is_signed_in)
    }

    /// It goes in.
    pub(super) fn go_in(&mut self, entered: In) {
        let In {
            tier,
            pass,
            gifts,
            device,
            using,
        } = entered;
        self.tier = tier;
        self.device = device.or_else(|| self.device.take());
        self.using = using;
        if let Some(room) = self.room.filter(|_| pass.is_some() || !gifts.is_empty()) {
            self.passes.push(Kept {
                room,
                text: pass,
                gifts,
            });
        }
    }

    /// Takes out of what the application gets what is nobody's business but ours.
    pub(crate) fn redact(&self, headers: &mut HeaderMap, is_trusted: bool) {
        if is_trusted {
            // What strangers say has been taken out already.
            for name in [
                TIDEGATE_TICKET,
                TIDEGATE_PASS,
                TIDEGATE_DEVICE,
                TIDEGATE_TIER,
            ] {
                headers.remove(name);
            }
        }
        let halls = || self.halls();
        take_out(headers, |name| {
            halls().any(|hall| hall.tokens.has_cookie(name))
        });
    }

    /// Tells the application from which tier somebody came, unless the session says of which tier its user is; and holds
    /// the pass's budget for as long as the application is at work.
    pub(crate) fn send(&mut self, guest: &Guest, headers: &mut HeaderMap, slot: &mut Slot) {
        self.resumes = guest.can_resume();
        if !headers.contains_key(TIDEGATE_TIER) {
            headers.insert(TIDEGATE_TIER, number(self.tier));
        }
        if let Some(using) = self.using.take() {
            slot.hold_pass(using);
        }
    }

    /// Takes in what the application commands its room.
    pub(crate) fn obey(&mut self, orders: &mut Orders) {
        let lines = orders.take(COMMAND);
        if lines.is_empty() {
            return;
        }
        let (command, malformed) = Command::parse(&lines);
        if malformed > 0 {
            let recorder = &self.thread.recorder;
            recorder.session_dropped(self.app, Dropped::Malformed, malformed);
        }
        self.command = command;
        let shared = &self.thread.shared;
        let room = (self.room).or_else(|| shared.apps[self.app].rooms.first().copied());
        if let Some(hall) = room.and_then(|room| shared.halls.get(room)) {
            Wishes::take_in(hall, &self.thread.runtime, &command);
        }
    }

    /// Has passes go on with what has become of the session.
    pub(crate) fn settle(&mut self, since: Since) {
        let halls = &self.thread.shared.halls;
        if self.command.end {
            for kept in &mut self.passes {
                kept.gifts.take_all(&halls[kept.room].tokens);
            }
            return;
        }
        let span = self.command.extend;
        if since == Since::Same && span.is_none() {
            return;
        }
        if since == Since::Gone {
            self.give_device();
        }
        for at in 0..self.passes.len() {
            let bond = match &since {
                Since::Same => None,
                Since::Is(id) => Some(bond_to(id)),
                Since::Gone => self.device.as_ref().map(Bond::Device),
            };
            if let Some(given) = self.again(&self.passes[at], bond.as_ref(), span) {
                self.passes[at].gifts.pass = Some(given);
            }
        }
    }

    /// Puts on the answer what it gives.
    pub(crate) fn finish(self, headers: &mut HeaderMap) {
        let mut cookies = Cookies::default();
        for kept in &self.passes {
            for line in kept.gifts.cookies() {
                cookies.add(line.clone());
            }
        }
        let shared = &self.thread.shared;
        let now = shared.clock.wall();
        let plan = shared.apps[self.app].plan.sessions.as_ref();
        if let Some(plan) = plan.filter(|_| self.resumes)
            && resume::is_due(self.resume_until, now)
        {
            cookies.add(resume::give(plan, now));
        }
        if cookies.is_empty() {
            return;
        }
        cookies.put_on(headers);
        if !self.is_browser {
            for kept in &self.passes {
                kept.gifts.say(headers);
            }
        }
    }

    /// The pass again, tied to something else or for longer. `None` for one that is not good.
    fn again(&self, kept: &Kept, bond: Option<&Bond<'_>>, span: Option<Duration>) -> Option<Given> {
        let hall = &self.thread.shared.halls[kept.room];
        let now = self.thread.shared.clock.now();
        let wall = hall.view().wall(now);
        let given = kept.gifts.pass.as_ref().map(|given| &given.text);
        let text = given.or(kept.text.as_ref())?;
        let mut headers = HeaderMap::with_capacity(2);
        headers.insert(TIDEGATE_PASS, HeaderValue::from_str(text).ok()?);
        if let Some(device) = &self.device {
            let device = HeaderValue::from_str(&device.write()).ok()?;
            headers.insert(TIDEGATE_DEVICE, device);
        }
        let moment = Moment {
            wall,
            tick: tick(now),
        };
        let held = read(
            &hall.tokens,
            moment,
            &headers,
            self.address,
            &self.shown.ids,
        );
        let pass = held.ok()?.pass.ok()?;
        let again = match (bond, span) {
            (Some(bond), None) => hall.tokens.rebind(wall, &pass, bond),
            (bond, span) => {
                let span = span.unwrap_or_default();
                hall.tokens.extend(wall, &pass, bond, span)
            }
        };
        again.ok().flatten()
    }

    /// Gives who shows a pass and has no secret for their device one.
    fn give_device(&mut self) {
        let Some(kept) = self.passes.first_mut().filter(|_| self.device.is_none()) else {
            return;
        };
        let device = Device::draw();
        let tokens = &self.thread.shared.halls[kept.room].tokens;
        kept.gifts.device = Some(tokens.give_device(&device));
        self.device = Some(device);
    }

    fn halls(&self) -> impl Iterator<Item = &Hall> {
        let shared = &self.thread.shared;
        let rooms = shared.apps[self.app].rooms.iter();
        rooms.map(|room| &*shared.halls[*room])
    }
}

/// Who the cookies of a request to `app` show to be behind it, and the tier that they wait in.
pub(crate) fn known(thread: &Arc<Thread>, app: usize, headers: &HeaderMap) -> (Shown, Tier) {
    let shared = &thread.shared;
    let shown = shown(thread, app, headers);
    let can_resume = resume_until(shared, &shared.apps[app], headers).is_some();
    let tier = tier_of(can_resume, shown.is_signed_in);
    (shown, tier)
}

/// The first of that, for who asks although its route does not.
fn shown(thread: &Arc<Thread>, app: usize, headers: &HeaderMap) -> Shown {
    let claim = Claim::read(thread, app, 0, headers);
    claim.map(|mut claim| claim.shown()).unwrap_or_default()
}

/// The tier of somebody who shows so much.
const fn tier_of(can_resume: bool, is_signed_in: bool) -> Tier {
    match Standing::of(false, can_resume, is_signed_in) {
        Standing::Waits(tier) => tier,
        // That is a matter of routes, and they are outside.
        Standing::InFlight => Tier::Returning,
    }
}

/// Until when `headers` say that there is something to go on with.
fn resume_until(shared: &Shared, app: &App, headers: &HeaderMap) -> Option<u64> {
    let plan = app.plan.sessions.as_ref()?;
    shared.desk.as_ref()?;
    resume::read(headers, plan, shared.clock.wall())
}

/// As an application is told a tier; 0 for who came through no room.
fn number(tier: Option<Tier>) -> HeaderValue {
    HeaderValue::from_static(match tier {
        None => "0",
        Some(Tier::Returning) => "1",
        Some(Tier::SignedIn) => "2",
        Some(Tier::Anonymous) => "3",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_gone_on_with_counts_before_being_signed_in() {
        assert_eq!(tier_of(true, true), Tier::Returning);
        assert_eq!(tier_of(true, false), Tier::Returning);
        assert_eq!(tier_of(false, true), Tier::SignedIn);
        assert_eq!(tier_of(false, false), Tier::Anonymous);
    }

    #[test]
    fn an_application_is_told_the_number_of_a_tier() {
        assert_eq!(number(None), "0");
        for tier in Tier::ALL {
            assert_eq!(number(Some(tier)), tier.number().to_string());
        }
    }
}
