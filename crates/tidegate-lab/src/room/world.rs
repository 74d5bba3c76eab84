//! The room, second by second.

mod looks;

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::room::{
    self, Band, Beat, Beaten, Bounds, Budget, Calling, Claim, Epoch, Governor, Ledger, Load, Look,
    Outlook, Place, Policy, Release, Rules, Tier, Whereabouts,
};
use tidegate_core::time::{Mono, Wall};

use super::formulas::Formulas;
use super::people::{Draws, Person, Stage};
use super::record::{Passed, Record, Told};
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
/// Ticks of the leader in a second.
const TICKS: u64 = 4;
const SWEEP_EVERY_S: u64 = 5;
/// Longer than anything lasts here.
const NEVER_MS: u64 = 1 << 40;
/// The leader counts the line and tells waits.
const LOOK_EVERY_S: u64 = 10;
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
        let by = (self.epoch, FENCE);
        let settled = self
            .ledger
            .settle(self.wall(), &RULES, by, room::RELEASE_MAX);
        self.record.returned += settled.unwrap_or_default();
        for (who, act) in std::mem::take(&mut self.acts[self.now as usize]) {
            self.act(who, act);
        }
        self.come();
        self.sign_in();
        if self.story.sweeps && self.now.is_multiple_of(SWEEP_EVERY_S) {
            self.sweep();
        }
        if !self.story.is_held(self.now) {
            for tick in 0..TICKS {
                self.call(Duration::from_secs(tick) / TICKS as u32);
            }
            self.hear();
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

    /// A tick of the leader, `after` so much of this second.
    fn call(&mut self, after: Duration) {
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
        let plan = self.release.tick(self.mono() + after, &look);
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
