//! Who has to leave the queue first: a binary heap over the waiting requests in which each knows its
//! place, so that anybody can be taken out of the middle.

use super::{Entry, growth};
use crate::time::Mono;

/// Node indices; the one that leaves first is at the front.
#[derive(Debug, Default)]
pub(super) struct Leaves(Vec<u32>);

impl Leaves {
    /// The node that leaves first.
    pub(super) fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    pub(super) fn insert(&mut self, nodes: &mut [Entry], node: u32) {
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(growth(self.0.len()));
        }
        self.0.push(node);
        self.rise(nodes, self.0.len() - 1, node);
    }

    /// Takes out `node`, which is in here.
    pub(super) fn remove(&mut self, nodes: &mut [Entry], node: u32) {
        let at = nodes[node as usize].leave as usize;
        debug_assert_eq!(self.0[at], node, "a key is removed once");
        let last = self.0.pop().expect("at least this node is in here");
        if last == node {
            return;
        }
        if order(nodes, last) < order(nodes, node) {
            self.rise(nodes, at, last);
        } else {
            self.sink(nodes, at, last);
        }
    }

    /// Puts `node` at `at`, or where it belongs towards the front.
    fn rise(&mut self, nodes: &mut [Entry], mut at: usize, node: u32) {
        while at > 0 {
            let parent = (at - 1) / 2;
            let above = self.0[parent];
            if order(nodes, above) <= order(nodes, node) {
                break;
            }
            self.put(nodes, at, above);
            at = parent;
        }
        self.put(nodes, at, node);
    }

    /// Puts `node` at `at`, or where it belongs towards the back.
    fn sink(&mut self, nodes: &mut [Entry], mut at: usize, node: u32) {
        while let Some(&left) = self.0.get(2 * at + 1) {
            let mut child = 2 * at + 1;
            let mut below = left;
            if let Some(&right) = self.0.get(child + 1)
                && order(nodes, right) < order(nodes, left)
            {
                child += 1;
                below = right;
            }
            if order(nodes, node) <= order(nodes, below) {
                break;
            }
            self.put(nodes, at, below);
            at = child;
        }
        self.put(nodes, at, node);
    }

    fn put(&mut self, nodes: &mut [Entry], at: usize, node: u32) {
        self.0[at] = node;
        nodes[node as usize].leave = at as u32;
    }
}

/// By time; among those who leave together by place, so that the order does not depend on how the
/// heap came about.
fn order(nodes: &[Entry], node: u32) -> (Mono, u32) {
    (nodes[node as usize].leave_at, node)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::facts::{Class, Facts, GroupId, RouteId};

    fn entry(leave_at: u64) -> Entry {
        let facts = Facts {
            class: Class::Anonymous,
            route: RouteId(0),
            group: GroupId(0),
            deadline: Mono::MAX,
            bytes: 0,
            cohort: 0,
            retry: false,
        };
        Entry::new(0, facts, Mono::default(), Mono::from_millis(leave_at))
    }

    proptest! {
        #[test]
        fn the_first_to_leave_is_at_the_front_whoever_was_taken_out(
            times in prop::collection::vec(0u64..40, 1..80),
            taken in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let mut nodes: Vec<Entry> = times.iter().map(|&at| entry(at)).collect();
            let mut leaves = Leaves::default();
            for node in 0..nodes.len() as u32 {
                leaves.insert(&mut nodes, node);
            }
            let mut left: Vec<u32> = (0..nodes.len() as u32).collect();
            for which in taken {
                if left.is_empty() {
                    break;
                }
                let node = left.swap_remove(which.index(left.len()));
                leaves.remove(&mut nodes, node);
            }

            let mut order = Vec::new();
            while let Some(first) = leaves.first() {
                leaves.remove(&mut nodes, first);
                order.push((nodes[first as usize].leave_at, first));
            }

            let mut expected: Vec<(Mono, u32)> =
                left.iter().map(|&node| (nodes[node as usize].leave_at, node)).collect();
            expected.sort_unstable();
            prop_assert_eq!(order, expected);
        }
    }
}
