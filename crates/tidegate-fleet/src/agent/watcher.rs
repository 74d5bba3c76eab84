//! The thread that looks once a second, and what it saw last.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
        let sampler = {
            // What listens belongs to the runtime that it was made in.
            let _guard = runtime.enter();
            Sampler::new(plan, Some(board.clone()))?
        };
        let shared = Arc::new(Shared {
            latest: Mutex::new(Arc::new(Seen::default())),
            looks: AtomicU64::new(0),
            late: AtomicU64::new(0),
        });
        let (alive, ended) = oneshot::channel::<()>();
        let publish = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("tidegate-agent".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = look(sampler, &board, &publish) => {}
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

    /// Looks that have ended.
    pub fn looks(&self) -> u64 {
        self.shared.looks.load(Ordering::Relaxed)
    }

    /// Looks that took longer than a tick, so that the next one was left out.
    pub fn late(&self) -> u64 {
        self.shared.late.load(Ordering::Relaxed)
    }
}

async fn look(mut sampler: Sampler, board: &Board, shared: &Shared) {
    let mut ticks = tokio::time::interval(TICK);
    // Looks that were missed say nothing any more.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let begun = Instant::now();
        let now: Mono = board.now();
        let seen = Arc::new(sampler.tick(now).await.clone());
        *shared.lock() = seen;
        shared.looks.fetch_add(1, Ordering::Relaxed);
        if begun.elapsed() > TICK {
            shared.late.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Shared {
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
        assert_eq!(agent.late(), 0);
    }
}
