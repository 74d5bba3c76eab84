//! Sessions that begin.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::session::{
    Attribute, Created, Fields, Found, Head, Name, Opened, SessionId, Value, Version, WriteClass,
};
use tidegate_core::time::Wall;

use super::Shared;
use super::counters::Count;
use super::errands::Errand;
use super::error::DeskError;
use super::large::NotOutside;
use super::opened::Seen;
use super::opening::fresh;
use super::route::Route;
use super::session::Session;
use crate::{NewSession, StoreError};

/// How a step towards a session ends without one.
pub(super) enum Failed {
    /// Told to the caller.
    Told(DeskError),
    /// The store does not answer.
    Store,
}

impl From<StoreError> for Failed {
    fn from(_: StoreError) -> Self {
        Self::Store
    }
}

impl Shared {
    pub(super) async fn create(
        &self,
        id: SessionId,
        mut attributes: Vec<(Name, Value)>,
        counters: Vec<(Name, i64)>,
        budget: Duration,
    ) -> Result<Seen, DeskError> {
        let until = Instant::now() + budget;
        let route = self.route(&id);
        if route == Route::Live {
            for (name, value) in &mut attributes {
                match self.point(&id, name, value, until).await {
                    Ok(()) => {}
                    Err(NotOutside::Oversized(value)) => {
                        return Err(DeskError::TooLarge {
                            name: Some(value.name),
                            size: value.bytes as u64,
                            ceiling: self.plan.blob_bytes_max,
                        });
                    }
                    Err(NotOutside::Forged) => {
                        let what = "a pointer is not an application's to set";
                        return Err(DeskError::Odd(what.to_owned()));
                    }
                    Err(NotOutside::Store(_)) => break,
                }
            }
        }
        self.check_ceilings(&attributes, &counters)?;
        let new = NewSession {
            id,
            lifetimes: self.plan.lives.anonymous,
            principal: None,
            attributes,
            counters,
        };
        if route == Route::Live && self.route(&id) == Route::Live {
            match self.begin(&new, WriteClass::Work, until).await {
                Ok(seen) => return Ok(seen),
                Err(Failed::Told(error)) => return Err(error),
                Err(Failed::Store) => {}
            }
        }
        self.away.create(self.clock.now(), new)
    }

    /// Whether a new session keeps the ceilings; the store does not check that.
    fn check_ceilings(
        &self,
        attributes: &[(Name, Value)],
        counters: &[(Name, i64)],
    ) -> Result<(), DeskError> {
        let ceilings = &self.plan.ceilings;
        let too_large = |name: Option<&Name>, size: u64, ceiling| {
            Err(DeskError::TooLarge {
                name: name.cloned(),
                size,
                ceiling,
            })
        };
        // As `Ceilings` counts them.
        let mut bytes = 0;
        for (name, value) in attributes {
            let size = value.bytes.len() as u64;
            if size > u64::from(ceilings.value) {
                return too_large(Some(name), size, ceilings.value);
            }
            bytes += size + name.as_str().len() as u64 + 16;
        }
        bytes += counters
            .iter()
            .map(|(name, _)| name.as_str().len() as u64 + 20)
            .sum::<u64>();
        let count = (attributes.len() + counters.len()) as u64;
        if bytes > u64::from(ceilings.session) {
            return too_large(None, bytes, ceilings.session);
        }
        if count > u64::from(ceilings.count) {
            return too_large(None, count, ceilings.count);
        }
        Ok(())
    }

    /// Creates a session in the store, in the expiry index, and in its user's index. The indexes
    /// come along rather than after: one that has a session too many does no harm.
    pub(super) async fn begin(
        &self,
        new: &NewSession,
        class: WriteClass,
        until: Instant,
    ) -> Result<Seen, Failed> {
        let id = &new.id;
        let call = self.call(until);
        let deadline = after(self.clock.now(), new.lifetimes.idle);
        let (created, armed, indexed) = tokio::join!(
            self.store.create(new, self.write_call(class, until)),
            self.store.arm(id, deadline, call),
            async {
                match &new.principal {
                    Some(principal) => self.index(&principal.uid, id, call).await,
                    None => Ok(()),
                }
            },
        );
        let acked = self.heard(id, created)?;
        let (now, head) = match acked.reply {
            Created::Created { now, head } => (now, head),
            Created::Taken => return Err(Failed::Told(DeskError::Taken)),
        };
        self.clock.note(now);
        if armed.is_err() {
            let deadline = head.deadline;
            self.errands.send(Errand::Arm { id: *id, deadline });
        }
        if let Some(principal) = new.principal.as_ref().filter(|_| indexed.is_err()) {
            let uid = principal.uid.clone();
            self.errands.send(Errand::Index { id: *id, uid });
        }
        self.counters.add(Count::Created);
        let seen = fresh(id, Arc::new(born(head, new)), now);
        self.keep(&seen);
        self.check_replication(class, acked.replication)
            .map_err(Failed::Told)?;
        Ok(seen)
    }

    /// Keeps a copy of a session that has just begun.
    pub(super) fn keep(&self, seen: &Seen) {
        self.unknown.forget(&seen.id);
        self.l1.offer(seen.id, seen.session.clone());
    }

    /// What is in a session of what may have come along or can be taken up.
    pub(super) async fn read(&self, id: &SessionId, until: Instant) -> Result<Session, Failed> {
        let call = self.call(until);
        let opened = self.store.open(id, Version::NONE, &Fields::All, None, call);
        match self.heard(id, opened.await)? {
            Opened::Found { head, found, .. } => Ok(Session {
                head,
                fields: Fields::All,
                found,
            }),
            // It began a moment ago.
            Opened::Unchanged { .. } | Opened::Gone(_) => Err(Failed::Store),
        }
    }
}

/// A session as it begins.
fn born(head: Head, new: &NewSession) -> Session {
    let version = head.version;
    let attributes = new.attributes.iter().map(|(name, value)| {
        let value = value.clone();
        (name.clone(), Attribute { version, value })
    });
    Session {
        found: Found {
            attributes: attributes.collect(),
            counters: new.counters.clone(),
        },
        fields: Fields::All,
        head,
    }
}

fn after(now: Wall, span: Duration) -> Wall {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    Wall::from_micros(now.as_micros().saturating_add(micros))
}
