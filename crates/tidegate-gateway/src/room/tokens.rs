//! The tokens of one room: reading those of a request, and giving new ones.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use tidegate_core::rate::Tick;
use tidegate_core::room::{Epoch, RoomName};
use tidegate_core::time::Wall;

use super::bond::{Bond, Device};
use super::budget::{Budgets, Spent, Using};
use super::checks::Checks;
use super::cookies::Names;
use super::held::{Admission, Given, Held, Moment, Pass, Visitor};
use super::keys::{Keys, NoSigner, seconds};
use super::pass::{Claims, Form, PassId};
use super::plan::{BadTokens, TokensPlan};
use super::revoked::Revoked;
use super::ticket::{Ticket, padded};
use super::verified::{Known, Verified};
use super::why::{Ambiguous, Why};

/// The tokens of one room.
pub struct Tokens {
    plan: TokensPlan,
    names: Names,
    standing: RwLock<Arc<Standing>>,
    verified: Verified,
    checks: Checks,
    budgets: Arc<Budgets>,
}

/// What a visitor shows beside a pass, any of which it may belong to.
struct Shows<'a> {
    sessions: &'a [&'a [u8]],
    device: Option<&'a Device>,
    ticket: Option<&'a Ticket>,
}

/// What may change while the room is open.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The keys.
    pub keys: Keys,
    /// Which epoch the room is in; `None` while nobody knows, as without a store. Then those of any are read.
    pub epoch: Option<Epoch>,
    /// What was taken back.
    pub revoked: Revoked,
}

impl Tokens {
    /// Those of a room.
    ///
    /// # Errors
    ///
    /// When the plan cannot be kept.
    pub fn new(plan: TokensPlan, standing: Standing) -> Result<Self, BadTokens> {
        plan.check()?;
        let budgets = Budgets::new(&plan.budgets, plan.passes_max).map_err(BadTokens::Rate)?;
        Ok(Self {
            names: Names::of(&plan.room, plan.transport),
            standing: RwLock::new(Arc::new(standing)),
            verified: Verified::new(plan.verified_max),
            checks: Checks::new(plan.checks).map_err(BadTokens::Rate)?,
            budgets: Arc::new(budgets),
            plan,
        })
    }

    /// Goes on with other keys, in another epoch, or with more taken back; it holds from the next request on.
    pub fn stand(&self, standing: Standing) {
        let mut place = self
            .standing
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(standing);
    }

    /// What may change, as it is.
    pub fn standing(&self) -> Arc<Standing> {
        let place = self.standing.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&place)
    }

    /// What the visitor holds whose request has these headers.
    ///
    /// # Errors
    ///
    /// When it has two different tokens of a kind.
    pub fn read<'r>(
        &self,
        now: Moment,
        headers: &'r HeaderMap,
        visitor: &Visitor<'_>,
    ) -> Result<Held<'r>, Ambiguous> {
        let found = self.names.find(headers)?;
        let standing = self.standing();
        let device = found.device.and_then(Device::read);
        let ticket = match found.ticket {
            None => Err(Why::Absent),
            Some(text) => {
                let (keys, epoch) = (&standing.keys, standing.epoch);
                Ticket::read(text, &self.plan.room, epoch, keys, now.wall)
            }
        };
        let shows = Shows {
            sessions: visitor.sessions,
            device: device.as_ref(),
            ticket: ticket.as_ref().ok(),
        };
        let pass = match found.pass.map(str::from_utf8) {
            None => Err(Why::Absent),
            Some(Err(_)) => Err(Why::Malformed),
            Some(Ok(text)) => self.pass(now, text, &standing, visitor, &shows),
        };
        Ok(Held {
            ticket,
            pass,
            device,
        })
    }

    /// Gives a ticket.
    ///
    /// # Errors
    ///
    /// When no secret signs.
    pub fn issue_ticket(&self, now: Wall, ticket: &Ticket) -> Result<Given, NoSigner> {
        let standing = self.standing();
        let text = ticket.write(&self.plan.room, standing.keys.secret(now)?);
        let set_cookie = self.names.give_ticket(&text);
        Ok(Given { text, set_cookie })
    }

    /// Gives a pass, from `now` on. For the same place and the same second it says the same each time, and with
    /// any other algorithm than ES256 it is the same to the byte.
    ///
    /// # Errors
    ///
    /// When no key signs.
    pub fn issue_pass(
        &self,
        now: Wall,
        admission: &Admission,
        bond: &Bond<'_>,
    ) -> Result<Given, NoSigner> {
        let standing = self.standing();
        let (room, epoch) = (&self.plan.room, admission.epoch);
        let absolute = second(now, self.plan.absolute);
        let claims = Claims {
            id: self.pass_id(&standing.keys, now, admission)?,
            issued: second(now, Duration::ZERO),
            expires: second(now, self.plan.idle).min(absolute),
            absolute,
            epoch,
            fence: admission.fence,
            tier: admission.tier,
            bond: bond.tag(room, epoch),
            class: admission.class,
        };
        self.give(now, &claims, &standing)
    }

    /// Gives `pass` again, for another idle window, when less than half of the one that it has is left; `None` when it
    /// is not time, or its absolute end does not let it live longer.
    ///
    /// # Errors
    ///
    /// When no key signs.
    pub fn renew(&self, now: Wall, pass: &Pass<'_>) -> Result<Option<Given>, NoSigner> {
        let left = u64::from(pass.known.expires).saturating_sub(seconds(now));
        let is_early = left * 2 >= self.plan.idle.as_secs();
        if is_early || pass.known.expires == pass.known.absolute {
            return Ok(None);
        }
        self.again(now, pass, None, self.plan.idle)
    }

    /// Gives `pass` again, at any time, tied to something else: after a sign-in, or where the session has another id.
    /// `None` when it is over by now.
    ///
    /// # Errors
    ///
    /// When no key signs.
    pub fn rebind(
        &self,
        now: Wall,
        pass: &Pass<'_>,
        bond: &Bond<'_>,
    ) -> Result<Option<Given>, NoSigner> {
        self.again(now, pass, Some(bond), self.plan.idle)
    }

    /// Gives `pass` again, at any time, for `span` from now on or for as long as it lives without use, whichever is longer;
    /// tied to something else if `bond` says so. `None` when it is over by now.
    ///
    /// # Errors
    ///
    /// When no key signs.
    pub fn extend(
        &self,
        now: Wall,
        pass: &Pass<'_>,
        bond: Option<&Bond<'_>>,
        span: Duration,
    ) -> Result<Option<Given>, NoSigner> {
        self.again(now, pass, bond, span.max(self.plan.idle))
    }

    /// Which pass somebody has who is let in so, for whoever has the secret that signs now.
    ///
    /// # Errors
    ///
    /// When no key signs.
    pub fn id_of(&self, now: Wall, admission: &Admission) -> Result<PassId, NoSigner> {
        self.pass_id(&self.standing().keys, now, admission)
    }

    /// What `headers` have for a pass, whatever it is worth, and the secret of the device.
    pub(crate) fn find<'r>(&self, headers: &'r HeaderMap) -> (Option<&'r str>, Option<Device>) {
        let found = self.names.find(headers).unwrap_or_default();
        let pass = found.pass.and_then(|text| str::from_utf8(text).ok());
        (pass, found.device.and_then(Device::read))
    }

    /// Whether the cookie of this name is one of the room's, or the device's.
    pub(crate) fn has_cookie(&self, name: &[u8]) -> bool {
        self.names.has(name)
    }

    /// Gives a browser the secret of its device.
    pub fn give_device(&self, device: &Device) -> Given {
        let text = device.write();
        let set_cookie = self.names.give_device(&text);
        Given { text, set_cookie }
    }

    /// What takes ticket and pass from a browser.
    pub fn take_cookies(&self) -> [HeaderValue; 2] {
        self.names.take()
    }

    /// Lets a request with this pass in.
    ///
    /// # Errors
    ///
    /// When its budget is used up.
    pub fn begin(&self, now: Tick, pass: &Pass<'_>) -> Result<Using, Spent> {
        self.budgets.begin(now, pass.known.id, pass.known.class)
    }

    /// The same for who is given the pass of this id with the answer, and has not shown it.
    pub(crate) fn begin_of(&self, now: Tick, id: PassId, class: u8) -> Result<Using, Spent> {
        self.budgets.begin(now, id, class)
    }

    /// Whether a pass of this id that was given at `at` was taken back.
    pub(crate) fn is_taken_back(&self, at: Wall, id: PassId) -> bool {
        self.standing().revoked.has(id, second(at, Duration::ZERO))
    }

    /// The pass in `text`. What costs nothing is asked first, and what changes with time and visitor each time.
    fn pass<'r>(
        &self,
        now: Moment,
        text: &'r str,
        standing: &Standing,
        visitor: &Visitor<'_>,
        shows: &Shows<'_>,
    ) -> Result<Pass<'r>, Why> {
        let form = Form::of(text, &standing.keys, now.wall)?;
        let key = Verified::key(text, form.key, standing.epoch);
        let (known, epoch) = match self.verified.find(&key) {
            Some(known) => {
                Claims::hold_at(known.issued, known.expires, now.wall)?;
                (known, standing.epoch)
            }
            None => {
                let algorithm = form.key.algorithm();
                let spent = self.checks.spend(now.tick, visitor.address, algorithm);
                spent.map_err(|wait_us| Why::Unverified { wait_us })?;
                let claims = form.verified(&self.plan.issuer, &self.plan.room)?;
                if standing.epoch.is_some_and(|epoch| epoch != claims.epoch) {
                    return Err(Why::Epoch);
                }
                Claims::hold_at(claims.issued, claims.expires, now.wall)?;
                let known = Known::from(&claims);
                self.verified.keep(key, known, now.wall);
                (known, Some(claims.epoch))
            }
        };
        if standing.revoked.has(known.id, known.issued) {
            return Err(Why::Revoked);
        }
        // A pass that is known although the epoch is not says which one it is for.
        let epoch = match epoch {
            Some(epoch) => epoch,
            None => form.claims(&self.plan.issuer, &self.plan.room)?.epoch,
        };
        let fits = |bond: Bond<'_>| bond.tag(&self.plan.room, epoch) == known.bond;
        let mut sessions = shows.sessions.iter();
        if sessions.any(|id| fits(Bond::Session(id)))
            || shows.device.is_some_and(|it| fits(Bond::Device(it)))
            || shows
                .ticket
                .is_some_and(|it| self.is_of(now.wall, known.id, it, standing))
        {
            return Ok(Pass { text, known });
        }
        Err(Why::Bond)
    }

    /// Whether the pass `id` was given for the place of `ticket`. Whoever has that would be given the pass if they asked
    /// for it. Two answers may cross on their way, of which one ties the pass to a new session and the other renews
    /// it as it was: nobody is to lose it by that.
    fn is_of(&self, now: Wall, id: PassId, ticket: &Ticket, standing: &Standing) -> bool {
        let admission = Admission {
            epoch: ticket.epoch,
            place: ticket.place,
            nth: 0,
            fence: 0,
            tier: ticket.tier,
            class: 0,
        };
        let own = self.pass_id(&standing.keys, now, &admission);
        own.is_ok_and(|own| own == id)
    }

    /// The same pass from now on, tied to something else or not.
    fn again(
        &self,
        now: Wall,
        pass: &Pass<'_>,
        bond: Option<&Bond<'_>>,
        life: Duration,
    ) -> Result<Option<Given>, NoSigner> {
        let standing = self.standing();
        // Its key may have been revoked since it was read.
        let said = Form::of(pass.text, &standing.keys, now)
            .and_then(|form| form.claims(&self.plan.issuer, &self.plan.room));
        let Ok(before) = said else {
            return Ok(None);
        };
        let claims = Claims {
            issued: second(now, Duration::ZERO),
            // What an application has made longer stays so.
            expires: second(now, life).max(before.expires).min(before.absolute),
            bond: bond.map_or(before.bond, |it| it.tag(&self.plan.room, before.epoch)),
            ..before
        };
        if claims.expires <= claims.issued {
            return Ok(None);
        }
        self.give(now, &claims, &standing).map(Some)
    }

    /// Signs, and remembers that it has: what a gateway gives it need not verify.
    fn give(&self, now: Wall, claims: &Claims, standing: &Standing) -> Result<Given, NoSigner> {
        let signer = standing.keys.signer(self.plan.algorithm, now)?;
        let text = claims.write(&self.plan.issuer, &self.plan.room, signer);
        if standing.epoch.is_none_or(|epoch| epoch == claims.epoch) {
            let key = Verified::key(&text, signer, standing.epoch);
            self.verified.keep(key, Known::from(claims), now);
        }
        let life = Duration::from_secs(u64::from(claims.expires).saturating_sub(seconds(now)));
        let set_cookie = self.names.give_pass(&text, life);
        Ok(Given { text, set_cookie })
    }

    /// The id of the pass: the same for the same admission, for whoever has the secret that signs now.
    fn pass_id(&self, keys: &Keys, now: Wall, admission: &Admission) -> Result<PassId, NoSigner> {
        let mut what = [0; RoomName::LEN_MAX + 8 + 8 + 4];
        what[..12].copy_from_slice(&padded(&self.plan.room));
        what[12..20].copy_from_slice(&admission.epoch.0.to_be_bytes());
        what[20..28].copy_from_slice(&admission.place.0.to_be_bytes());
        what[28..].copy_from_slice(&admission.nth.to_be_bytes());
        Ok(PassId(keys.secret(now)?.pass_id(&what)))
    }
}

/// The second that is `span` later than `now`; the last one that a pass can name for all behind it.
fn second(now: Wall, span: Duration) -> u32 {
    let second = seconds(now).saturating_add(span.as_secs());
    u32::try_from(second).unwrap_or(u32::MAX)
}
