//! The keys about load balancers.

use super::Kind::{Count, Span, Switch, Text, Texts};
use super::Otherwise::{Is, Required, Unset};
use super::{Key, key};

pub(crate) const BALANCER: &[Key] = &[
    key(
        "agent_listen",
        Text("IP address and port"),
        Unset("no agent check"),
    ),
    key(
        "agent_connections_max",
        Count { min: 1, max: 4096 },
        Is("64"),
    ),
    key(
        "agent_interval",
        Span {
            min: "100ms",
            max: "1m",
        },
        Is("2s"),
    ),
    key(
        "maxconn",
        Count {
            min: 1,
            max: 1_000_000,
        },
        Unset("no cap is told"),
    ),
    key("load_reports", Switch, Is("false")),
];

pub(crate) const HAPROXY: &[Key] = &[
    key("socket", Text("unix:/path or address"), Required),
    key("backends", Texts("names of backends"), Required),
    key(
        "interval",
        Span {
            min: "100ms",
            max: "5s",
        },
        Is("1s"),
    ),
    key(
        "lease",
        Span {
            min: "500ms",
            max: "1m",
        },
        Is("3s"),
    ),
];
