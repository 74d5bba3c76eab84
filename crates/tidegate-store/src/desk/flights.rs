//! One question to the store for all who ask the same at the same time.
//!
//! Whoever opens a session while nobody else is about to leads a flight; who comes before it departs
//! joins. Who comes after that must not: the reply may be older than a write that was acknowledged
//! before they asked. They gather for the next flight, which departs when the one before has
//! landed, or fails with it, so that nobody waits for two timeouts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::session::{Fields, SessionId};
use tokio::sync::watch;

use super::opened::Visit;
use super::session::union;
use crate::StoreError;

/// Sessions with a flight at the same time; the requests of a gateway are far fewer.
const FLIGHTS_MAX: usize = 65_536;

/// What a flight brings.
pub(super) type Landed = Result<Visit, StoreError>;

/// The flights that are gathering or under way.
#[derive(Clone, Default)]
pub(super) struct Flights(Arc<Mutex<HashMap<SessionId, Track>>>);

#[derive(Default)]
struct Track {
    flying: Option<watch::Receiver<Option<Landed>>>,
    gathering: Option<Gathering>,
}

struct Gathering {
    fields: Fields,
    landed: watch::Receiver<Option<Landed>>,
}

/// A part in a flight.
pub(super) enum Seat {
    /// Somebody has to ask: the one who holds this.
    Lead(Lead),
    /// Somebody else will ask.
    Join(Join),
    /// There are too many flights.
    None,
}

/// The duty to ask the store. Dropped without an answer, those who joined look for another.
pub(super) struct Lead {
    flights: Flights,
    id: SessionId,
    before: Option<watch::Receiver<Option<Landed>>>,
    landed: watch::Sender<Option<Landed>>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Gathering,
    Flying,
    Over,
}

/// The wait for what somebody else asks.
pub(super) struct Join(watch::Receiver<Option<Landed>>);

impl Flights {
    /// Takes part in the next flight to `id`, which will bring `fields` at least.
    pub(super) fn board(&self, id: &SessionId, fields: &Fields) -> Seat {
        let mut tracks = self.lock();
        let room = tracks.len() < FLIGHTS_MAX;
        let track = match tracks.entry(*id) {
            Entry::Occupied(track) => track.into_mut(),
            Entry::Vacant(place) if room => place.insert(Track::default()),
            Entry::Vacant(_) => return Seat::None,
        };
        if let Some(gathering) = &mut track.gathering {
            gathering.fields = union(&gathering.fields, fields);
            return Seat::Join(Join(gathering.landed.clone()));
        }
        let (landed, receiver) = watch::channel(None);
        track.gathering = Some(Gathering {
            fields: fields.clone(),
            landed: receiver,
        });
        Seat::Lead(Lead {
            flights: self.clone(),
            id: *id,
            before: track.flying.clone(),
            landed,
            stage: Stage::Gathering,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Track>> {
        self.0.lock().expect("no holder panics")
    }
}

impl Lead {
    /// Closes the door and says what to ask for; or how the flight before has failed, in which this
    /// one has failed as well.
    pub(super) async fn depart(&mut self) -> Result<Fields, StoreError> {
        // What is ready on this thread gets the chance to join: the parallel calls of one page.
        tokio::task::yield_now().await;
        if let Some(mut before) = self.before.take() {
            // An error means that its leader has gone without an answer.
            let landed = before.wait_for(Option::is_some).await;
            if let Ok(Some(Err(error))) = landed.as_deref() {
                let error = error.clone();
                self.landed.send_replace(Some(Err(error.clone())));
                return Err(error);
            }
        }
        let mut tracks = self.flights.lock();
        let track = tracks.get_mut(&self.id).expect("its leader keeps it");
        let gathering = track.gathering.take().expect("its leader keeps it");
        track.flying = Some(gathering.landed);
        self.stage = Stage::Flying;
        Ok(gathering.fields)
    }

    /// Tells everybody what the store answered.
    pub(super) fn land(mut self, landed: Landed) {
        // The place first: whoever gathers departs as soon as they hear, and the place is theirs.
        self.leave();
        self.landed.send_replace(Some(landed));
    }

    fn leave(&mut self) {
        let mut tracks = self.flights.lock();
        let Some(track) = tracks.get_mut(&self.id) else {
            return;
        };
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Gathering => track.gathering = None,
            Stage::Flying => track.flying = None,
            Stage::Over => return,
        }
        if track.flying.is_none() && track.gathering.is_none() {
            tracks.remove(&self.id);
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Join {
    /// What the store answered; `None` when whoever was to ask has gone.
    pub(super) async fn landed(mut self) -> Option<Landed> {
        let landed = self.0.wait_for(Option::is_some).await;
        landed.ok().and_then(|landed| landed.clone())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::session::{Gone, Name, SlotTag};

    use super::*;

    fn id() -> SessionId {
        SessionId::new(SlotTag::from_bits(7), *b"ABCDEFGHIJKLMNOPQRSTUV").unwrap()
    }

    fn only(name: &str) -> Fields {
        Fields::Only([Name::new(name).unwrap()].into())
    }

    fn lead(seat: Seat) -> Lead {
        match seat {
            Seat::Lead(lead) => lead,
            _ => panic!("somebody else leads"),
        }
    }

    fn join(seat: Seat) -> Join {
        match seat {
            Seat::Join(join) => join,
            _ => panic!("nobody else leads"),
        }
    }

    fn gone() -> Landed {
        Ok(Visit::Gone(Gone::Missing))
    }

    #[tokio::test]
    async fn who_comes_before_the_departure_joins_and_who_comes_after_it_gathers_anew() {
        let flights = Flights::default();
        let mut first = lead(flights.board(&id(), &only("a")));
        let early = join(flights.board(&id(), &only("b")));

        assert_eq!(first.depart().await, Ok(union(&only("a"), &only("b"))));
        let mut second = lead(flights.board(&id(), &only("c")));
        let late = join(flights.board(&id(), &only("c")));
        first.land(gone());

        assert_eq!(early.landed().await, Some(gone()));
        assert_eq!(second.depart().await, Ok(only("c")));
        second.land(gone());
        assert_eq!(late.landed().await, Some(gone()));
        assert!(flights.lock().is_empty());
    }

    #[tokio::test]
    async fn a_failure_is_shared_with_those_who_gather_so_that_none_pays_twice() {
        let flights = Flights::default();
        let mut first = lead(flights.board(&id(), &Fields::All));
        first.depart().await.unwrap();
        let mut second = lead(flights.board(&id(), &Fields::All));
        let late = join(flights.board(&id(), &Fields::All));

        first.land(Err(StoreError::Timeout));

        assert_eq!(second.depart().await, Err(StoreError::Timeout));
        assert_eq!(late.landed().await, Some(Err(StoreError::Timeout)));
        drop(second);
        assert!(flights.lock().is_empty());
    }

    #[tokio::test]
    async fn who_joined_a_leader_that_has_gone_looks_for_another() {
        let flights = Flights::default();
        let first = lead(flights.board(&id(), &Fields::All));
        let joined = join(flights.board(&id(), &Fields::All));

        drop(first);

        assert_eq!(joined.landed().await, None);
        assert!(matches!(flights.board(&id(), &Fields::All), Seat::Lead(_)));
    }

    #[test]
    fn on_many_threads_everybody_lands_and_nothing_is_left() {
        const ROUNDS: usize = 2_000;
        let flights = Flights::default();
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let flights = flights.clone();
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build();
                    runtime.unwrap().block_on(async {
                        for round in 0..ROUNDS {
                            match flights.board(&id(), &Fields::All) {
                                Seat::Lead(mut lead) => {
                                    lead.depart().await.unwrap();
                                    // Some leaders go without an answer.
                                    if (round + thread) % 7 > 0 {
                                        lead.land(gone());
                                    }
                                }
                                Seat::Join(join) => {
                                    let landed = join.landed().await;
                                    assert!(landed.is_none_or(|landed| landed == gone()));
                                }
                                Seat::None => panic!("there is room"),
                            }
                        }
                    });
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }

        assert!(flights.lock().is_empty());
    }
}
