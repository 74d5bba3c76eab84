//! What applications depend on: `[[dependency]]`.

mod fleet;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::admission;
use tidegate_core::breaker::BreakerPlan;
use tidegate_core::facts::GroupId;
use tidegate_core::limit::Kind;
use tidegate_core::queue::Discipline;
use tidegate_core::rate::{Algorithm, BucketSpec, Rate, Spec};
use tidegate_gateway::FollowPlan;
use tidegate_gateway::breaker::{CallBreakerPlan, Judges};
use tidegate_gateway::dependency::{DependencyPlan, EgressPlan, PermitPlan};
use tidegate_gateway::plan::{
    AppPlan, Matcher, Mode, OnClientGone, PathPattern, RoutePlan, UpstreamPlan,
};
use tidegate_gateway::session::RouteSession;
use tidegate_http::local::Listen;

use super::app::{refuse_own_address, upstream_address};
use super::bulkheads;
use super::keys::dependency::DEPENDENCY;
use super::listener::non_zero;
use super::local;
use super::name::Names;
use super::problem::Problems;
use super::rates;
use super::section::Section;

/// More names than this nobody reads in a metric.
const DEPENDENCIES_MAX: usize = 100;
/// The most calls that wait, for each that may be under way.
const WAITING_PER_CALL: u32 = 8;
/// Memory for answers that are read ahead of an application, each and all together.
const RESPONSE_BUFFER_BYTES: usize = 256 * 1024;
const RESPONSE_BUFFERS_BYTES: usize = 64 * 1024 * 1024;
/// Memory that calls that wait may hold.
const QUEUE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The shortest time that the door of a dependency aims at, where nothing waits at all.
const HOLD_MIN: Duration = Duration::from_millis(10);

/// What stands around dependencies.
pub(crate) struct Around<'a> {
    /// Addresses of Tidegate's own, at which none of them may be or listen.
    pub(crate) own: &'a [SocketAddr],
    pub(crate) sidecar: Option<&'a Listen>,
    /// Whether this gateway is a node of a fleet.
    pub(crate) in_fleet: bool,
    /// Whether gateways share a store of limits.
    pub(crate) shares_limits: bool,
    /// How many of them there should be.
    pub(crate) nodes: u32,
}

/// The dependencies at `[[dependency]]`.
pub(crate) fn dependencies(
    root: &Section<'_>,
    around: &Around<'_>,
    problems: &Problems,
) -> Vec<DependencyPlan> {
    let nodes = root.sections("dependency", "[[dependency]]");
    let mut names = Names::reserving("", "dependency");
    let mut plans: Vec<DependencyPlan> = Vec::new();
    if nodes.len() > DEPENDENCIES_MAX {
        root.refuse(
            "dependency",
            format!("{} dependencies", nodes.len()),
            format!("write at most {DEPENDENCIES_MAX}"),
        );
        return plans;
    }
    let mut own = around.own.to_vec();
    for node in nodes {
        let section = Section::new("[[dependency]]", node, DEPENDENCY, &["reserve"], problems);
        let name = section.text("name");
        names.take(&section, name);
        let plan = dependency(&section, name, &own, around, problems);
        if let Some(egress) = &plan.egress {
            let earlier = plans.iter().filter_map(|other| other.egress.as_ref());
            let mut taken = earlier.map(|other| &other.listen).chain(around.sidecar);
            if let Listen::Socket(_) = egress.listen
                && taken.any(|other| *other == egress.listen)
                && section.sound(&["listen"])
            {
                section.refuse(
                    "listen",
                    format!(
                        "{} is taken by another listener of Tidegate's own",
                        egress.listen
                    ),
                    "give each a path of its own",
                );
            }
            own.extend(local::address(&egress.listen));
        }
        plans.push(plan);
    }
    plans
}

fn dependency(
    section: &Section<'_>,
    name: &str,
    own: &[SocketAddr],
    around: &Around<'_>,
    problems: &Problems,
) -> DependencyPlan {
    let concurrency = concurrency(section);
    let wait_max = section.span("wait");
    let timeout = section.span("timeout");
    let upstream = upstream(section, concurrency, timeout);
    let egress = egress(section, &upstream, own);
    let bulkheads = bulkheads::of_dependency(section, concurrency, problems);
    let permits = permits(section);
    let follows = headroom(section, problems, around);
    DependencyPlan {
        fleet: fleet::fleet(section, concurrency, &bulkheads, permits.lease, around),
        app: AppPlan {
            name: name.to_owned(),
            hosts: Vec::new(),
            path_prefix: "/".to_owned(),
            upstream,
            breaker: breaker(section, timeout),
            mode: Mode::Enforce,
            on_client_gone: match section.choice("on_client_gone") {
                Some("free") => OnClientGone::Free,
                _ => OnClientGone::Hold,
            },
            limit: Kind::Static(concurrency),
            journal: None,
            warm_start: None,
            admission: admission::Config {
                // The longest wait is at least half of it, and we wait for no longer than `wait` anyway.
                hold: (2 * wait_max).max(HOLD_MIN),
                queue_max: match wait_max.is_zero() {
                    true => 0,
                    false => concurrency.get().saturating_mul(WAITING_PER_CALL),
                },
                queue_bytes_max: QUEUE_BYTES_MAX,
                discipline: Discipline::AdaptiveLifo,
                bulkheads,
                routes: 1,
                escape: false,
                level: false,
            },
            routes: vec![only_route(wait_max + timeout)],
            groups: Vec::new(),
            session_cookies: Vec::new(),
            sessions: None,
            static_extensions: Vec::new(),
        },
        egress,
        rate: rate(section, follows.as_ref()),
        follows,
        wait_max,
        permits,
    }
}

fn concurrency(section: &Section<'_>) -> NonZeroU32 {
    let concurrency = section.count_if_set("concurrency").unwrap_or_else(|| {
        section.refuse(
            "concurrency",
            "[[dependency]] needs `concurrency`",
            "add concurrency = 20, say: how many calls it can work on at once, for this gateway",
        );
        1
    });
    non_zero(concurrency)
}

fn only_route(patience: Duration) -> RoutePlan {
    RoutePlan {
        name: "calls".to_owned(),
        matches: Matcher {
            methods: Vec::new(),
            paths: vec![PathPattern::parse("/**").expect("the pattern for everything is one")],
            headers: Vec::new(),
        },
        class: None,
        group: GroupId(0),
        patience,
        session: RouteSession::default(),
        dependencies: Vec::new(),
        room: None,
    }
}

fn upstream(section: &Section<'_>, concurrency: NonZeroU32, timeout: Duration) -> UpstreamPlan {
    let address = match section.has("url") {
        true => upstream_address(section, "url"),
        false => None,
    };
    let (host, port) = address.unwrap_or_else(|| ("127.0.0.1".to_owned(), 0));
    UpstreamPlan {
        host,
        port,
        // Every call under way has one.
        connections_max: concurrency,
        keep_alive: section.switch("keep_alive"),
        idle_timeout: section.span("idle_timeout"),
        connect_timeout: section.span("connect_timeout"),
        response_timeout: timeout,
        body_timeout: section.span("response_body_timeout"),
        response_buffer_max: RESPONSE_BUFFER_BYTES,
        response_buffers_max: RESPONSE_BUFFERS_BYTES,
    }
}

/// The listener for calls, if there is one. It and the address that it leads to are of use together only.
fn egress(
    section: &Section<'_>,
    upstream: &UpstreamPlan,
    own: &[SocketAddr],
) -> Option<EgressPlan> {
    for (key, other, fix) in [
        (
            "url",
            "listen",
            "add listen = \"127.0.0.1:9101\", say, and let the application call the dependency there; or remove url",
        ),
        (
            "listen",
            "url",
            "add url = \"http://…\", where the dependency is, or remove listen",
        ),
    ] {
        if section.has(key) && !section.has(other) {
            section.refuse(key, format!("`{key}` has no effect without `{other}`"), fix);
        }
    }
    if !section.has("listen") {
        return None;
    }
    let example = local::Example {
        socket: "unix:/run/tidegate/recommendations.sock",
        address: "127.0.0.1:9101",
        exposed: "other machines would call the dependency through it",
    };
    let listen = local::listen(section, &example, own);
    if section.has("url") {
        // At its own listener it would call itself until no connection is left.
        let own: Vec<_> = own.iter().copied().chain(local::address(&listen)).collect();
        refuse_own_address(section, "url", "the dependency's", upstream, &own);
    }
    Some(EgressPlan {
        listen,
        connections_max: section.count("connections_max") as usize,
    })
}

/// How what may be asked of it follows what is left of it, if it does.
fn headroom(section: &Section<'_>, problems: &Problems, around: &Around<'_>) -> Option<FollowPlan> {
    let follows = rates::follows(section, problems, around.in_fleet)?;
    if section.choice("scope") == Some("fleet") {
        section.refuse(
            "headroom",
            "calls that count over all gateways do so by one number in the store, which follows nothing",
            "write scope = \"node\" and a concurrency of the whole divided by the number of gateways, or remove headroom",
        );
        return None;
    }
    Some(follows)
}

fn rate(section: &Section<'_>, follows: Option<&FollowPlan>) -> Option<(Rate, BucketSpec)> {
    if !section.has("rate") {
        if section.has("burst") {
            section.refuse(
                "burst",
                "`burst` has no effect without `rate`",
                "add rate = \"100/s\", say, or remove burst",
            );
        }
        return None;
    }
    let rate = rates::rate(section)?;
    match rates::spec(section, Algorithm::Bucket, rate)? {
        whole @ Spec::Bucket(_) => match rates::counted(section, Some(whole), follows)? {
            Spec::Bucket(counted) => Some((rate, counted)),
            _ => None,
        },
        // A rate of nothing.
        _ => {
            section.refuse(
                "rate",
                "a dependency that may never be called",
                "write a rate above zero, or remove the dependency",
            );
            None
        }
    }
}

fn permits(section: &Section<'_>) -> PermitPlan {
    let (lease, hold_max) = (section.span("lease"), section.span("hold_max"));
    if lease > hold_max && section.sound(&["lease", "hold_max"]) {
        section.refuse(
            "lease",
            "`lease` is longer than `hold_max`, so no permit would ever be renewed",
            "write lease ≤ hold_max",
        );
    }
    PermitPlan { lease, hold_max }
}

fn breaker(section: &Section<'_>, timeout: Duration) -> Option<CallBreakerPlan> {
    const KEYS: [&str; 3] = ["breaker_failures", "breaker_pause", "breaker_pause_max"];
    let [pause, pause_max] = ["breaker_pause", "breaker_pause_max"].map(|key| section.span(key));
    let failures = section.count("breaker_failures");
    if !section.switch("breaker") {
        for key in KEYS {
            if section.has(key) {
                section.refuse(
                    key,
                    format!("`{key}` has no effect: there is no breaker"),
                    format!("remove {key}, or breaker = false"),
                );
            }
        }
        return None;
    }
    if pause > pause_max && section.sound(&KEYS) {
        section.refuse(
            "breaker_pause",
            "`breaker_pause` is longer than `breaker_pause_max`",
            "the first pause is the shortest: write breaker_pause ≤ breaker_pause_max",
        );
    }
    Some(CallBreakerPlan {
        breaker: BreakerPlan {
            failures,
            tripped_min: pause,
            tripped_max: pause_max,
            // An answer in time is a good one.
            probe_within: timeout,
            ..BreakerPlan::CALLS
        },
        judges: Judges::Statuses,
    })
}

#[cfg(test)]
mod tests;
