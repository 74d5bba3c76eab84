//! Permits for calls that do not pass through us: held until they are given back, or until their lease has passed without
//! a word.
//!
//! A permit holds slots of the dependency's door, as a call does. All that touches one happens on one thread
//! of the gateway, as slots count there what becomes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use tidegate_core::facts::{Class, Facts, GroupId, RouteId};
use tidegate_core::time::Mono;
use tidegate_http::refusal::Refusal;
use tokio::sync::{Notify, oneshot};

use super::enter::{Entered, NoEntry, enter};
use crate::context::{Shared, Thread};
use crate::slot::Slot;
use crate::upstream::UpstreamFailure;

/// Gives permits of a running gateway, from anywhere in the process.
#[derive(Clone)]
pub struct Permits(Arc<Thread>);

/// A permit that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The name of the dependency.
    pub dependency: String,
    /// How many calls it stands for. More than one do not wait for each other.
    pub weight: NonZeroU32,
    /// How much they matter.
    pub class: Class,
    /// How long whoever wants it will wait, for the permit and what it is for; `None` for as long as that may take.
    pub patience: Option<Duration>,
    /// For how long it is to be held at most; `None` for as long as one may be.
    pub hold: Option<Duration>,
}

/// A permit that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Its name.
    pub id: String,
    /// Greater with each permit that is given for the dependency: whoever is called can tell the later holder by it.
    pub fence: u64,
    /// It goes back when it is not renewed within this time.
    pub lease: Duration,
    /// It may be held for this long, however often it is renewed.
    pub hold: Duration,
}

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPermit {
    /// There is no such dependency.
    NoDependency,
    /// Calls of the class never have so many slots at once.
    TooHeavy {
        /// But so many, 1 or more.
        most: u32,
    },
    /// Not now.
    Refused {
        /// Why.
        refusal: Refusal,
        /// When to try again, in seconds.
        retry_after_s: u64,
    },
    /// The gateway ends.
    Draining,
}

/// What became of what a permit was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Used {
    /// It was answered.
    Answered,
    /// It failed.
    Failed,
    /// It had no answer in time.
    TimedOut,
    /// Nobody says.
    Unknown,
}

/// The permits of one gateway.
#[derive(Default)]
pub(crate) struct Held {
    table: Mutex<Table>,
    /// Told when something is due earlier than before.
    changed: Notify,
    /// By dependency, permits that went back because their lease had passed.
    lapsed: Vec<AtomicU64>,
    /// Tells the permits of this process from those of an earlier one.
    life: u64,
}

#[derive(Default)]
struct Table {
    number: u64,
    fence: u64,
    held: BTreeMap<u64, Holding>,
    dues: BTreeSet<(Mono, u64)>,
}

struct Holding {
    dependency: usize,
    /// The first of them speaks for all.
    slots: Vec<Slot>,
    lease: Duration,
    until: Mono,
    ends: Mono,
}

impl Permits {
    /// The permits of the gateway that `thread` belongs to.
    pub(crate) const fn new(thread: Arc<Thread>) -> Self {
        Self(thread)
    }

    /// A permit, perhaps after a short wait. Whoever does not wait for the answer any more holds none.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub async fn acquire(&self, wanted: Wanted) -> Result<Permit, NoPermit> {
        let (mut answer, answered) = oneshot::channel();
        let thread = Arc::clone(&self.0);
        self.0.runtime.spawn(async move {
            let got = tokio::select! {
                got = acquire(&thread, &wanted) => got,
                () = answer.closed() => return,
            };
            if let Err(Ok(permit)) = answer.send(got) {
                let held = &thread.shared.permits;
                held.release(thread.shared.clock.now(), &permit.id, Used::Unknown);
            }
        });
        answered.await.unwrap_or(Err(NoPermit::Draining))
    }

    /// Keeps a permit for another lease, and says how long that is; `None` if it is not held.
    pub fn renew(&self, id: &str) -> Option<Duration> {
        let shared = &self.0.shared;
        shared.permits.renew(shared.clock.now(), id)
    }

    /// Gives a permit back, and says whether it was held.
    pub async fn release(&self, id: &str, used: Used) -> bool {
        let (thread, id) = (Arc::clone(&self.0), id.to_owned());
        let released = self.0.runtime.spawn(async move {
            let shared = &thread.shared;
            shared.permits.release(shared.clock.now(), &id, used)
        });
        released.await.unwrap_or(false)
    }
}

async fn acquire(thread: &Arc<Thread>, wanted: &Wanted) -> Result<Permit, NoPermit> {
    let shared = &thread.shared;
    let Some(at) = shared.dependency(&wanted.dependency) else {
        return Err(NoPermit::NoDependency);
    };
    let plan = &shared.dependencies[at].plan;
    let most = plan.weight_max(wanted.class);
    if wanted.weight.get() > most {
        return Err(NoPermit::TooHeavy { most });
    }
    let now = shared.clock.now();
    let usual = plan.wait_max + plan.app.upstream.response_timeout;
    let facts = Facts {
        class: wanted.class,
        route: RouteId(0),
        group: GroupId(0),
        deadline: now + wanted.patience.unwrap_or(usual),
        bytes: 0,
        cohort: 0,
        retry: false,
    };
    thread
        .recorder
        .arrived(shared.dependencies[at].app, facts.class, true);
    let entered = enter(thread, at, now, facts, wanted.weight).await;
    let Entered { slots, mut token } = entered.map_err(|no| {
        let NoEntry {
            refusal,
            retry_after_s,
        } = no;
        NoPermit::Refused {
            refusal,
            retry_after_s,
        }
    })?;
    token.made(true);
    let hold_max = plan.permits.hold_max;
    let hold = wanted.hold.map_or(hold_max, |hold| hold.min(hold_max));
    let held = &shared.permits;
    Ok(held.keep(shared, at, slots, plan.permits.lease.min(hold), hold))
}

/// Takes permits back whose lease has passed, for ever.
pub(crate) async fn take_back(thread: Arc<Thread>) {
    let shared = &thread.shared;
    loop {
        let changed = shared.permits.changed.notified();
        match shared.permits.take_back(shared.clock.now()) {
            None => changed.await,
            Some(at) => {
                // One grain of the timer later, so that it is past and not at the bound.
                let at = shared.clock.instant(at + Duration::from_millis(1));
                tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(at) => {}
                }
            }
        }
    }
}

impl Held {
    /// Nothing is held of any of so many `dependencies`; `life` is another one in each process.
    pub(crate) fn new(dependencies: usize, life: u64) -> Self {
        Self {
            lapsed: (0..dependencies).map(|_| AtomicU64::new(0)).collect(),
            life,
            ..Self::default()
        }
    }

    /// How many permits are held of the dependency at this place.
    pub(crate) fn count(&self, dependency: usize) -> usize {
        let table = self.lock();
        let held = table.held.values();
        held.filter(|holding| holding.dependency == dependency)
            .count()
    }

    /// How many permits of it went back because their lease had passed.
    pub(crate) fn lapsed(&self, dependency: usize) -> u64 {
        self.lapsed[dependency].load(Ordering::Relaxed)
    }

    fn keep(
        &self,
        shared: &Shared,
        dependency: usize,
        slots: Vec<Slot>,
        lease: Duration,
        hold: Duration,
    ) -> Permit {
        let now = shared.clock.now();
        let of_fleet = slots.first().and_then(Slot::fence);
        let holding = Holding {
            dependency,
            slots,
            lease,
            until: now + lease,
            ends: now + hold,
        };
        let mut table = self.lock();
        table.number += 1;
        let number = table.number;
        table.fence = (table.fence + 1).max(shared.clock.wall().as_micros());
        // Over all gateways it is the store that counts.
        let fence = of_fleet.unwrap_or(table.fence);
        table.dues.insert((holding.until, number));
        table.held.insert(number, holding);
        drop(table);
        self.changed.notify_one();
        Permit {
            id: self.id(number),
            fence,
            lease,
            hold,
        }
    }

    fn renew(&self, now: Mono, id: &str) -> Option<Duration> {
        let number = self.number(id)?;
        let mut table = self.lock();
        let Table { held, dues, .. } = &mut *table;
        let holding = held.get_mut(&number).filter(|held| now < held.until)?;
        dues.remove(&(holding.until, number));
        if holding.slots.first().is_some_and(Slot::has_lost_share) {
            // Somebody else may have it. It ends where all others do.
            holding.until = now;
            dues.insert((now, number));
            self.changed.notify_one();
            return None;
        }
        holding.until = (now + holding.lease).min(holding.ends).max(holding.until);
        dues.insert((holding.until, number));
        Some(holding.until.since(now))
    }

    fn release(&self, now: Mono, id: &str, used: Used) -> bool {
        let Some(number) = self.number(id) else {
            return false;
        };
        let holding = {
            let mut table = self.lock();
            let holding = table.held.remove(&number);
            if let Some(holding) = &holding {
                table.dues.remove(&(holding.until, number));
            }
            holding
        };
        // Not under the lock: the slots may be somebody else's next.
        let Some(holding) = holding else { return false };
        holding.end(now, used);
        true
    }

    /// Takes back what is over, and says when the next is.
    fn take_back(&self, now: Mono) -> Option<Mono> {
        loop {
            let holding = {
                let mut table = self.lock();
                match table.dues.first().copied() {
                    Some((due, number)) if due <= now => {
                        table.dues.pop_first();
                        table.held.remove(&number)
                    }
                    next => return next.map(|(due, _)| due),
                }
            };
            if let Some(holding) = holding {
                self.lapsed[holding.dependency].fetch_add(1, Ordering::Relaxed);
                holding.end(now, Used::Unknown);
            }
        }
    }

    /// What the permit of this number is called.
    fn id(&self, number: u64) -> String {
        format!("{:016x}-{number}", self.life)
    }

    /// The number in an id of this life, written as we write it and not otherwise.
    fn number(&self, id: &str) -> Option<u64> {
        let (_, number) = id.split_once('-')?;
        number.parse().ok().filter(|&number| self.id(number) == id)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holding {
    fn end(self, now: Mono, used: Used) {
        let mut slots = self.slots.into_iter();
        if let Some(mut first) = slots.next() {
            match used {
                Used::Answered => {
                    first.first_byte(now, StatusCode::OK);
                    first.answered(now);
                }
                Used::Failed => first.failed(UpstreamFailure::Reset),
                Used::TimedOut => first.failed(UpstreamFailure::Timeout),
                Used::Unknown => first.caller_gone(),
            }
        }
        // It has spoken for the others.
        slots.for_each(Slot::give_back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_has_one_name() {
        let held = Held::new(1, 0xabc);
        let id = held.id(4);

        assert_eq!(held.number(&id), Some(4));
        for other in [
            id.replace("-4", "-04"),
            id.replace("-4", "-+4"),
            id.replace("-4", "- 4"),
            id.to_uppercase(),
            "abc-4".to_owned(),
            id.replace('c', "d"),
        ] {
            assert_eq!(held.number(&other), None, "{other}");
        }
    }
}
