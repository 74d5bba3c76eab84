//! The form of a session in a store: the fields of a hash, each a name and bytes.
//!
//! Fields of the session itself begin with `_`, attributes with `a:`, counters with `n:`. The same
//! names are in Redis and in the embedded file. Fields that are not known are passed over, so an
//! older release reads what a newer one wrote.

use std::collections::BTreeMap;
use std::fmt;

use super::id::Uid;
use super::op::Principal;
use super::record::Record;
use super::seen::Seen;
use super::value::{Attribute, Name, Version};

/// The version, in sixteen digits.
pub const VERSION: &str = "_v";
/// When it began, in milliseconds since 1970, like the other times.
pub const CREATED: &str = "_c";
/// When it was last used.
pub const LAST_USED: &str = "_l";
/// How long it lives without use, in milliseconds.
pub const IDLE: &str = "_i";
/// When it ends unless it is used.
pub const DEADLINE: &str = "_d";
/// When it ends whatever happens.
pub const ABSOLUTE: &str = "_x";
/// The user; empty or missing for nobody.
pub const USER: &str = "_u";
/// The user's tier; empty or missing for none.
pub const TIER: &str = "_t";
/// The user's epoch at the sign-in; missing for 0.
pub const EPOCH: &str = "_e";
/// Bytes of the attributes and counters.
pub const BYTES: &str = "_b";
/// Attributes and counters together.
pub const COUNT: &str = "_k";
/// The patches applied last; see [`Seen`].
pub const SEEN: &str = "_s";
/// What an attribute's name is preceded by.
pub const ATTRIBUTE: &str = "a:";
/// What a counter's name is preceded by.
pub const COUNTER: &str = "n:";

/// What is no session: the field that is missing or makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// The field.
    pub field: String,
}

impl Record {
    /// Its fields, those of the session itself first.
    pub fn to_fields(&self) -> Vec<(String, Vec<u8>)> {
        let mut fields: Vec<(String, Vec<u8>)> = Vec::new();
        let mut put = |field: &str, text: String| fields.push((field.into(), text.into_bytes()));
        put(VERSION, self.version.to_string());
        put(CREATED, self.created_ms.to_string());
        put(LAST_USED, self.last_used_ms.to_string());
        put(IDLE, self.idle_ms.to_string());
        put(DEADLINE, self.deadline_ms.to_string());
        put(ABSOLUTE, self.absolute_ms.to_string());
        put(BYTES, self.bytes.to_string());
        put(COUNT, self.count().to_string());
        if let Some(principal) = &self.principal {
            put(USER, principal.uid.to_string());
            put(EPOCH, principal.epoch.to_string());
            if let Some(tier) = &principal.tier {
                put(TIER, tier.to_string());
            }
        }
        if !self.seen.is_empty() {
            put(SEEN, self.seen.encode());
        }
        for (name, attribute) in &self.attributes {
            fields.push((format!("{ATTRIBUTE}{name}"), attribute.encode()));
        }
        for (name, counter) in &self.counters {
            fields.push((format!("{COUNTER}{name}"), counter.to_string().into_bytes()));
        }
        fields
    }

    /// The session whose fields are `fields`. Bytes are counted anew, not believed.
    pub fn from_fields<'a>(
        fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, BadRecord> {
        let mut own = BTreeMap::new();
        let mut attributes = BTreeMap::new();
        let mut counters = BTreeMap::new();
        for (field, bytes) in fields {
            let bad = || BadRecord {
                field: field.into(),
            };
            if let Some(name) = field.strip_prefix(ATTRIBUTE) {
                let name = Name::new(name).map_err(|_| bad())?;
                attributes.insert(name, Attribute::decode(bytes).ok_or_else(bad)?);
            } else if let Some(name) = field.strip_prefix(COUNTER) {
                let name = Name::new(name).map_err(|_| bad())?;
                let count = text(bytes).and_then(|text| text.parse().ok());
                counters.insert(name, count.ok_or_else(bad)?);
            } else {
                own.insert(field, text(bytes).ok_or_else(bad)?);
            }
        }
        let mut record = Self {
            version: Version(number(&own, VERSION)?),
            created_ms: number(&own, CREATED)?,
            last_used_ms: number(&own, LAST_USED)?,
            idle_ms: number(&own, IDLE)?,
            deadline_ms: number(&own, DEADLINE)?,
            absolute_ms: number(&own, ABSOLUTE)?,
            principal: principal(&own)?,
            bytes: 0,
            attributes,
            counters,
            seen: Seen::decode(own.get(SEEN).copied().unwrap_or_default())
                .map_err(|_| bad(SEEN))?,
        };
        record.bytes = record.weigh();
        Ok(record)
    }
}

fn principal(own: &BTreeMap<&str, &str>) -> Result<Option<Principal>, BadRecord> {
    let filled = |field| own.get(field).copied().filter(|text| !text.is_empty());
    let Some(uid) = filled(USER) else {
        return Ok(None);
    };
    Ok(Some(Principal {
        uid: Uid::new(uid).map_err(|_| bad(USER))?,
        tier: filled(TIER)
            .map(Name::new)
            .transpose()
            .map_err(|_| bad(TIER))?,
        epoch: filled(EPOCH).map_or(Ok(0), |_| number(own, EPOCH))?,
    }))
}

fn number(own: &BTreeMap<&str, &str>, field: &str) -> Result<u64, BadRecord> {
    let number = own.get(field).and_then(|text| text.parse().ok());
    number.ok_or_else(|| bad(field))
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn bad(field: &str) -> BadRecord {
    BadRecord {
        field: field.into(),
    }
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no session: its field {:?} is missing or odd",
            self.field
        )
    }
}

impl std::error::Error for BadRecord {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::record::Birth;
    use crate::session::{Ceilings, Lifetimes, Op, OpSeq, Writer};
    use crate::session::{Expect, Format, Value};
    use crate::time::Wall;
    use std::time::Duration;

    fn record() -> Record {
        let principal = Principal {
            uid: Uid::new("ann").unwrap(),
            tier: Some(Name::new("gold").unwrap()),
            epoch: 3,
        };
        let value = Value {
            format: Format::Other(b'Q'),
            bytes: vec![0, 255, b':'],
        };
        let name = |text| Name::new(text).unwrap();
        let mut record = Record::create(
            Wall::from_micros(1_795_000_000_123_456),
            Birth {
                lifetimes: Lifetimes {
                    idle: Duration::from_secs(60),
                    absolute: Duration::from_secs(600),
                },
                principal: Some(&principal),
                attributes: &[(name("odd"), value.clone())],
                counters: &[(name("hits"), i64::MIN)],
            },
        );
        let set = Op::Set {
            name: name("cart"),
            value,
            expect: Expect::Any,
        };
        let writer = Writer {
            incarnation: 77,
            lane: 1,
        };
        let seq = OpSeq { writer, number: 5 };
        let now = Wall::from_micros(1_795_000_000_223_456);
        record.patch(now, &[set], Some(seq), Ceilings::default(), None);
        record
    }

    fn read(fields: &[(String, Vec<u8>)]) -> Result<Record, BadRecord> {
        Record::from_fields(fields.iter().map(|(name, bytes)| (&**name, &**bytes)))
    }

    #[test]
    fn a_session_reads_back_and_unknown_fields_are_passed_over() {
        let record = record();
        let mut fields = record.to_fields();

        assert_eq!(read(&fields), Ok(record.clone()));
        fields.push(("_later".into(), b"whatever".to_vec()));
        assert_eq!(read(&fields), Ok(record));
    }

    #[test]
    fn what_is_missing_or_odd_is_named() {
        let fields = record().to_fields();
        for needed in [VERSION, CREATED, LAST_USED, IDLE, DEADLINE, ABSOLUTE] {
            let rest = fields.iter().filter(|(name, _)| name != needed);
            let rest: Vec<_> = rest.cloned().collect();
            assert_eq!(read(&rest), Err(bad(needed)));
        }
        for odd in ["_v", "_e", "_s", "a:cart", "n:hits", "a:", "n:b d"] {
            let mut fields = fields.clone();
            fields.push((odd.into(), b"odd".to_vec()));
            assert_eq!(read(&fields), Err(bad(odd)));
        }
    }
}
