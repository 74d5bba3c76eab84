//! Everybody who comes: some signed in, some back for a cart, most of them strangers. They wait, go in, look at pages for a
//! while, and order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_lab::load::Request;
use tidegate_lab::measure::prefer_thread;
use tokio::time::{Instant, sleep, sleep_until};

use crate::harness::runtime;
use crate::room::{Front, Guest, Page, Waited};

/// Of those who come: are back for a cart, and are signed in.
const BACK: f64 = 0.03;
const MEMBERS: f64 = 0.06;
/// A page that comes later was not worth waiting for.
const IN_TIME: Duration = Duration::from_secs(1);
/// How often somebody tries to see a page before they leave.
const TRIES_MAX: u32 = 3;
/// Nobody gives up waiting while the drill lasts.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Of the pages that people look at every so many have recommendations.
const RECOMMENDS_EVERY: u64 = 4;

/// What happened in one second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Second {
    pub(super) let_in: u32,
    pub(super) good: u32,
    pub(super) late: u32,
    pub(super) refused: u32,
    /// Who was inside saw the line again.
    pub(super) thrown_out: u32,
    pub(super) orders: u32,
    pub(super) orders_failed: u32,
    /// Could not see a page, and left.
    pub(super) gave_up: u32,
}

/// What everybody has in common.
pub(super) struct World {
    front: Arc<Front>,
    /// How long somebody looks at a page, in milliseconds.
    think_ms: AtomicU64,
    /// How long they stay.
    stay: Duration,
    begun: Instant,
    seconds: Mutex<Vec<Second>>,
    /// How long those waited who were let in, in milliseconds, by tier.
    waits: Mutex<[Vec<f64>; 3]>,
}

/// The crowd at work, on a thread of its own.
pub(super) struct Crowd {
    pub(super) world: Arc<World>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Crowd {
    /// So many come per second for `length`, each of whom stays for `stay` and looks at a page for `think`.
    pub(super) fn start(
        front: &Arc<Front>,
        rate: f64,
        length: Duration,
        stay: Duration,
        think: Duration,
    ) -> anyhow::Result<Self> {
        let world = Arc::new(World {
            front: Arc::clone(front),
            think_ms: AtomicU64::new(u64::try_from(think.as_millis())?),
            stay,
            begun: Instant::now(),
            seconds: Mutex::new(vec![Second::default(); length.as_secs() as usize + 60]),
            waits: Mutex::default(),
        });
        let comes = Arc::clone(&world);
        let thread = std::thread::Builder::new()
            .name("crowd".to_owned())
            .spawn(move || {
                // A rate that is kept makes the servers queue, not the visitors.
                prefer_thread();
                let runtime = runtime()?;
                runtime.block_on(come(&comes, rate, length));
                // Those who still wait are not waited for.
                runtime.shutdown_background();
                Ok(())
            })?;
        Ok(Self { world, thread })
    }

    /// Waits until so long after the beginning.
    pub(super) fn wait_until(&self, time: Duration) {
        std::thread::sleep(time.saturating_sub(self.world.begun.elapsed()));
    }

    /// From now on everybody looks at a page for so long.
    pub(super) fn set_think(&self, think: Duration) {
        let think_ms = u64::try_from(think.as_millis()).unwrap_or(u64::MAX);
        self.world.think_ms.store(think_ms, Ordering::Relaxed);
    }

    /// Waits until nobody comes any more.
    pub(super) fn join(self) -> anyhow::Result<Arc<World>> {
        let ended = self.thread.join();
        ended.ok().context("the crowd's thread panicked")??;
        Ok(self.world)
    }
}

impl World {
    /// What happened between two times, together.
    pub(super) fn sum(&self, from: Duration, until: Duration) -> Second {
        let seconds = lock(&self.seconds);
        let range = from.as_secs() as usize..(until.as_secs() as usize).min(seconds.len());
        let mut sum = Second::default();
        for second in &seconds[range] {
            sum.let_in += second.let_in;
            sum.good += second.good;
            sum.late += second.late;
            sum.refused += second.refused;
            sum.thrown_out += second.thrown_out;
            sum.orders += second.orders;
            sum.orders_failed += second.orders_failed;
            sum.gave_up += second.gave_up;
        }
        sum
    }

    /// The median wait of a tier, 1 to 3, in milliseconds.
    pub(super) fn wait_ms(&self, tier: usize) -> f64 {
        let mut waits = lock(&self.waits)[tier - 1].clone();
        waits.sort_by(f64::total_cmp);
        waits.get(waits.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// What happened by tens of seconds, for people to see.
    pub(super) fn series(&self, of: fn(&Second) -> u32) -> String {
        let seconds = lock(&self.seconds);
        let tens = seconds
            .chunks(10)
            .map(|ten| ten.iter().map(of).sum::<u32>());
        let tens: Vec<String> = tens.map(|sum| sum.to_string()).collect();
        tens.join(" ")
    }

    fn count(&self, add: impl FnOnce(&mut Second)) {
        let at = self.begun.elapsed().as_secs() as usize;
        if let Some(second) = lock(&self.seconds).get_mut(at) {
            add(second);
        }
    }

    fn think(&self) -> Duration {
        Duration::from_millis(self.think_ms.load(Ordering::Relaxed))
    }
}

async fn come(world: &Arc<World>, rate: f64, length: Duration) {
    tokio::spawn(Arc::clone(&world.front).follow());
    let count = (rate * length.as_secs_f64()) as usize;
    for number in 0..count {
        let at = Duration::from_secs_f64(number as f64 / rate);
        sleep_until(world.begun + at).await;
        tokio::spawn(visit(Arc::clone(world), number));
    }
    sleep_until(world.begun + length).await;
}

/// Somebody's whole visit.
async fn visit(world: Arc<World>, number: usize) {
    let front = &world.front;
    let mut guest = Guest::new(number);
    let chance = guest.chance();
    let tier = if chance < BACK {
        // Where there is no room nobody notes that they have one.
        if let Ok(back) = Guest::back_for_a_cart(front, number).await {
            guest = back;
        }
        1
    } else if chance < BACK + MEMBERS {
        let uid = format!("member-{number}");
        if guest.sign_in(front, &uid).await.is_err() {
            return;
        }
        2
    } else {
        3
    };
    let came = Instant::now();
    if !see(&world, &mut guest, 0, Standing::Outside).await {
        world.count(|second| second.gave_up += 1);
        return;
    }
    let waited_ms = came.elapsed().as_secs_f64() * 1_000.0;
    lock(&world.waits)[tier - 1].push(waited_ms);
    world.count(|second| second.let_in += 1);
    let leaves = Instant::now() + world.stay;
    for page in 1.. {
        sleep(world.think().mul_f64(0.5 + guest.chance())).await;
        if Instant::now() >= leaves {
            break;
        }
        if !see(&world, &mut guest, page, Standing::Inside).await {
            world.count(|second| second.gave_up += 1);
            return;
        }
    }
    order(&world, &mut guest, number).await;
}

/// Whether somebody has been let in already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Outside,
    Inside,
}

/// Sees a page, after some tries and whatever wait there is; whether they do.
async fn see(world: &World, guest: &mut Guest, page: u64, standing: Standing) -> bool {
    let path = match page % RECOMMENDS_EVERY {
        1 => format!("/recommend/{page}"),
        _ => format!("/browse/{page}"),
    };
    for _ in 0..TRIES_MAX {
        let sent = Instant::now();
        let after_s = match guest.go(&world.front, &path).await {
            Page::Shown => {
                let in_time = sent.elapsed() <= IN_TIME;
                world.count(|second| {
                    second.good += u32::from(in_time);
                    second.late += u32::from(!in_time);
                });
                return true;
            }
            Page::Waits => {
                world.count(|second| second.thrown_out += u32::from(standing == Standing::Inside));
                if guest.wait(&world.front, PATIENCE).await == Waited::GaveUp {
                    return false;
                }
                continue;
            }
            Page::Refused { after_s, .. } => after_s.unwrap_or(1),
            Page::Nothing => 1,
        };
        world.count(|second| second.refused += 1);
        sleep(Duration::from_secs(after_s.min(10)).mul_f64(1.0 + guest.chance())).await;
    }
    false
}

/// Orders. It is sent once.
async fn order(world: &World, guest: &mut Guest, number: usize) {
    let request = Request::post(&format!("/checkout/{number}"), 64);
    let sent = Instant::now();
    let page = guest.send(&world.front, request).await;
    let is_good = matches!(page, Page::Shown) && sent.elapsed() <= IN_TIME;
    world.count(|second| {
        second.orders += u32::from(is_good);
        second.orders_failed += u32::from(!is_good);
        second.good += u32::from(is_good);
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
