//! Every configuration key: where it stands, what it may hold, what holds when it is not set.
//!
//! The reader takes types, ranges and defaults from here, a test holds docs/configuration.md to it,
//! and suggestions for misspelt keys come from it. What a key means is said in the document.

pub(crate) mod agent;
pub(crate) mod balancer;
pub(crate) mod dependency;
pub(crate) mod fleet;
pub(crate) mod rates;
pub(crate) mod rls;
pub(crate) mod room;
pub(crate) mod sessions;

use std::fmt;

/// One key of one section.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) otherwise: Otherwise,
}

/// What a key may hold. Bounds are inclusive, and written as an operator would write them.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Count {
        min: u32,
        max: u32,
    },
    Span {
        min: &'static str,
        max: &'static str,
    },
    Bytes {
        min: &'static str,
        max: &'static str,
    },
    /// Above 0, up to `max`.
    Share {
        max: f64,
    },
    /// Whole or with a point.
    Number {
        min: f64,
        max: f64,
    },
    Choice(&'static [&'static str]),
    Switch,
    Text(&'static str),
    Texts(&'static str),
    /// A table from header name to value, where `*` is any value.
    Headers,
    Table(&'static str),
    /// What no other kind is, in words.
    Written(&'static str),
}

/// What holds when a key is not set.
#[derive(Clone, Copy)]
pub(crate) enum Otherwise {
    Required,
    Is(&'static str),
    /// Nothing: the words say what that means.
    Unset(&'static str),
    /// Worked out from other keys, as the words say.
    Follows(&'static str),
    Each(&'static [&'static str]),
}

use Kind::{
    Bytes, Choice, Count, Headers, Number, Share, Span, Switch, Table, Text, Texts, Written,
};
use Otherwise::{Each, Follows, Is, Required, Unset};

const fn key(name: &'static str, kind: Kind, otherwise: Otherwise) -> Key {
    Key {
        name,
        kind,
        otherwise,
    }
}

pub(crate) const ROOT: &[Key] = &[
    key("threads", Count { min: 1, max: 256 }, Is("1")),
    key(
        "limit_keys_max",
        Count {
            min: 1024,
            max: 16_777_216,
        },
        Is("1000000"),
    ),
    key("limit_nodes", Count { min: 1, max: 4096 }, Is("10")),
];

pub(crate) const LISTEN: &[Key] = &[
    key("address", Text("IP address and port"), Is("0.0.0.0:8080")),
    key(
        "connections_max",
        Count {
            min: 1,
            max: 1_000_000,
        },
        Is("10000"),
    ),
    key(
        "connections_per_client_max",
        Count {
            min: 1,
            max: 1_000_000,
        },
        Unset("no such cap"),
    ),
    key(
        "head_bytes_max",
        Bytes {
            min: "8KiB",
            max: "1MiB",
        },
        Is("32KiB"),
    ),
    key("headers_max", Count { min: 16, max: 1024 }, Is("100")),
    key(
        "head_timeout",
        Span {
            min: "100ms",
            max: "5m",
        },
        Is("10s"),
    ),
    key(
        "keep_alive_timeout",
        Span {
            min: "100ms",
            max: "1h",
        },
        Is("75s"),
    ),
    key(
        "body_timeout",
        Span {
            min: "100ms",
            max: "1h",
        },
        Is("30s"),
    ),
    key(
        "write_timeout",
        Span {
            min: "100ms",
            max: "1h",
        },
        Is("30s"),
    ),
    key("half_close", Switch, Is("false")),
];

pub(crate) const ADMIN: &[Key] = &[key(
    "address",
    Text("IP address and port, or off"),
    Is("127.0.0.1:9090"),
)];

pub(crate) const TRUST: &[Key] = &[key("proxies", Texts("networks"), Each(&[]))];

pub(crate) const PROBES: &[Key] = &[
    key("networks", Texts("networks"), Each(&[])),
    key(
        "connections_reserved",
        Count {
            min: 1,
            max: 10_000,
        },
        Is("64"),
    ),
    key("paths", Texts("paths"), Each(&[])),
    key(
        "overflow_connections_max",
        Count {
            min: 1,
            max: 10_000,
        },
        Is("32"),
    ),
];

pub(crate) const DRAIN: &[Key] = &[
    key(
        "delay",
        Span {
            min: "0s",
            max: "10m",
        },
        Is("5s"),
    ),
    key(
        "timeout",
        Span {
            min: "0s",
            max: "1h",
        },
        Is("30s"),
    ),
];

pub(crate) const APP: &[Key] = &[
    key("name", Text("name"), Is("app")),
    key("upstream", Text("http:// URL"), Required),
    key("hosts", Texts("host names"), Each(&[])),
    key("path_prefix", Text("path"), Is("/")),
    key(
        "workers",
        Count {
            min: 1,
            max: 60_000,
        },
        Unset("the limit is learnt"),
    ),
    key(
        "limit",
        Choice(&["adaptive", "static", "aimd", "vegas", "gradient2"]),
        Follows("static when workers is set, else adaptive"),
    ),
    key(
        "limit_min",
        Count {
            min: 1,
            max: 60_000,
        },
        Follows("4, for aimd and gradient2 20, for vegas 1"),
    ),
    key(
        "limit_max",
        Count {
            min: 1,
            max: 60_000,
        },
        Follows(
            "workers or connections_max, else 8000, for aimd and gradient2 200, for vegas 1000",
        ),
    ),
    key(
        "limit_initial",
        Count {
            min: 1,
            max: 60_000,
        },
        Follows("20, within limit_min and limit_max"),
    ),
    key(
        "latency_max",
        Span {
            min: "1ms",
            max: "1h",
        },
        Unset("no such bound"),
    ),
    key(
        "hold",
        Span {
            min: "10ms",
            max: "1m",
        },
        Is("200ms"),
    ),
    key(
        "queue_max",
        Count {
            min: 0,
            max: 1_000_000,
        },
        Is("10000"),
    ),
    key(
        "queue_bytes_max",
        Bytes {
            min: "64KiB",
            max: "1TiB",
        },
        Is("64MiB"),
    ),
    key(
        "discipline",
        Choice(&["adaptive-lifo", "fifo", "codel"]),
        Is("adaptive-lifo"),
    ),
    key("escape", Switch, Is("true")),
    key("by_user", Switch, Is("false")),
    key("mode", Choice(&["enforce", "shadow"]), Is("enforce")),
    key("on_client_gone", Choice(&["hold", "free"]), Is("hold")),
    key("breaker", Switch, Is("false")),
    key(
        "patience",
        Span {
            min: "10ms",
            max: "1h",
        },
        Is("10s"),
    ),
    key(
        "connections_max",
        Count {
            min: 1,
            max: 60_000,
        },
        Follows("workers, else limit_max and at least 1024; in shadow mode 10000"),
    ),
    key("keep_alive", Switch, Is("true")),
    key(
        "idle_timeout",
        Span {
            min: "100ms",
            max: "1h",
        },
        Is("4s"),
    ),
    key(
        "connect_timeout",
        Span {
            min: "10ms",
            max: "1m",
        },
        Is("1s"),
    ),
    key(
        "response_timeout",
        Span {
            min: "10ms",
            max: "1h",
        },
        Is("60s"),
    ),
    key(
        "response_body_timeout",
        Span {
            min: "10ms",
            max: "1h",
        },
        Is("60s"),
    ),
    key(
        "response_buffer_max",
        Bytes {
            min: "16KiB",
            max: "16MiB",
        },
        Is("256KiB"),
    ),
    key(
        "response_buffers_max",
        Bytes {
            min: "16KiB",
            max: "1TiB",
        },
        Is("64MiB"),
    ),
    key(
        "warm_start",
        Text("path of a file"),
        Unset("the limit is learnt anew at every start"),
    ),
    key("decision_log", Text("path of a file"), Unset("no log")),
    key(
        "decision_log_max",
        Bytes {
            min: "1MiB",
            max: "1TiB",
        },
        Is("1GiB"),
    ),
    key("session_cookies", Texts("cookie names"), Each(&[])),
    key(
        "static_extensions",
        Texts("endings with the dot"),
        Each(STATIC_EXTENSIONS),
    ),
];

pub(crate) const RESERVE: &[Key] = &[
    key(
        "share",
        Share { max: 0.9 },
        Unset("one of share and slots is needed"),
    ),
    key(
        "slots",
        Count {
            min: 1,
            max: 60_000,
        },
        Unset("one of share and slots is needed"),
    ),
    key("loan", Choice(&["strict", "lent"]), Is("strict")),
];

pub(crate) const GROUP: &[Key] = &[
    key("name", Text("name"), Required),
    key(
        "share",
        Share { max: 1.0 },
        Unset("one of share and slots is needed"),
    ),
    key(
        "slots",
        Count {
            min: 1,
            max: 60_000,
        },
        Unset("one of share and slots is needed"),
    ),
];

pub(crate) const ROUTE: &[Key] = &[
    key("name", Text("name"), Required),
    key(
        "path",
        Text("path pattern"),
        Unset("one of path and paths is needed"),
    ),
    key(
        "paths",
        Texts("path patterns"),
        Unset("one of path and paths is needed"),
    ),
    key("methods", Texts("methods"), Each(&[])),
    key("headers", Headers, Unset("no condition")),
    key("class", Choice(CLASSES), Unset("by headers and cookies")),
    key("group", Text("name of a group"), Unset("no cap of its own")),
    key(
        "patience",
        Span {
            min: "10ms",
            max: "1h",
        },
        Follows("the patience of the application"),
    ),
    key("dependency", Texts("names of dependencies"), Each(&[])),
    key(
        "session",
        Choice(&["none", "optional", "required"]),
        Is("optional"),
    ),
    key(
        "session_fields",
        Texts("names of attributes"),
        Follows("the attributes with expose = true"),
    ),
];

/// Names of the classes, highest first.
pub(crate) const CLASSES: &[&str] = &["critical", "signed-in", "anonymous", "static", "background"];

const STATIC_EXTENSIONS: &[&str] = &[
    ".avif", ".css", ".gif", ".ico", ".jpeg", ".jpg", ".js", ".mjs", ".png", ".svg", ".ttf",
    ".webp", ".woff", ".woff2",
];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Count { min, max } => write!(f, "whole number, {min} to {max}"),
            Span { min, max } => write!(f, "duration, {min} to {max}"),
            Bytes { min, max } => write!(f, "size, {min} to {max}"),
            Share { max } => write!(f, "share, above 0 up to {max}"),
            Number { min, max } => write!(f, "number, {min} to {max}"),
            Choice(names) => {
                for (at, name) in names.iter().enumerate() {
                    write!(f, "{}\"{name}\"", if at == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Switch => write!(f, "true or false"),
            Text(what) => write!(f, "text: {what}"),
            Texts(what) => write!(f, "list of texts: {what}"),
            Headers => write!(f, "table: header name = value"),
            Table(what) => write!(f, "table: {what}"),
            Written(what) => write!(f, "{what}"),
        }
    }
}

impl fmt::Display for Otherwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Required => write!(f, "must be set"),
            Is(text) | Unset(text) | Follows(text) => write!(f, "{text}"),
            Each([]) => write!(f, "empty"),
            Each(texts) => write!(f, "{}", texts.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tidegate_core::facts::Class;

    use super::*;

    const SECTIONS: &[(&str, &[Key])] = &[
        ("top level", ROOT),
        ("[listen]", LISTEN),
        ("[admin]", ADMIN),
        ("[trust]", TRUST),
        ("[probes]", PROBES),
        ("[drain]", DRAIN),
        ("[[app]]", APP),
        ("[app.reserve.CLASS]", RESERVE),
        ("[[app.group]]", GROUP),
        ("[[app.route]]", ROUTE),
        ("[[dependency]]", dependency::DEPENDENCY),
        ("[dependency.reserve.CLASS]", RESERVE),
        ("[[limit]]", rates::LIMIT),
        ("[[limit.override]]", rates::LIMIT_OVERRIDE),
        ("[limit.cost]", rates::LIMIT_COST),
        ("[limit.headroom]", rates::LIMIT_HEADROOM),
        ("[limit.key]", rates::LIMIT_KEY),
        ("[limit.key.client]", rates::LIMIT_KEY_CLIENT),
        ("[[network]]", rates::NETWORK),
        ("[tokens]", rates::TOKENS),
        ("[[room]]", room::ROOM),
        ("[room.credit]", room::ROOM_CREDIT),
        ("[[room.webhook]]", room::ROOM_WEBHOOK),
        ("[rls]", rls::RLS),
        ("[[rls.limit]]", rls::RLS_LIMIT),
        ("[rls.limit.descriptor]", rls::RLS_ENTRY),
        ("[fleet]", fleet::FLEET),
        ("[fleet.health]", fleet::HEALTH),
        ("[agent]", agent::AGENT),
        ("[balancer]", balancer::BALANCER),
        ("[[balancer.haproxy]]", balancer::HAPROXY),
        ("[store]", sessions::STORE),
        ("[store.USE]", sessions::STORE_USE),
        ("[sessions]", sessions::SESSIONS),
        ("[[sessions.attribute]]", sessions::ATTRIBUTE),
        ("[sessions.durability]", sessions::DURABILITY),
        ("[sidecar]", sessions::SIDECAR),
    ];

    #[test]
    fn the_reference_documents_every_key_and_no_other() {
        let document = include_str!("../../../../docs/configuration.md");
        let mut section = "";
        let documented: BTreeSet<String> = document
            .lines()
            .filter_map(|line| {
                if let Some(heading) = line.strip_prefix("## ") {
                    section = heading.trim_matches('`');
                }
                let cells: Vec<&str> = line.split(" | ").collect();
                let name = cells.first()?.strip_prefix("| `")?.strip_suffix('`')?;
                Some(format!(
                    "{section} {name} | {} | {}",
                    cells.get(1)?,
                    cells.get(2)?
                ))
            })
            .collect();

        let known: BTreeSet<String> = SECTIONS
            .iter()
            .flat_map(|(section, keys)| {
                keys.iter().map(move |key| {
                    format!("{section} {} | {} | {}", key.name, key.kind, key.otherwise)
                })
            })
            .collect();

        let missing: Vec<_> = known.difference(&documented).collect();
        let unknown: Vec<_> = documented.difference(&known).collect();
        assert!(
            missing.is_empty() && unknown.is_empty(),
            "rows the reference lacks: {missing:#?}\nrows that no key stands behind: {unknown:#?}"
        );
    }

    #[test]
    fn classes_are_the_ones_of_the_core() {
        assert!(
            Class::ALL
                .iter()
                .map(|class| class.name())
                .eq(CLASSES.iter().copied())
        );
    }
}
