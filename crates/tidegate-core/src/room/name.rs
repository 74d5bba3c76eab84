//! What a room is called.

use std::fmt;
use std::sync::Arc;

/// The name of a room: 1 to 12 of `a` to `z`, `0` to `9` and `-`, so that it can be in the name of a cookie, in a path and
/// in a key of the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoomName(Arc<str>);

/// A text that is no name of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRoomName;

impl RoomName {
    /// Longest name, in bytes.
    pub const LEN_MAX: usize = 12;

    /// The name `text`.
    pub fn new(text: &str) -> Result<Self, BadRoomName> {
        let fits = (1..=Self::LEN_MAX).contains(&text.len());
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if fits && text.bytes().all(plain) {
            Ok(Self(text.into()))
        } else {
            Err(BadRoomName)
        }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RoomName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BadRoomName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a room is 1 to 12 of a-z, 0-9 and -")
    }
}

impl std::error::Error for BadRoomName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_into_a_cookie_a_path_and_a_key() {
        for good in ["a", "shop", "black-friday", "2026"] {
            assert_eq!(RoomName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "Shop", "a b", "a_b", "a}b", "ä", "a.b", "thirteen-char"] {
            assert_eq!(RoomName::new(bad), Err(BadRoomName), "{bad}");
        }
    }
}
