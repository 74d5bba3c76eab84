//! Playing a plan on a thread of its own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_core::rng::Rng;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::recorder::Recorder;
use super::schedule::{Schedule, draw_kind};
use super::visit::{Active, Visit, World, play};
use super::{LoadPlan, Report, SecondReport};
use crate::measure::{HostTimes, pin_thread, prefer_thread, raise_file_limit};

/// Files a process needs beside connections.
const FILES_SPARE: u64 = 512;
/// Visits started in a row before answers are looked at.
const STARTS_IN_A_ROW_MAX: u32 = 64;
/// Between the call and the first arrival, so that the thread is there by then.
const LEAD: Duration = Duration::from_millis(5);

/// A run in progress, on a thread of its own. Dropping it stops it.
pub struct Run {
    world: Arc<World>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<io::Result<Report>>>,
}

impl Run {
    /// Starts playing `plan`.
    pub fn start(mut plan: LoadPlan) -> io::Result<Self> {
        // The server is often in this very process, so every visit may need two files.
        let files = raise_file_limit(2 * plan.visits_max as u64 + FILES_SPARE)?;
        let visits_max =
            usize::try_from(files.saturating_sub(FILES_SPARE) / 2).unwrap_or(usize::MAX);
        plan.visits_max = plan.visits_max.min(visits_max);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let recorder = Recorder::new(&plan);
        let world = Arc::new(World::new(plan, recorder, Instant::now() + LEAD));
        let (stop, stopped) = oneshot::channel();

        let thread = std::thread::Builder::new().name("load".to_owned()).spawn({
            let world = Arc::clone(&world);
            move || {
                if let Some(core) = world.plan.core {
                    pin_thread(core)?;
                }
                // A schedule that is kept makes the server queue, not the generator.
                prefer_thread();
                let before = HostTimes::now()?;
                runtime.block_on(async {
                    tokio::select! {
                        () = play_all(&world) => {}
                        _ = stopped => {}
                    }
                });
                let steal_share = HostTimes::now()?.steal_share_since(&before);
                Ok(world.recorder.report(&world.plan, steal_share))
            }
        })?;
        Ok(Self {
            world,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The time since the first arrival could come.
    pub fn elapsed(&self) -> Duration {
        self.world.started().elapsed()
    }

    /// The seconds so far, the last one still going on.
    pub fn seconds(&self) -> Vec<SecondReport> {
        self.world.recorder.seconds()
    }

    /// Visits in progress.
    pub fn visits(&self) -> usize {
        self.world.active.load(Ordering::Relaxed)
    }

    /// Whether every visit has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until every visit has ended.
    pub fn join(mut self) -> io::Result<Report> {
        let thread = self.thread.take().expect("only this takes it");
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the load generator panicked")))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Stopped half-way, it has nothing to say.
            let _ = thread.join();
        }
    }
}

/// Plays `plan` to its end.
pub fn run(plan: LoadPlan) -> io::Result<Report> {
    Run::start(plan)?.join()
}

async fn play_all(world: &Arc<World>) {
    let plan = &world.plan;
    let own_shares: Vec<f64> = plan.kinds.iter().map(|kind| kind.share).collect();
    let mut rng = Rng::new(plan.seed);
    let schedule = Schedule::new(&plan.phases, plan.arrivals, Rng::new(rng.next_u64()));
    // Every visit holds a sender; nothing is ever sent.
    let (in_progress, mut ended) = mpsc::channel::<()>(1);

    let mut in_a_row = 0;
    for arrival in schedule {
        let due = world.started() + arrival.at;
        if due > Instant::now() {
            sleep_until(due).await;
            in_a_row = 0;
        } else if in_a_row == STARTS_IN_A_ROW_MAX {
            tokio::task::yield_now().await;
            in_a_row = 0;
        }
        in_a_row += 1;

        let shares = plan.phases[arrival.phase]
            .shares
            .as_ref()
            .unwrap_or(&own_shares);
        let kind = draw_kind(shares, &mut rng);
        let rng = Rng::new(rng.next_u64());
        if world.active.load(Ordering::Relaxed) >= plan.visits_max {
            world.recorder.capped(arrival.at, kind);
            continue;
        }
        let active = Active::new(world);
        let visit = Visit {
            at: arrival.at,
            phase: arrival.phase,
            kind,
            rng,
        };
        let in_progress = in_progress.clone();
        tokio::spawn(async move {
            play(active, visit).await;
            drop(in_progress);
        });
    }
    drop(in_progress);
    // Bounded by the longest patience.
    ended.recv().await;
    sleep_until(world.started() + plan.length()).await;
}
