//! The keys about rate limits.

use super::Kind::{Choice, Count, Share, Span, Switch, Table, Text, Texts, Written};
use super::Otherwise::{Each, Follows, Is, Required, Unset};
use super::{Key, key};

/// The most tokens that a burst or a cost may be.
pub(crate) const TOKENS_MAX: u32 = 1_000_000_000;

pub(crate) const LIMIT: &[Key] = &[
    key("name", Text("name"), Required),
    key(
        "algorithm",
        Choice(&["bucket", "log", "window"]),
        Is("bucket"),
    ),
    key("rate", Text("number / period"), Required),
    key(
        "burst",
        Count {
            min: 1,
            max: TOKENS_MAX,
        },
        Follows("the number in rate"),
    ),
    key(
        "cost",
        Written("whole number, 1 to 1000000000, or a table"),
        Is("1"),
    ),
    key(
        "key",
        Written("list of \"client\", \"network\", \"session\", \"route\" and tables"),
        Is("client"),
    ),
    key(
        "absent",
        Choice(&["skip", "deny", "shared"]),
        Unset("must be set when a request may lack a part of the key"),
    ),
    key("apps", Texts("names of applications"), Each(&[])),
    key("routes", Texts("names of routes"), Each(&[])),
    key("shadow", Switch, Is("false")),
    key("scope", Choice(&["node", "fleet"]), Is("node")),
    key(
        "mode",
        Choice(&["lease", "shared", "divided", "aggregate"]),
        Unset("lease, where scope is fleet"),
    ),
    key(
        "on_store_loss",
        Choice(&["local", "open", "closed"]),
        Unset("local, where scope is fleet"),
    ),
    key(
        "report_every",
        Span {
            min: "10ms",
            max: "10s",
        },
        Unset("100ms, where mode is aggregate"),
    ),
    key(
        "headroom",
        Table("floor and hold"),
        Unset("the rate stays what it is"),
    ),
    key("edge", Switch, Follows("true unless the key has session")),
];

/// Another limit for one key.
pub(crate) const LIMIT_OVERRIDE: &[Key] = &[
    key("name", Text("name"), Required),
    key("key", Texts("parts of a key"), Each(&[])),
    key("rate", Text("number / period"), Required),
    key(
        "burst",
        Count {
            min: 1,
            max: TOKENS_MAX,
        },
        Follows("the number in rate"),
    ),
];

pub(crate) const LIMIT_COST: &[Key] = &[
    key(
        "header",
        Text("header name"),
        Unset("one of header and response_header is needed"),
    ),
    key(
        "response_header",
        Text("header name"),
        Unset("one of header and response_header is needed"),
    ),
    key(
        "reserve",
        Count {
            min: 0,
            max: TOKENS_MAX,
        },
        Unset("1, with response_header"),
    ),
    key(
        "otherwise",
        Count {
            min: 0,
            max: TOKENS_MAX,
        },
        Unset("1, with header"),
    ),
];

/// How a limit follows the headroom of the fleet.
pub(crate) const LIMIT_HEADROOM: &[Key] = &[
    key("floor", Share { max: 0.9 }, Is("0.25")),
    key(
        "hold",
        Span {
            min: "0s",
            max: "10m",
        },
        Is("10s"),
    ),
];

/// A part of a key that is written as a table.
pub(crate) const LIMIT_KEY: &[Key] = &[
    key("client", Table("v4 and v6"), Unset("another part")),
    key("header", Text("header name"), Unset("another part")),
    key("api_key", Text("header name"), Unset("another part")),
    key("claim", Text("name of a claim"), Unset("another part")),
    key("constant", Text("any text"), Unset("another part")),
];

pub(crate) const LIMIT_KEY_CLIENT: &[Key] = &[
    key("v4", Count { min: 0, max: 32 }, Is("32")),
    key("v6", Count { min: 0, max: 128 }, Is("64")),
];

pub(crate) const NETWORK: &[Key] = &[
    key("name", Text("name"), Required),
    key("addresses", Texts("networks"), Each(&[])),
];

pub(crate) const TOKENS: &[Key] = &[
    key("key_file", Text("path of a file"), Required),
    key("header", Text("header name"), Is("Authorization")),
    key("issuer", Text("any text"), Unset("anybody's")),
    key("audience", Text("any text"), Unset("anybody's")),
    key(
        "leeway",
        Span {
            min: "0s",
            max: "10m",
        },
        Is("30s"),
    ),
];
