//! The group of processes that the application runs in: how much processor time it may take, and has.
//!
//! Both versions of the interface, and machines that have both at once: there the processor belongs to the old one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Roots;
use super::cpu::count_of_list;
use super::file::{KernelFile, field, number, text_of};
use crate::agent::sight::Blank;

/// Groups above one another that are looked at.
const DEPTH_MAX: usize = 16;

/// The readers of one group and of those above it: a limit of any of them holds.
pub(super) struct Cgroup {
    levels: Vec<Level>,
    cpuset: Option<KernelFile>,
    /// Where the group's own pressure is told.
    pressure: Option<PathBuf>,
}

/// The files of a group.
enum Level {
    V1 {
        quota: KernelFile,
        period: KernelFile,
        stat: KernelFile,
        usage: Option<KernelFile>,
    },
    V2 {
        max: KernelFile,
        stat: KernelFile,
    },
}

/// What a group may take and has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CgroupUse {
    /// Cores that it may use by its quota; `None` without one.
    pub(super) quota_cores: Option<f64>,
    /// Cores that it may run on; `None` where nobody says.
    pub(super) cpuset_cores: Option<u32>,
    /// Processor time that it has taken.
    pub(super) used: Option<Duration>,
    /// Periods of the quota so far, `None` where they are not counted; those in which it was used up; and the time that
    /// tasks then stood still, added up over cores.
    pub(super) periods: Option<u64>,
    pub(super) throttled_periods: u64,
    pub(super) throttled: Duration,
}

impl Cgroup {
    /// The group of process `pid`, or of this one.
    pub(super) fn find(roots: &Roots, pid: Option<u32>) -> Result<Self, Blank> {
        let who = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        let path = roots.proc.join(who).join("cgroup");
        let lines = text_of(&path).map_err(|error| Blank::of_file(&error, &path))?;
        let mounts = roots.sys.join("fs/cgroup");
        let v1 = |controller| v1_group(&lines, &mounts, controller);
        if let Some((mount, group)) = v1("cpu") {
            let used = v1("cpuacct");
            let above = used.as_ref().map(|(_, group)| group.as_path());
            let levels = groups_above(&group, &mount);
            let usage = above
                .into_iter()
                .flat_map(Path::ancestors)
                .map(|group| group.join("cpuacct.usage"));
            let mut usage = usage.map(KernelFile::new);
            return Ok(Self {
                levels: levels
                    .map(|group| Level::v1(&group, usage.next()))
                    .collect(),
                cpuset: v1("cpuset").and_then(|(_, group)| cpuset_in(&group)),
                pressure: None,
            });
        }
        let path = lines.lines().find_map(|line| line.strip_prefix("0::"));
        let path =
            path.ok_or_else(|| Blank::unsupported("no group of processes limits the processor"))?;
        let mount = [mounts.join("unified"), mounts]
            .into_iter()
            .find(|mount| is_v2(mount));
        let mount =
            mount.ok_or_else(|| Blank::unsupported("no groups of processes are mounted"))?;
        let group = within(&mount, path);
        Ok(Self {
            levels: groups_above(&group, &mount)
                .map(|group| Level::v2(&group))
                .collect(),
            cpuset: cpuset_in(&group),
            pressure: Some(group),
        })
    }

    /// Where the pressure on this group alone is told, if it is.
    pub(super) fn pressure_of(&self, what: &str) -> Option<PathBuf> {
        let path = self.pressure.as_ref()?.join(format!("{what}.pressure"));
        path.exists().then_some(path)
    }

    /// What the group with the narrowest quota may take and has taken. Where none has one, the time is the group's own.
    pub(super) fn look(&mut self) -> Result<CgroupUse, Blank> {
        let cpuset_cores = self
            .cpuset
            .as_mut()
            .and_then(|file| count_of_list(file.read().ok()?));
        let mut narrowest = 0;
        let mut quota_cores: Option<f64> = None;
        for (index, level) in self.levels.iter_mut().enumerate() {
            if let Some(cores) = level.quota()
                && quota_cores.is_none_or(|narrower| cores < narrower)
            {
                (narrowest, quota_cores) = (index, Some(cores));
            }
        }
        let Some(level) = self.levels.get_mut(narrowest) else {
            return Err(Blank::unsupported("the group of processes is gone"));
        };
        Ok(CgroupUse {
            quota_cores,
            cpuset_cores,
            ..level.used()
        })
    }
}

impl Level {
    fn v1(group: &Path, usage: Option<KernelFile>) -> Self {
        Self::V1 {
            quota: KernelFile::new(group.join("cpu.cfs_quota_us")),
            period: KernelFile::new(group.join("cpu.cfs_period_us")),
            stat: KernelFile::new(group.join("cpu.stat")),
            usage,
        }
    }

    fn v2(group: &Path) -> Self {
        Self::V2 {
            max: KernelFile::new(group.join("cpu.max")),
            stat: KernelFile::new(group.join("cpu.stat")),
        }
    }

    /// Cores that it may use; `None` is no quota. The group at the top has no file for one.
    fn quota(&mut self) -> Option<f64> {
        let (quota, period) = match self {
            // Minus one is "none" here.
            Self::V1 { quota, period, .. } => {
                (number(quota.read().ok()?)?, number(period.read().ok()?)?)
            }
            Self::V2 { max, .. } => {
                let (quota, period) = max.read().ok()?.trim().split_once(' ')?;
                (quota.parse().ok()?, period.parse().ok()?)
            }
        };
        (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
    }

    fn used(&mut self) -> CgroupUse {
        let mut told = CgroupUse::default();
        let (stat, in_nanos) = match self {
            Self::V1 { stat, .. } => (stat, true),
            Self::V2 { stat, .. } => (stat, false),
        };
        if let Ok(stat) = stat.read() {
            told.periods = field(stat, "nr_periods");
            told.throttled_periods = field(stat, "nr_throttled").unwrap_or(0);
            // The unit is in the name in one version, and a thousand times smaller in the other.
            told.throttled = match in_nanos {
                true => Duration::from_nanos(field(stat, "throttled_time").unwrap_or(0)),
                false => Duration::from_micros(field(stat, "throttled_usec").unwrap_or(0)),
            };
            told.used = field(stat, "usage_usec").map(Duration::from_micros);
        }
        if let Self::V1 {
            usage: Some(usage), ..
        } = self
        {
            let nanos = usage.read().ok().and_then(number);
            told.used = nanos
                .and_then(|nanos| u64::try_from(nanos).ok())
                .map(Duration::from_nanos);
        }
        told
    }
}

/// Where `controller` of the old version is mounted, and the group of the process in it.
fn v1_group(lines: &str, mounts: &Path, controller: &str) -> Option<(PathBuf, PathBuf)> {
    let (controllers, path) = lines.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let has = controllers.split(',').any(|name| name == controller);
        has.then_some((controllers, path))
    })?;
    // Several may be mounted together, with a link for each.
    let mount = [mounts.join(controllers), mounts.join(controller)]
        .into_iter()
        .find(|mount| mount.is_dir())?;
    let group = within(&mount, path);
    Some((mount, group))
}

/// The group at `path`. In a container it may be told by a path of the host, while what is mounted is the
/// container's own.
fn within(mount: &Path, path: &str) -> PathBuf {
    let group = mount.join(path.trim_start_matches('/'));
    // A path that leads out of what is mounted here is one of the host, too.
    if path.split('/').any(|part| part == "..") || !group.is_dir() {
        return mount.to_owned();
    }
    group
}

fn is_v2(mount: &Path) -> bool {
    mount.join("cgroup.controllers").exists()
}

fn groups_above(group: &Path, mount: &Path) -> impl Iterator<Item = PathBuf> {
    let above = group.ancestors().take_while(|it| it.starts_with(mount));
    let paths: Vec<PathBuf> = above.take(DEPTH_MAX).map(Path::to_owned).collect();
    paths.into_iter()
}

fn cpuset_in(group: &Path) -> Option<KernelFile> {
    let names = [
        "cpuset.cpus.effective",
        "cpuset.effective_cpus",
        "cpuset.cpus",
    ];
    let paths = names.map(|name| group.join(name));
    paths
        .into_iter()
        .find(|path| path.exists())
        .map(KernelFile::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::kernel::host::tests::Tree;

    #[test]
    fn the_new_version_has_microseconds_and_the_narrowest_quota_above_holds() {
        let tree = Tree::new();
        tree.proc("self/cgroup", "0::/shop.slice/web.service\n");
        tree.sys("fs/cgroup/cgroup.controllers", "cpu\n");
        tree.sys("fs/cgroup/shop.slice/cpu.max", "150000 100000\n");
        tree.sys(
            "fs/cgroup/shop.slice/cpu.stat",
            "usage_usec 9000000\nnr_periods 100\nnr_throttled 25\nthrottled_usec 2500000\n",
        );
        tree.sys("fs/cgroup/shop.slice/web.service/cpu.max", "max 100000\n");
        tree.sys(
            "fs/cgroup/shop.slice/web.service/cpu.stat",
            "usage_usec 1\n",
        );
        tree.sys(
            "fs/cgroup/shop.slice/web.service/cpuset.cpus.effective",
            "0-1\n",
        );

        let used = Cgroup::find(&tree.roots(), None).unwrap().look().unwrap();

        assert_eq!(used.quota_cores, Some(1.5));
        assert_eq!(used.cpuset_cores, Some(2));
        assert_eq!((used.periods, used.throttled_periods), (Some(100), 25));
        assert_eq!(used.throttled, Duration::from_millis(2_500));
        assert_eq!(used.used, Some(Duration::from_secs(9)));
    }

    #[test]
    fn the_old_version_has_nanoseconds_and_holds_where_both_are() {
        let tree = Tree::new();
        tree.proc(
            "7/cgroup",
            "5:cpuset:/web\n3:cpu,cpuacct:/web\n1:name=systemd:/web\n0::/web\n",
        );
        tree.sys("fs/cgroup/unified/cgroup.controllers", "");
        tree.sys("fs/cgroup/cpu,cpuacct/web/cpu.cfs_quota_us", "50000\n");
        tree.sys("fs/cgroup/cpu,cpuacct/web/cpu.cfs_period_us", "100000\n");
        tree.sys(
            "fs/cgroup/cpu,cpuacct/web/cpu.stat",
            "nr_periods 10\nnr_throttled 4\nthrottled_time 2500000000\n",
        );
        tree.sys("fs/cgroup/cpu,cpuacct/web/cpuacct.usage", "3000000000\n");
        tree.sys("fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
        tree.sys("fs/cgroup/cpuset/web/cpuset.cpus", "0\n");

        let used = Cgroup::find(&tree.roots(), Some(7))
            .unwrap()
            .look()
            .unwrap();

        assert_eq!(used.quota_cores, Some(0.5));
        assert_eq!(used.cpuset_cores, Some(1));
        assert_eq!(used.throttled, Duration::from_millis(2_500));
        assert_eq!(used.used, Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_path_of_the_host_is_looked_for_at_the_top_of_what_is_mounted_here() {
        let tree = Tree::new();
        tree.proc("self/cgroup", "0::/../../docker/abc\n");
        tree.sys("fs/cgroup/cgroup.controllers", "cpu\n");
        tree.sys("fs/cgroup/cpu.max", "200000 100000\n");

        let used = Cgroup::find(&tree.roots(), None).unwrap().look().unwrap();

        assert_eq!(used.quota_cores, Some(2.0));
        assert_eq!((used.periods, used.used), (None, None));
    }

    #[test]
    fn no_quota_is_none_and_no_groups_are_unsupported() {
        let tree = Tree::new();
        assert!(Cgroup::find(&tree.roots(), None).is_err());

        tree.proc("self/cgroup", "0::/\n");
        assert!(Cgroup::find(&tree.roots(), None).is_err());

        tree.sys("fs/cgroup/cgroup.controllers", "cpu\n");
        let used = Cgroup::find(&tree.roots(), None).unwrap().look().unwrap();
        assert_eq!(used.quota_cores, None);
    }
}
