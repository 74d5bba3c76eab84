//! What requests hold of dependencies that their routes are said to call, where an application cannot change: for the
//! whole of the request, as nobody knows when it makes its calls.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::facts::{Facts, GroupId, RouteId};
use tidegate_core::time::Mono;
use tidegate_http::refusal::Refusal;

use super::Token;
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

/// A slot and a token of each of `dependencies`, or of none. Nobody waits for them: a slot of the application is held
/// already.
pub(crate) fn take(
    thread: &Arc<Thread>,
    dependencies: &[usize],
    now: Mono,
    facts: Facts,
) -> Result<Vec<Slot>, Busy> {
    let mut taken = Vec::with_capacity(dependencies.len());
    for &at in dependencies {
        match one(thread, at, now, facts) {
            Ok(held) => taken.push(held),
            Err(busy) => {
                for (slot, _) in taken {
                    slot.give_back();
                }
                return Err(busy);
            }
        }
    }
    let spend = |(slot, mut token): (Slot, Token)| {
        token.made(true);
        slot
    };
    Ok(taken.into_iter().map(spend).collect())
}

fn one(thread: &Arc<Thread>, at: usize, now: Mono, facts: Facts) -> Result<(Slot, Token), Busy> {
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
    match Gate::enter_all(thread, app, now, facts, NonZeroU32::MIN) {
        Ok(slots) => {
            recorder.admitted(app, facts.class, None);
            let slot = slots.into_iter().next();
            Ok((slot.expect("as many as were asked for"), token))
        }
        Err(turned) => {
            recorder.refused(app, facts.class, Refusal::DependencyFull);
            Err((Refusal::DependencyFull, turned.drain))
        }
    }
}
