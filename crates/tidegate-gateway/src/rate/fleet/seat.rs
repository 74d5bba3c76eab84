//! What this node has of one key of a limit of the fleet, whichever way it is shared: what is decided with it,
//! and what it has to say to the store.
//!
//! The ways are the core's; here is which of them a key goes, and what they have in common.

use std::sync::Arc;

use tidegate_core::rate::set::Standing;
use tidegate_core::rate::share::aggregate::{Report, Reporter, Told};
use tidegate_core::rate::share::apart::Apart;
use tidegate_core::rate::share::divided::{Divided, PartState};
use tidegate_core::rate::share::following::Following;
use tidegate_core::rate::share::hot::{self, Heat, HotPlan};
use tidegate_core::rate::share::lease::{Ask, Grant, LeasePlan, Lessee};
use tidegate_core::rate::share::{Life, OnLoss, Verdict};
use tidegate_core::rate::{BucketSpec, Short, Spec, Tick};
use tidegate_core::rng::Rng;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::plan::{FleetMode, FleetPlan};

/// After a message without an answer the next is sent so much later, if nobody asks before.
const RETRY_US: u64 = 1_000_000;

/// A limit of the fleet, ready for use.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub(super) spec: Arc<Spec>,
    pub(super) plan: FleetPlan,
    /// What only a bucket has.
    pub(super) bucket: Option<Bucket>,
}

/// A limit that is a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pub(super) whole: BucketSpec,
    /// The parts of it; none if it is too fine for that.
    pub(super) divided: Option<Divided>,
    /// As many nodes as there should be, for one that has never heard of another.
    nodes: u32,
    /// How a key is leased.
    pub(super) lease: LeasePlan,
}

impl Bucket {
    /// How many parts the limit has while the store is away: as many as there were when it was last heard.
    fn parts(&self, following: &Following) -> u32 {
        following.last().unwrap_or(self.nodes).max(1)
    }
}

/// One key at this node.
#[derive(Debug)]
pub(super) struct Seat {
    /// The limit's place in the plan.
    pub(super) limit: u16,
    /// When it was last asked.
    pub(super) touched: Tick,
    /// Whether somebody will come back to it by the clock.
    pub(super) has_timer: bool,
    way: Way,
    /// Its part of the limit, for as long as the store is away.
    apart: Apart,
    /// Rung when the store has answered or does not.
    bell: Option<Arc<Notify>>,
    /// When a message was not answered, when to send it again though nobody asks.
    retry: Option<Tick>,
}

#[derive(Debug)]
enum Way {
    Shared {
        heat: Heat,
        hot: Option<Hot>,
        turn: Turn,
    },
    Lease(Box<Lessee>),
    Divided(Option<PartState>),
    Aggregate(Box<Reporter>),
}

/// Of a key that has no tokens to spare one request asks at a time: the next token is for one of them, and who comes
/// while that is being asked for hears what is left after it.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// The last answer left too little for another such request.
    is_short: bool,
    /// Somebody is asking.
    is_taken: bool,
}

/// The lease of a key that is asked for so often that the store is not asked for each request.
#[derive(Debug)]
struct Hot {
    lessee: Box<Lessee>,
    /// It has cooled down, and the last tokens are on their way back.
    closing: bool,
    /// An ask is on its way.
    asked: bool,
}

/// What a request hears.
#[derive(Debug)]
pub(super) enum Here {
    /// It has been spent from.
    Passed(By),
    /// There are too few tokens.
    Short { short: Short, remaining: u64 },
    /// The store is to be asked for this request.
    Store,
    /// The store is asked for tokens; to be taken again when it has answered.
    Ask(OwnedNotified),
    /// The store should have answered.
    Lost,
}

/// Out of what a request was given its tokens, and so where they go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The store, at that time of its clock.
    Store(Tick),
    /// What the node has ahead, its part, or what it reports.
    Seat,
    /// Its part while the store is away.
    Apart,
    /// Nothing: everything passes.
    Nothing,
}

/// What a node has to say to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Ask(Ask),
    Report(Report),
}

/// What the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// To an ask; nothing if a later one was there before.
    Granted(Option<Grant>),
    Told(Told),
}

impl Limit {
    /// The limit `spec` of a fleet that should have `nodes` nodes.
    pub(super) fn new(spec: Spec, plan: FleetPlan, nodes: u32) -> Self {
        let bucket = match spec {
            Spec::Bucket(whole) => Some(Bucket {
                whole,
                divided: Divided::new(whole, nodes).ok(),
                nodes,
                lease: match plan.mode {
                    FleetMode::Lease(lease) => lease,
                    _ => LeasePlan::usual(whole.burst()),
                },
            }),
            _ => None,
        };
        Self {
            spec: Arc::new(spec),
            plan,
            bucket,
        }
    }
}

impl Seat {
    /// Nothing yet of limit number `at`, for a new `life`.
    pub(super) fn new(at: u16, limit: &Limit, life: Life, now: Tick) -> Self {
        let way = match (limit.plan.mode, &limit.bucket) {
            (FleetMode::Lease(plan), Some(bucket)) => {
                Way::Lease(Box::new(Lessee::new(&bucket.whole, plan, life)))
            }
            (FleetMode::Aggregate(plan), Some(bucket)) => {
                Way::Aggregate(Box::new(Reporter::new(bucket.whole, plan, life, now)))
            }
            (FleetMode::Divided, Some(_)) => Way::Divided(None),
            _ => Way::Shared {
                heat: Heat::new(match limit.bucket {
                    Some(_) => HotPlan::USUAL,
                    // Only a bucket can be leased.
                    None => HotPlan {
                        hot_per_s: u64::MAX,
                        ..HotPlan::USUAL
                    },
                }),
                hot: None,
                turn: Turn::default(),
            },
        };
        Self {
            limit: at,
            touched: now,
            has_timer: false,
            way,
            apart: Apart::default(),
            bell: None,
            retry: None,
        }
    }

    /// Spends `cost` tokens, or says who decides. Whatever it says, [`Self::message`] may have something. A key that
    /// turns hot has `life`.
    pub(super) fn take(
        &mut self,
        limit: &Limit,
        parts: &Following,
        life: Life,
        now: Tick,
        cost: u64,
    ) -> Here {
        self.touched = now;
        let (verdict, remaining) = match (&mut self.way, &limit.bucket) {
            (Way::Shared { heat, hot, .. }, bucket) => match heat.way(now, cost) {
                // What the store has refused is known where it is asked.
                hot::Way::Refused { .. } | hot::Way::Store { .. } => return Here::Store,
                hot::Way::Lease => {
                    let Some(bucket) = bucket else {
                        return Here::Store;
                    };
                    let hot = hot.get_or_insert_with(|| Hot {
                        lessee: Box::new(Lessee::new(&bucket.whole, bucket.lease, life)),
                        closing: false,
                        asked: false,
                    });
                    if hot.closing {
                        return Here::Store;
                    }
                    let verdict = hot.lessee.take(now, cost);
                    (verdict, hot.lessee.remaining(now))
                }
            },
            (Way::Lease(lessee), _) => {
                let verdict = lessee.take(now, cost);
                (verdict, lessee.remaining(now))
            }
            (Way::Aggregate(reporter), _) => {
                let verdict = reporter.take(now, cost);
                (verdict, reporter.remaining(now))
            }
            (Way::Divided(state), Some(bucket)) => match &bucket.divided {
                Some(divided) => {
                    let verdict = match limit.plan.on_loss {
                        OnLoss::Local => divided.take_through(state, parts, now, cost),
                        OnLoss::Open | OnLoss::Closed => divided.take(state, parts, now, cost),
                    };
                    (verdict, divided.remaining(state.as_ref(), parts, now))
                }
                None => (Verdict::Lost, 0),
            },
            (Way::Divided(_), None) => (Verdict::Lost, 0),
        };
        match verdict {
            Verdict::Passed => Here::Passed(By::Seat),
            Verdict::Short { wait_us } => Here::Short {
                short: Short::Wait { wait_us },
                remaining,
            },
            Verdict::Never => Here::Short {
                short: Short::Never,
                remaining,
            },
            Verdict::Ask => {
                let bell = self.bell.get_or_insert_with(Arc::default);
                Here::Ask(Arc::clone(bell).notified_owned())
            }
            Verdict::Lost => Here::Lost,
        }
    }

    /// Spends nothing before the store has said something: to be taken again then. [`Self::message`] has a report.
    ///
    /// For a key whose state is told by reports; any other one asks by itself.
    pub(super) fn hear_first(&mut self, now: Tick) -> Here {
        self.touched = now;
        if let Way::Aggregate(reporter) = &mut self.way {
            reporter.hurry(now);
        }
        let bell = self.bell.get_or_insert_with(Arc::default);
        Here::Ask(Arc::clone(bell).notified_owned())
    }

    /// Whether the store has never said anything of a key whose state is told by reports. One is due all the same, so that it is
    /// known when the store is back.
    pub(super) fn has_nothing_to_go_on(&mut self, now: Tick) -> bool {
        let Way::Aggregate(reporter) = &mut self.way else {
            return false;
        };
        self.touched = now;
        reporter.hurry(now);
        !reporter.has_heard()
    }

    /// Decides without the store, as the limit says for that case; `None` if nothing passes then.
    pub(super) fn take_apart(
        &mut self,
        limit: &Limit,
        parts: &Following,
        now: Tick,
        cost: u64,
    ) -> Option<Here> {
        self.touched = now;
        match limit.plan.on_loss {
            OnLoss::Open => return Some(Here::Passed(By::Nothing)),
            OnLoss::Closed => return None,
            OnLoss::Local => {}
        }
        let bucket = limit.bucket.as_ref()?;
        let divided = bucket.divided.as_ref()?;
        // The part of a divided limit is the same that it had before.
        if let Way::Divided(state) = &mut self.way {
            match divided.take_anyway(state, parts, now, cost) {
                Verdict::Passed => return Some(Here::Passed(By::Seat)),
                Verdict::Short { wait_us } => return Some(short(Short::Wait { wait_us })),
                Verdict::Never => return Some(short(Short::Never)),
                // It never had one.
                Verdict::Ask | Verdict::Lost => {}
            }
        }
        let taken = self
            .apart
            .take(&bucket.whole, bucket.parts(parts), now, cost);
        Some(match taken {
            Ok(_) => Here::Passed(By::Apart),
            Err(why) => short(why),
        })
    }

    /// Takes the turn to ask the store, or says when it may be free. A limit in the shadow has nobody wait for it: what it
    /// says changes nothing, and is known to nobody who waits.
    pub(super) fn take_turn(&mut self, standing: Standing) -> Result<(), OwnedNotified> {
        if standing == Standing::Shadow {
            return Ok(());
        }
        if let Way::Shared { turn, .. } = &mut self.way {
            if turn.is_short && turn.is_taken {
                let bell = self.bell.get_or_insert_with(Arc::default);
                return Err(Arc::clone(bell).notified_owned());
            }
            turn.is_taken = true;
        }
        Ok(())
    }

    /// Gives the turn on, after an answer that left enough for another such request or did not; `None` if there was none.
    pub(super) fn end_turn(&mut self, enough: Option<bool>) {
        if let Way::Shared { turn, .. } = &mut self.way {
            turn.is_taken = false;
            turn.is_short = enough.map_or(turn.is_short, |enough| !enough);
        }
        self.ring();
    }

    /// Takes back `tokens` that were spent out of `by` and not used. False if what they were spent out of is gone.
    pub(super) fn give_back(
        &mut self,
        limit: &Limit,
        parts: &Following,
        by: By,
        now: Tick,
        tokens: u64,
    ) -> bool {
        let bucket = limit.bucket.as_ref();
        let divided = bucket.and_then(|it| it.divided.as_ref());
        match (by, &mut self.way) {
            (By::Seat, Way::Shared { hot: Some(hot), .. }) => hot.lessee.give_back(now, tokens),
            (By::Seat, Way::Lease(lessee)) => lessee.give_back(now, tokens),
            (By::Seat, Way::Aggregate(reporter)) => reporter.give_back(now, tokens),
            (By::Seat, Way::Divided(state)) => {
                if let Some(divided) = divided {
                    divided.give_back(state, parts, now, tokens);
                }
            }
            (By::Apart, _) => {
                if let Some(bucket) = bucket {
                    let parts = bucket.parts(parts);
                    self.apart.give_back(&bucket.whole, parts, now, tokens);
                }
            }
            // It has cooled down since, and its lease is over.
            (By::Seat, Way::Shared { hot: None, .. }) => return false,
            // The caller has it settled there.
            (By::Store(_) | By::Nothing, _) => {}
        }
        true
    }

    /// Takes `tokens` more than were spent out of `by`, whether they are there or not. False if that is for the store.
    pub(super) fn charge(
        &mut self,
        limit: &Limit,
        parts: &Following,
        by: By,
        now: Tick,
        tokens: u64,
    ) -> bool {
        let bucket = limit.bucket.as_ref();
        let divided = bucket.and_then(|it| it.divided.as_ref());
        match (by, &mut self.way) {
            (By::Seat, Way::Shared { .. } | Way::Lease(_)) => return false,
            (By::Seat, Way::Aggregate(reporter)) => reporter.charge(now, tokens),
            (By::Seat, Way::Divided(state)) => {
                if let Some(divided) = divided {
                    divided.charge(state, parts, now, tokens);
                }
            }
            (By::Apart, _) => {
                if let Some(bucket) = bucket {
                    let parts = bucket.parts(parts);
                    self.apart.charge(&bucket.whole, parts, now, tokens);
                }
            }
            // The caller has it settled there.
            (By::Store(_), _) | (By::Nothing, _) => {}
        }
        true
    }

    /// What to send to the store now, if anything.
    pub(super) fn message(&mut self, now: Tick, rng: &mut Rng) -> Option<Message> {
        let message = match &mut self.way {
            Way::Shared {
                heat,
                hot: there @ Some(_),
                ..
            } => {
                let hot = there.as_mut()?;
                if !heat.is_hot() && !hot.closing {
                    hot.closing = true;
                    hot.lessee.close();
                }
                let ask = hot.lessee.ask(now);
                hot.asked |= ask.is_some();
                if hot.closing && !hot.asked {
                    *there = None;
                }
                ask.map(Message::Ask)
            }
            Way::Lease(lessee) => lessee.ask(now).map(Message::Ask),
            Way::Aggregate(reporter) => reporter.report(now, rng).map(Message::Report),
            Way::Shared { hot: None, .. } | Way::Divided(_) => None,
        };
        if message.is_some() {
            self.retry = None;
        }
        message
    }

    /// Gives back what the node has ahead, or reports what it has spent: nobody is going to ask any more.
    ///
    /// Whoever waits for it is told to ask again, where another seat of the key may be.
    pub(super) fn close(&mut self, now: Tick, rng: &mut Rng) -> Option<Message> {
        self.ring();
        match &mut self.way {
            Way::Shared { hot: Some(hot), .. } => hot.lessee.close(),
            Way::Lease(lessee) => lessee.close(),
            Way::Aggregate(reporter) => {
                let now = reporter.due_at().map_or(now, |due| due.max(now));
                return reporter.report(now, rng).map(Message::Report);
            }
            Way::Shared { hot: None, .. } | Way::Divided(_) => {}
        }
        self.message(now, rng)
    }

    /// The store's answer to a message. After it there may be another one to send.
    pub(super) fn answered(&mut self, message: &Message, reply: Reply, now: Tick) {
        self.retry = None;
        match (&mut self.way, message, reply) {
            (Way::Lease(lessee), Message::Ask(ask), Reply::Granted(grant)) => {
                lessee.granted(now, &grant.unwrap_or_else(|| nothing(ask)));
            }
            (Way::Shared { hot: Some(hot), .. }, Message::Ask(ask), Reply::Granted(grant)) => {
                hot.asked = false;
                hot.lessee
                    .granted(now, &grant.unwrap_or_else(|| nothing(ask)));
            }
            (Way::Aggregate(reporter), Message::Report(_), Reply::Told(told)) => {
                reporter.told(now, &told);
            }
            _ => {}
        }
        self.ring();
    }

    /// There is no answer to a message, and may not be one.
    pub(super) fn unanswered(&mut self, message: &Message, now: Tick) {
        match (&mut self.way, message) {
            (Way::Lease(lessee), Message::Ask(ask)) => lessee.lost(ask.seq),
            (Way::Shared { hot: Some(hot), .. }, Message::Ask(ask)) => hot.lessee.lost(ask.seq),
            (Way::Aggregate(reporter), Message::Report(report)) => reporter.lost(report.seq),
            _ => {}
        }
        self.retry = Some(now.plus(RETRY_US));
        self.ring();
    }

    /// When there is something to say though nobody asks.
    pub(super) fn due_at(&self) -> Option<Tick> {
        let due = match &self.way {
            Way::Lease(lessee) => lessee.due_at(),
            Way::Shared { hot: Some(hot), .. } => hot.lessee.due_at(),
            Way::Aggregate(reporter) => reporter.due_at(),
            Way::Shared { hot: None, .. } | Way::Divided(_) => None,
        };
        [due, self.retry].into_iter().flatten().min()
    }

    /// Tokens that the node has ahead.
    pub(super) fn ahead(&self, now: Tick) -> u64 {
        match &self.way {
            Way::Lease(lessee) => lessee.remaining(now),
            Way::Shared { hot: Some(hot), .. } => hot.lessee.remaining(now),
            _ => 0,
        }
    }

    /// What is in its part, where the limit is divided; nothing for one that nobody has used.
    pub(super) const fn part(&self) -> Option<PartState> {
        match self.way {
            Way::Divided(state) => state,
            _ => None,
        }
    }

    /// Whether what it has to say at last makes more pass and not less: tokens that go back. Reports do not.
    pub(super) const fn has_tokens_of_the_store(&self) -> bool {
        matches!(self.way, Way::Lease(_) | Way::Shared { .. })
    }

    /// Tells whoever waits for it that nothing is coming any more.
    pub(super) fn dismiss(&mut self) {
        self.ring();
    }

    /// Tokens that it has spent and not had an answer about.
    pub(super) fn unreported(&self) -> u64 {
        match &self.way {
            Way::Aggregate(reporter) => reporter.unreported(),
            _ => 0,
        }
    }

    /// Whether it is leased because it is asked for so often.
    pub(super) const fn is_hot(&self) -> bool {
        matches!(self.way, Way::Shared { hot: Some(_), .. })
    }

    /// Whether forgetting it would let something pass that it would not have: what was spent of a part, or what nobody else
    /// knows of yet.
    pub(super) fn is_needed(&self, limit: &Limit, parts: &Following, now: Tick) -> bool {
        if self.unreported() > 0 {
            return true;
        }
        let Some(bucket) = &limit.bucket else {
            return false;
        };
        // Whoever comes back to a key that is not known has a whole part again.
        let apart = self
            .apart
            .time_to_full_us(&bucket.whole, bucket.parts(parts), now);
        if apart > 0 {
            return true;
        }
        let (Some(divided), Way::Divided(Some(state))) = (&bucket.divided, &self.way) else {
            return false;
        };
        divided.time_to_full_us(state, parts, now) > 0
    }

    fn ring(&mut self) {
        if let Some(bell) = self.bell.take() {
            bell.notify_waiters();
        }
    }
}

/// That a key lets nothing pass, and nothing is left of it.
const fn short(short: Short) -> Here {
    Here::Short {
        short,
        remaining: 0,
    }
}

/// The answer that gives nothing.
const fn nothing(ask: &Ask) -> Grant {
    Grant {
        seq: ask.seq,
        tokens: 0,
        again_us: 0,
    }
}

#[cfg(test)]
mod tests;
