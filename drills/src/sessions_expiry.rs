//! Are the ends of sessions told: all of them, once, and soon.
//!
//! Many sessions end while twenty times as many live on, and the process whose janitor sees to it is
//! killed with -9 in the middle. The usual way stands beside it: keys with a time to live, and the server's own
//! notifications when it drops them, which it does when it comes across them.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_core::session::{Format, SessionId, Value};
use tidegate_lab::peers::RedisServer;
use tidegate_store::desk::{Backend, Desk, DeskPlan};
use tidegate_store::redis::{Redis, Use};
use tidegate_store::{Background, Consumer, Event, Reason, SessionStore};

use crate::harness::session_server::{LONG, PATIENT, id, name, plan, runtime};
use crate::harness::{Args, Drill, Figure, Fleet, Invalid, SessionSettings, Verdict, until_valid};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "sessions-expiry",
    promise: "20,000 sessions end among 400,000: each end told once, p99 less than 2 s late",
    takes: Duration::from_secs(110),
    run,
};

const LIVE: u32 = 400_000;
const ENDING: u32 = 20_000;
/// Time over which they end.
const SPREAD: Duration = Duration::from_secs(20);
/// Time between the creation of the last of them and the end of the first.
const LEAD: Duration = Duration::from_secs(4);
/// How long after the last end it is waited for events.
const AFTER: Duration = Duration::from_secs(15);
const SIGN_OUTS: u32 = 50;
const LATE_MS_MAX: f64 = 2_000.0;
/// "At once", for people.
const SIGN_OUT_MS_MAX: f64 = 1_000.0;
/// Parts of the index of ends; a janitor holds each of them while it works on it.
const PARTS: f64 = 64.0;
/// Commands sent in one go while the server is filled.
const PIPELINE: u32 = 1_000;
/// Between two looks of a listener.
const LISTEN: Duration = Duration::from_millis(100);
/// Nobody's, 25 bytes, one attribute, for the first time; the attribute.
const CART: &[&str] = &["", "", "0", "25", "1", "", "a:cart", "s:apple"];
const CREATE: &str = include_str!("../../crates/tidegate-store/src/redis/scripts/create.lua");

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let fleet = Fleet::start()?;
    let runtime = runtime()?;

    let waits = until_valid(args, || runtime.block_on(sign_outs(&fleet)))?;
    verdict.add(
        Figure::ms(
            "a sign-out is told, with its reason, after at most",
            percentile(&waits, 1.0),
        )
        .at_most(SIGN_OUT_MS_MAX),
    );

    let mut raw = redis::Client::open(format!("redis://{}/", fleet.address()))?.get_connection()?;
    fill(&mut raw, LIVE, |_| LONG.idle.as_millis() as u64)?;
    verdict.say(format!("{LIVE} sessions live"));
    let told = ends_told(&fleet, &mut raw, &runtime)?;
    let usual = usual_way(&verdict)?;

    let all = f64::from(ENDING);
    verdict.add(
        Figure::count("ends told, of 20,000", told.late_ms.len() as f64)
            .beside("keyspace notifications", usual.len() as f64)
            .exactly(all),
    );
    verdict
        .add(Figure::count("told again, or of sessions that live", told.wrong as f64).exactly(0.0));
    verdict.add(
        Figure::ms("late, p99", percentile(&told.late_ms, 0.99))
            .beside(
                "those of the notifications that came",
                percentile(&usual, 0.99),
            )
            .below(LATE_MS_MAX),
    );
    verdict.add(
        Figure::ms("late, median", percentile(&told.late_ms, 0.5)).beside(
            "those of the notifications that came",
            percentile(&usual, 0.5),
        ),
    );
    verdict.add(Figure::ms(
        "late, the latest",
        percentile(&told.late_ms, 1.0),
    ));
    Ok(verdict)
}

/// Milliseconds from each sign-out to its event.
async fn sign_outs(fleet: &Fleet) -> anyhow::Result<Vec<f64>> {
    let desk = Desk::start(DeskPlan {
        backend: Backend::Redis(plan(fleet.address())),
        ..DeskPlan::default()
    })?;
    let listener = Consumer {
        group: name("sign-outs"),
        member: name("a"),
    };
    let mut waits = Vec::new();
    for number in 0..SIGN_OUTS {
        let id = id(900_000 + number);
        let cart = Value {
            format: Format::Text,
            bytes: b"apple".to_vec(),
        };
        let begun = Instant::now();
        while let Err(error) = desk
            .create(
                id,
                vec![(name("cart"), cart.clone())],
                Vec::new(),
                PATIENT.timeout,
            )
            .await
        {
            anyhow::ensure!(begun.elapsed() < PATIENT.timeout, "no session: {error}");
            tokio::time::sleep(LISTEN).await;
        }
        let begun = Instant::now();
        desk.destroy(&id, Reason::SignedOut, PATIENT.timeout)
            .await?;
        'heard: loop {
            let events = desk.events(&listener, 100, PATIENT.timeout).await?;
            for event in events {
                desk.acknowledge(&listener.group, &[event.id]).await?;
                if event.ended.session == id {
                    anyhow::ensure!(event.ended.reason == Reason::SignedOut, "{event:?}");
                    break 'heard;
                }
            }
            if begun.elapsed() > PATIENT.timeout {
                let timed_out = desk.stats().timed_out;
                anyhow::ensure!(timed_out > 0, "a sign-out was not told");
                let reason =
                    format!("a store that was well did not answer {timed_out} calls in time");
                return Err(Invalid(reason).into());
            }
        }
        waits.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(waits)
}

/// Creates sessions and puts them into the expiry index; the deadline of each in ms.
fn fill(
    raw: &mut redis::Connection,
    count: u32,
    idle_ms: impl Fn(u32) -> u64,
) -> anyhow::Result<HashMap<SessionId, u64>> {
    let first = if count == LIVE { 0 } else { LIVE };
    let hash = redis::Script::new(CREATE).get_hash().to_owned();
    let () = redis::cmd("SCRIPT").arg("LOAD").arg(CREATE).query(raw)?;
    let mut deadlines = HashMap::new();
    for begin in (first..first + count).step_by(PIPELINE as usize) {
        let ids: Vec<_> = (begin..(begin + PIPELINE).min(first + count))
            .map(id)
            .collect();
        let mut create = redis::pipe();
        for (number, id) in (begin..).zip(&ids) {
            create.cmd("EVALSHA").arg(&hash).arg(2);
            create.arg(format!("tg:s:{{{}}}:{}", id.tag(), id.hash()));
            create.arg(format!("tg:x:{{{}}}:{}", id.tag(), id.hash()));
            create.arg(idle_ms(number)).arg(43_200_000);
            create.arg(CART);
        }
        let created: Vec<(i64, u64, u64, u64, u64)> = create.query(raw)?;
        let mut arm = redis::pipe();
        for (id, (_, _, _, deadline, _)) in ids.iter().zip(&created) {
            let index = format!("tg:z:{{b{:02}}}", tidegate_store::bucket_of(id.tag()));
            arm.cmd("ZADD")
                .arg(index)
                .arg(*deadline)
                .arg(id.to_string())
                .ignore();
            if count == ENDING {
                deadlines.insert(*id, *deadline);
            }
        }
        let () = arm.query(raw)?;
    }
    Ok(deadlines)
}

/// What listeners heard.
struct Told {
    late_ms: Vec<f64>,
    /// Events of sessions that live or whose end was told already.
    wrong: u32,
}

fn ends_told(
    fleet: &Fleet,
    raw: &mut redis::Connection,
    runtime: &tokio::runtime::Runtime,
) -> anyhow::Result<Told> {
    // The first node has every part before the second comes.
    let mut first_node = Some(fleet.node("first", &SessionSettings::default())?);
    let begun = Instant::now();
    while let Some(node) = &first_node
        && node.metrics()?.sum("tidegate_session_index_parts", &[]) < PARTS
    {
        anyhow::ensure!(begun.elapsed() < AFTER, "the janitor does not get to work");
        std::thread::sleep(LISTEN);
    }
    let _second_node = fleet.node("second", &SessionSettings::default())?;
    let thread = Background::start()?;
    let redis = Redis::start(&plan(fleet.address()), Use::Sessions, &thread);
    let store = SessionStore::Redis(redis);

    let first = now_ms() + LEAD.as_millis() as u64;
    let each = SPREAD.as_millis() as u64;
    let ends_at = |number: u32| first + u64::from(number % ENDING) * each / u64::from(ENDING);
    let mut deadlines = fill(raw, ENDING, |number| {
        ends_at(number).saturating_sub(now_ms()).max(1)
    })?;
    let last = first + each;

    let members = ["a", "b"].map(|member| Consumer {
        group: name("listeners"),
        member: name(member),
    });
    let mut told = Told {
        late_ms: Vec::new(),
        wrong: 0,
    };
    while told.late_ms.len() < ENDING as usize && now_ms() < last + AFTER.as_millis() as u64 {
        for event in runtime.block_on(heard(&store, &members))? {
            match deadlines.remove(&event.ended.session) {
                Some(deadline) => told.late_ms.push(now_ms().saturating_sub(deadline) as f64),
                // Those of the sign-outs before.
                None if event.ended.reason == Reason::SignedOut => {}
                None => told.wrong += 1,
            }
        }
        if now_ms() > first + each / 2
            && let Some(node) = first_node.take()
        {
            // The process whose janitor does all the work dies in the middle of it.
            node.kill()?;
        }
        std::thread::sleep(LISTEN);
    }
    Ok(told)
}

/// What there is for these listeners, acknowledged.
async fn heard(store: &SessionStore, members: &[Consumer]) -> anyhow::Result<Vec<Event>> {
    let mut heard = Vec::new();
    for member in members {
        let events = store
            .events(member, 8_192, Duration::from_secs(60), PATIENT)
            .await?;
        let ids: Vec<_> = events.iter().map(|event| event.id).collect();
        store.acknowledge(&member.group, &ids, PATIENT).await?;
        heard.extend(events);
    }
    Ok(heard)
}

/// How late the notifications were that came within the same time, in ms.
fn usual_way(verdict: &Verdict) -> anyhow::Result<Vec<f64>> {
    let server = RedisServer::plain()?;
    let client = redis::Client::open(format!("redis://{}/", server.address()))?;
    let mut raw = client.get_connection()?;
    for begin in (0..LIVE).step_by(PIPELINE as usize) {
        let mut live = redis::pipe();
        for number in begin..begin + PIPELINE {
            let key = format!("sess:{number}");
            live.cmd("SET")
                .arg(key)
                .arg("cart=apple")
                .arg("EX")
                .arg(1_800)
                .ignore();
        }
        let () = live.query(&mut raw)?;
    }
    let () = redis::cmd("CONFIG")
        .arg("SET")
        .arg("notify-keyspace-events")
        .arg("Ex")
        .query(&mut raw)?;
    let first = now_ms() + LEAD.as_millis() as u64;
    let each = SPREAD.as_millis() as u64;
    let ends_at = |number: u32| first + u64::from(number) * each / u64::from(ENDING);
    for begin in (0..ENDING).step_by(PIPELINE as usize) {
        let mut ending = redis::pipe();
        for number in begin..begin + PIPELINE {
            let key = format!("ends:{number}");
            ending
                .cmd("SET")
                .arg(key)
                .arg("cart=apple")
                .arg("PXAT")
                .arg(ends_at(number))
                .ignore();
        }
        let () = ending.query(&mut raw)?;
    }
    verdict.say("the same with keyspace notifications");

    let mut connection = client.get_connection()?;
    let mut listener = connection.as_pubsub();
    listener.subscribe("__keyevent@0__:expired")?;
    listener.set_read_timeout(Some(LISTEN))?;
    let until = first + each + AFTER.as_millis() as u64;
    let mut late_ms = Vec::new();
    while now_ms() < until && late_ms.len() < ENDING as usize {
        // Nothing within the read timeout is an error too.
        let Ok(message) = listener.get_message() else {
            continue;
        };
        let key: String = message.get_payload()?;
        if let Some(number) = key
            .strip_prefix("ends:")
            .and_then(|number| number.parse().ok())
        {
            late_ms.push(now_ms().saturating_sub(ends_at(number)) as f64);
        }
    }
    Ok(late_ms)
}

/// The clock that the servers on this machine have as well.
fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    since.as_millis() as u64
}

/// The figure that a part `share` of them does not exceed; not a number for none.
fn percentile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted
        .get(at.saturating_sub(1))
        .copied()
        .unwrap_or(f64::NAN)
}
