//! What holds in every story of a room: beside the ledger goes a list of people, each with their own way through
//! [`Stage`], and nothing but that.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::prelude::*;
use tidegate_core::room::{
    Beat, Beaten, Calling, Claim, Epoch, Event, Extended, Ledger, Order, Place, Rules, Stage, Tier,
    Whereabouts,
};
use tidegate_core::time::Wall;

const RULES: Rules = Rules {
    waiting_max: 1_000,
    misses_max: 2,
    settle_ms: 0,
    ticket_ms: 86_400_000,
};
const GRACE_MS: u64 = 50;
const CLAIM_MS: u64 = 30;
const FENCE: u64 = 7;
const EXTENSIONS: u8 = 2;

#[derive(Clone, Debug)]
enum Step {
    Join(Tier),
    Beat(usize),
    Promote(usize, Tier),
    Claim(usize),
    Extend(usize, u64),
    Release { count: u64, repeat: bool },
    Sweep,
    Settle,
    Pass(u64),
}

#[derive(Clone, Debug)]
struct Person {
    place: Place,
    tier: Tier,
    stage: Stage,
    heard_ms: u64,
    until_ms: u64,
    misses: u8,
    extended: u8,
    claims: u32,
}

struct Story {
    ledger: Ledger,
    epoch: Epoch,
    order: Order,
    ms: u64,
    tick: u64,
    people: Vec<Person>,
    released: u64,
    claimed: u64,
    returned: u64,
}

fn tier() -> impl Strategy<Value = Tier> {
    prop_oneof![
        Just(Tier::Returning),
        Just(Tier::SignedIn),
        Just(Tier::Anonymous)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => tier().prop_map(Step::Join),
        6 => any::<usize>().prop_map(Step::Beat),
        1 => (any::<usize>(), tier()).prop_map(|(who, tier)| Step::Promote(who, tier)),
        4 => any::<usize>().prop_map(Step::Claim),
        2 => (any::<usize>(), 0..60_u64).prop_map(|(who, ms)| Step::Extend(who, ms)),
        2 => (0..4_u64, any::<bool>()).prop_map(|(count, repeat)| Step::Release { count, repeat }),
        1 => Just(Step::Sweep),
        1 => Just(Step::Settle),
        3 => (0..20_u64).prop_map(Step::Pass),
    ]
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![
        Just(Order::Strict),
        (0..60_u64, 0..30_u64).prop_map(|(first, second)| Order::Credit([first, second, 0])),
    ]
}

impl Story {
    fn new(order: Order) -> Self {
        let mut ledger = Ledger::default();
        let ms = 1_790_000_000_000;
        let epoch = ledger.open(Wall::from_micros(ms * 1_000), &RULES, None);
        Self {
            ledger,
            epoch,
            order,
            ms,
            tick: 0,
            people: Vec::new(),
            released: 0,
            claimed: 0,
            returned: 0,
        }
    }

    fn now(&self) -> Wall {
        Wall::from_micros(self.ms * 1_000)
    }

    fn who(&self, pick: usize) -> Option<usize> {
        pick.checked_rem(self.people.len())
    }

    /// Somebody who was called and is found to be too late.
    fn miss(&mut self, who: usize) {
        let person = &mut self.people[who];
        person.misses += 1;
        let is_last = person.misses >= RULES.misses_max;
        person.stage = person.stage.after(Event::Miss { is_last });
        self.returned += 1;
    }

    fn is_overdue(&self, who: usize) -> bool {
        let person = &self.people[who];
        person.stage == Stage::Ready && person.until_ms <= self.ms
    }

    fn take(&mut self, step: &Step) {
        let (now, epoch) = (self.now(), self.epoch);
        match *step {
            Step::Join(tier) => {
                let place = self.ledger.join(now, &RULES, epoch, 1).unwrap();
                self.people.push(Person {
                    place,
                    tier,
                    stage: Stage::default().after(Event::Join),
                    heard_ms: 0,
                    until_ms: 0,
                    misses: 0,
                    extended: 0,
                    claims: 0,
                });
            }
            Step::Beat(pick) => self.beat(pick),
            Step::Promote(pick, tier) => {
                let Some(who) = self.who(pick) else { return };
                let person = &mut self.people[who];
                let place = person.place;
                let is_moved = self.ledger.promote(now, &RULES, epoch, place, tier);
                let expected = person.stage == Stage::Waiting && tier < person.tier;
                assert_eq!(is_moved, Ok(expected));
                // The ticket says it from now on, whether the store could be told or not.
                person.tier = person.tier.min(tier);
            }
            Step::Claim(pick) => self.claim(pick),
            Step::Extend(pick, ms) => self.extend(pick, ms),
            Step::Release { count, repeat } => self.release(count, repeat),
            Step::Sweep => {
                let led = (epoch, FENCE);
                let swept = self
                    .ledger
                    .sweep(now, &RULES, led, GRACE_MS, Place(0), 1_000)
                    .unwrap();
                let silent = self.ms - GRACE_MS;
                let mut slept = 0;
                for person in &mut self.people {
                    if person.stage == Stage::Waiting && person.heard_ms <= silent {
                        person.stage = person.stage.after(Event::Silence);
                        slept += 1;
                    }
                }
                assert_eq!(swept.slept.iter().sum::<u64>(), slept);
            }
            Step::Settle => {
                let settled = self.ledger.settle(now, &RULES, (epoch, FENCE), 1_000);
                let overdue: Vec<_> = (0..self.people.len())
                    .filter(|who| self.is_overdue(*who))
                    .collect();
                assert_eq!(settled, Ok(overdue.len() as u64));
                for who in overdue {
                    self.miss(who);
                }
            }
            Step::Pass(ms) => self.ms += ms,
        }
    }

    fn beat(&mut self, pick: usize) {
        let Some(who) = self.who(pick) else { return };
        let (now, epoch) = (self.now(), self.epoch);
        if self.is_overdue(who) {
            self.miss(who);
        }
        let person = &mut self.people[who];
        let beat = Beat {
            place: person.place,
            tier: person.tier,
            may_enter: true,
        };
        let beaten = self.ledger.beat(now, &RULES, epoch, person.place, &[beat]);
        let beaten = beaten.unwrap()[0];
        person.stage = person.stage.after(Event::Beat);
        person.heard_ms = self.ms;
        assert_eq!(beaten.stage(), person.stage, "{beaten:?}");
        if let Beaten::Waiting(tier) = beaten {
            assert_eq!(tier, person.tier);
        }
    }

    fn claim(&mut self, pick: usize) {
        let Some(who) = self.who(pick) else { return };
        let is_overdue = self.is_overdue(who);
        let (now, place) = (self.now(), self.people[who].place);
        let said = self.ledger.claim(now, &RULES, self.epoch, place).unwrap();
        if is_overdue {
            assert_eq!(said, Claim::Late);
            self.miss(who);
            return;
        }
        let person = &mut self.people[who];
        match (person.stage, said) {
            (Stage::Ready, Claim::Passed { is_first: true, .. }) => {
                person.claims += 1;
                self.claimed += 1;
            }
            (Stage::Passed, Claim::Passed { is_first, .. }) => assert!(!is_first),
            (stage, said) => {
                assert_eq!(said, Claim::Early);
                assert!(!matches!(stage, Stage::Ready | Stage::Passed));
            }
        }
        person.stage = person.stage.after(Event::Claim);
        assert!(person.claims <= 1);
    }

    fn extend(&mut self, pick: usize, ms: u64) {
        let Some(who) = self.who(pick) else { return };
        let (now, epoch) = (self.now(), self.epoch);
        let person = &mut self.people[who];
        let (place, most) = (person.place, EXTENSIONS);
        let said = self.ledger.extend(now, &RULES, epoch, place, ms, most);
        let may = person.stage == Stage::Ready && self.ms < person.until_ms;
        let expected = (may && person.extended < most).then(|| {
            person.extended += 1;
            person.until_ms = person.until_ms.max(self.ms + ms);
            Extended {
                until_ms: person.until_ms,
                left: most - person.extended,
            }
        });
        assert_eq!(said, Ok(expected));
    }

    /// Who goes before whom, said another way than the core does.
    fn rank(&self, person: &Person) -> (i64, usize, u64) {
        let tier = person.tier.index();
        match self.order {
            Order::Strict => (0, tier, person.place.0),
            Order::Credit(ms) => {
                let came = person.place.0 as i64;
                (came - ms[tier] as i64 * 4_096, tier, person.place.0)
            }
        }
    }

    fn release(&mut self, count: u64, repeat: bool) {
        self.tick += 1;
        let calling = Calling {
            order: self.order,
            tick: self.tick,
            count,
            claim_ms: CLAIM_MS,
            grace_ms: GRACE_MS,
            enough: 0,
        };
        let (now, led) = (self.now(), (self.epoch, FENCE));
        let said = self.ledger.release(now, &RULES, led, &calling).unwrap();
        if repeat {
            let again = self.ledger.release(now, &RULES, led, &calling).unwrap();
            assert_eq!((again.count, again.slept), (said.count, 0));
        }
        let mut line: Vec<_> = (0..self.people.len())
            .filter(|who| self.people[*who].stage == Stage::Waiting)
            .collect();
        line.sort_by_key(|who| self.rank(&self.people[*who]));
        let (mut called, mut slept) = (0, 0);
        for who in line {
            if called == count {
                break;
            }
            let person = &mut self.people[who];
            if person.heard_ms <= self.ms - GRACE_MS {
                person.stage = person.stage.after(Event::Silence);
                slept += 1;
            } else {
                person.stage = person.stage.after(Event::Release);
                (person.until_ms, person.extended) = (self.ms + CLAIM_MS, 0);
                called += 1;
            }
        }
        assert_eq!((said.count, said.slept), (called, slept));
        self.released += called;
    }

    fn check(&mut self) {
        let (now, epoch) = (self.now(), self.epoch);
        let census = self.ledger.census(now, &RULES, epoch, Place(0)).unwrap();
        let tallies = census.tallies;
        let ready = self.count(|it| it.stage == Stage::Ready);
        assert_eq!(census.ready, ready);
        let told = (tallies.released, tallies.claimed, tallies.returned);
        assert_eq!(told, (self.released, self.claimed, self.returned));
        assert_eq!(self.released, self.claimed + self.returned + ready);
        for tier in Tier::ALL {
            let waiting = self.count(|it| it.stage.counts() && it.tier == tier);
            assert_eq!(census.waiting[tier.index()], waiting);
        }
        let left = tallies.entered - tallies.slept - tallies.released;
        assert_eq!(left, census.waiting.iter().sum::<u64>());
        for who in 0..self.people.len() {
            let person = self.people[who].clone();
            let asked = (person.tier, person.place);
            let found = self.ledger.find(now, &RULES, epoch, &self.order, asked);
            let found = found.unwrap();
            let is_waiting = matches!(found.whereabouts, Whereabouts::Waiting(_));
            assert_eq!(is_waiting, person.stage == Stage::Waiting);
            if is_waiting {
                let mine = self.rank(&person);
                let ahead = self.count(|it| it.stage.counts() && self.rank(it) < mine);
                assert_eq!(found.ahead, ahead);
            }
        }
    }

    fn count(&self, is: impl Fn(&Person) -> bool) -> u64 {
        self.people.iter().filter(|person| is(person)).count() as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_does_with_everybody_what_their_stage_allows(
        order in order(),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let mut story = Story::new(order);
        for step in &steps {
            story.take(step);
        }
        story.check();
    }

    /// A store that has forgotten everything has the line again, in its order, once everybody was heard of.
    #[test]
    fn a_line_is_rebuilt_as_it_was(
        order in order(),
        tiers in prop::collection::vec(tier(), 1..60),
        seed in any::<u64>(),
    ) {
        let mut story = Story::new(order);
        for tier in tiers {
            story.take(&Step::Join(tier));
            story.take(&Step::Pass(1));
            let last = story.people.len() - 1;
            story.take(&Step::Beat(last));
        }
        let now = story.now();
        let before = story.ledger.census(now, &RULES, story.epoch, Place(0)).unwrap();
        story.ledger = Ledger::default();
        story.ledger.open(now, &RULES, Some(story.epoch));
        let mut rng = tidegate_core::rng::Rng::new(seed);
        let mut rest: Vec<_> = (0..story.people.len()).collect();
        while !rest.is_empty() {
            let who = rest.swap_remove(rng.below(rest.len() as u64) as usize);
            story.take(&Step::Beat(who));
        }
        let after = story.ledger.census(now, &RULES, story.epoch, Place(0)).unwrap();
        prop_assert_eq!(after.waiting, before.waiting);
        prop_assert_eq!(after.marks, before.marks);
        story.check();
    }
}
