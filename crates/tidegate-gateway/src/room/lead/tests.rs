//! Gateways before one store that is in this process, tick by tick.

mod alone;
mod leaders;
mod shown;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use tidegate_core::room::{
    Beat, Bounds, Budget, Epoch, Order, Phase, Place, RoomName, Rules, Tier, Whereabouts,
};
use tidegate_core::session::Name;
use tidegate_core::time::{Mono, Wall};
use tidegate_page::Theme;
use tidegate_store::embedded::{Clock as StoreClock, Embedded, EmbeddedPlan};
use tidegate_store::rooms::{JOINS_MAX, Looked, Room, RoomStore, RoomTable};
use tidegate_store::{Background, Call, Node};

use super::turn::Lead;
use super::{Pulse, TICK};
use crate::context::Clock;
use crate::heard::Heard;
use crate::room::hall::{Hall, OnRoomLoss, RoomPlan};
use crate::room::{Algorithm, Keys, TokensPlan, draw_key};

/// Longer than anything takes here, however slow the machine.
const CALL: Call = Call::within(Duration::from_secs(60));
const ANY: Tier = Tier::Anonymous;
const BEGAN_US: u64 = 1_790_000_000_000_000;
/// What may come in a second.
const RATE: f64 = 20.0;

/// A room in which everybody waits, and [`RATE`] a second are called.
pub(crate) fn plan() -> RoomPlan {
    let room = RoomName::new("shop").unwrap();
    let key = draw_key("h", Algorithm::Hs256, 1_000);
    RoomPlan {
        tokens: TokensPlan {
            verified_max: 128,
            passes_max: 128,
            ..TokensPlan::of(room)
        },
        key_file: PathBuf::new(),
        keys: Keys::from_json(&format!("{{\"keys\":[{key}]}}")).unwrap(),
        phase: Phase::QueueAll,
        order: Order::Strict,
        bounds: Bounds {
            rate_max: RATE,
            rate_min: RATE,
            fill: Duration::from_secs(30),
            active_max: None,
        },
        load_each: 1.0,
        rules: Rules {
            waiting_max: 10_000,
            misses_max: 3,
            settle_ms: 60_000,
            ticket_ms: 86_400_000,
        },
        claim_within: Duration::from_secs(120),
        extensions_max: 3,
        asks: Budget {
            polls: 500.0,
            beats: 3_000.0,
        },
        on_store_loss: OnRoomLoss::LocalBudget,
        joins: None,
        page_status: StatusCode::SERVICE_UNAVAILABLE,
        theme: Theme::default(),
        message: None,
        event: None,
        state: None,
        audit: None,
        webhooks: Vec::new(),
    }
}

/// A store, and the time that all go by.
struct Site {
    hand: Arc<AtomicU64>,
    rooms: RoomStore,
    background: Background,
    now: Mono,
}

/// One gateway.
struct Gateway {
    hall: Arc<Hall>,
    lead: Lead,
    heard: Arc<Heard>,
}

impl Site {
    fn new() -> Self {
        let hand = Arc::new(AtomicU64::new(BEGAN_US));
        Self {
            rooms: rooms(&hand),
            hand,
            background: Background::start().unwrap(),
            // Ahead of what any clock here says.
            now: Mono::from_millis(3_600_000),
        }
    }

    /// The store has forgotten everything.
    fn forget(&mut self) {
        self.rooms = rooms(&self.hand);
    }

    fn gateway(&self, name: &str, plan: RoomPlan) -> Gateway {
        let clock = Clock::start();
        let room = self.rooms.room(&plan.tokens.room, plan.rules);
        let hall = Hall::new(plan, room, &self.background, clock).unwrap();
        let heard = Arc::new(Heard::new(clock, std::iter::empty()));
        let node = Node {
            id: Name::new(name).unwrap(),
            incarnation: 1,
        };
        Gateway {
            lead: Lead::new(&hall, node, true, Arc::clone(&heard), self.now),
            hall: Arc::new(hall),
            heard,
        }
    }

    /// A tick of all of these, one after the other.
    async fn tick(&mut self, gateways: &mut [&mut Gateway]) {
        for gateway in gateways {
            let pulse = Pulse::at(self.now);
            gateway.lead.tick(&gateway.hall, pulse, false).await;
        }
        self.now = self.now + TICK;
        let micros = TICK.as_micros() as u64;
        self.hand.fetch_add(micros, Ordering::SeqCst);
    }

    async fn pass(&mut self, span: Duration, gateways: &mut [&mut Gateway]) {
        for _ in 0..span.as_millis() / TICK.as_millis() {
            self.tick(gateways).await;
        }
    }

    fn room(&self) -> Room {
        let plan = plan();
        self.rooms.room(&plan.tokens.room, plan.rules)
    }

    async fn epoch(&self) -> Epoch {
        self.room().open(None, CALL).await.unwrap()
    }

    /// So many come and wait; their places.
    async fn come(&self, count: u64) -> Vec<Place> {
        let (room, epoch) = (self.room(), self.epoch().await);
        let mut places = Vec::new();
        for begin in (0..count).step_by(JOINS_MAX as usize) {
            let some = JOINS_MAX.min(count - begin);
            let first = room.join(epoch, some, CALL).await.unwrap();
            places.extend((0..some).map(|at| first.plus(at)));
        }
        self.beat(&places).await;
        places
    }

    async fn beat(&self, places: &[Place]) {
        let (room, epoch) = (self.room(), self.epoch().await);
        for some in places.chunks(256) {
            let beats: Vec<_> = some.iter().map(|place| beat(*place)).collect();
            room.beat(epoch, &beats, CALL).await.unwrap();
        }
    }

    async fn look(&self) -> Looked {
        let (room, epoch) = (self.room(), self.epoch().await);
        room.look(epoch, Place(0), CALL).await.unwrap()
    }

    async fn called(&self) -> u64 {
        self.look().await.census.tallies.released
    }

    async fn whereabouts(&self, place: Place) -> Whereabouts {
        let (room, epoch) = (self.room(), self.epoch().await);
        let found = room.find(epoch, &Order::Strict, (ANY, place), CALL).await;
        found.unwrap().whereabouts
    }
}

/// A file that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-lead-{}-{number}.json", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn rooms(hand: &Arc<AtomicU64>) -> RoomStore {
    let hand = Arc::clone(hand);
    let store = Embedded::start(EmbeddedPlan {
        clock: StoreClock::new(move || Wall::from_micros(hand.load(Ordering::SeqCst))),
        ..EmbeddedPlan::at(None)
    });
    RoomStore::Embedded(Arc::new(RoomTable::new(store.unwrap())))
}

fn beat(place: Place) -> Beat {
    Beat {
        place,
        tier: ANY,
        may_enter: true,
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
