//! The scripts on a real server, at times of the test's choice, beside the table of a process.

mod agreement;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::room::{RoomName, Rules};
use tidegate_core::time::Wall;
use tidegate_lab::peers::{RedisServer, Reply, Wire};

use super::*;
use crate::embedded::{Clock, Embedded, EmbeddedPlan};
use crate::rooms::{RoomStore, RoomTable};

/// Where the scripts look at the clock.
const CLOCK: &str =
    "local t = redis.call('TIME')\nlocal now = t[1] * 1000 + math.floor(t[2] / 1000)\n";
const VISITORS: &str = include_str!("../../redis/scripts/room.lua");
const LEADERS: &str = include_str!("../../redis/scripts/room_lead.lua");
const START: u64 = 1_790_000_000_000;

/// A server that runs the scripts at a time that it is told.
struct Executor {
    wire: Wire,
    visitors: String,
    leaders: String,
    /// Milliseconds since 1970.
    now: u64,
    _server: RedisServer,
}

impl Executor {
    fn start() -> Self {
        let server = RedisServer::plain().unwrap();
        let mut wire = server.wire().unwrap();
        let mut load = |body: &str| {
            assert_eq!(body.matches(CLOCK).count(), 1);
            let rest = body.replace(CLOCK, "");
            let script = format!("local now = tonumber(table.remove(ARGV))\n{rest}");
            let loaded = wire.ask(&["SCRIPT", "LOAD", &script]).unwrap();
            loaded.granted().unwrap().text().to_owned()
        };
        Self {
            visitors: load(VISITORS),
            leaders: load(LEADERS),
            wire,
            now: START,
            _server: server,
        }
    }

    fn run(&mut self, run: Run) -> Result<Elements, RoomError> {
        let script = if run.script.name() == "room" {
            self.visitors.clone()
        } else {
            self.leaders.clone()
        };
        let run = run.number(self.now);
        let count = run.keys.len().to_string();
        let mut command = vec!["EVALSHA", &script, &count];
        let parts = run.keys.iter().chain(&run.args);
        command.extend(parts.map(|part| std::str::from_utf8(part).unwrap()));
        granted(value(self.wire.ask(&command).unwrap().granted().unwrap()))
    }

    fn ask(&mut self, command: &[&str]) -> Reply {
        self.wire.ask(command).unwrap().granted().unwrap()
    }
}

fn value(reply: Reply) -> Value {
    match reply {
        Reply::Int(number) => Value::Int(number),
        Reply::Array(parts) => Value::Array(parts.into_iter().map(value).collect()),
        Reply::Text(text) => Value::BulkString(text.into_bytes()),
        other => panic!("{other:?}"),
    }
}

const RULES: Rules = Rules {
    waiting_max: 1_000,
    misses_max: 3,
    settle_ms: 10_000,
    ticket_ms: 86_400_000,
};

/// A table of a process by a clock that is set.
struct Table {
    hand: Arc<AtomicU64>,
    store: Embedded,
}

impl Table {
    fn start() -> Self {
        let hand = Arc::new(AtomicU64::new(START));
        let clock = hand.clone();
        let plan = EmbeddedPlan {
            clock: Clock::new(move || Wall::from_micros(clock.load(Ordering::Relaxed) * 1_000)),
            ..EmbeddedPlan::at(None)
        };
        Self {
            hand,
            store: Embedded::start(plan).unwrap(),
        }
    }

    /// A room that nobody has been in.
    fn room(&self, rules: Rules) -> Room {
        let table = RoomTable::new(self.store.clone());
        let name = RoomName::new("shop").unwrap();
        RoomStore::Embedded(Arc::new(table)).room(&name, rules)
    }
}

/// A room in a server with a line of so many.
fn a_line(executor: &mut Executor, room: &Room, many: u64) -> (Epoch, Vec<Place>) {
    let epoch = epoch_of(executor.run(leading(room, "open", Epoch(0))).unwrap()).unwrap();
    let mut said = executor.run(joining(room, epoch, many)).unwrap();
    let first = Place(said.natural().unwrap());
    let places: Vec<_> = (0..many).map(|n| first.plus(n)).collect();
    let beats: Vec<_> = places.iter().map(|place| beat(*place)).collect();
    let said = executor.run(beating(room, epoch, first, &beats)).unwrap();
    let waiting = vec![Beaten::Waiting(Tier::Anonymous); places.len()];
    assert_eq!(beaten(said, places.len()).unwrap(), waiting);
    (epoch, places)
}

fn beat(place: Place) -> Beat {
    Beat {
        place,
        tier: Tier::Anonymous,
        may_enter: true,
    }
}

fn calling(tick: u64, count: u64) -> Calling {
    Calling {
        order: Order::Strict,
        tick,
        count,
        claim_ms: 1_000,
        grace_ms: 60_000,
        enough: u64::MAX,
    }
}

#[test]
fn both_scripts_begin_alike() {
    let from = VISITORS.find(CLOCK).unwrap();
    let upto = VISITORS.find("\nlocal ops = {}").unwrap();

    assert!(upto - from > 2_000);
    assert!(LEADERS.contains(VISITORS[from..upto].trim_end()));
}

#[test]
fn members_are_in_the_order_of_places_and_as_long_for_all() {
    let places = [0, 1, 31, 32, 4_096, 1 << 40, tidegate_core::room::PLACE_MAX];

    let members = places.map(|place| member(Place(place)));

    assert!(members.is_sorted());
    assert!(
        members.iter().all(|member| member.len() == 11),
        "{members:?}"
    );
    for (place, member) in places.iter().zip(members) {
        assert_eq!(u64::from_str_radix(&member, 32), Ok(*place));
    }
}

#[test]
fn a_store_that_lost_one_of_its_keys_begins_anew() {
    let room = Table::start().room(RULES);
    for lost in ["", ":w3", ":alive", ":ready", ":passed"] {
        let mut executor = Executor::start();
        let (epoch, places) = a_line(&mut executor, &room, 6);
        let led = (epoch, Fence(7));
        executor.run(releasing(&room, led, &calling(1, 2))).unwrap();
        executor
            .run(of_one(&room, "claim", epoch, places[0]))
            .unwrap();
        let key = match lost {
            "" => "tg:r:{room/shop}".to_owned(),
            part => format!("tg:r:{{room/shop}}:{}{part}", epoch.0),
        };
        assert_eq!(executor.ask(&["DEL", &key]), Reply::Int(1), "{key}");

        let said = executor.run(looking(&room, epoch, Place(0))).unwrap();

        let census = looked(said).unwrap().census;
        let begun = Census {
            settles_ms: RULES.settle_ms,
            ..Census::default()
        };
        assert_eq!(census, begun, "without {key}");
        assert_eq!(executor.ask(&["KEYS", "*"]).parts().len(), 1);
    }
}

#[test]
fn a_leader_is_refused_as_soon_as_somebody_else_has_the_lease() {
    let mut executor = Executor::start();
    let room = Table::start().room(RULES);
    let (epoch, places) = a_line(&mut executor, &room, 3);
    let led = (epoch, Fence(7));
    executor.run(releasing(&room, led, &calling(1, 1))).unwrap();

    executor.ask(&["HSET", "tg:lead:{room/shop}", "fence", "8"]);

    let runs = [
        releasing(&room, led, &calling(2, 1)),
        // Not even what was done already is said to it.
        releasing(&room, led, &calling(1, 1)),
        settling(&room, led, 10),
        sweeping(&room, led, 0, Place(0), 10),
    ];
    for run in runs {
        let said = executor.run(run).map(|_| ());
        assert_eq!(said, Err(Denied::Deposed { by: 8 }.into()));
    }
    let led = (epoch, Fence(8));
    let said = executor.run(releasing(&room, led, &calling(1, 1))).unwrap();
    assert_eq!(released(said).unwrap().count, 1);
    let said = executor
        .run(of_one(&room, "claim", epoch, places[2]))
        .unwrap();
    assert_eq!(claimed(said).unwrap(), Claim::Early);
}

#[test]
fn nothing_is_kept_for_ever_and_an_epoch_ends_with_all_that_was_in_it() {
    let mut executor = Executor::start();
    let room = Table::start().room(RULES);
    let (epoch, places) = a_line(&mut executor, &room, 4);
    let led = (epoch, Fence(7));
    executor.run(releasing(&room, led, &calling(1, 3))).unwrap();
    executor
        .run(of_one(&room, "claim", epoch, places[0]))
        .unwrap();
    executor
        .run(of_one(&room, "leave", epoch, places[1]))
        .unwrap();

    let kept = executor.ask(&["KEYS", "*"]);
    assert_eq!(kept.parts().len(), 6, "{kept:?}");
    for key in kept.parts() {
        let left = executor.ask(&["PTTL", key.text()]).int().unwrap();
        assert!(left > 86_400_000, "{key:?}: {left}");
    }
    executor.run(leading(&room, "turn", epoch)).unwrap();

    let kept = executor.ask(&["KEYS", "*"]);
    assert_eq!(kept.parts().len(), 1, "{kept:?}");
}
