//! What limits have learnt, kept in a file from one process to the next.
//!
//! A limit that begins anew in front of an application that is overloaded at that moment would take
//! an overloaded latency for the usual one. The file is a help and nothing more: when it cannot be
//! read, or not written, the limit learns as if there were none.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::facts::RouteId;
use tidegate_core::limit::Learnt;
use tidegate_core::time::Wall;
use tracing::{info, warn};

use crate::context::{App, Shared};
use crate::plan::AppPlan;

/// The time from one look at what was learnt to the next.
const EVERY: Duration = Duration::from_secs(10);

/// What was learnt longer ago than this says nothing any more.
const AGE_MAX: Duration = Duration::from_secs(7 * 86_400);

/// A longer file is none of ours.
const BYTES_MAX: u64 = 1024 * 1024;

/// How a file of ours begins, whatever its version, so that no other is ever written over.
const BEGINNING: &str = "{\"tidegate_warm_start\":";

/// The version that is read and written, which follows.
const VERSION: u32 = 1;

/// A slower baseline is none: no application is asked for anything that takes as long.
const LATENCY_MAX: Duration = Duration::from_secs(3600);

/// Longest wait for the last writing when the gateway ends: a hanging disk must not keep it.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(5);

/// Writes what was learnt, every now and then and at the end.
pub(crate) struct Keeper {
    end: SyncSender<()>,
    /// Disconnected once the keeper has finished.
    ended: Mutex<Receiver<()>>,
}

/// What is in a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    tidegate_warm_start: u32,
    /// The application, by its name and where it is.
    app: String,
    upstream: String,
    /// Microseconds since the Unix epoch.
    written_at_us: u64,
    limit: f64,
    throughput_per_second: f64,
    baselines: Vec<Baseline>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    route: String,
    latency_ns: u64,
    samples: u32,
}

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
enum Useless {
    #[error("it is no warm start file, and is left alone until somebody removes it")]
    Foreign,
    #[error("it is written in version {0}, and only version {VERSION} is known")]
    Version(u32),
    #[error("it is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
    #[error("it is damaged: it says what no limit ever learns")]
    Senseless,
    #[error("it is about another application, {0}")]
    Other(String),
    #[error("it is older than a week")]
    Old,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What an earlier process had learnt of `plan`'s application, if it has left something of use.
pub(crate) fn read(plan: &AppPlan, now: Wall) -> Option<Learnt> {
    let path = plan.warm_start.as_deref()?;
    match load(path).and_then(|state| state.learnt(plan, now)) {
        Ok(learnt) => {
            info!(app = %plan.name, limit = learnt.limit, "the limit starts from what it had learnt before");
            Some(learnt)
        }
        Err(Useless::Io(error)) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => {
            warn!(
                app = %plan.name, path = %path.display(), %error,
                "the limit learns anew: the warm start file is of no use"
            );
            None
        }
    }
}

impl Keeper {
    /// Begins to keep what the limits of `shared` learn; `None` when nobody asks for that.
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Option<Self>> {
        if shared.apps.iter().all(|app| app.plan.warm_start.is_none()) {
            return Ok(None);
        }
        let (end, asked) = mpsc::sync_channel(1);
        let (alive, ended) = mpsc::channel();
        let shared = Arc::clone(shared);
        thread::Builder::new()
            .name("tidegate-warm".to_owned())
            .spawn(move || {
                keep(&shared, &asked);
                drop::<mpsc::Sender<()>>(alive);
            })?;
        Ok(Some(Self {
            end,
            ended: Mutex::new(ended),
        }))
    }

    /// Writes for the last time, and waits for that within reason.
    pub(crate) fn close(&self) {
        // Asked before, or over already: either way it ends.
        let _ = self.end.try_send(());
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(CLOSE_WAIT_MAX);
    }
}

fn keep(shared: &Shared, asked: &Receiver<()>) {
    let mut files: Vec<(&App, Kept)> = (shared.apps.iter())
        .filter_map(|app| Some((app, Kept::new(app.plan.warm_start.clone()?))))
        .collect();
    loop {
        let ends = !matches!(asked.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout));
        for (app, kept) in &mut files {
            if let Some(learnt) = app.gate.learnt() {
                kept.update(&app.plan, learnt, shared.clock.wall());
            }
        }
        if ends {
            return;
        }
    }
}

/// One file, and what is known to be in it.
struct Kept {
    path: PathBuf,
    written: Option<Learnt>,
    failing: bool,
}

impl Kept {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            written: None,
            failing: false,
        }
    }

    fn update(&mut self, plan: &AppPlan, learnt: Learnt, now: Wall) {
        // Before the first baseline there is nothing that a fresh start would not know.
        if learnt.baselines.is_empty() || self.written.as_ref() == Some(&learnt) {
            return;
        }
        match write(&self.path, &State::of(plan, &learnt, now)) {
            Ok(()) => {
                self.failing = false;
                self.written = Some(learnt);
            }
            Err(error) if !self.failing => {
                self.failing = true;
                warn!(
                    app = %plan.name, path = %self.path.display(), %error,
                    "what the limit has learnt cannot be kept"
                );
            }
            Err(_) => {}
        }
    }
}

/// Replaces the file as a whole: whoever reads it finds the old one or the new one.
fn write(path: &Path, state: &State) -> Result<(), Useless> {
    match begins_as_ours(path) {
        Ok(true) => {}
        Ok(false) => return Err(Useless::Foreign),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let mut name = OsString::from(path);
    name.push(".new");
    let file = File::create(&name)?;
    let written = fill(file, state).and_then(|()| Ok(fs::rename(&name, path)?));
    if written.is_err() {
        // Half of it is of use to nobody, least of all on a full disk.
        let _ = fs::remove_file(&name);
    }
    written
}

fn fill(mut file: File, state: &State) -> Result<(), Useless> {
    file.write_all(&serde_json::to_vec(state)?)?;
    file.sync_data()?;
    Ok(())
}

/// Whether the file is empty, or begins like one of ours.
fn begins_as_ours(path: &Path) -> io::Result<bool> {
    if !fs::metadata(path)?.is_file() {
        return Ok(false);
    }
    let mut beginning = Vec::new();
    File::open(path)?
        .take(BEGINNING.len() as u64)
        .read_to_end(&mut beginning)?;
    Ok(beginning.is_empty() || beginning == BEGINNING.as_bytes())
}

fn load(path: &Path) -> Result<State, Useless> {
    if !begins_as_ours(path)? {
        return Err(Useless::Foreign);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
    match version(&bytes) {
        Some(version) if version != VERSION => Err(Useless::Version(version)),
        _ => Ok(serde_json::from_slice(&bytes)?),
    }
}

/// The number behind the beginning, if one is there: what else another version says is not known.
fn version(file: &[u8]) -> Option<u32> {
    let rest = std::str::from_utf8(file.get(BEGINNING.len()..)?).ok()?;
    rest.split_once(',')?.0.trim().parse().ok()
}

impl State {
    fn of(plan: &AppPlan, learnt: &Learnt, now: Wall) -> Self {
        let Learnt {
            limit,
            throughput,
            baselines,
        } = learnt;
        let baselines = baselines.iter().filter_map(|&(route, latency, samples)| {
            let route = plan.routes.get(usize::from(route.0))?.name.clone();
            let latency_ns = u64::try_from(latency.as_nanos()).ok()?;
            Some(Baseline {
                route,
                latency_ns,
                samples,
            })
        });
        Self {
            tidegate_warm_start: VERSION,
            app: plan.name.clone(),
            upstream: address(plan),
            written_at_us: now.as_micros(),
            limit: *limit,
            throughput_per_second: *throughput,
            baselines: baselines.collect(),
        }
    }

    /// What it says of `plan`'s application, by the routes that this still has.
    fn learnt(self, plan: &AppPlan, now: Wall) -> Result<Learnt, Useless> {
        if self.app != plan.name || self.upstream != address(plan) {
            return Err(Useless::Other(format!("{} at {}", self.app, self.upstream)));
        }
        let written_at = Wall::from_micros(self.written_at_us);
        // Written in the future, as clocks go: then its age is unknown, and it is trusted less.
        let age = if written_at > now {
            AGE_MAX
        } else {
            now.since(written_at)
        };
        if age > AGE_MAX {
            return Err(Useless::Old);
        }
        let sensible = |baseline: &Baseline| {
            (1..=LATENCY_MAX.as_nanos()).contains(&u128::from(baseline.latency_ns))
        };
        if self.limit < 1.0
            || self.throughput_per_second < 0.0
            || !self.baselines.iter().all(sensible)
        {
            return Err(Useless::Senseless);
        }
        let baselines = self.baselines.iter().filter_map(|baseline| {
            let mut routes = plan.routes.iter();
            let route = routes.position(|route| route.name == baseline.route)?;
            let latency = Duration::from_nanos(baseline.latency_ns);
            Some((RouteId(route as u16), latency, baseline.samples))
        });
        let learnt = Learnt {
            limit: self.limit,
            throughput: self.throughput_per_second,
            baselines: baselines.collect(),
        };
        // Which build of the application it was learnt from is not known here; a new one most often
        // differs by little.
        Ok(learnt.weighed(age, true))
    }
}

fn address(plan: &AppPlan) -> String {
    format!("{}:{}", plan.upstream.host, plan.upstream.port)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::classify::tests::app;

    const NOW: Wall = Wall::from_micros(1_700_000_000_000_000);
    const HOUR_US: u64 = 3_600_000_000;

    /// A file that goes when it is dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("tidegate-warm-{}-{number}.json", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn plan(&self) -> AppPlan {
            AppPlan {
                warm_start: Some(self.0.clone()),
                ..app()
            }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    fn learnt() -> Learnt {
        let baseline = |route, millis| (RouteId(route), Duration::from_millis(millis), 200);
        Learnt {
            limit: 123.25,
            throughput: 1950.5,
            baselines: vec![baseline(0, 80), baseline(2, 50)],
        }
    }

    fn later(micros: u64) -> Wall {
        Wall::from_micros(NOW.as_micros() + micros)
    }

    #[test]
    fn what_was_learnt_is_there_at_the_next_start() {
        let scratch = Scratch::new();
        let plan = scratch.plan();
        assert_eq!(read(&plan, NOW), None);

        Kept::new(scratch.0.clone()).update(&plan, learnt(), NOW);

        assert_eq!(read(&plan, later(HOUR_US / 2)), Some(learnt()));
        assert!(
            fs::read_to_string(&scratch.0)
                .unwrap()
                .starts_with(BEGINNING)
        );
        let halved = read(&plan, later(2 * HOUR_US)).unwrap();
        assert!(halved.limit < 62.0, "older than an hour: {}", halved.limit);
        assert_eq!(read(&plan, later(8 * 24 * HOUR_US)), None);
        let early = Wall::from_micros(NOW.as_micros() - 1);
        assert_eq!(read(&plan, early).unwrap(), halved, "its age is unknown");
    }

    #[test]
    fn baselines_follow_the_names_of_routes() {
        let scratch = Scratch::new();
        let mut plan = scratch.plan();
        Kept::new(scratch.0.clone()).update(&plan, learnt(), NOW);

        plan.routes.remove(0);

        let baselines = read(&plan, NOW).unwrap().baselines;
        assert_eq!(baselines, [(RouteId(1), Duration::from_millis(50), 200)]);
    }

    #[test]
    fn another_applications_past_is_none_of_ours() {
        let scratch = Scratch::new();
        let mut plan = scratch.plan();
        Kept::new(scratch.0.clone()).update(&plan, learnt(), NOW);

        plan.upstream.port += 1;

        assert_eq!(read(&plan, NOW), None);
    }

    #[test]
    fn a_damaged_file_is_ignored_and_replaced() {
        let scratch = Scratch::new();
        let plan = scratch.plan();
        let mut kept = Kept::new(scratch.0.clone());
        kept.update(&plan, learnt(), NOW);
        let text = fs::read_to_string(&scratch.0).unwrap();

        for damaged in [
            &text[..text.len() / 2],
            "",
            &text.replace("123.25", "0.5"),
            &text.replace("80000000", "0"),
            &text.replace("123.25", "null"),
            &text[..BEGINNING.len()],
            &text.replace("start\":1,", "start\":2,"),
            &text.replace("start\":1,", "start\":\u{0}1,"),
        ] {
            fs::write(&scratch.0, damaged).unwrap();
            assert_eq!(read(&plan, NOW), None, "{damaged}");
            kept.written = None;
            kept.update(&plan, learnt(), NOW);
            assert_eq!(read(&plan, NOW), Some(learnt()), "{damaged}");
        }
    }

    #[test]
    fn a_file_of_somebody_elses_is_left_alone() {
        let scratch = Scratch::new();
        let plan = scratch.plan();
        fs::write(&scratch.0, "something dear").unwrap();

        assert_eq!(read(&plan, NOW), None);
        Kept::new(scratch.0.clone()).update(&plan, learnt(), NOW);

        assert_eq!(fs::read(&scratch.0).unwrap(), b"something dear");
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let scratch = Scratch::new();
        fs::write(&scratch.0, "{\"tidegate_warm_start\":2,\"new\":1}").unwrap();
        assert!(matches!(load(&scratch.0), Err(Useless::Version(2))));
        fs::write(&scratch.0, "{\"tidegate_warm_start\":1,\"new\":1}").unwrap();
        assert!(matches!(load(&scratch.0), Err(Useless::Damaged(_))));
    }

    #[test]
    fn a_limit_that_knows_nothing_overwrites_nothing() {
        let scratch = Scratch::new();
        let plan = scratch.plan();
        let mut kept = Kept::new(scratch.0.clone());
        kept.update(&plan, learnt(), NOW);

        let fresh = Learnt {
            baselines: Vec::new(),
            ..learnt()
        };
        kept.update(&plan, fresh, NOW);

        assert_eq!(read(&plan, NOW), Some(learnt()));
    }
}
