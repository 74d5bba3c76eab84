//! The line of a room, spoken to past the gateways: for more people than could come through them in the time.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::try_join_all;
use tidegate_core::room::{Beat, Calling, Denied, Epoch, Order, Place, RoomName, Rules, Tier};
use tidegate_store::redis::{Redis, Use};
use tidegate_store::rooms::{BEATS_MAX, JOINS_MAX, Looked, RedisRooms, Room, RoomError, RoomStore};
use tidegate_store::{Background, Call, Fence};

use super::ROOM;
use crate::harness::session_server::plan;

/// Time for a busy machine.
const CALL: Call = Call::within(Duration::from_secs(30));
/// Batches of beats under way at the same time.
const UNDER_WAY: usize = 8;

/// As gateways have it, but that any number may wait.
const RULES: Rules = Rules {
    waiting_max: 10_000_000,
    misses_max: 3,
    settle_ms: 160_000,
    ticket_ms: 86_400_000,
};

/// The line that gateways show.
pub(crate) struct Line {
    room: Room,
    epoch: Epoch,
    /// Kept for its connections.
    _background: Background,
}

impl Line {
    /// The one in the Redis at `store`, which a gateway has opened.
    pub(crate) async fn open(store: SocketAddr) -> anyhow::Result<Self> {
        let background = Background::start()?;
        let redis = Redis::start(&plan(store), Use::Room, &background);
        let name = RoomName::new(ROOM).map_err(|error| anyhow::anyhow!("{error}"))?;
        let room = RoomStore::Redis(RedisRooms::new(redis)).room(&name, RULES);
        let mut tries = 0;
        loop {
            match room.open(None, CALL).await {
                Ok(epoch) => {
                    return Ok(Self {
                        room,
                        epoch,
                        _background: background,
                    });
                }
                Err(error) if tries == 500 => {
                    return Err(error).context("the store does not answer");
                }
                Err(_) => tries += 1,
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// So many more come; their places, in their order.
    pub(crate) async fn join(&self, many: u64) -> anyhow::Result<Vec<Place>> {
        let mut places = Vec::new();
        let mut left = many;
        while left > 0 {
            let some = left.min(JOINS_MAX);
            let first = self.room.join(self.epoch, some, CALL).await?;
            places.extend((0..some).map(|number| first.plus(number)));
            left -= some;
        }
        self.beat(&places).await?;
        Ok(places)
    }

    /// These are heard of, strangers all of them.
    pub(crate) async fn beat(&self, places: &[Place]) -> anyhow::Result<()> {
        for some in places.chunks(BEATS_MAX * UNDER_WAY) {
            let batches = some.chunks(BEATS_MAX).map(|batch| {
                let beats: Vec<_> = batch.iter().map(|place| beat(*place)).collect();
                async move { self.room.beat(self.epoch, &beats, CALL).await }
            });
            try_join_all(batches).await?;
        }
        Ok(())
    }

    /// How it is.
    pub(crate) async fn look(&self) -> anyhow::Result<Looked> {
        Ok(self.room.look(self.epoch, Place(0), CALL).await?)
    }

    /// Calls somebody as a leader would that has this right; whether that is refused because somebody else leads.
    pub(crate) async fn is_refused(&self, fence: u64) -> anyhow::Result<bool> {
        let calling = Calling {
            order: Order::Strict,
            tick: u64::from(u32::MAX),
            count: 1,
            claim_ms: 120_000,
            grace_ms: 3_600_000,
            enough: 0,
        };
        match self
            .room
            .release((self.epoch, Fence(fence)), &calling, CALL)
            .await
        {
            Err(RoomError::Denied(Denied::Deposed { .. })) => Ok(true),
            Ok(_) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

const fn beat(place: Place) -> Beat {
    Beat {
        place,
        tier: Tier::Anonymous,
        may_enter: true,
    }
}
