//! What an operator on this machine asks of waiting rooms, and orders: `/rooms` of the admin listener.

mod minute;
mod orders;
mod wrong;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tidegate_core::time::Mono;
use tokio::time::{MissedTickBehavior, interval};

use self::minute::{EVERY, Minute};
use self::orders::{Moment, Order, Verb};
use self::wrong::Wrong;
use super::hall::{ClerkError, Hall};
use super::herald::RoomEvent;
use crate::context::Clock;
use crate::rate::inspect::Reply;
use crate::status::RoomStatus;

/// Longest body of an order, in bytes: sixteen languages of a message fit into it.
pub(crate) const BODY_BYTES_MAX: usize = 32 * 1_024;
/// How long an order may take to come in.
pub(crate) const BODY_WITHIN: Duration = Duration::from_secs(5);

/// The waiting rooms for those who operate them.
pub(crate) struct Rooms {
    halls: Vec<Arc<Hall>>,
    clock: Clock,
    /// What became of requests during the last minute, in the order of the halls.
    minutes: Mutex<Vec<Minute>>,
}

/// What a path below `/rooms` means.
#[derive(Debug, PartialEq, Eq)]
enum Place<'p> {
    /// All of them.
    All,
    /// The room of that name.
    One(&'p str),
    /// What is ordered of it.
    Order(&'p str, Verb),
}

impl Rooms {
    /// These, by that clock.
    pub(crate) fn new(halls: &[Arc<Hall>], clock: Clock) -> Arc<Self> {
        let now = clock.now();
        let minutes = halls.iter().map(|_| Minute::new(now)).collect();
        Arc::new(Self {
            halls: halls.to_vec(),
            clock,
            minutes: Mutex::new(minutes),
        })
    }

    /// Notes every some seconds what was counted, for ever; at once over where there are no rooms.
    pub(crate) async fn note(self: Arc<Self>) {
        if self.halls.is_empty() {
            return;
        }
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let now = self.clock.now();
            let mut minutes = self.minutes.lock().unwrap_or_else(PoisonError::into_inner);
            for (hall, minute) in self.halls.iter().zip(minutes.iter_mut()) {
                minute.note(now, minute::counted(&hall.counts));
            }
        }
    }

    /// Answers what is asked at `path`, which is `/rooms` or below it.
    pub(crate) async fn answer(&self, method: &Method, path: &str, body: &[u8]) -> Reply {
        match self.answered(method, path, body).await {
            Ok(said) => (StatusCode::OK, said),
            Err(wrong) => wrong.reply(),
        }
    }

    async fn answered(&self, method: &Method, path: &str, body: &[u8]) -> Result<Value, Wrong> {
        let place = Place::of(path)?;
        place.takes(method)?;
        let now = self.clock.now();
        match place {
            Place::All => {
                let rooms: Vec<_> = (0..self.halls.len())
                    .map(|at| self.status(at, now))
                    .collect();
                Ok(json!({ "rooms": rooms }))
            }
            Place::One(name) => Ok(json!(self.status(self.find(name)?, now))),
            Place::Order(name, verb) => {
                let hall = &self.halls[self.find(name)?];
                let moment = Moment {
                    now_s: hall.view().wall(now).as_micros() / 1_000_000,
                    pass_absolute: hall.plan.tokens.absolute,
                };
                give(hall, Order::read(verb, body, &moment)?).await
            }
        }
    }

    /// The place of the room of this name.
    fn find(&self, name: &str) -> Result<usize, Wrong> {
        let names = || self.halls.iter().map(|hall| hall.plan.tokens.room.as_str());
        let found = names().position(|known| known == name);
        found.ok_or_else(|| Wrong::no_room(name, names()))
    }

    fn status(&self, at: usize, now: Mono) -> RoomStatus {
        let hall = &self.halls[at];
        let minutes = self.minutes.lock().unwrap_or_else(PoisonError::into_inner);
        RoomStatus {
            last_minute: Some(minutes[at].since(now, &minute::counted(&hall.counts))),
            ..RoomStatus::of(hall, now)
        }
    }
}

impl<'p> Place<'p> {
    fn of(path: &'p str) -> Result<Self, Wrong> {
        let rest = path.strip_prefix("/rooms").unwrap_or(path);
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        Ok(match rest.split_once('/') {
            None if rest.is_empty() => Self::All,
            None => Self::One(rest),
            Some((name, verb)) => match Verb::of(verb) {
                Some(verb) => Self::Order(name, verb),
                None => return Err(Wrong::no_path()),
            },
        })
    }

    fn takes(&self, method: &Method) -> Result<(), Wrong> {
        match self {
            Self::All | Self::One(_) if matches!(*method, Method::GET | Method::HEAD) => Ok(()),
            Self::Order(_, verb) if *method == verb.method() => Ok(()),
            Self::All | Self::One(_) => Err(Wrong::method(method, "GET")),
            Self::Order(_, verb) => Err(Wrong::method(method, verb.method().as_str())),
        }
    }
}

/// Has `order` carried out, and what is said of it. What was done is written down with who has ordered it.
async fn give(hall: &Hall, order: Order) -> Result<Value, Wrong> {
    let Order {
        order,
        phase,
        what,
        by,
        why,
    } = order;
    let from = hall.view().phase;
    if let Err(error) = hall.clerk.order(order).await {
        if error == ClerkError::Away {
            // It may have been done, and then it is to be found who has ordered it.
            let what = format!("{what} (the store did not answer)");
            hall.herald.tell(RoomEvent::Ordered { what, by, why });
        }
        return Err(undone(error));
    }
    let mut said = json!({
        "room": hall.plan.tokens.room.as_str(),
        "ordered": what,
        "by": by,
    });
    let event = match phase {
        Some(to) => {
            let to = to.unwrap_or(hall.plan.phase);
            said["was"] = from.name().into();
            said["phase"] = to.name().into();
            RoomEvent::PhaseSet { from, to, by, why }
        }
        None => RoomEvent::Ordered { what, by, why },
    };
    hall.herald.tell(event);
    Ok(said)
}

/// Why an order has no good answer.
fn undone(error: ClerkError) -> Wrong {
    match error {
        ClerkError::Away => Wrong::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store_away",
            "the store of the line did not answer, so that it is not known whether it was done",
            "look at the room's status, and order it again: the same order twice does no harm, but for turn",
        ),
        ClerkError::Busy => Wrong::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "the store has too much to do, or no room for another fact, and nothing was changed",
            "order it again in a second; where many passes were taken back one by one, take all of an earlier second back",
        ),
        ClerkError::Epoch(epoch) => Wrong::new(
            StatusCode::CONFLICT,
            "another_epoch",
            &format!(
                "the room has another line by now, which began at {} ms, and nothing was changed",
                epoch.0
            ),
            "look at the room's status, and order it again if it is still meant",
        ),
        ClerkError::Held => Wrong::new(
            StatusCode::CONFLICT,
            "held",
            "nobody is let in while the store of the line is away, and nothing was changed",
            "order it again when the room's status says that the store has the line",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_rooms_and_what_is_ordered_of_them() {
        assert_eq!(Place::of("/rooms").ok(), Some(Place::All));
        assert_eq!(Place::of("/rooms/").ok(), Some(Place::All));
        assert_eq!(Place::of("/rooms/shop").ok(), Some(Place::One("shop")));
        let phase = Some(Place::Order("shop", Verb::Phase));
        assert_eq!(Place::of("/rooms/shop/phase").ok(), phase);
        for none in ["/rooms/shop/", "/rooms/shop/phases", "/rooms/shop/phase/x"] {
            let (status, said) = Place::of(none).err().unwrap().reply();
            assert_eq!(
                (status, &said["reason"]),
                (StatusCode::NOT_FOUND, &json!("no_such_path"))
            );
        }
    }

    #[test]
    fn each_place_takes_its_own_method_and_says_which() {
        let fix = |path, method| {
            let refused = Place::of(path).ok().unwrap().takes(&method).err()?;
            let (status, said) = refused.reply();
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(said["value"], method.as_str());
            Some(said["fix"].as_str().unwrap().to_owned())
        };

        assert_eq!(fix("/rooms", Method::GET), None);
        assert_eq!(fix("/rooms/shop", Method::HEAD), None);
        assert_eq!(fix("/rooms/shop/phase", Method::PUT), None);
        assert_eq!(fix("/rooms/shop/turn", Method::POST), None);
        assert_eq!(
            fix("/rooms/shop", Method::DELETE).as_deref(),
            Some("use GET")
        );
        assert_eq!(
            fix("/rooms/shop/turn", Method::GET).as_deref(),
            Some("use POST")
        );
        assert_eq!(
            fix("/rooms/shop/stock", Method::POST).as_deref(),
            Some("use PUT")
        );
    }

    #[test]
    fn an_order_that_was_not_carried_out_says_why_and_what_to_do() {
        use tidegate_core::room::Epoch;

        for (error, status, reason) in [
            (ClerkError::Away, 503, "store_away"),
            (ClerkError::Busy, 503, "busy"),
            (ClerkError::Epoch(Epoch(7)), 409, "another_epoch"),
            (ClerkError::Held, 409, "held"),
        ] {
            let (code, said) = undone(error).reply();

            assert_eq!((code.as_u16(), &said["reason"]), (status, &json!(reason)));
            assert!(said["fix"].as_str().unwrap().starts_with(['l', 'o']));
        }
    }

    #[tokio::test]
    async fn a_room_that_there_is_not_is_answered_with_those_that_there_are() {
        let rooms = Rooms::new(&[], Clock::start());

        let (status, said) = rooms.answer(&Method::GET, "/rooms/shop", b"").await;

        assert_eq!(status, StatusCode::NOT_FOUND);
        assert_eq!(said["reason"], "no_such_room");
        assert_eq!(said["value"], "shop");
        let (status, said) = rooms.answer(&Method::GET, "/rooms", b"").await;
        assert_eq!((status, said), (StatusCode::OK, json!({ "rooms": [] })));
    }
}
