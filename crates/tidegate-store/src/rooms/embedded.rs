//! Rooms in this process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tidegate_core::room::{Denied, Epoch, Ledger, RoomName};
use tidegate_core::time::Wall;

use super::board::Kept;
use super::{Board, Notice, Room, RoomError};
use crate::Fence;
use crate::embedded::Embedded;
use crate::error::StoreError;

/// Most rooms that a table keeps.
pub const ROOMS_MAX: usize = 64;

/// Rooms of this process, in its memory. Leases and the time are the embedded store's.
///
/// They are in no file. After a restart a line is rebuilt by those who stand in it, as after the loss of any other
/// store: by their tickets, of which the first one says which epoch to [open](Room::open) the room with.
#[derive(Debug)]
pub struct RoomTable {
    store: Embedded,
    rooms: Mutex<HashMap<RoomName, One>>,
}

/// All that there is of a room.
#[derive(Debug, Default)]
struct One {
    ledger: Ledger,
    board: Kept,
}

impl RoomTable {
    /// No room has been asked for.
    pub fn new(store: Embedded) -> Self {
        Self {
            store,
            rooms: Mutex::default(),
        }
    }

    pub(super) const fn store(&self) -> &Embedded {
        &self.store
    }

    pub(super) fn with<T>(
        &self,
        room: &Room,
        does: impl FnOnce(&mut Ledger, Wall) -> Result<T, Denied>,
    ) -> Result<T, RoomError> {
        self.with_all(room, |one, now| Ok(does(&mut one.ledger, now)?))
    }

    fn with_all<T>(
        &self,
        room: &Room,
        does: impl FnOnce(&mut One, Wall) -> Result<T, RoomError>,
    ) -> Result<T, RoomError> {
        // Whatever was done under it is whole: the core does not panic half-way.
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if !rooms.contains_key(&room.name) && rooms.len() >= ROOMS_MAX {
            let why = format!("{ROOMS_MAX} rooms are kept already");
            return Err(StoreError::Refused(why).into());
        }
        let one = rooms.entry(room.name.clone()).or_default();
        does(one, self.store.now())
    }

    /// The same for a leader, who is refused as soon as somebody else has the lease.
    pub(super) fn with_leader<T>(
        &self,
        room: &Room,
        fence: Fence,
        does: impl FnOnce(&mut Ledger, Wall) -> Result<T, Denied>,
    ) -> Result<T, RoomError> {
        self.with(room, |ledger, now| {
            self.is_latest(room, fence)?;
            does(ledger, now)
        })
    }

    fn is_latest(&self, room: &Room, fence: Fence) -> Result<(), Denied> {
        match self.store.latest_fence(&room.lease) {
            Some(Fence(by)) if fence.0 < by => Err(Denied::Deposed { by }),
            _ => Ok(()),
        }
    }

    pub(super) fn exchange(
        &self,
        room: &Room,
        epoch: Epoch,
        notice: &Notice<'_>,
    ) -> Result<Board, RoomError> {
        self.with_all(room, |one, now| {
            one.ledger.is_in(epoch)?;
            one.board.takes(notice)?;
            if let Some((fence, _)) = notice.word {
                self.is_latest(room, fence)?;
                one.ledger.obey(fence.0)?;
            }
            Ok(one.board.exchange(now, notice))
        })
    }
}
