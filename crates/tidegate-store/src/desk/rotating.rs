//! Another id as a habit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::session::{Rotated, Rotation, SessionId, WriteClass};

use super::Shared;
use super::counters::Count;
use super::errands::Errand;
use super::error::DeskError;
use super::opened::Visit;
use super::opening::fresh;
use super::route::Route;

impl Shared {
    pub(super) async fn rotate(
        &self,
        old: &SessionId,
        new: SessionId,
        successor: Vec<u8>,
        budget: Duration,
    ) -> Result<Visit, DeskError> {
        let until = Instant::now() + budget;
        match self.route(old) {
            Route::Live => {}
            // A habit can wait.
            Route::Away => return Err(DeskError::Away),
            Route::Denied => return Ok(Visit::Gone(self.gone_here(old))),
        }
        let rotation = Rotation::Habit {
            successor,
            tombstone: self.plan.tombstones.habit,
        };
        let call = self.write_call(WriteClass::SignIn, until);
        let rotated = self.store.rotate(old, &new, &rotation, call).await;
        let acked = self.heard(old, rotated)?;
        self.l1.forget(old);
        let (now, head) = match acked.reply {
            Rotated::Rotated { now, head } => (now, head),
            Rotated::Taken => return Err(DeskError::Taken),
            Rotated::Gone(gone) => return Ok(Visit::Gone(gone)),
        };
        self.clock.note(now);
        self.unknown.forget(&new);
        self.counters.add(Count::Rotated);
        self.errands.send(Errand::Rearm {
            from: *old,
            to: new,
            deadline: head.deadline,
        });
        if let Some(principal) = head.principal {
            let uid = principal.uid;
            self.errands.send(Errand::Index {
                id: new,
                uid: uid.clone(),
            });
            let ids = vec![*old];
            self.errands.send(Errand::Unindex { uid, ids });
        }
        self.check_replication(WriteClass::SignIn, acked.replication)?;
        match self.read(&new, until).await {
            Ok(session) => {
                let seen = fresh(&new, Arc::new(session), now);
                self.keep(&seen);
                Ok(Visit::Open(seen))
            }
            Err(_) => Err(DeskError::Away),
        }
    }
}
