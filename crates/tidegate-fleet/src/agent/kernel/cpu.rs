//! Processor time and load of the machine.

/// Processor time of all cores since the machine started, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuTimes {
    total: u64,
    idle: u64,
    steal: u64,
}

/// Shares of the processor time between two looks, each from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CpuShares {
    /// Neither idle nor stolen. Who waits for a core that others have uses none.
    pub(super) busy: f64,
    /// Given to others by the host.
    pub(super) steal: f64,
}

impl CpuTimes {
    /// Reads `/proc/stat`.
    pub(super) fn parse(stat: &str) -> Option<Self> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?;
        let mut times = [0_u64; 8];
        // Guest time, the last two fields, is in user time already. Old kernels have fewer fields.
        let mut known = 0;
        for (place, field) in times.iter_mut().zip(fields.split_ascii_whitespace()) {
            *place = field.parse().ok()?;
            known += 1;
        }
        let [_, _, _, idle, iowait, .., steal] = times;
        (known >= 4).then(|| Self {
            // Where counters are broken, no difference makes sense either: nothing is told then.
            total: times.iter().fold(0, |sum, time| sum.saturating_add(*time)),
            idle: idle.saturating_add(iowait),
            steal,
        })
    }

    /// What was done since `earlier`; nothing when no tick has passed.
    pub(super) fn shares_since(&self, earlier: &Self) -> Option<CpuShares> {
        let total = self.total.saturating_sub(earlier.total);
        // The time of idle cores may run backwards by a tick.
        let idle = self.idle.saturating_sub(earlier.idle).min(total);
        let steal = self.steal.saturating_sub(earlier.steal).min(total - idle);
        (total > 0).then(|| CpuShares {
            busy: (total - idle - steal) as f64 / total as f64,
            steal: steal as f64 / total as f64,
        })
    }
}

/// The load average of the last minute from `/proc/loadavg`: tasks that run or want to, of the whole host.
pub(super) fn parse_load(loadavg: &str) -> Option<f64> {
    loadavg.split_ascii_whitespace().next()?.parse().ok()
}

/// How many there are in a list such as `0-3,8`.
pub(super) fn count_of_list(list: &str) -> Option<u32> {
    let mut count = 0_u32;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_told_apart_and_guest_time_does_not_count_twice() {
        let early = CpuTimes::parse("cpu  10 0 10 70 10 0 0 0 5 5\ncpu0 1 2").unwrap();
        let late = CpuTimes::parse("cpu  20 0 20 130 20 0 0 10 9 9\ncpu0 1 2").unwrap();

        let shares = late.shares_since(&early).unwrap();

        assert_eq!((shares.busy, shares.steal), (0.2, 0.1));
        assert_eq!(early.shares_since(&early), None);
        assert_eq!(CpuTimes::parse("cpu 1 2"), None);
    }

    #[test]
    fn a_machine_whose_host_takes_all_of_it_uses_nothing() {
        let early = CpuTimes::parse("cpu 0 0 0 0 0 0 0 0").unwrap();
        let late = CpuTimes::parse("cpu 0 0 0 0 0 0 0 100").unwrap();

        let shares = late.shares_since(&early).unwrap();

        assert_eq!((shares.busy, shares.steal), (0.0, 1.0));
    }

    #[test]
    fn counters_past_all_bounds_tell_nothing() {
        let most = u64::MAX;
        let line = format!("cpu {most} {most} 0 {most} {most} 0 0 {most}");
        let broken = CpuTimes::parse(&line).unwrap();

        let sane = CpuTimes::parse("cpu 10 0 10 70 10 0 0 0").unwrap();

        assert_eq!(broken.shares_since(&broken), None);
        assert_eq!(sane.shares_since(&broken), None);
        let shares = broken.shares_since(&sane).unwrap();
        assert!(shares.busy + shares.steal <= 1.0, "{shares:?}");
    }

    #[test]
    fn cores_are_counted_from_ranges() {
        assert_eq!(count_of_list("0-3,8\n"), Some(5));
        assert_eq!(count_of_list("0"), Some(1));
        assert_eq!(count_of_list(""), None);
        assert_eq!(count_of_list("3-1"), None);
    }

    #[test]
    fn the_load_is_the_first_number() {
        assert_eq!(parse_load("1.25 0.50 0.10 2/345 6789\n"), Some(1.25));
        assert_eq!(parse_load(""), None);
    }
}
