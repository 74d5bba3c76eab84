//! What operators order, carried out in the store, where every gateway sees it within a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::room::{Denied, Epoch, Phase, Place, Tier};
use tidegate_page::Language;
use tidegate_page::document::Reason;
use tidegate_store::rooms::{Notice, RoomError};
use tidegate_store::{Call, StoreError};
use tokio::time::timeout;

use super::clerk::{
    Clerk, ClerkError, MESSAGE, NOTE_MAX, Notes, REASON, REVOKED, STOCK, write_message,
    write_reason, write_revoked,
};
use crate::room::PassId;

/// Longest wait for one answer of the store, and for all that an order takes.
const CALL: Call = Call::within(Duration::from_millis(500));
const ORDER_WITHIN: Duration = Duration::from_secs(2);

/// What an operator orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoomOrder {
    /// What the room does from now on; `None` for what is configured.
    Phase(Option<Phase>),
    /// How many can still be had; `None` for nobody knows.
    Stock(Option<u64>),
    /// What all who wait are told; `None` for what is configured.
    Message(Option<BTreeMap<Language, String>>),
    /// It is over, and why.
    Close(Reason),
    /// Another epoch: everybody's place is void.
    Turn,
    /// Somebody goes first.
    Promote(Place, Tier),
    /// What passes were given or renewed before this second since 1970 are not good.
    RevokeBefore(u32),
    /// This pass is not good, which ends at that second whatever happens.
    Revoke(PassId, u32),
}

impl Clerk {
    /// Carries out an order. Once this is answered it holds, and other gateways know of it within a second.
    ///
    /// [`ClerkError::Away`] when the store has not answered, so that it may have been carried out: all but [`RoomOrder::Turn`]
    /// may be given again. [`ClerkError::Busy`] when there is no room for another fact: a message is too long, or so many passes
    /// were taken back one by one that the rest has to be by a second.
    pub(crate) async fn order(&self, order: RoomOrder) -> Result<(), ClerkError> {
        let done = timeout(ORDER_WITHIN, self.carry_out(order)).await;
        self.ring();
        done.unwrap_or(Err(ClerkError::Away))
    }

    async fn carry_out(&self, order: RoomOrder) -> Result<(), ClerkError> {
        match order {
            RoomOrder::Phase(phase) => {
                self.set_phase(phase).await?;
                // An end has its reason, and a beginning none.
                if self.notes().reason.is_some() {
                    self.note(REASON, None).await?;
                }
                Ok(())
            }
            RoomOrder::Stock(stock) => {
                let stock = stock.map(|stock| stock.to_string().into_bytes());
                self.note(STOCK, stock).await
            }
            RoomOrder::Message(message) => {
                let message = message.as_ref().map(write_message);
                self.note(MESSAGE, message).await
            }
            RoomOrder::Close(reason) => {
                let reason = write_reason(reason).as_bytes().to_vec();
                self.note(REASON, Some(reason)).await?;
                self.set_phase(Some(Phase::Closed)).await
            }
            RoomOrder::Turn => self.turn().await,
            RoomOrder::Promote(place, tier) => self.promote(place, tier).await,
            RoomOrder::RevokeBefore(second) => {
                let mut revoked = self.known_notes().await?.revoked.clone();
                revoked.issued_from_s = revoked.issued_from_s.max(second);
                self.note(REVOKED, Some(write_revoked(&revoked))).await
            }
            RoomOrder::Revoke(id, absolute_s) => {
                let mut revoked = self.known_notes().await?.revoked.clone();
                let done = revoked.revoke(self.now_there(), id, absolute_s);
                done.map_err(|_| ClerkError::Busy)?;
                self.note(REVOKED, Some(write_revoked(&revoked))).await
            }
        }
    }

    async fn set_phase(&self, phase: Option<Phase>) -> Result<(), ClerkError> {
        let room = self.room();
        let set = |epoch| room.set_phase(epoch, phase, CALL);
        self.in_epoch(set).await.map(drop)
    }

    async fn promote(&self, place: Place, tier: Tier) -> Result<(), ClerkError> {
        let room = self.room();
        let promote = |epoch| room.promote(epoch, place, tier, CALL);
        self.in_epoch(promote).await.map(drop)
    }

    /// Ends the epoch that is known. Where another one has begun meanwhile, somebody else has done it.
    async fn turn(&self) -> Result<(), ClerkError> {
        let (epoch, _) = self.epoch();
        let epoch = epoch.ok_or(ClerkError::Away)?;
        let next = match self.ask(self.room().turn(epoch, CALL)).await {
            Ok(next) | Err(RoomError::Denied(Denied::Epoch(next))) => next,
            Err(why) => return Err(unanswered(&why)),
        };
        self.learn(next);
        Ok(())
    }

    /// What everybody is to know, as it is in the store now.
    async fn known_notes(&self) -> Result<Arc<Notes>, ClerkError> {
        self.tell(&[]).await?;
        Ok(self.notes())
    }

    /// From now on everybody knows that, or nothing of it.
    async fn note(&self, name: &str, value: Option<Vec<u8>>) -> Result<(), ClerkError> {
        if value.as_ref().is_some_and(|value| value.len() > NOTE_MAX) {
            return Err(ClerkError::Busy);
        }
        self.tell(&[(name, value.as_deref())]).await
    }

    async fn tell(&self, notes: &[(&str, Option<&[u8]>)]) -> Result<(), ClerkError> {
        let (node, report) = self.said().ok_or(ClerkError::Away)?;
        let notice = Notice {
            node,
            report: &report,
            word: None,
            notes,
            wants_reports: false,
        };
        let (room, notice) = (self.room(), &notice);
        let exchange = |epoch| room.exchange(epoch, notice, CALL);
        let board = self.in_epoch(exchange).await?;
        self.hear_notes(&board.notes);
        Ok(())
    }

    /// Does something in the room's epoch. If it was another one there is one more try.
    async fn in_epoch<T, Done>(&self, does: impl Fn(Epoch) -> Done) -> Result<T, ClerkError>
    where
        Done: Future<Output = Result<T, RoomError>>,
    {
        for _ in 0..2 {
            let (epoch, _) = self.epoch();
            let epoch = epoch.ok_or(ClerkError::Away)?;
            match self.ask(does(epoch)).await {
                Ok(done) => return Ok(done),
                Err(RoomError::Denied(Denied::Epoch(other))) => self.learn(other),
                Err(why) => return Err(unanswered(&why)),
            }
        }
        Err(ClerkError::Away)
    }
}

fn unanswered(why: &RoomError) -> ClerkError {
    match why {
        RoomError::Store(StoreError::Busy) => ClerkError::Busy,
        RoomError::Store(_) | RoomError::Denied(_) => ClerkError::Away,
    }
}
