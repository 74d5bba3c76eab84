//! Somebody who comes to a room: what they hold, what the room says to that, and what they are given.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;
use smallvec::SmallVec;
use tidegate_core::room::{Beat, Beaten, Claim, Epoch, Stage, Tier};
use tidegate_core::session::SessionId;
use tidegate_core::time::{Mono, Wall};

use super::gifts::Gifts;
use crate::cohort;
use crate::context::{Conn, Shared, Thread};
use crate::rate::tick;
use crate::room::answer::{self, Stands};
use crate::room::hall::{ClerkError, Hall, View, bad};
use crate::room::{
    Admission, Ambiguous, Bond, Device, Held, Moment, NoSigner, PassId, Spent, Ticket, Tokens,
    Using, Visitor,
};

/// Somebody who comes to a room.
pub(crate) struct Caller<'c> {
    pub(crate) thread: &'c Arc<Thread>,
    pub(crate) head: &'c Parts,
    pub(crate) hall: &'c Hall,
    /// How the room is while they are answered.
    pub(crate) view: Arc<View>,
    pub(crate) now: Mono,
    pub(crate) address: IpAddr,
    /// The sessions that their cookies prove, the one that counts first.
    pub(crate) sessions: &'c [SessionId],
    /// The tier that they are known to be of now.
    pub(crate) tier: Tier,
    /// The secret of their device: the one that they show, or the one that they are given.
    pub(crate) device: Option<Device>,
    pub(crate) gifts: Gifts,
}

/// What becomes of somebody who has a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// They wait. The ticket may be a better one than the one that they have.
    Waits {
        /// What they hold from now on.
        ticket: Ticket,
        /// Whether that is another one.
        is_new: bool,
    },
    /// It is their turn, until then in milliseconds since 1970.
    Ready {
        /// See there.
        until_ms: u64,
    },
    /// They went in, not long ago, at that time in milliseconds since 1970.
    Passed {
        /// See there.
        at_ms: u64,
    },
    /// So many wait that they cannot.
    Full,
    /// The place leads nowhere any more: they need another one.
    Void {
        /// Which line stands now, where that is why.
        epoch: Option<Epoch>,
        /// Whether they were called too often, or came with it too late.
        is_ghost: bool,
    },
    /// Nobody can say.
    Unasked,
}

/// Why somebody has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotJoined {
    /// Their network takes too many; so long until it may have another.
    Often(Duration),
    /// So many wait that nobody else can.
    Full,
    /// Nobody can give one now.
    Away,
}

/// What becomes of somebody who wants to go in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// They are in, since that time in milliseconds since 1970.
    In {
        /// See there.
        at_ms: u64,
    },
    /// They come too late.
    Late,
    /// It is not their turn.
    Early,
    /// Nobody is let in now, or nobody can say.
    Away,
}

impl Caller<'_> {
    /// Where the room is in time.
    pub(crate) fn wall(&self) -> Wall {
        self.view.wall(self.now)
    }

    /// By both clocks.
    pub(crate) fn moment(&self) -> Moment {
        Moment {
            wall: self.wall(),
            tick: tick(self.now),
        }
    }

    /// Hears of somebody who has `ticket`. Whoever's pass was taken back does not get it again for the place.
    pub(crate) async fn hear(&self, ticket: &Ticket, is_revoked: bool) -> Heard {
        let life = Duration::from_millis(self.hall.plan.rules.ticket_ms);
        let beat = Beat {
            place: ticket.place,
            tier: ticket.tier.min(self.tier),
            // What is older is forgotten by those who would know that it was used.
            may_enter: self.wall().since(ticket.arrived) < life,
        };
        match self.hall.clerk.beat(ticket.epoch, beat).await {
            Ok(beaten) => {
                let now_ms = self.wall().as_micros() / 1_000;
                // Also for who shows the ticket alone.
                let is_over = is_revoked
                    || matches!(beaten, Beaten::Passed { at_ms } if self.is_taken_back(ticket, at_ms));
                let lasts_ms = if is_over { 0 } else { self.idle_ms() };
                heard(beaten, ticket, now_ms, lasts_ms)
            }
            Err(ClerkError::Epoch(epoch)) => Heard::Void {
                epoch: Some(epoch),
                is_ghost: false,
            },
            Err(error) => {
                self.not_answered(&error);
                Heard::Unasked
            }
        }
    }

    /// Gives somebody a place, if their network may have another one.
    pub(crate) async fn join(&self) -> Result<Ticket, NotJoined> {
        let hall = self.hall;
        if self.view.positions.waiting() >= hall.plan.rules.waiting_max {
            return Err(NotJoined::Full);
        }
        let limit = hall.limits.join(tick(self.now), self.address);
        limit.map_err(NotJoined::Often)?;
        self.place().await.map_err(|_| NotJoined::Away)
    }

    /// Gives somebody a place.
    pub(crate) async fn place(&self) -> Result<Ticket, ClerkError> {
        match self.hall.clerk.join().await {
            Ok(joined) => {
                self.hall.counts.joined.add(1);
                let (epoch, place) = (joined.epoch, joined.place);
                let (arrived, flags) = (joined.arrived, joined.flags);
                Ok(Ticket::new(epoch, place, arrived, self.tier, flags))
            }
            Err(error) => {
                self.not_answered(&error);
                Err(error)
            }
        }
    }

    /// Lets in who has `ticket`, if it is their turn. The door is not asked.
    pub(crate) async fn claim(&self, ticket: &Ticket) -> Claimed {
        let counts = &self.hall.counts;
        match self.hall.clerk.claim(ticket.epoch, ticket.place).await {
            // Their pass is over: they need another place.
            Ok(Claim::Passed { at_ms, .. })
                if self.ms_since(at_ms) >= self.idle_ms() || self.is_taken_back(ticket, at_ms) =>
            {
                Claimed::Late
            }
            Ok(Claim::Passed { at_ms, .. }) => {
                let who = (ticket.epoch, ticket.place);
                self.hall.limits.done(who);
                Claimed::In { at_ms }
            }
            Ok(Claim::Late) => {
                counts.late.add(1);
                Claimed::Late
            }
            Ok(Claim::Early) | Err(ClerkError::Epoch(_)) => Claimed::Early,
            Err(error) => {
                self.not_answered(&error);
                Claimed::Away
            }
        }
    }

    /// Gives somebody their ticket, and what a pass can be tied to later.
    pub(crate) fn give_ticket(&mut self, ticket: &Ticket) -> Result<(), NoSigner> {
        let given = self.hall.tokens.issue_ticket(self.wall(), ticket)?;
        self.gifts.ticket = Some(given);
        self.give_device();
        Ok(())
    }

    /// Gives somebody the pass of the place in `ticket`, with which they went in at that time in milliseconds since 1970. It
    /// is tied to their session if they have one, and to their device otherwise.
    pub(crate) fn give_pass(&mut self, ticket: &Ticket, at_ms: u64) -> Result<(), NoSigner> {
        if self.sessions.is_empty() {
            self.give_device();
        }
        let hall = self.hall;
        let admission = self.admission(ticket);
        let bond = match (self.sessions.first(), &self.device) {
            (Some(id), _) => bond_to(id),
            (None, Some(device)) => Bond::Device(device),
            (None, None) => unreachable!("who has no session was given a device"),
        };
        // As it was when they went in first, so that it is the same one: taken back or over as that is.
        let at = wall_of(at_ms);
        let given = hall.tokens.issue_pass(at, &admission, &bond)?;
        if let Ok(id) = hall.tokens.id_of(at, &admission) {
            hall.inside.saw(self.now, id);
        }
        hall.counts.passes.add(1);
        self.gifts.pass = Some(given);
        Ok(())
    }

    /// Counts a request of whoever went in with `ticket` at `at_ms` as one with their pass, which they have not shown: or else
    /// nobody who has a ticket would need one.
    pub(crate) fn begin(&self, ticket: &Ticket, at_ms: u64) -> Result<Option<Using>, Spent> {
        let Some(id) = self.pass_of(ticket, at_ms) else {
            return Ok(None);
        };
        let using = self.hall.tokens.begin_of(tick(self.now), id, 0);
        using.map(Some)
    }

    /// Whether the pass was taken back that belongs to `ticket`.
    fn is_taken_back(&self, ticket: &Ticket, at_ms: u64) -> bool {
        let tokens = &self.hall.tokens;
        let id = self.pass_of(ticket, at_ms);
        id.is_some_and(|id| tokens.is_taken_back(wall_of(at_ms), id))
    }

    /// The pass of whoever went in with `ticket` at `at_ms`; `None` while no key signs.
    fn pass_of(&self, ticket: &Ticket, at_ms: u64) -> Option<PassId> {
        let admission = self.admission(ticket);
        self.hall.tokens.id_of(wall_of(at_ms), &admission).ok()
    }

    fn admission(&self, ticket: &Ticket) -> Admission {
        Admission {
            epoch: ticket.epoch,
            place: ticket.place,
            nth: 0,
            fence: self.view.fence,
            tier: ticket.tier,
            class: 0,
        }
    }

    /// Gives somebody who has none a secret for their device.
    pub(crate) fn give_device(&mut self) {
        if self.device.is_none() {
            let device = Device::draw();
            self.gifts.device = Some(self.hall.tokens.give_device(&device));
            self.device = Some(device);
        }
    }

    /// How long a pass lives without use.
    fn idle_ms(&self) -> u64 {
        let idle = self.hall.plan.tokens.idle;
        u64::try_from(idle.as_millis()).unwrap_or(u64::MAX)
    }

    fn ms_since(&self, at_ms: u64) -> u64 {
        (self.wall().as_micros() / 1_000).saturating_sub(at_ms)
    }

    fn not_answered(&self, error: &ClerkError) {
        if matches!(error, ClerkError::Away | ClerkError::Busy) {
            self.hall.counts.unanswered.add(1);
        }
    }
}

impl<'c> Caller<'c> {
    /// What they hold. What is wrong with it is counted.
    pub(crate) fn read(&mut self) -> Result<Held<'c>, Ambiguous> {
        let headers: &'c HeaderMap = &self.head.headers;
        let tokens: &'c Tokens = &self.hall.tokens;
        let held = read(tokens, self.moment(), headers, self.address, self.sessions)?;
        let counts = &self.hall.counts;
        if let Some((at, _)) = held.ticket.as_ref().err().and_then(|why| bad(*why)) {
            counts.bad_tickets[at].add(1);
        }
        if let Some((at, _)) = held.pass.as_ref().err().and_then(|why| bad(*why)) {
            counts.bad_passes[at].add(1);
        }
        self.device.clone_from(&held.device);
        Ok(held)
    }
}

/// What `headers` have, for who proves these sessions.
pub(crate) fn read<'r>(
    tokens: &Tokens,
    moment: Moment,
    headers: &'r HeaderMap,
    address: IpAddr,
    sessions: &[SessionId],
) -> Result<Held<'r>, Ambiguous> {
    let sessions: SmallVec<[&[u8]; 4]> = sessions.iter().map(bytes).collect();
    let visitor = Visitor {
        address,
        sessions: &sessions,
    };
    tokens.read(moment, headers, &visitor)
}

/// What ties a pass to the session of this id. It changes with the session's secret, and the pass is given anew then.
pub(crate) fn bond_to(id: &SessionId) -> Bond<'_> {
    Bond::Session(bytes(id))
}

/// That time in milliseconds since 1970.
const fn wall_of(at_ms: u64) -> Wall {
    Wall::from_micros(at_ms.saturating_mul(1_000))
}

fn bytes(id: &SessionId) -> &[u8] {
    id.hash().as_bytes()
}

/// The address that a request comes from, as far as peers are trusted to say it.
pub(crate) fn address_of(shared: &Shared, conn: &Conn, headers: &HeaderMap) -> IpAddr {
    let peer = conn.peer.ip().to_canonical();
    if conn.trusted {
        cohort::client(headers, peer, &shared.plan.trusted)
    } else {
        peer
    }
}

/// Where whoever has `ticket` stands by what everybody knows.
pub(crate) fn stands(caller: &Caller<'_>, stage: Stage, ticket: Option<&Ticket>) -> Stands {
    let view = &caller.view;
    let shows = |ticket: &&Ticket| {
        view.phase.shows_positions() && view.epoch.is_none_or(|epoch| epoch == ticket.epoch)
    };
    let ticket = ticket.filter(|_| stage != Stage::Passed).filter(shows);
    let ahead = ticket.map(|ticket| view.positions.ahead(ticket.tier, ticket.place));
    Stands {
        stage,
        ahead,
        eta_s: ahead.and_then(|ahead| answer::estimate(view, ahead)),
    }
}

/// What a beat comes to for who has `ticket`, at `now_ms` since 1970. Whoever went in less than `lasts_ms` ago is still in.
pub(crate) fn heard(beaten: Beaten, ticket: &Ticket, now_ms: u64, lasts_ms: u64) -> Heard {
    let void = |is_ghost| Heard::Void {
        epoch: None,
        is_ghost,
    };
    match beaten {
        // Signed in meanwhile, or an operator has said so. Nobody goes back for having signed out.
        Beaten::Waiting(tier) if tier < ticket.tier => Heard::Waits {
            ticket: ticket.in_tier(tier),
            is_new: true,
        },
        Beaten::Waiting(_) => Heard::Waits {
            ticket: *ticket,
            is_new: false,
        },
        Beaten::Ready { until_ms } => Heard::Ready { until_ms },
        Beaten::Passed { at_ms } if now_ms.saturating_sub(at_ms) < lasts_ms => {
            Heard::Passed { at_ms }
        }
        Beaten::Passed { .. } => void(false),
        Beaten::Ghost | Beaten::Spent => void(true),
        Beaten::Full => Heard::Full,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::room::Place;

    use super::*;
    use crate::room::TicketFlags;

    const NOW_MS: u64 = 1_796_000_000_000;
    const IDLE_MS: u64 = 900_000;

    fn ticket(tier: Tier) -> Ticket {
        let arrived = Wall::from_micros(NOW_MS * 1_000);
        let flags = TicketFlags::default();
        Ticket::new(Epoch(NOW_MS), Place(4_096), arrived, tier, flags)
    }

    fn heard(beaten: Beaten, tier: Tier) -> Heard {
        super::heard(beaten, &ticket(tier), NOW_MS, IDLE_MS)
    }

    #[test]
    fn a_better_tier_is_a_new_ticket_for_the_same_place_and_a_worse_one_is_none() {
        for (known, there, is_new) in [
            (Tier::Anonymous, Tier::SignedIn, true),
            (Tier::Anonymous, Tier::Returning, true),
            (Tier::SignedIn, Tier::SignedIn, false),
            (Tier::SignedIn, Tier::Anonymous, false),
        ] {
            let Heard::Waits {
                ticket,
                is_new: new,
            } = heard(Beaten::Waiting(there), known)
            else {
                panic!("{there:?} does not wait");
            };
            assert_eq!(new, is_new, "{known:?} {there:?}");
            assert_eq!(ticket.tier, known.min(there));
            assert_eq!((ticket.epoch, ticket.place), (Epoch(NOW_MS), Place(4_096)));
        }
    }

    #[test]
    fn who_went_in_lately_is_in_and_who_did_long_ago_needs_another_place() {
        let passed = |ago_ms| {
            let at_ms = NOW_MS - ago_ms;
            heard(Beaten::Passed { at_ms }, Tier::Anonymous)
        };
        let void = |is_ghost| Heard::Void {
            epoch: None,
            is_ghost,
        };

        assert_eq!(passed(0), Heard::Passed { at_ms: NOW_MS });
        assert!(matches!(passed(IDLE_MS - 1), Heard::Passed { .. }));
        assert_eq!(passed(IDLE_MS), void(false));
        let at_ms = NOW_MS + 50;
        let ahead = heard(Beaten::Passed { at_ms }, Tier::Anonymous);
        assert_eq!(ahead, Heard::Passed { at_ms }, "clocks differ");
        let revoked = super::heard(
            Beaten::Passed { at_ms: NOW_MS },
            &ticket(Tier::Anonymous),
            NOW_MS,
            0,
        );
        assert_eq!(revoked, void(false));
        assert_eq!(heard(Beaten::Ghost, Tier::Anonymous), void(true));
        assert_eq!(heard(Beaten::Spent, Tier::Anonymous), void(true));
        assert_eq!(heard(Beaten::Full, Tier::Anonymous), Heard::Full);
        let ready = Beaten::Ready { until_ms: 7 };
        assert_eq!(heard(ready, Tier::Anonymous), Heard::Ready { until_ms: 7 });
    }
}
