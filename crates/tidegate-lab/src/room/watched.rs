//! Some who are watched from when they come until they are called: how often what they read becomes much worse.

use std::time::Duration;

/// A change that somebody would be angry about: so many times what was left, and a minute at least.
const JUMP: f64 = 1.25;
const JUMP_MIN_S: f64 = 60.0;
/// So many at the same time.
const WATCHED: usize = 12;

/// What those who are watched read.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    reading: Vec<Reading>,
    /// How many were watched until they were called or left, and how often what they read jumped up.
    pub(super) visitors: u64,
    pub(super) jumps: u64,
}

/// A wait as it stands on a page. It is written anew when the next one that is told is not within its band.
#[derive(Clone, Copy, Debug)]
struct Reading {
    who: u32,
    at: u64,
    wait: f64,
    band: (f64, f64),
}

impl Watched {
    /// Whether there is room for one more.
    pub(super) fn wants(&self, who: u32) -> bool {
        self.reading.len() < WATCHED && self.reading.iter().all(|it| it.who != who)
    }

    /// Watches them from now on.
    pub(super) fn watch(&mut self, now: u64, who: u32, wait: Duration, band: (Duration, Duration)) {
        self.reading.push(Reading::new(now, who, wait, band));
    }

    /// Tells each what `wait` says; `None` of it is that they wait no more.
    pub(super) fn tell(
        &mut self,
        now: u64,
        wait: impl Fn(u32) -> Option<(Duration, (Duration, Duration))>,
    ) {
        let (mut gone, mut jumps) = (0, 0);
        self.reading.retain_mut(|it| {
            let Some((told, band)) = wait(it.who) else {
                gone += 1;
                return false;
            };
            let (seconds, passed) = (told.as_secs_f64(), (now - it.at) as f64);
            if it.band.0 - passed <= seconds && seconds <= it.band.1 - passed {
                return true;
            }
            let left = (it.wait - passed).max(0.0);
            jumps += u64::from(seconds > JUMP * left && seconds > left + JUMP_MIN_S);
            *it = Reading::new(now, it.who, told, band);
            true
        });
        self.visitors += gone;
        self.jumps += jumps;
    }
}

impl Reading {
    fn new(at: u64, who: u32, wait: Duration, band: (Duration, Duration)) -> Self {
        Self {
            who,
            at,
            wait: wait.as_secs_f64(),
            band: (band.0.as_secs_f64(), band.1.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(seconds: u64) -> (Duration, (Duration, Duration)) {
        let wait = Duration::from_secs(seconds);
        (wait, (wait.mul_f64(0.8), wait.mul_f64(1.25)))
    }

    #[test]
    fn what_is_read_jumps_when_it_leaves_its_band_upwards_by_a_quarter() {
        let mut watched = Watched::default();
        let (wait, band) = around(600);
        watched.watch(0, 7, wait, band);
        assert!(!watched.wants(7) && watched.wants(8));

        // 500 s are left, then.
        watched.tell(100, |_| Some(around(600)));
        assert_eq!(watched.jumps, 0, "within the band");
        watched.tell(200, |_| Some(around(480)));
        assert_eq!(watched.jumps, 0, "within the band");
        watched.tell(300, |_| Some(around(520)));
        assert_eq!(watched.jumps, 1, "300 s are left of what is read");
        watched.tell(310, |_| Some(around(300)));
        assert_eq!(watched.jumps, 1, "better is no jump");
        watched.tell(320, |_| None);

        assert_eq!(watched.visitors, 1);
    }
}
