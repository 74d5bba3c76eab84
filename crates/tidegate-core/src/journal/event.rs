//! What can happen to an admission, and what came of it.

use std::fmt;
use std::time::Duration;

use crate::admission::{Action, Admission, Arrival, Reason, Ticket, Verdict};
use crate::facts::Facts;
use crate::limit::Ending;
use crate::time::Mono;

/// One call of an [`Admission`]: everything in it but the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// [`Admission::peek`].
    Peek(Facts),
    /// [`Admission::arrive`].
    Arrive(Facts),
    /// [`Admission::arrive_shadow`].
    ArriveShadow(Facts),
    /// [`Admission::first_byte`].
    FirstByte(Ticket),
    /// [`Admission::abandoned`].
    Abandoned(Ticket),
    /// [`Admission::done`].
    Done(Ticket, Ending),
    /// [`Admission::cancel`].
    Cancel(Ticket),
    /// [`Admission::poll`].
    Poll,
}

/// What such a call returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returns nothing.
    Nothing,
    /// Why a request like this would be refused; `None` when it may have a chance.
    Peeked(Option<Reason>),
    /// What became of an arrival.
    Arrived(Arrival),
    /// The slot of a request that shadow mode let in, and what would have been done with it.
    Shadowed(Ticket, Verdict),
    /// How long a request had waited whose client left; `None` when it was not in the queue.
    Left(Option<Duration>),
}

/// One event with everything that was decided on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it begins in the log, in bytes.
    pub offset: u64,
    /// The caller's reading, which may be a little older than that of the event before.
    pub now: Mono,
    /// What happened.
    pub event: Event,
    /// What was returned.
    pub outcome: Outcome,
    /// What became of others.
    pub actions: Vec<Action>,
    /// The limit after it.
    pub limit: u32,
}

impl Event {
    /// Makes the call.
    pub fn apply(&self, admission: &mut Admission, now: Mono, out: &mut Vec<Action>) -> Outcome {
        match *self {
            Self::Peek(facts) => Outcome::Peeked(admission.peek(now, &facts)),
            Self::Arrive(facts) => Outcome::Arrived(admission.arrive(now, &facts, out)),
            Self::ArriveShadow(facts) => {
                let (ticket, verdict) = admission.arrive_shadow(now, &facts);
                Outcome::Shadowed(ticket, verdict)
            }
            Self::FirstByte(ticket) => {
                admission.first_byte(now, ticket);
                Outcome::Nothing
            }
            Self::Abandoned(ticket) => {
                admission.abandoned(now, ticket);
                Outcome::Nothing
            }
            Self::Done(ticket, ending) => {
                admission.done(now, ticket, ending, out);
                Outcome::Nothing
            }
            Self::Cancel(ticket) => Outcome::Left(admission.cancel(now, ticket, out)),
            Self::Poll => {
                admission.poll(now, out);
                Outcome::Nothing
            }
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peek(facts) => show_facts(f, "peek", facts),
            Self::Arrive(facts) => show_facts(f, "arrive", facts),
            Self::ArriveShadow(facts) => show_facts(f, "arrive_shadow", facts),
            Self::FirstByte(ticket) => write!(f, "first_byte {ticket}"),
            Self::Abandoned(ticket) => write!(f, "abandoned {ticket}"),
            Self::Done(ticket, Ending::Worked) => write!(f, "done {ticket} worked"),
            Self::Done(ticket, Ending::Ignored) => write!(f, "done {ticket} ignored"),
            Self::Done(ticket, Ending::Overloaded) => write!(f, "done {ticket} overloaded"),
            Self::Cancel(ticket) => write!(f, "cancel {ticket}"),
            Self::Poll => write!(f, "poll"),
        }
    }
}

fn show_facts(f: &mut fmt::Formatter<'_>, call: &str, facts: &Facts) -> fmt::Result {
    let Facts {
        class,
        route,
        group,
        deadline,
        bytes,
        cohort,
        retry,
    } = *facts;
    write!(
        f,
        "{call} class={} route={} group={}",
        class.name(),
        route.0,
        group.0
    )?;
    if deadline == Mono::MAX {
        write!(f, " deadline=none")?;
    } else {
        write!(f, " deadline={}", Seconds(deadline))?;
    }
    write!(f, " bytes={bytes} cohort={cohort}")?;
    if retry { write!(f, " retry") } else { Ok(()) }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "nothing"),
            Self::Peeked(None) => write!(f, "may have a chance"),
            Self::Peeked(Some(reason)) | Self::Arrived(Arrival::Refused(reason)) => {
                write!(f, "refused {}", reason.name())
            }
            Self::Arrived(Arrival::Admitted(ticket)) => write!(f, "admitted {ticket}"),
            Self::Arrived(Arrival::Queued { ticket, leave_at }) => {
                write!(f, "queued {ticket} until={}", Seconds(*leave_at))
            }
            Self::Shadowed(ticket, Verdict::Admit) => write!(f, "let in {ticket}: admit"),
            Self::Shadowed(ticket, Verdict::Wait) => write!(f, "let in {ticket}: wait"),
            Self::Shadowed(ticket, Verdict::Refuse(reason)) => {
                write!(f, "let in {ticket}: refuse {}", reason.name())
            }
            Self::Left(None) => write!(f, "was not waiting"),
            Self::Left(Some(waited)) => write!(f, "left waited={waited:?}"),
        }
    }
}

/// An action as a word or two, for people.
pub(super) struct ShowAction(pub(super) Action);

impl fmt::Display for ShowAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Action::Start { ticket, waited } => write!(f, "start {ticket} waited={waited:?}"),
            Action::Evict {
                ticket,
                reason,
                waited,
            } => write!(f, "evict {ticket} {} waited={waited:?}", reason.name()),
        }
    }
}

/// One line: the time in seconds, the call, what it returned, what became of others, the limit.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Seconds(self.now), self.event)?;
        if self.outcome != Outcome::Nothing {
            write!(f, " -> {}", self.outcome)?;
        }
        for action in &self.actions {
            write!(f, "; {}", ShowAction(*action))?;
        }
        write!(f, "; limit={}", self.limit)
    }
}

/// A reading in seconds, to the nanosecond.
struct Seconds(Mono);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        write!(f, "{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}
