//! The scripts on a real server, at times of the test's choice, beside the table of a process.

mod agreement;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::room::{RoomName, Rules};
use tidegate_core::session::Name;
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
const BOARD: &str = include_str!("../../redis/scripts/room_board.lua");
const START: u64 = 1_790_000_000_000;

/// A server that runs the scripts at a time that it is told.
struct Executor {
    wire: Wire,
    visitors: String,
    leaders: String,
    board: String,
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
            board: load(BOARD),
            wire,
            now: START,
            _server: server,
        }
    }

    fn run(&mut self, run: Run) -> Result<Elements, RoomError> {
        let script = match run.script.name() {
            "room" => self.visitors.clone(),
            "room_lead" => self.leaders.clone(),
            _ => self.board.clone(),
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
fn more_time_takes_no_more_room_and_is_forgotten_with_the_call() {
    let mut executor = Executor::start();
    let room = Table::start().room(RULES);
    let (epoch, places) = a_line(&mut executor, &room, 3);
    let led = (epoch, Fence(7));
    let kept = |executor: &mut Executor| executor.ask(&["KEYS", "*"]).parts().len();
    executor.run(releasing(&room, led, &calling(1, 3))).unwrap();
    let before = kept(&mut executor);

    for place in &places {
        for left in [1, 0] {
            let run = extending(&room, epoch, *place, (9_000, 2));
            let until_ms = executor.now + 9_000;
            let said = extended(executor.run(run).unwrap());
            assert_eq!(said, Ok(Some(Extended { until_ms, left })));
        }
    }

    assert_eq!(kept(&mut executor), before);
    let ready = format!("tg:r:{{room/shop}}:{}:ready", epoch.0);
    assert_eq!(executor.ask(&["ZCARD", &ready]), Reply::Int(3));
    // One comes, one does not want to, one is too late.
    executor
        .run(of_one(&room, "claim", epoch, places[0]))
        .unwrap();
    executor
        .run(of_one(&room, "leave", epoch, places[1]))
        .unwrap();
    executor.now += 8_999;
    let settle = || settling(&room, led, 10);
    let mut said = executor.run(settle()).unwrap();
    assert_eq!(said.natural(), Ok(0));
    executor.now += 1;
    let late = extending(&room, epoch, places[2], (9_000, 9));
    assert_eq!(extended(executor.run(late).unwrap()), Ok(None));
    assert_eq!(executor.run(settle()).unwrap().natural(), Ok(1));
    assert_eq!(executor.ask(&["EXISTS", &ready]), Reply::Int(0));
}

/// What `node` says, with these notes.
fn notice<'a>(node: &'a Name, notes: &'a [(&'a str, Option<&'a [u8]>)]) -> Notice<'a> {
    Notice {
        node,
        report: b"r",
        word: None,
        notes,
        wants_reports: true,
    }
}

#[test]
fn what_is_for_all_is_lost_with_the_room_or_not_at_all() {
    let mut executor = Executor::start();
    let room = Table::start().room(RULES);
    let (epoch, _) = a_line(&mut executor, &room, 2);
    let node = Name::new("a").unwrap();
    let exchange = |executor: &mut Executor, notes: &[(&str, Option<&[u8]>)], word| {
        let notice = Notice {
            word,
            ..notice(&node, notes)
        };
        let run = board::write(&room, epoch, &notice);
        board::read(executor.run(run).unwrap()).unwrap()
    };
    let word = Some((Fence(7), &b"word"[..]));
    exchange(&mut executor, &[("stock", Some(b"7"))], word);

    // A part of the line is lost, and begins anew: what was said to all is still true.
    let waiting = format!("tg:r:{{room/shop}}:{}:w3", epoch.0);
    executor.ask(&["DEL", &waiting]);
    executor.run(looking(&room, epoch, Place(0))).unwrap();
    let board = exchange(&mut executor, &[], None);
    assert_eq!(board.notes["stock"], b"7");
    assert_eq!(board.word.unwrap().2, b"word");

    executor.ask(&["DEL", "tg:r:{room/shop}"]);
    let board = exchange(&mut executor, &[], None);
    assert_eq!((board.word, board.notes.len()), (None, 0));
    let said = executor.run(looking(&room, epoch, Place(0))).unwrap();
    let settles_ms = looked(said).unwrap().census.settles_ms;
    assert_eq!(settles_ms, RULES.settle_ms);
}

#[test]
fn what_gateways_say_is_not_kept_for_ever() {
    let mut executor = Executor::start();
    let room = Table::start().room(RULES);
    let epoch = Epoch(START);
    let node = Name::new("a").unwrap();
    let notes: [(&str, Option<&[u8]>); 1] = [("stock", Some(b"7"))];

    let run = board::write(&room, epoch, &notice(&node, &notes));
    executor.run(run).unwrap();

    let mut left = |key| executor.ask(&["PTTL", key]).int().unwrap();
    assert!(left("tg:r:{room/shop}") > 86_400_000);
    let reports = left("tg:r:{room/shop}:reports");
    assert!((5_000..60_000).contains(&reports), "{reports}");
}

#[test]
fn no_more_reports_are_kept_than_a_fleet_has_members() {
    let mut executor = Executor::start();
    let room = Table::start().room(RULES);
    let epoch = Epoch(START);
    let many = crate::rooms::REPORTS_MAX as usize;
    let said = format!("{START} r");
    let names: Vec<_> = (0..many).map(|number| format!("n{number}")).collect();
    let mut command = vec!["HSET", "tg:r:{room/shop}:reports"];
    command.extend(names.iter().flat_map(|name| [name.as_str(), &said]));
    executor.ask(&command);
    let late = Name::new("late").unwrap();
    let exchange = |executor: &mut Executor| {
        let run = board::write(&room, epoch, &notice(&late, &[]));
        board::read(executor.run(run).unwrap()).unwrap().reports
    };

    let reports = exchange(&mut executor);
    assert_eq!(reports.len(), many);
    assert!(reports.iter().all(|(node, _)| *node != late));
    executor.now += 5_000;
    assert_eq!(exchange(&mut executor), [(late.clone(), b"r".to_vec())]);
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
