//! Forty thousand who only look around wait; somebody with a cart comes, and one of those who wait signs in. Both overtake all
//! others, and keep their places. Beside it where they would stand if it went by arrival alone.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::harness::{
    Args, Drill, Figure, Gateway, Keeps, ShopProcess, ShopSetup, Site, Store, Verdict, runtime,
};
use crate::room::{Front, Ground, Guest, Line, Page, Pool, RoomSettings, set_phase};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-overtake",
    promise: "somebody with a cart overtakes 40,000 who look around, and so does who signs in while they wait",
    takes: Duration::from_secs(20),
    run,
};

/// Those who look around; `--rounds N` makes them N thousand.
const BROWSERS: u64 = 40_000;
/// So many are called in a second.
const RATE: u64 = 20;
/// The till is outside the room.
const APP: &str = "workers = 50\n[[app.route]]\nname = \"checkout\"\npath = \"/checkout/**\"\nclass = \"critical\"\n";
/// How often somebody asks whether it is their turn.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longest wait for what takes a second or two.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where somebody stands.
#[derive(Clone, Copy, Debug)]
struct Stands {
    place: u64,
    tier: u64,
    ahead: u64,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let browsers = args
        .rounds
        .map_or(BROWSERS, |thousands| u64::from(thousands) * 1_000);
    let ground = Ground::shared()?;
    let shop = ShopProcess::open(&ShopSetup::new(50, 2))?;
    let door = Site::start("door", Keeps::InTidegate)?;
    let settings = RoomSettings::phase("queue-all")
        .rate(&format!("{RATE}/s"))
        .app(APP)
        .outside("door", "/sign-in", door.address())
        .outside("cart", "/add", door.address());
    let gateway = ground.gateway("gw1", shop.address(), &settings)?;
    set_phase(&gateway, Some("hold"))?;
    let runtime = runtime()?;
    let front = Front::of(vec![Pool::to(gateway.address())]);
    let (line, mut member, mut back) =
        runtime.block_on(stand(&mut verdict, &ground, &front, browsers))?;
    set_phase(&gateway, None)?;
    let mut store = ground.store()?;
    runtime.block_on(async {
        for (who, guest) in [("with a cart", &mut back), ("who signed in", &mut member)] {
            let called = until_called(&front, guest, &mut store).await?;
            let what = format!("called until somebody {who} was, to two looks of theirs");
            verdict.add(Figure::count(what, called as f64).at_most(2.0 * RATE as f64));
        }
        let left = line.look().await?.census.waiting[2];
        verdict.add(Figure::count(
            "of those who look around: still wait",
            left as f64,
        ));
        anyhow::Ok(())
    })?;
    works(&gateway, &mut verdict)?;
    Ok(verdict)
}

/// Everybody comes; who is left then waits and is to be called.
async fn stand(
    verdict: &mut Verdict,
    ground: &Ground,
    front: &Arc<Front>,
    browsers: u64,
) -> anyhow::Result<(Line, Guest, Guest)> {
    let line = Line::open(ground.address()?).await?;
    line.join(browsers).await?;
    // It reads the document for as long as the runtime lives.
    tokio::spawn(Arc::clone(front).follow());
    let mut member = Guest::new(1);
    let before = come(front, &mut member, browsers).await?;
    verdict.add(
        Figure::count("ahead of a stranger who comes last", before.ahead as f64)
            .exactly(browsers as f64),
    );
    let mut back = Guest::back_for_a_cart(front, 2).await?;
    let cart = come(front, &mut back, browsers + 1).await?;
    verdict.add(
        Figure::count(
            "ahead of somebody who is back for a cart",
            cart.ahead as f64,
        )
        .exactly(0.0)
        .beside("by arrival alone", (browsers + 1) as f64),
    );
    verdict.add(Figure::count("their tier", cart.tier as f64).exactly(1.0));

    member.sign_in(front, "member").await?;
    let after = until_ahead(front, &mut member, 1).await?;
    verdict.add(
        Figure::count(
            "ahead of the stranger once they have signed in",
            after.ahead as f64,
        )
        .exactly(1.0)
        .beside("before", before.ahead as f64),
    );
    let is_same = after.place == before.place && after.tier == 2;
    verdict.add(
        Figure::count("place that is still theirs", f64::from(u8::from(is_same))).exactly(1.0),
    );
    Ok((line, member, back))
}

/// Comes to the site, is told to wait, and stands in the line behind or before so many.
async fn come(front: &Front, guest: &mut Guest, waiting: u64) -> anyhow::Result<Stands> {
    let page = guest.go(front, "/browse/shoes").await;
    anyhow::ensure!(matches!(page, Page::Waits), "it does not wait: {page}");
    guest.me_at_last(front).await?;
    let until = Instant::now() + PATIENCE;
    while front.document().waiting() < waiting + 1 {
        anyhow::ensure!(
            Instant::now() < until,
            "the document never counts {}",
            waiting + 1
        );
        sleep(LOOK_EVERY).await;
    }
    stands(front, guest).await
}

async fn stands(front: &Front, guest: &mut Guest) -> anyhow::Result<Stands> {
    let me = guest.me_at_last(front).await?;
    let (Some(place), Some(tier)) = (me.place, me.tier) else {
        anyhow::bail!("they stand nowhere: {me:?}");
    };
    // Far from the front nobody is looked up: the document says it.
    let ahead = me.ahead.or_else(|| guest.ahead(&front.document()));
    Ok(Stands {
        place,
        tier,
        ahead: ahead.unwrap_or(u64::MAX),
    })
}

async fn until_ahead(front: &Front, guest: &mut Guest, ahead: u64) -> anyhow::Result<Stands> {
    let until = Instant::now() + PATIENCE;
    loop {
        let stands = stands(front, guest).await?;
        if stands.ahead <= ahead || Instant::now() > until {
            return Ok(stands);
        }
        sleep(LOOK_EVERY).await;
    }
}

/// How many have been called when `guest` sees that they are.
async fn until_called(front: &Front, guest: &mut Guest, store: &mut Store) -> anyhow::Result<u64> {
    let until = Instant::now() + PATIENCE;
    while guest.me_at_last(front).await?.state != "ready" {
        anyhow::ensure!(Instant::now() < until, "they are never called");
        sleep(LOOK_EVERY).await;
    }
    Ground::called(store)
}

/// Nothing was ever asked of the application by who waits.
fn works(gateway: &Gateway, verdict: &mut Verdict) -> anyhow::Result<()> {
    let passed = [("room", "shop"), ("outcome", "passed")];
    let passed = gateway
        .metrics()?
        .sum("tidegate_room_requests_total", &passed);
    verdict.add(Figure::count("requests that passed meanwhile", passed).exactly(0.0));
    Ok(())
}
