//! The script on a real server, at times of the test's choice, beside what the core says that a store does.

use tidegate_core::facts::Class;
use tidegate_core::rate::Tick;
use tidegate_core::rate::permits::{Message, Permits};
use tidegate_core::rate::share::Life;
use tidegate_core::rng::Rng;
use tidegate_lab::peers::{RedisServer, Reply, Wire};

use super::*;

/// Where the script looks at the clock.
const CLOCK: &str = "local t = redis.call('TIME')\nlocal now = t[1] * 1000000 + t[2]\n";
const START: u64 = 1_790_000_000_000_000;
const LEASE_US: u64 = 1_000_000;
const STEPS: usize = 20_000;

/// A server that runs the script at a time that it is told.
struct Executor {
    wire: Wire,
    script: String,
    _server: RedisServer,
}

impl Executor {
    fn start() -> Self {
        let server = RedisServer::plain().unwrap();
        let mut wire = server.wire().unwrap();
        let body = include_str!("../../redis/scripts/permits.lua");
        assert_eq!(body.matches(CLOCK).count(), 1);
        let script = format!(
            "local now = tonumber(table.remove(ARGV))\n{}",
            body.replace(CLOCK, "")
        );
        let loaded = wire.ask(&["SCRIPT", "LOAD", &script]).unwrap();
        Self {
            script: loaded.granted().unwrap().text().to_owned(),
            wire,
            _server: server,
        }
    }

    fn run(&mut self, run: Run, now: u64) -> Value {
        let run = run.number(now);
        let count = run.keys.len().to_string();
        let mut command = vec!["EVALSHA", &self.script, &count];
        let parts = run.keys.iter().chain(&run.args);
        command.extend(parts.map(|part| std::str::from_utf8(part).unwrap()));
        match self.wire.ask(&command).unwrap().granted().unwrap() {
            Reply::Array(parts) => {
                let parts = parts.iter().map(|part| Value::Int(part.int().unwrap()));
                Value::Array(parts.collect())
            }
            one => Value::Int(one.int().unwrap()),
        }
    }

    fn handle(&mut self, thing: &Name, terms: &Terms, message: &Message, now: u64) -> Answer {
        match message {
            Message::Acquire(asking) => {
                acquired(self.run(acquiring(thing, terms, asking), now)).unwrap()
            }
            Message::Renew(renewal) => {
                let said = self.run(renewing(thing, terms, &[*renewal]), now);
                renewed(said, 1).unwrap()[0]
            }
            Message::Release(id) => {
                self.run(releasing(thing, terms, &[*id]), now);
                Answer::Gone
            }
        }
    }
}

fn terms(rng: &mut Rng) -> Terms {
    let mut terms = Terms::of(6 + rng.below(6), LEASE_US + rng.below(2) * LEASE_US);
    terms.keeps[Class::Critical.index()] = Keep {
        reserve: 3,
        idle: 3,
    };
    terms.keeps[Class::SignedIn.index()] = Keep {
        reserve: 2,
        idle: 1,
    };
    terms
}

fn message(rng: &mut Rng) -> Message {
    let id = PermitId {
        life: Life(u64::MAX - rng.below(2)),
        number: rng.below(12),
    };
    let class = Class::ALL[rng.below(3) as usize];
    let weight = rng.below(6);
    match rng.below(10) {
        0..5 => Message::Acquire(Asking { id, weight, class }),
        5..8 => Message::Release(id),
        _ => Message::Renew(Renewal {
            id,
            weight,
            class,
            fence: START - 1_000_000 + rng.below(2_000_000),
            is_known: rng.below(20) == 0,
        }),
    }
}

#[test]
fn the_script_decides_as_the_core_does() {
    let mut executor = Executor::start();
    let mut rng = Rng::new(7);
    let (mut held, mut refused, mut settling) = (0, 0, 0);
    let mut now = START;
    let mut story = None;
    for step in 0..STEPS {
        // Now and then all is forgotten.
        let (thing, model) = match &mut story {
            Some((thing, model)) if step % 500 > 0 => (thing, model),
            _ => {
                let thing = Name::new(&format!("thing-{step}")).unwrap();
                let (thing, model) = story.insert((thing, Permits::new()));
                (thing, model)
            }
        };
        now += rng.below(LEASE_US / 8);
        let (terms, message) = (terms(&mut rng), message(&mut rng));

        let said = executor.handle(thing, &terms, &message, now);

        let expected = model.handle(Tick(now), &terms, &message);
        assert_eq!(said, expected, "step {step}: {message:?} under {terms:?}");
        match said {
            Answer::Held { .. } => held += 1,
            Answer::Full { .. } => refused += 1,
            Answer::Settling { .. } => settling += 1,
            Answer::Gone | Answer::Never => {}
        }
    }
    assert!(
        held > 1_000 && refused > 1_000 && settling > 100,
        "{held} {refused} {settling}"
    );
}

#[test]
fn a_store_that_lost_one_of_its_keys_begins_anew() {
    let mut executor = Executor::start();
    let thing = Name::new("db").unwrap();
    let terms = Terms::of(10, LEASE_US);
    for (number, key) in [permits(&thing), permit_ends(&thing)].iter().enumerate() {
        let asking = Asking {
            id: PermitId {
                life: Life(1),
                number: number as u64,
            },
            weight: 6,
            class: Class::Anonymous,
        };
        let now = START + 10 * number as u64 * LEASE_US;
        executor.handle(&thing, &terms, &Message::Acquire(asking), now);
        let now = now + LEASE_US;
        let held = executor.handle(&thing, &terms, &Message::Acquire(asking), now);
        assert!(matches!(held, Answer::Held { .. }), "{held:?}");

        executor.wire.ask(&["DEL", key]).unwrap();

        let said = executor.handle(&thing, &terms, &Message::Acquire(asking), now + 1);
        let settling = Answer::Settling { left_us: LEASE_US };
        assert_eq!(said, settling, "without {key}");
    }
}
