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
/// More than so many times its threads a process does not have busy, not even while another one ends.
const TIMES_BUSY_MAX: f64 = 16.0;

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
/// good as one that is idle; more busy than there may be are counted while a process ends. What a process cannot have
/// said makes all of it nothing that could be believed: the others do not speak for it.
fn read(answer: &[u8]) -> Option<(f64, f64)> {
    let stats: Value = serde_json::from_slice(answer).ok()?;
    let (mut busy, mut most) = (0.0, 0.0);
    let mut odd = None;
    let mut add = |stats: &Value| {
        let threads = stats["max_threads"].as_f64()?;
        let left = stats["pool_capacity"].as_f64()?;
        let its = threads - left;
        if threads < 0.0 || !(0.0..=threads * TIMES_BUSY_MAX).contains(&its) {
            odd = Some((its, threads));
        }
        busy += its.max(0.0).min(threads);
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
    Some(odd.unwrap_or((busy, most)))
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

    #[test]
    fn a_count_that_cannot_be_is_no_reading_whatever_the_others_say() {
        let now = Mono::from_millis(0);
        for (left, threads) in [
            ("1e20", "5"),
            ("-1e20", "5"),
            ("-100", "5"),
            ("6", "5"),
            ("0", "-5"),
            ("-9", "-5"),
            ("0", "1e20"),
        ] {
            let one = format!(r#"{{"pool_capacity":{left},"max_threads":{threads}}}"#);
            let sane = r#"{"pool_capacity":4,"max_threads":5}"#;
            let both = format!(
                r#"{{"worker_status":[{{"last_status":{one}}},{{"last_status":{sane}}}]}}"#
            );
            for answer in [one, both] {
                let figures = read(answer.as_bytes()).unwrap();

                let sight = Sight::of(Dimension::Threads, figures, "x", now);

                assert_eq!(sight.signal.ratio(now), None, "{answer}");
                assert!(sight.why.unwrap().starts_with("not believed: "), "{answer}");
            }
        }
    }
}
