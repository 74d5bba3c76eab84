//! A thousand people wait, and the store forgets everything: the line comes back from their tickets in the order in which they
//! came, whoever is heard of first, and nobody is called before most of them are back. Beside it what a line without tickets has
//! left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::rng::Rng;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::harness::{Args, Drill, Figure, ShopProcess, ShopSetup, Store, Verdict, runtime};
use crate::room::{Front, Ground, Guest, Page, Pool, ROOM, RoomSettings, Waited};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-flush",
    promise: "1,000 people wait and the store is flushed: all are back in their order, and nobody is called before they are",
    takes: Duration::from_secs(150),
    run,
};

const PEOPLE: usize = 1_000;
/// Who comes when the line has been lost.
const NEWCOMERS: usize = 50;
/// So many are called in a second.
const RATE: u64 = 25;
/// Of those who were alive so many have to be back.
const ENOUGH: f64 = 0.8;
/// Everybody is heard of within that, or is taken to have gone.
const GRACE: Duration = Duration::from_secs(160);
/// How often the store is looked into.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Longest wait for one's turn.
const PATIENCE: Duration = Duration::from_secs(300);

/// What was seen of the line after it was lost.
#[derive(Debug, Default)]
struct Watched {
    /// The most that were back when nobody had been called yet.
    back_at_first: u64,
    first_call: Option<Duration>,
    /// Looks at which somebody had been called who stood behind somebody who had waited all the time.
    out_of_turn: u64,
    called: u64,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let mut ground = Ground::shared()?;
    let shop = ShopProcess::open(&ShopSetup::new(50, 2))?;
    let settings = RoomSettings::phase("queue-all")
        .rate(&format!("{RATE}/s"))
        .with("claim_within = \"10m\"");
    let gateways = [
        ground.gateway("gw1", shop.address(), &settings)?,
        ground.gateway("gw2", shop.address(), &settings)?,
    ];
    let pools = gateways
        .each_ref()
        .map(|gateway| Pool::to(gateway.address()));
    let front = Front::of(pools.to_vec());
    let runtime = runtime()?;
    let mut people = runtime.block_on(async {
        tokio::spawn(Arc::clone(&front).follow());
        come(&front, 0..PEOPLE).await
    })?;
    let places = people.iter().map(|(_, place)| *place);
    let before: BTreeSet<u64> = places.collect();
    anyhow::ensure!(before.len() == PEOPLE, "two people have one place");
    // They are heard of in another order than they came in.
    let mut rng = Rng::new(3);
    for last in (1..people.len()).rev() {
        people.swap(last, rng.below(last as u64 + 1) as usize);
    }
    let mut store = ground.store()?;
    let called = Ground::called(&mut store)?;
    verdict.say(format!(
        "{PEOPLE} wait, {called} of them were called; now the store is flushed"
    ));
    ground.redis()?.ask(&["FLUSHALL"])?;
    let lost = Instant::now();

    let watching = std::thread::spawn(move || watch(&mut store, lost));
    let (let_in, behind) = runtime.block_on(wait(&front, people, *before.last().unwrap_or(&0)))?;
    let watched = match watching.join() {
        Ok(watched) => watched?,
        Err(_) => anyhow::bail!("who watches the store panicked"),
    };
    judge(&mut verdict, &watched, let_in, behind);
    Ok(verdict)
}

/// These come and stand in the line, one after the other; their places.
async fn come(front: &Front, numbers: std::ops::Range<usize>) -> anyhow::Result<Vec<(Guest, u64)>> {
    let mut people = Vec::new();
    for number in numbers {
        let mut guest = Guest::new(number);
        let page = guest.go(front, "/browse/shoes").await;
        anyhow::ensure!(matches!(page, Page::Waits), "it does not wait: {page}");
        let place = guest.me_at_last(front).await?.place;
        people.push((guest, place.unwrap_or(0)));
    }
    Ok(people)
}

/// All of them wait as their pages do; how many were let in, and how many newcomers stand behind all of them.
async fn wait(
    front: &Arc<Front>,
    people: Vec<(Guest, u64)>,
    last: u64,
) -> anyhow::Result<(usize, usize)> {
    let mut tasks = JoinSet::new();
    for (mut guest, _) in people {
        let front = Arc::clone(front);
        tasks.spawn(async move { guest.wait(&front, PATIENCE).await });
    }
    // Once somebody is heard of there is a line again that somebody can come to.
    sleep(Duration::from_secs(3)).await;
    let late = come(front, PEOPLE..PEOPLE + NEWCOMERS).await?;
    let behind = late.iter().filter(|(_, place)| *place > last).count();
    let mut let_in = 0;
    while let Some(waited) = tasks.join_next().await {
        let_in += usize::from(waited? == Waited::LetIn);
    }
    Ok((let_in, behind))
}

/// Looks into the store until all were called that waited, or nothing comes of it.
fn watch(store: &mut Store, lost: Instant) -> anyhow::Result<Watched> {
    let mut watched = Watched::default();
    let mut before = Looked::default();
    let hash = format!("tg:r:{{room/{ROOM}}}");
    while lost.elapsed() < PATIENCE && watched.called < PEOPLE as u64 {
        std::thread::sleep(LOOK_EVERY);
        let epoch: Option<u64> = store.ask(&["HGET", &hash, "epoch"])?;
        let Some(epoch) = epoch else {
            continue;
        };
        let part = |name: &str| format!("{hash}:{epoch}:{name}");
        let back: u64 = store.ask(&["ZCARD", &part("alive")])?;
        watched.called = Ground::called(store)?;
        if watched.called == 0 {
            watched.back_at_first = back;
            continue;
        }
        watched.first_call.get_or_insert_with(|| lost.elapsed());
        let mut now = Looked::default();
        for name in ["passed", "ready"] {
            let some: Vec<String> = store.ask(&["ZRANGE", &part(name), "0", "-1"])?;
            now.called.extend(some);
        }
        // Who waited at the look before, and waits now that it is known who was called, has waited all the time.
        if let Some(first) = &before.first {
            let waits: Option<String> = store.ask(&["ZSCORE", &part("w3"), first])?;
            let mut new = now.called.difference(&before.called);
            watched.out_of_turn += u64::from(waits.is_some() && new.any(|place| place > first));
        }
        let first: Vec<String> = store.ask(&["ZRANGE", &part("w3"), "0", "0"])?;
        now.first = first.into_iter().next();
        before = now;
    }
    Ok(watched)
}

/// One look at a line; places as the store writes them, which are in order.
#[derive(Default)]
struct Looked {
    called: BTreeSet<String>,
    first: Option<String>,
}

fn judge(verdict: &mut Verdict, watched: &Watched, let_in: usize, behind: usize) {
    let back = watched.back_at_first as f64 / PEOPLE as f64;
    // Between two looks some more may have come back.
    verdict.add(Figure::share("back when the first was called", back).at_least(ENOUGH - 0.05));
    let first = watched
        .first_call
        .map_or(f64::NAN, |after| after.as_secs_f64() * 1_000.0);
    verdict.add(
        Figure::ms("the first call, after the loss", first).at_most(GRACE.as_secs_f64() * 1_000.0),
    );
    verdict.add(
        Figure::count(
            "looks at which somebody was called before their turn",
            watched.out_of_turn as f64,
        )
        .exactly(0.0),
    );
    verdict.add(
        Figure::share(
            "of those who waited: let in with the place of before",
            let_in as f64 / PEOPLE as f64,
        )
        .at_least(0.99)
        .beside("a line without tickets", 0.0),
    );
    verdict.add(
        Figure::count("newcomers who stand behind all of them", behind as f64)
            .exactly(NEWCOMERS as f64),
    );
}
