//! Permits in Redis or Valkey, for a fleet.

use redis::Value;
use tidegate_core::rate::permits::{Answer, Asking, HELD_MAX, Keep, PermitId, Renewal, Terms};
use tidegate_core::session::Name;

use crate::Call;
use crate::error::StoreError;
use crate::redis::{Elements, Lane, PERMITS, Redis, Run, permit_ends, permits};

/// There is no room.
const FULL: i64 = -1;
/// There is never so much.
const NEVER: i64 = -2;
/// It is not known yet who is in.
const SETTLING: i64 = -3;

/// Permits that a fleet shares. Leases go by the server's clock. A clone is the same.
///
/// Nothing is done twice: of a call without an answer nobody knows whether it has happened.
#[derive(Clone)]
pub struct RedisPermits {
    redis: Redis,
}

impl RedisPermits {
    /// Permits in `redis`, which was started for [`Use::Limits`](crate::redis::Use::Limits).
    pub const fn new(redis: Redis) -> Self {
        Self { redis }
    }

    pub(super) async fn acquire(
        &self,
        thing: &Name,
        terms: &Terms,
        asking: &Asking,
        call: Call,
    ) -> Result<Answer, StoreError> {
        let run = acquiring(thing, terms, asking);
        let reply = self.redis.servers().run(&run, Lane::Fast, call).await?;
        acquired(reply)
    }

    pub(super) async fn renew(
        &self,
        thing: &Name,
        terms: &Terms,
        renewals: &[Renewal],
        call: Call,
    ) -> Result<Vec<Answer>, StoreError> {
        let run = renewing(thing, terms, renewals);
        let reply = self.redis.servers().run(&run, Lane::Fast, call).await?;
        renewed(reply, renewals.len())
    }

    pub(super) async fn release(
        &self,
        thing: &Name,
        terms: &Terms,
        ids: &[PermitId],
        call: Call,
    ) -> Result<(), StoreError> {
        let run = releasing(thing, terms, ids);
        let reply = self.redis.servers().run(&run, Lane::Fast, call).await;
        reply.map(drop)
    }
}

fn acquiring(thing: &Name, terms: &Terms, asking: &Asking) -> Run {
    of(thing, "acquire", terms)
        .arg(name(asking.id))
        .number(asking.weight)
        .number(asking.class.index())
}

fn renewing(thing: &Name, terms: &Terms, renewals: &[Renewal]) -> Run {
    let one = |run: Run, it: &Renewal| {
        run.arg(name(it.id))
            .number(it.weight)
            .number(it.class.index())
            .number(it.fence)
            .number(u8::from(it.is_known))
    };
    renewals.iter().fold(of(thing, "renew", terms), one)
}

fn releasing(thing: &Name, terms: &Terms, ids: &[PermitId]) -> Run {
    let one = |run: Run, id: &PermitId| run.arg(name(*id));
    ids.iter().fold(of(thing, "release", terms), one)
}

fn of(thing: &Name, op: &str, terms: &Terms) -> Run {
    let run = Run::of(&PERMITS)
        .key(permits(thing))
        .key(permit_ends(thing))
        .arg(op)
        .number(terms.all)
        .number(HELD_MAX)
        .number(terms.lease_us);
    let keep = |run: Run, keep: &Keep| run.number(keep.reserve).number(keep.idle);
    terms.keeps.iter().fold(run, keep)
}

fn name(id: PermitId) -> String {
    format!("{:016x}.{}", id.life.0, id.number)
}

fn acquired(reply: Value) -> Result<Answer, StoreError> {
    let mut elements = Elements::of("permits", reply)?;
    let (said, more) = (elements.integer()?, elements.natural()?);
    match said {
        FULL => Ok(Answer::Full { free: more }),
        NEVER => Ok(Answer::Never),
        SETTLING => Ok(Answer::Settling { left_us: more }),
        fence => match u64::try_from(fence) {
            Ok(fence) => Ok(Answer::Held { fence }),
            Err(_) => Err(elements.odd()),
        },
    }
}

fn renewed(reply: Value, count: usize) -> Result<Vec<Answer>, StoreError> {
    let mut elements = Elements::of("permits", reply)?;
    let one = |_| {
        Ok(match elements.natural()? {
            0 => Answer::Gone,
            fence => Answer::Held { fence },
        })
    };
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests;
