//! What a clerk shares with its tasks: how the store is asked, and what is known of the room without asking.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tidegate_core::room::{Denied, Epoch, Order, Place};
use tidegate_core::session::Name;
use tidegate_core::time::{Mono, Wall};
use tidegate_store::rooms::{Room, RoomError};
use tidegate_store::{Call, StoreError};
use tokio::sync::Notify;

use super::super::plan::RoomPlan;
use super::notes::Notes;
use super::own::Own;
use super::{ClerkError, Joined, Mode, batch, claim_ms};
use crate::context::Clock;
use crate::room::TicketFlags;

pub(super) struct Inner {
    pub(super) room: Room,
    pub(super) clock: Clock,
    pub(super) order: Order,
    pub(super) claim_ms: u64,
    pub(super) extensions_max: u8,
    /// Longest wait for the store.
    within: Duration,
    known: Mutex<Known>,
    /// When the store answered last, in nanoseconds.
    answered: AtomicU64,
    own: Mutex<Own>,
    notes: Mutex<Arc<Notes>>,
    /// Who this gateway is, and what it said of itself last.
    seat: OnceLock<Name>,
    report: Mutex<Arc<[u8]>>,
    /// Rung when the room is to be looked at now, and not in a second.
    pub(super) bell: Arc<Notify>,
    /// The store is away, as far as a test goes.
    #[cfg(test)]
    pub(super) cut: std::sync::atomic::AtomicBool,
}

/// What is known of the room.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    pub(super) epoch: Option<Epoch>,
    /// The store has said so.
    pub(super) is_told: bool,
    pub(super) mode: Mode,
    /// The store's clock, and when it was read.
    store: Option<(Mono, Wall)>,
}

impl Inner {
    pub(super) fn new(plan: &RoomPlan, room: Room, clock: Clock, within: Duration) -> Self {
        Self {
            room,
            clock,
            order: plan.order,
            claim_ms: claim_ms(plan),
            extensions_max: plan.extensions_max,
            within,
            known: Mutex::default(),
            answered: AtomicU64::new(0),
            own: Mutex::new(Own::new(plan)),
            notes: Mutex::default(),
            seat: OnceLock::new(),
            report: Mutex::new(Arc::from(&b"{}"[..])),
            bell: Arc::default(),
            #[cfg(test)]
            cut: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// What the store says. It is known from it when the store answered last.
    pub(super) async fn ask<T>(
        &self,
        asked: impl Future<Output = Result<T, RoomError>>,
    ) -> Result<T, RoomError> {
        #[cfg(test)]
        {
            if self.cut.load(Ordering::Acquire) {
                return Err(StoreError::Away.into());
            }
        }
        let said = asked.await;
        if !matches!(said, Err(RoomError::Store(_))) {
            self.answered_at(self.clock.now());
        }
        said
    }

    pub(super) fn call(&self) -> Call {
        Call::within(self.within)
    }

    /// The longest wait for a batch to be gathered and answered.
    pub(super) fn longest(&self) -> Duration {
        self.within + batch::GATHER
    }

    /// Why a visitor has no answer. Another epoch is known from then on.
    pub(super) fn error(&self, why: &RoomError) -> ClerkError {
        match why {
            RoomError::Denied(Denied::Epoch(epoch)) => {
                self.learn(*epoch);
                ClerkError::Epoch(*epoch)
            }
            RoomError::Store(StoreError::Busy) => ClerkError::Busy,
            RoomError::Store(_) | RoomError::Denied(_) => ClerkError::Away,
        }
    }

    pub(super) fn answered(&self) -> Mono {
        Mono::from_nanos(self.answered.load(Ordering::Acquire))
    }

    pub(super) fn answered_at(&self, now: Mono) {
        self.answered.fetch_max(now.as_nanos(), Ordering::AcqRel);
    }

    /// Who answers for a ticket of `epoch`. Nobody but a gateway writes one, so that a later epoch than is known is news.
    pub(super) fn mode_in(&self, epoch: Epoch) -> Result<Mode, ClerkError> {
        let mut known = self.lock_known();
        match known.epoch {
            Some(other) if epoch < other => return Err(ClerkError::Epoch(other)),
            Some(other) if epoch == other => {}
            // The store will say it.
            Some(_) if known.is_told && known.mode == Mode::Stored => {}
            _ => (known.epoch, known.is_told) = (Some(epoch), false),
        }
        Ok(known.mode)
    }

    /// The store has said that this is the epoch.
    pub(super) fn learn(&self, epoch: Epoch) {
        let mut known = self.lock_known();
        if (known.epoch, known.is_told) != (Some(epoch), true) {
            (known.epoch, known.is_told) = (Some(epoch), true);
            self.bell.notify_one();
        }
    }

    /// It may be this one. Of several it is the latest.
    pub(super) fn suppose(&self, epoch: Epoch) {
        let mut known = self.lock_known();
        if known.epoch < Some(epoch) {
            (known.epoch, known.is_told) = (Some(epoch), false);
        }
    }

    pub(super) fn go(&self, mode: Mode) {
        self.lock_known().mode = mode;
    }

    pub(super) fn known(&self) -> Known {
        *self.lock_known()
    }

    pub(super) fn set_clock(&self, now: Mono, there: Wall) {
        self.lock_known().store = Some((now, there));
    }

    /// Where the store's clock is at `now`, as it was last known; the machine's where it never was.
    pub(super) fn there(&self, now: Mono) -> Wall {
        match self.known().store {
            Some((at, there)) => {
                let passed = u64::try_from(now.since(at).as_micros()).unwrap_or(u64::MAX);
                Wall::from_micros(there.as_micros().saturating_add(passed))
            }
            None => self.clock.wall(),
        }
    }

    pub(super) fn now_there(&self) -> Wall {
        self.there(self.clock.now())
    }

    /// A place that no store gives.
    pub(super) fn place_apart(&self, epoch: Epoch) -> Joined {
        let now = self.now_there();
        let place = self.own().join(now, epoch);
        Joined {
            flags: TicketFlags::PROVISIONAL,
            ..Joined::stored(epoch, place)
        }
    }

    /// Until when somebody may go in whom this gateway called while the store was away.
    pub(super) fn called_here(&self, epoch: Epoch, place: Place) -> Option<u64> {
        let now = self.now_there();
        self.own().called(now, epoch, place)
    }

    pub(super) fn own(&self) -> MutexGuard<'_, Own> {
        lock(&self.own)
    }

    pub(super) fn notes(&self) -> Arc<Notes> {
        Arc::clone(&lock(&self.notes))
    }

    pub(super) fn hear_notes(&self, notes: &BTreeMap<String, Vec<u8>>) {
        let notes = Arc::new(Notes::read(notes));
        *lock(&self.notes) = notes;
    }

    pub(super) fn seat(&self, node: Name) {
        // A second task for the same room is the same gateway.
        let _ = self.seat.set(node);
    }

    pub(super) fn report(&self, report: &[u8]) {
        *lock(&self.report) = Arc::from(report);
    }

    /// Who this gateway is, and what it says of itself.
    pub(super) fn said(&self) -> Option<(&Name, Arc<[u8]>)> {
        Some((self.seat.get()?, Arc::clone(&lock(&self.report))))
    }

    fn lock_known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is replaced as a whole, or kept by the core, which does not panic half-way.
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
