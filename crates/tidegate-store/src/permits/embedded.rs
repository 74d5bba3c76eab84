//! Permits in this process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_core::rate::Tick;
use tidegate_core::rate::permits::{Answer, Asking, Message, PermitId, Permits, Renewal, Terms};
use tidegate_core::session::Name;

use crate::error::StoreError;

/// Most things that a table keeps permits of.
pub const THINGS_MAX: usize = 1_024;

/// Permits of this process, in its memory. Fences come from the clock of the machine, so that they grow over a restart.
#[derive(Debug, Default)]
pub struct PermitTable(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// A reading that does not go back, whatever the machine's clock does.
    now_us: u64,
    things: HashMap<Name, Permits>,
}

impl PermitTable {
    /// Nobody holds anything.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn acquire(
        &self,
        thing: &Name,
        terms: &Terms,
        asking: &Asking,
    ) -> Result<Answer, StoreError> {
        self.with(thing, |permits, now| {
            permits.handle(now, terms, &Message::Acquire(*asking))
        })
    }

    pub(super) fn renew(
        &self,
        thing: &Name,
        terms: &Terms,
        renewals: &[Renewal],
    ) -> Result<Vec<Answer>, StoreError> {
        self.with(thing, |permits, now| {
            let one = |it: &Renewal| permits.handle(now, terms, &Message::Renew(*it));
            renewals.iter().map(one).collect()
        })
    }

    pub(super) fn release(
        &self,
        thing: &Name,
        terms: &Terms,
        ids: &[PermitId],
    ) -> Result<(), StoreError> {
        self.with(thing, |permits, now| {
            for id in ids {
                permits.handle(now, terms, &Message::Release(*id));
            }
        })
    }

    fn with<T>(
        &self,
        thing: &Name,
        does: impl FnOnce(&mut Permits, Tick) -> T,
    ) -> Result<T, StoreError> {
        // Whatever was done under it is whole: the core does not panic half-way.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall = since_epoch.unwrap_or_default().as_micros();
        state.now_us = state.now_us.max(u64::try_from(wall).unwrap_or(u64::MAX));
        let now = Tick(state.now_us);
        if !state.things.contains_key(thing) {
            if state.things.len() >= THINGS_MAX {
                let why = format!("permits of {THINGS_MAX} things are kept already");
                return Err(StoreError::Refused(why));
            }
            state.things.insert(thing.clone(), Permits::unused());
        }
        let permits = state.things.get_mut(thing);
        Ok(does(permits.expect("it was put there"), now))
    }
}
