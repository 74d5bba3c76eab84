//! The room, second by second.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::room::{
    self, Band, Beat, Beaten, Bounds, Budget, Calling, Census, Claim, Epoch, Glance, Governor,
    Group, Ledger, Load, Look, Outlook, Place, Policy, Positions, Release, Rules, Tier,
    Whereabouts,
};
use tidegate_core::time::{Mono, Wall};

use super::formulas::{Asked, Formula, Formulas};
use super::people::{Draws, Person, Stage};
use super::record::{Counted, Passed, Record, Told};
use super::story::Story;
use super::watched::Watched;

/// When it is, by the store's clock.
const BEGAN_US: u64 = 1_790_000_000_000_000;
const RULES: Rules = Rules {
    waiting_max: 1_000_000,
    misses_max: 3,
    settle_ms: 0,
    ticket_ms: 86_400_000,
};
const FENCE: u64 = 1;
/// Somebody who was called has so long to come.
const CLAIM_S: u64 = 120;
/// Seconds from being called until a page has asked and its owner has come.
const COMES_S: (u64, u64) = (1, 12);
/// Seconds until a browser has the page and comes back with the cookie.
const RETURNS_S: u64 = 2;
const SWEEP_EVERY_S: u64 = 5;
/// Longer than anything lasts here.
const NEVER_MS: u64 = 1 << 40;
/// The leader counts the line and tells waits.
const LOOK_EVERY_S: u64 = 10;
/// So many places all over the line are told a wait.
const TOLD_AT_ONCE: usize = 24;
/// Beats per second; with some thousands who wait that is one in a minute and a half.
const BEATS: f64 = 40.0;
/// More than a fleet will ever have to spare: what bounds the rate is the story.
const PLENTY_RPS: f64 = 1e9;

#[derive(Clone, Copy, Debug)]
enum Act {
    /// Comes back with the place for the first time.
    Return,
    /// Is heard of.
    Beat,
    /// Goes in.
    Claim,
}

/// Everything there is in a run.
pub(super) struct World<'a> {
    story: &'a Story,
    now: u64,
    /// Who comes is drawn apart from what goes on, so that under every order the same people come.
    crowd: Draws,
    draws: Draws,
    ledger: Ledger,
    epoch: Epoch,
    people: Vec<Person>,
    /// Who does what in which second.
    acts: Vec<Vec<(u32, Act)>>,
    /// Those who think that they wait, by tier.
    lines: [BTreeMap<Place, u32>; Tier::COUNT],
    release: Release,
    tick: u64,
    governor: Governor,
    policy: Policy,
    outlook: Outlook,
    band: Band,
    formulas: Formulas,
    /// Swept since the last look, by tier, and how many of them had stood for long.
    slept: ([u64; Tier::COUNT], u64),
    /// How many have come to each tier, and the last number in it that was called.
    numbers: [u32; Tier::COUNT],
    serving: [u32; Tier::COUNT],
    /// Who is still to sign in, with the second.
    signing: Vec<(u64, u32)>,
    pending: Vec<(u32, Told)>,
    watched: Watched,
    record: Record,
}

impl<'a> World<'a> {
    pub(super) fn new(story: &'a Story, seed: u64) -> Self {
        let mut ledger = Ledger::default();
        let epoch = ledger.open(Wall::from_micros(BEGAN_US), &RULES, None);
        let bounds = bounds(story.rate);
        let mut governor = Governor::new(Budget {
            polls: 500.0,
            beats: BEATS,
        });
        Self {
            story,
            now: 0,
            crowd: Draws::new(seed),
            draws: Draws::new(!seed),
            ledger,
            epoch,
            people: Vec::new(),
            acts: vec![Vec::new(); story.ends as usize + 2_000],
            lines: Default::default(),
            release: Release::new(bounds, Load::new(1.0)),
            tick: 0,
            policy: governor.policy(Mono::default(), &[], 0.0),
            governor,
            outlook: Outlook::default(),
            band: Band::new(),
            formulas: Formulas::new(story.rate),
            slept: ([0; Tier::COUNT], 0),
            numbers: [0; Tier::COUNT],
            serving: [0; Tier::COUNT],
            signing: Vec::new(),
            pending: Vec::new(),
            watched: Watched::default(),
            record: Record::default(),
        }
    }

    pub(super) fn run(mut self) -> Record {
        let told_until = self.story.told.1;
        while self.now < self.story.ends {
            self.second();
            self.now += 1;
            if self.now > told_until && self.pending.is_empty() {
                break;
            }
        }
        // What the ledger says, against which our own count of the others can be held.
        let counted = self
            .ledger
            .census(self.wall(), &RULES, self.epoch, Place(0));
        self.record.ready = counted.map_or(0, |census| census.ready);
        self.record.watched = self.watched.visitors;
        self.record.jumps = self.watched.jumps;
        self.record.ended = self.now;
        self.record.joined = self.people.len() as u64;
        self.record
    }

    fn second(&mut self) {
        for (who, act) in std::mem::take(&mut self.acts[self.now as usize]) {
            self.act(who, act);
        }
        self.come();
        self.sign_in();
        if self.story.sweeps && self.now.is_multiple_of(SWEEP_EVERY_S) {
            self.sweep();
        }
        let settled =
            self.ledger
                .settle(self.wall(), &RULES, (self.epoch, FENCE), room::RELEASE_MAX);
        self.record.returned += settled.unwrap_or_default();
        if !self.story.is_held(self.now) {
            self.call();
        }
        if self.now.is_multiple_of(LOOK_EVERY_S) {
            self.look();
        }
    }

    fn come(&mut self) {
        let count = self.crowd.poisson(self.story.coming_at(self.now));
        if count == 0 {
            return;
        }
        let joined = self.ledger.join(self.wall(), &RULES, self.epoch, count);
        let first = joined.unwrap_or_default();
        for at in 0..count {
            let (crowd, now) = (&self.story.crowd, self.now);
            let (mut person, returns) = self.crowd.person(crowd, now, first.plus(at));
            let number = &mut self.numbers[person.tier.index()];
            *number += 1;
            person.number = *number;
            let who = self.people.len() as u32;
            self.people.push(person);
            if returns {
                self.later(who, now + RETURNS_S, Act::Return);
            }
        }
    }

    fn act(&mut self, who: u32, act: Act) {
        let person = self.people[who as usize];
        if !person.is_there(self.now) && !matches!(act, Act::Return) {
            return;
        }
        match act {
            Act::Return | Act::Beat => self.beat(who, person),
            Act::Claim => self.claim(who, person),
        }
    }

    fn beat(&mut self, who: u32, person: Person) {
        let beat = Beat {
            place: person.place,
            tier: person.tier,
            may_enter: true,
        };
        let nobody = Place(0);
        let heard = self
            .ledger
            .beat(self.wall(), &RULES, self.epoch, nobody, &[beat]);
        let heard = heard.unwrap_or_default();
        let Some(Beaten::Waiting(_)) = heard.first() else {
            return;
        };
        if person.stage != Stage::Waits {
            self.people[who as usize].stage = Stage::Waits;
            self.lines[person.tier.index()].insert(person.place, who);
        }
        let beat = self.policy.beat.as_secs();
        // Pages do not keep time together.
        let next = self.draws.between(beat * 9 / 10, beat * 11 / 10 + 1);
        self.later(who, self.now + next, Act::Beat);
    }

    fn claim(&mut self, who: u32, person: Person) {
        let claim = self
            .ledger
            .claim(self.wall(), &RULES, self.epoch, person.place);
        match claim {
            Ok(Claim::Passed { is_first: true, .. }) => {
                let it = &mut self.people[who as usize];
                it.stage = Stage::Passed;
                it.passed = Some(self.now);
                self.record.claimed += 1;
                let minute = (self.now / 60) as usize;
                self.record.claimed_by_minute.resize(minute + 1, 0);
                self.record.claimed_by_minute[minute] += 1;
                self.record.passed.push(Passed {
                    who,
                    tier: person.tier.number(),
                    came: person.place.since_ms() / 1_000,
                    called: person.called.unwrap_or(self.now),
                });
            }
            Ok(Claim::Late) => self.record.returned += 1,
            _ => {}
        }
    }

    fn sign_in(&mut self) {
        if let Some(wave) = self.story.wave
            && wave.from == self.now
        {
            let line: Vec<_> = self.lines[Tier::Anonymous.index()]
                .values()
                .copied()
                .collect();
            for who in line {
                if self.draws.unit() < wave.part && self.people[who as usize].is_there(self.now) {
                    let at = self.draws.between(wave.from, wave.until);
                    self.signing.push((at, who));
                }
            }
            self.signing.sort_unstable_by(|one, other| other.cmp(one));
        }
        while let Some((_, who)) = self.signing.pop_if(|(at, _)| *at <= self.now) {
            let person = &mut self.people[who as usize];
            if person.stage != Stage::Waits || !person.is_there(self.now) {
                continue;
            }
            let (place, to) = (person.place, Tier::SignedIn);
            let from = person.tier;
            let now = Wall::from_micros(BEGAN_US + 1_000_000 * self.now);
            let moved = self.ledger.promote(now, &RULES, self.epoch, place, to);
            if moved == Ok(true) {
                person.tier = to;
                person.promoted = Some(self.now);
                self.lines[from.index()].remove(&place);
                self.lines[to.index()].insert(place, who);
            }
        }
    }

    fn sweep(&mut self) {
        let grace_ms = self.policy.grace.as_millis() as u64;
        let aged = room::aged(self.place(), self.policy.grace);
        let by = (self.epoch, FENCE);
        loop {
            let swept =
                self.ledger
                    .sweep(self.wall(), &RULES, by, grace_ms, aged, room::RELEASE_MAX);
            let swept = swept.unwrap_or_default();
            for (sum, slept) in self.slept.0.iter_mut().zip(swept.slept) {
                *sum += slept;
            }
            self.slept.1 += swept.aged;
            if !swept.is_more {
                break;
            }
        }
    }

    fn call(&mut self) {
        self.release
            .set_bounds(bounds(self.story.rate_at(self.now)));
        let Record {
            released,
            claimed,
            returned,
            ..
        } = self.record;
        let look = Look {
            spare_rps: Some(PLENTY_RPS),
            admitted_rps: 0.0,
            active: 0,
            ready: released - claimed - returned,
            claimed,
            returned,
        };
        let plan = self.release.tick(self.mono(), &look);
        self.tick += 1;
        let calling = Calling {
            order: self.story.order,
            tick: self.tick,
            count: plan.count,
            claim_ms: 1_000 * CLAIM_S,
            grace_ms: if self.story.sweeps {
                self.policy.grace.as_millis() as u64
            } else {
                NEVER_MS
            },
            enough: 0,
        };
        let by = (self.epoch, FENCE);
        let called = self.ledger.release(self.wall(), &RULES, by, &calling);
        self.record.released += called.map_or(0, |called| called.count);
        self.hear();
    }

    /// Whoever was called finds out: all who stand before the first that still waits.
    fn hear(&mut self) {
        for tier in Tier::ALL {
            while let Some((&place, &who)) = self.lines[tier.index()].first_key_value() {
                let order = &self.story.order;
                let found = self
                    .ledger
                    .find(self.wall(), &RULES, self.epoch, order, (tier, place));
                match found.map(|found| found.whereabouts) {
                    Ok(Whereabouts::Waiting(_)) => break,
                    Ok(Whereabouts::Ready(_)) => self.called(who),
                    _ => {}
                }
                self.lines[tier.index()].remove(&place);
            }
        }
    }

    fn called(&mut self, who: u32) {
        let person = &mut self.people[who as usize];
        person.called.get_or_insert(self.now);
        person.stage = Stage::Called;
        if person.promoted.is_none() {
            let serving = &mut self.serving[person.tier.index()];
            *serving = person.number.max(*serving);
        }
        if person.sees {
            let at = self.now + self.draws.between(COMES_S.0, COMES_S.1);
            self.later(who, at, Act::Claim);
        } else {
            // Comes back to the page some time, and sees that they wait again.
            person.sees = true;
            let at = self.now + CLAIM_S + self.draws.between(10, 60);
            self.later(who, at, Act::Beat);
        }
    }

    fn look(&mut self) {
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

    fn later(&mut self, who: u32, at: u64, act: Act) {
        if let Some(acts) = self.acts.get_mut(at as usize) {
            acts.push((who, act));
        }
    }

    const fn wall(&self) -> Wall {
        Wall::from_micros(BEGAN_US + 1_000_000 * self.now)
    }

    const fn mono(&self) -> Mono {
        Mono::from_millis(1_000 * self.now)
    }

    const fn place(&self) -> Place {
        self.epoch.place(self.wall())
    }
}

const fn bounds(rate: f64) -> Bounds {
    Bounds {
        rate_max: rate,
        rate_min: 0.1,
        fill: Duration::from_secs(30),
        active_max: None,
    }
}
