//! The way from a node to its fleet, when it takes longer than a request would wait for the store.

use std::time::{Duration, Instant};

use tidegate_lab::peers::{FaultProxy, RedisServer, Toward};

use crate::client::get;
use crate::process::{PATIENCE, TempDir, Tidegate};

/// Far over what a request waits, and far below a second.
const LATE: Duration = Duration::from_millis(40);
/// What a node says when it was heard three times.
const HEARD: &str = "tidegate_beacon_posts_total{result=\"heard\"} 3";

#[test]
fn a_node_that_is_late_is_heard_and_leads() {
    let redis = RedisServer::plain().unwrap();
    let way = FaultProxy::start(redis.address()).unwrap();
    way.delay(Toward::Client, LATE);
    let directory = TempDir::new();
    let tidegate = Tidegate::start(
        &directory,
        &format!(
            "[[app]]\nupstream = \"http://127.0.0.1:9\"\n[store]\nurl = \"redis://{}\"\n[fleet]\nnode = \"late\"\n",
            way.address()
        ),
    );

    let begun = Instant::now();
    loop {
        let metrics = get(tidegate.admin, "/metrics").text();
        if metrics.contains(HEARD) && metrics.contains("tidegate_leads 1") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "never heard: {metrics}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}
