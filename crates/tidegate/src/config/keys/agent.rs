//! The keys about what an agent looks at.

use super::Kind::{Choice, Count, Share, Span, Text, Texts};
use super::Otherwise::{Is, Unset};
use super::{Key, key};

const DAY: &str = "1d";

pub(crate) const AGENT: &[Key] = &[
    key(
        "runtime",
        Choice(&[
            "tomcat",
            "spring-boot",
            "php-fpm",
            "gunicorn",
            "puma",
            "apache-prefork",
            "node",
            "generic-listener",
        ]),
        Is("generic-listener"),
    ),
    key(
        "listen",
        Texts("addresses or unix:/paths"),
        Unset("no accept queue is looked at"),
    ),
    key(
        "url",
        Text("http URL"),
        Unset("the application is not asked"),
    ),
    key(
        "metrics",
        Text("http URL"),
        Unset("no page of metrics is read"),
    ),
    key("user", Text("name"), Unset("nobody signs in")),
    key(
        "password_file",
        Text("path of a file"),
        Unset("nobody signs in"),
    ),
    key("token_file", Text("path of a file"), Unset("no token")),
    key(
        "status",
        Text("address or unix:/path"),
        Unset("the first of `listen`"),
    ),
    key("status_path", Text("path"), Is("/status")),
    key(
        "statsd",
        Text("address and port"),
        Unset("gunicorn sends nothing"),
    ),
    key(
        "workers",
        Count {
            min: 1,
            max: 1_000_000,
        },
        Unset("the application tells, or nobody knows"),
    ),
    key(
        "pid",
        Count {
            min: 1,
            max: 4_194_304,
        },
        Unset("Tidegate's own group of processes"),
    ),
    key("proc_root", Text("path of a directory"), Is("/proc")),
    key("sys_root", Text("path of a directory"), Is("/sys")),
    key(
        "latency_budget",
        Span {
            min: "1ms",
            max: DAY,
        },
        Unset("latency is not judged"),
    ),
    key(
        "pool_wait_budget",
        Span {
            min: "1ms",
            max: DAY,
        },
        Is("100ms"),
    ),
    key("gc_budget", Share { max: 1.0 }, Is("0.1")),
    key(
        "lag_budget",
        Span {
            min: "1ms",
            max: DAY,
        },
        Is("100ms"),
    ),
    key(
        "timeout",
        Span {
            min: "10ms",
            max: "900ms",
        },
        Is("500ms"),
    ),
];
