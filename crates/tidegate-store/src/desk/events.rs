//! Listeners to the ends of sessions.
//!
//! The store tells nobody of its own accord, so whoever waits for an end makes this desk ask again
//! and again. However many wait, one of them asks at a time; and what the members of a group are
//! told is the group's, so when one of them has just asked in vain the others need not.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tidegate_core::session::Name;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Shared;
use super::error::DeskError;
use crate::{Call, Consumer, Event, EventId, Position, StoreError};

/// An event that a listener took and did not acknowledge for so long is given to another.
pub const EVENT_ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// While listeners wait, the store is asked so often: once for each group, and once for each reader
/// that keeps account itself.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// A store that had too much to do, or was slow, is asked again so soon, and for so long after the
/// end of the listener's wait.
const ASK_AGAIN: Duration = Duration::from_millis(10);
const ASK_AGAIN_FOR: Duration = Duration::from_millis(250);
/// Longest wait for one answer of the store, unless it has more: listeners are in no hurry.
const ASK_WITHIN: Duration = Duration::from_millis(100);
/// Listeners of a desk that ask the store at the same time, and as many that acknowledge.
const READERS_MAX: usize = 1;

/// The listeners of a desk.
pub(super) struct Listeners {
    readers: Semaphore,
    acknowledgers: Semaphore,
    /// When the store last had nothing for a group; only what is younger than [`ASK_EVERY`] is kept.
    quiet: Mutex<HashMap<Name, Instant>>,
}

/// Whom the store is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// For this listener, who has just come or is about to go.
    Myself,
    /// For all of its group.
    Group,
}

impl Listeners {
    pub(super) fn new() -> Self {
        Self {
            readers: Semaphore::new(READERS_MAX),
            acknowledgers: Semaphore::new(READERS_MAX),
            quiet: Mutex::default(),
        }
    }

    fn is_quiet(&self, group: &Name) -> bool {
        let since = self.lock().get(group).copied();
        since.is_some_and(|since| since.elapsed() < ASK_EVERY)
    }

    fn note_quiet(&self, group: &Name) {
        let mut quiet = self.lock();
        quiet.retain(|_, since| since.elapsed() < ASK_EVERY);
        quiet.insert(group.clone(), Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Instant>> {
        self.quiet.lock().expect("no holder panics")
    }
}

impl Shared {
    pub(super) async fn events(
        &self,
        consumer: &Consumer,
        most: u32,
        wait: Duration,
    ) -> Result<Vec<Event>, DeskError> {
        let look = |ask| async move {
            let _turn = turn(&self.listeners.readers).await;
            // Others may have asked while this one waited for its turn.
            if ask == Ask::Group && self.listeners.is_quiet(&consumer.group) {
                return Ok(None);
            }
            let call = self.unhurried();
            let events = self
                .store
                .events(consumer, most, EVENT_ABANDONED_AFTER, call)
                .await?;
            if events.is_empty() {
                self.listeners.note_quiet(&consumer.group);
                return Ok(None);
            }
            Ok(Some(events))
        };
        Ok(listen(wait, look).await?.unwrap_or_default())
    }

    pub(super) async fn acknowledge(
        &self,
        group: &Name,
        events: &[EventId],
    ) -> Result<u32, StoreError> {
        let _turn = turn(&self.listeners.acknowledgers).await;
        self.store
            .acknowledge(group, events, self.unhurried())
            .await
    }

    pub(super) async fn events_after(
        &self,
        position: &Position,
        most: u32,
        wait: Duration,
    ) -> Result<(Vec<Event>, Position), DeskError> {
        let look = |_| async move {
            let _turn = turn(&self.listeners.readers).await;
            let read = self.store.events_after(position, most, self.unhurried());
            let read = read.await?;
            Ok((!read.0.is_empty()).then_some(read))
        };
        let nothing = || (Vec::new(), position.clone());
        Ok(listen(wait, look).await?.unwrap_or_else(nothing))
    }

    fn unhurried(&self) -> Call {
        Call::within(self.plan.operation.max(ASK_WITHIN))
    }
}

async fn turn(of: &Semaphore) -> SemaphorePermit<'_> {
    of.acquire().await.expect("it is never closed")
}

/// What `look` finds: now, every [`ASK_EVERY`], or when `wait` is over; `None` when there is
/// nothing by then. Fails when the store is away, or was asked in vain to the end.
async fn listen<T, F>(wait: Duration, look: impl Fn(Ask) -> F) -> Result<Option<T>, StoreError>
where
    F: Future<Output = Result<Option<T>, StoreError>>,
{
    let until = Instant::now() + wait;
    let mut ask = Ask::Myself;
    loop {
        let begun = Instant::now();
        let pause = match look(ask).await {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) if until <= begun => return Ok(None),
            Ok(None) => ASK_EVERY,
            Err(StoreError::Busy | StoreError::Timeout) if begun < until + ASK_AGAIN_FOR => {
                ASK_AGAIN
            }
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        let next = if now < until {
            until.min(now + pause)
        } else {
            now + pause
        };
        tokio::time::sleep_until(next.into()).await;
        ask = if until <= next {
            Ask::Myself
        } else {
            Ask::Group
        };
    }
}
