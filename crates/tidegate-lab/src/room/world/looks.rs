//! What the leader tells, and what becomes of it.

use std::time::Duration;

use tidegate_core::room::{self, Census, Glance, Group, Place, Positions, Tier};

use super::super::formulas::{Asked, Formula};
use super::super::people::Stage;
use super::super::record::{Counted, Told};
use super::{RULES, World};

/// So many places all over the line are told a wait.
const TOLD_AT_ONCE: usize = 24;

impl World<'_> {
    pub(super) fn look(&mut self) {
        let aged = room::aged(self.place(), self.policy.grace);
        let counted = self.ledger.census(self.wall(), &RULES, self.epoch, aged);
        let census = counted.unwrap_or_default();
        let document = Positions::of(self.story.order, &census);
        self.judge();
        let (slept, slept_aged) = std::mem::take(&mut self.slept);
        if self.story.is_held(self.now) {
            self.outlook.skip();
            self.band.forget();
        } else {
            let glance = Glance {
                now: self.place(),
                document: &document,
                tallies: census.tallies,
                aged: census.aged,
                slept,
                slept_aged,
                grace: self.policy.grace,
            };
            self.outlook.learn(self.mono(), &glance);
            self.formulas.learn(self.now, census.tallies.released);
            self.tell(&document, &census);
        }
        let all = Group {
            count: document.waiting(),
            wait: None,
        };
        self.policy = self.governor.policy(self.mono(), &[all], 0.0);
    }

    /// Tells waits to some all over the line.
    fn tell(&mut self, document: &Positions, census: &Census) {
        let marks = &census.marks;
        let first = [0, 1, 2].map(|at: usize| marks[at].first().copied());
        self.band.served(self.mono(), first);
        let all: Vec<_> = Tier::ALL
            .into_iter()
            .flat_map(|tier| marks[tier.index()].iter().map(move |place| (tier, *place)))
            .collect();
        let truth = self.truth();
        let mut counted = Counted {
            told: document.waiting(),
            living: truth.iter().map(|line| line.len() as u64).sum(),
            position_off: 0.0,
        };
        for &(tier, place) in all.iter().step_by(all.len().div_ceil(TOLD_AT_ONCE).max(1)) {
            let ahead = document.ahead(tier, place);
            let bounds = self.story.order.bounds(tier, place);
            let each = truth.iter().zip(bounds);
            let living: usize = each
                .map(|(line, bound)| line.partition_point(|it| *it < bound))
                .sum();
            let off = ahead.abs_diff(living as u64) as f64 / counted.living.max(1) as f64;
            counted.position_off = counted.position_off.max(off);
            let Some(wait) = self.outlook.wait(tier, place) else {
                continue;
            };
            let band = self.band.around(wait);
            self.band.tell(self.mono(), tier, place, wait);
            self.note(document, (tier, place), wait, band);
        }
        if self.is_told() {
            self.record.counted.push(counted);
        }
        self.watch();
    }

    /// Those who are watched read what is told now, and so does whoever came last.
    fn watch(&mut self) {
        let (people, outlook, band) = (&self.people, &self.outlook, &self.band);
        let told = |who: u32| {
            let person = &people[who as usize];
            let waits = person.stage == Stage::Waits && person.is_there(self.now);
            let wait = outlook.wait(person.tier, person.place).filter(|_| waits)?;
            Some((wait, band.around(wait)))
        };
        self.watched.tell(self.now, told);
        let last = self.lines[Tier::Anonymous.index()].last_key_value();
        if let Some((_, &who)) = last.filter(|_| self.is_told())
            && self.watched.wants(who)
            && let Some((wait, band)) = told(who)
        {
            self.watched.watch(self.now, who, wait, band);
        }
    }

    /// Keeps what was told to somebody until it is known how long it took.
    fn note(
        &mut self,
        document: &Positions,
        (tier, place): (Tier, Place),
        wait: Duration,
        band: (Duration, Duration),
    ) {
        let Some(&who) = self.lines[tier.index()]
            .get(&place)
            .filter(|_| self.is_told())
        else {
            return;
        };
        let minute = place.since_ms().div_ceil(60_000) * 60_000;
        let minute = Place(minute * room::SEQUENCES);
        let person = &self.people[who as usize];
        let ahead = document.ahead(tier, place) as f64;
        let asked = Asked {
            ahead,
            ahead_of_minute: document.ahead(tier, minute) as f64,
            tickets: match person.promoted {
                None => f64::from(person.number.saturating_sub(self.serving[tier.index()])),
                Some(_) => ahead,
            },
            hazard: self.outlook.pace().hazard(),
        };
        let mut waits = self.formulas.waits(&asked);
        waits[Formula::Tidegate.index()] = Some(wait.as_secs_f64());
        let told = Told {
            at: self.now,
            took: 0.0,
            waits,
            band: (band.0.as_secs_f64(), band.1.as_secs_f64()),
        };
        self.pending.push((who, told));
    }

    /// Who was called since they were told a wait is judged; who has left, or went to another tier, never will be.
    fn judge(&mut self) {
        let (people, now, judged) = (&self.people, self.now, &mut self.record.told);
        self.pending.retain(|(who, told)| {
            let person = &people[*who as usize];
            if person.promoted.is_some_and(|at| told.at < at) {
                return false;
            }
            let Some(called) = person.called else {
                return person.is_there(now);
            };
            if person.is_there(called) && called > told.at {
                judged.push(Told {
                    took: (called - told.at) as f64,
                    ..*told
                });
            }
            false
        });
    }

    /// The places of those who wait and are there, by tier.
    fn truth(&self) -> [Vec<Place>; Tier::COUNT] {
        [0, 1, 2].map(|tier: usize| {
            let line = self.lines[tier].iter();
            line.filter(|(_, who)| self.people[**who as usize].is_there(self.now))
                .map(|(place, _)| *place)
                .collect()
        })
    }

    fn is_told(&self) -> bool {
        let (from, until) = self.story.told;
        (from..until).contains(&self.now)
    }
}
