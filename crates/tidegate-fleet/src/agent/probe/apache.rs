//! Apache's `mod_status`, in its form for programs.

use tidegate_core::health::Dimension;
use tidegate_core::time::Mono;

use super::http::{Client, text};
use super::{ProbeError, without_asking};
use crate::agent::sight::Sight;

/// Asks for `server-status?auto`.
pub(super) struct Apache {
    client: Client,
    /// `MaxRequestWorkers`, where the scoreboard is larger than that.
    workers_max: Option<u32>,
}

impl Apache {
    pub(super) const fn new(client: Client, workers_max: Option<u32>) -> Self {
        Self {
            client,
            workers_max,
        }
    }

    /// The port that is asked.
    pub(super) const fn port(&self) -> u16 {
        self.client.url().port()
    }

    pub(super) async fn look(&self, now: Mono, sights: &mut Vec<Sight>) -> Result<(), ProbeError> {
        let answer = self.client.get(&self.client.url().with("auto")).await?;
        let figures = read(text(&answer)?, self.workers_max);
        let figures = figures
            .ok_or_else(|| ProbeError::Unexpected("this is no status of Apache".to_owned()))?;
        sights.push(Sight::of(
            Dimension::Threads,
            figures,
            "Apache's BusyWorkers",
            now,
        ));
        Ok(())
    }
}

/// Workers that are busy, of those that there may be: each has a place on the scoreboard, started or not.
fn read(status: &str, workers_max: Option<u32>) -> Option<(f64, f64)> {
    let field = |name: &str| {
        let of = |line: &'_ str| {
            Some(
                line.strip_prefix(name)?
                    .strip_prefix(": ")?
                    .trim()
                    .to_owned(),
            )
        };
        status.lines().find_map(of)
    };
    let busy: f64 = field("BusyWorkers")?.parse().ok()?;
    let idle: f64 = field("IdleWorkers")?.parse().ok()?;
    let places = field("Scoreboard").map(|board| board.len() as f64);
    let most = workers_max.map(f64::from).or(places).unwrap_or(busy + idle);
    // Who answers this is busy with it.
    Some((without_asking(busy, 1.0), most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_are_not_started_are_places() {
        let status =
            "ServerVersion: Apache/2.4\nBusyWorkers: 3\nIdleWorkers: 2\nScoreboard: WK__W...\n";

        assert_eq!(read(status, None), Some((2.0, 8.0)));
        assert_eq!(read(status, Some(5)), Some((2.0, 5.0)));
        assert_eq!(
            read("BusyWorkers: 1\nIdleWorkers: 4\n", None),
            Some((0.0, 5.0))
        );
        assert_eq!(read("<html>", None), None);
    }

    #[test]
    fn a_count_that_cannot_be_is_no_reading() {
        let now = Mono::from_millis(0);
        for busy in ["1e20", "-5", "NaN", "inf", "9007199254740993"] {
            let status = format!("BusyWorkers: {busy}\nIdleWorkers: 4\nScoreboard: W____\n");
            let figures = read(&status, None).unwrap();

            let sight = Sight::of(Dimension::Threads, figures, "x", now);

            assert_eq!(sight.signal.ratio(now), None, "{busy}");
            assert!(sight.why.unwrap().starts_with("not believed: "), "{busy}");
        }
    }
}
