//! Requests that wait for a slot: by class and bulkhead, in order of arrival, with a way out for each.
//!
//! This file keeps the order; `admission` decides who may enter, who starts and how long the queue
//! may be. Entries live in a slab and in one doubly linked list per class and group, so entering,
//! leaving from anywhere and finding either end take the same time however many wait.

use std::collections::BTreeSet;

use crate::facts::{Class, GroupId};
use crate::time::Mono;

/// Order and dropping inside a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Oldest first. In a class that there is lastingly more of than can be served, newest first: of
    /// a standing queue the newest is the one whose caller is still there ("Fail at Scale", 2015).
    AdaptiveLifo,
    /// Oldest first, always.
    Fifo,
    /// Oldest first, thinned by CoDel with a target of half and an interval of five times the
    /// longest wait. At 5/100 ms, as often copied, it refuses harmless bursts.
    CoDel,
}

/// One waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Whose it is: an index of the owner's own.
    pub(crate) owner: u32,
    pub(crate) class: Class,
    pub(crate) group: GroupId,
    pub(crate) entered: Mono,
    /// When it leaves at the latest.
    pub(crate) leave_at: Mono,
    pub(crate) bytes: u32,
}

/// Where an entry is; void once the entry has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u32);

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    entry: Entry,
    older: u32,
    newer: u32,
}

/// The waiting requests of one application.
#[derive(Debug)]
pub(crate) struct Queue {
    nodes: Vec<Node>,
    /// Nodes not in use.
    free: Vec<u32>,
    /// Class by class, and inside a class group by group.
    lists: Vec<List>,
    groups: usize,
    leaves: BTreeSet<(Mono, Key)>,
    bytes_by_class: [u64; Class::COUNT],
    len_by_class: [u32; Class::COUNT],
    len_by_group: Vec<u32>,
}

impl Queue {
    /// An empty queue for group ids below `groups`.
    pub(crate) fn new(groups: usize) -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            lists: vec![
                List {
                    oldest: NONE,
                    newest: NONE,
                    len: 0
                };
                groups * Class::COUNT
            ],
            groups,
            leaves: BTreeSet::new(),
            bytes_by_class: [0; Class::COUNT],
            len_by_class: [0; Class::COUNT],
            len_by_group: vec![0; groups],
        }
    }

    /// Takes `entry` in as the newest of its class and group. The bound is the caller's affair.
    pub(crate) fn push(&mut self, entry: Entry) -> Key {
        let at = self.list_of(entry.class, entry.group);
        let older = self.lists[at].newest;
        let node = Node {
            entry,
            older,
            newer: NONE,
        };
        let index = if let Some(index) = self.free.pop() {
            self.nodes[index as usize] = node;
            index
        } else {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        };

        if older == NONE {
            self.lists[at].oldest = index;
        } else {
            self.nodes[older as usize].newer = index;
        }
        self.lists[at].newest = index;
        self.lists[at].len += 1;
        self.len_by_class[entry.class.index()] += 1;
        self.len_by_group[entry.group.0 as usize] += 1;
        self.bytes_by_class[entry.class.index()] += u64::from(entry.bytes);
        self.leaves.insert((entry.leave_at, Key(index)));
        Key(index)
    }

    /// Takes the entry at `key` out. The caller holds each key once, until this call.
    pub(crate) fn remove(&mut self, key: Key) -> Entry {
        let Node {
            entry,
            older,
            newer,
        } = self.nodes[key.0 as usize];
        let at = self.list_of(entry.class, entry.group);
        if older == NONE {
            self.lists[at].oldest = newer;
        } else {
            self.nodes[older as usize].newer = newer;
        }
        if newer == NONE {
            self.lists[at].newest = older;
        } else {
            self.nodes[newer as usize].older = older;
        }
        self.lists[at].len -= 1;
        self.len_by_class[entry.class.index()] -= 1;
        self.len_by_group[entry.group.0 as usize] -= 1;
        self.bytes_by_class[entry.class.index()] -= u64::from(entry.bytes);
        let was_in = self.leaves.remove(&(entry.leave_at, key));
        debug_assert!(was_in, "a key is removed once");
        self.free.push(key.0);
        entry
    }

    /// What waits at `key`.
    pub(crate) fn entry(&self, key: Key) -> &Entry {
        &self.nodes[key.0 as usize].entry
    }

    /// The entry that must leave first, and when.
    pub(crate) fn first_leave(&self) -> Option<(Mono, Key)> {
        self.leaves.first().copied()
    }

    /// The oldest entry of `class` in a group that `open` allows.
    pub(crate) fn oldest(&self, class: Class, open: impl Fn(GroupId) -> bool) -> Option<Key> {
        self.ends(class, open, |list| list.oldest)
            .min_by_key(|key| self.entry(*key).entered)
    }

    /// The newest entry of `class` in a group that `open` allows.
    pub(crate) fn newest(&self, class: Class, open: impl Fn(GroupId) -> bool) -> Option<Key> {
        self.ends(class, open, |list| list.newest)
            .max_by_key(|key| self.entry(*key).entered)
    }

    /// The next older entry of the same class and group.
    pub(crate) fn older(&self, key: Key) -> Option<Key> {
        let older = self.nodes[key.0 as usize].older;
        (older != NONE).then_some(Key(older))
    }

    /// The lowest class with an entry in a group that `within` allows.
    pub(crate) fn lowest_class(&self, within: impl Fn(GroupId) -> bool) -> Option<Class> {
        let waits = |class: Class| {
            self.len_by_class[class.index()] > 0
                && self
                    .ends(class, &within, |list| list.oldest)
                    .next()
                    .is_some()
        };
        Class::ALL.into_iter().rev().find(|&class| waits(class))
    }

    /// Waiting requests.
    pub(crate) fn len(&self) -> u32 {
        self.len_by_class.iter().sum()
    }

    /// Waiting requests by class index.
    pub(crate) const fn len_by_class(&self) -> [u32; Class::COUNT] {
        self.len_by_class
    }

    /// Waiting requests of one group.
    pub(crate) fn len_in_group(&self, group: GroupId) -> u32 {
        self.len_by_group[group.0 as usize]
    }

    /// Bytes that the waiting requests hold.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_by_class.iter().sum()
    }

    /// Bytes that would be free if everything below `class` were displaced.
    pub(crate) fn bytes_below(&self, class: Class) -> u64 {
        self.bytes_by_class[class.index() + 1..].iter().sum()
    }

    fn list_of(&self, class: Class, group: GroupId) -> usize {
        class.index() * self.groups + group.0 as usize
    }

    /// One end of each list of `class` in the groups that `open` allows, empty lists left out.
    fn ends(
        &self,
        class: Class,
        open: impl Fn(GroupId) -> bool,
        end: impl Fn(&List) -> u32,
    ) -> impl Iterator<Item = Key> {
        let from = class.index() * self.groups;
        self.lists[from..from + self.groups]
            .iter()
            .enumerate()
            .filter(move |(group, list)| list.len > 0 && open(GroupId(*group as u16)))
            .map(move |(_, list)| Key(end(list)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(owner: u32, class: Class, group: u16, at: u64) -> Entry {
        Entry {
            owner,
            class,
            group: GroupId(group),
            entered: Mono::from_millis(at),
            leave_at: Mono::from_millis(at + 100),
            bytes: 10,
        }
    }

    #[test]
    fn both_ends_are_found_across_groups_and_closed_groups_are_passed_over() {
        let mut queue = Queue::new(2);
        queue.push(entry(1, Class::Static, 1, 1));
        queue.push(entry(2, Class::Static, 0, 2));
        queue.push(entry(3, Class::Static, 1, 3));

        let owner = |key: Option<Key>| key.map(|key| queue.entry(key).owner);
        assert_eq!(owner(queue.oldest(Class::Static, |_| true)), Some(1));
        assert_eq!(owner(queue.newest(Class::Static, |_| true)), Some(3));
        assert_eq!(
            owner(queue.newest(Class::Static, |group| group.0 == 0)),
            Some(2)
        );
        assert_eq!(owner(queue.oldest(Class::Critical, |_| true)), None);
    }

    #[test]
    fn an_entry_may_leave_from_the_middle_and_its_place_is_used_again() {
        let mut queue = Queue::new(1);
        let keys: Vec<Key> = (0..3)
            .map(|n| queue.push(entry(n, Class::Anonymous, 0, u64::from(n))))
            .collect();

        assert_eq!(queue.remove(keys[1]).owner, 1);
        assert_eq!((queue.len(), queue.bytes()), (2, 20));
        queue.push(entry(9, Class::Anonymous, 0, 9));

        assert_eq!(queue.nodes.len(), 3);
        let newest = queue
            .newest(Class::Anonymous, |_| true)
            .map(|key| queue.entry(key).owner);
        assert_eq!(newest, Some(9));
    }

    #[test]
    fn who_must_leave_first_is_known_whatever_the_order_of_entry() {
        let mut queue = Queue::new(1);
        let mut late = entry(1, Class::Critical, 0, 0);
        late.leave_at = Mono::from_millis(900);
        queue.push(late);
        let soon = queue.push(entry(2, Class::Background, 0, 5));

        assert_eq!(queue.first_leave(), Some((Mono::from_millis(105), soon)));
        assert_eq!(queue.lowest_class(|_| true), Some(Class::Background));
        assert_eq!(queue.bytes_below(Class::Critical), 10);
    }
}
