//! What a session holds: named attributes, each with a version of its own, and counters.

use std::fmt;
use std::sync::Arc;

/// Identifies the content of a session or of one attribute: microseconds of the store's clock when
/// it was written, and never smaller than what it follows. 0 is what was never written. A touch
/// changes no version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// The name of an attribute or counter: 1 to 64 of letters, digits, `-`, `_`, `.` and `/`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// A text that cannot be a [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadName;

/// How the bytes of a value are to be read. Bytes of a format that is not known are kept as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// UTF-8: `s`.
    Text,
    /// A whole number in decimal: `i`.
    Integer,
    /// JSON: `j`.
    Json,
    /// MessagePack: `m`.
    MessagePack,
    /// Anything: `b`.
    Bytes,
    /// The value lies outside: `BLOB,BYTES,FORMAT`: `p`.
    Pointer,
    /// Some letter of a later release.
    Other(u8),
}

/// A value and how to read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// How to read it.
    pub format: Format,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// An attribute as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// When it was written.
    pub version: Version,
    /// What was written.
    pub value: Value,
}

impl Version {
    /// What was never written.
    pub const NONE: Self = Self(0);

    /// The version of what is written at `micros` over `self`.
    pub fn next(self, micros: u64) -> Self {
        Self(micros.max(self.0.saturating_add(1)))
    }
}

/// Sixteen digits: enough until the year 2286.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016}", self.0)
    }
}

impl Name {
    /// Longest name, in bytes.
    pub const LEN_MAX: usize = 64;

    /// The name `text`.
    pub fn new(text: &str) -> Result<Self, BadName> {
        let fits = (1..=Self::LEN_MAX).contains(&text.len());
        let plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        if fits && text.bytes().all(plain) {
            Ok(Self(text.into()))
        } else {
            Err(BadName)
        }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name has 1 to 64 of letters, digits, '-', '_', '.' and '/'")
    }
}

impl std::error::Error for BadName {}

impl Format {
    /// The letter in the store.
    pub const fn letter(self) -> u8 {
        match self {
            Self::Text => b's',
            Self::Integer => b'i',
            Self::Json => b'j',
            Self::MessagePack => b'm',
            Self::Bytes => b'b',
            Self::Pointer => b'p',
            Self::Other(letter) => letter,
        }
    }

    /// The format that has `letter`.
    pub const fn of_letter(letter: u8) -> Self {
        match letter {
            b's' => Self::Text,
            b'i' => Self::Integer,
            b'j' => Self::Json,
            b'm' => Self::MessagePack,
            b'b' => Self::Bytes,
            b'p' => Self::Pointer,
            letter => Self::Other(letter),
        }
    }
}

impl Attribute {
    const PREFIX_LEN: usize = 16 + 2;

    /// The bytes in the store: sixteen digits, the format's letter, a colon, the value.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::PREFIX_LEN + self.value.bytes.len());
        bytes.extend_from_slice(self.version.to_string().as_bytes());
        bytes.push(self.value.format.letter());
        bytes.push(b':');
        bytes.extend_from_slice(&self.value.bytes);
        bytes
    }

    /// The attribute that `bytes` of the store are; `None` when they are none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (digits, rest) = bytes.split_at_checked(16)?;
        let version = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let [letter, b':', value @ ..] = rest else {
            return None;
        };
        Some(Self {
            version: Version(version),
            value: Value {
                format: Format::of_letter(*letter),
                bytes: value.to_vec(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_reads_back_whatever_its_format() {
        for format in [Format::Text, Format::Pointer, Format::Other(b'Q')] {
            let attribute = Attribute {
                version: Version(1_795_000_000_000_000),
                value: Value {
                    format,
                    bytes: b"a:\0b".to_vec(),
                },
            };
            assert_eq!(Attribute::decode(&attribute.encode()), Some(attribute));
        }
        assert_eq!(Attribute::decode(b"123s:x"), None);
    }

    #[test]
    fn a_version_never_goes_back_though_the_clock_does() {
        assert_eq!(Version(10).next(5), Version(11));
        assert_eq!(Version(10).next(50), Version(50));
    }
}
