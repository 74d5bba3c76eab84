//! The gateway's state as `/status.json` shows it.

mod dependency;
pub(crate) mod room;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_core::facts::Class;
use tidegate_core::limit::Change;
use tidegate_core::rate::set::Standing;
use tidegate_http::refusal::Refusal;
use tidegate_store::redis::ShardStats;

pub use self::dependency::DependencyStatus;
pub use self::room::{NewcomerStatus, OrderStatus, PollStatus, RoomStatus, ToldStatus};
use crate::connections::{Connections, Kind};
use crate::context::{App, Thread};
use crate::metrics::{
    Cell, ClassCells, Completion, DESK_COUNTS, DESK_GAUGES, PASSING, RATE_COUNTS, SessionCells,
    WorkCells, total,
};
use crate::plan::Mode;
use crate::session::{BadCookie, Done, Dropped, Outcome};

/// What changes when a field changes its meaning or goes away. New fields do not change it.
pub const STATUS_VERSION: u32 = 1;

/// A gateway at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// [`STATUS_VERSION`].
    pub version: u32,
    /// `ready` or `draining`.
    pub state: String,
    /// Whether requests were refused for want of capacity in the last second.
    pub shedding: bool,
    /// Whether the loop of every thread comes round.
    pub alive: bool,
    /// Seconds since the start.
    pub uptime_seconds: f64,
    /// Client connections by kind: `normal`, `probe`, `overflow`.
    pub client_connections: BTreeMap<String, u32>,
    /// The applications, in the order of the configuration.
    pub apps: Vec<AppStatus>,
    /// What applications call, in the order of the configuration; absent when nothing is configured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<DependencyStatus>,
    /// Rate limits, in the order of the configuration; absent when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<RateStatus>,
    /// Waiting rooms, in the order of the configuration; absent when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rooms: Vec<RoomStatus>,
    /// Why the fleet lets in less than usual: what holds the weights of nodes still, as in `tidegate node list --json`;
    /// absent while it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet_slow: Option<String>,
    /// Counts of where sessions are kept; absent when none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desk: Option<BTreeMap<String, u64>>,
    /// The shards of the store of sessions; none when it is in this process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub store: Vec<ShardStatus>,
}

/// One shard of the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShardStatus {
    /// Its primary, as far as is known.
    pub primary: Option<String>,
    /// What its breaker lets through: `calls`, `probes` or `nothing`.
    pub lets: String,
    /// How often that has become nothing, since the start.
    pub trips: u64,
    /// How often its primary was lost, since the start.
    pub losses: u64,
}

/// One rate limit: counts since the start, of requests but for the last two.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RateStatus {
    /// Its name.
    pub name: String,
    /// Whether it only counts.
    pub shadow: bool,
    /// What became of requests in it: `passed`, `refused`, `shadow_refused`, `given_back`.
    pub requests: BTreeMap<String, u64>,
    /// The part of its rate that holds now, 0 to 1, where it follows the headroom of the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Why: `told` while that is said, `held` for what was said last, `nobody` for the whole rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_by: Option<String>,
    /// Keys that it remembers now.
    pub keys: u64,
    /// Keys that it forgot before they were full again, for want of room.
    pub evicted: u64,
}

/// One application.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AppStatus {
    /// Its name.
    pub name: String,
    /// `enforce` or `shadow`.
    pub mode: String,
    /// Requests that may be inside it at once.
    pub limit: u32,
    /// How that is found: `static`, `adaptive`, `aimd`, `vegas` or `gradient2`.
    #[serde(default)]
    pub limit_algorithm: String,
    /// The mean time to the first byte that the limit takes for the one without a queue, in
    /// milliseconds; absent while it is not known.
    pub limit_baseline_ms: Option<f64>,
    /// Present time to the first byte against that.
    pub limit_inflation: Option<f64>,
    /// Whether the limit is being moved on purpose, to see what throughput does.
    #[serde(default)]
    pub limit_probing: bool,
    /// The last changes of a limit that says why it changes, the oldest first.
    #[serde(default)]
    pub limit_changes: Vec<LimitChange>,
    /// Requests inside it.
    pub in_flight: u32,
    /// Requests in the queue.
    pub queued: u32,
    /// Requests that may be in the queue.
    pub queue_bound: u32,
    /// Bytes that queued requests hold.
    pub queue_bytes: u64,
    /// The longest time in the queue, in milliseconds.
    pub wait_max_ms: f64,
    /// The mean time that a slot is taken, in milliseconds; absent before the first.
    pub service_mean_ms: Option<f64>,
    /// Requests it finishes per second, as learnt.
    pub throughput_per_second: f64,
    /// Who is let in with `by_user`: `everybody`, or the class that is cut and how much of it is let
    /// in, as in `anonymous 91/128`.
    pub level: String,
    /// The share of the usual that is let in because the whole fleet is to let in less, 0 to 1; absent in no fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet_share: Option<f64>,
    /// Who that is, in the words of `level`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet_level: Option<String>,
    /// The part of the work that was in time, over the last one to two seconds in which any ended
    /// or was given up by its caller; absent before any has.
    pub in_time: Option<f64>,
    /// What began the escape from overload that feeds itself, while it lasts: `waste` or `stall`.
    pub escaping: Option<String>,
    /// What its breaker lets through: `calls`, `probes` or `nothing`; absent when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker_lets: Option<String>,
    /// Connections to it that wait for a request.
    pub upstream_idle: u32,
    /// Connections to it that have one.
    pub upstream_busy: u32,
    /// Bytes of answers that wait for slow clients.
    pub response_buffer_bytes: u64,
    /// Requests whose class nothing told.
    pub unlabelled: u64,
    /// By class.
    pub classes: BTreeMap<String, ClassStatus>,
    /// Its sessions; absent when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionStatus>,
}

/// The sessions of one application: counts since the start, those that never were left out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Requests, by what became of their session.
    pub requests: BTreeMap<String, u64>,
    /// What was done by headers of answers.
    pub changes: BTreeMap<String, u64>,
    /// What was asked for and not done, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Cookies of ours that were of no use, by reason.
    pub bad_cookies: BTreeMap<String, u64>,
}

/// One change of a limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LimitChange {
    /// When, in seconds of uptime.
    pub at_seconds: f64,
    /// The limit before.
    pub from: f64,
    /// The limit since.
    pub to: f64,
    /// Why.
    pub verdict: String,
    /// Latency against the baseline.
    pub inflation: f64,
    /// The inflation from which on latency means a queue.
    pub threshold: f64,
    /// What throughput did with a change of the limit, as a part of that change; only after a probe.
    pub response: Option<f64>,
    /// Requests finished per second.
    pub throughput_per_second: f64,
}

/// One class of one application. All but the first two are counts since the start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Requests inside the application.
    pub in_flight: u32,
    /// Requests in the queue.
    pub queued: u32,
    /// Requests that arrived.
    pub arrivals: u64,
    /// Requests let in at once.
    pub admitted_at_once: u64,
    /// Requests let in after a wait.
    pub admitted_waited: u64,
    /// Requests answered without the application, by reason; reasons that never were are left out.
    pub refused: BTreeMap<String, u64>,
    /// Finished requests, by what that was worth to the caller: `in_time`, `late`, `gone`.
    pub completions: BTreeMap<String, u64>,
    /// The slot time they took, in seconds.
    pub worker_seconds: BTreeMap<String, f64>,
}

impl Status {
    pub(crate) fn of(threads: &[Arc<Thread>], connections: &Connections) -> Self {
        let shared = &threads.first().expect("a gateway has a thread").shared;
        let now = shared.clock.now();
        Self {
            version: STATUS_VERSION,
            state: if shared.is_draining() {
                "draining"
            } else {
                "ready"
            }
            .to_owned(),
            shedding: shared.health.is_shedding(),
            alive: shared.health.is_alive(now),
            uptime_seconds: now.as_nanos() as f64 / 1e9,
            client_connections: Kind::ALL
                .into_iter()
                .map(|kind| (kind.label().to_owned(), connections.open(kind)))
                .collect(),
            apps: (shared.applications().iter().enumerate())
                .map(|(index, app)| AppStatus::of(threads, index, app))
                .collect(),
            dependencies: DependencyStatus::all(threads),
            limits: RateStatus::all(threads),
            rooms: RoomStatus::all(&shared.halls, now),
            fleet_slow: shared.heard.why(),
            store: (shared.desk.iter())
                .flat_map(|desk| desk.servers().shards)
                .map(|shard| ShardStatus::of(&shard))
                .collect(),
            desk: shared.desk.as_ref().map(|desk| {
                let stats = desk.stats();
                let rows = DESK_COUNTS.into_iter().chain(DESK_GAUGES);
                rows.map(|(name, _, of)| (name.to_owned(), of(&stats)))
                    .collect()
            }),
        }
    }
}

impl RateStatus {
    fn all(threads: &[Arc<Thread>]) -> Vec<Self> {
        let rates = threads.first().map(|thread| &thread.shared.rates);
        let limits = rates.into_iter().flat_map(|rates| {
            let limits = rates.limits().iter().enumerate();
            limits.map(move |(at, limit)| (limit, at, rates.keys(at), rates.share(limit)))
        });
        let limits = limits.map(|(limit, at, keys, share)| Self {
            name: limit.plan.name.clone(),
            shadow: limit.plan.standing == Standing::Shadow,
            requests: RATE_COUNTS
                .iter()
                .map(|(label, of)| {
                    let count = total(threads, |recorder| of(&recorder.rates[at]));
                    ((*label).to_owned(), count)
                })
                .collect(),
            share: share.map(|(share, _)| share),
            share_by: share.map(|(_, by)| by.name().to_owned()),
            keys: keys.kept,
            evicted: keys.forgotten,
        });
        limits.collect()
    }
}

impl AppStatus {
    fn of(threads: &[Arc<Thread>], index: usize, app: &App) -> Self {
        let gate = app.gate.snapshot();
        let upstream = app.upstream.connections();
        let slowed = app.gate.slowed();
        let classes = Class::ALL.into_iter().map(|class| {
            let in_flight = gate.in_flight_by_class[class.index()];
            let queued = gate.queued_by_class[class.index()];
            let status = ClassStatus::of(threads, index, class, in_flight, queued);
            (class.name().to_owned(), status)
        });
        Self {
            name: app.plan.name.clone(),
            mode: match app.plan.mode {
                Mode::Enforce => "enforce",
                Mode::Shadow => "shadow",
            }
            .to_owned(),
            limit: gate.limit,
            limit_algorithm: app.plan.limit.name().to_owned(),
            limit_baseline_ms: gate.insight.baseline.map(|span| span.as_secs_f64() * 1e3),
            limit_inflation: gate.insight.inflation,
            limit_probing: gate.insight.probing,
            limit_changes: app
                .gate
                .limit_changes()
                .iter()
                .map(LimitChange::of)
                .collect(),
            in_flight: gate.in_flight,
            queued: gate.queued,
            queue_bound: gate.queue_bound,
            queue_bytes: gate.queued_bytes,
            wait_max_ms: gate.wait_max.as_secs_f64() * 1e3,
            service_mean_ms: gate.service_mean.map(|mean| mean.as_secs_f64() * 1e3),
            throughput_per_second: gate.throughput,
            level: gate.level.to_string(),
            fleet_share: slowed.map(|(share, _)| share),
            fleet_level: slowed.map(|(_, level)| level.to_string()),
            in_time: gate.in_time,
            escaping: gate.recovery.escaping.map(|by| by.name().to_owned()),
            breaker_lets: app
                .breaker
                .as_ref()
                .map(|breaker| breaker.lets().to_owned()),
            upstream_idle: upstream.idle,
            upstream_busy: upstream.busy,
            response_buffer_bytes: upstream.response_buffer_bytes,
            unlabelled: total(threads, |recorder| &recorder.apps[index].unlabelled),
            classes: classes.collect(),
            sessions: app
                .plan
                .sessions
                .as_ref()
                .map(|_| SessionStatus::of(threads, index)),
        }
    }
}

impl ShardStatus {
    fn of(shard: &ShardStats) -> Self {
        let lets = PASSING
            .iter()
            .find(|(passing, _)| *passing == shard.passing);
        Self {
            primary: shard.primary.as_ref().map(ToString::to_string),
            lets: lets.map_or_else(String::new, |(_, lets)| (*lets).to_owned()),
            trips: shard.trips.iter().sum(),
            losses: shard.losses,
        }
    }
}

impl SessionStatus {
    fn of(threads: &[Arc<Thread>], app: usize) -> Self {
        let count = |label: &'static str, of: &dyn Fn(&SessionCells) -> &Cell| {
            let count = total(threads, |recorder| of(&recorder.apps[app].sessions));
            (count > 0).then(|| (label.to_owned(), count))
        };
        let requests = Outcome::ALL
            .into_iter()
            .filter_map(|it| count(it.label(), &|cells| &cells.outcomes[it.index()]));
        let changes = Done::ALL
            .into_iter()
            .filter_map(|it| count(it.label(), &|cells| &cells.done[it.index()]));
        let dropped = Dropped::ALL
            .into_iter()
            .filter_map(|it| count(it.label(), &|cells| &cells.dropped[it.index()]));
        let bad_cookies = BadCookie::ALL
            .into_iter()
            .filter_map(|it| count(it.label(), &|cells| &cells.bad_cookies[it.index()]));
        Self {
            requests: requests.collect(),
            changes: changes.collect(),
            dropped: dropped.collect(),
            bad_cookies: bad_cookies.collect(),
        }
    }
}

impl LimitChange {
    fn of(change: &Change) -> Self {
        let Change {
            at,
            from,
            to,
            inflation,
            threshold,
            response,
            throughput,
            verdict,
        } = *change;
        Self {
            at_seconds: at.as_nanos() as f64 / 1e9,
            from,
            to,
            verdict: verdict.name().to_owned(),
            inflation,
            threshold,
            response,
            throughput_per_second: throughput,
        }
    }
}

impl ClassStatus {
    fn of(threads: &[Arc<Thread>], app: usize, class: Class, in_flight: u32, queued: u32) -> Self {
        let sum = |of: &dyn Fn(&ClassCells) -> &Cell| {
            total(threads, |recorder| {
                of(&recorder.apps[app].classes[class.index()])
            })
        };
        let refused = Refusal::ALL.into_iter().map(|refusal| {
            let count = sum(&|cells| &cells.refused[refusal.index()]);
            (refusal.label().to_owned(), count)
        });
        let routes = threads
            .first()
            .map_or(0, |thread| thread.recorder.apps[app].routes.len());
        let work = |of: &dyn Fn(&WorkCells) -> &Cell| -> u64 {
            (0..routes)
                .map(|route| {
                    total(threads, |recorder| {
                        of(&recorder.apps[app].routes[route][class.index()])
                    })
                })
                .sum()
        };
        let completions = Completion::ALL.map(|completion| {
            let count = work(&|cells| &cells.completions[completion.index()]);
            (completion.label().to_owned(), count)
        });
        let worker_seconds = Completion::ALL.map(|completion| {
            let nanos = work(&|cells| &cells.slot_nanos[completion.index()]);
            (completion.label().to_owned(), nanos as f64 / 1e9)
        });
        Self {
            in_flight,
            queued,
            arrivals: sum(&|cells| &cells.arrivals),
            admitted_at_once: sum(&|cells| &cells.admitted_at_once),
            admitted_waited: sum(&|cells| &cells.admitted_waited),
            refused: refused.filter(|(_, count)| *count > 0).collect(),
            completions: completions.into(),
            worker_seconds: worker_seconds.into(),
        }
    }
}
