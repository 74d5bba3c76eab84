//! One look at everything, once a second.

use std::io;
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::health::{Dimension, Validity};
use tidegate_core::time::Mono;

use super::board::Board;
use super::kernel::{Host, HostView, Roots};
use super::listeners::{At, Depth, Diag, Watch};
use super::probe::{Asking, Probe, Terms};
use super::profile::Runtime;
use super::sight::{Blank, Sight};

/// Between two looks at the accept queues of a tick. A connection that is there both times waits for more than the
/// moment that an idle worker takes to accept it.
const LASTING: Duration = Duration::from_millis(20);
/// Applications that are asked.
pub const ASKING_MAX: usize = 4;
const QUEUE_SOURCE: &str = "the kernel's accept queue";
const WAITING_SOURCE: &str = "connections wait, so no worker is idle";

/// What to look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentPlan {
    /// Where the kernel's files are.
    pub roots: Roots,
    /// A process of the application, whose group of processes counts; without one it is our own.
    pub pid: Option<u32>,
    /// What the application runs on.
    pub runtime: Runtime,
    /// Where it listens.
    pub listen: Vec<At>,
    /// How it is asked; at most [`ASKING_MAX`] ways.
    pub asking: Vec<Asking>,
    /// What it does not tell.
    pub terms: Terms,
}

/// What one look has shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// When it began.
    pub at: Mono,
    /// Readings, several of a dimension where there are several; of a dimension that the runtime could tell and does
    /// not there is one that says why.
    pub sights: Vec<Sight>,
    /// The machine.
    pub host: HostView,
    /// The accept queues, where they are known.
    pub depth: Option<Depth>,
}

/// Looks at one application and its machine.
pub struct Sampler {
    host: Host,
    diag: Result<Diag, Blank>,
    watch: Watch,
    asked: Vec<Asked>,
    runtime: Runtime,
    workers: Option<u32>,
    board: Option<Board>,
    seen: Seen,
}

struct Asked {
    probe: Probe,
    sights: Vec<Sight>,
}

impl Sampler {
    /// Ready to look as `plan` says, and at what is posted to `board`. Needs a runtime of tokio.
    ///
    /// # Errors
    ///
    /// When the address that gunicorn is to send to cannot be had.
    pub fn new(plan: AgentPlan, board: Option<Board>) -> io::Result<Self> {
        let asked = plan.asking.into_iter().take(ASKING_MAX).map(|asking| {
            let probe = Probe::new(asking, plan.terms)?;
            Ok(Asked {
                probe: probe.of_one_that_listens(&plan.listen),
                sights: Vec::new(),
            })
        });
        Ok(Self {
            asked: asked.collect::<io::Result<_>>()?,
            host: Host::new(&plan.roots, plan.pid),
            diag: Diag::open(),
            watch: Watch::new(plan.listen),
            runtime: plan.runtime,
            workers: plan.terms.workers,
            board,
            seen: Seen::default(),
        })
    }

    /// Looks at everything at `now`. It takes 20 ms, or as long as the slowest application, which is the timeout at
    /// most; the files of the kernel take some hundred microseconds, in which the thread is blocked.
    pub async fn tick(&mut self, now: Mono) -> &Seen {
        let seen = &mut self.seen;
        seen.at = now;
        seen.sights.clear();
        seen.host = self.host.look(now, &mut seen.sights);

        let first = look(&self.watch, &mut self.diag);
        let others_wait = matches!(&first, Ok(depth) if depth.pending_all > 0);
        let asking = self.asked.iter_mut().map(|asked| async {
            asked.sights.clear();
            if others_wait && asked.probe.is_by_the_front_door() {
                asked.probe.leave_out(now, &mut asked.sights);
            } else {
                asked.probe.look(now, &mut asked.sights).await;
            }
        });
        tokio::join!(join_all(asking), tokio::time::sleep(LASTING));
        let second = look(&self.watch, &mut self.diag);

        for asked in &mut self.asked {
            seen.sights.append(&mut asked.sights);
        }
        if let Some(board) = &self.board {
            board.put_on(&mut seen.sights);
        }
        seen.depth = second.as_ref().ok().copied();
        self.add_queues(now, &first, second);
        self.add_what_is_missing(now);
        &self.seen
    }

    fn add_queues(
        &mut self,
        now: Mono,
        first: &Result<Depth, Blank>,
        second: Result<Depth, Blank>,
    ) {
        let sights = &mut self.seen.sights;
        // Others may have come for those that left, but then workers took those only now.
        let lasts = matches!(
            (first, &second),
            (Ok(first), Ok(second)) if first.waits_everywhere && second.waits_everywhere
        );
        if self.runtime.accepts_when_idle() && lasts {
            let workers = f64::from(self.workers.unwrap_or(1));
            let full = Sight::of(Dimension::Threads, (workers, workers), WAITING_SOURCE, now);
            // What the application could not say for that very reason is said.
            sights.retain(|sight| {
                sight.signal.dimension != Dimension::Threads
                    || sight.signal.validity == Validity::Ok
            });
            sights.push(full);
        }
        let figures = second.map(|depth| {
            // A queue for nobody still holds one.
            (f64::from(depth.pending), f64::from(depth.limit.max(1)))
        });
        if !self.watch.at().is_empty() {
            sights.push(Sight::read(Dimension::Queue, figures, QUEUE_SOURCE, now));
        }
    }

    /// Of what the runtime could tell nothing is left out in silence.
    fn add_what_is_missing(&mut self, now: Mono) {
        for fill in self.runtime.fills() {
            let told = |sight: &Sight| sight.signal.dimension == fill.dimension;
            if !self.seen.sights.iter().any(told) {
                let blank = Blank::unsupported(fill.enable);
                let sight = Sight::blank(fill.dimension, blank, fill.from, now);
                self.seen.sights.push(sight);
            }
        }
    }
}

fn look(watch: &Watch, diag: &mut Result<Diag, Blank>) -> Result<Depth, Blank> {
    if watch.at().is_empty() {
        return Err(Blank::unsupported("no listener is named"));
    }
    match diag {
        Ok(diag) => watch.look(diag),
        Err(blank) => Err(blank.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use tidegate_lab::patience::until_so;

    use super::*;

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    fn of(seen: &Seen, dimension: Dimension) -> Vec<&Sight> {
        let is_it = |sight: &&Sight| sight.signal.dimension == dimension;
        seen.sights.iter().filter(is_it).collect()
    }

    #[tokio::test]
    async fn a_connection_that_waits_says_that_no_worker_is_idle_where_workers_accept() {
        let path =
            std::env::temp_dir().join(format!("tidegate-sampler-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let _listener = UnixListener::bind(&path).unwrap();
        let plan = |runtime| AgentPlan {
            runtime,
            listen: vec![At::Unix(path.clone())],
            ..AgentPlan::default()
        };
        let mut fpm = Sampler::new(plan(Runtime::PhpFpm), None).unwrap();
        let mut tomcat = Sampler::new(plan(Runtime::Tomcat), None).unwrap();

        let idle = fpm.tick(at(0)).await.clone();
        let _waiting = UnixStream::connect(&path).unwrap();
        let busy = fpm.tick(at(1_000)).await.clone();
        let other = tomcat.tick(at(1_000)).await.clone();

        assert_eq!(
            of(&idle, Dimension::Threads)[0].signal.validity,
            Validity::Unsupported
        );
        let threads = of(&busy, Dimension::Threads);
        assert_eq!(threads.len(), 1);
        assert_eq!(threads[0].signal.ratio(at(1_000)), Some(1.0));
        assert_eq!(of(&busy, Dimension::Queue)[0].signal.value, 1.0);
        assert_eq!(
            of(&other, Dimension::Threads)[0].signal.validity,
            Validity::Unsupported
        );
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn whose_workers_answer_is_not_asked_while_others_wait() {
        let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = busy.local_addr().unwrap();
        let plan = AgentPlan {
            runtime: Runtime::ApachePrefork,
            listen: vec![At::Tcp(address)],
            asking: vec![Asking::Apache(
                format!("http://{address}/server-status").parse().unwrap(),
            )],
            ..AgentPlan::default()
        };
        let _waiting = std::net::TcpStream::connect(address).unwrap();
        let (watch, mut diag) = (Watch::new(plan.listen.clone()), Diag::open());
        until_so("it waits", || {
            look(&watch, &mut diag).is_ok_and(|depth| depth.pending_all == 1)
        })
        .await;

        let seen = Sampler::new(plan, None).unwrap().tick(at(0)).await.clone();

        assert_eq!(seen.depth.unwrap().pending_all, 1, "and nobody beside it");
        let threads = of(&seen, Dimension::Threads);
        assert_eq!(threads[0].signal.ratio(at(0)), Some(1.0));
    }

    #[tokio::test]
    async fn what_a_runtime_could_tell_and_does_not_is_named() {
        let plan = AgentPlan {
            runtime: Runtime::SpringBoot,
            ..AgentPlan::default()
        };

        let seen = Sampler::new(plan, None).unwrap().tick(at(0)).await.clone();

        for fill in Runtime::SpringBoot.fills() {
            let sights = of(&seen, fill.dimension);
            assert_eq!(sights.len(), 1, "{fill:?}");
            assert_eq!(sights[0].why.as_deref(), Some(fill.enable));
        }
    }

    #[tokio::test]
    async fn an_application_that_does_not_answer_takes_no_longer_than_it_may() {
        let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/stats", deaf.local_addr().unwrap());
        let plan = AgentPlan {
            runtime: Runtime::Puma,
            asking: vec![Asking::Puma(url.parse().unwrap())],
            terms: Terms {
                timeout: Duration::from_millis(30),
                ..Terms::default()
            },
            ..AgentPlan::default()
        };

        let seen = Sampler::new(plan, None).unwrap().tick(at(0)).await.clone();

        let threads = of(&seen, Dimension::Threads);
        assert_eq!(threads[0].signal.validity, Validity::Error);
        assert!(
            threads[0].why.as_deref().unwrap().contains("within 30 ms"),
            "{threads:?}"
        );
    }
}
