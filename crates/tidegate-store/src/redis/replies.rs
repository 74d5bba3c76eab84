//! What scripts reply, read.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value as Reply;
use tidegate_core::session::{
    Attribute, Created, Destroyed, Fields, Found, Gone, Head, Lifetimes, Name, Opened, Patched,
    Principal, Rotated, SessionId, SlotTag, Uid, Version, layout,
};
use tidegate_core::time::Wall;

use super::keys;
use crate::ends::{Fate, Reason};
use crate::error::StoreError;

/// Done, or nothing new.
pub(super) const DONE: i64 = 0;
/// Every field of a session.
const ALL_FIELDS: i64 = 1;
/// The values of [`HEAD`] and of the fields that were asked for.
const SOME_FIELDS: i64 = 2;
/// That very patch had been applied.
const APPLIED_BEFORE: i64 = 3;
/// There is no such session.
const MISSING: i64 = -1;
/// An attribute is not the one expected.
const CONFLICT: i64 = -2;
/// There was such a session.
const TOMBSTONE: i64 = -3;
/// A ceiling would be passed.
const TOO_LARGE: i64 = -4;
/// The id, or the lease, is somebody else's.
pub(super) const TAKEN: i64 = -5;
/// Nobody knows whether the patch was applied.
const TOO_OLD: i64 = -6;
/// The caller's time was over.
const LATE: i64 = -7;
/// A counter would leave its range.
const OVERFLOW: i64 = -8;
/// A counter was to be changed that is an attribute.
const WRONG_KIND: i64 = -9;

/// The session's own fields, in the order in which scripts return them.
const HEAD: [&str; 10] = [
    layout::VERSION,
    layout::CREATED,
    layout::LAST_USED,
    layout::IDLE,
    layout::DEADLINE,
    layout::ABSOLUTE,
    layout::USER,
    layout::TIER,
    layout::EPOCH,
    layout::BYTES,
];

/// The elements of a script's reply, read one after another.
pub(crate) struct Elements {
    script: &'static str,
    rest: std::vec::IntoIter<Reply>,
}

impl Elements {
    /// The elements of `reply`, which `script` gave.
    pub(crate) fn of(script: &'static str, reply: Reply) -> Result<Self, StoreError> {
        match reply {
            Reply::Array(elements) => Ok(Self {
                script,
                rest: elements.into_iter(),
            }),
            _ => Err(odd(script)),
        }
    }

    /// The next one as an integer.
    pub(crate) fn integer(&mut self) -> Result<i64, StoreError> {
        match self.rest.next() {
            Some(Reply::Int(integer)) => Ok(integer),
            Some(Reply::BulkString(bytes)) => number(&bytes).ok_or_else(|| odd(self.script)),
            _ => Err(self.odd()),
        }
    }

    /// The next one as a number that is not negative.
    pub(crate) fn natural(&mut self) -> Result<u64, StoreError> {
        u64::try_from(self.integer()?).map_err(|_| self.odd())
    }

    /// The next one as a number that is not negative, if there is any.
    pub(super) fn optional_natural(&mut self) -> Result<Option<u64>, StoreError> {
        match self.rest.as_slice().first() {
            Some(Reply::Nil) => self.optional().map(|_| None),
            _ => self.natural().map(Some),
        }
    }

    /// The next one as a time in microseconds.
    pub(super) fn now(&mut self) -> Result<Wall, StoreError> {
        self.natural().map(Wall::from_micros)
    }

    /// The next one as a time in milliseconds.
    pub(super) fn time(&mut self) -> Result<Wall, StoreError> {
        self.natural().map(wall)
    }

    /// The next one as bytes.
    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        self.optional()?.ok_or_else(|| self.odd())
    }

    /// The next one as text.
    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        String::from_utf8(self.bytes()?).map_err(|_| self.odd())
    }

    /// The next one as text, of which the empty one stands for none.
    pub(super) fn filled(&mut self) -> Result<Option<String>, StoreError> {
        Ok(Some(self.text()?).filter(|text| !text.is_empty()))
    }

    /// The elements of the next one.
    pub(crate) fn nested(&mut self) -> Result<Self, StoreError> {
        let nested = self.rest.next().ok_or_else(|| self.odd())?;
        Self::of(self.script, nested)
    }

    /// Whether there are no more.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.as_slice().is_empty()
    }

    /// All that were not read.
    #[cfg(test)]
    pub(crate) fn into_rest(self) -> Vec<Reply> {
        self.rest.collect()
    }

    /// The error for a reply that makes no sense.
    pub(crate) fn odd(&self) -> StoreError {
        odd(self.script)
    }

    pub(super) fn optional(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        match self.rest.next() {
            Some(Reply::BulkString(bytes)) => Ok(Some(bytes)),
            Some(Reply::Nil) => Ok(None),
            Some(Reply::Int(integer)) => Ok(Some(integer.to_string().into_bytes())),
            _ => Err(self.odd()),
        }
    }

    fn name(&mut self) -> Result<Name, StoreError> {
        Name::new(&self.text()?).map_err(|_| self.odd())
    }

    fn version(&mut self) -> Result<Version, StoreError> {
        self.natural().map(Version)
    }
}

/// The reply to a creation of a session for `principal` of `bytes` bytes.
pub(super) fn created(
    reply: Reply,
    lifetimes: Lifetimes,
    principal: Option<&Principal>,
    bytes: u32,
) -> Result<Created, StoreError> {
    let mut elements = Elements::of("create", reply)?;
    match elements.integer()? {
        DONE => {
            let now = elements.now()?;
            let created = elements.time()?;
            let head = Head {
                version: Version(now.as_micros()),
                created,
                last_used: created,
                idle: lifetimes.idle,
                deadline: elements.time()?,
                absolute: elements.time()?,
                principal: principal.cloned(),
                bytes,
            };
            Ok(Created::Created { now, head })
        }
        TAKEN => Ok(Created::Taken),
        _ => Err(elements.odd()),
    }
}

/// The reply to an opening that wanted `fields`.
pub(super) fn opened(reply: Reply, fields: &Fields) -> Result<Opened, StoreError> {
    let mut elements = Elements::of("open", reply)?;
    match elements.integer()? {
        DONE => Ok(Opened::Unchanged {
            now: elements.now()?,
            deadline: elements.time()?,
        }),
        ALL_FIELDS => {
            let now = elements.now()?;
            let fields = by_name(elements.nested()?)?;
            Ok(Opened::Found {
                now,
                head: head(&fields)?,
                found: found(&fields),
            })
        }
        SOME_FIELDS => {
            let now = elements.now()?;
            let fields = in_order(elements.nested()?, fields)?;
            Ok(Opened::Found {
                now,
                head: head(&fields)?,
                found: found(&fields),
            })
        }
        kind => gone(kind, &mut elements).map(Opened::Gone),
    }
}

/// The reply to a patch.
pub(super) fn patched(reply: Reply) -> Result<Patched, StoreError> {
    let mut elements = Elements::of("patch", reply)?;
    Ok(match elements.integer()? {
        DONE => {
            let now = elements.now()?;
            let (before, version) = (elements.version()?, elements.version()?);
            let mut counters = BTreeMap::new();
            while !elements.is_empty() {
                counters.insert(elements.name()?, elements.integer()?);
            }
            Patched::Applied {
                now,
                before,
                version,
                counters: counters.into_iter().collect(),
            }
        }
        APPLIED_BEFORE => Patched::AlreadyApplied {
            version: elements.version()?,
        },
        CONFLICT => {
            let version = elements.version()?;
            let mut current = BTreeMap::new();
            while !elements.is_empty() {
                let name = elements.name()?;
                let there = elements.optional()?;
                let there =
                    there.map(|bytes| Attribute::decode(&bytes).ok_or_else(|| odd("patch")));
                current.insert(name, there.transpose()?);
            }
            Patched::Conflict {
                version,
                current: current.into_iter().collect(),
            }
        }
        TOO_LARGE => Patched::TooLarge {
            name: elements
                .filled()?
                .map(|name| Name::new(&name).map_err(|_| odd("patch")))
                .transpose()?,
            size: elements.natural()?,
            ceiling: u32::try_from(elements.natural()?).map_err(|_| odd("patch"))?,
        },
        TOO_OLD => Patched::TooOld,
        LATE => Patched::Late,
        OVERFLOW => Patched::Overflow {
            name: elements.name()?,
        },
        WRONG_KIND => Patched::WrongKind {
            name: elements.name()?,
        },
        kind => Patched::Gone(gone(kind, &mut elements)?),
    })
}

/// The reply to a change of id.
pub(super) fn rotated(reply: Reply) -> Result<Rotated, StoreError> {
    let mut elements = Elements::of("rotate", reply)?;
    match elements.integer()? {
        SOME_FIELDS => {
            let now = elements.now()?;
            let nothing = Fields::Only([].into());
            let fields = in_order(elements.nested()?, &nothing)?;
            Ok(Rotated::Rotated {
                now,
                head: head(&fields)?,
            })
        }
        TAKEN => Ok(Rotated::Taken),
        kind => gone(kind, &mut elements).map(Rotated::Gone),
    }
}

/// The reply to an ending.
pub(super) fn destroyed(reply: Reply) -> Result<Destroyed, StoreError> {
    let mut elements = Elements::of("destroy", reply)?;
    let existed = elements.integer()? == 1;
    let (uid, tier, epoch) = (elements.filled()?, elements.filled()?, elements.natural()?);
    Ok(Destroyed {
        existed,
        principal: uid
            .map(|uid| principal(&uid, tier.as_deref(), epoch))
            .transpose()?,
    })
}

/// The reply to the question what has become of a session on `tag`.
pub(super) fn fate(reply: Reply, tag: SlotTag) -> Result<Fate, StoreError> {
    let mut elements = Elements::of("fate", reply)?;
    let uid = |elements: &mut Elements| {
        let uid = elements.filled()?;
        uid.map(|uid| Uid::new(uid).map_err(|_| odd("fate")))
            .transpose()
    };
    Ok(match elements.integer()? {
        1 => Fate::Lives {
            deadline: elements.time()?,
        },
        2 => Fate::Expired {
            uid: uid(&mut elements)?,
        },
        3 => Fate::Ended {
            uid: uid(&mut elements)?,
            // A reason of a later release is some reason.
            reason: Reason::parse(&elements.text()?).unwrap_or(Reason::Destroyed),
        },
        4 => Fate::Moved {
            to: SessionId::parse(&format!("{tag}.{}", elements.text()?))
                .map_err(|_| elements.odd())?,
        },
        MISSING => Fate::Missing,
        _ => return Err(elements.odd()),
    })
}

/// A reply that is 0 or 1.
pub(super) fn flag(script: &str, reply: &Reply) -> Result<bool, StoreError> {
    match reply {
        Reply::Int(flag) => Ok(*flag == 1),
        _ => Err(odd(script)),
    }
}

/// A number, or 0 for nothing.
pub(super) fn natural_or_zero(command: &'static str, reply: Reply) -> Result<u64, StoreError> {
    match reply {
        Reply::Nil => Ok(0),
        reply => Elements::of(command, Reply::Array(vec![reply]))?.natural(),
    }
}

/// Sessions with times in milliseconds. RESP3 has pairs, and doubles, where RESP2 has texts.
pub(super) fn scored(
    command: &'static str,
    reply: Reply,
) -> Result<Vec<(SessionId, Wall)>, StoreError> {
    let pairs: Vec<(String, f64)> = redis::from_redis_value(reply).map_err(|_| odd(command))?;
    let scored = pairs.into_iter().filter_map(|(member, millis)| {
        let id = SessionId::parse(&member).ok()?;
        Some((id, wall(millis as u64)))
    });
    Ok(scored.collect())
}

/// The attributes and counters among a hash's fields.
pub(super) fn content(reply: Reply) -> Result<Found, StoreError> {
    let elements = match reply {
        Reply::Map(pairs) => pairs.into_iter().flat_map(|(k, v)| [k, v]).collect(),
        Reply::Array(elements) => elements,
        _ => return Err(odd("HGETALL")),
    };
    let elements = Elements::of("HGETALL", Reply::Array(elements))?;
    Ok(found(&by_name(elements)?))
}

/// Fields by name. Sorted, so that what they come to is the same whatever order the server had.
type ByName = BTreeMap<String, Vec<u8>>;

fn by_name(mut elements: Elements) -> Result<ByName, StoreError> {
    let mut fields = ByName::new();
    while !elements.is_empty() {
        let (field, value) = (elements.bytes()?, elements.bytes()?);
        // A name that is no text is none of ours.
        if let Ok(field) = String::from_utf8(field) {
            fields.insert(field, value);
        }
    }
    Ok(fields)
}

/// The values of [`HEAD`] and of `wanted`, for each name an attribute and a counter.
fn in_order(mut elements: Elements, wanted: &Fields) -> Result<ByName, StoreError> {
    let mut fields = ByName::new();
    for field in HEAD {
        if let Some(value) = elements.optional()? {
            fields.insert(field.to_owned(), value);
        }
    }
    if let Fields::Only(names) = wanted {
        for field in names.iter().flat_map(fields_of) {
            if let Some(value) = elements.optional()? {
                fields.insert(field, value);
            }
        }
    }
    Ok(fields)
}

/// The fields that `name` may be under.
pub(super) fn fields_of(name: &Name) -> [String; 2] {
    [keys::attribute(name), keys::counter(name)]
}

fn head(fields: &ByName) -> Result<Head, StoreError> {
    let natural = |field: &str| {
        let value = fields.get(field).and_then(|value| number(value));
        value
            .and_then(|value| u64::try_from(value).ok())
            .ok_or_else(|| odd_field(field))
    };
    let text = |field: &str| {
        let value = fields.get(field).filter(|value| !value.is_empty());
        value
            .map(|value| std::str::from_utf8(value).map_err(|_| odd_field(field)))
            .transpose()
    };
    let epoch = match fields.get(layout::EPOCH) {
        Some(_) => natural(layout::EPOCH)?,
        None => 0,
    };
    Ok(Head {
        version: Version(natural(layout::VERSION)?),
        created: wall(natural(layout::CREATED)?),
        last_used: wall(natural(layout::LAST_USED)?),
        idle: Duration::from_millis(natural(layout::IDLE)?),
        deadline: wall(natural(layout::DEADLINE)?),
        absolute: wall(natural(layout::ABSOLUTE)?),
        principal: match text(layout::USER)? {
            Some(uid) => Some(principal(uid, text(layout::TIER)?, epoch)?),
            None => None,
        },
        bytes: u32::try_from(natural(layout::BYTES)?).unwrap_or(u32::MAX),
    })
}

/// What can be read of the attributes and counters. What cannot is left where it is and does no
/// harm to the others: some other release, or somebody else, put it there.
fn found(fields: &ByName) -> Found {
    let mut found = Found::default();
    for (field, value) in fields {
        if let Some(name) = field.strip_prefix(layout::ATTRIBUTE)
            && let (Ok(name), Some(attribute)) = (Name::new(name), Attribute::decode(value))
        {
            found.attributes.push((name, attribute));
        }
        if let Some(name) = field.strip_prefix(layout::COUNTER)
            && let (Ok(name), Some(counter)) = (Name::new(name), number(value))
        {
            found.counters.push((name, counter));
        }
    }
    found
}

fn principal(uid: &str, tier: Option<&str>, epoch: u64) -> Result<Principal, StoreError> {
    Ok(Principal {
        uid: Uid::new(uid).map_err(|_| odd_field(layout::USER))?,
        tier: tier
            .map(|tier| Name::new(tier).map_err(|_| odd_field(layout::TIER)))
            .transpose()?,
        epoch,
    })
}

fn gone(kind: i64, elements: &mut Elements) -> Result<Gone, StoreError> {
    match kind {
        MISSING => Ok(Gone::Missing),
        TOMBSTONE => match elements.text()?.as_str() {
            "d" => Ok(Gone::Destroyed),
            "p" => Ok(Gone::Replaced),
            "r" => Ok(Gone::Rotated {
                successor: elements.bytes()?,
            }),
            // Whatever a later release means by it, the session is not under this id.
            _ => Ok(Gone::Missing),
        },
        _ => Err(elements.odd()),
    }
}

fn number(bytes: &[u8]) -> Option<i64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

pub(super) const fn wall(millis: u64) -> Wall {
    Wall::from_micros(millis.saturating_mul(1_000))
}

fn odd(script: &str) -> StoreError {
    StoreError::Odd(format!("the reply of {script}"))
}

fn odd_field(field: &str) -> StoreError {
    StoreError::Odd(format!("the field {field} of a session"))
}
