//! What the gateway and the sidecar talk to.
//!
//! A [`Desk`] is the one door to sessions in a process. Behind it: a local copy of what was read
//! lately, always asked about before it is used; one call to the store however many ask at the same
//! time; order among the writes to one session; what a sign-in brings along; and the decision, once
//! per call, whether the store answers or a copy does.

mod attributes;
mod away;
mod births;
mod clock;
mod counters;
mod dead;
mod degraded;
mod ending;
mod epochs;
mod errands;
mod error;
mod events;
mod flights;
mod heirs;
mod l1;
mod large;
mod opened;
mod opening;
mod order;
mod patch;
mod patching;
mod plan;
mod repair;
mod resume;
mod rotating;
mod route;
mod seqs;
mod session;
mod sign_in;
mod signing;
mod stats;
mod ticket;
mod unknown;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::session::{Fields, Name, SessionId, Uid, Value};
use tidegate_core::time::Wall;

use crate::background::Background;
use crate::embedded::{Embedded, EmbeddedPlan};
use crate::janitor::Janitor;
use crate::redis::{Redis, StoreStats, Use};
use crate::{Consumer, Event, EventId, Position, Reason, SessionStore};
use away::Away;
use clock::Clock;
use counters::Counters;
use dead::Dead;
use epochs::Epochs;
use errands::{EVENTS_KEPT, Errands};
use events::Listeners;
use flights::Flights;
use l1::L1;
use order::Order;
use patching::only;
use route::{Route, Suspects};
use seqs::Seqs;
use unknown::Unknown;

pub use attributes::{AttributePlan, Attributes};
pub use error::{DeskError, StartError};
pub use events::EVENT_ABANDONED_AFTER;
pub use opened::{Seen, Standing, Visit};
pub use patch::{DeskPatched, Patch};
pub use plan::{Backend, DeskPlan, Resume, SessionLives, Tombstones};
pub use session::Session;
pub use sign_in::{Listed, SignIn, SignedOutEverywhere};
pub use stats::Stats;
pub use ticket::{BadTicket, Ticket};

/// The door to sessions. Cheap to clone; the clones are one desk.
#[derive(Clone)]
pub struct Desk {
    shared: Arc<Shared>,
    /// Ends with the last clone.
    _background: Background,
}

/// What the clones of a desk share. What is done here without a caller holds a weak reference, so
/// that it ends with the last clone.
struct Shared {
    plan: DeskPlan,
    store: SessionStore,
    clock: Clock,
    l1: L1,
    unknown: Unknown,
    dead: Dead,
    epochs: Epochs,
    flights: Flights,
    order: Order,
    seqs: Seqs,
    suspects: Suspects,
    away: Away,
    errands: Errands,
    listeners: Listeners,
    counters: Arc<Counters>,
    janitor: Janitor,
    /// Names that come along at a sign-in.
    carry: Vec<Name>,
    /// Names that are kept for the user's next session.
    resumed: Fields,
}

impl Desk {
    /// Starts a desk and its thread. Waits for no store: one that is away is a desk that answers
    /// from what it has.
    pub fn start(plan: DeskPlan) -> Result<Self, StartError> {
        let background = Background::start()?;
        let store = match &plan.backend {
            Backend::Embedded(folder) => {
                SessionStore::Embedded(Embedded::start(EmbeddedPlan::at(folder.clone()))?)
            }
            Backend::Redis(redis) => {
                SessionStore::Redis(Redis::start(redis, Use::Sessions, &background))
            }
        };
        Self::on(plan, store, background)
    }

    /// Starts a desk on a store that is there already.
    fn on(plan: DeskPlan, store: SessionStore, background: Background) -> Result<Self, StartError> {
        let incarnation = getrandom::u64().map_err(std::io::Error::other)?;
        let counters = Arc::new(Counters::new());
        let (errands, inbox) = Errands::new(counters.clone());
        let carry = plan.attributes.names(|attribute| attribute.carry);
        let away = Away::new(&plan, carry.clone());
        let shared = Arc::new(Shared {
            carry,
            resumed: only(
                plan.attributes
                    .names(|attribute| attribute.resume.is_some()),
            ),
            l1: L1::new(plan.l1_bytes),
            janitor: Janitor::start(store.clone(), incarnation, EVENTS_KEPT, &background),
            plan,
            store,
            clock: Clock::default(),
            unknown: Unknown::new(),
            dead: Dead::new(),
            epochs: Epochs::new(),
            flights: Flights::default(),
            order: Order::default(),
            seqs: Seqs::new(incarnation),
            suspects: Suspects::new(),
            away,
            errands,
            listeners: Listeners::new(),
            counters,
        });
        background.spawn(errands::run(Arc::downgrade(&shared), inbox));
        background.spawn(away::run(Arc::downgrade(&shared), shared.away.wake()));
        Ok(Self {
            shared,
            _background: background,
        })
    }

    /// The plan that it was started with.
    pub fn plan(&self) -> &DeskPlan {
        &self.shared.plan
    }

    /// Validates the session `id` and returns of it what `fields` says, sliding its idle time.
    /// Takes at most `budget`. With the store away, the local copy answers, else `ticket`.
    pub async fn open(
        &self,
        id: &SessionId,
        ticket: Option<&Ticket>,
        fields: &Fields,
        budget: Duration,
    ) -> Visit {
        self.shared.open(id, ticket, fields, budget).await
    }

    /// All of the session `id` without using it: its idle time does not slide. Asks the store.
    pub async fn show(&self, id: &SessionId, budget: Duration) -> Visit {
        self.shared.show(id, budget).await
    }

    /// Creates a session that belongs to nobody yet. [`DeskError::Taken`] asks for another id.
    pub async fn create(
        &self,
        id: SessionId,
        attributes: Vec<(Name, Value)>,
        counters: Vec<(Name, i64)>,
        budget: Duration,
    ) -> Result<Seen, DeskError> {
        let shared = &self.shared;
        shared.create(id, attributes, counters, budget).await
    }

    /// Makes all the changes of `patch` or none. Values over the ceiling go out of line. The
    /// patches of one session are made in the order in which they are asked for.
    pub async fn patch(
        &self,
        id: &SessionId,
        ticket: Option<&Ticket>,
        patch: Patch,
        budget: Duration,
    ) -> Result<DeskPatched, DeskError> {
        self.shared.patch(id, ticket, patch, budget).await
    }

    /// Gives a user a session under a fresh id; the old id is dead for everybody from then on.
    /// What is on the carry list comes along from the old session, and what the user left behind
    /// in their last session is taken up. When the same user has signed in with the old id a moment
    /// ago (within [`Tombstones::privilege`]), what came along then comes along again.
    /// [`DeskError::Taken`] asks for another new id.
    pub async fn sign_in(&self, sign_in: SignIn, budget: Duration) -> Result<Seen, DeskError> {
        self.shared.sign_in(sign_in, None, budget).await
    }

    /// [`Self::sign_in`] of a visitor with a `ticket` of the old session: with the store away, and no
    /// local copy, what the ticket has of the carry list comes along.
    pub async fn sign_in_with(
        &self,
        sign_in: SignIn,
        ticket: Option<&Ticket>,
        budget: Duration,
    ) -> Result<Seen, DeskError> {
        self.shared.sign_in(sign_in, ticket, budget).await
    }

    /// Gives a session another id as a habit, on the same slot tag; for a while the old id leads to
    /// `successor`. A visit to nothing tells what is under the old id instead: perhaps somebody
    /// rotated it first.
    pub async fn rotate(
        &self,
        old: &SessionId,
        new: SessionId,
        successor: Vec<u8>,
        budget: Duration,
    ) -> Result<Visit, DeskError> {
        self.shared.rotate(old, new, successor, budget).await
    }

    /// Ends a session; whether there was one, as far as is known. With the store away it is dead
    /// here at once and everywhere as soon as the store is back.
    pub async fn destroy(
        &self,
        id: &SessionId,
        reason: Reason,
        budget: Duration,
    ) -> Result<bool, DeskError> {
        self.shared.destroy(id, reason, budget).await
    }

    /// Ends all sessions of a user, whether the index knows them or not, except one.
    pub async fn sign_out_everywhere(
        &self,
        uid: &Uid,
        except: Option<&SessionId>,
        budget: Duration,
    ) -> Result<SignedOutEverywhere, DeskError> {
        let shared = &self.shared;
        shared.sign_out_everywhere(uid, except, budget).await
    }

    /// The sessions of a user that are alive, the one used last first.
    pub async fn sessions_of(&self, uid: &Uid, budget: Duration) -> Result<Vec<Listed>, DeskError> {
        self.shared.sessions_of(uid, budget).await
    }

    /// The value that lies out of line behind `pointer`, an attribute's value of
    /// [`Format::Pointer`](tidegate_core::session::Format::Pointer); `None` when it is gone.
    pub async fn blob(
        &self,
        id: &SessionId,
        pointer: &Value,
        budget: Duration,
    ) -> Result<Option<Value>, DeskError> {
        let until = Instant::now() + budget;
        self.shared.behind(id, pointer, until).await
    }

    /// What the gateway seals for the visitor of `seen`, so that any gateway knows them while the
    /// store is away. `None` unless the store has just vouched for it.
    pub fn ticket(&self, seen: &Seen) -> Option<Ticket> {
        self.shared.ticket(seen)
    }

    /// Ends of sessions for one member of a group of listeners, each for one member alone: first
    /// those that some member got and has not acknowledged within [`EVENT_ABANDONED_AFTER`], then
    /// those that nobody had. About `most`. Waits for the first at most `wait`.
    pub async fn events(
        &self,
        consumer: &Consumer,
        most: u32,
        wait: Duration,
    ) -> Result<Vec<Event>, DeskError> {
        self.shared.events(consumer, most, wait).await
    }

    /// Says that `group` is done with these events; how many of them it had open.
    pub async fn acknowledge(&self, group: &Name, events: &[EventId]) -> Result<u32, DeskError> {
        Ok(self.shared.acknowledge(group, events).await?)
    }

    /// Ends of sessions after a position, for a reader that keeps account itself, and the position
    /// behind them. About `most`. Waits for the first at most `wait`.
    pub async fn events_after(
        &self,
        position: &Position,
        most: u32,
        wait: Duration,
    ) -> Result<(Vec<Event>, Position), DeskError> {
        self.shared.events_after(position, most, wait).await
    }

    /// Whether the part of the store that has `id` is away, so that a call would be answered from
    /// what is here.
    pub fn is_away(&self, id: &SessionId) -> bool {
        self.shared.route(id) == Route::Away
    }

    /// Whether the session `id` is known to be over, without asking: it was ended or given up for
    /// another here, or the store has said so.
    pub fn is_over(&self, id: &SessionId) -> bool {
        self.shared.dead.has(id) || self.shared.unknown.has(id)
    }

    /// The store's clock, as far as it is known; this machine's until the store has answered once.
    pub fn now(&self) -> Wall {
        self.shared.clock.now()
    }

    /// What was counted since the start, and how things stand.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        let mut stats = shared.counters.stats();
        stats.l1_entries = shared.l1.len() as u64;
        stats.l1_bytes = shared.l1.bytes();
        stats.janitor = shared.janitor.stats();
        shared.away.tell(&mut stats);
        stats
    }

    /// How the servers behind the store are, each shard with its breaker, and how the last loss of
    /// each went; without servers, nothing.
    pub fn servers(&self) -> StoreStats {
        self.shared.store.servers()
    }

    /// Writes what was held back, as far as that is done within `within`, and closes the embedded
    /// store's file: before the process ends.
    pub async fn close(&self, within: Duration) {
        // In vain when the store is away: what is held back is lost then.
        let _ = tokio::time::timeout(within, self.shared.errands.flush()).await;
        if let SessionStore::Embedded(store) = &self.shared.store {
            store.close();
        }
    }
}
