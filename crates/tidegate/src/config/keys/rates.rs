//! The keys about rate limits.

use super::Kind::{Choice, Count, Span, Switch, Table, Text, Texts, Written};
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
        Written("whole number, 1 to 1000000000, or { header = … }"),
        Is("1"),
    ),
    key(
        "key",
        Written("list of \"client\", \"session\", \"route\" and tables"),
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
    key("edge", Switch, Follows("true unless the key has session")),
];

pub(crate) const LIMIT_COST: &[Key] = &[
    key("header", Text("header name"), Required),
    key(
        "otherwise",
        Count {
            min: 0,
            max: TOKENS_MAX,
        },
        Is("1"),
    ),
];

/// A part of a key that is written as a table.
pub(crate) const LIMIT_KEY: &[Key] = &[
    key("client", Table("v4 and v6"), Unset("another part")),
    key("header", Text("header name"), Unset("another part")),
    key("constant", Text("any text"), Unset("another part")),
];

pub(crate) const LIMIT_KEY_CLIENT: &[Key] = &[
    key("v4", Count { min: 0, max: 32 }, Is("32")),
    key("v6", Count { min: 0, max: 128 }, Is("64")),
];
