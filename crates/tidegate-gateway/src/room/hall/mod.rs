//! One waiting room at one gateway: what requests read and what they ask for.
//!
//! A request reads the [`View`], which is made anew every second, and the tokens that it shows; it asks the [`Clerk`] for what
//! only the store can say. The [`Door`] bounds who comes in here, and [`Inside`] knows who has.

mod clerk;
mod counts;
mod door;
mod inside;
mod orders;
mod plan;
mod view;

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use tidegate_core::rate::SpecError;
use tidegate_core::room::{BEAT_MIN, Brake, INTERVAL_MAX, Policy, Positions};
use tidegate_core::time::Wall;
use tidegate_page::{BadTheme, Pages};
use tidegate_store::Background;
use tidegate_store::rooms::Room;

pub(crate) use self::clerk::{Clerk, ClerkError, Mode, Notes, claim_ms};
pub(crate) use self::counts::{Asked, BAD, Outcome, RoomCounts, bad};
pub(crate) use self::door::Door;
pub(crate) use self::inside::Inside;
pub(crate) use self::orders::RoomOrder;
pub use self::plan::{EventPlan, OnRoomLoss, RoomPlan, WebhookPlan};
pub(crate) use self::view::{Line, View};
use super::herald::Herald;
use super::visit::{Limits, Wishes};
use super::{BadTokens, Revoked, Standing, Tokens};
use crate::context::Clock;

/// One waiting room at one gateway.
pub(crate) struct Hall {
    /// As it is configured.
    pub(crate) plan: RoomPlan,
    /// The tokens of its visitors.
    pub(crate) tokens: Tokens,
    /// What they see.
    pub(crate) pages: Pages,
    /// Who asks the store for them.
    pub(crate) clerk: Clerk,
    /// How many come in here.
    pub(crate) door: Door,
    /// Who is inside.
    pub(crate) inside: Inside,
    /// What is counted.
    pub(crate) counts: RoomCounts,
    /// Who writes down and tells others what happens.
    pub(crate) herald: Herald,
    /// How often it may be asked.
    pub(crate) limits: Limits,
    /// What the application wants of it.
    pub(crate) wishes: Wishes,
    view: RwLock<Arc<View>>,
}

/// Why a room cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BadRoom {
    /// Its tokens cannot be made so.
    #[error("its tokens cannot be made so")]
    Tokens(#[from] BadTokens),
    /// Its pages cannot look so.
    #[error("its pages cannot look so")]
    Theme(#[from] BadTheme),
    /// So many joins cannot be counted.
    #[error("its joins cannot be counted: {0}")]
    Joins(SpecError),
    /// What happens cannot be written down.
    #[error("what happens in it cannot be written down")]
    Herald(#[from] io::Error),
}

impl Hall {
    /// The room of `plan`, which is kept in `room`. Nothing is known of it yet.
    ///
    /// # Errors
    ///
    /// When the plan cannot be kept, or the system does not give what that takes.
    pub(crate) fn new(
        plan: RoomPlan,
        room: Room,
        background: &Background,
        clock: Clock,
    ) -> Result<Self, BadRoom> {
        let standing = Standing {
            keys: plan.keys.clone(),
            epoch: None,
            revoked: Revoked::default(),
        };
        Ok(Self {
            tokens: Tokens::new(plan.tokens.clone(), standing)?,
            pages: Pages::new(&plan.tokens.room, &plan.theme)?,
            clerk: Clerk::start(&plan, room, background, clock),
            door: Door::new(),
            inside: Inside::new(),
            counts: RoomCounts::default(),
            herald: Herald::start(&plan, background)?,
            limits: Limits::new(plan.joins).map_err(BadRoom::Joins)?,
            wishes: Wishes::default(),
            view: RwLock::new(Arc::new(unseen(&plan, clock))),
            plan,
        })
    }

    /// How the room is.
    pub(crate) fn view(&self) -> Arc<View> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&view)
    }

    /// From now on it is like this.
    pub(crate) fn show(&self, view: View) {
        let mut place = self.view.write().unwrap_or_else(PoisonError::into_inner);
        *place = Arc::new(view);
    }
}

/// A room that nobody has looked at yet.
fn unseen(plan: &RoomPlan, clock: Clock) -> View {
    let now: Wall = clock.wall();
    View {
        at: clock.now(),
        store_now: now,
        epoch: None,
        phase: plan.phase,
        is_ordered: false,
        line: Line::Unknown,
        is_open: false,
        positions: Arc::new(Positions {
            order: plan.order,
            ..Positions::default()
        }),
        ready: 0,
        active: 0,
        policy: Policy {
            stretch: INTERVAL_MAX,
            floor: INTERVAL_MAX,
            beat: BEAT_MIN,
            grace: INTERVAL_MAX * 6,
        },
        rate: 0.0,
        brake: Brake::Unheard,
        load_each: plan.load_each,
        no_shows: 0.0,
        gateways: 1,
        leader: None,
        fence: 0,
        paused_since_ms: None,
        reason: None,
        stock: None,
        estimate_error: None,
        estimate_within: None,
        overshoot: 0.0,
        document: Bytes::new(),
    }
}
