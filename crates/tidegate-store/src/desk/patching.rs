//! Changing a session while the store is there.

use std::time::{Duration, Instant};

use tidegate_core::session::{
    Format, Name, OnShort, Op, OpSeq, Patched, Replication, SessionId, WriteClass,
};
use tidegate_core::time::Wall;

use super::Shared;
use super::counters::Count;
use super::errands::Errand;
use super::error::DeskError;
use super::large::{NotOutside, Oversized, target};
use super::opened::Standing;
use super::patch::{DeskPatched, Patch};
use super::route::Route;
use super::ticket::Ticket;
use crate::{Acked, Call, StoreError};

impl Shared {
    pub(super) async fn patch(
        &self,
        id: &SessionId,
        ticket: Option<&Ticket>,
        patch: Patch,
        budget: Duration,
    ) -> Result<DeskPatched, DeskError> {
        let until = Instant::now() + budget;
        let turn = tokio::time::timeout_at(until.into(), self.order.turn(*id)).await;
        let mut turn = match turn {
            Ok(Ok(turn)) => turn,
            Ok(Err(_)) => {
                self.counters.add(Count::PatchBusy);
                return Err(DeskError::Busy);
            }
            Err(_) => return Ok(self.told(DeskPatched::Late)),
        };
        let Patch { mut ops, key } = patch;
        let Ok(called) = self.call_it(id, key, &ops) else {
            return Ok(self.told(DeskPatched::KeyReused));
        };
        let seq = called.seq;
        match self.route(id) {
            Route::Live => {}
            Route::Away => return self.patch_away(id, ticket, ops, seq),
            Route::Denied => return Ok(self.told(DeskPatched::Gone(self.gone_here(id)))),
        }
        match self.put_outside(id, &mut ops, until).await {
            Ok(()) => {}
            Err(NotOutside::Oversized(value)) => {
                called.let_go();
                return Ok(self.told(self.oversized(value)));
            }
            Err(NotOutside::Forged) => {
                let what = "a pointer is not an application's to set";
                return Err(DeskError::Odd(what.to_owned()));
            }
            Err(NotOutside::Store(_)) => return self.patch_away(id, ticket, ops, seq),
        }
        let left_behind = self.pointed_to(id, &ops);
        let class = self.class_of(&ops);
        let mut sent = self.send(id, &ops, seq, class, until).await;
        if let Err(StoreError::Broken(_)) = sent {
            // It failed at once, so there is time for another attempt; those behind it wait. After
            // a timeout there is none: the request has paid enough.
            turn.repeat();
            self.counters.add(Count::PatchRetried);
            sent = self.send(id, &ops, seq, class, until).await;
        }
        match self.heard(id, sent) {
            Ok(acked) => {
                if !acked.reply.may_stand() {
                    called.let_go();
                }
                self.settle(id, &ops, class, acked, left_behind)
            }
            Err(_) => self.patch_away(id, ticket, ops, seq),
        }
    }

    async fn send(
        &self,
        id: &SessionId,
        ops: &[Op],
        seq: OpSeq,
        class: WriteClass,
        until: Instant,
    ) -> Result<Acked<Patched>, StoreError> {
        let call = self.write_call(class, until);
        let not_after = self.not_after(call);
        let ceilings = self.plan.ceilings;
        let patched = self
            .store
            .patch(id, ops, Some(seq), ceilings, Some(not_after), call);
        patched.await
    }

    /// Tells what came of a patch, to the copy and to the caller.
    fn settle(
        &self,
        id: &SessionId,
        ops: &[Op],
        class: WriteClass,
        acked: Acked<Patched>,
        left_behind: Vec<(SessionId, String)>,
    ) -> Result<DeskPatched, DeskError> {
        let Acked { reply, replication } = acked;
        match &reply {
            Patched::Applied {
                now,
                before,
                version,
                counters,
            } => {
                self.clock.note(*now);
                self.l1.follow(id, ops, Some(*before), *version, counters);
                self.afterwards(id, ops, left_behind);
            }
            Patched::AlreadyApplied { version } => {
                self.l1.follow(id, ops, None, *version, &[]);
                self.afterwards(id, ops, left_behind);
            }
            Patched::Gone(_) => self.l1.forget(id),
            _ => {}
        }
        let told = self.told(DeskPatched::of(reply, Standing::Live, replication));
        self.check_replication(class, replication)?;
        Ok(told)
    }

    /// Fails when fewer replicas have a write of `class` than wanted, and the plan says that this
    /// is a failure.
    pub(super) fn check_replication(
        &self,
        class: WriteClass,
        replication: Replication,
    ) -> Result<(), DeskError> {
        let Replication::Short(replicas) = replication else {
            return Ok(());
        };
        self.counters.add(Count::ShortReplication);
        let wait = self.plan.durability(class).wait;
        match wait.map(|wait| wait.on_short) {
            Some(OnShort::Fail) => Err(DeskError::NotReplicated { replicas }),
            Some(OnShort::Degrade) | None => Ok(()),
        }
    }

    /// What goes on after a patch without the caller.
    fn afterwards(&self, id: &SessionId, ops: &[Op], left_behind: Vec<(SessionId, String)>) {
        let resumes = |op: &Op| self.plan.attributes.of(op.name()).resume.is_some();
        if ops.iter().any(resumes) {
            self.errands.send(Errand::Capsule { id: *id });
        }
        for (place, blob) in left_behind {
            self.errands.send(Errand::DropBlob { place, blob });
        }
    }

    /// The large values that nothing points to after `ops`, as far as the copy tells. Others die by
    /// their time.
    fn pointed_to(&self, id: &SessionId, ops: &[Op]) -> Vec<(SessionId, String)> {
        let Some(copy) = self.l1.any(id) else {
            return Vec::new();
        };
        let replaced = ops
            .iter()
            .filter_map(|op| copy.session.attribute(op.name()));
        let pointers = replaced.filter(|attribute| attribute.value.format == Format::Pointer);
        let targets = pointers.filter_map(|attribute| target(id, &attribute.value));
        // What lies elsewhere belongs to the session there.
        targets
            .filter(|(place, _)| place.tag() == id.tag())
            .collect()
    }

    /// A patch is as safe as its safest change.
    fn class_of(&self, ops: &[Op]) -> WriteClass {
        let is_work = |op: &Op| self.plan.attributes.of(op.name()).class == WriteClass::Work;
        if ops.iter().any(is_work) {
            WriteClass::Work
        } else {
            WriteClass::Disposable
        }
    }

    /// The bounds of a write of `class`. The wait for replicas comes on top of the time that an
    /// ordinary operation may take.
    pub(super) fn write_call(&self, class: WriteClass, until: Instant) -> Call {
        let durability = self.plan.durability(class);
        let mut call = self.call(until);
        call.redo = durability.redo;
        call.wait = durability.wait;
        if let Some(wait) = durability.wait {
            call.timeout += wait.within;
        }
        call
    }

    /// The store's time after which nobody waits for the reply to `call`.
    fn not_after(&self, call: Call) -> Wall {
        let micros = u64::try_from(call.timeout.as_micros()).unwrap_or(u64::MAX);
        // The clock was read off a reply that took a while to come: so much more.
        const GRACE_MICROS: u64 = 10_000;
        let now = self.clock.now().as_micros();
        Wall::from_micros(now.saturating_add(micros).saturating_add(GRACE_MICROS))
    }

    fn oversized(&self, value: Oversized) -> DeskPatched {
        DeskPatched::TooLarge {
            name: Some(value.name),
            size: value.bytes as u64,
            ceiling: self.plan.ceilings.value.max(self.plan.blob_bytes_max),
        }
    }

    /// Counts what came of a patch.
    fn told(&self, told: DeskPatched) -> DeskPatched {
        self.counters.add(match &told {
            DeskPatched::Applied { .. } => Count::Patched,
            DeskPatched::AlreadyApplied { .. } => Count::PatchRepeated,
            DeskPatched::Conflict { .. } => Count::PatchConflicts,
            DeskPatched::TooLarge { .. } => Count::PatchTooLarge,
            DeskPatched::Overflow { .. }
            | DeskPatched::WrongKind { .. }
            | DeskPatched::KeyReused
            | DeskPatched::TooOld
            | DeskPatched::Late
            | DeskPatched::Gone(_) => Count::PatchRefused,
        });
        told
    }
}

/// Names of attributes and counters as a list of fields.
pub(super) fn only(names: Vec<Name>) -> tidegate_core::session::Fields {
    tidegate_core::session::Fields::Only(names.into())
}
