//! What holds for this node and for the others, as balancers are told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_core::health::{self, VERDICT_LEASE};
use tidegate_core::time::Mono;
use tidegate_fleet::balancer::Desired;
use tidegate_fleet::control::{Standing, TICK, Told};
use tidegate_gateway::FleetWord;
use tidegate_http::verdict::{Binding, Board, Load, State, Verdict};
use tidegate_store::{Call, Fence, Fleet, Issue};
use tokio::time::MissedTickBehavior;

/// What was decided about every node, for balancers that are told of all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Everybody(Arc<Mutex<Decided>>);

/// What was decided last.
#[derive(Debug, Default)]
struct Decided {
    /// Which decision it was, and until when it holds; `None` before the first.
    last: Option<((Fence, u64), Instant)>,
    nodes: Vec<Node>,
}

/// What is wanted of a node.
#[derive(Debug)]
struct Node {
    desired: Desired,
    /// When an order to drain it is over by itself; `None` until it is taken back, or without any.
    drained_until: Option<Instant>,
}

impl Everybody {
    /// What was decided last. It says itself until when it holds.
    pub(crate) fn desired(&self) -> Vec<Desired> {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> Vec<Desired> {
        let decided = self.lock();
        decided.nodes.iter().map(|node| node.at(now)).collect()
    }

    /// Takes in what `issue` says, for which was asked at `asked`.
    ///
    /// What was heard before is no news and lasts no longer for being repeated: the store's clock may have gone back since a leader
    /// that is dead has said it. A lower fence is a former leader's, and counts only when the later one has fallen silent.
    fn hear(&self, issue: &Issue, asked: Instant) {
        let stamp = &issue.stamp;
        let which = (stamp.fence, stamp.generation);
        let mut decided = self.lock();
        if let Some((heard, until)) = decided.last {
            let (is_news, is_former, is_over) = (which > heard, which < heard, until <= asked);
            if !(is_news || is_former && is_over) {
                return;
            }
        }
        let left = stamp.until.since(issue.now).min(VERDICT_LEASE);
        decided.last = Some((which, asked + left));
        decided.nodes = nodes(issue, asked, left);
    }

    fn lock(&self) -> MutexGuard<'_, Decided> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads once a second what `fleet` decides, for ever. What cannot be read is over when its time is.
    pub(super) async fn follow(self, fleet: Fleet, timeout: Duration) -> std::convert::Infallible {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let asked = Instant::now();
            if let Ok(Some(issue)) = fleet.published(Call::within(timeout)).await {
                self.hear(&issue, asked);
            }
        }
    }
}

impl Node {
    fn at(&self, now: Instant) -> Desired {
        let mut desired = self.desired.clone();
        if self.drained_until.is_some_and(|until| until <= now) {
            desired.verdict.drain = false;
        }
        desired
    }
}

/// What `issue`, for which was asked at `asked`, says of each node, for as long as is `left` of it.
fn nodes(issue: &Issue, asked: Instant, left: Duration) -> Vec<Node> {
    let verdicts = issue.verdicts.iter();
    verdicts
        .filter_map(|(node, said)| {
            let told = Told::decode(said)?;
            let order = told.drain.as_ref().and_then(|drain| drain.left_ms);
            Some(Node {
                desired: Desired {
                    node: node.to_string(),
                    verdict: verdict(&told.verdict(Mono::default()), told.is_drained()),
                    valid_until: asked + left,
                },
                drained_until: order.and_then(|ms| asked.checked_add(Duration::from_millis(ms))),
            })
        })
        .collect()
}

/// Puts up on `board` what holds at `now`, with the `load` that the node carries, where that is measured. What nobody renews
/// is over with the lease; then holds what the node says of itself, and after that it is healthy.
///
/// Both at once: a leader falls silent between two ticks, and a full node that were healthy until the next would be sent all
/// that it was to be spared.
pub(super) fn put_up(board: &Board, standing: &Standing, load: Option<health::Load>, now: Mono) {
    let drains = standing.drain.is_some();
    let left = standing.verdict.valid_until.since(now);
    // An order to drain is no evidence: it holds though nobody knows how the node is.
    let lease = if drains {
        VERDICT_LEASE
    } else {
        left.min(VERDICT_LEASE)
    };
    let load = load.filter(|load| now.since(load.at) < VERDICT_LEASE);
    let load = load.map(|load| Load {
        utilization: load.utilisation,
        error_ratio: load.error_ratio,
        completed_per_s: load.completed_rps,
    });
    let verdict = Verdict {
        load,
        ..verdict(&standing.verdict, drains)
    };
    // A load is measured whether or not anybody judges it: a verdict that is over is put up as the one that nobody has said.
    let (verdict, lease) = if lease.is_zero() {
        let unknown = Verdict {
            load: verdict.load,
            ..Verdict::UNKNOWN
        };
        (unknown, VERDICT_LEASE)
    } else {
        (verdict, lease)
    };
    let own = standing.own.map(|own| {
        let lasts = own.valid_until.since(now).min(VERDICT_LEASE);
        let own = Verdict {
            load,
            ..self::verdict(&own, drains)
        };
        (own, lasts)
    });
    match own {
        Some(own) => board.post_with(verdict, lease, own),
        None => board.post(verdict, lease),
    }
}

/// What the data path is told of the whole fleet at `now`; nothing when nobody says anything, and then what it was told
/// last is over with its time.
pub(super) fn of_fleet(standing: &Standing, now: Mono) -> Option<FleetWord> {
    let word = standing.word.as_ref()?;
    let lasts = standing.word_until.since(now).min(VERDICT_LEASE);
    let is_slow = word.admission < 1.0;
    Some(FleetWord {
        admission: word.admission,
        room: word.room,
        budgets: word.budgets.clone(),
        spare_rps: word.spare_rps,
        utilisation: word.utilisation,
        // Behind what it came from it may take a while until everything is let in again.
        why: is_slow.then(|| word.freeze.clone().unwrap_or_else(|| "recovers".to_owned())),
        lasts,
    })
}

fn verdict(it: &health::Verdict, drain: bool) -> Verdict {
    Verdict {
        state: match it.state {
            health::State::Healthy => State::Healthy,
            health::State::Stressed => State::Stressed,
            health::State::Saturated => State::Saturated,
            health::State::Unknown => State::Unknown,
        },
        weight: it.weight,
        drain,
        kept: it.guard.is_some(),
        headroom: it.left,
        binding: it.binding.zip(it.left).map(|(dimension, left)| Binding {
            dimension: dimension.name(),
            used: 1.0 - left,
        }),
        load: None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tidegate_core::health::Dimension;
    use tidegate_core::session::Name;
    use tidegate_core::time::Wall;
    use tidegate_fleet::control::{Drained, Word};
    use tidegate_http::verdict;
    use tidegate_store::Stamp;

    use super::*;

    fn standing(state: health::State, until: u64) -> Standing {
        Standing {
            verdict: health::Verdict {
                state,
                weight: 40,
                left: Some(0.25),
                binding: Some(Dimension::Threads),
                valid_until: Mono::from_millis(until),
                ..health::Verdict::UNKNOWN
            },
            ..Standing::SILENCE
        }
    }

    #[test]
    fn a_balancer_is_told_what_was_decided_and_why() {
        let board = Board::default();

        put_up(
            &board,
            &standing(health::State::Stressed, 60_000),
            None,
            Mono::default(),
        );

        let told = board.current();
        assert_eq!((told.state, told.weight), (State::Stressed, 40));
        let binding = told.binding.unwrap();
        assert_eq!((binding.dimension, binding.used), ("threads", 0.75));
    }

    #[test]
    fn a_full_node_whose_leader_falls_silent_goes_by_its_own_word_without_a_gap() {
        let board = Board::default();
        let full = Standing {
            own: Some(standing(health::State::Stressed, 60_000).verdict),
            ..standing(health::State::Saturated, 1_001)
        };

        put_up(&board, &full, None, Mono::from_millis(1_000));
        // However often balancers ask while the last millisecond of it ends.
        let later = loop {
            let told = board.current();
            if told.state != State::Saturated {
                break told;
            }
        };

        assert_eq!((later.state, later.weight), (State::Stressed, 40));
    }

    #[test]
    fn what_is_over_is_no_verdict() {
        let board = Board::default();

        let over = standing(health::State::Saturated, 1_000);
        put_up(&board, &over, None, Mono::from_millis(1_000));

        assert_eq!(board.current(), Verdict::UNKNOWN);
    }

    #[test]
    fn a_load_is_reported_while_it_is_fresh_whoever_judges() {
        let load = health::Load {
            offered_rps: 9.0,
            completed_rps: 8.0,
            error_ratio: 0.25,
            utilisation: 0.5,
            at: Mono::from_millis(1_000),
        };
        for until in [60_000, 0] {
            let board = Board::default();
            let standing = standing(health::State::Stressed, until);

            put_up(&board, &standing, Some(load), Mono::from_millis(3_999));
            let report = board.report().unwrap();
            put_up(&board, &standing, Some(load), Mono::from_millis(4_000));

            let expected = "TEXT application_utilization=0.750,rps_fractional=80.000";
            assert_eq!(report, expected, "until {until}");
            assert_eq!(board.report(), None);
        }
    }

    #[test]
    fn the_data_path_is_told_for_as_long_as_it_counts() {
        let mut standing = standing(health::State::Healthy, 60_000);
        standing.word = Some(Word {
            admission: 0.6,
            room: Some(0.4),
            freeze: Some("dependency".to_owned()),
            spare_rps: Some(120.0),
            utilisation: Some(0.8),
            ..Word::default()
        });
        standing.word_until = Mono::from_millis(3_000);

        let word = of_fleet(&standing, Mono::from_millis(1_000)).unwrap();

        assert_eq!((word.admission, word.room), (0.6, Some(0.4)));
        assert_eq!((word.spare_rps, word.utilisation), (Some(120.0), Some(0.8)));
        assert_eq!(word.why.as_deref(), Some("dependency"));
        assert_eq!(word.lasts, Duration::from_secs(2));
        standing.word = None;
        assert_eq!(of_fleet(&standing, Mono::from_millis(1_000)), None);
    }

    #[test]
    fn a_node_that_drains_leaves_though_nobody_knows_how_it_is() {
        let board = Board::default();
        let mut standing = Standing::SILENCE;
        standing.drain = Some(Drained {
            by: "ann".to_owned(),
            why: None,
            since_ms: None,
            left_ms: None,
            is_done: true,
        });

        put_up(&board, &standing, None, Mono::from_millis(1_000));

        assert_eq!(board.current().told(), verdict::Told::Leave);
    }

    const SAID: u64 = 1_790_000_000_000_000;

    /// What was published about shop-1 at 0 s of the store's clock, as it is read when that says `now_ms`.
    fn issue(generation: u64, told: &Told, now_ms: i64) -> Issue {
        let wall = |ms: i64| Wall::from_micros(SAID.saturating_add_signed(ms * 1_000));
        Issue {
            now: wall(now_ms),
            stamp: Stamp {
                fence: Fence(1),
                generation,
                at: wall(0),
                until: wall(3_000),
            },
            fleet: Vec::new(),
            verdicts: BTreeMap::from([(Name::new("shop-1").unwrap(), told.encode())]),
        }
    }

    /// What a balancer is told of shop-1 so many milliseconds after `begun`.
    fn told_at(everybody: &Everybody, begun: Instant, ms: u64) -> verdict::Told {
        let now = begun + Duration::from_millis(ms);
        let [desired] = &everybody.at(now)[..] else {
            panic!("one node");
        };
        assert_eq!(desired.node, "shop-1");
        desired.at(now).told
    }

    #[test]
    fn what_was_published_counts_for_what_is_left_of_its_time_and_no_longer() {
        let full = Told::of(health::State::Saturated, 0);
        let (everybody, begun) = (Everybody::default(), Instant::now());

        everybody.hear(&issue(1, &full, 1_000), begun);

        assert_eq!(told_at(&everybody, begun, 1_999), verdict::Told::Out);
        assert_eq!(told_at(&everybody, begun, 2_000), verdict::Told::Serve(100));
        let (late, full) = (Everybody::default(), issue(1, &full, 9_000));
        late.hear(&full, begun);
        assert_eq!(told_at(&late, begun, 0), verdict::Told::Serve(100));
    }

    #[test]
    fn a_dead_leaders_word_is_over_in_time_though_the_stores_clock_goes_back() {
        let full = Told::of(health::State::Saturated, 0);
        let (everybody, begun) = (Everybody::default(), Instant::now());
        for second in 0..10 {
            let asked = begun + Duration::from_secs(second);
            everybody.hear(&issue(1, &full, -3_600_000), asked);
        }

        assert_eq!(told_at(&everybody, begun, 2_999), verdict::Told::Out);
        assert_eq!(told_at(&everybody, begun, 3_000), verdict::Told::Serve(100));

        let asked = begun + Duration::from_secs(10);
        everybody.hear(&issue(2, &full, -3_600_000), asked);
        assert_eq!(told_at(&everybody, asked, 0), verdict::Told::Out, "news");
    }

    #[test]
    fn a_drained_node_stays_out_while_nobody_says_anything_until_its_time_is_over() {
        let begun = Instant::now();
        for (left_ms, later) in [
            (None, verdict::Told::Leave),
            (Some(60_000), verdict::Told::Serve(100)),
        ] {
            let mut told = Told::of(health::State::Unknown, 0);
            told.drain = Some(Drained {
                by: "ann".to_owned(),
                why: None,
                since_ms: None,
                left_ms,
                is_done: true,
            });
            let everybody = Everybody::default();

            everybody.hear(&issue(1, &told, 0), begun);

            assert_eq!(told_at(&everybody, begun, 59_999), verdict::Told::Leave);
            assert_eq!(told_at(&everybody, begun, 60_000), later, "{left_ms:?}");
        }
    }
}
