//! The keys about the rate limit service.

use super::Kind::{Choice, Count, Span, Switch, Text, Texts, Written};
use super::Otherwise::{Each, Follows, Is, Required, Unset};
use super::rates::TOKENS_MAX;
use super::{Key, key};

pub(crate) const RLS: &[Key] = &[
    key("listen", Text("IP address and port"), Required),
    key("domains", Texts("names of domains"), Required),
    key(
        "headers",
        Choice(&["refusals", "always", "never"]),
        Is("refusals"),
    ),
    key(
        "connections_max",
        Count {
            min: 1,
            max: 10_000,
        },
        Is("256"),
    ),
    key(
        "streams_max",
        Count {
            min: 1,
            max: 10_000,
        },
        Is("1000"),
    ),
    key(
        "calls_max",
        Count {
            min: 1,
            max: 1_000_000,
        },
        Is("10000"),
    ),
    key(
        "timeout",
        Span {
            min: "1ms",
            max: "1m",
        },
        Is("1s"),
    ),
    key(
        "limit_keys_max",
        Count {
            min: 1024,
            max: 16_777_216,
        },
        Is("1000000"),
    ),
];

pub(crate) const RLS_LIMIT: &[Key] = &[
    key("name", Text("name"), Required),
    key(
        "domain",
        Text("name of a domain"),
        Follows("the domain, where there is one"),
    ),
    key("descriptor", Written("list of tables"), Required),
    key("match", Choice(&["whole", "part"]), Is("whole")),
    key(
        "rate",
        Text("number / period"),
        Unset("one of rate and unlimited is needed"),
    ),
    key("unlimited", Switch, Is("false")),
    key(
        "algorithm",
        Choice(&["bucket", "log", "window"]),
        Is("bucket"),
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
        "cost",
        Count {
            min: 1,
            max: TOKENS_MAX,
        },
        Is("1"),
    ),
    key("replaces", Texts("names of limits"), Each(&[])),
    key("shadow", Switch, Is("false")),
    key(
        "scope",
        Choice(&["node", "fleet"]),
        Follows("fleet where [store] names servers, else node"),
    ),
    key(
        "on_store_loss",
        Choice(&["local", "open", "closed"]),
        Is("local"),
    ),
];

pub(crate) const RLS_ENTRY: &[Key] = &[
    key("key", Text("any text"), Required),
    key("value", Text("any text"), Unset("every value")),
    key("prefix", Text("any text"), Unset("every value")),
    key("not", Text("any text"), Unset("every value")),
    key("together", Switch, Is("false")),
];
