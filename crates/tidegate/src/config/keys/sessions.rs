//! The keys about the store, the sessions in it, and the sidecar.

use super::Kind::{Bytes, Choice, Count, Span, Switch, Table, Text, Texts};
use super::Otherwise::{Each, Follows, Is, Required, Unset};
use super::{Key, key};

const URL: Key = key(
    "url",
    Text("redis:// address"),
    Unset("in this process and a file"),
);
const URLS: Key = key("urls", Texts("redis:// addresses"), Each(&[]));
const MODE: Key = key(
    "mode",
    Choice(&["standalone", "sentinel", "cluster"]),
    Is("standalone"),
);
const MASTER: Key = key(
    "master",
    Text("name of the master"),
    Unset("must be set for sentinel"),
);
const USERNAME: Key = key("username", Text("name"), Unset("the default user"));
const PASSWORD_FILE: Key = key(
    "password_file",
    Text("path of a file"),
    Unset("no password"),
);
const SENTINEL_USERNAME: Key = key("sentinel_username", Text("name"), Unset("the default user"));
const SENTINEL_PASSWORD_FILE: Key = key(
    "sentinel_password_file",
    Text("path of a file"),
    Unset("no password"),
);
const DATABASE: Key = key(
    "database",
    Count {
        min: 0,
        max: 65_535,
    },
    Is("0"),
);
const CONNECT_TIMEOUT: Key = key(
    "connect_timeout",
    Span {
        min: "1ms",
        max: "9ms",
    },
    Is("9ms"),
);
const TIMEOUT: Key = key(
    "timeout",
    Span {
        min: "1ms",
        max: "9ms",
    },
    Is("8ms"),
);
const CONNECTIONS: Key = key("connections", Count { min: 1, max: 16 }, Is("2"));
const DURABLE_CONNECTIONS: Key = key("durable_connections", Count { min: 1, max: 256 }, Is("32"));
const IN_FLIGHT_MAX: Key = key(
    "in_flight_max",
    Count {
        min: 16,
        max: 60_000,
    },
    Follows("the workers of all applications, at least 256"),
);

pub(crate) const STORE: &[Key] = &[
    URL,
    URLS,
    MODE,
    MASTER,
    USERNAME,
    PASSWORD_FILE,
    SENTINEL_USERNAME,
    SENTINEL_PASSWORD_FILE,
    DATABASE,
    key(
        "path",
        Text("path of a directory"),
        Follows("$STATE_DIRECTORY, else tidegate-state"),
    ),
    CONNECT_TIMEOUT,
    TIMEOUT,
    CONNECTIONS,
    DURABLE_CONNECTIONS,
    IN_FLIGHT_MAX,
];

/// What `[store.sessions]` and its likes may override.
pub(crate) const STORE_USE: &[Key] = &[
    key("url", Text("redis:// address"), Follows("[store]")),
    key("urls", Texts("redis:// addresses"), Follows("[store]")),
    key(
        "mode",
        Choice(&["standalone", "sentinel", "cluster"]),
        Follows("standalone with servers of its own, else [store]"),
    ),
    key(
        "master",
        Text("name of the master"),
        Follows("nothing with servers of its own, else [store]"),
    ),
    key(
        "username",
        Text("name"),
        Follows("nothing with servers of its own, else [store]"),
    ),
    key(
        "password_file",
        Text("path of a file"),
        Follows("nothing with servers of its own, else [store]"),
    ),
    key(
        "sentinel_username",
        Text("name"),
        Follows("nothing with servers of its own, else [store]"),
    ),
    key(
        "sentinel_password_file",
        Text("path of a file"),
        Follows("nothing with servers of its own, else [store]"),
    ),
    key(
        "database",
        Count {
            min: 0,
            max: 65_535,
        },
        Follows("0 with servers of its own, else [store]"),
    ),
    key(
        "connect_timeout",
        Span {
            min: "1ms",
            max: "9ms",
        },
        Follows("[store]"),
    ),
    key(
        "timeout",
        Span {
            min: "1ms",
            max: "9ms",
        },
        Follows("[store]"),
    ),
    key("connections", Count { min: 1, max: 16 }, Follows("[store]")),
    key(
        "durable_connections",
        Count { min: 1, max: 256 },
        Follows("[store]"),
    ),
    key(
        "in_flight_max",
        Count {
            min: 16,
            max: 60_000,
        },
        Follows("[store]"),
    ),
];

pub(crate) const SESSIONS: &[Key] = &[
    key("cookie", Text("name of a cookie"), Is("__Host-tg")),
    key("insecure", Switch, Is("false")),
    key("persistent", Switch, Is("false")),
    key(
        "key_file",
        Text("path of a file"),
        Follows("session.key in the path of [store], made when it is missing"),
    ),
    key(
        "idle",
        Span {
            min: "1s",
            max: "90d",
        },
        Is("30m"),
    ),
    key(
        "absolute",
        Span {
            min: "1s",
            max: "366d",
        },
        Is("12h"),
    ),
    key(
        "absolute_anonymous",
        Span {
            min: "1s",
            max: "366d",
        },
        Is("7d"),
    ),
    key(
        "value_max",
        Bytes {
            min: "16B",
            max: "64KiB",
        },
        Is("4KiB"),
    ),
    key(
        "session_max",
        Bytes {
            min: "256B",
            max: "1MiB",
        },
        Is("64KiB"),
    ),
    key("attributes_max", Count { min: 1, max: 1024 }, Is("128")),
    key(
        "blob_max",
        Bytes {
            min: "0B",
            max: "16MiB",
        },
        Is("1MiB"),
    ),
    key(
        "l1",
        Bytes {
            min: "0B",
            max: "64GiB",
        },
        Is("64MiB"),
    ),
    key(
        "trust",
        Span {
            min: "0s",
            max: "5s",
        },
        Is("0s"),
    ),
    key(
        "resume",
        Span {
            min: "0s",
            max: "90d",
        },
        Is("24h"),
    ),
    key(
        "sessions_per_user_max",
        Count {
            min: 1,
            max: 10_000,
        },
        Is("1000"),
    ),
    key(
        "carry",
        Texts("names of attributes"),
        Each(&["cart", "locale"]),
    ),
    key(
        "tiers",
        Table("tier = class"),
        Unset("users of every tier are signed-in"),
    ),
    key("ticket", Switch, Is("true")),
    key(
        "affinity",
        Text("name of this node"),
        Unset("no such cookie"),
    ),
    key(
        "rotate_every",
        Span {
            min: "1m",
            max: "90d",
        },
        Unset("ids change at a sign-in only"),
    ),
    key("on_conflict", Choice(&["drop", "fail"]), Is("drop")),
];

pub(crate) const ATTRIBUTE: &[Key] = &[
    key("name", Text("name of an attribute"), Required),
    key("class", Choice(&["work", "disposable"]), Is("work")),
    key(
        "merge",
        Choice(&["newest", "union", "store-wins"]),
        Follows("newest, for cart union"),
    ),
    key(
        "resume",
        Choice(&["no", "newest", "union", "keep-session"]),
        Follows("no, for cart union"),
    ),
    key("ticket", Switch, Follows("false, for cart and locale true")),
    key("expose", Switch, Is("false")),
];

/// One key for each class of writes that can be waited for.
pub(crate) const DURABILITY: &[Key] = &[
    key("disposable", Text("durability"), Is("async")),
    key("work", Text("durability"), Is("redo")),
    key(
        "sign-in",
        Text("durability"),
        Follows("redo + wait(1, 50ms) degrade, with one server redo"),
    ),
    key(
        "sign-out",
        Text("durability"),
        Follows("redo + wait(1, 50ms) degrade, with one server redo"),
    ),
    key("capsule", Text("durability"), Is("redo")),
];

pub(crate) const SIDECAR: &[Key] = &[
    key("listen", Text("unix:/path or loopback address"), Required),
    key(
        "connections_max",
        Count {
            min: 1,
            max: 10_000,
        },
        Is("256"),
    ),
    key(
        "requests_max",
        Count {
            min: 1,
            max: 10_000,
        },
        Is("128"),
    ),
    key(
        "body_max",
        Bytes {
            min: "1KiB",
            max: "32MiB",
        },
        Is("2MiB"),
    ),
    key(
        "timeout",
        Span {
            min: "50ms",
            max: "1m",
        },
        Is("2s"),
    ),
];
