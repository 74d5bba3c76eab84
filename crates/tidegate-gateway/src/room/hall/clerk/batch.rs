//! What many visitors ask for at the same time, asked at once.
//!
//! A batch goes as soon as nothing is on its way; else it is gathered for a moment. So whoever comes alone does not wait for
//! anybody, and many cost the store a call for all of them.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::room::{Beat, Beaten, Denied, Epoch, Place};
use tidegate_store::rooms::{BEATS_MAX, JOINS_MAX, RoomError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::inner::Inner;
use super::{ClerkError, Joined};

/// A batch is gathered for so long while others are on their way.
pub(super) const GATHER: Duration = Duration::from_millis(2);
/// Then so many are enough. Those who are there anyway go with them.
const JOINS_ENOUGH: usize = 64;
/// Calls that are on their way at the same time. Of those for places it is one, so that who came first is before who came later.
const JOIN_FLIGHTS: usize = 1;
const BEAT_FLIGHTS: usize = 4;

/// Who waits for a place.
pub(super) type JoinAsked = oneshot::Sender<Result<Joined, ClerkError>>;

/// Who is heard of.
pub(super) struct BeatAsked {
    pub(super) epoch: Epoch,
    pub(super) beat: Beat,
    pub(super) answer: oneshot::Sender<Result<Beaten, ClerkError>>,
}

/// Gives places until nobody can ask any more.
pub(super) async fn give_places(inner: Arc<Inner>, mut asked: mpsc::Receiver<JoinAsked>) {
    let flights = Arc::new(Semaphore::new(JOIN_FLIGHTS));
    loop {
        let mut batch = Vec::new();
        let most = JOINS_MAX as usize;
        let Some(flight) = gather(&mut asked, &flights, most, JOINS_ENOUGH, &mut batch).await
        else {
            return;
        };
        let inner = Arc::clone(&inner);
        tokio::spawn(async move {
            inner.give(batch).await;
            drop(flight);
        });
    }
}

/// Says who is heard of until nobody is any more.
pub(super) async fn hear_beats(inner: Arc<Inner>, mut asked: mpsc::Receiver<BeatAsked>) {
    let flights = Arc::new(Semaphore::new(BEAT_FLIGHTS));
    loop {
        let mut batch = Vec::new();
        let Some(flight) = gather(&mut asked, &flights, BEATS_MAX, BEATS_MAX, &mut batch).await
        else {
            return;
        };
        let inner = Arc::clone(&inner);
        tokio::spawn(async move {
            inner.hear(batch).await;
            drop(flight);
        });
    }
}

/// Takes the next ones into `batch`, `most` at once, and the right to ask for them; `None` when nobody can ask any more.
async fn gather<T>(
    asked: &mut mpsc::Receiver<T>,
    flights: &Arc<Semaphore>,
    most: usize,
    enough: usize,
    batch: &mut Vec<T>,
) -> Option<OwnedSemaphorePermit> {
    let is_over = asked.recv_many(batch, most).await == 0;
    if is_over {
        return None;
    }
    if let Ok(flight) = Arc::clone(flights).try_acquire_owned() {
        return Some(flight);
    }
    let until = Instant::now() + GATHER;
    while batch.len() < enough {
        match timeout_at(until, asked.recv_many(batch, most - batch.len())).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let flight = Arc::clone(flights).acquire_owned().await.ok()?;
    // Whoever came while that was waited for goes with them.
    while batch.len() < most {
        let Ok(another) = asked.try_recv() else {
            break;
        };
        batch.push(another);
    }
    Some(flight)
}

impl Inner {
    /// Gives places to these, in their order.
    async fn give(&self, mut batch: Vec<JoinAsked>) {
        // Who does not wait for it any more has one already.
        batch.retain(|answer| !answer.is_closed());
        if batch.is_empty() {
            return;
        }
        let given = self.places(batch.len() as u64).await;
        for (answer, at) in batch.into_iter().zip(0..) {
            let joined = given.map(|(epoch, first)| Joined::stored(epoch, first.plus(at)));
            // A place that nobody takes counts for nothing.
            let _ = answer.send(joined);
        }
    }

    /// The first of so many places, and in which epoch.
    async fn places(&self, count: u64) -> Result<(Epoch, Place), ClerkError> {
        // In another epoch than was thought there is one more try.
        for _ in 0..2 {
            let epoch = self.known().epoch.ok_or(ClerkError::Away)?;
            match self.ask(self.room.join(epoch, count, self.call())).await {
                Ok(first) => return Ok((epoch, first)),
                Err(RoomError::Denied(Denied::Epoch(other))) => self.learn(other),
                Err(why) => return Err(self.error(&why)),
            }
        }
        Err(ClerkError::Away)
    }

    /// Says that these are heard of. Nearly always all of them are of one epoch.
    async fn hear(&self, mut batch: Vec<BeatAsked>) {
        while let Some(epoch) = batch.first().map(|asked| asked.epoch) {
            let (these, others) = batch.into_iter().partition(|asked| asked.epoch == epoch);
            self.hear_in(epoch, these).await;
            batch = others;
        }
    }

    async fn hear_in(&self, epoch: Epoch, batch: Vec<BeatAsked>) {
        let beats: Vec<Beat> = batch.iter().map(|asked| asked.beat).collect();
        let said = self.ask(self.room.beat(epoch, &beats, self.call())).await;
        match said {
            Ok(heard) => {
                for (asked, beaten) in batch.into_iter().zip(heard) {
                    // Who does not wait for it was heard of nevertheless.
                    let _ = asked.answer.send(Ok(beaten));
                }
            }
            Err(why) => {
                let why = self.error(&why);
                for asked in batch {
                    let _ = asked.answer.send(Err(why));
                }
            }
        }
    }
}
