//! Which metric tells what: the names that libraries have given the same thing over time.

use super::page::Sample;

/// What a metric tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Workers that are busy, and how many there may be.
    Busy,
    Workers,
    /// Connections of a pool that are in use, and how many there may be.
    InUse,
    PoolSize,
    /// Seconds waited for a connection so far, and how often.
    WaitSeconds,
    Waits,
    /// Seconds that collections of garbage took so far.
    GcSeconds,
    /// The share of time that they took of late.
    GcShare,
    /// Bytes of the old generation after a collection, and its size.
    OldUsed,
    OldSize,
    /// The share of it that is used after a collection.
    OldShare,
    /// Tasks in a queue, and how many more it takes.
    Queued,
    QueueRoom,
    /// The share of time in which an event loop did something.
    LoopBusy,
    /// Seconds that it was late.
    LoopLag,
}

use Quantity::{
    Busy, GcSeconds, GcShare, InUse, LoopBusy, LoopLag, OldShare, OldSize, OldUsed, PoolSize,
    QueueRoom, Queued, WaitSeconds, Waits, Workers,
};

/// Names, oldest last. Micrometer has named Tomcat's threads twice, and OpenTelemetry its pools as well.
const NAMES: &[(&str, Quantity)] = &[
    ("tomcat_threads_busy_threads", Busy),
    ("tomcat_threads_busy", Busy),
    ("tomcat_threads_config_max_threads", Workers),
    ("tomcat_threads_config_max", Workers),
    ("tomcat_threadpool_currentthreadsbusy", Busy),
    ("tomcat_threadpool_maxthreads", Workers),
    ("jetty_threads_busy", Busy),
    ("jetty_threads_config_max", Workers),
    ("hikaricp_connections_active", InUse),
    ("hikaricp_connections_max", PoolSize),
    ("jdbc_connections_active", InUse),
    ("jdbc_connections_max", PoolSize),
    ("db_client_connection_count", InUse),
    ("db_client_connection_max", PoolSize),
    ("db_client_connections_usage", InUse),
    ("db_client_connections_max", PoolSize),
    ("hikaricp_connections_acquire_seconds_sum", WaitSeconds),
    ("hikaricp_connections_acquire_seconds_count", Waits),
    ("db_client_connection_wait_time_seconds_sum", WaitSeconds),
    ("db_client_connection_wait_time_seconds_count", Waits),
    ("jvm_gc_pause_seconds_sum", GcSeconds),
    ("jvm_gc_collection_seconds_sum", GcSeconds),
    ("jvm_gc_duration_seconds_sum", GcSeconds),
    ("jvm_gc_overhead", GcShare),
    ("jvm_gc_overhead_percent", GcShare),
    ("jvm_gc_live_data_size_bytes", OldUsed),
    ("jvm_gc_max_data_size_bytes", OldSize),
    ("jvm_memory_pool_collection_used_bytes", OldUsed),
    ("jvm_memory_pool_collection_max_bytes", OldSize),
    ("jvm_memory_used_after_last_gc_bytes", OldUsed),
    ("jvm_memory_limit_bytes", OldSize),
    ("jvm_memory_usage_after_gc", OldShare),
    ("jvm_memory_usage_after_gc_percent", OldShare),
    ("executor_queued_tasks", Queued),
    ("executor_queue_remaining_tasks", QueueRoom),
    ("nodejs_eventloop_utilization", LoopBusy),
    ("nodejs_eventloop_utilization_ratio", LoopBusy),
    ("nodejs_eventloop_lag_p99_seconds", LoopLag),
    ("nodejs_eventloop_lag_seconds", LoopLag),
    ("nodejs_eventloop_delay_p99_seconds", LoopLag),
];

/// Labels by which pools of memory are named.
const POOL_LABELS: [&str; 2] = ["pool", "jvm_memory_pool_name"];
/// Labels by which collectors are named.
const COLLECTOR_LABELS: [&str; 2] = ["gc", "jvm_gc_name"];

/// What `sample` tells, if it is one of ours.
pub(super) fn quantity(sample: &Sample<'_>) -> Option<Quantity> {
    let told = NAMES.iter().find(|(name, _)| *name == sample.name)?.1;
    let ours = match told {
        // OpenTelemetry counts connections by what they do.
        InUse => matches!(
            sample
                .label("state")
                .or_else(|| sample.label("db_client_connection_state")),
            None | Some("used")
        ),
        OldUsed | OldSize => of_any(sample, &POOL_LABELS).is_none_or(is_old),
        OldShare => {
            of_any(sample, &POOL_LABELS).is_none_or(|pool| pool == "long-lived" || is_old(pool))
        }
        // What is collected beside the application does not stop it.
        GcSeconds => of_any(sample, &COLLECTOR_LABELS).is_none_or(stops_the_world),
        _ => true,
    };
    ours.then_some(told)
}

/// Whether a pool of memory is what collections leave behind.
pub(super) fn is_old(pool: &str) -> bool {
    ["Old Gen", "Tenured", "old"]
        .iter()
        .any(|part| pool.contains(part))
}

/// Whether the time of a collector is one in which the application stands still.
pub(super) fn stops_the_world(collector: &str) -> bool {
    !["Cycles", "Concurrent"]
        .iter()
        .any(|part| collector.contains(part))
}

fn of_any<'a>(sample: &Sample<'a>, labels: &[&str]) -> Option<&'a str> {
    labels.iter().find_map(|label| sample.label(label))
}
