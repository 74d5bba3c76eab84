//! One visitor: attempts, pauses, patience.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use tidegate_core::rng::Rng;
use tokio::time::{Instant, sleep, timeout_at};

use super::connection::{Connection, Lost, Received};
use super::recorder::{Outcome, Recorder};
use super::{Kind, LoadPlan, Pause, Retry, RetryAfter, Reuse};

/// What all visits of a run share.
pub(super) struct World {
    pub(super) plan: LoadPlan,
    pub(super) recorder: Recorder,
    /// Visits in progress.
    pub(super) active: AtomicUsize,
    started: Instant,
    desks: Vec<Desk>,
}

/// What the visits of one kind share.
struct Desk {
    /// Head and body of the request.
    request: Vec<u8>,
    /// Idle connections, the last one used on top. There are never more than there were visits.
    idle: Mutex<Vec<Connection>>,
    next_source: AtomicUsize,
}

/// One visit.
pub(super) struct Visit {
    pub(super) at: Duration,
    pub(super) phase: usize,
    pub(super) kind: usize,
    pub(super) rng: Rng,
}

/// Counts a visit as in progress.
pub(super) struct Active(Arc<World>);

impl Active {
    pub(super) fn new(world: &Arc<World>) -> Self {
        world.active.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(world))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

impl World {
    pub(super) fn new(plan: LoadPlan, recorder: Recorder, started: Instant) -> Self {
        let desks = plan
            .kinds
            .iter()
            .map(|kind| Desk {
                request: kind.request.bytes(&plan.host),
                idle: Mutex::new(Vec::new()),
                next_source: AtomicUsize::new(0),
            })
            .collect();
        Self {
            plan,
            recorder,
            active: AtomicUsize::new(0),
            started,
            desks,
        }
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Desk {
    fn pop_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if connection.is_idle() {
                return Some(connection);
            }
        }
        None
    }

    fn push_idle(&self, connection: Connection) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(connection);
    }

    fn source(&self, kind: &Kind) -> Option<IpAddr> {
        if kind.sources.is_empty() {
            return None;
        }
        let next = self.next_source.fetch_add(1, Ordering::Relaxed);
        Some(kind.sources[next % kind.sources.len()])
    }
}

/// Plays one visit to its end and records it.
pub(super) async fn play(active: Active, visit: Visit) {
    let world = Arc::clone(&active.0);
    let Visit {
        at,
        phase,
        kind,
        mut rng,
    } = visit;
    world
        .recorder
        .arrived(at, kind, world.now().saturating_sub(at));

    let plan = &world.plan.kinds[kind];
    let patience = plan.patience;
    let leaves_at = at + patience.visit + patience.linger;
    let mut attempts = 0;
    let outcome = loop {
        let sent = world.now();
        attempts += 1;
        world.recorder.attempted(sent, kind);
        let until = patience
            .attempt
            .map_or(leaves_at, |own| leaves_at.min(sent + own));
        let result = timeout_at(world.started + until, attempt(&world, kind)).await;
        let now = world.now();

        let mut retry_after = None;
        let outcome = match result {
            // Dropped with its connection: a visitor who gives up leaves.
            Err(_) => Outcome::Timeout,
            Ok(Err(_)) => Outcome::Error,
            Ok(Ok(received)) => {
                retry_after = received.head.retry_after;
                match received.head.status {
                    200..300 => {
                        world.recorder.answered(now, kind);
                        let in_time = now <= at + patience.visit;
                        break if in_time {
                            Outcome::Good
                        } else {
                            Outcome::Late
                        };
                    }
                    429 | 503 => {
                        world
                            .recorder
                            .turned_away(now, kind, now.saturating_sub(sent));
                        Outcome::Refused
                    }
                    _ => Outcome::Error,
                }
            }
        };
        let left = (at + patience.visit).saturating_sub(now);
        match next_pause(&plan.retry, attempts, retry_after, left, &mut rng) {
            Some(pause) if pause.is_zero() => {}
            Some(pause) => sleep(pause).await,
            None => break outcome,
        }
    };
    let took = world.now().saturating_sub(at);
    world.recorder.ended(at, phase, kind, outcome, took);
}

/// The pause before attempt `attempts` + 1, or `None` when there will be none: too many attempts
/// were made, or the pause would take all of the patience that is `left`.
fn next_pause(
    retry: &Retry,
    attempts: u32,
    retry_after: Option<Duration>,
    left: Duration,
    rng: &mut Rng,
) -> Option<Duration> {
    if attempts >= retry.attempts_max {
        return None;
    }
    let own = match retry.pause {
        Pause::None => Duration::ZERO,
        Pause::Fixed(pause) => pause,
        Pause::FullJitter { base, cap } => {
            let doublings = (attempts - 1).min(31);
            base.saturating_mul(1 << doublings)
                .min(cap)
                .mul_f64(rng.unit())
        }
    };
    let pause = match (retry.retry_after, retry_after) {
        (RetryAfter::Honoured, Some(wanted)) => own.max(wanted),
        _ => own,
    };
    (pause < left).then_some(pause)
}

/// Sends the request of `kind` on an idle connection or a new one.
async fn attempt(world: &World, kind: usize) -> Result<Received, Lost> {
    let (plan, desk) = (&world.plan.kinds[kind], &world.desks[kind]);
    let bodiless = plan.request.method == Method::HEAD;
    if plan.reuse == Reuse::Kept
        && let Some(mut connection) = desk.pop_idle()
    {
        match connection.exchange(&desk.request, bodiless).await {
            // The server closed it at the moment we used it. Clients send such a request again by
            // themselves when it is safe to (RFC 9110 §9.2.2), so it is no attempt of its own.
            Err(lost) if lost.silent && plan.request.method.is_safe() => {}
            Err(lost) => return Err(lost),
            Ok(received) => {
                if received.reusable {
                    desk.push_idle(connection);
                }
                return Ok(received);
            }
        }
    }
    let source = desk.source(plan);
    let mut connection = Connection::open(world.plan.target, source)
        .await
        .map_err(|_| Lost { silent: true })?;
    let received = connection.exchange(&desk.request, bodiless).await?;
    if plan.reuse == Reuse::Kept && received.reusable {
        desk.push_idle(connection);
    }
    Ok(received)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn nobody_comes_more_often_than_planned_or_after_their_patience() {
        let mut rng = Rng::new(1);
        let at_once = Retry::at_once(3);
        let slow = Retry {
            pause: Pause::Fixed(SECOND),
            ..at_once
        };

        assert_eq!(
            next_pause(&at_once, 2, None, SECOND, &mut rng),
            Some(Duration::ZERO)
        );
        assert_eq!(next_pause(&at_once, 3, None, SECOND, &mut rng), None);
        assert_eq!(
            next_pause(&at_once, 1, None, Duration::ZERO, &mut rng),
            None
        );
        assert_eq!(next_pause(&slow, 1, None, SECOND, &mut rng), None);
        assert_eq!(
            next_pause(&slow, 1, None, 2 * SECOND, &mut rng),
            Some(SECOND)
        );
    }

    #[test]
    fn backoff_doubles_up_to_its_cap_and_uses_all_of_the_span() {
        let (base, cap) = (Duration::from_millis(100), Duration::from_millis(400));
        let retry = Retry::backing_off(99, base, cap);
        let mut rng = Rng::new(1);

        for (attempts, widest) in [(1, 100), (2, 200), (3, 400), (4, 400), (60, 400)] {
            let widest = Duration::from_millis(widest);
            let pauses: Vec<_> = (0..1_000)
                .filter_map(|_| next_pause(&retry, attempts, None, SECOND, &mut rng))
                .collect();
            assert_eq!(pauses.len(), 1_000);
            assert!(pauses.iter().all(|pause| *pause < widest));
            assert!(pauses.iter().any(|pause| *pause > widest.mul_f64(0.9)));
            assert!(pauses.iter().any(|pause| *pause < widest.mul_f64(0.1)));
        }
    }

    #[test]
    fn retry_after_is_kept_by_those_who_honour_it_and_ends_a_visit_it_does_not_fit_in() {
        let mut rng = Rng::new(1);
        let ignoring = Retry::at_once(3);
        let honouring = Retry {
            retry_after: RetryAfter::Honoured,
            ..ignoring
        };
        let wanted = Some(2 * SECOND);

        assert_eq!(
            next_pause(&ignoring, 1, wanted, SECOND, &mut rng),
            Some(Duration::ZERO)
        );
        assert_eq!(next_pause(&honouring, 1, wanted, SECOND, &mut rng), None);
        assert_eq!(
            next_pause(&honouring, 1, wanted, 3 * SECOND, &mut rng),
            wanted
        );
    }
}
