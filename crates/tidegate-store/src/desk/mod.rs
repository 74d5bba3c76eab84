//! What the gateway and the sidecar talk to.
//!
//! A [`Desk`] is the one door to sessions in a process. Behind it: a local copy of what was read
//! lately, always asked about before it is used; one call to the store however many ask at the same
//! time; order among the writes to one session; what a sign-in brings along; and the decision, once
//! per call, whether the store answers or a copy does.

mod attributes;
mod error;
mod opened;
mod patch;
mod plan;
mod session;
mod sign_in;
mod stats;
mod ticket;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::session::{Fields, Name, SessionId, Uid, Value};
use tidegate_core::time::Wall;

use crate::{Consumer, Event, EventId, Position, Reason};

pub use attributes::{AttributePlan, Attributes};
pub use error::{DeskError, StartError};
pub use opened::{Seen, Standing, Visit};
pub use patch::{DeskPatched, Patch};
pub use plan::{Backend, DeskPlan, Resume, SessionLives, Tombstones};
pub use session::Session;
pub use sign_in::{Listed, SignIn, SignedOutEverywhere};
pub use stats::Stats;
pub use ticket::{BadTicket, Ticket};

/// An event that a listener took and did not acknowledge for so long is given to another.
pub const EVENT_ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// The door to sessions. Cheap to clone; the clones are one desk.
#[derive(Clone)]
pub struct Desk {
    shared: Arc<Shared>,
}

struct Shared {
    plan: DeskPlan,
}

#[allow(unused_variables, clippy::unused_async)]
impl Desk {
    /// Starts a desk and its thread. Waits for no store: one that is away is a desk that answers
    /// from what it has.
    pub fn start(plan: DeskPlan) -> Result<Self, StartError> {
        Ok(Self {
            shared: Arc::new(Shared { plan }),
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
        unimplemented!()
    }

    /// All of the session `id` without using it: its idle time does not slide. Asks the store.
    pub async fn show(&self, id: &SessionId, budget: Duration) -> Visit {
        unimplemented!()
    }

    /// Creates a session that belongs to nobody yet. [`DeskError::Taken`] asks for another id.
    pub async fn create(
        &self,
        id: SessionId,
        attributes: Vec<(Name, Value)>,
        counters: Vec<(Name, i64)>,
        budget: Duration,
    ) -> Result<Seen, DeskError> {
        unimplemented!()
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
        unimplemented!()
    }

    /// Gives a user a session under a fresh id; the old id is dead for everybody from then on.
    /// What is on the carry list comes along from the old session, and what the user left behind
    /// in their last session is taken up. [`DeskError::Taken`] asks for another new id.
    pub async fn sign_in(&self, sign_in: SignIn, budget: Duration) -> Result<Seen, DeskError> {
        unimplemented!()
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
        unimplemented!()
    }

    /// Ends a session; whether there was one, as far as is known. With the store away it is dead
    /// here at once and everywhere as soon as the store is back.
    pub async fn destroy(
        &self,
        id: &SessionId,
        reason: Reason,
        budget: Duration,
    ) -> Result<bool, DeskError> {
        unimplemented!()
    }

    /// Ends all sessions of a user, whether the index knows them or not, except one.
    pub async fn sign_out_everywhere(
        &self,
        uid: &Uid,
        except: Option<&SessionId>,
        budget: Duration,
    ) -> Result<SignedOutEverywhere, DeskError> {
        unimplemented!()
    }

    /// The sessions of a user that are alive, the one used last first.
    pub async fn sessions_of(&self, uid: &Uid, budget: Duration) -> Result<Vec<Listed>, DeskError> {
        unimplemented!()
    }

    /// The value that lies out of line behind `pointer`, an attribute's value of
    /// [`Format::Pointer`](tidegate_core::session::Format::Pointer); `None` when it is gone.
    pub async fn blob(
        &self,
        id: &SessionId,
        pointer: &Value,
        budget: Duration,
    ) -> Result<Option<Value>, DeskError> {
        unimplemented!()
    }

    /// What the gateway seals for the visitor of `seen`, so that any gateway knows them while the
    /// store is away. `None` unless the store has just vouched for it.
    pub fn ticket(&self, seen: &Seen) -> Option<Ticket> {
        unimplemented!()
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
        unimplemented!()
    }

    /// Says that `group` is done with these events; how many of them it had open.
    pub async fn acknowledge(&self, group: &Name, events: &[EventId]) -> Result<u32, DeskError> {
        unimplemented!()
    }

    /// Ends of sessions after a position, for a reader that keeps account itself, and the position
    /// behind them. About `most`. Waits for the first at most `wait`.
    pub async fn events_after(
        &self,
        position: &Position,
        most: u32,
        wait: Duration,
    ) -> Result<(Vec<Event>, Position), DeskError> {
        unimplemented!()
    }

    /// Whether the part of the store that has `id` is away, so that a call would be answered from
    /// what is here.
    pub fn is_away(&self, id: &SessionId) -> bool {
        unimplemented!()
    }

    /// The store's clock, as far as it is known; this machine's until the store has answered once.
    pub fn now(&self) -> Wall {
        unimplemented!()
    }

    /// What was counted since the start, and how things stand.
    pub fn stats(&self) -> Stats {
        unimplemented!()
    }

    /// Writes what was held back and stops the desk's thread. Later calls find the store away.
    pub async fn close(&self, within: Duration) {
        unimplemented!()
    }
}
