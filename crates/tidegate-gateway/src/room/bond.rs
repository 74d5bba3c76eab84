//! What a pass is tied to: it is good only beside the cookie of the same browser.
//!
//! That is the session where there is one, by an id that stays the same when its secret is replaced, and otherwise a
//! secret of the device. What stands in the pass is a tag of it under itself, so that no key is needed to compare, at an edge
//! neither, and none of ours has to be kept for it; of the room and its epoch, so that passes of two rooms do
//! not tell that their owner is the same.

use std::fmt;

use tidegate_core::room::{Epoch, RoomName};

use super::keys::{half, mac, tag};
use super::spelling::{read, spelt};
use super::ticket::padded;
use crate::session::keys::random;

/// What a pass is tied to.
#[derive(Clone, Copy)]
pub enum Bond<'a> {
    /// The session of this id, which outlives the replacing of its secret and a sign-in. Where there is none such, the id
    /// of the moment, and [`Tokens::rebind`](super::Tokens::rebind) with each new one.
    Session(&'a [u8]),
    /// The device of this secret.
    Device(&'a Device),
}

/// The secret of a device.
#[derive(Clone, PartialEq, Eq)]
pub struct Device([u8; 16]);

/// What stands in a pass.
pub(super) type BondTag = [u8; 16];

impl Bond<'_> {
    /// What stands in a pass for `room` in `epoch`.
    pub(super) fn tag(&self, room: &RoomName, epoch: Epoch) -> BondTag {
        let (kind, key): (&[u8], &[u8]) = match self {
            Self::Session(id) => (b"tidegate room bond 1 session\0", id),
            Self::Device(device) => (b"tidegate room bond 1 device\0", &device.0),
        };
        debug_assert!(!key.is_empty(), "what everybody has ties nothing");
        let place = padded(room);
        half(tag(&mac(key), &[kind, &place, &epoch.0.to_be_bytes()]))
    }
}

impl Device {
    /// Characters of one in a cookie.
    pub const LEN: usize = 22;

    /// A secret that nobody else has.
    pub fn draw() -> Self {
        Self(random())
    }

    /// The one in a cookie's value.
    pub fn read(text: &[u8]) -> Option<Self> {
        read(text).map(Self)
    }

    /// What is in the cookie.
    pub(super) fn write(&self) -> String {
        spelt(&self.0)
    }
}

/// A secret is in no log.
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Device")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kind_room_epoch_or_owner_has_another_tag() {
        let room = |name| RoomName::new(name).unwrap();
        let device = Device([7; 16]);
        let tag = Bond::Device(&device).tag(&room("shop"), Epoch(1));

        assert_eq!(Bond::Device(&device).tag(&room("shop"), Epoch(1)), tag);
        for other in [
            Bond::Session(&[7; 16]).tag(&room("shop"), Epoch(1)),
            Bond::Device(&Device([8; 16])).tag(&room("shop"), Epoch(1)),
            Bond::Device(&device).tag(&room("shops"), Epoch(1)),
            Bond::Device(&device).tag(&room("shop"), Epoch(2)),
        ] {
            assert_ne!(other, tag);
        }
    }

    #[test]
    fn a_secret_reads_back_and_does_not_print() {
        let device = Device::draw();

        assert_eq!(device.write().len(), Device::LEN);
        assert_eq!(
            Device::read(device.write().as_bytes()),
            Some(device.clone())
        );
        assert_ne!(Device::draw(), device);
        assert_eq!(format!("{device:?}"), "Device");
    }
}
