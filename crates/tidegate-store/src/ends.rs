//! The ends of sessions: who notices them, and how listeners are told.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tidegate_core::session::{Name, SessionId, SlotTag, Uid};
use tidegate_core::time::Wall;

/// Parts of the expiry index and of the stream of ends. A power of two.
pub const BUCKETS: u8 = 64;

/// How long a session stays that ended by itself, so that its end can be told with its user.
pub const ENDED_KEPT: Duration = Duration::from_secs(300);

/// The part that has the sessions of a slot tag; a session stays in it when its id rotates.
pub fn bucket_of(tag: SlotTag) -> u8 {
    (tag.bits() % u32::from(BUCKETS)) as u8
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its idle time or its absolute lifetime was over.
    Expired,
    /// Its user signed out.
    SignedOut,
    /// Its user signed out everywhere.
    SignedOutEverywhere,
    /// The application or an operator ended it.
    Destroyed,
    /// The store lost it before its time, or it never came to be.
    Lost,
}

/// The end of a session, to be told to listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The session.
    pub session: SessionId,
    /// Whose it was.
    pub uid: Option<Uid>,
    /// Why it ended.
    pub reason: Reason,
}

/// A session whose deadline, as the index has it, is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The session.
    pub session: SessionId,
    /// The deadline.
    pub deadline: Wall,
}

/// The reply to a claim of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It is the caller's.
    Held {
        /// The store's clock.
        now: Wall,
        /// What is due.
        due: Vec<Due>,
    },
    /// Somebody else's.
    Taken {
        /// For so much longer, unless they extend it.
        left: Duration,
    },
}

/// What has become of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It lives.
    Lives {
        /// Until then, unless it is used.
        deadline: Wall,
    },
    /// Its time is over.
    Expired {
        /// Whose it was.
        uid: Option<Uid>,
    },
    /// It was ended on purpose.
    Ended {
        /// Whose it was.
        uid: Option<Uid>,
        /// Why.
        reason: Reason,
    },
    /// It has another id.
    Moved {
        /// The id.
        to: SessionId,
    },
    /// The store knows nothing of it.
    Missing,
}

/// A member of a group of listeners.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Consumer {
    /// The group: each event goes to one of its members.
    pub group: Name,
    /// The member.
    pub member: Name,
}

/// Names an event: the same however often it is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The bucket it is in, below [`BUCKETS`].
    pub bucket: u8,
    /// When it was written, in milliseconds of the store's clock.
    pub millis: u64,
    /// Its number among those of that millisecond.
    pub number: u64,
}

/// One entry of the stream of ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub id: EventId,
    /// What happened.
    pub ended: Ended,
}

/// How far a reader has come: in each bucket, the last event it has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position(BTreeMap<u8, (u64, u64)>);

/// A text that names no event, or no position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEvent {
    /// It is no `BUCKET-MILLIS-NUMBER`.
    #[error("an event's id is BUCKET-MILLIS-NUMBER")]
    Id,
    /// It is no list of ids of events, one a bucket, with points between.
    #[error("a position is 0 or ids of events with points between")]
    Position,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 5] = [
        Self::Expired,
        Self::SignedOut,
        Self::SignedOutEverywhere,
        Self::Destroyed,
        Self::Lost,
    ];

    /// Position in [`Reason::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in the store, in events and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::SignedOut => "signed-out",
            Self::SignedOutEverywhere => "signed-out-everywhere",
            Self::Destroyed => "destroyed",
            Self::Lost => "lost",
        }
    }

    /// The reason called `name`.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

impl EventId {
    /// The id written as `text`.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, BadEvent> {
        let mut parts = text.splitn(3, '-').map(|part| part.parse::<u64>().ok());
        let mut part = || parts.next().flatten().ok_or(BadEvent::Id);
        let (bucket, millis, number) = (part()?, part()?, part()?);
        match u8::try_from(bucket) {
            Ok(bucket) if bucket < BUCKETS => Ok(Self {
                bucket,
                millis,
                number,
            }),
            _ => Err(BadEvent::Id),
        }
    }

    /// When the event was written, by the store's clock.
    pub const fn at(&self) -> Wall {
        Wall::from_micros(self.millis.saturating_mul(1_000))
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.bucket, self.millis, self.number)
    }
}

impl Position {
    /// The position written as `text`; `0` is before all events.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, BadEvent> {
        let mut position = Self::default();
        if text != "0" {
            for id in text.split('.') {
                let id = EventId::parse(id).map_err(|_| BadEvent::Position)?;
                position.pass(id);
            }
        }
        Ok(position)
    }

    /// The last event seen in `bucket`: its millisecond and its number there; zeros for none.
    pub fn in_bucket(&self, bucket: u8) -> (u64, u64) {
        self.0.get(&bucket).copied().unwrap_or_default()
    }

    /// Goes on to behind `event`; never back.
    pub fn pass(&mut self, event: EventId) {
        let last = self.0.entry(event.bucket).or_default();
        *last = (*last).max((event.millis, event.number));
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("0");
        }
        for (place, (&bucket, &(millis, number))) in self.0.iter().enumerate() {
            let point = if place > 0 { "." } else { "" };
            let id = EventId {
                bucket,
                millis,
                number,
            };
            write!(f, "{point}{id}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_s_id_and_a_position_read_back() {
        let id = |bucket, millis| EventId {
            bucket,
            millis,
            number: 3,
        };
        assert_eq!(EventId::parse("63-1795-3"), Ok(id(63, 1795)));
        assert_eq!(EventId::parse("64-1795-3"), Err(BadEvent::Id));
        assert_eq!(EventId::parse("1-2"), Err(BadEvent::Id));

        let mut position = Position::parse("0").unwrap();
        assert_eq!(position.to_string(), "0");
        position.pass(id(7, 20));
        position.pass(id(7, 10));
        position.pass(id(1, 5));
        assert_eq!(position.to_string(), "1-5-3.7-20-3");
        assert_eq!(Position::parse(&position.to_string()), Ok(position.clone()));
        assert_eq!(position.in_bucket(7), (20, 3));
    }

    #[test]
    fn a_session_s_bucket_does_not_depend_on_its_secret() {
        let tag = SlotTag::from_bits(0x4_0007 + 64);
        assert_eq!(bucket_of(tag), 7);
    }
}
