//! What a request with limits costs Redis: CPU time, writes, memory.

use std::time::Instant;

use anyhow::Context as _;
use tidegate_core::rate::{Algorithm, Rate, Spec};
use tidegate_core::rng::Rng;
use tidegate_lab::measure;
use tidegate_lab::peers::RedisServer;

use crate::harness::limit_script::{LIMIT, Told, taking};
use crate::harness::{Args, Cores, Figure, Invalid, Verdict};

/// Rounds in which all cases are measured.
const ROUNDS: u32 = 7;
/// Requests of one measurement.
const REQUESTS: u32 = 24_000;
/// Requests under way at the same time.
const PIPELINE: u32 = 16;
/// Different keys.
const KEYS: u64 = 10_000;
/// Keys whose memory is measured.
const KEYS_HELD: u64 = 100_000;
/// A server that is busy for less than this part of a measurement was starved, or not asked.
const CPU_SHARE_MIN: f64 = 0.15;

/// What is usually written: a hash with floats.
const USUAL: &str = "
local rate, burst, time = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local had = redis.call('HMGET', KEYS[1], 'tokens', 'time')
local tokens, last = tonumber(had[1]) or burst, tonumber(had[2]) or time
tokens = math.min(burst, tokens + (time - last) * rate)
local passes = tokens >= 1
if passes then tokens = tokens - 1 end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'time', time)
redis.call('EXPIRE', KEYS[1], 120)
return passes and 1 or 0
";

/// What limitador's library does with Redis for one limit, in words of our own: it looks, and then it counts. (Its own
/// code for Redis is not built without RocksDB.)
const LOOK: &str = "return { redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]) }";
const COUNT: &str = "
local count = redis.call('INCRBY', KEYS[1], ARGV[2])
if count == tonumber(ARGV[2]) then
  redis.call('EXPIRE', KEYS[1], ARGV[1], 'NX')
  redis.call('SADD', KEYS[2], KEYS[1])
end
return count
";

/// What Redis is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Increment,
    Usual,
    /// So many limits of ours that let it pass.
    Limits(u64),
    /// One key, which refuses.
    Refused,
    /// One limit as limitador's library keeps it: two calls.
    Limitador,
}

const CASES: [Case; 8] = [
    Case::Increment,
    Case::Usual,
    Case::Limits(1),
    Case::Limits(2),
    Case::Limits(3),
    Case::Limits(5),
    Case::Refused,
    Case::Limitador,
];

struct Scripts {
    ours: String,
    usual: String,
    look: String,
    count: String,
    roomy: Spec,
    narrow: Spec,
}

/// Measures all of them in turns.
pub(super) fn costs(verdict: &mut Verdict, args: &Args, cores: Cores) -> anyhow::Result<()> {
    let server = RedisServer::plain()?;
    let pid = server.pid().context("the server is up")?;
    measure::pin_process(pid, cores.measured)?;
    measure::pin_thread(cores.others)?;
    let client = redis::Client::open(format!("redis://{}/", server.address()))?;
    let mut raw = client.get_connection()?;
    let scripts = Scripts::load(&mut raw)?;
    // The one token of the key that refuses.
    let () = scripts.commands(Case::Refused, 0)[0].query(&mut raw)?;
    let mut costs = vec![Vec::new(); CASES.len()];
    for round in 0..args.rounds.unwrap_or(ROUNDS) as usize {
        for turn in 0..CASES.len() {
            let at = (round + turn) % CASES.len();
            let begun = sets(&server)?;
            costs[at].push(cost_us(pid, &mut raw, |n| scripts.commands(CASES[at], n))?);
            if CASES[at] == Case::Refused {
                let written = sets(&server)? - begun;
                anyhow::ensure!(written == 0, "refusals have written {written} times");
            }
        }
    }
    let mut medians = Vec::new();
    for costs in &mut costs {
        costs.sort_by(f64::total_cmp);
        medians.push(costs[costs.len() / 2]);
    }
    let of = |case: Case| {
        let at = CASES.iter().position(|known| *known == case);
        medians[at.expect("it is one of them")]
    };
    let one = of(Case::Limits(1));
    verdict.add(
        Figure::us("Redis's CPU time for a request with 1 limit", one)
            .beside("INCR", of(Case::Increment))
            .beside("float bucket in a hash", of(Case::Usual))
            .beside("limitador's two scripts", of(Case::Limitador)),
    );
    for count in [2, 3, 5] {
        let what = format!("with {count} limits");
        let cost = of(Case::Limits(count));
        // What each further one adds is less than a request of its own.
        verdict.add(
            Figure::us(what, cost)
                .beside("as many requests of 1", one * count as f64)
                .below(one * count as f64),
        );
    }
    verdict.add(Figure::us("refused, one hot key, nothing written", of(Case::Refused)).below(one));
    let ours = held(&server, &mut raw, |n| vec![scripts.filling(n)])?;
    let usual = held(&server, &mut raw, |n| vec![scripts.usual(n.into(), n)])?;
    let limitador = held(&server, &mut raw, |n| scripts.limitador(n.into()))?;
    verdict.add(
        Figure::count("bytes a key in Redis", ours)
            .beside("float bucket in a hash", usual)
            .beside("limitador's two scripts", limitador)
            .below(limitador),
    );
    Ok(())
}

impl Scripts {
    fn load(raw: &mut redis::Connection) -> anyhow::Result<Self> {
        let mut load = |script: &str| -> anyhow::Result<String> {
            Ok(redis::cmd("SCRIPT").arg("LOAD").arg(script).query(raw)?)
        };
        Ok(Self {
            ours: load(LIMIT)?,
            usual: load(USUAL)?,
            look: load(LOOK)?,
            count: load(COUNT)?,
            roomy: spec(1_000_000, 60_000_000)?,
            narrow: spec(1, 86_400_000_000)?,
        })
    }

    fn commands(&self, case: Case, number: u32) -> Vec<redis::Cmd> {
        vec![match case {
            Case::Increment => {
                let mut command = redis::cmd("INCR");
                command.arg(key("n", u64::from(number) % KEYS));
                command
            }
            Case::Usual => self.usual(u64::from(number) % KEYS, number),
            Case::Limits(count) => {
                let keys = (0..count).map(|limit| {
                    let first = u64::from(number) * count;
                    key("l", (first + limit) % KEYS)
                });
                self.ours(&self.roomy, keys.collect())
            }
            Case::Refused => self.ours(&self.narrow, vec![key("hot", 0)]),
            Case::Limitador => return self.limitador(u64::from(number) % KEYS),
        }]
    }

    /// What it asks of a user: by a key with all of the limit in it, which is told to a set of the limit's keys.
    fn limitador(&self, number: u64) -> Vec<redis::Cmd> {
        let counter = format!("peers:86400:user:{}", key("p", number));
        let mut look = redis::cmd("EVALSHA");
        look.arg(&self.look).arg(1).arg(&counter);
        let mut count = redis::cmd("EVALSHA");
        count.arg(&self.count).arg(2).arg(counter);
        count.arg("peers:86400:user:counters").arg(86_400).arg(1);
        vec![look, count]
    }

    /// One request of a key that remembers it for long.
    fn filling(&self, number: u32) -> redis::Cmd {
        self.ours(&self.narrow, vec![key("l", u64::from(number))])
    }

    fn ours(&self, spec: &Spec, keys: Vec<String>) -> redis::Cmd {
        let told: Vec<Told<'_>> = keys
            .iter()
            .map(|_| Told {
                spec,
                cost: 1,
                shadow: false,
            })
            .collect();
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.ours).arg(keys.len());
        command.arg(keys).arg(taking("take", &told));
        command
    }

    fn usual(&self, number: u64, call: u32) -> redis::Cmd {
        let mut command = redis::cmd("EVALSHA");
        let seconds = 1_790_000_000.0 + f64::from(call) * 0.000_25;
        command.arg(&self.usual).arg(1);
        command.arg(key("u", number));
        command.arg(16_667.0).arg(1_000_000.0).arg(seconds);
        command
    }
}

fn spec(tokens: u64, period_us: u64) -> anyhow::Result<Spec> {
    let rate = Rate { tokens, period_us };
    Spec::new(Algorithm::Bucket, rate, None).map_err(|error| anyhow::anyhow!("{error}"))
}

/// A key as long as ours are in production: `tg:l:{TAG}:` and 26 letters.
fn key(kind: &str, number: u64) -> String {
    let mut rng = Rng::new(number);
    let letters = (0..26).map(|_| char::from(b'a' + rng.below(26) as u8));
    format!("tg:{kind}:{{aaaa}}:{}", letters.collect::<String>())
}

/// How often something was set so far.
fn sets(server: &RedisServer) -> anyhow::Result<u64> {
    let calls = server.calls()?;
    let sets = calls.iter().find(|(name, _)| name == "set");
    Ok(sets.map_or(0, |(_, calls)| *calls))
}

/// CPU time of the server for each of [`REQUESTS`] requests, in microseconds.
fn cost_us(
    pid: u32,
    raw: &mut redis::Connection,
    commands: impl Fn(u32) -> Vec<redis::Cmd>,
) -> anyhow::Result<f64> {
    let pipelines: Vec<_> = (0..REQUESTS / PIPELINE)
        .map(|at| pipeline(at, &commands))
        .collect();
    let (begun, before) = (Instant::now(), measure::cpu_time(pid)?);
    for pipeline in &pipelines {
        let () = pipeline.query(raw)?;
    }
    let spent = measure::cpu_time(pid)?.saturating_sub(before);
    let share = spent.as_secs_f64() / begun.elapsed().as_secs_f64();
    if share < CPU_SHARE_MIN {
        return Err(Invalid(format!("the server ran for {share:.2} of the time")).into());
    }
    Ok(spent.as_secs_f64() * 1e6 / f64::from(pipelines.len() as u32 * PIPELINE))
}

fn pipeline(at: u32, commands: impl Fn(u32) -> Vec<redis::Cmd>) -> redis::Pipeline {
    let mut pipeline = redis::pipe();
    for command in (0..PIPELINE).flat_map(|number| commands(at * PIPELINE + number)) {
        pipeline.add_command(command).ignore();
    }
    pipeline
}

/// Bytes for each of [`KEYS_HELD`] keys of which each was asked for once.
fn held(
    server: &RedisServer,
    raw: &mut redis::Connection,
    commands: impl Fn(u32) -> Vec<redis::Cmd>,
) -> anyhow::Result<f64> {
    server.ask(&["FLUSHALL"])?;
    let before: f64 = server.info("used_memory")?.parse()?;
    for at in 0..KEYS_HELD as u32 / PIPELINE {
        let () = pipeline(at, &commands).query(raw)?;
    }
    let after: f64 = server.info("used_memory")?.parse()?;
    Ok((after - before) / KEYS_HELD as f64)
}
