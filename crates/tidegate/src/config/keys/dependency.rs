//! The keys about what applications depend on.

use super::Kind::{Choice, Count, Span, Switch, Table, Text};
use super::Otherwise::{Follows, Is, Required, Unset};
use super::rates::TOKENS_MAX;
use super::{Key, key};

pub(crate) const DEPENDENCY: &[Key] = &[
    key("name", Text("name"), Required),
    key(
        "url",
        Text("http:// URL"),
        Unset("it is not called through Tidegate"),
    ),
    key(
        "listen",
        Text("unix:/path or loopback address"),
        Unset("it is not called through Tidegate"),
    ),
    key(
        "concurrency",
        Count {
            min: 1,
            max: 60_000,
        },
        Required,
    ),
    key("scope", Choice(&["node", "fleet"]), Is("node")),
    key(
        "on_store_loss",
        Choice(&["local", "open", "closed"]),
        Is("local"),
    ),
    key(
        "wait",
        Span {
            min: "0s",
            max: "10s",
        },
        Is("50ms"),
    ),
    key("rate", Text("number / period"), Unset("no such limit")),
    key(
        "headroom",
        Table("floor and hold"),
        Unset("what may be asked stays what it is"),
    ),
    key(
        "burst",
        Count {
            min: 1,
            max: TOKENS_MAX,
        },
        Follows("the number in rate"),
    ),
    key(
        "timeout",
        Span {
            min: "1ms",
            max: "5m",
        },
        Is("1s"),
    ),
    key("on_client_gone", Choice(&["hold", "free"]), Is("hold")),
    key("breaker", Switch, Is("true")),
    key("breaker_failures", Count { min: 1, max: 1000 }, Is("5")),
    key(
        "breaker_pause",
        Span {
            min: "10ms",
            max: "1m",
        },
        Is("500ms"),
    ),
    key(
        "breaker_pause_max",
        Span {
            min: "10ms",
            max: "10m",
        },
        Is("5s"),
    ),
    key(
        "lease",
        Span {
            min: "50ms",
            max: "5m",
        },
        Is("5s"),
    ),
    key(
        "hold_max",
        Span {
            min: "50ms",
            max: "1h",
        },
        Is("1m"),
    ),
    key(
        "connections_max",
        Count {
            min: 1,
            max: 10_000,
        },
        Is("1024"),
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
            min: "1ms",
            max: "1m",
        },
        Is("500ms"),
    ),
    key(
        "response_body_timeout",
        Span {
            min: "10ms",
            max: "1h",
        },
        Is("10s"),
    ),
];
