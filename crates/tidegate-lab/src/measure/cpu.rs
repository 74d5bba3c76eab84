//! The machine's cores: pinning to one, and what the host took away.

use std::fs;
use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::process::thread_ids;

/// Below what everything else has, above what the kernel's own threads need.
const PREFERRED_NICENESS: i32 = -10;

/// CPU time of the whole machine since it started, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTimes {
    total: u64,
    steal: u64,
}

impl HostTimes {
    /// Reads it now.
    pub fn now() -> io::Result<Self> {
        Self::parse(&fs::read_to_string("/proc/stat")?)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/stat has no cpu line"))
    }

    /// The share of the time since `earlier` that the host gave to others.
    pub fn steal_share_since(&self, earlier: &Self) -> f64 {
        let total = self.total.saturating_sub(earlier.total);
        let steal = self.steal.saturating_sub(earlier.steal);
        if total == 0 {
            0.0
        } else {
            steal as f64 / total as f64
        }
    }

    fn parse(stat: &str) -> Option<Self> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?;
        let mut total = 0;
        let mut steal = 0;
        // Guest time, the last two, is in user time already.
        for (index, field) in fields.split_ascii_whitespace().take(8).enumerate() {
            let ticks: u64 = field.parse().ok()?;
            total += ticks;
            if index == 7 {
                steal = ticks;
            }
        }
        Some(Self { total, steal })
    }
}

/// The cores this thread may run on.
pub fn cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&core| set.is_set(core))
        .collect())
}

/// Keeps the calling thread, and threads it starts from now on, on `core`.
pub fn pin_thread(core: usize) -> io::Result<()> {
    pin(None, core)
}

/// Keeps every thread that process `pid` has now, and those they start, on `core`.
pub fn pin_process(pid: u32, core: usize) -> io::Result<()> {
    for thread in thread_ids(pid)? {
        let thread = i32::try_from(thread).ok().and_then(Pid::from_raw);
        match pin(thread, core) {
            // It has ended since the list was read.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Lets the calling thread go before others that want its core, as far as the system allows it: root
/// may, everybody else goes on as before.
pub fn prefer_thread() {
    // On Linux "no process" is the calling thread alone, not its whole process.
    let _ = rustix::process::setpriority_process(None, PREFERRED_NICENESS);
}

fn pin(thread: Option<Pid>, core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(thread, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_field_and_guest_time_is_not_counted_twice() {
        let early = HostTimes::parse("cpu  10 0 10 80 0 0 0 0 5 5\ncpu0 1 2").unwrap();
        let late = HostTimes::parse("cpu  20 0 20 150 0 0 0 10 9 9\ncpu0 1 2").unwrap();

        assert_eq!(late.steal_share_since(&early), 0.1);
        assert_eq!(early.steal_share_since(&early), 0.0);
    }

    #[test]
    fn a_pinned_thread_has_one_core_left() {
        let core = cores().unwrap()[0];

        let left = std::thread::spawn(move || {
            pin_thread(core).unwrap();
            cores().unwrap()
        })
        .join()
        .unwrap();

        assert_eq!(left, vec![core]);
    }
}
