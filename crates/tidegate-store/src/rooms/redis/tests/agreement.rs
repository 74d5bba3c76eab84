//! Long random stories of rooms: the scripts decide as the table of a process does, and both keep what was promised.

mod acts;

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::rng::Rng;
use tidegate_core::session::Name;
use tokio::runtime::Runtime;

use self::acts::{Act, Said, Saying, in_redis, in_table};
use super::*;

const STORIES: u64 = 24;
const STEPS: u64 = 500;
const GRACE_MS: u64 = 20_000;

/// A room in both, and what is known of it from what was said.
struct Story {
    executor: Executor,
    table: Table,
    room: Room,
    runtime: Runtime,
    rng: Rng,
    epoch: Epoch,
    /// Everybody who was given a place in the epoch, with the tier of their ticket; and one who was not.
    places: BTreeMap<Place, Tier>,
    /// Those who went in, for as long as that is remembered.
    passed: BTreeSet<Place>,
    /// Those who were called last.
    called: Vec<Place>,
    /// How often those who were called had more time.
    extended: BTreeMap<Place, u8>,
    /// What everybody is to know.
    notes: BTreeMap<String, Option<String>>,
    fence: u64,
    tick: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl Story {
    fn begin(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let rules = Rules {
            waiting_max: 10 + rng.below(60),
            misses_max: 1 + rng.below(3) as u8,
            settle_ms: 5_000,
            // In half of the stories nothing is forgotten.
            ticket_ms: [120_000, 86_400_000][(seed % 2) as usize],
        };
        let (executor, table) = (Executor::start(), Table::start());
        let room = table.room(rules);
        let mut story = Self {
            executor,
            table,
            room,
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
            rng,
            epoch: Epoch(0),
            places: BTreeMap::from([(Place(0), Tier::Anonymous)]),
            passed: BTreeSet::new(),
            called: Vec::new(),
            extended: BTreeMap::new(),
            notes: BTreeMap::new(),
            fence: 1,
            tick: 0,
            counts: BTreeMap::new(),
        };
        let Ok(Said::Epoch(epoch)) = story.act(&Act::Open(None)) else {
            unreachable!("a room that is not there begins")
        };
        story.epoch = epoch;
        story
    }

    /// Has both do it, and they have to say the same.
    fn act(&mut self, act: &Act) -> Result<Said, RoomError> {
        self.act_in(self.epoch, act)
    }

    fn act_in(&mut self, epoch: Epoch, act: &Act) -> Result<Said, RoomError> {
        self.table.hand.store(self.executor.now, Ordering::Relaxed);
        let expected = self.runtime.block_on(in_table(&self.room, epoch, act));
        let said = in_redis(&mut self.executor, &self.room, epoch, act);
        assert_eq!(said, expected, "{act:?} at {}", self.executor.now);
        said
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn anybody(&mut self) -> Place {
        let at = self.rng.below(self.places.len().max(1) as u64) as usize;
        // Now and then somebody who was never given one.
        let known = self.places.keys().nth(at).copied();
        known.filter(|_| self.rng.below(50) > 0).unwrap_or(Place(0))
    }

    fn tier(&mut self) -> Tier {
        Tier::ALL[self.rng.below(3) as usize]
    }

    fn order(&mut self) -> Order {
        match self.rng.below(2) {
            0 => Order::Strict,
            _ => Order::Credit([self.rng.below(60_000), self.rng.below(20_000), 0]),
        }
    }

    fn step(&mut self) {
        self.executor.now += match self.rng.below(40) {
            0 => 30_000,
            1..15 => 0,
            _ => self.rng.below(2_000),
        };
        match self.rng.below(100) {
            0..18 => self.join(),
            18..52 => self.beat(),
            52..58 => {
                let (place, tier) = (self.anybody(), self.tier());
                let moved = self.act(&Act::Promote(place, tier));
                if moved == Ok(Said::Flag(true)) {
                    self.count("promoted");
                    self.places.insert(place, tier);
                }
            }
            58..60 => {
                let place = self.anybody();
                self.act(&Act::Leave(place)).unwrap();
            }
            60..63 => self.extend(),
            63..72 => self.claim(),
            72..75 => {
                let (order, tier, place) = (self.order(), self.tier(), self.anybody());
                self.act(&Act::Find(order, tier, place)).unwrap();
            }
            75..78 => self.look(),
            78..82 => self.exchange(),
            82..92 => self.release(),
            92..95 => self.sweep(),
            95..98 => self.settle(),
            98 => self.order_about(),
            _ => self.lose_or_turn(),
        }
    }

    fn join(&mut self) {
        let count = 1 + self.rng.below(3);
        let Said::Place(first) = self.act(&Act::Join(count)).unwrap() else {
            unreachable!("it gives places")
        };
        let last = self.places.last_key_value().map(|(place, _)| *place);
        assert!(last.is_none_or(|last| last < first));
        for number in 0..count {
            let tier = self.tier();
            self.places.insert(first.plus(number), tier);
        }
    }

    fn beat(&mut self) {
        let count = 1 + self.rng.below(6);
        let beats: Vec<_> = (0..count)
            .map(|_| {
                let place = self.anybody();
                Beat {
                    place,
                    tier: self.places.get(&place).copied().unwrap_or(Tier::Anonymous),
                    may_enter: self.rng.below(10) > 0,
                }
            })
            .collect();
        let Said::Beaten(said) = self.act(&Act::Beat(beats.clone())).unwrap() else {
            unreachable!("it says what becomes of each")
        };
        for (beat, said) in beats.iter().zip(said) {
            match said {
                Beaten::Waiting(tier) => {
                    self.count("waiting");
                    assert!(tier <= beat.tier);
                }
                Beaten::Ready { .. } => self.count("ready"),
                Beaten::Passed { .. } => {
                    self.count("passed");
                    assert!(self.passed.contains(&beat.place));
                }
                Beaten::Ghost => self.count("ghost"),
                Beaten::Spent => self.count("spent"),
                Beaten::Full => self.count("full"),
            }
        }
    }

    fn claim(&mut self) {
        let at = self.rng.below(2 * self.called.len() as u64) as usize;
        let called = self.called.get(at).copied();
        let place = called.unwrap_or_else(|| self.anybody());
        match self.act(&Act::Claim(place)).unwrap() {
            Said::Claim(Claim::Passed { is_first: true, .. }) => {
                self.count("claimed");
                let rules = &self.room.rules;
                let is_new = self.passed.insert(place);
                // In a story in which what was long ago is forgotten, somebody may come twice.
                assert!(
                    is_new || rules.ticket_ms < 1_000_000,
                    "{place:?} went in twice"
                );
            }
            Said::Claim(Claim::Passed { .. }) => self.count("again"),
            Said::Claim(Claim::Late) => self.count("late"),
            _ => self.count("early"),
        }
    }

    fn extend(&mut self) {
        let at = self.rng.below(self.called.len().max(1) as u64) as usize;
        let called = self.called.get(at).copied();
        let place = called.unwrap_or_else(|| self.anybody());
        let most = self.rng.below(4) as u8;
        for _ in 0..1 + self.rng.below(3) {
            let ms = self.rng.below(9_000);
            let had = self.extended.get(&place).copied().unwrap_or_default();
            match self.act(&Act::Extend(place, ms, most)).unwrap() {
                Said::Extended(Some(Extended { until_ms, left })) => {
                    self.count("extended");
                    assert!(had < most && until_ms >= self.executor.now + ms);
                    assert_eq!(left, most - had - 1);
                    self.extended.insert(place, had + 1);
                }
                _ => self.count("no longer"),
            }
        }
    }

    /// Somebody says something, and perhaps the leader or one of old.
    fn exchange(&mut self) {
        let fence = Fence(self.fence - self.rng.below(2));
        let leads = self.rng.below(3) == 0;
        let names: Vec<_> = (0..self.rng.below(12))
            .map(|_| format!("note-{}", self.rng.below(24)))
            .collect();
        let notes: Vec<_> = (names.into_iter())
            .map(|name| {
                let said = format!("{}", self.rng.below(1_000));
                (name, Some(said).filter(|_| self.rng.below(16) > 0))
            })
            .collect();
        let number = self.rng.below(1_000);
        let node = Name::new(&format!("n{}", self.rng.below(5))).unwrap();
        let saying = Saying {
            node: node.clone(),
            report: format!("{number}"),
            word: leads.then(|| (fence, format!("word {number}"))),
            notes: notes.clone(),
            wants_reports: self.rng.below(2) == 0,
        };
        match self.act(&Act::Exchange(saying.clone())) {
            Ok(Said::Board(board)) => {
                self.count("said");
                let mut known = self.notes.clone();
                known.extend(notes);
                known.retain(|_, said| said.is_some());
                let told = (board.notes.iter()).map(|(name, said)| {
                    let said = String::from_utf8(said.clone()).unwrap();
                    (name.clone(), Some(said))
                });
                assert_eq!(told.collect::<BTreeMap<_, _>>(), known);
                self.notes = known;
                let own = (node, saying.report.into_bytes());
                assert_eq!(board.reports.contains(&own), saying.wants_reports);
                if let Some((fence, word)) = saying.word {
                    let last = Some((fence, board.now, word.into_bytes()));
                    assert_eq!(board.word, last);
                    self.count("word");
                }
            }
            Err(RoomError::Denied(Denied::Deposed { .. })) => self.count("silenced"),
            Err(RoomError::Store(StoreError::Refused(_))) => self.count("too much"),
            other => panic!("{other:?}"),
        }
    }

    fn look(&mut self) {
        let aged = self.anybody();
        let Said::Looked(looked) = self.act(&Act::Look(aged)).unwrap() else {
            unreachable!("it says how the room is")
        };
        let (census, tallies) = (&looked.census, looked.census.tallies);
        let pending = tallies.released - tallies.claimed - tallies.returned;
        assert_eq!(census.ready, pending, "{census:?}");
        let waiting: u64 = census.waiting.iter().sum();
        assert_eq!(waiting, tallies.entered - tallies.slept - tallies.released);
        assert!(waiting <= self.room.rules.waiting_max);
    }

    fn whereabouts(&mut self) -> BTreeMap<Place, Whereabouts> {
        let places: Vec<_> = self.places.iter().map(|(at, tier)| (*at, *tier)).collect();
        let find = |(place, tier)| match self.act(&Act::Find(Order::Strict, tier, place)) {
            Ok(Said::Found(found)) => (place, found.whereabouts),
            said => panic!("{said:?}"),
        };
        places.into_iter().map(find).collect()
    }

    fn release(&mut self) {
        let fence = match self.rng.below(12) {
            0 => {
                // One who was deposed: a later one was heard of.
                let _ = self.act(&Act::Settle(Fence(self.fence), 1));
                self.fence - 1
            }
            1 => self.fence + 1,
            _ => self.fence,
        };
        if fence > self.fence {
            (self.fence, self.tick) = (fence, 0);
        }
        let tick = match self.rng.below(10) {
            0 => self.tick,
            1 => self.tick.saturating_sub(1),
            _ => self.tick + 1,
        };
        let calling = Calling {
            order: self.order(),
            tick,
            count: self.rng.below(6),
            claim_ms: 1_000 + self.rng.below(8_000),
            grace_ms: GRACE_MS,
            enough: if self.rng.below(4) == 0 { 3 } else { u64::MAX },
        };
        let before = self.whereabouts();
        let said = self.act(&Act::Release(Fence(fence), calling));
        let after = self.whereabouts();
        let called = called_in_order(&before, &after);
        let count = called.len() as u64;
        for place in &called {
            self.extended.remove(place);
        }
        if count > 0 {
            self.called = called;
        }
        match said {
            Ok(Said::Released(_)) if tick <= self.tick => {
                self.count("replayed");
                assert_eq!(count, 0);
            }
            Ok(Said::Released(released)) => {
                self.count("released");
                assert_eq!((fence, count), (self.fence, released.count));
                self.tick = tick;
            }
            Err(RoomError::Denied(denied)) => {
                self.count(match denied {
                    Denied::Deposed { .. } => "deposed",
                    Denied::Stale => "stale",
                    Denied::Settling { .. } => "settling",
                    Denied::Phase(_) => "held",
                    Denied::Epoch(_) => unreachable!("it is the one that was said last"),
                });
                assert_eq!(count, 0, "{denied:?}");
            }
            other => panic!("{other:?}"),
        }
    }

    fn sweep(&mut self) {
        let (aged, most) = (self.anybody(), 1 + self.rng.below(20));
        let _ = self.act(&Act::Sweep(Fence(self.fence), aged, most));
    }

    fn settle(&mut self) {
        // Which of those go first that are forgotten at once is nobody's business.
        let forgets = self.room.rules.ticket_ms < 1_000_000;
        let most = if forgets {
            1_000
        } else {
            1 + self.rng.below(8)
        };
        let _ = self.act(&Act::Settle(Fence(self.fence), most));
    }

    fn order_about(&mut self) {
        let phase = match self.rng.below(8) {
            0 => Some(Phase::Hold),
            1 => Some(Phase::Closed),
            2 => Some(Phase::Drain),
            _ => None,
        };
        self.act(&Act::Phase(phase)).unwrap();
    }

    fn lose_or_turn(&mut self) {
        if self.rng.below(3) == 0 {
            let old = self.epoch;
            let Said::Epoch(next) = self.act(&Act::Turn).unwrap() else {
                unreachable!("it says which epoch begins")
            };
            assert!(next > old);
            self.epoch = next;
            self.places = BTreeMap::from([(Place(0), Tier::Anonymous)]);
            self.passed.clear();
            self.called.clear();
            self.extended.clear();
            let denied = Err(Denied::Epoch(next).into());
            assert_eq!(self.act_in(old, &Act::Join(1)), denied);
            self.count("turned");
            return;
        }
        self.executor.ask(&["FLUSHALL"]);
        // Nothing is lost and back within a millisecond, in which a place might be given twice.
        self.executor.now += 1;
        self.room = self.table.room(self.room.rules);
        self.passed.clear();
        self.notes.clear();
        self.extended.clear();
        (self.fence, self.tick) = (1, 0);
        self.count("lost");
        if self.rng.below(2) == 0 {
            let known = Some(self.epoch);
            let opened = self.act(&Act::Open(known));
            assert_eq!(opened, Ok(Said::Epoch(self.epoch)));
        }
    }
}

/// Who was called in between. Each of them waited, and nobody of the same tier who came before waits still.
fn called_in_order(
    before: &BTreeMap<Place, Whereabouts>,
    after: &BTreeMap<Place, Whereabouts>,
) -> Vec<Place> {
    let mut called = Vec::new();
    for (place, was) in before {
        let is_ready = |it: &Whereabouts| matches!(it, Whereabouts::Ready(_));
        if is_ready(was) || !is_ready(&after[place]) {
            continue;
        }
        called.push(*place);
        let Whereabouts::Waiting(_) = was else {
            panic!("{place:?} was called, and was {was:?}")
        };
        let passed_over = after.range(..place).find(|(_, is)| *is == was);
        assert_eq!(passed_over, None, "{place:?} was called before");
    }
    called
}

#[test]
fn the_scripts_decide_as_the_table_of_a_process_does() {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..STORIES {
        let mut story = Story::begin(seed);
        for _ in 0..STEPS {
            story.step();
        }
        story.look();
        for (what, count) in story.counts {
            *counts.entry(what).or_default() += count;
        }
    }

    println!("{counts:?}");
    let all = [
        "promoted",
        "waiting",
        "ready",
        "passed",
        "ghost",
        "spent",
        "full",
        "claimed",
        "again",
        "late",
        "early",
        "replayed",
        "released",
        "deposed",
        "stale",
        "settling",
        "held",
        "turned",
        "lost",
        "extended",
        "no longer",
        "said",
        "word",
        "silenced",
        "too much",
    ];
    for what in all {
        let count = counts.get(what).copied().unwrap_or_default();
        assert!(count >= 20, "{what} happened {count} times: {counts:?}");
    }
}
