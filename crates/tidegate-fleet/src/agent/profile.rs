//! Runtimes: where each of them tells that it is busy, where it hides its queue, and what has to be switched on.
//!
//! There is no one sign for all of them. A Tomcat with all of its workers stuck accepts connections as if nothing were
//! wrong, so that an agent that looks at accept queues calls it idle; PHP-FPM behind a Unix socket says that nobody
//! waits, always; and the backlog of Puma and the page of a busy Apache are no better.

use tidegate_core::health::Dimension;

/// What an application runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runtime {
    /// Tomcat with its manager application.
    Tomcat,
    /// Spring Boot, or anything else that shows Micrometer's or the JVM's metrics.
    SpringBoot,
    /// PHP-FPM.
    PhpFpm,
    /// gunicorn with workers of the kind `sync`.
    Gunicorn,
    /// Puma.
    Puma,
    /// Apache with `mpm_prefork`.
    ApachePrefork,
    /// Node.js with metrics of its event loop.
    Node,
    /// Anything that listens.
    #[default]
    GenericListener,
}

/// One dimension, and what fills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Which.
    pub dimension: Dimension,
    /// From what, for people.
    pub from: &'static str,
    /// What to switch on or to give so that it is told.
    pub enable: &'static str,
}

const QUEUE: Fill = Fill {
    dimension: Dimension::Queue,
    from: "the accept queues of its listeners",
    enable: "give --listen for each place that it listens at",
};

const GENERIC: &[Fill] = &[QUEUE];
const TOMCAT: &[Fill] = &[
    Fill {
        dimension: Dimension::Threads,
        from: "currentThreadsBusy of maxThreads, for each connector",
        enable: "deploy the manager application, give a user the role manager-status, and give --url, --user and \
                 --password-file; a second connector for it answers while the first is full",
    },
    Fill {
        dimension: Dimension::Pool,
        from: "NumActive of MaxTotal and the mean wait for a connection, by JMX",
        enable: "declare the pool as a Resource, or set registerMbeans with HikariCP, and give the user the role manager-jmx; \
                 with initialSize Tomcat's usual pool hides its wait",
    },
    Fill {
        dimension: Dimension::Gc,
        from: "CollectionTime of the collectors that stop the application, by JMX",
        enable: "give the user the role manager-jmx",
    },
    Fill {
        dimension: Dimension::OldGen,
        from: "CollectionUsage of the old generation, by JMX",
        enable: "give the user the role manager-jmx; it says nothing until the old generation is collected once",
    },
    QUEUE,
];
const SPRING_BOOT: &[Fill] = &[
    Fill {
        dimension: Dimension::Threads,
        from: "tomcat_threads_busy_threads of tomcat_threads_config_max_threads",
        enable: "expose the endpoint prometheus, set server.tomcat.mbeanregistry.enabled=true, and give --url \
                 http://127.0.0.1:PORT/actuator/prometheus; a management.server.port of its own answers while the \
                 application is full",
    },
    Fill {
        dimension: Dimension::Pool,
        from: "hikaricp_connections_active of _max, and the mean wait for a connection",
        enable: "HikariCP shows itself where Micrometer is there; other pools show jdbc_connections_*",
    },
    Fill {
        dimension: Dimension::Gc,
        from: "the growth of jvm_gc_pause_seconds_sum",
        enable: "JVM metrics are on unless management.metrics.enable.jvm is false",
    },
    Fill {
        dimension: Dimension::OldGen,
        from: "jvm_memory_usage_after_gc, or jvm_gc_live_data_size_bytes of jvm_gc_max_data_size_bytes",
        enable: "JVM metrics are on unless management.metrics.enable.jvm is false",
    },
    QUEUE,
];
const PHP_FPM: &[Fill] = &[
    Fill {
        dimension: Dimension::Threads,
        from: "active processes of pm.max_children; or all of them, when connections wait",
        enable: "set pm.status_path and pm.status_listen, which answers while all children are busy; give --status, and \
                 pm.max_children as --workers",
    },
    QUEUE,
];
const GUNICORN: &[Fill] = &[
    Fill {
        dimension: Dimension::Threads,
        from: "the time of ended requests of the time that the workers had; or all of them, when connections wait",
        enable: "start it with --statsd-host, and give the same address as --statsd and the workers as --workers",
    },
    QUEUE,
];
const PUMA: &[Fill] = &[
    Fill {
        dimension: Dimension::Threads,
        from: "pool_capacity of max_threads; or all of them, when connections wait",
        enable: "start it with --control-url tcp://127.0.0.1:PORT and a token, and give --url http://127.0.0.1:PORT/stats \
                 and --token-file",
    },
    QUEUE,
];
const APACHE: &[Fill] = &[
    Fill {
        dimension: Dimension::Threads,
        from: "BusyWorkers of the places on the scoreboard; or all of them, when connections wait",
        enable: "load mod_status, and give --url http://127.0.0.1/server-status, and MaxRequestWorkers as --workers",
    },
    QUEUE,
];
const NODE: &[Fill] = &[
    Fill {
        dimension: Dimension::Threads,
        from: "the utilisation of the event loop",
        enable: "show nodejs_eventloop_utilization, and give --url of the page of metrics",
    },
    Fill {
        dimension: Dimension::Queue,
        from: "how late the event loop is",
        enable: "collect the default metrics of prom-client, and give --url of the page of metrics",
    },
];

impl Runtime {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Tomcat,
        Self::SpringBoot,
        Self::PhpFpm,
        Self::Gunicorn,
        Self::Puma,
        Self::ApachePrefork,
        Self::Node,
        Self::GenericListener,
    ];

    /// The name in configurations and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tomcat => "tomcat",
            Self::SpringBoot => "spring-boot",
            Self::PhpFpm => "php-fpm",
            Self::Gunicorn => "gunicorn",
            Self::Puma => "puma",
            Self::ApachePrefork => "apache-prefork",
            Self::Node => "node",
            Self::GenericListener => "generic-listener",
        }
    }

    /// What is called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The dimensions that can be known of it, beside those of the machine.
    pub const fn fills(self) -> &'static [Fill] {
        match self {
            Self::Tomcat => TOMCAT,
            Self::SpringBoot => SPRING_BOOT,
            Self::PhpFpm => PHP_FPM,
            Self::Gunicorn => GUNICORN,
            Self::Puma => PUMA,
            Self::ApachePrefork => APACHE,
            Self::Node => NODE,
            Self::GenericListener => GENERIC,
        }
    }

    /// What cannot be seen of it, whatever is switched on.
    pub const fn blind(self) -> &'static [&'static str] {
        match self {
            Self::Tomcat | Self::SpringBoot => &[
                "the accept queue of a Tomcat stays empty until maxConnections (8,192) are open: requests wait inside, and \
                 how many do is known to the gateway alone",
                "with virtual threads there are no workers to be busy: threads are unknown",
            ],
            Self::PhpFpm => &[
                "the listen queue of its status is always 0 over a Unix socket: the kernel is asked instead",
                "without pm.status_listen the status waits behind the requests that it is to tell of",
            ],
            Self::Gunicorn => &[
                "a request is told when it ends: workers that are stuck are seen by the accept queue alone",
            ],
            Self::Puma => &["its backlog stays 0 while clients wait: the kernel is asked instead"],
            Self::ApachePrefork => &[
                "the status is served by a worker: when all are busy it does not answer, and the accept queue says so",
            ],
            Self::Node => &[
                "it accepts whatever comes: its accept queue stays empty, and how many requests are inside is known to the \
                 gateway alone",
            ],
            Self::GenericListener => {
                &["whether workers are busy: only connections that nobody accepts are seen"]
            }
        }
    }

    /// Whether its workers accept connections themselves, so that one that waits says that none of them is idle.
    pub const fn accepts_when_idle(self) -> bool {
        matches!(
            self,
            Self::PhpFpm | Self::Gunicorn | Self::Puma | Self::ApachePrefork
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runtime_is_found_by_its_name_and_says_what_it_hides() {
        for runtime in Runtime::ALL {
            assert_eq!(Runtime::named(runtime.name()), Some(runtime));
            assert!(!runtime.fills().is_empty() && !runtime.blind().is_empty());
        }
        assert_eq!(Runtime::named("iis"), None);
    }

    #[test]
    fn a_connection_that_waits_says_nothing_of_runtimes_that_accept_all() {
        assert!(Runtime::PhpFpm.accepts_when_idle());
        for runtime in [Runtime::Tomcat, Runtime::Node, Runtime::GenericListener] {
            assert!(!runtime.accepts_when_idle());
        }
    }
}
