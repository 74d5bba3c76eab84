//! What the drills of the waiting room stand on: gateways with a room, and people who come to it.

mod document;
mod door;
mod ground;
mod guest;
mod line;
mod many;
mod pool;

pub(crate) use ground::{Ground, RoomSettings, close, set_phase};
pub(crate) use guest::{Front, Guest, Page, Waited};
pub(crate) use line::Line;
pub(crate) use many::{Heard, Many};
pub(crate) use pool::Pool;

/// What the room of all drills is called.
pub(crate) const ROOM: &str = "shop";
