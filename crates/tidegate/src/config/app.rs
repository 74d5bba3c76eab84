//! One application: where it is, what it serves, how it is protected.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

use tidegate_core::admission;
use tidegate_core::breaker::BreakerPlan;
use tidegate_core::limit::Kind;
use tidegate_core::queue::Discipline;
use tidegate_gateway::breaker::{CallBreakerPlan, Judges};
use tidegate_gateway::dependency::DependencyPlan;
use tidegate_gateway::plan::{AppPlan, Mode, OnClientGone, UpstreamPlan};
use tidegate_http::path;

use super::bulkheads;
use super::files;
use super::keys::APP;
use super::limit;
use super::listener::{non_zero, usize_of};
use super::name::Names;
use super::problem::Problems;
use super::route;
use super::section::Section;
use super::sessions::{self, Sessions};
use super::tree::{Node, Value};

const APPS_MAX: usize = 100;
/// The most that a connection to the store can be asked to take.
const IN_FLIGHT_MAX: u32 = 60_000;
const CONNECTIONS_WITHOUT_WORKERS_MIN: u32 = 1024;
/// Nothing is held back in shadow mode, so the connections must not do it either.
const CONNECTIONS_IN_SHADOW: u32 = 10_000;

/// What applications refer to.
pub(crate) struct Around<'a> {
    /// Tidegate's own addresses: none of them is an application's.
    pub(crate) own: &'a [SocketAddr],
    pub(crate) sessions: Option<&'a Sessions>,
    pub(crate) dependencies: &'a [DependencyPlan],
}

/// The applications at `[[app]]`.
pub(crate) fn apps(root: &Section<'_>, around: &Around<'_>, problems: &Problems) -> Vec<AppPlan> {
    let mut apps: Vec<AppPlan> = Vec::new();
    let mut names = Names::reserving("", "application");
    let nodes = root.sections("app", "[[app]]");
    if nodes.is_empty() && root.sound(&["app"]) {
        root.refuse(
            "app",
            "there is no application",
            "add a section [[app]] with upstream = \"http://127.0.0.1:8000\", say",
        );
    }
    if nodes.len() > APPS_MAX {
        root.refuse(
            "app",
            format!("{} applications", nodes.len()),
            format!("write at most {APPS_MAX}"),
        );
        return apps;
    }
    for node in nodes {
        let section = Section::new(
            "[[app]]",
            node,
            APP,
            &["reserve", "group", "route"],
            problems,
        );
        let app = app(&section, &mut names, around, problems);
        refuse_unreachable(&section, &app, &apps);
        refuse_own_address(
            &section,
            "upstream",
            "the application's",
            &app.upstream,
            around.own,
        );
        files::refuse_shared(&section, &app, &apps);
        apps.push(app);
    }
    apps
}

/// The workers that the applications say they have, together; before they are read, and so without
/// a word about what is wrong with them.
pub(crate) fn workers_stated(root: &Section<'_>) -> u32 {
    let Some(Value::List(apps)) = root.node("app").map(|node| &node.value) else {
        return 0;
    };
    let workers = |app: &Node| {
        match &app.value {
            Value::Table(table) => table.iter().find(|entry| entry.key == "workers"),
            _ => None,
        }
        .and_then(|entry| match entry.node.value {
            Value::Integer(number) => u32::try_from(number).ok(),
            _ => None,
        })
    };
    let stated = apps.iter().take(APPS_MAX).filter_map(workers);
    stated.fold(0, u32::saturating_add).min(IN_FLIGHT_MAX)
}

fn app(
    section: &Section<'_>,
    names: &mut Names,
    around: &Around<'_>,
    problems: &Problems,
) -> AppPlan {
    let sessions = around.sessions;
    let name = section.text("name");
    names.take(section, name);
    let workers = section.count_if_set("workers").map(non_zero);
    let limit = limit::limit(section, workers);
    let patience = section.span("patience");
    let groups = bulkheads::groups(section, workers, problems);
    let bulkheads = bulkheads::bulkheads(section, &groups, &limit, workers, problems);
    let routes = route::routes(section, &groups, patience, around, problems);
    AppPlan {
        name: name.to_owned(),
        hosts: hosts(section),
        path_prefix: path_prefix(section),
        breaker: breaker(section),
        upstream: upstream(section, &limit, workers),
        mode: match section.choice("mode") {
            Some("shadow") => Mode::Shadow,
            _ => Mode::Enforce,
        },
        on_client_gone: match section.choice("on_client_gone") {
            Some("free") => OnClientGone::Free,
            _ => OnClientGone::Hold,
        },
        warm_start: files::warm_start(section, &limit),
        limit,
        journal: files::journal(section),
        admission: admission::Config {
            hold: section.span("hold"),
            queue_max: section.count("queue_max"),
            queue_bytes_max: section.bytes("queue_bytes_max"),
            discipline: match section.choice("discipline") {
                Some("fifo") => Discipline::Fifo,
                Some("codel") => Discipline::CoDel,
                _ => Discipline::AdaptiveLifo,
            },
            bulkheads,
            routes: u16::try_from(routes.len()).unwrap_or(u16::MAX),
            // Both see what becomes of what they decide, and in shadow mode nothing does.
            escape: section.switch("escape") && section.choice("mode") != Some("shadow"),
            level: section.switch("by_user") && section.choice("mode") != Some("shadow"),
        },
        routes,
        groups: groups.names,
        session_cookies: session_cookies(section, sessions),
        sessions: sessions.map(|sessions| sessions.gateway.clone()),
        static_extensions: static_extensions(section),
    }
}

/// What stops calling an application that does not answer, where that is wanted.
fn breaker(section: &Section<'_>) -> Option<CallBreakerPlan> {
    if !section.switch("breaker") {
        return None;
    }
    if section.choice("mode") == Some("shadow") {
        section.refuse(
            "breaker",
            "`breaker` has no effect: the application is in shadow mode",
            "remove breaker, or mode = \"shadow\"",
        );
    }
    Some(CallBreakerPlan {
        breaker: BreakerPlan {
            // An answer in time is a good one.
            probe_within: section.span("response_timeout"),
            ..BreakerPlan::CALLS
        },
        judges: Judges::Answers,
    })
}

fn upstream(section: &Section<'_>, limit: &Kind, workers: Option<NonZeroU32>) -> UpstreamPlan {
    let (host, port) =
        upstream_address(section, "upstream").unwrap_or_else(|| ("127.0.0.1".to_owned(), 0));
    let connections_max = connections_max(section, limit, workers);
    let response_buffer_max = usize_of(section.bytes("response_buffer_max"));
    let response_buffers_max = usize_of(section.bytes("response_buffers_max"));
    if response_buffers_max < response_buffer_max
        && section.sound(&["response_buffer_max", "response_buffers_max"])
    {
        section.refuse(
            "response_buffers_max",
            "`response_buffers_max` is less than `response_buffer_max`, which is for one answer",
            "let the budget for all answers be at least that of one",
        );
    }
    UpstreamPlan {
        host,
        port,
        connections_max,
        keep_alive: section.switch("keep_alive"),
        idle_timeout: section.span("idle_timeout"),
        connect_timeout: section.span("connect_timeout"),
        response_timeout: section.span("response_timeout"),
        body_timeout: section.span("response_body_timeout"),
        response_buffer_max,
        response_buffers_max,
    }
}

/// The host and port in the URL at `key`.
pub(super) fn upstream_address(section: &Section<'_>, key: &'static str) -> Option<(String, u16)> {
    let text = section.text(key);
    if !section.sound(&[key]) {
        return None;
    }
    let refuse =
        |why: &str, fix: &str| section.refuse(key, format!("`{key} = \"{text}\"` {why}"), fix);
    if text.starts_with("https://") {
        refuse(
            "asks for TLS, which comes later",
            "write an http:// URL: Tidegate belongs beside what it forwards to, on the same machine or network",
        );
        return None;
    }
    let Some(rest) = text.strip_prefix("http://") else {
        refuse("is no http:// URL", "write \"http://127.0.0.1:8000\", say");
        return None;
    };
    let Ok(authority) = rest.trim_end_matches('/').parse::<http::uri::Authority>() else {
        let why = if rest.contains('/') {
            "has a path, but paths are forwarded as they come"
        } else {
            "has no host"
        };
        refuse(
            why,
            "write scheme, host and port only, such as \"http://127.0.0.1:8000\"",
        );
        return None;
    };
    if authority.as_str().contains('@') {
        refuse("carries credentials", "write scheme, host and port only");
        return None;
    }
    let port = authority.port_u16().unwrap_or(80);
    let no_port =
        authority.host().len() < authority.as_str().len() && authority.port_u16().is_none();
    if port == 0 || no_port || authority.host().is_empty() {
        refuse(
            "has no usable host and port",
            "write scheme, host and port, such as \"http://127.0.0.1:8000\"",
        );
        return None;
    }
    Some((authority.host().trim_matches(['[', ']']).to_owned(), port))
}

fn connections_max(section: &Section<'_>, limit: &Kind, workers: Option<NonZeroU32>) -> NonZeroU32 {
    let highest = limit::highest(limit);
    let by_default = match (section.choice("mode"), workers) {
        (Some("shadow"), Some(workers)) => workers.get().max(CONNECTIONS_IN_SHADOW),
        (Some("shadow"), None) => highest.max(CONNECTIONS_IN_SHADOW),
        (_, Some(workers)) => workers.get(),
        (_, None) => highest.max(CONNECTIONS_WITHOUT_WORKERS_MIN),
    };
    let connections = section
        .count_if_set("connections_max")
        .unwrap_or(by_default);
    let connections = non_zero(connections);
    if !section.sound(&["connections_max", "workers"]) {
        return connections;
    }
    if workers.is_some_and(|workers| connections < workers) {
        section.refuse(
            "connections_max",
            format!("`connections_max = {connections}` is less than `workers`"),
            "each request inside the application needs a connection, so some workers would never be \
             used: raise connections_max, or lower workers",
        );
    } else if highest > connections.get() && section.sound(&["limit", "limit_max"]) {
        let key = if section.has("connections_max") {
            "connections_max"
        } else {
            "limit_max"
        };
        section.refuse(
            key,
            format!("the limit may grow to {highest}, but there are {connections} connections"),
            "each request inside the application needs a connection: raise connections_max, or lower \
             limit_max",
        );
    }
    connections
}

fn hosts(section: &Section<'_>) -> Vec<String> {
    let mut hosts = Vec::new();
    for (text, place) in section.texts("hosts") {
        let lower = text.to_ascii_lowercase();
        let fix = match lower.rsplit_once(':') {
            _ if lower.starts_with("http://") || lower.starts_with("https://") => {
                "write the host alone, without scheme"
            }
            Some((_, port)) if port.parse::<u16>().is_ok() && !lower.ends_with(']') => {
                "write the host alone: requests to any port are matched"
            }
            _ => "write a name such as \"shop.example.com\"",
        };
        let is_host = lower
            .parse::<http::uri::Authority>()
            .is_ok_and(|host| host.host() == lower);
        if is_host && !lower.contains('*') {
            hosts.push(lower);
        } else {
            section.refuse_item("hosts", place, format!("`{text}` is no host"), fix);
        }
    }
    hosts
}

fn path_prefix(section: &Section<'_>) -> String {
    let prefix = section.text("path_prefix");
    if !prefix.starts_with('/') || prefix.contains(['*', '?', '#', ' ']) {
        section.refuse(
            "path_prefix",
            format!("`path_prefix = \"{prefix}\"` is no beginning of a path"),
            "write \"/\" for everything, or \"/shop/\", say",
        );
    } else if path::canonical(prefix) != prefix {
        section.refuse(
            "path_prefix",
            format!("`path_prefix = \"{prefix}\"` is no beginning of any path"),
            format!(
                "paths are matched in one spelling: write \"{}\"",
                path::canonical(prefix)
            ),
        );
    }
    prefix.to_owned()
}

fn session_cookies(section: &Section<'_>, sessions: Option<&Sessions>) -> Vec<String> {
    let own = sessions.map(|sessions| sessions::own_cookies(&sessions.gateway));
    let own = own.unwrap_or_default();
    let mut cookies = Vec::new();
    for (text, place) in section.texts("session_cookies") {
        let token = |c: char| c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?={}".contains(c);
        if text.is_empty() || !text.chars().all(token) {
            section.refuse_item(
                "session_cookies",
                place,
                format!("`{text}` is no cookie name"),
                "write the name alone, such as \"JSESSIONID\"",
            );
        } else if let Some((_, what)) = own.iter().find(|(name, _)| *name == text) {
            section.refuse_item(
                "session_cookies",
                place,
                format!("`{text}` is {what} that Tidegate sets, not the application's"),
                "leave it out: with [sessions] the class goes by the session itself; or give the \
                 application's own cookie another name",
            );
        }
        cookies.push(text.to_owned());
    }
    cookies
}

fn static_extensions(section: &Section<'_>) -> Vec<String> {
    if !section.has("static_extensions") {
        return section
            .default_texts("static_extensions")
            .iter()
            .map(|&text| text.to_owned())
            .collect();
    }
    let mut extensions = Vec::new();
    for (text, place) in section.texts("static_extensions") {
        if !text.starts_with('.') || text.len() < 2 || text.contains(['/', '*', ' ']) {
            section.refuse_item(
                "static_extensions",
                place,
                format!("`{text}` is no ending of a path"),
                match text.trim_start_matches(['*', '.']) {
                    "" => "write the dot and what follows it, such as \".css\"".to_owned(),
                    ending => format!("write it with its dot: \".{ending}\""),
                },
            );
        }
        extensions.push(text.to_owned());
    }
    extensions
}

/// A gateway in front of itself would pass a request on to itself until nothing is left.
pub(super) fn refuse_own_address(
    section: &Section<'_>,
    key: &'static str,
    whose: &str,
    upstream: &UpstreamPlan,
    own: &[SocketAddr],
) {
    let host = match upstream.host.parse::<IpAddr>() {
        Ok(host) => host.to_canonical(),
        Err(_) if upstream.host.eq_ignore_ascii_case("localhost") => [127, 0, 0, 1].into(),
        Err(_) => return,
    };
    let is_here = host.is_loopback() || host.is_unspecified();
    let same = own.iter().find(|own| {
        let address = own.ip().to_canonical();
        let meets = address == host || (is_here && address.is_unspecified());
        own.port() != 0 && own.port() == upstream.port && meets
    });
    if let Some(same) = same.filter(|_| section.sound(&[key])) {
        section.refuse(
            key,
            format!(
                "`{key} = \"{}\"`: {whose} address is Tidegate's own, {same}",
                section.text(key)
            ),
            "write where it listens itself, or let Tidegate listen somewhere else",
        );
    }
}

/// An application behind one that takes all of its requests would never see any.
fn refuse_unreachable(section: &Section<'_>, app: &AppPlan, earlier: &[AppPlan]) {
    if !section.sound(&["hosts", "path_prefix"]) {
        return;
    }
    let covering = earlier.iter().find(|first| {
        let hosts = first.hosts.is_empty()
            || (!app.hosts.is_empty() && app.hosts.iter().all(|host| first.hosts.contains(host)));
        hosts && app.path_prefix.starts_with(&first.path_prefix)
    });
    if let Some(first) = covering {
        section.refuse(
            if section.has("hosts") {
                "hosts"
            } else {
                "path_prefix"
            },
            format!(
                "application \"{}\" gets no request: \"{}\" above takes all of them",
                app.name, first.name
            ),
            format!(
                "give it hosts or a path_prefix of its own, and put it above \"{}\"",
                first.name
            ),
        );
    }
}
