//! Random operations: the store does what the pure record does, reply for reply.

use std::time::Duration;

use tidegate_core::rng::Rng;
use tidegate_core::session::{
    Birth, Ceilings, Created, Expect, Fields, Format, Lifetimes, Name, Op, Opened, Patched, Record,
    Rotated, Rotation, SessionId, Value, Version,
};
use tidegate_core::time::Wall;
use tidegate_store::NewSession;

use crate::Rule;
use crate::world::{CALL, LONG, World, name, principal, seq};

/// Sequences; each begins with its number as seed.
const SEEDS: u64 = 40;
/// Operations of each.
const STEPS: u32 = 60;
const NAMES: [&str; 5] = ["a", "bb", "ccc", "n1", "n2"];
const CEILINGS: Ceilings = Ceilings {
    value: 12,
    session: 150,
    count: 4,
};

pub(crate) fn rules(world: &World) -> Vec<(&'static str, Rule)> {
    let world = world.clone();
    vec![(
        "random_operations_do_what_the_record_does",
        Box::pin(random_operations(world)),
    )]
}

async fn random_operations(world: World) {
    for seed in 1..=SEEDS {
        let mut pair = Pair::begin(&world, Rng::new(seed), seed).await;
        for _ in 0..STEPS {
            pair.step(&world).await;
            pair.compare(&world).await;
        }
    }
}

/// A session in the store and the record that it is to be like.
struct Pair {
    rng: Rng,
    seed: u64,
    id: SessionId,
    record: Record,
    /// The store's clock as last heard of; replies that refuse do not tell it.
    now: Wall,
    number: u64,
}

impl Pair {
    async fn begin(world: &World, mut rng: Rng, seed: u64) -> Self {
        let owner = (rng.below(2) == 0).then(|| principal(&world.user(), 3));
        let attributes: Vec<_> = (0..rng.below(3))
            .map(|_| (drawn_name(&mut rng), drawn_value(&mut rng)))
            .collect();
        let counters: Vec<_> = (0..rng.below(2))
            .map(|_| (drawn_name(&mut rng), drawn_count(&mut rng)))
            .collect();
        let new = NewSession {
            id: world.id(),
            lifetimes: LONG,
            principal: owner,
            attributes,
            counters,
        };
        let created = world.store.create(&new, CALL).await.unwrap().reply;
        let Created::Created { now, .. } = created else {
            panic!("seed {seed}: {created:?}");
        };
        let record = Record::create(
            now,
            Birth {
                lifetimes: LONG,
                principal: new.principal.as_ref(),
                attributes: &new.attributes,
                counters: &new.counters,
            },
        );
        assert_eq!(created, record.created(now), "seed {seed}");
        Self {
            rng,
            seed,
            id: new.id,
            record,
            now,
            number: 0,
        }
    }

    async fn step(&mut self, world: &World) {
        match self.rng.below(10) {
            0 => self.touch(world).await,
            1 => self.rotate(world).await,
            2 => self.adopt(world).await,
            _ => self.patch(world).await,
        }
    }

    async fn patch(&mut self, world: &World) {
        let ops: Vec<_> = (0..1 + self.rng.below(4)).map(|_| self.op()).collect();
        self.number += 1;
        let number = match self.rng.below(4) {
            // A delivery that comes again, or late.
            0 => self.number.saturating_sub(self.rng.below(24)).max(1),
            _ => self.number,
        };
        let patch = (self.rng.below(5) > 0).then(|| seq(1 + self.rng.below(3), number));
        let not_after = match self.rng.below(8) {
            0 => Some(Wall::from_micros(self.now.as_micros() - 1_000_000)),
            1 => Some(Wall::from_micros(self.now.as_micros() + 3_600_000_000)),
            _ => None,
        };

        let patched = world
            .store
            .patch(&self.id, &ops, patch, CEILINGS, not_after, CALL);
        let patched = patched.await.unwrap().reply;

        if let Patched::Applied { now, .. } = &patched {
            self.now = *now;
        }
        let expected = self
            .record
            .patch(self.now, &ops, patch, CEILINGS, not_after);
        assert_eq!(patched, expected, "seed {}: {ops:?} {patch:?}", self.seed);
    }

    async fn touch(&mut self, world: &World) {
        let touch_after = match self.rng.below(3) {
            0 => None,
            1 => Some(Duration::ZERO),
            _ => Some(Duration::from_millis(self.rng.below(4))),
        };
        let known = match self.rng.below(2) {
            0 => Version::NONE,
            _ => self.record.version(),
        };
        let names: Vec<_> = (0..self.rng.below(4))
            .map(|at| name(NAMES[at as usize]))
            .collect();
        let fields = Fields::Only(names.into());

        let opened = world
            .store
            .open(&self.id, known, &fields, touch_after, CALL);
        let opened = opened.await.unwrap();

        let (Opened::Found { now, .. } | Opened::Unchanged { now, .. }) = &opened else {
            panic!("seed {}: {opened:?}", self.seed);
        };
        self.now = *now;
        if let Some(touch_after) = touch_after {
            self.record.touch(self.now, touch_after);
        }
        let expected = sorted(self.record.open(self.now, known, &fields));
        assert_eq!(opened, expected, "seed {}", self.seed);
    }

    async fn rotate(&mut self, world: &World) {
        let next = world.id_on(self.id.tag());
        let rotation = match self.rng.below(2) {
            0 => Rotation::Habit {
                successor: b"sealed".to_vec(),
                tombstone: LONG.idle,
            },
            _ => Rotation::Privilege {
                principal: (self.rng.below(4) > 0).then(|| principal(&world.user(), 1)),
                lifetimes: Lifetimes {
                    idle: Duration::from_secs(600 + self.rng.below(600)),
                    absolute: Duration::from_secs(900),
                },
                carry: NAMES[1..].iter().map(|carried| name(carried)).collect(),
                tombstone: LONG.idle,
            },
        };

        let rotated = world.store.rotate(&self.id, &next, &rotation, CALL);
        let rotated = rotated.await.unwrap().reply;

        let Rotated::Rotated { now, head } = rotated else {
            panic!("seed {}: {rotated:?}", self.seed);
        };
        self.now = now;
        self.record = self.record.clone().rotate(now, &rotation).unwrap();
        assert_eq!(head, self.record.head(), "seed {}", self.seed);
        self.id = next;
    }

    async fn adopt(&mut self, world: &World) {
        let epoch = self.rng.below(6);
        let adopted = world
            .store
            .adopt_epoch(&self.id, epoch, CALL)
            .await
            .unwrap()
            .reply;
        // The reply does not tell the time; the version that came of it does.
        let (head, _) = world.all_of(&self.id).await;
        self.now = Wall::from_micros(head.version.0.max(self.now.as_micros()));
        let expected = self.record.adopt_epoch(self.now, epoch);
        assert_eq!(adopted, expected, "seed {}", self.seed);
    }

    async fn compare(&self, world: &World) {
        let (head, found) = world.all_of(&self.id).await;
        assert_eq!(head, self.record.head(), "seed {}", self.seed);
        assert_eq!(found, self.record.found(&Fields::All), "seed {}", self.seed);
    }

    fn op(&mut self) -> Op {
        let name = drawn_name(&mut self.rng);
        let expect = match self.rng.below(6) {
            0 => Expect::Absent,
            1 => Expect::At(Version(self.rng.below(3))),
            2 => {
                let found = self.record.found(&Fields::Only([name.clone()].into()));
                let there = found.attributes.first();
                there.map_or(Expect::Absent, |(_, there)| Expect::At(there.version))
            }
            _ => Expect::Any,
        };
        match self.rng.below(8) {
            0 => Op::Delete { name, expect },
            1 | 2 => Op::Increment {
                name,
                by: drawn_count(&mut self.rng),
            },
            3 => Op::Max {
                name,
                to: drawn_count(&mut self.rng),
            },
            _ => Op::Set {
                name,
                value: drawn_value(&mut self.rng),
                expect,
            },
        }
    }
}

fn drawn_name(rng: &mut Rng) -> Name {
    name(NAMES[rng.below(NAMES.len() as u64) as usize])
}

fn drawn_value(rng: &mut Rng) -> Value {
    Value {
        format: Format::of_letter(b'a' + rng.below(26) as u8),
        bytes: (0..rng.below(14)).map(|_| rng.below(256) as u8).collect(),
    }
}

/// Mostly small, sometimes at the ends of the range.
fn drawn_count(rng: &mut Rng) -> i64 {
    match rng.below(4) {
        0 => rng.next_u64() as i64,
        1 => i64::MAX - rng.below(3) as i64,
        _ => rng.below(20) as i64 - 10,
    }
}

/// What was found in the order of names, which is not part of the promise.
fn sorted(opened: Opened) -> Opened {
    match opened {
        Opened::Found {
            now,
            head,
            mut found,
        } => {
            found.attributes.sort_by(|one, other| one.0.cmp(&other.0));
            found.counters.sort();
            Opened::Found { now, head, found }
        }
        other => other,
    }
}
