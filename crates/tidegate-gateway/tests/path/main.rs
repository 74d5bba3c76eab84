//! The request path from end to end: the test is the client and the application at once.

#![expect(
    clippy::unwrap_used,
    reason = "what helps a test may fail as a test does"
)]

mod aborts;
mod answers;
mod app;
mod client;
mod connections;
mod leaving;
mod queueing;
mod rooms;
mod sessions;
mod site;
mod uploads;

use std::future::Future;
use std::time::Duration;

/// What `future` yields, which takes no time worth speaking of.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("it does not end")
}

/// Waits until `is_so`, looking again whenever others have had a turn.
async fn eventually(is_so: impl Fn() -> bool) {
    within(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}
