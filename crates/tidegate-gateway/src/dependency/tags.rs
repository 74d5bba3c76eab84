//! What requests hold of dependencies that their routes are said to call, where an application cannot change: for the
//! whole of the request, as nobody knows when it makes its calls.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::facts::{Facts, GroupId, RouteId};
use tidegate_core::time::Mono;
use tidegate_http::refusal::Refusal;
use tokio::time::Instant;

use super::Token;
use super::enter::Unsent;
use super::fleet::{self, NoShare};
use crate::context::Thread;
use crate::gate::Gate;
use crate::slot::Slot;

/// Why a request is refused for the sake of a dependency, and about how long that lasts.
pub(crate) type Busy = (Refusal, Duration);

/// Whether one of `dependencies` is full: a look, so that nobody waits in line for what they will not get.
pub(crate) fn look(thread: &Thread, dependencies: &[usize]) -> Result<(), Busy> {
    for &at in dependencies {
        let app = thread.shared.dependencies[at].app;
        let door = thread.shared.apps[app].gate.snapshot();
        if door.in_flight >= door.limit {
            return Err((Refusal::DependencyFull, Duration::ZERO));
        }
    }
    Ok(())
}

/// A slot and a token of each of `dependencies`, or of none. Nobody waits for others to finish: a slot of the application
/// is held already. The store of those that are of the fleet is waited for, 8 ms at most over all of them.
///
/// The future may be dropped at any await: then all that was taken goes back.
pub(crate) async fn take(
    thread: &Arc<Thread>,
    dependencies: &[usize],
    now: Mono,
    facts: Facts,
) -> Result<Vec<Slot>, Busy> {
    // Most routes have none.
    if dependencies.is_empty() {
        return Ok(Vec::new());
    }
    let deadline = Instant::now() + fleet::WAIT_MAX;
    let mut taken: Vec<(Unsent<'_>, Token)> = Vec::with_capacity(dependencies.len());
    for &at in dependencies {
        match one(thread, at, now, facts, deadline).await {
            Ok(held) => taken.push(held),
            Err(busy) => {
                taken.into_iter().for_each(|(unsent, _)| unsent.give_back());
                return Err(busy);
            }
        }
    }
    let spend = |(unsent, mut token): (Unsent<'_>, Token)| {
        token.made(true);
        unsent.sent()
    };
    Ok(taken.into_iter().flat_map(spend).collect())
}

async fn one(
    thread: &Arc<Thread>,
    at: usize,
    now: Mono,
    facts: Facts,
    deadline: Instant,
) -> Result<(Unsent<'_>, Token), Busy> {
    let app = thread.shared.dependencies[at].app;
    let recorder = &thread.recorder;
    recorder.arrived(app, facts.class, true);
    let token = Token::take(thread, at, now).map_err(|wait_us| {
        recorder.refused(app, facts.class, Refusal::DependencyRate);
        (Refusal::DependencyRate, Duration::from_micros(wait_us))
    })?;
    let facts = Facts {
        route: RouteId(0),
        group: GroupId(0),
        bytes: 0,
        ..facts
    };
    let refuse = |refusal, wait| {
        recorder.refused(app, facts.class, refusal);
        Err((refusal, wait))
    };
    let slots = match Gate::enter_all(thread, app, now, facts, NonZeroU32::MIN) {
        Ok(slots) => slots,
        Err(turned) => return refuse(Refusal::DependencyFull, turned.drain),
    };
    recorder.admitted(app, facts.class, None);
    let mut unsent = Unsent::new(thread, app, facts.class, slots);
    if let Some(fleet) = thread.shared.fleet_of(at) {
        match fleet.enter(at, facts.class, 1, deadline).await {
            Ok(share) => unsent.first().hold_share(share),
            Err(no) => {
                unsent.give_back();
                return match no {
                    NoShare::Full => refuse(Refusal::DependencyFull, Duration::ZERO),
                    NoShare::Away(left) => refuse(Refusal::LimitStoreAway, left),
                };
            }
        }
    }
    Ok((unsent, token))
}
