//! The window that Netflix's concurrency-limits puts in front of a limit (`WindowedLimit` with its
//! defaults): a second of samples becomes one, their mean.
//!
//! Its known fault is kept, since it stands here for comparison: a second with fewer than ten
//! samples is thrown away, so under little traffic a limit learns nothing, of overload neither.

use std::time::Duration;

use tidegate_core::facts::RouteId;
use tidegate_core::limit::{Ending, Limit, Sample};
use tidegate_core::time::Mono;

const WINDOW: Duration = Duration::from_secs(1);

/// A window with fewer samples is thrown away.
const SAMPLES_LEAST: u32 = 10;

/// Quicker samples are not looked at.
const LATENCY_LEAST: Duration = Duration::from_micros(100);

/// A limit that sees one sample a second.
pub(super) struct Windowed {
    inner: Box<dyn Limit>,
    ends: Mono,
    samples: u32,
    sum: Duration,
    in_flight_most: u32,
    overloaded: bool,
}

impl Windowed {
    pub(super) fn new(inner: Box<dyn Limit>) -> Self {
        Self {
            inner,
            ends: Mono::default(),
            samples: 0,
            sum: Duration::ZERO,
            in_flight_most: 0,
            overloaded: false,
        }
    }

    /// What the window saw, if that was enough. The next window is empty.
    fn close(&mut self, route: RouteId) -> Option<Sample> {
        let mean = self.sum.checked_div(self.samples);
        let ending = if self.overloaded {
            Ending::Overloaded
        } else {
            Ending::Worked
        };
        let sample = mean.map(|latency| Sample {
            tag: 0,
            route,
            latency,
            in_flight: self.in_flight_most,
            ending,
        });
        let enough = self.samples >= SAMPLES_LEAST;
        self.samples = 0;
        self.sum = Duration::ZERO;
        self.in_flight_most = 0;
        self.overloaded = false;
        sample.filter(|_| enough)
    }
}

impl Limit for Windowed {
    fn admitted(&mut self, now: Mono, route: RouteId, in_flight: u32) -> u32 {
        self.inner.admitted(now, route, in_flight)
    }

    fn finished(&mut self, now: Mono, sample: &Sample) {
        if sample.ending == Ending::Ignored || sample.latency < LATENCY_LEAST {
            return;
        }
        self.samples += 1;
        self.sum = self.sum.saturating_add(sample.latency);
        self.in_flight_most = self.in_flight_most.max(sample.in_flight);
        self.overloaded |= sample.ending == Ending::Overloaded;
        if now > self.ends {
            self.ends = now + WINDOW;
            if let Some(whole) = self.close(sample.route) {
                self.inner.finished(now, &whole);
            }
        }
    }

    fn refused(&mut self, now: Mono) {
        self.inner.refused(now);
    }

    fn limit(&self) -> u32 {
        self.inner.limit()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::limit::{Aimd, Bounds};

    use super::*;

    fn aimd() -> Windowed {
        Windowed::new(Box::new(Aimd::new(Bounds::new(100, 20, 200).unwrap())))
    }

    fn feed(limit: &mut Windowed, every_ms: u64, from_ms: u64, times: u64, ending: Ending) {
        for turn in 0..times {
            let sample = Sample {
                tag: 0,
                route: RouteId(0),
                latency: Duration::from_millis(50),
                in_flight: 100,
                ending,
            };
            limit.finished(Mono::from_millis(from_ms + turn * every_ms), &sample);
        }
    }

    #[test]
    fn a_second_of_samples_moves_the_limit_once() {
        let mut limit = aimd();

        feed(&mut limit, 1, 1, 5005, Ending::Worked);

        assert_eq!(limit.limit(), 104);
    }

    #[test]
    fn one_overload_makes_the_whole_window_one() {
        let mut limit = aimd();
        feed(&mut limit, 1, 1, 1000, Ending::Worked);
        feed(&mut limit, 1, 500, 1, Ending::Overloaded);

        feed(&mut limit, 1, 1001, 2, Ending::Worked);

        assert_eq!(limit.limit(), 90);
    }

    #[test]
    fn a_window_of_few_samples_is_thrown_away_whatever_they_say() {
        let mut limit = aimd();
        feed(&mut limit, 120, 1, 600, Ending::Overloaded);
        assert_eq!(limit.limit(), 100);

        feed(&mut limit, 111, 80_000, 600, Ending::Overloaded);
        assert_eq!(limit.limit(), 20);
    }
}
