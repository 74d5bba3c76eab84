//! What is usually written, as controls: a bucket of floats, and a counter for each window.

use tidegate_core::rate::Tick;

use super::SECOND;
use crate::harness::clockwork::{Clockwork, Script};

/// A bucket in Lua as most people write their first: tokens as a float, the caller's clock, a fixed time to live.
pub(super) struct Bucket {
    script: Script,
    rate: f64,
    burst: f64,
    late: Late,
}

/// What a bucket makes of a clock that is behind the one before.
#[derive(Clone, Copy)]
pub(super) enum Late {
    /// Tokens are taken off for it.
    Trusted,
    /// No tokens come, and the earlier time is written.
    WrittenBack,
}

const BUCKET: &str = "
local rate, burst, time = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local had = redis.call('HMGET', KEYS[1], 'tokens', 'time')
local tokens, last = tonumber(had[1]) or burst, tonumber(had[2]) or time
local elapsed = time - last
if ARGV[4] == 'clamp' then elapsed = math.max(0, elapsed) end
tokens = math.min(burst, tokens + elapsed * rate)
local passes = tokens >= 1
if passes then tokens = tokens - 1 end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'time', time)
redis.call('EXPIRE', KEYS[1], 120)
return passes and 1 or 0
";

impl Bucket {
    /// `rate` tokens a second, `burst` at once.
    pub(super) fn new(
        redis: &mut Clockwork,
        rate: f64,
        burst: f64,
        late: Late,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            script: redis.load(BUCKET)?,
            rate,
            burst,
            late,
        })
    }

    /// Whether a request passes at a node whose clock says `now`.
    pub(super) fn take(&self, redis: &mut Clockwork, key: &str, now: Tick) -> anyhow::Result<bool> {
        let seconds = now.0 as f64 / SECOND as f64;
        let late = match self.late {
            Late::Trusted => "trust",
            Late::WrittenBack => "clamp",
        };
        let numbers = [self.rate, self.burst, seconds].map(|number| number.to_string());
        let [rate, burst, seconds] = numbers;
        let arguments = [rate, burst, seconds, late.to_owned()];
        let ran = redis.run(&self.script, &[key.to_owned()], &arguments, now)?;
        Ok(ran.reply == [1])
    }
}

/// A counter with a key for each window.
pub(super) struct Window {
    script: Script,
    limit: u64,
}

const WINDOW: &str = "
local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[2])
local count = tonumber(redis.call('GET', KEYS[1])) or 0
if count + cost > limit then return { 0, limit - count } end
redis.call('INCRBY', KEYS[1], cost)
redis.call('EXPIRE', KEYS[1], 2)
return { 1, limit - count - cost }
";

impl Window {
    /// `limit` a second.
    pub(super) fn new(redis: &mut Clockwork, limit: u64) -> anyhow::Result<Self> {
        let script = redis.load(WINDOW)?;
        Ok(Self { script, limit })
    }

    /// Whether `cost` passes now, and what is left of this second.
    pub(super) fn take(
        &self,
        redis: &mut Clockwork,
        cost: u64,
        now: Tick,
    ) -> anyhow::Result<(bool, u64)> {
        let key = format!("fixed:{}:{}", self.limit, now.0 / SECOND);
        let arguments = [self.limit, cost].map(|number| number.to_string());
        let ran = redis.run(&self.script, &[key], &arguments, now)?;
        let [passes, left] = ran.reply[..] else {
            anyhow::bail!("the counter said {:?}", ran.reply);
        };
        Ok((passes == 1, u64::try_from(left)?))
    }
}
