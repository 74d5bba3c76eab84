//! Keeps a balancer as it should be: looks, compares, sets, and reads back.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::adapter::{Adapter, Desired, Wanted};
use super::counts::ReconcileTally;
use crate::counts::Count;

/// Changes in one round; what is left over comes in the next one.
const OPS_MAX: usize = 1_000;
/// Longest time in which a round begins changes: as long as a verdict counts. To a balancer that hangs, each change
/// takes seconds, and what was wanted when the round began is no longer what is wanted.
const ROUND_TIME_MAX: Duration = Duration::from_secs(3);

/// A running reconciliation of one balancer, in a thread of its own. Dropping it ends it after the round under way.
#[derive(Debug)]
pub struct Reconciler {
    counts: Arc<Counts>,
    /// Ends the thread when it is dropped.
    _alive: mpsc::Sender<()>,
}

#[derive(Debug, Default)]
struct Counts {
    looks: Count,
    lost: Count,
    mismatches: Count,
    applied: Count,
    refused: Count,
    unsettled: Count,
}

impl Reconciler {
    /// Begins to look at a balancer every so often, and to make it what `desired` says then.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn start<A>(
        mut adapter: A,
        every: Duration,
        desired: impl Fn() -> Vec<Desired> + Send + 'static,
    ) -> io::Result<Self>
    where
        A: Adapter + Send + 'static,
    {
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let (alive, ended) = mpsc::channel::<()>();
        std::thread::Builder::new()
            .name("tidegate-reconcile".to_owned())
            .spawn(move || {
                let mut is_well = true;
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(every) {
                    let now = Instant::now();
                    let wanted: Vec<Wanted> = desired().iter().map(|it| it.at(now)).collect();
                    let looked = round(&mut adapter, now, &wanted, ROUND_TIME_MAX, &counted);
                    // Told once when it begins and once when it is over, and not every second.
                    match &looked {
                        Err(error) if is_well => {
                            tracing::warn!(balancer = adapter.name(), %error, "the balancer cannot be set; trying on");
                        }
                        Ok(()) if !is_well => {
                            tracing::info!(balancer = adapter.name(), "the balancer can be set again");
                        }
                        _ => {}
                    }
                    is_well = looked.is_ok();
                }
            })?;
        Ok(Self {
            counts,
            _alive: alive,
        })
    }

    /// Tells what was counted since the start, as often as it is asked, also after the end.
    pub fn teller(&self) -> impl Fn() -> ReconcileTally + Send + Sync + use<> {
        let counts = Arc::clone(&self.counts);
        move || counts.tally()
    }
}

impl Counts {
    fn tally(&self) -> ReconcileTally {
        ReconcileTally {
            looks: self.looks.read(),
            lost: self.lost.read(),
            mismatches: self.mismatches.read(),
            applied: self.applied.read(),
            refused: self.refused.read(),
            unsettled: self.unsettled.read(),
        }
    }
}

/// One look, the changes that follow from it and begin `within` so long, and a second look whether they did. The error is that
/// of a look, or the first of a change.
fn round<A: Adapter>(
    adapter: &mut A,
    now: Instant,
    wanted: &[Wanted],
    within: Duration,
    counts: &Counts,
) -> Result<(), A::Error> {
    let ops = look(adapter, now, wanted, counts)?;
    if ops.is_empty() {
        return Ok(());
    }
    counts.mismatches.add(ops.len() as u64);
    let begun = Instant::now();
    let (mut refused, mut tried) = (None, HashSet::new());
    for op in ops.iter().take(OPS_MAX) {
        if begun.elapsed() >= within {
            break;
        }
        tried.insert(op.to_string());
        match adapter.apply(op) {
            Ok(()) => {
                counts.applied.count();
                tracing::info!(balancer = adapter.name(), %op, "set");
            }
            Err(error) => {
                counts.refused.count();
                refused.get_or_insert(error);
            }
        }
    }
    let left = look(adapter, now, wanted, counts)?;
    // What has newly come about since is no failure of what was set, and neither is what waits for the next round.
    let left = left.iter().filter(|op| tried.contains(&op.to_string()));
    counts.unsettled.add(left.count() as u64);
    refused.map_or(Ok(()), Err)
}

fn look<A: Adapter>(
    adapter: &mut A,
    now: Instant,
    wanted: &[Wanted],
    counts: &Counts,
) -> Result<Vec<A::Op>, A::Error> {
    counts.looks.count();
    let observed = adapter.observe(now);
    let observed = observed.inspect_err(|_| counts.lost.count())?;
    Ok(adapter.plan(wanted, &observed))
}

#[cfg(test)]
mod tests {
    use tidegate_http::verdict::Told;

    use super::*;

    /// A balancer with one server, which has a weight, and may be deaf or gone.
    #[derive(Default)]
    struct Small {
        weight: u8,
        is_deaf: bool,
        is_gone: bool,
    }

    impl Adapter for Small {
        type Observed = u8;
        type Op = u8;
        type Error = &'static str;

        fn name(&self) -> &str {
            "small"
        }

        fn observe(&mut self, _: Instant) -> Result<u8, &'static str> {
            if self.is_gone {
                Err("gone")
            } else {
                Ok(self.weight)
            }
        }

        fn plan(&self, wanted: &[Wanted], observed: &u8) -> Vec<u8> {
            let wanted = wanted.iter().filter_map(|it| match it.told {
                Told::Serve(weight) => Some(weight),
                Told::Out | Told::Leave => None,
            });
            wanted.filter(|weight| weight != observed).collect()
        }

        fn apply(&mut self, op: &u8) -> Result<(), &'static str> {
            if !self.is_deaf {
                self.weight = *op;
            }
            Ok(())
        }
    }

    fn wanted(weight: u8) -> [Wanted; 1] {
        [Wanted {
            node: "a".to_owned(),
            told: Told::Serve(weight),
        }]
    }

    fn after(small: &mut Small, weight: u8) -> (Result<(), &'static str>, ReconcileTally) {
        within(ROUND_TIME_MAX, small, weight)
    }

    fn within(
        time: Duration,
        small: &mut Small,
        weight: u8,
    ) -> (Result<(), &'static str>, ReconcileTally) {
        let counts = Counts::default();
        let looked = round(small, Instant::now(), &wanted(weight), time, &counts);
        (looked, counts.tally())
    }

    #[test]
    fn what_differs_is_set_and_read_back() {
        let mut small = Small::default();

        let (_, first) = after(&mut small, 40);
        let (_, second) = after(&mut small, 40);

        assert_eq!(small.weight, 40);
        assert_eq!(
            (first.mismatches, first.applied, first.unsettled),
            (1, 1, 0)
        );
        assert_eq!(
            second,
            ReconcileTally {
                looks: 1,
                ..ReconcileTally::default()
            }
        );
    }

    #[test]
    fn what_does_not_follow_is_noticed() {
        let mut small = Small {
            is_deaf: true,
            ..Small::default()
        };

        let (_, tally) = after(&mut small, 40);

        assert_eq!((tally.applied, tally.unsettled), (1, 1));
    }

    #[test]
    fn what_does_not_fit_into_a_round_waits_and_is_no_failure() {
        let mut small = Small::default();

        let (looked, tally) = within(Duration::ZERO, &mut small, 40);

        assert_eq!(looked, Ok(()));
        assert_eq!(
            (tally.mismatches, tally.applied, tally.unsettled),
            (1, 0, 0)
        );
        assert_eq!(small.weight, 0);
    }

    #[test]
    fn a_balancer_that_is_gone_is_counted_and_set_nowhere() {
        let mut small = Small {
            is_gone: true,
            ..Small::default()
        };

        let (looked, tally) = after(&mut small, 40);

        assert_eq!(looked, Err("gone"));
        assert_eq!((tally.lost, tally.mismatches, tally.applied), (1, 0, 0));
    }

    #[tokio::test]
    async fn it_goes_round_by_itself_until_it_is_dropped() {
        let desired = || {
            vec![Desired {
                node: "a".to_owned(),
                verdict: tidegate_http::verdict::Verdict::UNKNOWN,
                valid_until: Instant::now(),
            }]
        };
        let reconciler =
            Reconciler::start(Small::default(), Duration::from_millis(1), desired).unwrap();
        let tally = reconciler.teller();

        tidegate_lab::patience::until_so("three looks", || tally().looks >= 3).await;

        assert_eq!(tally().applied, 1);
    }
}
