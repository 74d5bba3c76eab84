//! The thread that looks once a second, and what it saw last.

use std::any::Any;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tidegate_core::time::Mono;
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use super::board::Board;
use super::sampler::{AgentPlan, Sampler, Seen};

/// Time from the beginning of one look to that of the next.
pub const TICK: Duration = Duration::from_secs(1);

/// A running agent. Dropping it ends it.
///
/// It looks in a thread of its own, so that a file that takes long or an application that does not answer keeps
/// nobody else.
pub struct Agent {
    shared: Arc<Shared>,
    /// Held for as long as it runs.
    _alive: oneshot::Sender<()>,
}

struct Shared {
    latest: Mutex<Arc<Seen>>,
    looks: AtomicU64,
    late: AtomicU64,
    failed: AtomicU64,
}

impl Agent {
    /// Begins to look as `plan` says, and at what is posted to `board`; times are those of the board.
    ///
    /// # Errors
    ///
    /// When there is no thread to be had, or the address that gunicorn is to send to is taken.
    pub fn start(plan: AgentPlan, board: Board) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut sampler = {
            // What listens belongs to the runtime that it was made in.
            let _guard = runtime.enter();
            Sampler::new(plan, Some(board.clone()))?
        };
        let shared = Arc::new(Shared::new());
        let (alive, ended) = oneshot::channel::<()>();
        let publish = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("tidegate-agent".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    let take = async |now: Mono| sampler.tick(now).await.clone();
                    tokio::select! {
                        () = look(TICK, take, &board, &publish) => {}
                        _ = ended => {}
                    }
                });
                runtime.shutdown_background();
            })?;
        Ok(Self {
            shared,
            _alive: alive,
        })
    }

    /// What was seen last; nothing at all before the first look has ended.
    pub fn latest(&self) -> Arc<Seen> {
        Arc::clone(&self.shared.lock())
    }

    /// Tells what was seen last, as often as it is asked, also after the end.
    pub fn teller(&self) -> impl Fn() -> Arc<Seen> + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || Arc::clone(&shared.lock())
    }

    /// Tells how many looks a defect of ours has ended, as often as it is asked, also after the end.
    pub fn failures(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.failed.load(Ordering::Relaxed)
    }

    /// Looks that have ended.
    pub fn looks(&self) -> u64 {
        self.shared.looks.load(Ordering::Relaxed)
    }

    /// Looks that took longer than a tick, so that the next one was left out.
    pub fn late(&self) -> u64 {
        self.shared.late.load(Ordering::Relaxed)
    }
}

/// Takes a look `every` so often, for ever. One that panics is a defect of ours, and no reason to be blind from then on: what was
/// seen before it stays, and counts for as long as its readings do.
async fn look(
    every: Duration,
    mut take: impl AsyncFnMut(Mono) -> Seen,
    board: &Board,
    shared: &Shared,
) {
    let mut ticks = tokio::time::interval(every);
    // Looks that were missed say nothing any more.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut is_well = true;
    loop {
        ticks.tick().await;
        let begun = Instant::now();
        let now: Mono = board.now();
        // A look begins by clearing what the one before has left behind.
        match AssertUnwindSafe(take(now)).catch_unwind().await {
            Ok(seen) => {
                *shared.lock() = Arc::new(seen);
                shared.looks.fetch_add(1, Ordering::Relaxed);
                if !is_well {
                    tracing::info!("looks at the node succeed again");
                }
                is_well = true;
            }
            Err(panic) => {
                shared.failed.fetch_add(1, Ordering::Relaxed);
                // Told once when it begins, and not every second.
                if is_well {
                    let panic = said(&*panic);
                    tracing::error!(panic, "a look at the node failed by a defect; trying on");
                }
                is_well = false;
            }
        }
        if begun.elapsed() > every {
            shared.late.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What a panic was about.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it does not say why")
}

impl Shared {
    fn new() -> Self {
        Self {
            latest: Mutex::new(Arc::new(Seen::default())),
            looks: AtomicU64::new(0),
            late: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Seen>> {
        // One pointer is behind it.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::health::Dimension;
    use tidegate_lab::patience::until_so;

    use super::*;
    use crate::agent::board::Posted;

    #[tokio::test]
    async fn it_looks_by_itself_and_shows_what_is_posted() {
        let board = Board::new(Instant::now());
        let posted = Posted {
            dimension: Dimension::Downstream,
            figures: Some((0.25, 1.0)),
        };
        board.post("shop", vec![posted]).unwrap();

        let agent = Agent::start(AgentPlan::default(), board.clone()).unwrap();
        until_so("a second look has ended", || agent.looks() >= 2).await;

        let seen = agent.latest();
        let of = |dimension| {
            seen.sights
                .iter()
                .find(|sight| sight.signal.dimension == dimension)
        };
        assert_eq!(of(Dimension::Downstream).unwrap().source, "shop");
        let steal = of(Dimension::Steal).unwrap();
        assert!(steal.signal.ratio(seen.at).is_some(), "{steal:?}");
        assert_eq!((agent.late(), agent.failures()()), (0, 0));
    }

    #[tokio::test]
    async fn a_look_that_panics_is_counted_and_the_next_one_is_taken() {
        let (board, shared) = (Board::new(Instant::now()), Shared::new());
        let (fourth, begun) = oneshot::channel();
        let (mut taken, mut fourth) = (0_u64, Some(fourth));
        let take = async |_: Mono| {
            taken += 1;
            assert!(taken != 2, "a defect");
            if taken == 4 {
                fourth.take().unwrap().send(()).unwrap();
                std::future::pending::<()>().await;
            }
            Seen {
                at: Mono::from_millis(taken),
                ..Seen::default()
            }
        };

        tokio::select! {
            () = look(Duration::from_millis(1), take, &board, &shared) => {}
            begun = begun => begun.unwrap(),
        }

        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!((count(&shared.looks), count(&shared.failed)), (2, 1));
        assert_eq!(shared.lock().at, Mono::from_millis(3));
    }

    #[test]
    fn a_panic_says_what_it_was_about() {
        let of = |panic: Box<dyn Any + Send>| said(&*panic).to_owned();

        assert_eq!(of(Box::new("plain")), "plain");
        assert_eq!(of(Box::new("formatted".to_owned())), "formatted");
        assert_eq!(of(Box::new(7)), "it does not say why");
    }
}
