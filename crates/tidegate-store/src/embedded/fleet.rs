//! Members and leases in a fleet of one process. Fences are in the file: they grow over a restart,
//! whatever the clock does.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::session::Name;
use tidegate_core::time::Wall;

use super::Embedded;
use super::key::Key;
use super::sessions::later_ms;
use super::state::{Haste, State, ms};
use crate::lease::{Fence, Outcome};
use crate::members::{Enrolled, MEMBERS_MAX, Member, Node};

/// Who is there and who leads.
#[derive(Debug, Default)]
pub(super) struct Circle {
    members: BTreeMap<Name, Member>,
    terms: BTreeMap<Name, Term>,
}

/// Who holds, or held, a lease.
#[derive(Debug, Default)]
struct Term {
    fence: u64,
    /// `None` for nobody.
    holder: Option<Node>,
    until_ms: u64,
}

impl Circle {
    /// The last fence of a lease.
    pub(super) fn fence(&self, name: &Name) -> Option<u64> {
        Some(self.terms.get(name)?.fence)
    }

    /// For how long somebody has a lease, unless they renew it.
    pub(super) fn lease_left(&self, name: &Name, now: Wall) -> Duration {
        let held = self.terms.get(name).filter(|term| term.holder.is_some());
        let until_ms = held.map_or(0, |term| term.until_ms);
        Duration::from_millis(until_ms.saturating_sub(ms(now)))
    }

    /// Takes in the last fence of a lease.
    pub(super) fn put_fence(&mut self, name: Name, fence: u64) {
        self.terms.entry(name).or_default().fence = fence;
    }
}

impl Embedded {
    pub(crate) fn enrol(&self, node: &Node, lease: Duration, replace: bool) -> Enrolled {
        self.with(|state, now| {
            let members = &mut state.circle.members;
            let there = members.get(&node.id);
            let same = there.filter(|there| there.node == *node);
            let since = same.map_or(now, |there| there.since);
            if same.is_none() {
                if there.is_some_and(|there| now < there.until) && !replace {
                    return Enrolled::Superseded;
                }
                members.retain(|_, member| now < member.until);
                if members.len() >= MEMBERS_MAX as usize && !members.contains_key(&node.id) {
                    return Enrolled::Full;
                }
            }
            let member = Member {
                node: node.clone(),
                since,
                until: wall_ms(later_ms(now, lease)),
            };
            members.insert(node.id.clone(), member);
            Enrolled::Member { now }
        })
    }

    pub(crate) fn leave(&self, node: &Node) -> bool {
        self.with(|state, _| {
            let members = &mut state.circle.members;
            let there = members.get(&node.id);
            there.is_some_and(|there| there.node == *node) && members.remove(&node.id).is_some()
        })
    }

    pub(crate) fn living(&self) -> Vec<Member> {
        self.with(|state, now| {
            let members = state.circle.members.values();
            members.filter(|it| now < it.until).cloned().collect()
        })
    }

    pub(crate) fn take_lease(&self, name: &Name, node: &Node, span: Duration) -> Outcome {
        self.with(|state, now| {
            let term = state.circle.terms.entry(name.clone()).or_default();
            let holder = term.holder.as_ref().filter(|_| ms(now) < term.until_ms);
            match holder {
                Some(holder) if holder != node => {
                    return Outcome::Others {
                        holder: holder.clone(),
                        left: Duration::from_millis(term.until_ms - ms(now)),
                    };
                }
                Some(_) => {}
                None => {
                    term.fence = now.as_micros().max(term.fence + 1);
                    term.holder = Some(node.clone());
                    // Before anybody acts on it; a machine that dies within moments of this comes
                    // back with a later clock, and the fence is no less than that.
                    note(state, name);
                }
            }
            let term = state.circle.terms.entry(name.clone()).or_default();
            term.until_ms = later_ms(now, span);
            Outcome::Held(Fence(term.fence))
        })
    }

    pub(crate) fn give_lease_back(&self, name: &Name, fence: Fence) -> bool {
        self.with(|state, _| match state.circle.terms.get_mut(name) {
            Some(term) if term.fence == fence.0 => term.holder.take().is_some(),
            _ => false,
        })
    }

    pub(crate) fn is_latest(&self, name: &Name, fence: Fence) -> bool {
        self.latest_fence(name) == Some(fence)
    }

    /// The fence of whoever holds the lease `name`, or held it last.
    pub(crate) fn latest_fence(&self, name: &Name) -> Option<Fence> {
        self.with(|state, _| state.circle.fence(name).map(Fence))
    }
}

fn note(state: &mut State, name: &Name) {
    state.changes.note(Key::Fence(name.clone()), Haste::Soon);
}

pub(super) const fn wall_ms(ms: u64) -> Wall {
    Wall::from_micros(ms.saturating_mul(1_000))
}
