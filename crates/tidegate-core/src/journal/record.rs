//! Events and decisions in bytes.

use super::event::{Event, Outcome};
use super::wire::{Cursor, Flaw, put_span, put_step, put_u32, put_u64};
use crate::admission::{Action, Arrival, Reason, Ticket, Verdict};
use crate::facts::{COHORTS, Class, Facts, GroupId, RouteId};
use crate::limit::Ending;
use crate::time::Mono;

/// The kind of an event, in the low bits of a record's first byte.
pub(super) const KIND: u8 = 0x0f;
/// A record's first byte says that the limit has changed.
pub(super) const LIMIT_CHANGED: u8 = 0x10;
/// It says that others were concerned.
pub(super) const HAS_ACTIONS: u8 = 0x20;
/// The kind of the record that ends a log.
pub(super) const END: u8 = 0;

/// Bits of the byte that holds a request's class and what is yes or no about it.
const CLASS: u8 = 0x07;
const RETRY: u8 = 0x08;
const NO_DEADLINE: u8 = 0x10;

pub(super) const fn kind_of(event: &Event) -> u8 {
    match event {
        Event::Peek(_) => 1,
        Event::Arrive(_) => 2,
        Event::ArriveShadow(_) => 3,
        Event::FirstByte(_) => 4,
        Event::Done(..) => 5,
        Event::Cancel(_) => 6,
        Event::Poll => 7,
        Event::Abandoned(_) => 8,
    }
}

pub(super) fn put_event(out: &mut Vec<u8>, now: Mono, event: &Event) {
    match *event {
        Event::Peek(facts) | Event::Arrive(facts) | Event::ArriveShadow(facts) => {
            put_facts(out, now, &facts);
        }
        Event::FirstByte(ticket) | Event::Abandoned(ticket) | Event::Cancel(ticket) => {
            put_ticket(out, ticket);
        }
        Event::Done(ticket, ending) => {
            put_ticket(out, ticket);
            out.push(match ending {
                Ending::Worked => 0,
                Ending::Ignored => 1,
                Ending::Overloaded => 2,
            });
        }
        Event::Poll => {}
    }
}

pub(super) fn event(cursor: &mut Cursor<'_>, now: Mono, kind: u8) -> Result<Event, Flaw> {
    Ok(match kind {
        1 => Event::Peek(facts(cursor, now)?),
        2 => Event::Arrive(facts(cursor, now)?),
        3 => Event::ArriveShadow(facts(cursor, now)?),
        4 => Event::FirstByte(ticket(cursor)?),
        5 => {
            let ticket = ticket(cursor)?;
            let ending = match cursor.byte()? {
                0 => Ending::Worked,
                1 => Ending::Ignored,
                2 => Ending::Overloaded,
                _ => return Err(Flaw::Damaged("an unknown ending")),
            };
            Event::Done(ticket, ending)
        }
        6 => Event::Cancel(ticket(cursor)?),
        7 => Event::Poll,
        8 => Event::Abandoned(ticket(cursor)?),
        _ => return Err(Flaw::Damaged("an unknown event")),
    })
}

fn put_facts(out: &mut Vec<u8>, now: Mono, facts: &Facts) {
    let Facts {
        class,
        route,
        group,
        deadline,
        bytes,
        cohort,
        retry,
    } = *facts;
    let no_deadline = deadline == Mono::MAX;
    let flags = [(retry, RETRY), (no_deadline, NO_DEADLINE)];
    let flags = flags.into_iter().filter(|(set, _)| *set);
    out.push(flags.fold(class.index() as u8, |byte, (_, flag)| byte | flag));
    put_u32(out, route.0.into());
    put_u32(out, group.0.into());
    if !no_deadline {
        put_step(out, now, deadline);
    }
    put_u32(out, bytes);
    out.push(cohort);
}

fn facts(cursor: &mut Cursor<'_>, now: Mono) -> Result<Facts, Flaw> {
    let flags = cursor.byte()?;
    if flags & !(CLASS | RETRY | NO_DEADLINE) != 0 {
        return Err(Flaw::Damaged("an unknown mark on a request"));
    }
    Ok(Facts {
        class: class(flags & CLASS)?,
        route: RouteId(cursor.u16()?),
        group: GroupId(cursor.u16()?),
        deadline: match flags & NO_DEADLINE {
            0 => cursor.step(now)?,
            _ => Mono::MAX,
        },
        bytes: cursor.u32()?,
        cohort: cursor.byte().and_then(|cohort| match cohort {
            cohort if cohort < COHORTS => Ok(cohort),
            _ => Err(Flaw::Damaged("an unknown cohort")),
        })?,
        retry: flags & RETRY != 0,
    })
}

fn class(index: u8) -> Result<Class, Flaw> {
    let class = Class::ALL.get(usize::from(index)).copied();
    class.ok_or(Flaw::Damaged("an unknown class"))
}

fn put_ticket(out: &mut Vec<u8>, ticket: Ticket) {
    let (index, generation) = ticket.parts();
    put_u32(out, index);
    put_u32(out, generation);
}

fn ticket(cursor: &mut Cursor<'_>) -> Result<Ticket, Flaw> {
    Ok(Ticket::from_parts(cursor.u32()?, cursor.u32()?))
}

fn reason(cursor: &mut Cursor<'_>) -> Result<Reason, Flaw> {
    let reason = Reason::ALL.get(usize::from(cursor.byte()?)).copied();
    reason.ok_or(Flaw::Damaged("an unknown reason"))
}

/// What [`Outcome::Nothing`] of an event that never returns anything takes is nothing.
pub(super) fn put_outcome(out: &mut Vec<u8>, now: Mono, event: &Event, outcome: &Outcome) {
    if returns_nothing(event) {
        debug_assert_eq!(*outcome, Outcome::Nothing, "{event:?} returns nothing");
        return;
    }
    match *outcome {
        Outcome::Nothing => out.push(0),
        Outcome::Peeked(None) => out.push(1),
        Outcome::Peeked(Some(reason)) => out.extend([2, reason as u8]),
        Outcome::Arrived(Arrival::Admitted(ticket)) => {
            out.push(3);
            put_ticket(out, ticket);
        }
        Outcome::Arrived(Arrival::Queued { ticket, leave_at }) => {
            out.push(4);
            put_ticket(out, ticket);
            put_step(out, now, leave_at);
        }
        Outcome::Arrived(Arrival::Refused(reason)) => out.extend([5, reason as u8]),
        Outcome::Shadowed(ticket, verdict) => {
            match verdict {
                Verdict::Admit => out.push(6),
                Verdict::Wait => out.push(7),
                Verdict::Refuse(reason) => out.extend([8, reason as u8]),
            }
            put_ticket(out, ticket);
        }
        Outcome::Left(None) => out.push(9),
        Outcome::Left(Some(waited)) => {
            out.push(10);
            put_span(out, waited);
        }
    }
}

pub(super) fn outcome(cursor: &mut Cursor<'_>, now: Mono, event: &Event) -> Result<Outcome, Flaw> {
    if returns_nothing(event) {
        return Ok(Outcome::Nothing);
    }
    Ok(match cursor.byte()? {
        0 => Outcome::Nothing,
        1 => Outcome::Peeked(None),
        2 => Outcome::Peeked(Some(reason(cursor)?)),
        3 => Outcome::Arrived(Arrival::Admitted(ticket(cursor)?)),
        4 => Outcome::Arrived(Arrival::Queued {
            ticket: ticket(cursor)?,
            leave_at: cursor.step(now)?,
        }),
        5 => Outcome::Arrived(Arrival::Refused(reason(cursor)?)),
        6 => Outcome::Shadowed(ticket(cursor)?, Verdict::Admit),
        7 => Outcome::Shadowed(ticket(cursor)?, Verdict::Wait),
        8 => {
            let reason = reason(cursor)?;
            Outcome::Shadowed(ticket(cursor)?, Verdict::Refuse(reason))
        }
        9 => Outcome::Left(None),
        10 => Outcome::Left(Some(cursor.span()?)),
        _ => return Err(Flaw::Damaged("an unknown result")),
    })
}

const fn returns_nothing(event: &Event) -> bool {
    match event {
        Event::FirstByte(_) | Event::Abandoned(_) | Event::Done(..) | Event::Poll => true,
        Event::Peek(_) | Event::Arrive(_) | Event::ArriveShadow(_) | Event::Cancel(_) => false,
    }
}

pub(super) fn put_actions(out: &mut Vec<u8>, actions: &[Action]) {
    put_u64(out, actions.len() as u64);
    for action in actions {
        match *action {
            Action::Start { ticket, waited } => {
                out.push(0);
                put_ticket(out, ticket);
                put_span(out, waited);
            }
            Action::Evict {
                ticket,
                reason,
                waited,
            } => {
                out.push(1 + reason as u8);
                put_ticket(out, ticket);
                put_span(out, waited);
            }
        }
    }
}

pub(super) fn actions(cursor: &mut Cursor<'_>) -> Result<Vec<Action>, Flaw> {
    let mut actions = Vec::new();
    // The count is not to be believed before as many have been read.
    for _ in 0..cursor.u64()? {
        let what = cursor.byte()?;
        let (ticket, waited) = (ticket(cursor)?, cursor.span()?);
        actions.push(match what.checked_sub(1) {
            None => Action::Start { ticket, waited },
            Some(reason) => Action::Evict {
                ticket,
                reason: *Reason::ALL
                    .get(usize::from(reason))
                    .ok_or(Flaw::Damaged("an unknown reason"))?,
                waited,
            },
        });
    }
    Ok(actions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_written_as_their_place_in_the_list_of_all() {
        for (place, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{reason:?}");
        }
    }
}
