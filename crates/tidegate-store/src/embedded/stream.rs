//! The ends that were told, and who has got them.

use std::collections::{BTreeMap, VecDeque};

use tidegate_core::session::{Name, SessionId, Uid};

use super::pairs;
use crate::ends::{BUCKETS, Consumer, Ended, Event, EventId, Position, Reason, bucket_of};

/// Groups of listeners at most.
pub(super) const GROUPS_MAX: usize = 64;

/// The ends that were told, in [`BUCKETS`] parts, and the groups that listen.
#[derive(Debug, Default)]
pub(super) struct Streams {
    buckets: BTreeMap<u8, Bucket>,
    groups: BTreeMap<Name, Group>,
}

#[derive(Debug, Default)]
struct Bucket {
    events: VecDeque<Event>,
    /// The millisecond and the number of the last event ever.
    last: (u64, u64),
}

#[derive(Debug, Default)]
struct Group {
    behind: Position,
    pending: BTreeMap<EventId, Pending>,
}

/// Who has got an event and not acknowledged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    member: Name,
    since_ms: u64,
}

/// What a listener gets and what that changes.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) events: Vec<Event>,
    /// Whether the group has come further.
    pub(super) moved: bool,
}

impl Streams {
    /// Adds an event at `now_ms`; returns its id and those that had to go, as `kept` are kept in
    /// its bucket.
    pub(super) fn add(&mut self, ended: Ended, now_ms: u64, kept: u32) -> (EventId, Vec<EventId>) {
        let number = bucket_of(ended.session.tag());
        let bucket = self.buckets.entry(number).or_default();
        bucket.last = if now_ms > bucket.last.0 {
            (now_ms, 0)
        } else {
            (bucket.last.0, bucket.last.1 + 1)
        };
        let id = EventId {
            bucket: number,
            millis: bucket.last.0,
            number: bucket.last.1,
        };
        bucket.events.push_back(Event { id, ended });
        let excess = bucket.events.len().saturating_sub(kept.max(1) as usize);
        let dropped = bucket.events.drain(..excess);
        (id, dropped.map(|event| event.id).collect())
    }

    /// The event `id`.
    pub(super) fn event(&self, id: &EventId) -> Option<&Event> {
        let events = &self.buckets.get(&id.bucket)?.events;
        let at = events.binary_search_by_key(id, |event| event.id).ok()?;
        events.get(at)
    }

    /// Up to `most` events for a member of a group, and notes that it has them: first those that a
    /// member has had for `abandoned_ms`, then new ones. `None` when there are too many groups.
    pub(super) fn take(
        &mut self,
        consumer: &Consumer,
        most: usize,
        now_ms: u64,
        abandoned_ms: u64,
    ) -> Option<Taken> {
        let known = self.groups.contains_key(&consumer.group);
        if !known && self.groups.len() >= GROUPS_MAX {
            return None;
        }
        let group = self.groups.entry(consumer.group.clone()).or_default();
        let abandoned = |pending: &Pending| now_ms.saturating_sub(pending.since_ms) >= abandoned_ms;
        let pending = group
            .pending
            .iter()
            .filter(|(_, pending)| abandoned(pending));
        let again: Vec<EventId> = pending.map(|(id, _)| *id).take(most).collect();
        let (new, behind) = after(&self.buckets, &group.behind, most - again.len());
        let moved = !known || behind != group.behind;
        group.behind = behind;
        for id in again.iter().chain(new.iter().map(|event| &event.id)) {
            let pending = Pending {
                member: consumer.member.clone(),
                since_ms: now_ms,
            };
            group.pending.insert(*id, pending);
        }
        let mut events: Vec<Event> = again
            .iter()
            .filter_map(|id| self.event(id).cloned())
            .collect();
        events.extend(new);
        Some(Taken { events, moved })
    }

    /// Notes that `group` is done with `id`; false when it had been or never got it.
    pub(super) fn acknowledge(&mut self, group: &Name, id: &EventId) -> bool {
        let group = self.groups.get_mut(group);
        group.is_some_and(|group| group.pending.remove(id).is_some())
    }

    /// The groups that have got `id` and not acknowledged it; they have not any more.
    pub(super) fn forget(&mut self, id: &EventId) -> Vec<Name> {
        let mut waiting = Vec::new();
        for (name, group) in &mut self.groups {
            if group.pending.remove(id).is_some() {
                waiting.push(name.clone());
            }
        }
        waiting
    }

    /// Up to `most` events behind `position`, the oldest first, and the position behind them.
    pub(super) fn after(&self, position: &Position, most: usize) -> (Vec<Event>, Position) {
        after(&self.buckets, position, most)
    }

    /// How far a group has come.
    pub(super) fn behind(&self, group: &Name) -> Option<&Position> {
        self.groups.get(group).map(|group| &group.behind)
    }

    /// Who of a group has an event.
    pub(super) fn pending(&self, group: &Name, id: &EventId) -> Option<&Pending> {
        self.groups.get(group)?.pending.get(id)
    }

    /// Takes in an event that was kept. Its bucket's must come in their order.
    pub(super) fn put_event(&mut self, event: Event) {
        let bucket = self.buckets.entry(event.id.bucket).or_default();
        let at = bucket.events.partition_point(|other| other.id < event.id);
        bucket.last = bucket.last.max((event.id.millis, event.id.number));
        bucket.events.insert(at, event);
    }

    /// Takes in how far a group had come.
    pub(super) fn put_group(&mut self, group: Name, behind: Position) {
        // A bucket whose events are all gone must not number new ones as old.
        for number in 0..BUCKETS {
            let bucket = self.buckets.entry(number).or_default();
            bucket.last = bucket.last.max(behind.in_bucket(number));
        }
        self.groups.entry(group).or_default().behind = behind;
    }

    /// Takes in what a member of a group had.
    pub(super) fn put_pending(&mut self, group: Name, id: EventId, pending: Pending) {
        self.groups
            .entry(group)
            .or_default()
            .pending
            .insert(id, pending);
    }
}

fn after(
    buckets: &BTreeMap<u8, Bucket>,
    position: &Position,
    most: usize,
) -> (Vec<Event>, Position) {
    let mut found: Vec<&Event> = Vec::new();
    for (&number, bucket) in buckets {
        let seen = position.in_bucket(number);
        let from = bucket
            .events
            .partition_point(|event| (event.id.millis, event.id.number) <= seen && seen != (0, 0));
        found.extend(bucket.events.range(from..).take(most));
    }
    found.sort_unstable_by_key(|event| (event.id.millis, event.id.bucket, event.id.number));
    found.truncate(most);
    let mut behind = position.clone();
    for event in &found {
        behind.pass(event.id);
    }
    (found.into_iter().cloned().collect(), behind)
}

/// The form of an event in the file.
pub(super) fn encode_event(event: &Event) -> Vec<u8> {
    let session = event.ended.session.to_string();
    let uid = event.ended.uid.as_ref().map_or("", Uid::as_str);
    pairs::encode([
        ("session", session.as_bytes()),
        ("reason", event.ended.reason.name().as_bytes()),
        ("uid", uid.as_bytes()),
    ])
}

/// Reads what [`encode_event`] wrote.
pub(super) fn decode_event(id: EventId, bytes: &[u8]) -> Option<Event> {
    let fields = pairs::decode(bytes)?;
    let uid = pairs::text(&fields, "uid")?;
    let ended = Ended {
        session: SessionId::parse(pairs::text(&fields, "session")?).ok()?,
        uid: (!uid.is_empty()).then(|| Uid::new(uid)).transpose().ok()?,
        reason: Reason::parse(pairs::text(&fields, "reason")?)?,
    };
    Some(Event { id, ended })
}

impl Pending {
    pub(super) fn encode(&self) -> Vec<u8> {
        format!("{} {}", self.since_ms, self.member).into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (since, member) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
        Some(Self {
            member: Name::new(member).ok()?,
            since_ms: since.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::session::SlotTag;

    fn ended(bits: u32) -> Ended {
        let tag = SlotTag::from_bits(bits);
        Ended {
            session: SessionId::new(tag, [b'A'; SessionId::HASH_LEN]).unwrap(),
            uid: None,
            reason: Reason::Expired,
        }
    }

    fn member(name: &str) -> Consumer {
        Consumer {
            group: Name::new("mail").unwrap(),
            member: Name::new(name).unwrap(),
        }
    }

    #[test]
    fn each_event_goes_to_one_member_and_again_when_it_was_abandoned() {
        let mut streams = Streams::default();
        for bits in 0..6 {
            streams.add(ended(bits), 10, 100);
        }

        let one = streams.take(&member("a"), 4, 20, 50).unwrap().events;
        let two = streams.take(&member("b"), 4, 30, 50).unwrap().events;
        assert_eq!((one.len(), two.len()), (4, 2));
        assert!(streams.acknowledge(&member("a").group, &one[0].id));
        assert!(!streams.acknowledge(&member("a").group, &one[0].id));

        let again = streams.take(&member("b"), 4, 70, 50).unwrap().events;
        assert_eq!(again, one[1..]);
        assert_eq!(streams.take(&member("a"), 4, 79, 50).unwrap().events, []);
    }

    #[test]
    fn ids_rise_though_the_clock_does_not_and_the_oldest_go() {
        let mut streams = Streams::default();
        let (first, _) = streams.add(ended(1), 10, 2);
        let (second, _) = streams.add(ended(1), 9, 2);
        let (third, dropped) = streams.add(ended(1), 10, 2);

        assert!(first < second && second < third);
        assert_eq!(dropped, [first]);
        let (events, behind) = streams.after(&Position::default(), 1);
        assert_eq!(events[0].id, second);
        let (events, _) = streams.after(&behind, 10);
        assert_eq!(events[0].id, third);
    }
}
