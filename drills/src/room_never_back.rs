//! Who is in the middle of something is never sent to the line: payment callbacks and uploads in every phase and without the
//! store, and a buyer who stays for two hours, in a scaled time. Beside the buyer one who rests for too long.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tidegate_lab::load::Request;
use tokio::time::{Instant, sleep};

use crate::harness::{Args, Drill, Figure, Gateway, ShopProcess, ShopSetup, Verdict, runtime};
use crate::room::{Front, Ground, Guest, Page, Pool, RoomSettings, Waited, close, set_phase};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-never-back",
    promise: "callbacks and uploads pass in every phase and without the store, and a buyer inside never sees the line again",
    takes: Duration::from_secs(170),
    run,
};

/// Callbacks in each phase, and as many uploads.
const TIMES: u64 = 100;
const UPLOAD_BYTES: usize = 256 * 1_024;
/// A pass ends so long after its last use, which stands for the usual 15 minutes.
const PASS_IDLE: Duration = Duration::from_secs(10);
/// Two hours are eight times that, and then some.
const SECONDS: u64 = 90;
/// Whoever rests has to be back before the store is lost.
const SECONDS_MIN: Duration = Duration::from_secs(72);
/// A buyer does something so often: every 4 minutes, and up to 8 of them.
const STEP: Duration = Duration::from_millis(2_700);
/// Buyers at work.
const BUYERS: usize = 20;
/// Clocks may differ by so much, so that a pass is good for so much longer than it says.
const LEEWAY: Duration = Duration::from_secs(30);
/// Longest wait for the first turn.
const PATIENCE: Duration = Duration::from_secs(60);

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let mut ground = Ground::shared()?;
    let shop = ShopProcess::open(&ShopSetup::new(50, 5))?;
    let settings = RoomSettings::phase("queue-all")
        .rate("50/s")
        .with(&format!("pass_idle = \"{}s\"", PASS_IDLE.as_secs()));
    let settings = settings.app(
        "workers = 50\n[[app.route]]\nname = \"pay\"\npaths = [\"/checkout/**\", \"/echo\"]\nclass = \"critical\"\n",
    );
    let gateways = [
        ground.gateway("gw1", shop.address(), &settings)?,
        ground.gateway("gw2", shop.address(), &settings)?,
    ];

    let mut turned_away = 0;
    for phase in [
        "off",
        "auto",
        "queue-all",
        "hold",
        "prequeue",
        "drain",
        "closed",
    ] {
        match phase {
            "closed" => close(&gateways[0])?,
            _ => set_phase(&gateways[0], Some(phase))?,
        }
        let failed = in_flight(&gateways)?;
        verdict.say(format!(
            "{phase}: {failed} of {} were turned away",
            2 * TIMES
        ));
        turned_away += failed;
    }
    let figure = Figure::count(
        "callbacks and uploads turned away, in seven phases",
        turned_away as f64,
    );
    verdict.add(figure.exactly(0.0).beside("of", (14 * TIMES) as f64));
    set_phase(&gateways[0], None)?;

    buyers(
        &mut verdict,
        &mut ground,
        &gateways,
        args.length(SECONDS).max(SECONDS_MIN),
    )?;
    let failed = in_flight(&gateways)?;
    let figure = Figure::count(
        "callbacks and uploads turned away without the store",
        failed as f64,
    );
    verdict.add(figure.exactly(0.0).beside("of", (2 * TIMES) as f64));
    Ok(verdict)
}

/// Callbacks and uploads, to both gateways by turns; how many did not get through.
fn in_flight(gateways: &[Gateway; 2]) -> anyhow::Result<u64> {
    let pools = gateways
        .each_ref()
        .map(|gateway| Pool::to(gateway.address()));
    runtime()?.block_on(async {
        let mut failed = 0;
        for number in 0..TIMES as usize {
            let pool = &pools[number % 2];
            let callback = pool.ask(&Request::post("/checkout/paid", 200)).await?;
            failed += u64::from(callback.status != 200);
            let upload = Request {
                method: Method::PUT,
                ..Request::post("/echo", UPLOAD_BYTES)
            };
            let uploaded = pool.ask(&upload).await?;
            failed += u64::from(uploaded.status != 200 || uploaded.body.len() != UPLOAD_BYTES);
        }
        Ok(failed)
    })
}

/// What buyers saw.
#[derive(Clone, Copy, Debug, Default)]
struct Bought {
    pages: u64,
    lines: u64,
    others: u64,
    renewed: u64,
}

/// Buyers who stay, one who rests, and a store that is lost in the second half.
fn buyers(
    verdict: &mut Verdict,
    ground: &mut Ground,
    gateways: &[Gateway; 2],
    length: Duration,
) -> anyhow::Result<()> {
    let front = Front::of(gateways.iter().map(|it| Pool::to(it.address())).collect());
    let (bought, rested) = runtime()?.block_on(async {
        let document = tokio::spawn(Arc::clone(&front).follow());
        let mut tasks = Vec::new();
        for number in 0..BUYERS {
            tasks.push(tokio::spawn(buy(Arc::clone(&front), number, length)));
        }
        let rests = tokio::spawn(rest(Arc::clone(&front)));
        sleep(length.mul_f64(0.75)).await;
        ground.redis()?.kill()?;
        let mut sum = Bought::default();
        for task in tasks {
            let bought = task.await??;
            sum.pages += bought.pages;
            sum.lines += bought.lines;
            sum.others += bought.others;
            sum.renewed += bought.renewed;
        }
        document.abort();
        anyhow::Ok((sum, rests.await??))
    })?;
    let hours = length.as_secs_f64() / PASS_IDLE.as_secs_f64() / 4.0;
    verdict.say(format!(
        "{BUYERS} buyers for {hours:.1} hours of {} s to the quarter, the last {:.0} s without the store",
        PASS_IDLE.as_secs(),
        length.as_secs_f64() / 4.0
    ));
    verdict.add(
        Figure::count(
            "times that a buyer inside saw the line",
            bought.lines as f64,
        )
        .exactly(0.0)
        .beside("pages", bought.pages as f64),
    );
    verdict.add(Figure::count("other answers to buyers", bought.others as f64).exactly(0.0));
    verdict.add(
        Figure::share(
            "answers that renewed a pass",
            bought.renewed as f64 / bought.pages as f64,
        )
        .below(0.7),
    );
    verdict.add(
        Figure::count(
            "of one buyer who rested for too long: sees the line",
            f64::from(u8::from(rested)),
        )
        .exactly(1.0),
    );
    Ok(())
}

/// Waits, goes in, and does something every now and then, at whichever gateway.
async fn buy(front: Arc<Front>, number: usize, length: Duration) -> anyhow::Result<Bought> {
    let mut guest = come(&front, number).await?;
    let mut bought = Bought::default();
    let until = Instant::now() + length;
    for step in 0.. {
        sleep(STEP.mul_f64(0.5 + guest.chance())).await;
        if Instant::now() >= until {
            break;
        }
        let before = guest.jar.field();
        match guest.go(&front, &format!("/browse/{step}")).await {
            Page::Shown => bought.pages += 1,
            Page::Waits => bought.lines += 1,
            Page::Refused { .. } | Page::Nothing => bought.others += 1,
        }
        bought.renewed += u64::from(guest.jar.field() != before);
        guest.turn();
    }
    Ok(bought)
}

/// Goes in, and comes back when the pass is over; whether the line is there again.
async fn rest(front: Arc<Front>) -> anyhow::Result<bool> {
    let mut guest = come(&front, BUYERS).await?;
    sleep(PASS_IDLE + LEEWAY + Duration::from_secs(3)).await;
    Ok(matches!(
        guest.go(&front, "/browse/late").await,
        Page::Waits
    ))
}

async fn come(front: &Front, number: usize) -> anyhow::Result<Guest> {
    let mut guest = Guest::new(number);
    guest.go(front, "/browse/first").await;
    anyhow::ensure!(
        guest.wait(front, PATIENCE).await == Waited::LetIn,
        "nobody is let in"
    );
    Ok(guest)
}
