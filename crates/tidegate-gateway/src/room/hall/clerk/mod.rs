//! Who asks the store for visitors, and answers without it while it is away.
//!
//! Joins and beats go in batches, from a task beside the data path; everything else one by one. What the store does not answer
//! in time has no answer, but whoever wants a place gets one: by the store's clock as it was last known, and none that a store
//! gives to anybody. Once the store has been away for some seconds ([`Mode`]) this gateway's own line answers
//! ([`Own`]): a ledger like the store's, of those who were heard of here.
//!
//! No lock is held while anything is waited for.

mod batch;
mod inner;
mod notes;
mod own;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::room::{Beat, Beaten, Claim, Epoch, Extended, Found, Place, Tier};
use tidegate_core::session::Name;
use tidegate_core::time::{Mono, Wall};
use tidegate_store::Background;
use tidegate_store::rooms::{Room, RoomError};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

use self::batch::{BeatAsked, JoinAsked};
use self::inner::Inner;
pub(crate) use self::notes::Notes;
pub(super) use self::notes::{
    MESSAGE, NOTE_MAX, REASON, REVOKED, STOCK, write_message, write_reason, write_revoked,
};
pub(crate) use self::own::Own;
use super::plan::RoomPlan;
use crate::context::Clock;
use crate::room::TicketFlags;

/// Longest wait for the store.
const CLERK_WITHIN: Duration = Duration::from_millis(8);
/// Visitors who may wait to be asked for at the same time: for a place, and to be heard of.
const JOINS_WAITING_MAX: usize = 4_096;
const BEATS_WAITING_MAX: usize = 8_192;

/// Who asks the store for visitors. Its tasks end with it, or with the background that they run on.
pub(crate) struct Clerk {
    inner: Arc<Inner>,
    joins: mpsc::Sender<JoinAsked>,
    beats: mpsc::Sender<BeatAsked>,
}

/// What a clerk's tasks are asked for.
type Asked = (mpsc::Receiver<JoinAsked>, mpsc::Receiver<BeatAsked>);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClerkError {
    /// The store has none.
    Away,
    /// Too many ask already. Nothing has happened.
    Busy,
    /// The room is in another epoch.
    Epoch(Epoch),
    /// The store is away, and nobody is let in meanwhile.
    Held,
}

/// A place that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    /// In which epoch.
    pub(crate) epoch: Epoch,
    /// Which.
    pub(crate) place: Place,
    /// When its owner came, by the store's clock.
    pub(crate) arrived: Wall,
    /// Whether the store was away.
    pub(crate) flags: TicketFlags,
}

/// Who answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The store.
    #[default]
    Stored,
    /// The store is away: the own line, which is moved.
    Alone,
    /// The store is away: the own line, out of which nobody is let in.
    Held,
}

/// What visitors ask for.
impl Clerk {
    /// Starts one for `room`, with its tasks on `background`.
    pub(crate) fn start(
        plan: &RoomPlan,
        room: Room,
        background: &Background,
        clock: Clock,
    ) -> Self {
        let (clerk, (joins, beats)) = Self::new(plan, room, clock, CLERK_WITHIN);
        background.spawn(batch::give_places(Arc::clone(&clerk.inner), joins));
        background.spawn(batch::hear_beats(Arc::clone(&clerk.inner), beats));
        clerk
    }

    /// One whose tasks are still to be started.
    fn new(plan: &RoomPlan, room: Room, clock: Clock, within: Duration) -> (Self, Asked) {
        let (joins, join_asked) = mpsc::channel(JOINS_WAITING_MAX);
        let (beats, beat_asked) = mpsc::channel(BEATS_WAITING_MAX);
        let clerk = Self {
            inner: Arc::new(Inner::new(plan, room, clock, within)),
            joins,
            beats,
        };
        (clerk, (join_asked, beat_asked))
    }

    /// Gives a place. One that the store did not give in time is flagged.
    ///
    /// [`ClerkError::Away`] while nobody knows which epoch it is, as at a start without the store.
    pub(crate) async fn join(&self) -> Result<Joined, ClerkError> {
        let inner = &self.inner;
        let known = inner.known();
        let Some(epoch) = known.epoch else {
            return Err(ClerkError::Away);
        };
        if known.mode != Mode::Stored {
            return Ok(inner.place_apart(epoch));
        }
        let (answer, answered) = oneshot::channel();
        self.joins.try_send(answer).map_err(full)?;
        match timeout(inner.longest(), answered).await {
            Ok(Ok(Err(ClerkError::Away)) | Err(_)) | Err(_) => Ok(inner.place_apart(epoch)),
            Ok(Ok(said)) => said,
        }
    }

    /// Somebody with a ticket of `epoch` is heard of.
    pub(crate) async fn beat(&self, epoch: Epoch, beat: Beat) -> Result<Beaten, ClerkError> {
        let inner = &self.inner;
        if inner.mode_in(epoch)? != Mode::Stored {
            let now = inner.now_there();
            return Ok(inner.own().beat(now, epoch, &beat));
        }
        let (answer, answered) = oneshot::channel();
        let asked = BeatAsked {
            epoch,
            beat,
            answer,
        };
        self.beats.try_send(asked).map_err(full)?;
        let said = match timeout(inner.longest(), answered).await {
            Ok(Ok(said)) => said?,
            Ok(Err(_)) | Err(_) => return Err(ClerkError::Away),
        };
        // Who was called here while the store was away keeps that turn.
        Ok(match (said, inner.called_here(epoch, beat.place)) {
            (Beaten::Waiting(_), Some(until_ms)) => Beaten::Ready { until_ms },
            _ => said,
        })
    }

    /// Where somebody is who has a ticket of `tier`, and exactly how many are before them.
    pub(crate) async fn find(
        &self,
        epoch: Epoch,
        tier: Tier,
        place: Place,
    ) -> Result<Found, ClerkError> {
        let inner = &self.inner;
        if inner.mode_in(epoch)? != Mode::Stored {
            let now = inner.now_there();
            return Ok(inner.own().find(now, epoch, tier, place));
        }
        let asked = (inner.room).find(epoch, &inner.order, (tier, place), inner.call());
        inner.ask(asked).await.map_err(|why| inner.error(&why))
    }

    /// Lets in somebody who was called, once; whoever asks again is told the same.
    pub(crate) async fn claim(&self, epoch: Epoch, place: Place) -> Result<Claim, ClerkError> {
        let inner = &self.inner;
        match inner.mode_in(epoch)? {
            Mode::Stored => {}
            Mode::Alone => {
                let now = inner.now_there();
                return Ok(inner.own().claim(now, epoch, place));
            }
            Mode::Held => return Err(ClerkError::Held),
        }
        let asked = inner.room.claim(epoch, place, inner.call());
        let said = inner.ask(asked).await.map_err(|why| inner.error(&why));
        let is_passed = matches!(said, Ok(Claim::Passed { .. }));
        if is_passed || inner.called_here(epoch, place).is_none() {
            return said;
        }
        let now = inner.now_there();
        Ok(inner.own().claim(now, epoch, place))
    }

    /// Takes somebody out who does not want to wait; whether they were there.
    pub(crate) async fn leave(&self, epoch: Epoch, place: Place) -> Result<bool, ClerkError> {
        let inner = &self.inner;
        let mode = inner.mode_in(epoch)?;
        let now = inner.now_there();
        let was_here = inner.own().leave(now, epoch, place);
        if mode != Mode::Stored {
            return Ok(was_here);
        }
        let asked = inner.room.leave(epoch, place, inner.call());
        let said = inner.ask(asked).await.map_err(|why| inner.error(&why))?;
        Ok(said || was_here)
    }

    /// Gives somebody who was called more time, as often as is configured; `None` when it is not their turn, or they had it
    /// all.
    pub(crate) async fn extend(
        &self,
        epoch: Epoch,
        place: Place,
    ) -> Result<Option<Extended>, ClerkError> {
        let inner = &self.inner;
        let (claim_ms, most) = (inner.claim_ms, inner.extensions_max);
        let mode = inner.mode_in(epoch)?;
        if mode != Mode::Stored || inner.called_here(epoch, place).is_some() {
            let now = inner.now_there();
            return Ok(inner.own().extend(now, epoch, place));
        }
        let asked = (inner.room).extend(epoch, place, claim_ms, most, inner.call());
        inner.ask(asked).await.map_err(|why| inner.error(&why))
    }
}

/// What the room's own task goes by, and operators.
impl Clerk {
    /// The room as it is in its store.
    pub(crate) fn room(&self) -> &Room {
        &self.inner.room
    }

    /// What the store says to what is asked of the room.
    pub(crate) async fn ask<T>(
        &self,
        asked: impl Future<Output = Result<T, RoomError>>,
    ) -> Result<T, RoomError> {
        self.inner.ask(asked).await
    }

    /// When the store answered last; the clock's origin where it never has.
    pub(crate) fn answered(&self) -> Mono {
        self.inner.answered()
    }

    /// The store answered at `now`.
    pub(crate) fn answered_at(&self, now: Mono) {
        self.inner.answered_at(now);
    }

    /// Which epoch the room is in, and whether the store has said so.
    pub(crate) fn epoch(&self) -> (Option<Epoch>, bool) {
        let known = self.inner.known();
        (known.epoch, known.is_told)
    }

    /// The store has said that this is the epoch.
    pub(crate) fn learn(&self, epoch: Epoch) {
        self.inner.learn(epoch);
    }

    /// It may be this one, as far as can be known without the store.
    pub(crate) fn suppose(&self, epoch: Epoch) {
        self.inner.suppose(epoch);
    }

    /// From now on these answer.
    pub(crate) fn go(&self, mode: Mode) {
        self.inner.go(mode);
    }

    /// The store's clock was there at `now`.
    pub(crate) fn set_clock(&self, now: Mono, there: Wall) {
        self.inner.set_clock(now, there);
    }

    /// Where the store's clock is at `now`, as it was last known; the machine's where it never was.
    pub(crate) fn there(&self, now: Mono) -> Wall {
        self.inner.there(now)
    }

    /// The same at this moment.
    pub(crate) fn now_there(&self) -> Wall {
        self.inner.now_there()
    }

    /// Does something to this gateway's own line. Nothing may be waited for meanwhile.
    pub(crate) fn with_own<T>(&self, does: impl FnOnce(&mut Own) -> T) -> T {
        does(&mut self.inner.own())
    }

    /// What everybody is to know.
    pub(crate) fn notes(&self) -> Arc<Notes> {
        self.inner.notes()
    }

    /// That is what everybody is to know.
    pub(crate) fn hear_notes(&self, notes: &BTreeMap<String, Vec<u8>>) {
        self.inner.hear_notes(notes);
    }

    /// Who this gateway is. Said once; without it no order that all are to know of is carried out.
    pub(crate) fn seat(&self, node: Name) {
        self.inner.seat(node);
    }

    /// What this gateway says of itself from now on.
    pub(crate) fn report(&self, report: &[u8]) {
        self.inner.report(report);
    }

    /// Who this gateway is, and what it says of itself; `None` before that was said.
    pub(crate) fn said(&self) -> Option<(&Name, Arc<[u8]>)> {
        self.inner.said()
    }

    /// Has the room looked at now, and not in a second.
    pub(crate) fn ring(&self) {
        self.inner.bell.notify_one();
    }

    /// Rung when the room is to be looked at now.
    pub(crate) fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.inner.bell)
    }

    /// From now on the store is away, or back.
    #[cfg(test)]
    pub(crate) fn cut(&self, is_away: bool) {
        use std::sync::atomic::Ordering;
        self.inner.cut.store(is_away, Ordering::Release);
    }
}

impl Joined {
    /// The place that the store gave.
    const fn stored(epoch: Epoch, place: Place) -> Self {
        Self {
            epoch,
            place,
            arrived: epoch.arrival(place),
            flags: TicketFlags(0),
        }
    }
}

/// Milliseconds that somebody has to come who was called.
pub(crate) fn claim_ms(plan: &RoomPlan) -> u64 {
    u64::try_from(plan.claim_within.as_millis()).unwrap_or(u64::MAX)
}

fn full<T>(why: TrySendError<T>) -> ClerkError {
    match why {
        TrySendError::Full(_) => ClerkError::Busy,
        TrySendError::Closed(_) => ClerkError::Away,
    }
}

#[cfg(test)]
mod tests;
