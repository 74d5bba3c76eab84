//! What a shard does without a request: it dials, checks, probes, and does writes again.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::answer::Answer;
use super::line::Line;
use super::link::{DialError, Link};
use super::map::Map;
use super::redo::{Ring, Write};
use super::script::Known;
use super::shard::{NO_ANSWER, Shard};

/// How often a primary that answers is asked whether it still is one.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How soon a dial or a check that failed is tried again while calls pass.
const AGAIN_INTERVAL: Duration = Duration::from_millis(10);
/// Between two probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(2);
/// Writes done again in one trip.
const REDO_BATCH: usize = 64;
/// Longest wait for such a trip.
const REDO_TIMEOUT: Duration = Duration::from_millis(500);
/// How long the key stays that writes are tried with.
const CANARY_KEPT_MS: u64 = 10_000;

/// What is said when the data is not where it was.
const ANOTHER: &str = "it was restarted, or another server answers at its address";

/// Keeps one shard connected.
pub(super) struct Supervisor {
    pub(super) shard: Arc<Shard>,
    pub(super) map: watch::Receiver<Arc<Map>>,
    pub(super) ring: Arc<Ring>,
    pub(super) scripts: Arc<Known>,
}

impl Supervisor {
    /// Runs until it is aborted.
    pub(super) async fn run(self) {
        let mut next_check = Instant::now();
        loop {
            let until = match self.shard.probe_at() {
                Some(at) if at <= Instant::now() && self.shard.probe() => {
                    self.probe().await;
                    next_check = Instant::now() + CHECK_INTERVAL;
                    continue;
                }
                Some(at) => at,
                None => {
                    let well = self.connect().await && self.check(&mut next_check).await;
                    if self.shard.probe_at().is_some() {
                        continue;
                    }
                    if well {
                        next_check
                    } else {
                        Instant::now() + AGAIN_INTERVAL
                    }
                }
            };
            tokio::select! {
                () = self.shard.wake.notified() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// Gives every line without a connection one; whether all have one now.
    async fn connect(&self) -> bool {
        for line in self.lines() {
            if line.present().is_some() {
                continue;
            }
            let Some(link) = self.dial().await else {
                self.shard.failed();
                return false;
            };
            if !self.shard.knows(link.identity()) {
                self.shard.hear(ANOTHER);
                self.shard.told();
                return false;
            }
            line.install(Arc::new(link));
        }
        true
    }

    /// Asks the primary whether it still is one, when it is time; whether it is.
    async fn check(&self, next: &mut Instant) -> bool {
        if Instant::now() < *next {
            return true;
        }
        let Some(link) = self.shard.fast.first().and_then(Line::present) else {
            return false;
        };
        let begun = Instant::now();
        let within = self.shard.common.plan.operation_timeout;
        match timeout(within, link.identify()).await {
            Ok(Ok(identity)) if self.shard.knows(&identity) => {
                self.shard.checked(begun.elapsed());
                *next = Instant::now() + CHECK_INTERVAL;
                true
            }
            Ok(Ok(_)) => {
                self.shard.hear(ANOTHER);
                self.shard.told();
                false
            }
            Ok(Err(error @ DialError::NotPrimary(_))) => {
                self.shard.hear(&error.to_string());
                self.shard.told();
                false
            }
            Ok(Err(error)) => {
                self.shard.hear(&error.to_string());
                self.shard.failed();
                false
            }
            Err(_) => {
                self.shard.hear(NO_ANSWER);
                self.shard.failed();
                false
            }
        }
    }

    async fn dial(&self) -> Option<Link> {
        let target = self.shard.target.borrow().clone()?;
        let common = &self.shard.common;
        self.shard.counts.dials.one();
        let within = common.plan.connect_timeout;
        let dialled = Link::dial(&target, &common.greeting, within).await;
        if let Err(error) = &dialled {
            self.shard.counts.dials_failed.one();
            self.shard.hear(&error.to_string());
            tracing::debug!(%target, %error, "cannot connect to a store");
            common.look_again.notify_one();
        }
        dialled.ok()
    }

    /// Probes on a connection of its own until calls pass or a probe fails.
    async fn probe(&self) {
        let Some(link) = self.dial().await else {
            self.shard.probed(None);
            return;
        };
        self.shard.found();
        while let Some(missing) = self.shard.probes_missing() {
            // Whatever calls need is made ready before the last probe lets them pass.
            if missing == 1 && !self.make_ready(&link).await {
                self.shard.probed(None);
                return;
            }
            let took = self.try_it(&link).await;
            self.shard.probed(took);
            if missing > 1 {
                tokio::time::sleep(PROBE_INTERVAL).await;
            }
        }
    }

    /// How long it took the primary to say that it is one and to write something; `None` when it
    /// did not.
    async fn try_it(&self, link: &Link) -> Option<Duration> {
        let mut canary = redis::cmd("SET");
        canary.arg(self.shard.canary()).arg("1");
        canary.arg("PX").arg(CANARY_KEPT_MS);
        let begun = Instant::now();
        let trying = async {
            let identity = link.identify().await.map_err(|error| error.to_string())?;
            let said = link.send(&canary).await?;
            // A redirect is fine: the map will know.
            if let Some(refusal) = Answer::of(said, link.address()).refusal() {
                return Err(refusal);
            }
            if identity != *link.identity() {
                return Err(ANOTHER.to_owned());
            }
            Ok(())
        };
        let within = self.shard.common.plan.operation_timeout;
        let tried = timeout(within, trying).await;
        match tried.unwrap_or_else(|_| Err(NO_ANSWER.to_owned())) {
            Ok(()) => Some(begun.elapsed()),
            Err(why) => {
                self.shard.hear(&why);
                None
            }
        }
    }

    /// Connections, scripts, and the writes that this primary may have lost.
    async fn make_ready(&self, link: &Link) -> bool {
        if !self.load_scripts(link).await {
            return false;
        }
        if !self.shard.knows(link.identity()) && !self.redo(link).await {
            return false;
        }
        self.shard.adopt(link.identity());
        for line in self.lines() {
            match self.dial().await {
                Some(fresh) if fresh.identity() == link.identity() => {
                    line.install(Arc::new(fresh));
                }
                _ => return false,
            }
        }
        true
    }

    /// Not needed, but the first calls would each send the whole text.
    async fn load_scripts(&self, link: &Link) -> bool {
        let load = self.scripts.load();
        load.is_empty() || matches!(timeout(REDO_TIMEOUT, link.send_all(&load)).await, Ok(Ok(_)))
    }

    async fn redo(&self, link: &Link) -> bool {
        let now = self.shard.common.now();
        let kept = {
            let map = self.map.borrow();
            self.ring.kept(now, |slot| {
                map.shard(slot)
                    .is_some_and(|shard| Arc::ptr_eq(shard, &self.shard))
            })
        };
        for batch in kept.chunks(REDO_BATCH) {
            let mut pipeline = Pipeline::with_capacity(batch.len());
            for write in batch {
                pipeline.add_command(write.command());
            }
            let Ok(Ok(said)) = timeout(REDO_TIMEOUT, link.send_all(&pipeline)).await else {
                return false;
            };
            for (said, write) in said.iter().zip(batch) {
                self.count_redone(said, write);
            }
        }
        true
    }

    fn count_redone(&self, said: &Value, write: &Write) {
        let counts = &self.ring.counts;
        match outcome(said) {
            Some(code) if code == ALREADY => counts.present.one(),
            Some(code) if code >= 0 => counts.repaired.one(),
            Some(_) => counts.present.one(),
            None => {
                counts.refused.one();
                tracing::warn!(write = write.name(), ?said, "a write cannot be redone");
            }
        }
    }

    fn lines(&self) -> impl Iterator<Item = &Line> {
        self.shard.fast.iter().chain([&self.shard.bulk])
    }
}

/// By which a script says that it had been run before.
const ALREADY: i64 = 3;

/// The number that a script's reply begins with: below 0 when it wrote nothing.
pub(super) fn outcome(said: &Value) -> Option<i64> {
    match said {
        Value::Int(code) => Some(*code),
        Value::Array(parts) => match parts.first() {
            Some(Value::Int(code)) => Some(*code),
            _ => None,
        },
        _ => None,
    }
}
