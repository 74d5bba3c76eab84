//! What a process uses, from /proc.

use std::fs;
use std::io;
use std::time::Duration;

use serde::Serialize;

/// What a process uses at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessSample {
    /// CPU time of all its threads, ended ones too, in clock ticks of 10 ms.
    pub cpu: Duration,
    /// Memory resident now, in bytes.
    pub rss_bytes: u64,
    /// The most memory that was ever resident, in bytes.
    pub rss_max_bytes: u64,
    /// Threads it has.
    pub threads: u64,
}

/// Reads what process `pid` uses.
pub fn sample(pid: u32) -> io::Result<ProcessSample> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let cpu = stat_cpu(&stat).ok_or_else(|| malformed("stat"))?;
    let field = |name| status_field(&status, name).ok_or_else(|| malformed("status"));
    Ok(ProcessSample {
        cpu,
        rss_bytes: field("VmRSS:")? * 1_024,
        rss_max_bytes: field("VmHWM:")? * 1_024,
        threads: field("Threads:")?,
    })
}

/// CPU time of all threads that process `pid` has now, to the nanosecond. A thread that has ended
/// takes its share with it: use it on processes whose threads stay.
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    let mut sum = Duration::ZERO;
    for thread in thread_ids(pid)? {
        match cpu_time_of_thread(pid, thread) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => sum += other?,
        }
    }
    Ok(sum)
}

/// CPU time of thread `thread` of process `pid`, to the nanosecond.
pub fn cpu_time_of_thread(pid: u32, thread: u32) -> io::Result<Duration> {
    let schedstat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat"))?;
    schedstat
        .split_ascii_whitespace()
        .next()
        .and_then(|nanos| nanos.parse().ok())
        .map(Duration::from_nanos)
        .ok_or_else(|| malformed("schedstat"))
}

/// The threads that process `pid` has now.
pub fn thread_ids(pid: u32) -> io::Result<Vec<u32>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        ids.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok()),
        );
    }
    Ok(ids)
}

/// User and system time in `stat`, whose second field may itself have spaces and parentheses.
fn stat_cpu(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    // The kernel shows 100 ticks a second to user space on every architecture there is.
    Some(Duration::from_millis((user + system) * 10))
}

fn status_field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn malformed(file: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("/proc/…/{file} is not as expected"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194304 10 0 0 0 250 50 0 0 20 0 1 0 100 0 0";

        assert_eq!(stat_cpu(stat), Some(Duration::from_secs(3)));
    }

    #[test]
    fn this_process_has_memory_and_its_time_does_not_run_backwards() {
        let pid = std::process::id();

        let early = (sample(pid).unwrap(), cpu_time(pid).unwrap());
        let late = sample(pid).unwrap();

        assert!(early.0.rss_bytes > 0 && early.0.rss_max_bytes >= early.0.rss_bytes);
        assert!(early.1 > Duration::ZERO);
        assert!(late.cpu >= early.0.cpu);
    }
}
