//! What goes on beside the data path: messages are delivered, the node stays among the others, seats that nobody asks for
//! are dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::rate::Tick;
use tidegate_store::limits::{Leased, Reported, Settled};
use tidegate_store::{Call, StoreError};
use tokio::time::{sleep, timeout};

use super::counts::Called;
use super::parts::{JOIN_INTERVAL, RENEW_INTERVAL};
use super::plan::FleetMode;
use super::post::{BATCH_MAX, Batch, Letter, Return};
use super::seat::{Message, Reply};
use super::table::SHARDS;
use super::{Inner, REST_US, tag_of};

/// Longest wait for the answer to a batch; as long as a request waits.
const CALL: Call = Call::within(Duration::from_millis(8));
/// The post is looked into so often when nothing is known to be due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Seats that nobody has asked for so long are dropped.
const IDLE_US: u64 = 10_000_000;
/// How often one shard of them is looked through.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);

/// Delivers the post, for ever.
pub(super) async fn deliver_all(inner: Arc<Inner>) {
    loop {
        match inner.post.collect(inner.now()) {
            Ok(batch) => {
                for &key in &batch.due {
                    inner.come_back(key);
                }
                if batch.letters.is_empty() && batch.returns.is_empty() {
                    continue;
                }
                let flights = Arc::clone(&inner.flights);
                let Ok(flight) = flights.acquire_owned().await else {
                    return;
                };
                let inner = Arc::clone(&inner);
                tokio::spawn(async move {
                    inner.deliver(batch).await;
                    drop(flight);
                });
            }
            Err(due_us) => {
                let wait = due_us.map_or(LOOK_INTERVAL, Duration::from_micros);
                let wait = wait.clamp(Duration::from_millis(1), LOOK_INTERVAL);
                // Rung or not, the post is looked into.
                let _ = timeout(wait, inner.post.bell.notified()).await;
            }
        }
    }
}

/// Keeps this node among those that share the limits, for ever.
pub(super) async fn keep_part(inner: Arc<Inner>) {
    // Since when the store is away, and whether that was said.
    let mut away: Option<(Instant, bool)> = None;
    loop {
        let renewed = inner
            .parts
            .renew(&inner.store, || inner.now(), &inner.names)
            .await;
        inner.counts.called(Called::Divided, renewed.is_ok());
        match (&renewed, &mut away) {
            (Ok(()), Some((since, said))) => {
                if *said {
                    let seconds = since.elapsed().as_secs_f64();
                    tracing::info!(seconds, "the store of limits is back");
                }
                away = None;
            }
            (Err(_), None) => away = Some((Instant::now(), false)),
            // At a start it takes a moment to be found.
            (Err(error), Some((since, said @ false))) if since.elapsed() >= RENEW_INTERVAL => {
                tracing::warn!(%error, "the store of limits is away: each limit of the fleet does what its on_store_loss says");
                *said = true;
            }
            _ => {}
        }
        let joined = inner.parts.part(inner.now()) > 0;
        sleep(match joined && renewed.is_ok() {
            true => RENEW_INTERVAL,
            false => JOIN_INTERVAL,
        })
        .await;
    }
}

/// Drops seats that nobody asks for, for ever.
pub(super) async fn sweep(inner: Arc<Inner>) {
    for at in (0..SHARDS).cycle() {
        sleep(SWEEP_INTERVAL).await;
        let now = inner.now();
        let mut shard = inner.table.nth(at);
        let following = inner.parts.following();
        let needed = |seat: &super::Seat| seat.is_needed(inner.limit(seat.limit), &following, now);
        let idle = shard.idle(Tick(now.0.saturating_sub(IDLE_US)), needed);
        drop(following);
        inner.part_with(idle, &mut shard.rng, now);
    }
}

impl Inner {
    /// Everything is given back, reported, and said goodbye to.
    pub(super) async fn close(&self) {
        let now = self.now();
        for at in 0..SHARDS {
            let mut shard = self.table.nth(at);
            let gone = shard.seats.drain().collect();
            self.part_with(gone, &mut shard.rng, now);
        }
        // What is due by the clock has gone with the seats.
        while let Ok(batch) = self.post.collect(now) {
            self.deliver(batch).await;
        }
        self.parts.leave(&self.store).await;
    }

    /// It is time to look at a seat again.
    fn come_back(&self, key: u128) {
        let now = self.now();
        let mut shard = self.table.shard(key);
        let shard = &mut *shard;
        if let Some(seat) = shard.seats.get_mut(&key) {
            seat.has_timer = false;
            self.speak(key, seat, &mut shard.rng, now);
        }
    }

    async fn deliver(&self, batch: Batch) {
        let (asks, reports): (Vec<Letter>, Vec<Letter>) = batch
            .letters
            .into_iter()
            .partition(|letter| matches!(letter.message, Message::Ask(_)));
        let (asks, reports) = (self.ask(&asks), self.report(&reports));
        tokio::join!(asks, reports, self.give_back_all(&batch.returns));
    }

    async fn ask(&self, letters: &[Letter]) {
        let asks = letters.iter().filter_map(|letter| {
            let bucket = self.limit(letter.limit).bucket.as_ref()?;
            let Message::Ask(ask) = letter.message else {
                return None;
            };
            Some(Leased {
                key: letter.key,
                tag: tag_of(letter.key),
                spec: &bucket.whole,
                plan: &bucket.lease,
                ask,
            })
        });
        let asks: Vec<_> = asks.collect();
        if asks.is_empty() {
            return;
        }
        let answers = self.store.lease(&asks, CALL).await;
        let answered = answers.iter().any(Result::is_ok);
        self.counts.called(Called::Lease, answered);
        for (letter, answer) in letters.iter().zip(answers) {
            self.take_reply(letter, answer.map(Reply::Granted));
        }
    }

    async fn report(&self, letters: &[Letter]) {
        let reports = letters.iter().filter_map(|letter| {
            let limit = self.limit(letter.limit);
            let (Message::Report(report), FleetMode::Aggregate(plan)) =
                (letter.message, limit.plan.mode)
            else {
                return None;
            };
            Some(Reported {
                key: letter.key,
                tag: tag_of(letter.key),
                spec: &limit.bucket.as_ref()?.whole,
                kept_us: plan.kept_us,
                report,
            })
        });
        let reports: Vec<_> = reports.collect();
        if reports.is_empty() {
            return;
        }
        let answers = self.store.report(&reports, CALL).await;
        let answered = answers.iter().any(Result::is_ok);
        self.counts.called(Called::Aggregate, answered);
        for (letter, answer) in letters.iter().zip(answers) {
            self.take_reply(letter, answer.map(Reply::Told));
        }
    }

    fn take_reply(&self, letter: &Letter, reply: Result<Reply, StoreError>) {
        let now = self.now();
        let mut shard = self.table.shard(letter.key);
        let shard = &mut *shard;
        let seat = shard.seats.get_mut(&letter.key);
        match (seat, reply) {
            (Some(seat), Ok(reply)) => {
                self.rest(letter.key, Tick(0));
                seat.answered(&letter.message, reply, now);
                self.speak(letter.key, seat, &mut shard.rng, now);
            }
            (Some(seat), Err(_)) => {
                self.rest(letter.key, now.plus(REST_US));
                seat.unanswered(&letter.message, now);
                self.speak(letter.key, seat, &mut shard.rng, now);
            }
            // Its last words were not heard.
            (None, Err(_)) => self.counts.lost(1),
            (None, Ok(_)) => {}
        }
    }

    async fn give_back_all(&self, returns: &[Return]) {
        if returns.is_empty() {
            return;
        }
        let settled: Vec<_> = returns
            .iter()
            .map(|it| Settled {
                key: it.key,
                tag: tag_of(it.key),
                spec: &it.spec,
                at: it.at,
                taken: it.taken,
                used: it.used,
            })
            .collect();
        let done = self.store.settle(&settled, CALL).await;
        self.counts.called(Called::GiveBack, done.is_ok());
        if done.is_err() {
            self.counts.lost(returns.len() as u64);
        }
    }
}

// The store takes no more than that at once.
const _: () = assert!(BATCH_MAX <= tidegate_core::rate::set::LIMITS_MAX);
