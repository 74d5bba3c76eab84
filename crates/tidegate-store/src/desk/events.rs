//! Listeners to the ends of sessions.

use std::time::{Duration, Instant};

use tidegate_core::session::Name;

use super::Shared;
use super::error::DeskError;
use crate::{Call, Consumer, Event, EventId, Position, StoreError};

/// An event that a listener took and did not acknowledge for so long is given to another.
pub const EVENT_ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// While a listener waits, the store is asked so often.
const ASK_EVERY: Duration = Duration::from_millis(250);

impl Shared {
    pub(super) async fn events(
        &self,
        consumer: &Consumer,
        most: u32,
        wait: Duration,
    ) -> Result<Vec<Event>, DeskError> {
        let until = Instant::now() + wait;
        loop {
            let call = Call::within(self.plan.operation);
            let events = self
                .store
                .events(consumer, most, EVENT_ABANDONED_AFTER, call);
            let events = events.await?;
            if !events.is_empty() || !pause(until).await {
                return Ok(events);
            }
        }
    }

    pub(super) async fn acknowledge(
        &self,
        group: &Name,
        events: &[EventId],
    ) -> Result<u32, StoreError> {
        let call = Call::within(self.plan.operation);
        self.store.acknowledge(group, events, call).await
    }

    pub(super) async fn events_after(
        &self,
        position: &Position,
        most: u32,
        wait: Duration,
    ) -> Result<(Vec<Event>, Position), DeskError> {
        let until = Instant::now() + wait;
        loop {
            let call = Call::within(self.plan.operation);
            let (events, behind) = self.store.events_after(position, most, call).await?;
            if !events.is_empty() || !pause(until).await {
                return Ok((events, behind));
            }
        }
    }
}

/// Waits until it is time to ask again; false when `until` comes first.
async fn pause(until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    tokio::time::sleep(left.min(ASK_EVERY)).await;
    left > ASK_EVERY
}
