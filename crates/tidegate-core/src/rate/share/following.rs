//! Which part of a limit a node may use: one in as many as there may be nodes that use one.
//!
//! A node renews its membership several times in a lease, and reads who is there after that. With its next renewal it says
//! which membership it follows by now, and the others read that.
//!
//! - **Who joins starts at nothing.** It takes a part when each of those that were there follows a
//!   membership with it, or has had the time to let its lease pass.
//! - **Who has gone counts until its lease has passed**, unless it said goodbye, which is after it stopped.
//! - **Who cannot renew has no part** from the end of its lease on, and joins anew.
//! - **A store that has lost its memory** is believed after a lease: until then who was there counts as being there, and
//!   nobody takes a part anew.
//!
//! So the parts never add up to more than the whole, in whatever order the news arrive. Take those that have a
//! part at some moment, and of the memberships that they follow the oldest. Each of them was in that: whoever
//! joined later would still wait for the node that follows it. And none has left since. So each of them counts
//! at least all of them, and takes no more than one part in that many.
//!
//! What has to hold for that: a process spends at the time by which it decides; clocks run alike to one part
//! in [`DRIFT_PARTS`]; and the store forgets all of its members or none. If it forgets some, as in a failover to a replica
//! that had not heard of them yet, there is one part too many for each until it has renewed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Life;
use crate::rate::Tick;

/// Most members of a fleet.
pub const MEMBERS_MAX: usize = 4_096;
/// A lease is over for its holder this part of it early, so that clocks need not run alike.
pub const DRIFT_PARTS: u64 = 32;
/// Changes of a part that are remembered one by one.
const CHANGES_MAX: usize = 8;

/// Which state of a membership: a later one is greater, also when the store has lost its memory in between. A
/// count of changes that starts no lower than the store's clock is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Who is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Which state.
    pub epoch: Epoch,
    /// For how long the store has forgotten nobody, in microseconds.
    pub age_us: u64,
    /// Those whose lease has not passed, each life once. Also one whose place a later life of the same
    /// node has taken: nobody can know that it has stopped.
    pub members: Vec<Member>,
}

/// Who is there, in a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub life: Life,
    /// The first membership that it was in without a break until now: when it comes back after its lease has passed,
    /// a later one.
    pub since: Epoch,
    /// The membership that it said it follows. A store that does not know says the first of all; who
    /// joins then waits for leases.
    pub follows: Epoch,
    /// How long its lease still lasts, in microseconds.
    pub left_us: u64,
}

/// Why a membership was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// It is older than the one that is followed.
    Stale,
    /// This node is not in it.
    Absent,
    /// It has more than [`MEMBERS_MAX`] members.
    Full,
}

/// What a node may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// One part in so many, 1 or more.
    OneIn(u32),
    /// Nothing yet: others may still use what it is to have.
    Joining {
        /// Microseconds until it has a part at the latest, not counting the time to its next renewal; 1 or more.
        wait_us: u64,
    },
    /// Nothing: it is no member, or it could not renew in time.
    Out,
}

/// The node's side.
#[derive(Clone, Debug)]
pub struct Following {
    life: Life,
    lease_us: u64,
    epoch: Epoch,
    /// The first membership that it is in without a break.
    since: Epoch,
    stage: Stage,
    /// Until when the lease lasts for this node.
    until: Tick,
    /// Those that may have a part.
    others: BTreeSet<Life>,
    changes: Changes,
}

#[derive(Clone, Debug)]
enum Stage {
    Out,
    Joining {
        /// Those that may not know of this node, and until which age of the store they may have a part all the same.
        waits_for: BTreeMap<Life, u64>,
        /// How old the store was at the latest reply, and when that came.
        age_us: u64,
        at: Tick,
    },
    In,
}

/// How large the part was from when on, the latest times last. The first time is that of joining.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes(VecDeque<(Tick, u32)>);

impl Following {
    /// A node that is no member yet; it will renew for `lease_us` each time, as all others do.
    pub const fn new(life: Life, lease_us: u64) -> Self {
        Self {
            life,
            lease_us,
            epoch: Epoch(0),
            since: Epoch(0),
            stage: Stage::Out,
            until: Tick(0),
            others: BTreeSet::new(),
            changes: Changes::new(),
        }
    }

    /// What to say with the next renewal: which membership this node follows.
    pub const fn follows(&self) -> Epoch {
        self.epoch
    }

    /// Takes a membership that was read after a renewal which was sent at `asked`. A renewal without one does not
    /// count: who goes on without knowing who is there does not lower its part.
    pub fn take(
        &mut self,
        asked: Tick,
        now: Tick,
        membership: &Membership,
    ) -> Result<Part, NotTaken> {
        let members = &membership.members;
        if membership.epoch < self.epoch {
            return Err(NotTaken::Stale);
        }
        if members.len() > MEMBERS_MAX {
            return Err(NotTaken::Full);
        }
        let Some(own) = members.iter().find(|it| it.life == self.life) else {
            return Err(NotTaken::Absent);
        };

        let young_us = self.lease_us.saturating_sub(membership.age_us);
        let there = members.iter().filter(|it| it.life != self.life);
        if young_us == 0 {
            self.others.clear();
        }
        self.others.extend(there.clone().map(|it| it.life));
        // Who fell out has no part: the others may have taken it over before this renewal reached the store.
        // Only a store that lost its memory while this node was a member has not told them so.
        let began = Tick(now.since(Tick(membership.age_us)));
        let forgotten = young_us > 0 && began < self.until;
        let stayed = match self.stage {
            Stage::Out => false,
            Stage::Joining { .. } => own.since == self.since,
            Stage::In => own.since == self.since || forgotten,
        };
        if !stayed {
            let until = |left_us| membership.age_us.saturating_add(left_us);
            self.stage = Stage::Joining {
                waits_for: there.map(|it| (it.life, until(it.left_us))).collect(),
                age_us: 0,
                at: now,
            };
        }
        self.since = own.since;
        self.epoch = membership.epoch;
        let until = asked.plus(self.lease_us - self.lease_us / DRIFT_PARTS);
        self.until = until.max(self.until);
        self.settle(now, membership);
        if matches!(self.stage, Stage::In) {
            self.changes.push(now, 1 + self.others.len() as u32);
        }
        Ok(self.part(now))
    }

    /// Stops using a part. A goodbye that is sent after this is true.
    pub fn leave(&mut self) {
        self.stage = Stage::Out;
    }

    /// What this node may use at `now`.
    pub fn part(&self, now: Tick) -> Part {
        if self.until <= now {
            return Part::Out;
        }
        match &self.stage {
            Stage::Out => Part::Out,
            Stage::Joining {
                waits_for,
                age_us,
                at,
            } => {
                let age_us = age_us.saturating_add(now.since(*at));
                let until_us = waits_for.values().fold(self.lease_us, |a, b| a.max(*b));
                Part::Joining {
                    wait_us: until_us.saturating_sub(age_us).max(1),
                }
            }
            Stage::In => self.last().map_or(Part::Out, Part::OneIn),
        }
    }

    /// What it last had, however long ago: one part in so many.
    pub fn last(&self) -> Option<u32> {
        self.changes.last()
    }

    /// How its part changed.
    pub(super) const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Ends the joining if nobody has to be waited for any more: by what the store wrote, and by its clock when it wrote that.
    /// By this node's clock a late reply would be believed in what is no longer so: that nobody has renewed since with a
    /// store that has lost its memory of this node, or that had not heard of the other yet.
    fn settle(&mut self, now: Tick, membership: &Membership) {
        let Stage::Joining {
            waits_for,
            age_us,
            at,
        } = &mut self.stage
        else {
            return;
        };
        (*age_us, *at) = (membership.age_us, now);
        let follow = membership.members.iter();
        for other in follow.filter(|it| it.follows >= self.since) {
            waits_for.remove(&other.life);
        }
        waits_for.retain(|_, until_us| membership.age_us < *until_us);
        if waits_for.is_empty() && self.lease_us <= membership.age_us {
            self.stage = Stage::In;
            self.changes = Changes::new();
        }
    }
}

impl Changes {
    const fn new() -> Self {
        Self(VecDeque::new())
    }

    fn last(&self) -> Option<u32> {
        self.0.back().map(|&(_, parts)| parts)
    }

    fn push(&mut self, now: Tick, parts: u32) {
        if self.last() == Some(parts) {
            return;
        }
        self.0.push_back((now, parts));
        if self.0.len() > CHANGES_MAX
            && let Some((_, second)) = self.0.remove(1)
            && let Some((_, first)) = self.0.front_mut()
        {
            // The two times become one, with the smaller part: a bucket is never taken to be fuller than it was.
            *first = second.max(*first);
        }
    }

    /// When the node joined.
    pub(super) fn joined(&self) -> Option<Tick> {
        self.0.front().map(|&(at, _)| at)
    }

    /// In how many parts at `time`; `None` before the node joined.
    pub(super) fn at(&self, time: Tick) -> Option<u32> {
        let until = self.0.iter().take_while(|&&(at, _)| at <= time);
        until.last().map(|&(_, parts)| parts)
    }

    /// What came after `time`.
    pub(super) fn after(&self, time: Tick) -> impl Iterator<Item = (Tick, u32)> {
        self.0.iter().filter(move |&&(at, _)| time < at).copied()
    }
}

/// The store's side: who is there, and what they follow.
#[derive(Clone, Debug)]
pub struct Roll {
    began: Tick,
    epoch: Epoch,
    members: BTreeMap<Life, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    since: Epoch,
    follows: Epoch,
    until: Tick,
}

impl Roll {
    /// A store that knows nobody: it is new, or has lost its memory.
    pub const fn new(now: Tick) -> Self {
        Self {
            began: now,
            epoch: Epoch(now.0),
            members: BTreeMap::new(),
        }
    }

    /// Makes `life`, which follows `follows`, a member for `lease_us` from now on. False if there are
    /// [`MEMBERS_MAX`] already.
    pub fn renew(&mut self, now: Tick, life: Life, follows: Epoch, lease_us: u64) -> bool {
        self.prune(now);
        let until = now.plus(lease_us);
        if let Some(entry) = self.members.get_mut(&life) {
            entry.until = until;
            entry.follows = follows;
            return true;
        }
        if self.members.len() >= MEMBERS_MAX {
            return false;
        }
        self.changed(now);
        let entry = Entry {
            since: self.epoch,
            follows,
            until,
        };
        self.members.insert(life, entry);
        true
    }

    /// Takes `life` out, which has stopped using a part.
    pub fn leave(&mut self, now: Tick, life: Life) {
        if self.members.remove(&life).is_some() {
            self.changed(now);
        }
    }

    /// Who is there.
    pub fn membership(&mut self, now: Tick) -> Membership {
        self.prune(now);
        let members = self.members.iter();
        Membership {
            epoch: self.epoch,
            age_us: now.since(self.began),
            members: members
                .map(|(&life, entry)| Member {
                    life,
                    since: entry.since,
                    follows: entry.follows,
                    left_us: entry.until.since(now),
                })
                .collect(),
        }
    }

    fn prune(&mut self, now: Tick) {
        let before = self.members.len();
        self.members.retain(|_, entry| now < entry.until);
        if self.members.len() < before {
            self.changed(now);
        }
    }

    fn changed(&mut self, now: Tick) {
        self.epoch = Epoch((self.epoch.0 + 1).max(now.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: u64 = 3_000;

    /// A store that has been there for long, and nodes that all have a part.
    fn fleet(nodes: u64) -> (Roll, Vec<Following>) {
        let mut roll = Roll::new(Tick(0));
        let mut fleet: Vec<_> = (0..nodes)
            .map(|life| Following::new(Life(life), LEASE))
            .collect();
        for now in [10_000, 10_001, 10_002] {
            for node in &mut fleet {
                renew(&mut roll, node, now);
            }
        }
        (roll, fleet)
    }

    fn renew(roll: &mut Roll, node: &mut Following, now: u64) -> Part {
        let now = Tick(now);
        assert!(roll.renew(now, node.life, node.follows(), LEASE));
        node.take(now, now, &roll.membership(now)).unwrap()
    }

    #[test]
    fn who_joins_has_nothing_until_everybody_follows_a_membership_with_it() {
        let (mut roll, mut fleet) = fleet(2);
        let mut third = Following::new(Life(7), LEASE);

        assert!(matches!(
            renew(&mut roll, &mut third, 11_000),
            Part::Joining { wait_us: 2_002 }
        ));
        assert_eq!(renew(&mut roll, &mut fleet[0], 11_100), Part::OneIn(3));
        assert_eq!(renew(&mut roll, &mut fleet[1], 11_200), Part::OneIn(3));
        // They have lowered their parts, but the store has heard of neither.
        assert!(matches!(
            renew(&mut roll, &mut third, 11_300),
            Part::Joining { .. }
        ));
        renew(&mut roll, &mut fleet[0], 11_400);
        assert!(matches!(
            renew(&mut roll, &mut third, 11_500),
            Part::Joining { .. }
        ));
        renew(&mut roll, &mut fleet[1], 11_600);

        assert_eq!(renew(&mut roll, &mut third, 11_700), Part::OneIn(3));
    }

    #[test]
    fn who_is_not_heard_of_is_waited_for_until_its_lease_has_passed() {
        let (mut roll, fleet) = fleet(2);
        let mut third = Following::new(Life(7), LEASE);

        renew(&mut roll, &mut third, 11_000);
        assert!(matches!(
            renew(&mut roll, &mut third, 13_000),
            Part::Joining { .. }
        ));

        assert_eq!(renew(&mut roll, &mut third, 13_002), Part::OneIn(1));
        assert!(
            fleet
                .iter()
                .all(|node| node.part(Tick(13_002)) == Part::Out)
        );
    }

    #[test]
    fn the_part_of_who_said_goodbye_is_taken_over_at_the_next_renewal() {
        let (mut roll, mut fleet) = fleet(3);

        fleet[2].leave();
        roll.leave(Tick(11_000), Life(2));

        assert_eq!(fleet[2].part(Tick(11_000)), Part::Out);
        assert_eq!(renew(&mut roll, &mut fleet[0], 11_000), Part::OneIn(2));
    }

    #[test]
    fn who_cannot_renew_is_out_before_its_lease_has_passed_and_joins_anew() {
        let (mut roll, mut fleet) = fleet(2);
        let last = 10_002 + LEASE - LEASE / DRIFT_PARTS;

        assert_eq!(fleet[1].part(Tick(last - 1)), Part::OneIn(2));
        assert_eq!(fleet[1].part(Tick(last)), Part::Out);
        assert_eq!(fleet[1].last(), Some(2));

        renew(&mut roll, &mut fleet[0], 12_900);
        renew(&mut roll, &mut fleet[0], 13_002);
        assert!(matches!(
            renew(&mut roll, &mut fleet[1], 13_003),
            Part::Joining { .. }
        ));
    }

    #[test]
    fn a_renewal_without_a_membership_keeps_nothing() {
        let (mut roll, mut fleet) = fleet(1);

        roll.renew(Tick(12_000), Life(0), fleet[0].follows(), LEASE);
        let without = Membership {
            members: Vec::new(),
            ..roll.membership(Tick(12_000))
        };

        let taken = fleet[0].take(Tick(12_000), Tick(12_000), &without);
        assert_eq!(taken, Err(NotTaken::Absent));
        assert_eq!(fleet[0].part(Tick(13_000)), Part::Out);
    }

    #[test]
    fn a_store_that_has_lost_its_memory_takes_nobody_away_and_lets_nobody_in_for_a_lease() {
        let (_, mut fleet) = fleet(3);
        let mut roll = Roll::new(Tick(11_000));
        let mut fourth = Following::new(Life(7), LEASE);

        assert_eq!(renew(&mut roll, &mut fleet[0], 11_100), Part::OneIn(3));
        assert!(matches!(
            renew(&mut roll, &mut fourth, 11_200),
            Part::Joining { .. }
        ));
        assert_eq!(renew(&mut roll, &mut fleet[0], 11_300), Part::OneIn(4));
        assert!(matches!(
            renew(&mut roll, &mut fourth, 13_999),
            Part::Joining { wait_us: 101 }
        ));

        assert_eq!(renew(&mut roll, &mut fleet[0], 14_000), Part::OneIn(2));
        assert_eq!(renew(&mut roll, &mut fourth, 14_000), Part::OneIn(2));
    }

    #[test]
    fn a_late_reply_of_a_young_store_lets_nobody_in() {
        let (_, mut fleet) = fleet(1);
        let mut roll = Roll::new(Tick(11_000));
        let mut second = Following::new(Life(7), LEASE);
        renew(&mut roll, &mut second, 11_100);
        // Written when the store knew nothing of the first, which has a part still.
        let late = roll.membership(Tick(11_200));
        assert_eq!(renew(&mut roll, &mut fleet[0], 12_800), Part::OneIn(2));

        let taken = second.take(Tick(11_200), Tick(14_050), &late);

        assert!(matches!(taken, Ok(Part::Joining { .. })), "{taken:?}");
        assert_eq!(renew(&mut roll, &mut second, 14_060), Part::OneIn(2));
    }

    #[test]
    fn an_older_membership_is_not_taken() {
        let (mut roll, mut fleet) = fleet(2);
        let older = roll.membership(Tick(11_000));
        roll.renew(Tick(11_000), Life(7), Epoch(0), LEASE);
        renew(&mut roll, &mut fleet[0], 11_000);

        let taken = fleet[0].take(Tick(11_000), Tick(11_001), &older);

        assert_eq!(taken, Err(NotTaken::Stale));
        assert_eq!(fleet[0].part(Tick(11_001)), Part::OneIn(3));
    }

    #[test]
    fn of_many_changes_the_oldest_become_one_with_the_smaller_part() {
        let mut changes = Changes::new();
        for (at, parts) in [3, 9, 4, 5, 6, 7, 8, 10, 11, 12].into_iter().enumerate() {
            changes.push(Tick(at as u64), parts);
        }

        assert_eq!(changes.joined(), Some(Tick(0)));
        assert_eq!(changes.at(Tick(2)), Some(9));
        assert_eq!(changes.at(Tick(3)), Some(5));
        assert_eq!(
            changes.after(Tick(7)).collect::<Vec<_>>(),
            [(Tick(8), 11), (Tick(9), 12)]
        );
    }
}
