//! What it costs to tell somebody that they have to wait, and that those inside do not feel it.
//!
//! The gateway keeps the line itself, so that all of it is in its own CPU time: the place, the two cookies, the page in the
//! visitor's language.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_lab::measure;

use crate::harness::{
    Args, Cores, Drill, Drive, Figure, Gateway, ShopProcess, ShopSetup, Verdict, runtime,
};
use crate::room::{Front, Ground, Guest, Page, Pool, RoomSettings, Waited};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-page-cost",
    promise: "a page that says wait costs ≤ 2 % of the CPU of a page of 2 ms, and 20 times the arrivals cost the app nothing",
    takes: Duration::from_secs(90),
    run,
};

/// What is served, and the part of its CPU time that a page of the room may cost.
const BURN: &str = "/burn?us=2000";
const SHARE_MAX: f64 = 0.02;
/// Rounds, by turns; the median counts.
const ROUNDS: u32 = 5;
const SECONDS: u64 = 5;
const CONNECTIONS: u32 = 8;
/// Requests of those inside, a second, and how many times as many come to the door.
const INSIDE: f64 = 50.0;
const ARRIVALS: f64 = 20.0;
/// What the application's CPU time may differ by.
const DIFFERS_MAX: f64 = 0.05;
/// Longest wait for one's turn.
const PATIENCE: Duration = Duration::from_secs(60);
/// One pass stands for all who are inside.
const BUDGET: &str = "pass_per_second = 1000\npass_burst = 1000\npass_in_flight = 1000\n";

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let cores = Cores::pick()?;
    let length = args.length(SECONDS);
    measure::pin_thread(cores.others)?;
    let ground = Ground::alone()?;
    let mut setup = ShopSetup::new(4, 0);
    setup.core = Some(cores.others);
    let shop = ShopProcess::open(&setup)?;
    let mut settings = RoomSettings::phase("queue-all").rate("1/s").with(BUDGET);
    settings.core = Some(cores.measured);
    let gateway = ground.gateway("gw1", shop.address(), &settings)?;
    let inside = cookies_of_somebody_inside(&gateway)?;

    let (mut pages, mut served) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds.unwrap_or(ROUNDS) {
        pages.push(page_us(gateway.address(), gateway.id(), cores, length)?);
        served.push(served_us(&shop, cores, length)?);
    }
    let (page, served) = (median(&mut pages), median(&mut served));
    verdict.add(
        Figure::us("gateway's CPU time for a page that says wait", page)
            .beside("application's for a page of 2 ms", served),
    );
    verdict.add(Figure::share("the one, as a part of the other", page / served).at_most(SHARE_MAX));
    let length = length.max(Duration::from_secs(10));
    flood(&mut verdict, &shop, &gateway, &inside, length)?;
    Ok(verdict)
}

/// Waits until somebody is let in; the cookies that they have then.
fn cookies_of_somebody_inside(gateway: &Gateway) -> anyhow::Result<String> {
    let front = Front::of(vec![Pool::to(gateway.address())]);
    runtime()?.block_on(async {
        tokio::spawn(Arc::clone(&front).follow());
        let mut guest = Guest::new(1);
        guest.go(&front, "/browse/shoes").await;
        anyhow::ensure!(
            guest.wait(&front, PATIENCE).await == Waited::LetIn,
            "nobody is let in"
        );
        let page = guest.go(&front, "/browse/shoes").await;
        anyhow::ensure!(matches!(page, Page::Shown), "they are not inside: {page}");
        guest.jar.field().context("somebody inside has cookies")
    })
}

/// A request for `path` as a browser makes it, with these cookies.
fn visit(target: SocketAddr, path: &str, cookies: Option<&str>) -> Vec<u8> {
    let cookies = cookies.map_or_else(String::new, |it| format!("Cookie: {it}\r\n"));
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {target}\r\nAccept: text/html,*/*;q=0.8\r\nAccept-Encoding: gzip\r\n\
         Accept-Language: en\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\n{cookies}\r\n"
    );
    request.into_bytes()
}

/// CPU time of the gateway, process `id`, for each page, in microseconds.
fn page_us(target: SocketAddr, id: u32, cores: Cores, length: Duration) -> anyhow::Result<f64> {
    let drive = Drive {
        target,
        request: visit(target, "/browse/shoes", None),
        connections: CONNECTIONS,
        rate: None,
        length,
        core: Some(cores.others),
    };
    let begun = measure::cpu_time(id)?;
    let driven = drive.play()?;
    let spent = measure::cpu_time(id)?.saturating_sub(begun);
    anyhow::ensure!(
        driven.good == 0 && driven.refused > 0,
        "not everybody waits: {driven:?}"
    );
    Ok(spent.as_secs_f64() * 1e6 / driven.refused as f64)
}

/// CPU time of the application for each page that it serves, in microseconds.
fn served_us(shop: &ShopProcess, cores: Cores, length: Duration) -> anyhow::Result<f64> {
    let drive = Drive {
        target: shop.address(),
        request: visit(shop.address(), BURN, None),
        connections: CONNECTIONS,
        rate: Some(INSIDE),
        length,
        core: Some(cores.others),
    };
    let begun = measure::cpu_time(shop.id())?;
    let driven = drive.play()?;
    let spent = measure::cpu_time(shop.id())?.saturating_sub(begun);
    anyhow::ensure!(driven.good > 0, "nothing was served: {driven:?}");
    Ok(spent.as_secs_f64() * 1e6 / driven.good as f64)
}

/// Those inside go on, alone and while twenty times as many come to the door.
fn flood(
    verdict: &mut Verdict,
    shop: &ShopProcess,
    gateway: &Gateway,
    inside: &str,
    length: Duration,
) -> anyhow::Result<()> {
    let target = gateway.address();
    let goes_on = Drive {
        target,
        request: visit(target, BURN, Some(inside)),
        connections: CONNECTIONS,
        rate: Some(INSIDE),
        length,
        core: None,
    };
    let comes = Drive {
        request: visit(target, "/browse/shoes", None),
        rate: Some(INSIDE * ARRIVALS),
        ..goes_on.clone()
    };
    let spend = |arrivals: Option<&Drive>| -> anyhow::Result<(f64, u64, u64)> {
        let begun = measure::cpu_time(shop.id())?;
        let (served, waits) = thread::scope(|scope| {
            let arrivals = arrivals.map(|drive| scope.spawn(move || drive.play()));
            let served = goes_on.play();
            let waits = arrivals.map(|thread| match thread.join() {
                Ok(driven) => driven,
                Err(_) => anyhow::bail!("who comes to the door panicked"),
            });
            (served, waits.transpose())
        });
        let spent = measure::cpu_time(shop.id())?.saturating_sub(begun);
        let waits = waits?.map_or(0, |driven| driven.refused);
        Ok((spent.as_secs_f64(), served?.good, waits))
    };
    let (alone, before, _) = spend(None)?;
    let (flooded, after, waits) = spend(Some(&comes))?;
    let arrivals = waits as f64 / length.as_secs_f64();
    verdict.add(
        Figure::per_second("arrivals that were told to wait", arrivals)
            .at_least(INSIDE * ARRIVALS * 0.9),
    );
    verdict.add(
        Figure::ratio(
            "application's CPU time meanwhile, of what it is without them",
            flooded / alone,
        )
        .between(1.0 - DIFFERS_MAX, 1.0 + DIFFERS_MAX),
    );
    verdict.add(
        Figure::ratio(
            "pages for those inside, of as many as without them",
            after as f64 / before as f64,
        )
        .at_least(1.0 - DIFFERS_MAX),
    );
    Ok(())
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
