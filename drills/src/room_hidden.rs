//! A page that nobody looks at for ten minutes, in a real browser and through the real gateway: the place is not lost, and when
//! it is its turn the page goes in by itself.
//!
//! Browsers wake a page in the background once a minute at last, and after five minutes they mean it; so this takes as long as
//! it takes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use crate::browser::Browser;
use crate::harness::{Args, Drill, Figure, Gateway, ShopProcess, ShopSetup, Verdict, wait_for};
use crate::room::{Ground, ROOM, RoomSettings, set_phase};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-hidden",
    promise: "a page that is in the background for ten minutes keeps its place, and goes in by itself when it is its turn",
    takes: Duration::from_secs(760),
    run,
};

const SECONDS: u64 = 600;
/// How often the line is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A call lasts so long; a page in the background uses it to its end.
const CLAIM_WITHIN: Duration = Duration::from_secs(120);
/// Time for a page that wakes once a minute to find out that it was called, and to come in.
const COMES_WITHIN: Duration = Duration::from_secs(420);
/// Keeps account of how long the page could not be seen, for the one that comes after it.
const ACCOUNT: &str = "{ let unseen = 0, since = document.hidden ? performance.now() : null;
    const count = () => { if (since !== null) unseen += performance.now() - since; };
    document.addEventListener('visibilitychange', () => {
        count();
        since = document.hidden ? performance.now() : null;
    });
    addEventListener('pagehide', () => { count(); sessionStorage.setItem('unseen', unseen); }); }";

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let length = args.length(SECONDS);
    let ground = Ground::alone()?;
    let shop = ShopProcess::open(&ShopSetup::new(10, 2))?;
    let claim = format!("claim_within = \"{}s\"", CLAIM_WITHIN.as_secs());
    let settings = RoomSettings::phase("queue-all").rate("10/s").with(&claim);
    let gateway = ground.gateway("gw1", shop.address(), &settings)?;
    set_phase(&gateway, Some("hold"))?;

    let browser = Browser::start();
    browser.before_pages(ACCOUNT);
    // A name, as browsers take secure cookies without TLS from this machine alone.
    let url = format!("http://localhost:{}/basket", gateway.address().port());
    browser.go(&url);
    browser.until_state("waiting");
    let page = browser.tab();
    let place = own_place(&browser)?;
    let front = browser.new_tab();
    browser.switch(&front);
    let (looks, missing) = watch(&gateway, length)?;
    let slept = gateway.metrics()?.sum("tidegate_room_slept_total", &[]);
    let sat = format!(
        "looks in {} s at which it did not stand in the line",
        length.as_secs()
    );
    verdict.add(
        Figure::count(sat, f64::from(missing))
            .exactly(0.0)
            .beside("of", f64::from(looks)),
    );
    verdict.add(Figure::count("times that it was taken to have gone", slept).exactly(0.0));

    set_phase(&gateway, None)?;
    let called = Instant::now();
    while passes(&gateway)? == 0.0 && called.elapsed() < COMES_WITHIN {
        sleep(LOOK_EVERY);
    }
    let came = called.elapsed();
    verdict.add(
        Figure::count(
            "pages that went in by themselves, in the background",
            passes(&gateway)?,
        )
        .exactly(1.0),
    );
    verdict.add(
        Figure::ms("after the call", came.as_secs_f64() * 1_000.0)
            .at_most(COMES_WITHIN.as_secs_f64() * 1_000.0),
    );
    let asked = || -> anyhow::Result<u64> {
        let received = shop.stats()?.received;
        Ok(received.get("/basket").copied().unwrap_or(0))
    };
    wait_for("the application is asked for the page", || Ok(asked()? > 0))?;
    let asked = asked()?;
    verdict
        .add(Figure::count("pages that the application was asked for", asked as f64).exactly(1.0));
    browser.switch(&page);
    let unseen_ms = browser
        .eval("Number(sessionStorage.getItem('unseen'))")
        .as_f64();
    verdict.add(
        Figure::ms(
            "in the background by its own account",
            unseen_ms.unwrap_or(f64::NAN),
        )
        .at_least(length.as_secs_f64() * 1_000.0),
    );
    verdict.say(format!("its place was {place}"));
    Ok(verdict)
}

/// How often it was looked at the line, and how often nobody stood in it.
fn watch(gateway: &Gateway, length: Duration) -> anyhow::Result<(u32, u32)> {
    let begun = Instant::now();
    let (mut looks, mut missing) = (0, 0);
    wait_for("the page is counted", || {
        Ok(status(gateway)?["waiting"] == 1)
    })?;
    while begun.elapsed() < length {
        sleep(LOOK_EVERY);
        looks += 1;
        missing += u32::from(status(gateway)?["waiting"] != 1);
    }
    Ok((looks, missing))
}

/// The page's own place, as its script is told.
fn own_place(browser: &Browser) -> anyhow::Result<u64> {
    let script = format!(
        "const ask = new XMLHttpRequest(); ask.open('GET', '/.tidegate/v1/me/{ROOM}?vis=1', false); ask.send(); \
         return JSON.parse(ask.responseText).place;"
    );
    browser
        .run(&script)
        .as_u64()
        .context("the page has no place")
}

fn status(gateway: &Gateway) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(
        &gateway.told(&format!("/rooms/{ROOM}"))?,
    )?)
}

fn passes(gateway: &Gateway) -> anyhow::Result<f64> {
    let given = [("room", ROOM), ("how", "given")];
    Ok(gateway.metrics()?.sum("tidegate_room_passes_total", &given))
}
