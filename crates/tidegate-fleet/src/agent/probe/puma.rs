//! Puma's control server.
//!
//! Its `backlog` is not used: it stays 0 while clients queue, since Puma accepts no more than it has threads for.

use serde_json::Value;
use tidegate_core::health::Dimension;
use tidegate_core::time::Mono;

use super::ProbeError;
use super::http::Client;
use crate::agent::sight::Sight;

/// Worker processes that are looked at.
const WORKERS_MAX: usize = 256;

/// Asks for `/stats`.
pub(super) struct Puma {
    client: Client,
}

impl Puma {
    pub(super) const fn new(client: Client) -> Self {
        Self { client }
    }

    pub(super) async fn look(&self, now: Mono, sights: &mut Vec<Sight>) -> Result<(), ProbeError> {
        let answer = self.client.get(&self.client.url().target()).await?;
        let figures = read(&answer)
            .ok_or_else(|| ProbeError::Unexpected("these are no stats of Puma".to_owned()))?;
        sights.push(Sight::of(
            Dimension::Threads,
            figures,
            "Puma's pool_capacity",
            now,
        ));
        Ok(())
    }
}

/// Threads that are busy, of those that there may be, in all processes together. A thread that could be started is as
/// good as one that is idle; more busy than there may be are counted while a process ends.
fn read(answer: &[u8]) -> Option<(f64, f64)> {
    let stats: Value = serde_json::from_slice(answer).ok()?;
    let (mut busy, mut most) = (0.0, 0.0);
    let mut add = |stats: &Value| {
        let threads = stats["max_threads"].as_f64()?;
        let left = stats["pool_capacity"].as_f64()?;
        busy += (threads - left).clamp(0.0, threads);
        most += threads;
        Some(())
    };
    match stats["worker_status"].as_array() {
        Some(workers) => {
            for worker in workers.iter().take(WORKERS_MAX) {
                // One that is being started has said nothing yet.
                let _ = add(&worker["last_status"]);
            }
        }
        None => add(&stats)?,
    }
    Some((busy, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_and_several_are_read() {
        let single =
            br#"{"started_at":"x","backlog":0,"running":2,"pool_capacity":0,"max_threads":2}"#;
        let cluster = br#"{"workers":3,"worker_status":[
            {"pid":1,"last_status":{"backlog":0,"running":5,"pool_capacity":4,"max_threads":5}},
            {"pid":2,"last_status":{"backlog":3,"running":5,"pool_capacity":-3,"max_threads":5}},
            {"pid":3,"last_status":{}}]}"#;

        assert_eq!(read(single), Some((2.0, 2.0)));
        assert_eq!(read(cluster), Some((6.0, 10.0)));
        assert_eq!(read(b"{}"), None);
        assert_eq!(read(b"no"), None);
    }
}
