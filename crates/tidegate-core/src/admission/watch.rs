//! What happens, told to those who watch it: the limit, the escape and the level; and what they make
//! of it: how many may be inside, and who is kept out.

use std::time::Duration;

use super::Admission;
use super::escape::{Escape, Turn, Work};
use super::level::{self, Room};
use super::ticket::Running;
use super::types::Action;
use crate::facts::{Class, Facts, GroupId, RouteId};
use crate::limit::Ending;
use crate::service::ServiceTimes;
use crate::time::Mono;

impl Admission {
    /// How many may be inside now.
    pub(super) fn slots(&self) -> u32 {
        let limit = self.limit.limit();
        let cap = self.escape.as_ref().map_or(limit, Escape::cap);
        let told = self.cap.filter(|(_, until)| self.latest < *until);
        limit.min(cap).min(told.map_or(limit, |(most, _)| most))
    }

    pub(super) fn is_escaping(&self) -> bool {
        self.escape.as_ref().is_some_and(Escape::is_on)
    }

    pub(super) fn keeps_out(&self, class: Class) -> bool {
        (self.escape.as_ref()).is_some_and(|escape| escape.keeps_out(class))
    }

    /// A request in `group` found no slot.
    pub(super) fn full(&mut self, now: Mono, group: GroupId) {
        self.limit_is_short(now);
        let slots = self.slots();
        // A group of its own that is full says nothing about the application.
        let shared = self.occupancy.cap(slots, group) >= slots || self.occupancy.total() >= slots;
        if let Some(escape) = self.escape.as_mut().filter(|_| shared) {
            escape.full();
        }
        if let Some(leveller) = &mut self.leveller {
            leveller.full();
        }
    }

    /// More is asked for than the limit allows, which is only the limit's affair if it is what binds.
    pub(super) fn limit_is_short(&mut self, now: Mono) {
        if self.slots() == self.limit.limit() {
            self.limit.refused(now);
        }
    }

    /// Counts whether what has ended was worth its while.
    pub(super) fn judge(&mut self, now: Mono, running: &Running, ending: Ending) {
        let late = running.abandoned || now > running.facts.deadline;
        // A fast error is no work, and an application that says that it has too much did none either,
        // unless it took until nobody cared.
        if !late && ending != Ending::Worked {
            return;
        }
        if !running.abandoned {
            self.worth.ended(now, !late);
        }
        if let Some(escape) = &mut self.escape {
            let work = Work {
                started: running.started,
                in_time: !late,
                whole: ending == Ending::Worked,
            };
            escape.finished(now, work);
        }
        if let Some(leveller) = &mut self.leveller {
            let work = work_of(&self.service, running.facts.route);
            if late {
                leveller.late(work);
            } else {
                leveller.in_time(work, now.since(running.started));
            }
        }
    }

    /// Counts what is asked for, whatever the answer.
    pub(super) fn asked(&mut self, facts: &Facts) {
        if let Some(escape) = &mut self.escape {
            escape.asked(facts.class);
        }
        let slots = self.slots();
        if let Some(leveller) = &mut self.leveller
            && self.occupancy.cap(slots, facts.group) >= slots
        {
            leveller.asked(facts, work_of(&self.service, facts.route));
        }
    }

    /// What there is for those who are in no group of their own. Such a group has a part of the slots
    /// and of the queue, whatever it asks for.
    fn room(&self, now: Mono) -> Room {
        let slots = self.slots();
        let shares = |group: GroupId| self.occupancy.cap(slots, group) >= slots;
        let inside: u32 = (0u16..)
            .zip(self.occupancy.by_group())
            .filter(|&(group, _)| !shares(GroupId(group)))
            .map(|(_, inside)| inside)
            .sum();
        let oldest = Class::ALL
            .into_iter()
            .filter_map(|class| self.queue.oldest(class, shares))
            .map(|key| self.queue.entry(key).entered)
            .min();
        let wait = oldest.map_or(Duration::ZERO, |entered| now.since(entered));
        Room {
            slots: slots.saturating_sub(inside),
            wait: wait.as_secs_f64() / self.wait_max().as_secs_f64(),
        }
    }

    /// Sees whether it is time to escape, or to stop.
    pub(super) fn review(&mut self, now: Mono, out: &mut Vec<Action>) {
        if self
            .leveller
            .as_ref()
            .is_some_and(|leveller| leveller.is_due(now))
        {
            let room = self.room(now);
            if let Some(leveller) = &mut self.leveller {
                leveller.review(now, room);
            }
        }
        let limit = self.limit.limit();
        let turn = (self.escape.as_mut()).and_then(|escape| escape.review(now, limit));
        if turn == Some(Turn::Begun) {
            self.flush(now, out);
        }
    }
}

/// What a request of `route` costs.
fn work_of(service: &ServiceTimes, route: RouteId) -> level::Work {
    level::Work::of(service.mean_of(route), service.mean().unwrap_or_default())
}
