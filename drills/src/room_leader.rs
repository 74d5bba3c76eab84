//! The gateway that moves the line is killed, and paused, in the middle of calling people, again and again: nobody is called
//! twice, the line stands still for no longer than 4 s, and who led before is refused.
//!
//! The store is asked for what happened: how many were called, and who may go in now. Somebody who is called twice is counted
//! twice there, and may go in once.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_core::rng::Rng;
use tidegate_core::room::Place;

use crate::harness::{
    Args, Drill, Figure, Gateway, ShopProcess, ShopSetup, Store, Verdict, runtime, wait_for,
};
use crate::room::{Ground, Line, RoomSettings, set_phase};

/// This drill.
pub(crate) const DRILL: Drill = Drill {
    name: "room-leader",
    promise: "the leader killed 50 times and paused 50 times while it calls people: nobody is called twice, and the line stands for ≤ 4 s",
    takes: Duration::from_secs(600),
    run,
};

/// How often each is done, without `--rounds`.
const ROUNDS: u32 = 50;
/// So many are called in a second.
const RATE: u64 = 100;
/// More than are called in the time.
const WAITING: u64 = 100_000;
const GATEWAYS: usize = 3;
const GAP_MAX_MS: f64 = 4_000.0;
/// Everybody who waits is heard of so often.
const BEAT_EVERY: Duration = Duration::from_secs(40);
/// How often it is looked whether people are called.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A leader is lost at any moment of one tick.
const TICK: Duration = Duration::from_millis(250);
/// People that have to be called before it is lost, and after it is there again.
const MOVES: u64 = 60;

/// What is done to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Killed,
    Paused,
}

/// The gateways, and what is known of the line.
struct Site {
    ground: Ground,
    shop: ShopProcess,
    settings: RoomSettings,
    gateways: Vec<(String, Gateway)>,
    store: Store,
    line: Line,
    places: Vec<Place>,
    runtime: tokio::runtime::Runtime,
    heard: Instant,
    rng: Rng,
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::new(args);
    let rounds = args.rounds.unwrap_or(ROUNDS);
    let mut site = Site::open()?;
    set_phase(&site.gateways[0].1, None)?;
    let begun = Instant::now();
    for loss in [Loss::Killed, Loss::Paused] {
        let (mut gaps, mut refused) = (Vec::new(), 0);
        for _ in 0..rounds {
            site.hear()?;
            let (gap, fence) = site.lose(loss)?;
            gaps.push(gap.as_secs_f64() * 1_000.0);
            refused += u32::from(site.runtime.block_on(site.line.is_refused(fence))?);
        }
        gaps.sort_by(f64::total_cmp);
        let (middle, longest) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
        verdict.add(
            Figure::ms(
                format!("{loss:?} {rounds} times: longest time without a call"),
                longest,
            )
            .at_most(GAP_MAX_MS)
            .beside("the median", middle),
        );
        let what = format!("{loss:?}: calls refused by the right of before");
        verdict.add(Figure::count(what, f64::from(refused)).exactly(f64::from(rounds)));
    }
    site.judge(&mut verdict, begun.elapsed())?;
    Ok(verdict)
}

impl Site {
    fn open() -> anyhow::Result<Self> {
        let ground = Ground::shared()?;
        let shop = ShopProcess::open(&ShopSetup::new(10, 2))?;
        let settings = RoomSettings::phase("queue-all")
            .rate(&format!("{RATE}/s"))
            .with("claim_within = \"30m\"");
        let mut gateways = Vec::new();
        for number in 1..=GATEWAYS {
            let node = format!("gw{number}");
            let gateway = ground.gateway(&node, shop.address(), &settings)?;
            gateways.push((node, gateway));
        }
        set_phase(&gateways[0].1, Some("hold"))?;
        let runtime = runtime()?;
        let line = runtime.block_on(Line::open(ground.address()?))?;
        let places = runtime.block_on(line.join(WAITING))?;
        Ok(Self {
            store: ground.store()?,
            ground,
            shop,
            settings,
            gateways,
            line,
            places,
            runtime,
            heard: Instant::now(),
            rng: Rng::new(1),
        })
    }

    /// Has everybody be heard of, when it is time.
    fn hear(&mut self) -> anyhow::Result<()> {
        if self.heard.elapsed() >= BEAT_EVERY {
            self.runtime.block_on(self.line.beat(&self.places))?;
            self.heard = Instant::now();
        }
        Ok(())
    }

    /// Loses the leader; how long nobody was called, and by which right it had led.
    fn lose(&mut self, loss: Loss) -> anyhow::Result<(Duration, u64)> {
        self.wait_for_calls(MOVES)?;
        let Some((name, fence)) = Ground::leader(&mut self.store)? else {
            anyhow::bail!("people are called, and nobody leads");
        };
        let at = self.gateways.iter().position(|(node, _)| *node == name);
        let Some(at) = at else {
            anyhow::bail!("{name} leads, which is none of ours");
        };
        // In the middle of a tick, at the moment of one, between two.
        sleep(TICK.mul_f64((self.rng.next_u64() % 1_000) as f64 / 1_000.0));
        let lost = match loss {
            Loss::Killed => Some(self.gateways.remove(at).1),
            Loss::Paused => None,
        };
        match lost {
            Some(gateway) => gateway.kill()?,
            None => self.gateways[at].1.pause()?,
        }
        let gap = self.until_called_again(fence)?;
        match loss {
            Loss::Killed => {
                let gateway = self
                    .ground
                    .gateway(&name, self.shop.address(), &self.settings)?;
                self.gateways.push((name, gateway));
            }
            Loss::Paused => {
                self.gateways[at].1.resume()?;
                // It goes on where it was, and has to find out.
                self.wait_for_calls(MOVES)?;
            }
        }
        Ok((gap, fence))
    }

    /// Waits until somebody else calls people; since when nobody was called.
    fn until_called_again(&mut self, fence: u64) -> anyhow::Result<Duration> {
        let (mut called, mut moved) = (Ground::called(&mut self.store)?, Instant::now());
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let now = Ground::called(&mut self.store)?;
            if now != called {
                // What was on its way when the leader was lost still counts as its own.
                let leads = Ground::leader(&mut self.store)?;
                if leads.is_some_and(|(_, latest)| latest > fence) {
                    return Ok(moved.elapsed());
                }
                (called, moved) = (now, Instant::now());
            }
            anyhow::ensure!(Instant::now() < until, "nobody calls any more");
            sleep(LOOK_EVERY);
        }
    }

    fn wait_for_calls(&mut self, more: u64) -> anyhow::Result<()> {
        let before = Ground::called(&mut self.store)?;
        let store = &mut self.store;
        wait_for("people are called", || {
            Ok(Ground::called(store)? >= before + more)
        })
    }

    /// Holds the line and counts.
    fn judge(&self, verdict: &mut Verdict, took: Duration) -> anyhow::Result<()> {
        set_phase(&self.gateways[0].1, Some("hold"))?;
        let census = self.runtime.block_on(self.line.look())?.census;
        let (called, waiting) = (census.tallies.released, census.waiting.iter().sum::<u64>());
        anyhow::ensure!(
            waiting > 0,
            "everybody was called, so nobody could be called twice"
        );
        let left = (WAITING - waiting) as f64;
        let called = called as f64;
        verdict.add(
            Figure::count("calls of people who had been called before", called - left)
                .exactly(0.0)
                .beside("calls", called),
        );
        let what = "people who may go in, less those who left the line";
        verdict.add(Figure::count(what, census.ready as f64 - left).exactly(0.0));
        let most = RATE as f64 * (took.as_secs_f64() + 1.0);
        verdict.add(Figure::share("called, of what the rate allows", called / most).at_most(1.01));
        let mut deposed = 0.0;
        for (_, gateway) in &self.gateways {
            deposed += gateway.metrics()?.sum("tidegate_room_deposed_total", &[]);
        }
        let what = "times that a leader found out that it was none any more";
        verdict.add(Figure::count(what, deposed));
        Ok(())
    }
}
