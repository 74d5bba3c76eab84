//! The keys about waiting rooms.

use super::Kind::{Choice, Count, Number, Span, Switch, Table, Text, Texts, Written};
use super::Otherwise::{Follows, Is, Required, Unset};
use super::{Key, key};

/// Names of what a room does.
pub(crate) const PHASES: &[&str] = &[
    "off",
    "auto",
    "queue-all",
    "hold",
    "prequeue",
    "drain",
    "closed",
];

/// Names of the ways to sign a pass.
pub(crate) const ALGORITHMS: &[&str] = &["HS256", "EdDSA", "ES256"];

pub(crate) const ROOM: &[Key] = &[
    key("name", Text("name"), Required),
    key(
        "app",
        Text("name of an application"),
        Follows("the only application"),
    ),
    key(
        "routes",
        Texts("names of routes"),
        Follows("all routes of the application but those with class critical"),
    ),
    key("phase", Choice(PHASES), Is("auto")),
    key("order", Choice(&["strict", "credit"]), Is("strict")),
    key(
        "credit",
        Table("returning and signed-in"),
        Unset("20m and 5m, where order is credit"),
    ),
    key("rate_max", Text("number / period"), Is("1000/s")),
    key("rate_min", Text("number / period"), Is("1/s")),
    key(
        "fill",
        Span {
            min: "5s",
            max: "10m",
        },
        Is("30s"),
    ),
    key(
        "active_max",
        Count {
            min: 1,
            max: 100_000_000,
        },
        Unset("as many as the fleet can take"),
    ),
    key(
        "visitor_rps",
        Number {
            min: 0.001,
            max: 1000.0,
        },
        Is("1"),
    ),
    key(
        "waiting_max",
        Count {
            min: 1,
            max: 10_000_000,
        },
        Is("1000000"),
    ),
    key(
        "claim_within",
        Span {
            min: "5s",
            max: "1h",
        },
        Is("2m"),
    ),
    key("more_time", Count { min: 0, max: 9 }, Is("3")),
    key("misses_max", Count { min: 1, max: 9 }, Is("3")),
    key(
        "settle",
        Span {
            min: "0s",
            max: "1h",
        },
        Is("160s"),
    ),
    key(
        "polls_per_second",
        Count {
            min: 1,
            max: 1_000_000,
        },
        Is("500"),
    ),
    key(
        "beats_per_second",
        Count {
            min: 1,
            max: 1_000_000,
        },
        Is("3000"),
    ),
    key(
        "on_store_loss",
        Choice(&["local_budget", "hold", "open"]),
        Is("local_budget"),
    ),
    key(
        "open_after",
        Span {
            min: "1s",
            max: "1h",
        },
        Unset("30s, where on_store_loss is open"),
    ),
    key(
        "joins_per_network",
        Text("number / period, or none"),
        Is("300/min"),
    ),
    key("key_file", Text("path of a file"), Required),
    key("algorithm", Choice(ALGORITHMS), Is("HS256")),
    key("issuer", Text("1 to 64 visible characters"), Is("tidegate")),
    key(
        "insecure",
        Switch,
        Follows("as in [sessions], and false without it"),
    ),
    key(
        "pass_idle",
        Span {
            min: "2s",
            max: "24h",
        },
        Is("15m"),
    ),
    key(
        "pass_absolute",
        Span {
            min: "2s",
            max: "24h",
        },
        Is("12h"),
    ),
    key(
        "pass_in_flight",
        Count {
            min: 1,
            max: 10_000,
        },
        Is("8"),
    ),
    key(
        "pass_per_second",
        Count {
            min: 1,
            max: 100_000,
        },
        Is("10"),
    ),
    key(
        "pass_burst",
        Count {
            min: 1,
            max: 100_000,
        },
        Is("20"),
    ),
    key("page_status", Written("200, 202, 429 or 503"), Is("503")),
    key("theme", Text("path of a file"), Unset("it looks plain")),
    key("message", Table("language = text"), Unset("nothing")),
    key(
        "starts",
        Text("date and time of RFC 3339"),
        Unset("nothing begins"),
    ),
    key(
        "opens_before",
        Span {
            min: "0s",
            max: "24h",
        },
        Unset("30m, where starts is set"),
    ),
    key(
        "state",
        Text("path of a file"),
        Unset("a store that forgets a room begins it anew"),
    ),
    key("audit", Text("path of a file"), Unset("no log")),
];

/// How much earlier a tier counts as having come.
pub(crate) const ROOM_CREDIT: &[Key] = &[
    key(
        "returning",
        Span {
            min: "0s",
            max: "24h",
        },
        Is("20m"),
    ),
    key(
        "signed-in",
        Span {
            min: "0s",
            max: "24h",
        },
        Is("5m"),
    ),
];

/// Who is told of what happens.
pub(crate) const ROOM_WEBHOOK: &[Key] = &[
    key("url", Text("http:// URL"), Required),
    key("secret_file", Text("path of a file"), Required),
];
