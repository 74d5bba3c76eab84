//! What a server can do at most.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use http::Method;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::connection::Connection;
use super::recorder::{histogram, micros, percentiles};
use super::{Percentiles, Request};

/// The pause of a client whose exchange failed, so that a dead server is not hammered.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);

/// A fixed number of clients, each of which asks again as soon as it is answered.
#[derive(Clone, Debug)]
pub struct ClosedLoop {
    /// The server.
    pub target: SocketAddr,
    /// What they ask.
    pub request: Request,
    /// How many they are; twice the server's slots keeps every slot busy.
    pub connections: usize,
    /// How long they ask before it counts.
    pub warm_up: Duration,
    /// How long it counts.
    pub length: Duration,
}

/// What they got.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Answers 2xx per second: the C that rates are multiples of.
    pub per_second: f64,
    /// Answers with another status, resets and refused connections, in all.
    pub failures: u64,
    /// Latencies of the answers counted.
    pub latency: Percentiles,
}

struct Counts {
    latency: Histogram<u64>,
    failures: u64,
}

/// Measures the capacity of a server. Returns when it is done; has a thread of its own meanwhile.
pub fn closed_loop(plan: &ClosedLoop) -> io::Result<Capacity> {
    let plan = plan.clone();
    let thread = std::thread::Builder::new()
        .name("closed-loop".to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            Ok(runtime.block_on(measure(plan)))
        })?;
    thread
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the closed loop panicked")))
}

async fn measure(plan: ClosedLoop) -> Capacity {
    let counts = Arc::new(Mutex::new(Counts {
        latency: histogram(),
        failures: 0,
    }));
    let from = Instant::now() + plan.warm_up;
    let until = from + plan.length;
    let plan = Arc::new(plan);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..plan.connections {
        clients.spawn(ask_on(Arc::clone(&plan), Arc::clone(&counts), from..until));
    }
    sleep(plan.warm_up + plan.length).await;
    clients.shutdown().await;

    let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    Capacity {
        per_second: counts.latency.len() as f64 / plan.length.as_secs_f64(),
        failures: counts.failures,
        latency: percentiles(&counts.latency),
    }
}

async fn ask_on(
    plan: Arc<ClosedLoop>,
    counts: Arc<Mutex<Counts>>,
    counted: std::ops::Range<Instant>,
) {
    let request = plan.request.bytes(&plan.target.to_string());
    let bodiless = plan.request.method == Method::HEAD;
    let mut open = None;
    loop {
        let sent = Instant::now();
        let received = match open.take() {
            Some(connection) => Ok(connection),
            None => Connection::open(plan.target, None).await,
        };
        let good = match received {
            Err(_) => false,
            Ok(mut connection) => match connection.exchange(&request, bodiless).await {
                Err(_) => false,
                Ok(received) => {
                    open = received.reusable.then_some(connection);
                    (200..300).contains(&received.head.status)
                }
            },
        };
        let now = Instant::now();
        {
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            if !good {
                counts.failures += 1;
            } else if counted.contains(&now) {
                counts.latency.saturating_record(micros(now - sent));
            }
        }
        if !good {
            sleep(FAILURE_PAUSE).await;
        }
    }
}
