//! The scripts on a real server, at times of the test's choice, beside what the core says that a store does.

use std::collections::BTreeMap;

use tidegate_core::rate::Tick;
use tidegate_core::rate::share::aggregate::{AggregatePlan, Tally};
use tidegate_core::rate::share::following::Roll;
use tidegate_core::rate::share::lease::Lessor;
use tidegate_core::rng::Rng;
use tidegate_lab::peers::{RedisServer, Reply, Wire};

use super::*;

/// Where a script looks at the clock.
const CLOCK: &str = "local t = redis.call('TIME')\nlocal now = t[1] * 1000000 + t[2]\n";
const START: u64 = 1_790_000_000_000_000;
fn tag() -> SlotTag {
    SlotTag::from_bits(7)
}

/// A server that runs a script at a time that it is told. Nothing of what it keeps goes by itself.
struct Executor {
    wire: Wire,
    script: String,
    _server: RedisServer,
}

impl Executor {
    fn start(body: &str) -> Self {
        let server = RedisServer::plain().unwrap();
        let mut wire = server.wire().unwrap();
        assert_eq!(body.matches(CLOCK).count(), 1);
        let script = format!(
            "local function run(now)\n{}\nend
            local reply = run(tonumber(ARGV[#ARGV]))
            for i = 1, #KEYS do redis.call('PERSIST', KEYS[i]) end
            return reply",
            body.replace(CLOCK, "")
        );
        let loaded = wire.ask(&["SCRIPT", "LOAD", &script]).unwrap();
        Self {
            script: loaded.granted().unwrap().text().to_owned(),
            wire,
            _server: server,
        }
    }

    fn run(&mut self, run: Run, now: u64) -> Elements {
        let run = run.number(now);
        let count = run.keys.len().to_string();
        let mut command = vec!["EVALSHA", &self.script, &count];
        let parts = run.keys.iter().chain(&run.args);
        command.extend(parts.map(|part| std::str::from_utf8(part).unwrap()));
        let said = self.wire.ask(&command).unwrap().granted().unwrap();
        let value = |reply: &Reply| match reply {
            Reply::Int(int) => Value::Int(*int),
            reply => Value::BulkString(reply.text().into()),
        };
        let values = said.parts().iter().map(value).collect();
        Elements::of("test", Value::Array(values)).unwrap()
    }
}

fn share(op: &str, key: u128, spec: &BucketSpec, arguments: [u64; 7]) -> Run {
    let run = with_bucket(Run::of(&SHARE).arg(op), tag(), key, spec);
    arguments.into_iter().fold(run, Run::number)
}

fn specs(rng: &mut Rng) -> BucketSpec {
    let [tokens, period_us, burst] = [
        1 + rng.below(300),
        1 + rng.below(3_000_000),
        1 + rng.below(200),
    ];
    BucketSpec::new(tokens, period_us, burst).unwrap()
}

#[test]
fn the_script_leases_as_the_core_does() {
    let mut executor = Executor::start(include_str!("../../../redis/scripts/share.lua"));
    let mut rng = Rng::new(5);
    for case in 0..200 {
        let whole = specs(&mut rng);
        let plan = LeasePlan::usual(whole.burst());
        let mut now = START;
        let mut lessor = Lessor::new(whole, plan, Tick(now));
        let mut seqs = BTreeMap::<u64, u64>::new();
        for step in 0..60 {
            now += rng.below(2 * plan.horizon_us) * rng.below(12).saturating_sub(8);
            let life = rng.below(6);
            // The next number mostly, the same again, or one that was overtaken.
            let seq = seqs.entry(life).or_default();
            *seq += u64::from(rng.below(4) > 0);
            let seq = seq.saturating_sub(u64::from(rng.below(10) == 0)).max(1);
            let wanted = rng.below(30).saturating_sub(5).min(whole.burst());
            let ask = Ask {
                life: Life(life),
                seq,
                wanted,
                least: (1 + rng.below(5)).min(wanted),
                returned: rng.below(20).saturating_sub(10),
            };

            let expected = lessor.ask(Tick(now), &ask);

            let kept_us = 2 * plan.ttl_us;
            let said = [ask.wanted, ask.least, ask.returned, plan.horizon_us];
            let [wanted, least, returned, horizon_us] = said;
            let arguments = [life, seq, kept_us, wanted, least, returned, horizon_us];
            let mut said = executor.run(share("lease", case, &whole, arguments), now);
            let (tokens, again) = pair(&mut said).unwrap();
            let expected = expected.map_or((-1, 0), |grant| {
                (grant.tokens as i64, grant.again_us as i64)
            });
            assert_eq!((tokens, again), expected, "{whole:?} {step}: {ask:?}");
        }
    }
}

#[test]
fn the_script_tallies_as_the_core_does() {
    let mut executor = Executor::start(include_str!("../../../redis/scripts/share.lua"));
    let mut rng = Rng::new(6);
    for case in 0..200 {
        let whole = specs(&mut rng);
        let plan = AggregatePlan::usual(whole.burst());
        let mut now = START;
        let mut tally = Tally::new(whole, &plan, Tick(now));
        let mut seqs = BTreeMap::<u64, u64>::new();
        for step in 0..60 {
            now += rng.below(300_000) * rng.below(3);
            let life = rng.below(6);
            let seq = seqs.entry(life).or_default();
            *seq += u64::from(rng.below(4) > 0);
            let seq = seq.saturating_sub(u64::from(rng.below(10) == 0)).max(1);
            let report = Report {
                life: Life(life),
                seq,
                spent: rng.below(40),
                returned: rng.below(20).saturating_sub(10),
            };

            let expected = tally.report(Tick(now), &report);

            let arguments = [life, seq, plan.kept_us, report.spent, report.returned, 0, 0];
            let mut said = executor.run(share("report", case, &whole, arguments), now);
            let (credits, _) = pair(&mut said).unwrap();
            assert_eq!(credits, expected.credits, "{whole:?} {step}: {report:?}");
        }
    }
}

#[test]
fn the_script_keeps_the_roll_as_the_core_does() {
    const LEASE_US: u64 = 3_000_000;
    let mut executor = Executor::start(include_str!("../../../redis/scripts/divide.lua"));
    let mut rng = Rng::new(7);
    let mut now = START;
    // Both begin when they are first spoken to.
    let mut roll = None;
    let mut followed = BTreeMap::<u64, Epoch>::new();
    for step in 0..2_000 {
        now += 1 + rng.below(500_000);
        // As large as lives are drawn.
        let life = u64::MAX - rng.below(8);
        let leaves = rng.below(20) == 0;
        let follows = followed.get(&life).copied().unwrap_or_default();
        let lease_us = if leaves { 0 } else { LEASE_US };
        let roll = roll.get_or_insert_with(|| Roll::new(Tick(now)));
        if leaves {
            roll.leave(Tick(now), Life(life));
        } else {
            assert!(roll.renew(Tick(now), Life(life), follows, LEASE_US));
        }
        let expected = roll.membership(Tick(now));

        let run = Run::of(&DIVIDE)
            .key(DIVIDERS)
            .number(life)
            .number(follows.0);
        let secret = [step as u8; 16];
        let run = run.number(lease_us).number(MEMBERS_MAX).arg(hex(secret));
        let said = executor.run(run, now);
        let mut said = dividing(Value::Array(said.into_rest())).unwrap();

        // The first one's counts for all.
        assert_eq!(said.secret, [0; 16]);
        said.membership.members.sort_by_key(|member| member.life);
        let ours: Vec<_> = said
            .membership
            .members
            .iter()
            .map(|it| (it.life, it.follows, it.left_us))
            .collect();
        let cores: Vec<_> = expected
            .members
            .iter()
            .map(|it| (it.life, it.follows, it.left_us))
            .collect();
        assert_eq!(ours, cores, "{step}");
        assert_eq!(said.membership.age_us, expected.age_us);
        // Epochs are counted in another way and grow alike: by whom a member was known.
        for (ours, cores) in said.membership.members.iter().zip(&expected.members) {
            assert!(ours.since <= said.membership.epoch);
            assert_eq!(
                ours.since == said.membership.epoch,
                cores.since == expected.epoch,
                "{step}"
            );
        }
        followed.insert(life, expected.epoch);
    }
}

#[test]
fn a_secret_reads_back() {
    let secret = *b"\0sixteen bytes!!";

    assert_eq!(unhex(&hex(secret)), Some(secret));
    assert_eq!(unhex("abc"), None);
    assert_eq!(unhex(&"g".repeat(32)), None);
}
