//! Where waiting rooms are kept: who waits in which order, who was called, and who went in.
//!
//! What a room is and decides is [`tidegate_core::room`]; here is who remembers. [`RedisRooms`] does for a fleet, in
//! two scripts; [`RoomTable`] in this process, with the [`Ledger`](tidegate_core::room::Ledger) itself. Both decide the
//! same, each by its own clock.
//!
//! A [`Room`] is asked by two kinds of callers. Gateways look after visitors: [`join`](Room::join) gives places,
//! several at once; a place counts once its owner came back with it ([`beat`](Room::beat)), and whoever is heard of no
//! more sleeps until the next beat, at the same place. One leader moves the line: it holds the lease that
//! [`lead`](Room::lead) gives, shows its [`Fence`] with whatever it does ([`release`](Room::release),
//! [`settle`](Room::settle), [`sweep`](Room::sweep)), and one that was paused meanwhile is refused
//! ([`Denied::Deposed`]).
//!
//! Everybody says which epoch they mean and is told of another one ([`Denied::Epoch`]). A store that has lost a line,
//! or a part of it, takes the epoch that it is asked for, calls nobody for a while ([`Denied::Settling`]), and has the
//! line in its old order again when all have been heard of once: beats carry the place and the tier from a ticket, and
//! may enter with them.
//!
//! Whoever gives a call up, or gets no answer, does not know whether it was done. All but three may be sent again as they
//! are and do nothing a second time: another `join` gives other places, which costs nothing while nobody comes with the
//! first; another `turn` is told which epoch it is; another [`extend`](Room::extend) is one more of those that somebody has.
//!
//! Beside the line there is a [`Board`] where gateways and the leader tell each other what is not a visitor's
//! ([`exchange`](Room::exchange)). It is lost with the rest of the room, never alone.

mod board;
mod embedded;
mod redis;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::room::{
    Beat, Beaten, Calling, Census, Claim, Denied, Epoch, Extended, Found, Order, Phase, Place,
    Released, RoomName, Rules, Swept, Tier,
};
use tidegate_core::session::Name;
use tidegate_core::time::Wall;

pub use self::board::{
    Board, NOTE_BYTES_MAX, NOTE_NAME_MAX, NOTES_MAX, Notice, REPORT_BYTES_MAX, REPORT_KEPT,
    REPORTS_MAX, WORD_BYTES_MAX,
};
pub use self::embedded::{ROOMS_MAX, RoomTable};
pub use self::redis::RedisRooms;

use crate::error::StoreError;
use crate::lease::Taken;
use crate::members::{Fleet, Node};
use crate::{Call, Fence};

/// Most places that are given at once.
pub const JOINS_MAX: u64 = 1_000;
/// Most that are heard of in one call.
pub const BEATS_MAX: usize = 256;

/// Where rooms are kept. A clone is the same one.
#[derive(Clone)]
pub enum RoomStore {
    /// In Redis or Valkey, for a fleet.
    Redis(RedisRooms),
    /// In this process.
    Embedded(Arc<RoomTable>),
}

/// One room, and the rules that hold in it. A clone is the same one.
#[derive(Clone)]
pub struct Room {
    store: RoomStore,
    name: RoomName,
    /// What its leader holds.
    lease: Name,
    rules: Rules,
}

/// Why a room has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoomError {
    /// The store has none.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It has said why it does nothing. Nothing has happened.
    #[error("{}", why(.0))]
    Denied(Denied),
}

/// How a room is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The store's clock.
    pub now: Wall,
    /// What an operator has set it to; `None` if nobody has, or if it was forgotten: then what is configured holds.
    pub phase: Option<Phase>,
    /// Its line.
    pub census: Census,
}

impl RoomStore {
    /// The room `name`, in which `rules` hold. Every gateway is to have the same.
    pub fn room(&self, name: &RoomName, rules: Rules) -> Room {
        let lease = Name::new(&format!("room/{name}"));
        Room {
            store: self.clone(),
            name: name.clone(),
            lease: lease.expect("what a room may be called a lease may be"),
            rules,
        }
    }

    /// Who may lead is known where the rooms are.
    fn fleet(&self) -> Fleet {
        match self {
            Self::Redis(on) => Fleet::Redis(on.redis().clone()),
            Self::Embedded(on) => Fleet::Embedded(on.store().clone()),
        }
    }
}

impl Room {
    /// Its name.
    pub const fn name(&self) -> &RoomName {
        &self.name
    }

    /// Which epoch it is in. A store that knows of none goes on with the one that is `known`, and its line settles; with
    /// `None` it begins one.
    ///
    /// Whoever has seen a ticket of the room, or was told an epoch before, knows one: without it everybody who waits
    /// would have to begin anew.
    pub async fn open(&self, known: Option<Epoch>, call: Call) -> Result<Epoch, RoomError> {
        match &self.store {
            RoomStore::Redis(on) => on.open(self, known, call).await,
            RoomStore::Embedded(on) => {
                on.with(self, |ledger, now| Ok(ledger.open(now, &self.rules, known)))
            }
        }
    }

    /// Ends `epoch` and begins another, in which nobody waits and no earlier place counts; which.
    pub async fn turn(&self, epoch: Epoch, call: Call) -> Result<Epoch, RoomError> {
        match &self.store {
            RoomStore::Redis(on) => on.turn(self, epoch, call).await,
            RoomStore::Embedded(on) => {
                on.with(self, |ledger, now| ledger.turn(now, &self.rules, epoch))
            }
        }
    }

    /// Sets what the room does from now on, over all epochs; what it did. Once this has an answer, nobody is called in a
    /// phase in which nobody is.
    pub async fn set_phase(
        &self,
        epoch: Epoch,
        phase: Option<Phase>,
        call: Call,
    ) -> Result<Option<Phase>, RoomError> {
        match &self.store {
            RoomStore::Redis(on) => on.set_phase(self, epoch, phase, call).await,
            RoomStore::Embedded(on) => on.with(self, |ledger, now| {
                ledger.set_phase(now, &self.rules, epoch, phase)
            }),
        }
    }

    /// Gives `count` places that follow each other, 1 to [`JOINS_MAX`]; the first of them. They count once their owners
    /// are heard of.
    ///
    /// Panics at another count.
    pub async fn join(&self, epoch: Epoch, count: u64, call: Call) -> Result<Place, RoomError> {
        assert!((1..=JOINS_MAX).contains(&count), "{count} places at once");
        match &self.store {
            RoomStore::Redis(on) => on.join(self, epoch, count, call).await,
            RoomStore::Embedded(on) => on.with(self, |ledger, now| {
                ledger.join(now, &self.rules, epoch, count)
            }),
        }
    }

    /// These are heard of; what becomes of each, in their order. What they say is taken from tickets that we wrote:
    /// whoever joins later stands behind all of them.
    ///
    /// Panics at more than [`BEATS_MAX`].
    pub async fn beat(
        &self,
        epoch: Epoch,
        beats: &[Beat],
        call: Call,
    ) -> Result<Vec<Beaten>, RoomError> {
        assert!(beats.len() <= BEATS_MAX, "more beats than one call takes");
        let Some(floor) = beats.iter().map(|beat| beat.place).max() else {
            return Ok(Vec::new());
        };
        match &self.store {
            RoomStore::Redis(on) => on.beat(self, epoch, floor, beats, call).await,
            RoomStore::Embedded(on) => on.with(self, |ledger, now| {
                ledger.beat(now, &self.rules, epoch, floor, beats)
            }),
        }
    }

    /// Moves somebody who waits to a tier further ahead, where they came; whether that is a change.
    pub async fn promote(
        &self,
        epoch: Epoch,
        place: Place,
        tier: Tier,
        call: Call,
    ) -> Result<bool, RoomError> {
        match &self.store {
            RoomStore::Redis(on) => on.promote(self, epoch, place, tier, call).await,
            RoomStore::Embedded(on) => on.with(self, |ledger, now| {
                ledger.promote(now, &self.rules, epoch, place, tier)
            }),
        }
    }

    /// Takes somebody out at once who does not want to wait, or was called and does not want to come; whether they were
    /// there. A beat brings them back to where they were.
    pub async fn leave(&self, epoch: Epoch, place: Place, call: Call) -> Result<bool, RoomError> {
        match &self.store {
            RoomStore::Redis(on) => on.leave(self, epoch, place, call).await,
            RoomStore::Embedded(on) => on.with(self, |ledger, now| {
                ledger.leave(now, &self.rules, epoch, place)
            }),
        }
    }

    /// Lets in somebody who was called, once; whoever asks again is told the same.
    pub async fn claim(&self, epoch: Epoch, place: Place, call: Call) -> Result<Claim, RoomError> {
        match &self.store {
            RoomStore::Redis(on) => on.claim(self, epoch, place, call).await,
            RoomStore::Embedded(on) => on.with(self, |ledger, now| {
                ledger.claim(now, &self.rules, epoch, place)
            }),
        }
    }

    /// Gives somebody who was called `claim_ms` from now on, never less than they have, and `most` times at most for one call,
    /// [`EXTENSIONS_MAX`](tidegate_core::room::EXTENSIONS_MAX) at most; `None` when it is not their turn, is over, or they had
    /// them all. Being called again they begin anew. Asked again it gives more again.
    pub async fn extend(
        &self,
        epoch: Epoch,
        place: Place,
        claim_ms: u64,
        most: u8,
        call: Call,
    ) -> Result<Option<Extended>, RoomError> {
        match &self.store {
            RoomStore::Redis(on) => on.extend(self, epoch, place, (claim_ms, most), call).await,
            RoomStore::Embedded(on) => on.with(self, |ledger, now| {
                ledger.extend(now, &self.rules, epoch, place, claim_ms, most)
            }),
        }
    }

    /// What gateways and the leader tell each other, once a second each, in one round trip. Where this is denied or refused
    /// nothing of the notice is taken in. A word is fenced like whatever else a leader does: after it no earlier leader
    /// moves anybody.
    ///
    /// A store that has lost the room knows of no word and no notes, and its line settles, as [`look`](Self::look) tells.
    pub async fn exchange(
        &self,
        epoch: Epoch,
        notice: &Notice<'_>,
        call: Call,
    ) -> Result<Board, RoomError> {
        notice.check()?;
        match &self.store {
            RoomStore::Redis(on) => on.exchange(self, epoch, notice, call).await,
            RoomStore::Embedded(on) => on.exchange(self, epoch, notice),
        }
    }

    /// Where somebody is who has a ticket of `tier`, and exactly how many are before them. For those near the front: the
    /// others find their position in what [`look`](Self::look) counts, without a question to the store.
    pub async fn find(
        &self,
        epoch: Epoch,
        order: &Order,
        (tier, place): (Tier, Place),
        call: Call,
    ) -> Result<Found, RoomError> {
        match &self.store {
            RoomStore::Redis(on) => on.find(self, epoch, order, (tier, place), call).await,
            RoomStore::Embedded(on) => on.with(self, |ledger, now| {
                ledger.find(now, &self.rules, epoch, order, (tier, place))
            }),
        }
    }

    /// How the room is, and how many stand before `aged`. Its cost does not depend on how many wait.
    pub async fn look(&self, epoch: Epoch, aged: Place, call: Call) -> Result<Looked, RoomError> {
        match &self.store {
            RoomStore::Redis(on) => on.look(self, epoch, aged, call).await,
            RoomStore::Embedded(on) => on.with(self, |ledger, now| {
                Ok(Looked {
                    now,
                    census: ledger.census(now, &self.rules, epoch, aged)?,
                    phase: ledger.phase(),
                })
            }),
        }
    }

    /// Asks for the right to move the line, or to keep it, for `span` from now on. It is one lease for each room, in
    /// the same store as the room, so that this knows at once when somebody else has it.
    pub async fn lead(&self, node: &Node, span: Duration, call: Call) -> Result<Taken, StoreError> {
        let fleet = self.store.fleet();
        fleet.take_lease(&self.lease, node, span, call).await
    }

    /// Gives that right back, if it is still the one with this fence; whether it was.
    pub async fn resign(&self, fence: Fence, call: Call) -> Result<bool, StoreError> {
        let fleet = self.store.fleet();
        fleet.give_lease_back(&self.lease, fence, call).await
    }

    /// As the leader, takes those out of the line who were not heard of for `grace`, `most` at a time,
    /// [`RELEASE_MAX`](tidegate_core::room::RELEASE_MAX) at most. How many of them stood before `aged` is counted.
    pub async fn sweep(
        &self,
        (epoch, fence): (Epoch, Fence),
        grace: Duration,
        aged: Place,
        most: u64,
        call: Call,
    ) -> Result<Swept, RoomError> {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        match &self.store {
            RoomStore::Redis(on) => {
                let led = (epoch, fence);
                on.sweep(self, led, grace_ms, aged, most, call).await
            }
            RoomStore::Embedded(on) => on.with_leader(self, fence, |ledger, now| {
                ledger.sweep(now, &self.rules, (epoch, fence.0), grace_ms, aged, most)
            }),
        }
    }

    /// As the leader, calls the next ones. The same tick again calls nobody and says the same.
    pub async fn release(
        &self,
        (epoch, fence): (Epoch, Fence),
        calling: &Calling,
        call: Call,
    ) -> Result<Released, RoomError> {
        match &self.store {
            RoomStore::Redis(on) => on.release(self, (epoch, fence), calling, call).await,
            RoomStore::Embedded(on) => on.with_leader(self, fence, |ledger, now| {
                ledger.release(now, &self.rules, (epoch, fence.0), calling)
            }),
        }
    }

    /// As the leader, takes back calls that nobody came for, `most` at a time,
    /// [`RELEASE_MAX`](tidegate_core::room::RELEASE_MAX) at most; how many.
    pub async fn settle(
        &self,
        (epoch, fence): (Epoch, Fence),
        most: u64,
        call: Call,
    ) -> Result<u64, RoomError> {
        match &self.store {
            RoomStore::Redis(on) => on.settle(self, (epoch, fence), most, call).await,
            RoomStore::Embedded(on) => on.with_leader(self, fence, |ledger, now| {
                ledger.settle(now, &self.rules, (epoch, fence.0), most)
            }),
        }
    }
}

impl From<Denied> for RoomError {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

fn why(denied: &Denied) -> String {
    match denied {
        Denied::Epoch(epoch) => format!("the room is in epoch {}", epoch.0),
        Denied::Deposed { by } => format!("somebody else leads, with fence {by}"),
        Denied::Stale => "a later tick was done".to_owned(),
        Denied::Settling { left_ms, alive } => {
            format!("the line was lost and settles for {left_ms} ms, {alive} are back")
        }
        Denied::Phase(phase) => format!("nobody is called in the phase {}", phase.name()),
    }
}
