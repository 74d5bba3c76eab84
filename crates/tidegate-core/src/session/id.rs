//! Who a session is: the id under which it is stored, and its user.

use std::fmt;

/// Where a session is stored in a cluster: drawn when it is created and kept when its id rotates,
/// so that the old and the new id lie on the same shard. Four characters of base32 (`a`-`z`,
/// `2`-`7`); no secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotTag([u8; Self::LEN]);

/// The id of a session in the store: its slot tag and the hash of its secret. Not the secret: who
/// reads the store or a log learns no cookie.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    tag: SlotTag,
    hash: [u8; Self::HASH_LEN],
}

/// The name of a user, as the application knows them. 1 to 128 bytes of UTF-8 without control
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(String);

/// Why a text is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadId {
    /// It is no slot tag, a point, and 22 characters of base64url.
    Session,
    /// It is no four characters of base32.
    Tag,
    /// It is empty, too long, or has control characters.
    Uid,
}

impl SlotTag {
    /// Characters of a tag.
    pub const LEN: usize = 4;
    const ALPHABET: &'static [u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

    /// The tag with number `bits`, of which the lower 20 count.
    pub const fn from_bits(bits: u32) -> Self {
        let digits = Self::ALPHABET;
        Self([
            digits[((bits >> 15) & 31) as usize],
            digits[((bits >> 10) & 31) as usize],
            digits[((bits >> 5) & 31) as usize],
            digits[(bits & 31) as usize],
        ])
    }

    /// Its number.
    pub fn bits(&self) -> u32 {
        let digit = |byte: u8| match byte {
            b'a'..=b'z' => byte - b'a',
            _ => byte - b'2' + 26,
        };
        self.0
            .iter()
            .fold(0, |bits, byte| bits << 5 | u32::from(digit(*byte)))
    }

    /// The tag written as `text`.
    pub fn parse(text: &[u8]) -> Result<Self, BadId> {
        let tag: [u8; Self::LEN] = text.try_into().map_err(|_| BadId::Tag)?;
        if tag.iter().all(|byte| Self::ALPHABET.contains(byte)) {
            Ok(Self(tag))
        } else {
            Err(BadId::Tag)
        }
    }

    /// Its characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("base32 is ASCII")
    }
}

impl SessionId {
    /// Characters of the hash: 132 bits in base64url.
    pub const HASH_LEN: usize = 22;

    /// The id with these parts; `hash` is base64url.
    pub fn new(tag: SlotTag, hash: [u8; Self::HASH_LEN]) -> Result<Self, BadId> {
        let base64url = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if hash.iter().all(base64url) {
            Ok(Self { tag, hash })
        } else {
            Err(BadId::Session)
        }
    }

    /// The id written as `TAG.HASH`.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        let (tag, hash) = text.split_once('.').ok_or(BadId::Session)?;
        let tag = SlotTag::parse(tag.as_bytes()).map_err(|_| BadId::Session)?;
        let hash = hash.as_bytes().try_into().map_err(|_| BadId::Session)?;
        Self::new(tag, hash)
    }

    /// Where it is stored.
    pub const fn tag(&self) -> SlotTag {
        self.tag
    }

    /// The hash of its secret.
    pub fn hash(&self) -> &str {
        std::str::from_utf8(&self.hash).expect("base64url is ASCII")
    }
}

impl Uid {
    /// Longest name of a user, in bytes.
    pub const LEN_MAX: usize = 128;

    /// The user called `name`.
    pub fn new(name: impl Into<String>) -> Result<Self, BadId> {
        let name = name.into();
        let fits = (1..=Self::LEN_MAX).contains(&name.len());
        if fits && !name.chars().any(char::is_control) {
            Ok(Self(name))
        } else {
            Err(BadId::Uid)
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SlotTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SlotTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.tag, self.hash())
    }
}

/// For logs: enough to tell sessions apart, too little to look one up.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}..", self.tag, &self.hash()[..6])
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "a session's id is a slot tag, a point and 22 characters of base64url",
            Self::Tag => "a slot tag is four characters of a-z and 2-7",
            Self::Uid => "a user's name has 1 to 128 bytes and no control characters",
        })
    }
}

impl std::error::Error for BadId {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_and_its_debug_form_hides_most_of_it() {
        let id = SessionId::new(SlotTag::from_bits(0x1_2345), *b"ABCDEFGHIJKLMNOPQRSTU-").unwrap();
        assert_eq!(SessionId::parse(&id.to_string()), Ok(id));
        assert_eq!(format!("{id:?}"), format!("{}.ABCDEF..", id.tag()));
    }

    #[test]
    fn a_tag_is_its_number() {
        for bits in [0, 25, 26, 31, 0xA_BCDE, 0xF_FFFF] {
            assert_eq!(SlotTag::from_bits(bits).bits(), bits);
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in [
            "",
            "abcd",
            "abcd.short",
            "ABCD.ABCDEFGHIJKLMNOPQRSTUV",
            "abcd.ABCDEFGHIJKLMNOPQRSTU}",
        ] {
            assert_eq!(SessionId::parse(text), Err(BadId::Session), "{text}");
        }
        assert_eq!(Uid::new(""), Err(BadId::Uid));
        assert_eq!(Uid::new("a\nb"), Err(BadId::Uid));
    }
}
