//! Everything that the kernel tells, as signals.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::health::Dimension;
use tidegate_core::time::Mono;

use super::Roots;
use super::cgroup::{Cgroup, CgroupUse};
use super::container::in_container;
use super::cpu::{CpuShares, CpuTimes, count_of_list, parse_load};
use super::file::KernelFile;
use super::netstat::Overflows;
use super::pressure::Pressure;
use crate::agent::sight::{Blank, Sight};

/// What pressure is told of: the name of the file, and what we call it.
const PRESSURES: [(&str, Dimension, &str, &str); 3] = [
    ("cpu", Dimension::PsiCpu, "pressure/cpu", "cpu.pressure"),
    (
        "memory",
        Dimension::PsiMemory,
        "pressure/memory",
        "memory.pressure",
    ),
    ("io", Dimension::PsiIo, "pressure/io", "io.pressure"),
];

/// The readers of one machine. They keep what they saw last, since most figures are differences.
pub struct Host {
    stat: KernelFile,
    loadavg: KernelFile,
    netstat: KernelFile,
    online: KernelFile,
    pressures: [PressureFile; 3],
    cgroup: Result<Cgroup, Blank>,
    container: Option<String>,
    last: Option<Last>,
}

struct PressureFile {
    dimension: Dimension,
    source: &'static str,
    file: KernelFile,
    last: Option<Pressure>,
}

/// The last look.
#[derive(Clone, Copy)]
struct Last {
    at: Mono,
    cpu: Option<CpuTimes>,
    cgroup: Option<CgroupUse>,
    overflows: Option<Overflows>,
}

/// What there is beside signals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostView {
    /// What says that this is a container, if anything does.
    pub container: Option<String>,
    /// Cores that are online.
    pub cores_online: Option<u32>,
    /// Cores that the application may use: the fewest of those online, its set, and its quota.
    pub cores: Option<f64>,
    /// Whether a connection found no room in an accept queue since the last look; `None` where that is not told.
    /// It is a flag for this part of the network, and no count of clients.
    pub overflowed: Option<bool>,
    /// Connections that found no room, as the kernel has counted them since this part of the network began: each attempt
    /// of a client anew. `None` where that is not told.
    pub overflows: Option<u64>,
    /// Time that tasks of the group stood still since the last look since its quota was used up, added up over cores.
    pub throttled: Option<Duration>,
}

impl Host {
    /// Readers below `roots`, for the group of process `pid` or of this one.
    pub fn new(roots: &Roots, pid: Option<u32>) -> Self {
        let cgroup = Cgroup::find(roots, pid);
        let container = in_container(roots);
        let pressures = PRESSURES.map(|(name, dimension, host, group)| {
            // In a container what others wait for is none of ours.
            let own = cgroup.as_ref().ok().filter(|_| container.is_some());
            let own: Option<PathBuf> = own.and_then(|cgroup| cgroup.pressure_of(name));
            let source = if own.is_some() { group } else { host };
            PressureFile {
                dimension,
                source,
                file: KernelFile::new(own.unwrap_or_else(|| roots.proc.join(host))),
                last: None,
            }
        });
        Self {
            stat: KernelFile::new(roots.proc.join("stat")),
            loadavg: KernelFile::new(roots.proc.join("loadavg")),
            netstat: KernelFile::new(roots.proc.join("net/netstat")),
            online: KernelFile::new(roots.sys.join("devices/system/cpu/online")),
            pressures,
            cgroup,
            container,
            last: None,
        }
    }

    /// Reads everything at `now` and puts a sight for each dimension, or several, behind those in `sights`.
    pub fn look(&mut self, now: Mono, sights: &mut Vec<Sight>) -> HostView {
        let times = parsed(&mut self.stat, CpuTimes::parse);
        let cgroup = self
            .cgroup
            .as_mut()
            .map_err(|blank| blank.clone())
            .and_then(Cgroup::look);
        let overflows = parsed(&mut self.netstat, Overflows::parse).ok();
        let cores_online = parsed(&mut self.online, count_of_list).ok();
        let cores = cores_online.map(|online| narrowest(online, cgroup.as_ref().ok()));
        let since = self.last.map(|last| now.since(last.at));
        let shares = times.clone().and_then(|times| {
            let last = self.last.and_then(|last| last.cpu);
            last.and_then(|last| times.shares_since(&last))
                .ok_or_else(Blank::first_look)
        });

        self.look_at_processor(now, (cores_online, cores), &shares, &cgroup, sights);
        let steal = shares.map(|shares| (shares.steal, 1.0));
        sights.push(Sight::read(Dimension::Steal, steal, "/proc/stat", now));
        self.look_at_load(now, cores_online, sights);
        for pressure in &mut self.pressures {
            sights.push(pressure.look(now, since));
        }

        let last = self.last;
        self.last = Some(Last {
            at: now,
            cpu: times.ok(),
            cgroup: cgroup.clone().ok(),
            overflows,
        });
        let throttled = last.and_then(|last| last.cgroup).zip(cgroup.ok());
        HostView {
            container: self.container.clone(),
            cores_online,
            cores,
            overflowed: last
                .and_then(|last| last.overflows)
                .zip(overflows)
                .map(|(early, late)| late.grew_since(&early)),
            overflows: overflows.map(|overflows| overflows.full()),
            throttled: throttled
                .filter(|(_, late)| late.quota_cores.is_some() && late.periods.is_some())
                .map(|(early, late)| late.throttled.saturating_sub(early.throttled)),
        }
    }

    /// The group's processor time in a container, whose host has other tenants, and where it may use fewer cores than there
    /// are, else the machine's; and where there is a quota, the share of its periods in which it was used up. The time that
    /// tasks stood still is no share of anything: it adds up over as many cores as had something to do.
    fn look_at_processor(
        &self,
        now: Mono,
        (online, cores): (Option<u32>, Option<f64>),
        shares: &Result<CpuShares, Blank>,
        cgroup: &Result<CgroupUse, Blank>,
        sights: &mut Vec<Sight>,
    ) {
        let last = self.last.and_then(|last| Some((last.at, last.cgroup?)));
        let grown = cgroup.as_ref().ok().zip(last);
        let limited =
            matches!((online, cores), (Some(online), Some(cores)) if cores < f64::from(online));
        let (used, source) = if limited || self.container.is_some() {
            let used = grown.and_then(|(late, (at, early))| {
                let spent = late.used?.saturating_sub(early.used?).as_secs_f64();
                let since = now.since(at).as_secs_f64();
                (since > 0.0).then(|| spent / since)
            });
            let used = used.ok_or_else(|| match cgroup {
                Ok(_) => Blank::first_look(),
                Err(blank) => blank.clone(),
            });
            (used, "cgroup cpu usage")
        } else {
            let used = shares
                .clone()
                .map(|shares| shares.busy * cores.unwrap_or(1.0));
            (used, "/proc/stat")
        };
        let figures = used.map(|used| (used, cores.unwrap_or(1.0)));
        sights.push(Sight::read(Dimension::Cpu, figures, source, now));
        if let Some((late, (_, early))) = grown
            && late.quota_cores.is_some()
        {
            let grown = late.periods.zip(early.periods);
            let share = grown.map(|(late_periods, early_periods)| {
                let periods = late_periods.saturating_sub(early_periods);
                let throttled = late
                    .throttled_periods
                    .saturating_sub(early.throttled_periods);
                // A group that had nothing to do has no periods.
                throttled as f64 / periods.max(1) as f64
            });
            let share = share.map(|share| (share, 1.0));
            let share = share.ok_or_else(|| Blank::unsupported("its periods are not counted"));
            sights.push(Sight::read(
                Dimension::Cpu,
                share,
                "cgroup nr_throttled",
                now,
            ));
        }
    }

    fn look_at_load(&mut self, now: Mono, online: Option<u32>, sights: &mut Vec<Sight>) {
        let source = "/proc/loadavg";
        let load = if self.container.is_some() {
            Err(Blank::unsupported("in a container it is the host's"))
        } else {
            parsed(&mut self.loadavg, parse_load).and_then(|load| {
                let cores =
                    online.ok_or_else(|| Blank::error("the number of cores is not told"))?;
                Ok((load, f64::from(cores)))
            })
        };
        sights.push(Sight::read(Dimension::Load, load, source, now));
    }
}

impl PressureFile {
    fn look(&mut self, now: Mono, since: Option<Duration>) -> Sight {
        let read = parsed(&mut self.file, Pressure::parse);
        // Processors: somebody always waits on a busy machine, and nobody is ever stopped altogether. Of memory, disks
        // and network it is the standstill that hurts; it is told where the kernel is new enough.
        let share = read.clone().and_then(|pressure| {
            let earlier = self.last.zip(since).ok_or_else(Blank::first_look)?;
            let (last, since) = earlier;
            let some = pressure.some_share(&last, since);
            let share = match self.dimension {
                Dimension::PsiCpu => some,
                _ => pressure.full_share(&last, since).or(some),
            };
            share
                .map(|share| (share, 1.0))
                .ok_or_else(Blank::first_look)
        });
        self.last = read.ok();
        Sight::read(self.dimension, share, self.source, now)
    }
}

fn narrowest(online: u32, cgroup: Option<&CgroupUse>) -> f64 {
    let mut cores = f64::from(online);
    if let Some(used) = cgroup {
        cores = used
            .cpuset_cores
            .map_or(cores, |set| cores.min(f64::from(set)));
        cores = used.quota_cores.map_or(cores, |quota| cores.min(quota));
    }
    cores
}

fn parsed<T>(file: &mut KernelFile, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Blank> {
    let parsed = parse(file.read()?);
    parsed.ok_or_else(|| Blank::error(format!("{} is not as expected", file.path().display())))
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tidegate_core::health::Validity;

    use super::*;

    /// Files of a machine that there is not.
    pub(in crate::agent) struct Tree(PathBuf);

    impl Tree {
        pub(in crate::agent) fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("tidegate-tree-{}-{number}", std::process::id());
            let root = std::env::temp_dir().join(name);
            fs::create_dir(&root).unwrap();
            Self(root)
        }

        pub(in crate::agent) fn roots(&self) -> Roots {
            Roots {
                proc: self.0.join("proc"),
                sys: self.0.join("sys"),
            }
        }

        pub(in crate::agent) fn proc(&self, path: &str, text: &str) {
            write(&self.roots().proc.join(path), text);
        }

        pub(in crate::agent) fn sys(&self, path: &str, text: &str) {
            write(&self.roots().sys.join(path), text);
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    fn of(sights: &[Sight], dimension: Dimension, source: &str) -> Sight {
        let is_it = |sight: &&Sight| sight.signal.dimension == dimension && sight.source == source;
        let sight = sights.iter().find(is_it);
        sight
            .unwrap_or_else(|| panic!("no {dimension:?} of {source}"))
            .clone()
    }

    fn machine() -> Tree {
        let tree = Tree::new();
        tree.proc("stat", "cpu  10 0 10 80 0 0 0 0 0 0\n");
        tree.proc("loadavg", "3.00 1 1 1/2 3\n");
        tree.proc(
            "net/netstat",
            "TcpExt: ListenOverflows ListenDrops\nTcpExt: 6 6\n",
        );
        tree.proc("pressure/cpu", "some avg10=0 avg60=0 avg300=0 total=1000\n");
        let memory =
            "some avg10=0 avg60=0 avg300=0 total=0\nfull avg10=0 avg60=0 avg300=0 total=0\n";
        tree.proc("pressure/memory", memory);
        tree.sys("devices/system/cpu/online", "0-3\n");
        tree
    }

    #[test]
    fn a_machine_is_seen_by_the_difference_of_two_looks() {
        let tree = machine();
        let mut host = Host::new(&tree.roots(), None);
        let mut sights = Vec::new();
        let view = host.look(at(0), &mut sights);
        assert_eq!((view.cores, view.overflowed), (Some(4.0), None));
        assert_eq!(
            of(&sights, Dimension::Cpu, "/proc/stat").signal.validity,
            Validity::Unsupported
        );

        tree.proc("stat", "cpu  60 0 10 120 0 0 0 10 0 0\n");
        tree.proc(
            "net/netstat",
            "TcpExt: ListenOverflows ListenDrops\nTcpExt: 24 24\n",
        );
        tree.proc(
            "pressure/cpu",
            "some avg10=0 avg60=0 avg300=0 total=501000\n",
        );
        sights.clear();
        let view = host.look(at(1_000), &mut sights);

        assert_eq!(view.overflowed, Some(true), "a flag, not eighteen clients");
        let cpu = of(&sights, Dimension::Cpu, "/proc/stat").signal;
        assert_eq!(
            (cpu.value, cpu.limit),
            (2.0, 4.0),
            "what others had is not used"
        );
        assert_eq!(
            of(&sights, Dimension::Steal, "/proc/stat").signal.value,
            0.1
        );
        assert_eq!(
            of(&sights, Dimension::Load, "/proc/loadavg")
                .signal
                .ratio(at(1_000)),
            Some(0.75)
        );
        assert_eq!(
            of(&sights, Dimension::PsiCpu, "pressure/cpu").signal.value,
            0.5
        );
        assert_eq!(
            of(&sights, Dimension::PsiMemory, "pressure/memory")
                .signal
                .ratio(at(1_000)),
            Some(0.0)
        );
        let io = of(&sights, Dimension::PsiIo, "pressure/io");
        assert_eq!(io.signal.validity, Validity::Unsupported);
        assert!(io.why.unwrap().contains("there is no"));
    }

    #[test]
    fn in_a_container_the_quota_is_what_there_is_and_the_hosts_load_says_nothing() {
        let tree = machine();
        tree.proc("self/cgroup", "0::/\n");
        tree.proc("self/mountinfo", "7 6 0:5 / / rw - overlay overlay rw\n");
        tree.sys("fs/cgroup/cgroup.controllers", "cpu\n");
        tree.sys("fs/cgroup/cpu.max", "50000 100000\n");
        tree.sys(
            "fs/cgroup/cpu.stat",
            "usage_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
        );
        tree.sys(
            "fs/cgroup/cpu.pressure",
            "some avg10=0 avg60=0 avg300=0 total=0\n",
        );
        let mut host = Host::new(&tree.roots(), None);
        host.look(at(0), &mut Vec::new());

        tree.sys(
            "fs/cgroup/cpu.stat",
            "usage_usec 500000\nnr_periods 10\nnr_throttled 9\nthrottled_usec 450000\n",
        );
        tree.sys(
            "fs/cgroup/cpu.pressure",
            "some avg10=0 avg60=0 avg300=0 total=450000\n",
        );
        let mut sights = Vec::new();
        let view = host.look(at(1_000), &mut sights);

        assert_eq!(view.cores, Some(0.5));
        assert_eq!(view.throttled, Some(Duration::from_millis(450)));
        assert!(view.container.is_some());
        assert_eq!(
            of(&sights, Dimension::Cpu, "cgroup cpu usage")
                .signal
                .ratio(at(1_000)),
            Some(1.0)
        );
        assert_eq!(
            of(&sights, Dimension::Cpu, "cgroup nr_throttled")
                .signal
                .value,
            0.9
        );
        assert_eq!(
            of(&sights, Dimension::PsiCpu, "cpu.pressure").signal.value,
            0.45
        );
        let load = of(&sights, Dimension::Load, "/proc/loadavg").signal;
        assert_eq!(load.validity, Validity::Unsupported);
    }

    #[test]
    fn what_others_do_on_the_host_is_no_work_of_a_container_without_a_quota() {
        let tree = machine();
        tree.proc("self/cgroup", "0::/\n");
        tree.proc("self/mountinfo", "7 6 0:5 / / rw - overlay overlay rw\n");
        tree.sys("fs/cgroup/cgroup.controllers", "cpu\n");
        tree.sys("fs/cgroup/cpu.max", "max 100000\n");
        tree.sys("fs/cgroup/cpu.stat", "usage_usec 0\n");
        let mut host = Host::new(&tree.roots(), None);
        host.look(at(0), &mut Vec::new());

        tree.proc("stat", "cpu  410 0 10 80 0 0 0 0 0 0\n");
        tree.sys("fs/cgroup/cpu.stat", "usage_usec 400000\n");
        let mut sights = Vec::new();
        host.look(at(1_000), &mut sights);

        let cpu = sights
            .iter()
            .filter(|it| it.signal.dimension == Dimension::Cpu);
        let cpu: Vec<_> = cpu.map(|it| (it.signal.value, it.signal.limit)).collect();
        assert_eq!(cpu, [(0.4, 4.0)]);
    }

    #[test]
    fn this_machine_is_seen() {
        let mut host = Host::new(&Roots::default(), None);
        let mut sights = Vec::new();

        let view = host.look(at(0), &mut sights);

        assert!(view.cores_online.unwrap() >= 1);
        assert!(
            of(&sights, Dimension::Steal, "/proc/stat")
                .why
                .unwrap()
                .contains("two looks")
        );
    }
}
