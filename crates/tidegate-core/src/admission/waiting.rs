//! The waiting requests: how many there may be and for how long, who comes in and who has to leave.

use std::time::Duration;

use super::Admission;
use super::escape::Escape;
use super::ticket::Waiting;
use super::types::{Action, Arrival, Reason};
use crate::facts::{Class, Facts, GroupId, RouteId};
use crate::queue::{Entry, Key};
use crate::time::Mono;

/// The bound of the queue before a service time is known; deadlines still apply.
pub(super) const BOUND_UNKNOWN: u32 = 1024;

/// The bound of the queue is never less, unless it is configured to be, so that chance alone refuses
/// nobody on a small application.
pub const BOUND_MIN: u32 = 4;

impl Admission {
    pub(super) fn enqueue(&mut self, now: Mono, facts: &Facts) -> Arrival {
        let patience_ends = now + self.wait_max();
        let too_late = facts.deadline.minus(self.service.margin(facts.route));
        let leave_at = patience_ends.min(too_late);
        let owner = self.tickets.reserve();
        let key = self.queue.push(Entry::new(owner, *facts, now, leave_at));
        let expires = too_late < patience_ends;
        let ticket = self.tickets.wait(owner, Waiting { key, expires });
        Arrival::Queued { ticket, leave_at }
    }

    /// Makes sure that `facts` may wait, at the cost of lower classes if need be.
    pub(super) fn make_room(
        &mut self,
        now: Mono,
        facts: &Facts,
        out: &mut Vec<Action>,
    ) -> Result<(), Reason> {
        let wait = self.estimated_wait(now, facts);
        if now + wait + self.service.margin(facts.route) > facts.deadline {
            return Err(Reason::DeadlineEnqueue);
        }
        let bytes = u64::from(facts.bytes);
        let bytes_max = self.config.queue_bytes_max;
        let kept = self.queue.bytes() - self.queue.bytes_below(facts.class);
        if kept.saturating_add(bytes) > bytes_max {
            return Err(Reason::QueueBytes);
        }

        if let Some(displaced) = self.room_for(facts.class, facts.group)? {
            self.evict(now, displaced, Some(Reason::Displaced), out);
        }
        while self.queue.bytes() + bytes > bytes_max {
            let Some(displaced) = self.oldest_of_lowest(|_| true) else {
                break;
            };
            self.evict(now, displaced, Some(Reason::Displaced), out);
        }
        Ok(())
    }

    /// Whether one more of `class` in `group` may wait, and who has to leave for it.
    pub(super) fn room_for(&self, class: Class, group: GroupId) -> Result<Option<Key>, Reason> {
        let displace = |key: Option<Key>, reason| match key {
            Some(key) if self.queue.entry(key).facts.class.is_below(class) => Ok(Some(key)),
            _ => Err(reason),
        };
        let bound = self.bound();
        if self
            .group_bound(bound, group)
            .is_some_and(|most| self.queue.len_in_group(group) >= most)
        {
            return displace(
                self.oldest_of_lowest(|other| other == group),
                Reason::GroupFull,
            );
        }
        if self.queue.len() >= bound {
            return displace(self.oldest_of_lowest(|_| true), Reason::QueueFull);
        }
        Ok(None)
    }

    /// What stands against a request like `facts`: the same things that an arrival looks at, in the same
    /// order.
    pub(super) fn hindrance(&self, now: Mono, facts: &Facts) -> Option<Reason> {
        let Facts { class, group, .. } = *facts;
        if facts.deadline <= now {
            return Some(Reason::ExpiredOnArrival);
        }
        if self.keeps_out(class) {
            return Some(Reason::Escape);
        }
        if !self.level().admits(class, facts.cohort) {
            return Some(Reason::Level);
        }
        if self.occupancy.admits(now, self.slots(), class, group) {
            return None;
        }
        if facts.retry && self.is_escaping() {
            return Some(Reason::RetryFirst);
        }
        let wait = self.estimated_wait(now, facts);
        if now + wait + self.service.margin(facts.route) > facts.deadline {
            return Some(Reason::DeadlineEnqueue);
        }
        self.room_for(class, group).err()
    }

    fn oldest_of_lowest(&self, within: impl Fn(GroupId) -> bool) -> Option<Key> {
        let lowest = self.queue.lowest_class(&within)?;
        self.queue.oldest(lowest, within)
    }

    pub(super) fn evict(
        &mut self,
        now: Mono,
        key: Key,
        reason: Option<Reason>,
        out: &mut Vec<Action>,
    ) {
        let entry = self.queue.remove(key);
        let ticket = self.tickets.ticket(entry.owner);
        let expires = self
            .tickets
            .waiting(ticket)
            .is_some_and(|waiting| waiting.expires);
        let timed = if expires {
            Reason::ExpiredInQueue
        } else {
            Reason::QueueTime
        };
        self.tickets.void(ticket);
        let reason = reason.unwrap_or(timed);
        self.turned_away(now, entry.facts.class, reason);
        out.push(Action::Evict {
            ticket,
            reason,
            waited: now.since(entry.entered),
        });
    }

    /// Remembers who was refused, unless it says nothing about capacity: what could not be done in time
    /// even without a wait.
    pub(super) fn turn_away(&mut self, now: Mono, facts: &Facts, reason: Reason) {
        if now + self.service.margin(facts.route) <= facts.deadline {
            self.turned_away(now, facts.class, reason);
        }
    }

    /// Remembers for the order of the queue that somebody of `class` is not served. A full group of
    /// its own says nothing about the class.
    pub(super) fn turned_away(&mut self, now: Mono, class: Class, reason: Reason) {
        if reason != Reason::GroupFull {
            let wait_max = self.wait_max();
            self.surplus.turned_away(now, class, wait_max);
            if let Some(leveller) = &mut self.leveller {
                leveller.turned_away();
            }
        }
    }

    /// W: the longest time in the queue. At least half of `hold`, also for an application whose
    /// service time leaves nothing of it: without any queue, chance alone would refuse many.
    pub(super) fn wait_max(&self) -> Duration {
        let hold = self.config.hold;
        let left = self
            .service
            .mean()
            .map_or(Duration::ZERO, |mean| hold.saturating_sub(mean));
        left.max(hold / 2)
    }

    /// Q: as many as can be worked off within the longest wait. limit ÷ mean service time is the
    /// throughput at the limit (Little's law), also while the application is idle and a count of
    /// completions would say next to nothing.
    pub(super) fn bound(&self) -> u32 {
        let bound = self.service.mean().map_or(BOUND_UNKNOWN, |mean| {
            let mean_ns = mean.as_nanos().max(1);
            let bound = u128::from(self.slots()) * self.wait_max().as_nanos() / mean_ns;
            u32::try_from(bound).unwrap_or(u32::MAX).max(BOUND_MIN)
        });
        bound.min(self.config.queue_max)
    }

    /// A capped group's part of the queue is its part of the slots: it could not work off more in
    /// time. `None` for a group that may use every slot.
    fn group_bound(&self, bound: u32, group: GroupId) -> Option<u32> {
        let limit = self.slots();
        let cap = self.occupancy.cap(limit, group);
        let part = (u64::from(bound) * u64::from(cap)).div_ceil(u64::from(limit));
        (cap < limit).then_some(part as u32)
    }

    /// How long a request would wait behind those that go first.
    fn estimated_wait(&self, now: Mono, facts: &Facts) -> Duration {
        let by_class = self.queue.len_by_class();
        let higher: u32 = by_class[..facts.class.index()].iter().sum();
        let same = if self.newest_first(now, facts.class) {
            0
        } else {
            by_class[facts.class.index()]
        };
        self.work_off(higher + same)
    }

    pub(super) fn work_off(&self, requests: u32) -> Duration {
        let mean = self.service.mean().unwrap_or_default();
        mean.mul_f64(f64::from(requests) / f64::from(self.slots()))
    }

    /// Takes those out who cannot be done in time as the newest go first, and those who would not
    /// be let in either.
    pub(super) fn flush(&mut self, now: Mono, out: &mut Vec<Action>) {
        let mut ahead = 0;
        for class in Class::ALL {
            let kept_out = self.keeps_out(class);
            let mut kept = 0;
            for group in 0..self.occupancy.groups() as u16 {
                let mut newer = 0;
                let mut next = self.queue.newest(class, |other| other == GroupId(group));
                while let Some(key) = next {
                    next = self.queue.older(key);
                    let facts = self.queue.entry(key).facts;
                    let done = now + self.work_off(ahead + newer) + self.usual_time(facts.route);
                    if facts.retry {
                        self.evict(now, key, Some(Reason::RetryFirst), out);
                    } else if kept_out || done > facts.deadline {
                        self.evict(now, key, Some(Reason::Flush), out);
                    } else {
                        newer += 1;
                        continue;
                    }
                    if let Some(escape) = &mut self.escape {
                        escape.flushed(1);
                    }
                }
                kept += newer;
            }
            ahead += kept;
        }
    }

    /// What a request of `route` takes when all is well: what finished last does not say that.
    fn usual_time(&self, route: RouteId) -> Duration {
        let margin = self.service.margin(route);
        let usual = self.escape.as_ref().and_then(Escape::usual_time);
        usual.map_or(margin, |usual| usual.min(margin))
    }
}
