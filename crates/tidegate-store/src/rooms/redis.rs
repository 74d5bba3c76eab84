//! Rooms in Redis or Valkey, for a fleet.

mod board;

use redis::Value;
use tidegate_core::room::{
    Beat, Beaten, Calling, Census, Claim, Denied, EXTENSIONS_MAX, Epoch, Extended, Found,
    MARK_STEP_MIN, MARKS_MAX, Order, Phase, Place, RELEASE_MAX, Released, SEQUENCES, Swept,
    Tallies, Tier, Whereabouts,
};
use tidegate_core::time::Wall;

use super::board::too_many_notes;
use super::{Board, Looked, Notice, Room, RoomError};
use crate::error::StoreError;
use crate::redis::{Elements, Lane, ROOM, ROOM_LEAD, Redis, Run, lead, room, room_part};
use crate::{Call, Fence};

/// The parts of a line, in the order of the scripts' keys.
const PARTS: [&str; 7] = ["w1", "w2", "w3", "alive", "ready", "passed", "misses"];

/// Rooms that a fleet shares. The server's clock decides. A clone is the same.
#[derive(Clone)]
pub struct RedisRooms {
    redis: Redis,
}

impl RedisRooms {
    /// Rooms in `redis`, which was started for [`Use::Room`](crate::redis::Use::Room).
    pub const fn new(redis: Redis) -> Self {
        Self { redis }
    }

    pub(super) const fn redis(&self) -> &Redis {
        &self.redis
    }

    pub(super) async fn open(
        &self,
        room: &Room,
        known: Option<Epoch>,
        call: Call,
    ) -> Result<Epoch, RoomError> {
        let run = leading(room, "open", known.unwrap_or(Epoch(0)));
        epoch_of(self.lead(run, call).await?)
    }

    pub(super) async fn turn(
        &self,
        room: &Room,
        epoch: Epoch,
        call: Call,
    ) -> Result<Epoch, RoomError> {
        epoch_of(self.lead(leading(room, "turn", epoch), call).await?)
    }

    pub(super) async fn set_phase(
        &self,
        room: &Room,
        epoch: Epoch,
        phase: Option<Phase>,
        call: Call,
    ) -> Result<Option<Phase>, RoomError> {
        let run = setting_phase(room, epoch, phase);
        phase_of(&mut self.lead(run, call).await?)
    }

    pub(super) async fn join(
        &self,
        room: &Room,
        epoch: Epoch,
        count: u64,
        call: Call,
    ) -> Result<Place, RoomError> {
        let mut said = self.ask(joining(room, epoch, count), call).await?;
        Ok(Place(said.natural()?))
    }

    pub(super) async fn beat(
        &self,
        room: &Room,
        epoch: Epoch,
        floor: Place,
        beats: &[Beat],
        call: Call,
    ) -> Result<Vec<Beaten>, RoomError> {
        let said = self.ask(beating(room, epoch, floor, beats), call).await?;
        beaten(said, beats.len())
    }

    pub(super) async fn promote(
        &self,
        room: &Room,
        epoch: Epoch,
        place: Place,
        tier: Tier,
        call: Call,
    ) -> Result<bool, RoomError> {
        flag(self.ask(promoting(room, epoch, place, tier), call).await?)
    }

    pub(super) async fn leave(
        &self,
        room: &Room,
        epoch: Epoch,
        place: Place,
        call: Call,
    ) -> Result<bool, RoomError> {
        flag(self.ask(of_one(room, "leave", epoch, place), call).await?)
    }

    pub(super) async fn claim(
        &self,
        room: &Room,
        epoch: Epoch,
        place: Place,
        call: Call,
    ) -> Result<Claim, RoomError> {
        claimed(self.ask(of_one(room, "claim", epoch, place), call).await?)
    }

    pub(super) async fn extend(
        &self,
        room: &Room,
        epoch: Epoch,
        place: Place,
        more: (u64, u8),
        call: Call,
    ) -> Result<Option<Extended>, RoomError> {
        extended(self.ask(extending(room, epoch, place, more), call).await?)
    }

    pub(super) async fn exchange(
        &self,
        room: &Room,
        epoch: Epoch,
        notice: &Notice<'_>,
        call: Call,
    ) -> Result<Board, RoomError> {
        board::read(self.lead(board::write(room, epoch, notice), call).await?)
    }

    pub(super) async fn find(
        &self,
        room: &Room,
        epoch: Epoch,
        order: &Order,
        whose: (Tier, Place),
        call: Call,
    ) -> Result<Found, RoomError> {
        found(self.ask(finding(room, epoch, order, whose), call).await?)
    }

    pub(super) async fn look(
        &self,
        room: &Room,
        epoch: Epoch,
        aged: Place,
        call: Call,
    ) -> Result<Looked, RoomError> {
        looked(self.lead(looking(room, epoch, aged), call).await?)
    }

    pub(super) async fn sweep(
        &self,
        room: &Room,
        led: (Epoch, Fence),
        grace_ms: u64,
        aged: Place,
        most: u64,
        call: Call,
    ) -> Result<Swept, RoomError> {
        swept(
            self.lead(sweeping(room, led, grace_ms, aged, most), call)
                .await?,
        )
    }

    pub(super) async fn release(
        &self,
        room: &Room,
        led: (Epoch, Fence),
        calling: &Calling,
        call: Call,
    ) -> Result<Released, RoomError> {
        released(self.lead(releasing(room, led, calling), call).await?)
    }

    pub(super) async fn settle(
        &self,
        room: &Room,
        led: (Epoch, Fence),
        most: u64,
        call: Call,
    ) -> Result<u64, RoomError> {
        let mut said = self.lead(settling(room, led, most), call).await?;
        Ok(said.natural()?)
    }

    /// What visitors wait for.
    async fn ask(&self, run: Run, call: Call) -> Result<Elements, RoomError> {
        granted(self.redis.servers().run(&run, Lane::Fast, call).await?)
    }

    /// What moves many at once, or says much.
    async fn lead(&self, run: Run, call: Call) -> Result<Elements, RoomError> {
        granted(self.redis.servers().run(&run, Lane::Bulk, call).await?)
    }
}

fn joining(room: &Room, epoch: Epoch, count: u64) -> Run {
    visiting(room, "join", epoch).number(count)
}

fn beating(room: &Room, epoch: Epoch, floor: Place, beats: &[Beat]) -> Run {
    let one = |run: Run, beat: &Beat| {
        run.arg(member(beat.place))
            .number(beat.tier.number())
            .number(u8::from(beat.may_enter))
    };
    let run = visiting(room, "beat", epoch).arg(member(floor));
    beats.iter().fold(run, one)
}

fn promoting(room: &Room, epoch: Epoch, place: Place, tier: Tier) -> Run {
    of_one(room, "promote", epoch, place).number(tier.number())
}

fn of_one(room: &Room, op: &str, epoch: Epoch, place: Place) -> Run {
    visiting(room, op, epoch).arg(member(place))
}

fn extending(room: &Room, epoch: Epoch, place: Place, (claim_ms, most): (u64, u8)) -> Run {
    let run = of_one(room, "extend", epoch, place).number(claim_ms);
    run.number(most.min(EXTENSIONS_MAX))
}

fn finding(room: &Room, epoch: Epoch, order: &Order, (tier, place): (Tier, Place)) -> Run {
    let run = of_one(room, "find", epoch, place).number(tier.number());
    // Which tier they are in by now only the store knows.
    let bounds = Tier::ALL.map(|tier| order.bounds(tier, place));
    bounds
        .iter()
        .flatten()
        .fold(run, |run, it| run.number(it.0))
}

fn setting_phase(room: &Room, epoch: Epoch, phase: Option<Phase>) -> Run {
    leading(room, "phase", epoch).arg(phase.map_or("", Phase::name))
}

fn looking(room: &Room, epoch: Epoch, aged: Place) -> Run {
    leading(room, "look", epoch)
        .number(aged.0)
        .number(MARK_STEP_MIN)
        .number(MARKS_MAX)
}

fn sweeping(room: &Room, led: (Epoch, Fence), grace_ms: u64, aged: Place, most: u64) -> Run {
    fenced(room, "sweep", led)
        .number(grace_ms)
        .number(aged.0)
        .number(most.min(RELEASE_MAX))
}

fn releasing(room: &Room, led: (Epoch, Fence), calling: &Calling) -> Run {
    let run = fenced(room, "release", led)
        .number(calling.tick)
        .number(calling.count.min(RELEASE_MAX))
        .number(calling.claim_ms)
        .number(calling.grace_ms)
        .number(calling.enough)
        .number(u8::from(calling.order == Order::Strict));
    let ahead = calling.order.credits_ms();
    ahead.iter().fold(run, |run, ms| run.number(ms * SEQUENCES))
}

fn settling(room: &Room, led: (Epoch, Fence), most: u64) -> Run {
    fenced(room, "settle", led).number(most.min(RELEASE_MAX))
}

fn visiting(of: &Room, op: &str, epoch: Epoch) -> Run {
    let (first, parts) = keys(of, epoch);
    let run = parts.into_iter().fold(Run::of(&ROOM).key(first), Run::key);
    with_rules(run, of, op, epoch)
}

fn leading(of: &Room, op: &str, epoch: Epoch) -> Run {
    let (first, parts) = keys(of, epoch);
    let run = Run::of(&ROOM_LEAD).key(first);
    let run = parts.into_iter().fold(run, Run::key).key(lead(&of.lease));
    with_rules(run, of, op, epoch)
}

fn fenced(of: &Room, op: &str, (epoch, fence): (Epoch, Fence)) -> Run {
    leading(of, op, epoch).number(fence.0)
}

fn keys(of: &Room, epoch: Epoch) -> (String, [String; PARTS.len()]) {
    let parts = PARTS.map(|part| room_part(&of.lease, epoch, part));
    (room(&of.lease), parts)
}

fn with_rules(run: Run, of: &Room, op: &str, epoch: Epoch) -> Run {
    let rules = &of.rules;
    run.arg(op)
        .number(epoch.0)
        .number(rules.waiting_max)
        .number(rules.misses_max)
        .number(rules.settle_ms)
        .number(rules.ticket_ms)
}

/// A place as a member: in base 32, as long for all, so that members are in the order of places.
fn member(place: Place) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    const SHIFTS: [u32; 11] = [50, 45, 40, 35, 30, 25, 20, 15, 10, 5, 0];
    let digit = |shift| char::from(DIGITS[(place.0 >> shift) as usize & 31]);
    SHIFTS.map(digit).iter().collect()
}

/// What follows where something was done.
fn granted(reply: Value) -> Result<Elements, RoomError> {
    let mut said = Elements::of("room", reply)?;
    let denied = match said.integer()? {
        0 => return Ok(said),
        -1 => Denied::Epoch(Epoch(said.natural()?)),
        -2 => Denied::Deposed {
            by: said.natural()?,
        },
        -3 => Denied::Stale,
        -4 => Denied::Settling {
            left_ms: said.natural()?,
            alive: said.natural()?,
        },
        -5 => {
            let phase = Phase::parse(&said.text()?);
            // One of a later release, which calls nobody as far as is known here.
            Denied::Phase(phase.unwrap_or(Phase::Hold))
        }
        -6 => return Err(too_many_notes().into()),
        _ => return Err(said.odd().into()),
    };
    Err(denied.into())
}

fn epoch_of(mut said: Elements) -> Result<Epoch, RoomError> {
    Ok(Epoch(said.natural()?))
}

fn flag(mut said: Elements) -> Result<bool, RoomError> {
    Ok(said.natural()? == 1)
}

fn phase_of(said: &mut Elements) -> Result<Option<Phase>, RoomError> {
    let name = said.text()?;
    if name.is_empty() {
        return Ok(None);
    }
    Ok(Some(Phase::parse(&name).ok_or_else(|| said.odd())?))
}

fn beaten(mut said: Elements, count: usize) -> Result<Vec<Beaten>, RoomError> {
    let one = |_| {
        let (what, ms) = (said.natural()?, said.natural()?);
        Ok(match (Tier::of_number(what), what) {
            (Some(tier), _) => Beaten::Waiting(tier),
            (None, 4) => Beaten::Ready { until_ms: ms },
            (None, 5) => Beaten::Passed { at_ms: ms },
            (None, 6) => Beaten::Ghost,
            (None, 7) => Beaten::Spent,
            (None, 8) => Beaten::Full,
            _ => return Err(said.odd().into()),
        })
    };
    (0..count).map(one).collect()
}

fn claimed(mut said: Elements) -> Result<Claim, RoomError> {
    let (what, at_ms) = (said.natural()?, said.natural()?);
    Ok(match what {
        1 | 2 => Claim::Passed {
            at_ms,
            is_first: what == 1,
        },
        3 => Claim::Late,
        4 => Claim::Early,
        _ => return Err(said.odd().into()),
    })
}

fn extended(mut said: Elements) -> Result<Option<Extended>, RoomError> {
    let (until_ms, left) = (said.natural()?, said.natural()?);
    let left = u8::try_from(left).map_err(|_| said.odd())?;
    Ok((until_ms > 0).then_some(Extended { until_ms, left }))
}

fn found(mut said: Elements) -> Result<Found, RoomError> {
    let (what, ms) = (said.natural()?, said.natural()?);
    let whereabouts = match (Tier::of_number(what), what) {
        (Some(tier), _) => Whereabouts::Waiting(tier),
        (None, 0) => Whereabouts::Absent,
        (None, 4) => Whereabouts::Ready(ms),
        (None, 5) => Whereabouts::Passed,
        _ => return Err(said.odd().into()),
    };
    Ok(Found {
        whereabouts,
        ahead: said.natural()?,
    })
}

fn looked(mut said: Elements) -> Result<Looked, RoomError> {
    let now_ms = said.natural()?;
    let phase = phase_of(&mut said)?;
    let until_ms = said.natural()?;
    let mut census = Census {
        waiting: by_tier(&mut said)?,
        aged: said.natural()?,
        ready: said.natural()?,
        tallies: Tallies {
            joined: said.natural()?,
            entered: said.natural()?,
            slept: said.natural()?,
            released: said.natural()?,
            claimed: said.natural()?,
            returned: said.natural()?,
        },
        settles_ms: until_ms.saturating_sub(now_ms),
        ..Census::default()
    };
    for marks in &mut census.marks {
        let mut places = said.nested()?;
        while !places.is_empty() {
            marks.push(Place(places.natural()?));
        }
    }
    Ok(Looked {
        now: Wall::from_micros(now_ms.saturating_mul(1_000)),
        phase,
        census,
    })
}

fn swept(mut said: Elements) -> Result<Swept, RoomError> {
    Ok(Swept {
        slept: by_tier(&mut said)?,
        aged: said.natural()?,
        is_more: said.natural()? == 1,
    })
}

fn released(mut said: Elements) -> Result<Released, RoomError> {
    Ok(Released {
        count: said.natural()?,
        slept: said.natural()?,
    })
}

fn by_tier(said: &mut Elements) -> Result<[u64; Tier::COUNT], StoreError> {
    Ok([said.natural()?, said.natural()?, said.natural()?])
}

#[cfg(test)]
mod tests;
