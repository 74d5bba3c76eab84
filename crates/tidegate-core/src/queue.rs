//! Requests that wait for a slot: by class and bulkhead, in order of arrival, with a way out for each.
//!
//! This file keeps the order; `admission` decides who may enter, who starts and how long the queue
//! may be. Entries live in a slab and in one doubly linked list per class and group, so entering,
//! leaving from anywhere and finding either end take the same time however many wait.

mod leaves;

use crate::facts::{Class, Facts, GroupId};
use crate::time::Mono;
use leaves::Leaves;

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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Whose it is: an index of the owner's own.
    pub(crate) owner: u32,
    pub(crate) facts: Facts,
    pub(crate) entered: Mono,
    /// When it leaves at the latest.
    pub(crate) leave_at: Mono,
    /// The next older one of its class and group; of a free node, the next free one.
    older: u32,
    newer: u32,
    /// Its place among the leaves.
    leave: u32,
}

/// Where an entry is; void once the entry has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u32);

const NONE: u32 = u32::MAX;

/// How much a vector of `len` gets when it is full: for thousands that wait, twice as much would be
/// too much to have for nothing.
pub(crate) fn growth(len: usize) -> usize {
    (len / 8).max(64)
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
    len: u32,
}

impl Entry {
    /// A request that enters at `entered`.
    pub(crate) const fn new(owner: u32, facts: Facts, entered: Mono, leave_at: Mono) -> Self {
        Self {
            owner,
            facts,
            entered,
            leave_at,
            older: NONE,
            newer: NONE,
            leave: NONE,
        }
    }
}

/// The waiting requests of one application.
#[derive(Debug)]
pub(crate) struct Queue {
    nodes: Vec<Entry>,
    /// The first node that is not in use.
    free: u32,
    /// Class by class, and inside a class group by group.
    lists: Vec<List>,
    groups: usize,
    leaves: Leaves,
    bytes_by_class: [u64; Class::COUNT],
    len_by_class: [u32; Class::COUNT],
    len_by_group: Vec<u32>,
}

impl Queue {
    /// An empty queue for group ids below `groups`.
    pub(crate) fn new(groups: usize) -> Self {
        Self {
            nodes: Vec::new(),
            free: NONE,
            lists: vec![
                List {
                    oldest: NONE,
                    newest: NONE,
                    len: 0
                };
                groups * Class::COUNT
            ],
            groups,
            leaves: Leaves::default(),
            bytes_by_class: [0; Class::COUNT],
            len_by_class: [0; Class::COUNT],
            len_by_group: vec![0; groups],
        }
    }

    /// Takes `entry` in as the newest of its class and group. The bound is the caller's affair.
    pub(crate) fn push(&mut self, mut entry: Entry) -> Key {
        let Facts {
            class,
            group,
            bytes,
            ..
        } = entry.facts;
        let at = self.list_of(class, group);
        let older = self.lists[at].newest;
        entry.older = older;
        entry.newer = NONE;
        let index = self.free;
        let index = if let Some(node) = self.nodes.get_mut(index as usize) {
            self.free = node.older;
            *node = entry;
            index
        } else {
            if self.nodes.len() == self.nodes.capacity() {
                self.nodes.reserve_exact(growth(self.nodes.len()));
            }
            self.nodes.push(entry);
            self.nodes.len() as u32 - 1
        };

        if older == NONE {
            self.lists[at].oldest = index;
        } else {
            self.nodes[older as usize].newer = index;
        }
        self.lists[at].newest = index;
        self.lists[at].len += 1;
        self.len_by_class[class.index()] += 1;
        self.len_by_group[group.0 as usize] += 1;
        self.bytes_by_class[class.index()] += u64::from(bytes);
        self.leaves.insert(&mut self.nodes, index);
        Key(index)
    }

    /// Takes the entry at `key` out. The caller holds each key once, until this call.
    pub(crate) fn remove(&mut self, key: Key) -> Entry {
        self.leaves.remove(&mut self.nodes, key.0);
        let entry = self.nodes[key.0 as usize];
        let Entry {
            facts,
            older,
            newer,
            ..
        } = entry;
        let at = self.list_of(facts.class, facts.group);
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
        self.len_by_class[facts.class.index()] -= 1;
        self.len_by_group[facts.group.0 as usize] -= 1;
        self.bytes_by_class[facts.class.index()] -= u64::from(facts.bytes);
        self.nodes[key.0 as usize].older = self.free;
        self.free = key.0;
        entry
    }

    /// What waits at `key`.
    pub(crate) fn entry(&self, key: Key) -> &Entry {
        &self.nodes[key.0 as usize]
    }

    /// The entry that must leave first, and when.
    pub(crate) fn first_leave(&self) -> Option<(Mono, Key)> {
        let first = self.leaves.first()?;
        Some((self.nodes[first as usize].leave_at, Key(first)))
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
    use crate::facts::RouteId;

    fn entry(owner: u32, class: Class, group: u16, at: u64) -> Entry {
        let facts = Facts {
            class,
            route: RouteId(0),
            group: GroupId(group),
            deadline: Mono::MAX,
            bytes: 10,
            cohort: 0,
            retry: false,
        };
        let (entered, leave_at) = (Mono::from_millis(at), Mono::from_millis(at + 100));
        Entry::new(owner, facts, entered, leave_at)
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

    #[test]
    fn an_entry_is_small() {
        // With its place among the leaves and its ticket: 72 B.
        assert_eq!(size_of::<Entry>(), 56);
    }
}
