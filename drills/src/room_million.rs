//! A million people wait, at a gateway with Redis and at one that keeps the line itself: what each takes in memory, how many can
//! join through HTTP, what it costs that somebody asks where they stand, and how exactly 100,000 a minute are called.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tidegate_lab::measure;
use tidegate_lab::peers::RedisServer;

use crate::harness::{
    Args, Cores, Drill, Figure, Gateway, ShopProcess, ShopSetup, Verdict, runtime, wait_for,
};
use crate::room::{Ground, Heard, Line, Many, ROOM, RoomSettings, set_phase};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-million",
    promise: "a million wait: ≤ 300 bytes each, ≥ 10,000 joins/s through HTTP, a poll costs what it does at 10,000, and 100,000/min are called",
    takes: Duration::from_secs(700),
    run,
};

/// Without `--rounds`, which says how many ten thousands.
const WAITING: u64 = 1_000_000;
const FEW: u64 = 10_000;
const BYTES_MAX: f64 = 300.0;
const JOINS_MIN: f64 = 10_000.0;
/// For how long people join as fast as they are taken.
const JOINING: Duration = Duration::from_secs(10);
/// How often everybody of the few asks, and the document is asked for, when that is measured.
const ASKS: u64 = 3;
/// What a poll may cost more: at a gateway nothing but noise, in Redis a set of a hundred times as many is some levels deeper.
const POLL_RATIO_MAX: f64 = 1.3;
const STORE_RATIO_MAX: f64 = 2.0;
/// People that are called in a minute.
const RATE: f64 = 100_000.0;
const RATE_OFF_MAX: f64 = 0.01;
const SECONDS: u64 = 60;
/// From the order on until the speed is even.
const WARM_UP: Duration = Duration::from_secs(3);
const CONNECTIONS: usize = 64;
/// Those who join and those who are heard of, by turns, when a gateway is filled through HTTP.
const CHUNK: u64 = 50_000;
/// Longest time for one part of it.
const LONG: Duration = Duration::from_secs(1_200);
/// The cookie with a place.
const TICKET: &str = "tgq-";

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let waiting = args.rounds.map_or(WAITING, |many| u64::from(many) * 10_000);
    anyhow::ensure!(waiting > FEW, "{waiting} people are no more than {FEW}");
    let shop = ShopProcess::open(&ShopSetup::new(10, 2))?;
    let mut settings = RoomSettings::phase("queue-all")
        .rate("100000/min")
        .with("claim_within = \"10m\"\npolls_per_second = 100000\nwaiting_max = 5000000");
    settings.threads = args.threads;
    in_redis(&mut verdict, args, &settings, shop.address(), waiting)?;
    in_a_process(&mut verdict, args, &settings, shop.address(), waiting)?;
    Ok(verdict)
}

fn in_redis(
    verdict: &mut Verdict,
    args: &Args,
    settings: &RoomSettings,
    upstream: SocketAddr,
    waiting: u64,
) -> anyhow::Result<()> {
    let mut ground = Ground::shared()?;
    let gateway = ground.gateway("gw1", upstream, settings)?;
    set_phase(&gateway, Some("hold"))?;
    let store = ground.redis()?.pid().context("the store is up")?;
    let before: f64 = ground.redis()?.info("used_memory")?.parse()?;
    let people = joins(verdict, &gateway)?;
    let people = Arc::new(people);
    hear(&gateway, &people)?;
    until_waiting(&gateway, FEW)?;
    let few = polls(&gateway, Some(store), &people)?;

    let runtime = runtime()?;
    let line = runtime.block_on(Line::open(ground.address()?))?;
    runtime.block_on(line.join(waiting - FEW))?;
    until_waiting(&gateway, waiting)?;
    let after: f64 = ground.redis()?.info("used_memory")?.parse()?;
    let each = (after - before) / waiting as f64;
    verdict.add(Figure::count("bytes for each who waits, in Redis", each).at_most(BYTES_MAX));
    let many = polls(&gateway, Some(store), &people)?;
    compare(verdict, "with Redis", &few, &many);

    ground.redis()?.ask(&["CONFIG", "RESETSTAT"])?;
    let mut looks = ground.store()?;
    calls(verdict, args, &gateway, "with Redis", || {
        Ok(Ground::called(&mut looks)? as f64)
    })?;
    if let Some(p99_us) = scripts_p99_us(ground.redis()?)? {
        verdict.add(Figure::us(
            "Redis: p99 of a script meanwhile, ticks among them",
            p99_us,
        ));
    }
    Ok(())
}

fn in_a_process(
    verdict: &mut Verdict,
    args: &Args,
    settings: &RoomSettings,
    upstream: SocketAddr,
    waiting: u64,
) -> anyhow::Result<()> {
    let ground = Ground::alone()?;
    let gateway = ground.gateway("gw1", upstream, settings)?;
    set_phase(&gateway, Some("hold"))?;
    let people = Arc::new(fill(&gateway, FEW)?);
    until_waiting(&gateway, FEW)?;
    let few = polls(&gateway, None, &people)?;
    let before = measure::sample(gateway.id())?.rss_bytes;
    let mut there = FEW;
    while there < waiting {
        let more = CHUNK.min(waiting - there);
        drop(fill(&gateway, more)?);
        there += more;
    }
    until_waiting(&gateway, waiting)?;
    let after = measure::sample(gateway.id())?.rss_bytes;
    let each = after.saturating_sub(before) as f64 / (waiting - FEW) as f64;
    verdict.add(Figure::count("bytes for each who waits, in a process", each).at_most(BYTES_MAX));
    let many = polls(&gateway, None, &people)?;
    compare(verdict, "in a process", &few, &many);
    calls(verdict, args, &gateway, "in a process", || {
        let called = [("room", ROOM)];
        Ok(gateway
            .metrics()?
            .sum("tidegate_room_called_total", &called))
    })
}

/// As many join as are taken in the time; [`FEW`] of their cookies.
fn joins(verdict: &mut Verdict, gateway: &Gateway) -> anyhow::Result<Vec<String>> {
    let mut heard = post_joins(gateway, u64::MAX, JOINING)?;
    anyhow::ensure!(heard.other == 0, "{} did not get a place", heard.other);
    let per_second = heard.good as f64 / heard.took.as_secs_f64();
    verdict.add(Figure::per_second("joins through HTTP", per_second).at_least(JOINS_MIN));
    anyhow::ensure!(
        heard.cookies.len() as u64 >= FEW,
        "there are {} places",
        heard.cookies.len()
    );
    heard.cookies.truncate(FEW as usize);
    Ok(heard.cookies)
}

fn post_joins(gateway: &Gateway, count: u64, length: Duration) -> anyhow::Result<Heard> {
    let request = format!(
        "POST /.tidegate/v1/join/{ROOM} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\nSec-Fetch-Mode: cors\r\n\
         Sec-Fetch-Site: same-origin\r\nContent-Length: 0\r\n\r\n",
        gateway.address()
    );
    many(gateway, count, length).play(move |_| request.clone().into_bytes(), TICKET)
}

/// So many join, and come back with the place: only then they count.
fn fill(gateway: &Gateway, count: u64) -> anyhow::Result<Vec<String>> {
    let heard = post_joins(gateway, count, LONG)?;
    anyhow::ensure!(
        heard.cookies.len() as u64 == count,
        "{} of {count} got a place",
        heard.cookies.len()
    );
    let people = Arc::new(heard.cookies);
    hear(gateway, &people)?;
    Ok(Arc::unwrap_or_clone(people))
}

/// Everybody asks for their own document once.
fn hear(gateway: &Gateway, people: &Arc<Vec<String>>) -> anyhow::Result<()> {
    let heard = ask_for_me(gateway, people, people.len() as u64)?;
    anyhow::ensure!(
        heard.other == 0,
        "{} of {} were not heard",
        heard.other,
        people.len()
    );
    Ok(())
}

fn ask_for_me(gateway: &Gateway, people: &Arc<Vec<String>>, count: u64) -> anyhow::Result<Heard> {
    let (people, target) = (Arc::clone(people), gateway.address());
    let make = move |number: u64| {
        let cookie = &people[number as usize % people.len()];
        let request = format!(
            "GET /.tidegate/v1/me/{ROOM}?vis=1 HTTP/1.1\r\nHost: {target}\r\nAccept: application/json\r\n\
             Sec-Fetch-Mode: cors\r\nSec-Fetch-Site: same-origin\r\nCookie: {cookie}\r\n\r\n"
        );
        request.into_bytes()
    };
    many(gateway, count, LONG).play(make, TICKET)
}

fn many(gateway: &Gateway, count: u64, length: Duration) -> Many {
    // Where there are only two cores, what is measured has one of them.
    let core = Cores::pick().ok().map(|cores| cores.others);
    Many {
        target: gateway.address(),
        connections: CONNECTIONS,
        count,
        length,
        core,
    }
}

/// What polls cost, in microseconds of CPU time each.
#[derive(Clone, Copy, Debug)]
struct Polls {
    own: f64,
    document: f64,
    store: Option<f64>,
}

/// Everybody of the few asks some times for their own document, and as often for the room's.
fn polls(
    gateway: &Gateway,
    store: Option<u32>,
    people: &Arc<Vec<String>>,
) -> anyhow::Result<Polls> {
    let count = ASKS * people.len() as u64;
    let each = |spent: Duration| spent.as_secs_f64() * 1e6 / count as f64;
    let of_store = || store.map(measure::cpu_time).transpose();
    let (begun, store_begun) = (measure::cpu_time(gateway.id())?, of_store()?);
    let heard = ask_for_me(gateway, people, count)?;
    anyhow::ensure!(
        heard.other == 0,
        "{} of {count} were not answered",
        heard.other
    );
    let own = measure::cpu_time(gateway.id())?.saturating_sub(begun);
    let spent = of_store()?
        .zip(store_begun)
        .map(|(now, begun)| now.saturating_sub(begun));

    let request = format!(
        "GET /.tidegate/v1/room/{ROOM}.json HTTP/1.1\r\nHost: {}\r\n\r\n",
        gateway.address()
    );
    let begun = measure::cpu_time(gateway.id())?;
    let heard = many(gateway, count, LONG).play(move |_| request.clone().into_bytes(), TICKET)?;
    anyhow::ensure!(heard.other == 0, "{} of {count} documents", heard.other);
    let document = measure::cpu_time(gateway.id())?.saturating_sub(begun);
    Ok(Polls {
        own: each(own),
        document: each(document),
        store: spent.map(each),
    })
}

fn compare(verdict: &mut Verdict, whence: &str, few: &Polls, many: &Polls) {
    for (what, few, many) in [
        ("one's own document", few.own, many.own),
        ("the room's", few.document, many.document),
    ] {
        let what = format!("{whence}: {what}, gateway's CPU time at all, of that at 10,000");
        verdict.add(
            Figure::ratio(what, many / few)
                .at_most(POLL_RATIO_MAX)
                .beside("µs", many),
        );
    }
    if let Some((few, many)) = few.store.zip(many.store) {
        let what = format!("{whence}: one's own document, Redis's CPU time, the same");
        verdict.add(
            Figure::ratio(what, many / few)
                .at_most(STORE_RATIO_MAX)
                .beside("µs", many),
        );
    }
}

/// Lets the line move, and holds how many are `called` against the rate.
fn calls(
    verdict: &mut Verdict,
    args: &Args,
    gateway: &Gateway,
    whence: &str,
    mut called: impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<()> {
    set_phase(gateway, None)?;
    let first = called()?;
    wait_for("people are called", || Ok(called()? > first))?;
    std::thread::sleep(WARM_UP);
    let length = args.length(SECONDS);
    let (begun, before) = (Instant::now(), called()?);
    std::thread::sleep(length);
    let (after, took) = (called()?, begun.elapsed());
    let per_minute = (after - before) * 60.0 / took.as_secs_f64();
    verdict.add(
        Figure::ratio(
            format!("{whence}: called in a minute, of 100,000"),
            per_minute / RATE,
        )
        .between(1.0 - RATE_OFF_MAX, 1.0 + RATE_OFF_MAX)
        .beside("people", per_minute),
    );
    set_phase(gateway, Some("hold"))
}

/// Waits until the gateway says that so many wait, or nearly: whoever was silent for too long is not counted.
fn until_waiting(gateway: &Gateway, count: u64) -> anyhow::Result<()> {
    wait_for(&format!("{count} wait"), || {
        let waiting = gateway
            .metrics()?
            .sum("tidegate_room_waiting", &[("room", ROOM)]);
        Ok(waiting >= count as f64 * 0.999)
    })
}

/// How long a script takes in Redis, by what the server keeps itself; `None` where it keeps nothing.
fn scripts_p99_us(server: &RedisServer) -> anyhow::Result<Option<f64>> {
    let told = server.info("latency_percentiles_usec_evalsha")?;
    let p99 = told.split(',').find_map(|part| part.strip_prefix("p99="));
    Ok(p99.and_then(|p99| p99.parse().ok()))
}
