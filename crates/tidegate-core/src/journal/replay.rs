//! The same events once more, and whether the same was decided.

use std::fmt;

use super::event::{Event, Outcome, Record, ShowAction};
use super::header::Header;
use crate::admission::{Action, Admission};
use crate::facts::GroupId;

/// An admission like the one that wrote a log.
pub struct Replay {
    admission: Admission,
    groups: usize,
    events: u64,
    out: Vec<Action>,
}

/// The first decision that did not come out as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which event, the first being 1.
    pub number: u64,
    /// What is written.
    pub expected: Record,
    /// What was decided now.
    pub got: Got,
}

/// What a replayed event came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// It could not happen: it speaks of a request that is not inside, or of a bulkhead that is not
    /// there.
    Impossible,
    /// This.
    Decided {
        /// What was returned.
        outcome: Outcome,
        /// What became of others.
        actions: Vec<Action>,
        /// The limit after it.
        limit: u32,
    },
}

impl Replay {
    /// A fresh admission as `header` says.
    pub fn new(header: &Header) -> Self {
        Self {
            admission: header.admission(),
            groups: header.config.bulkheads.groups.len() + 1,
            events: 0,
            out: Vec::new(),
        }
    }

    /// Lets `record` happen again.
    pub fn step(&mut self, record: &Record) -> Result<(), Box<Difference>> {
        self.events += 1;
        let got = if self.is_possible(&record.event) {
            self.out.clear();
            let admission = &mut self.admission;
            let outcome = record.event.apply(admission, record.now, &mut self.out);
            let limit = admission.limit();
            if outcome == record.outcome && self.out == record.actions && limit == record.limit {
                return Ok(());
            }
            Got::Decided {
                outcome,
                actions: std::mem::take(&mut self.out),
                limit,
            }
        } else {
            Got::Impossible
        };
        Err(Box::new(Difference {
            number: self.events,
            expected: record.clone(),
            got,
        }))
    }

    /// How many events have happened again.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// A log that was damaged in a way its checks miss may say what no caller ever would.
    fn is_possible(&self, event: &Event) -> bool {
        let known = |group: GroupId| usize::from(group.0) < self.groups;
        match *event {
            Event::Peek(facts) | Event::Arrive(facts) | Event::ArriveShadow(facts) => {
                known(facts.group)
            }
            Event::Done(ticket, _) => self.admission.is_inside(ticket),
            Event::FirstByte(_) | Event::Abandoned(_) | Event::Cancel(_) | Event::Poll => true,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            expected,
            got,
        } = self;
        writeln!(
            f,
            "event {number}, at byte {}: {}",
            expected.offset, expected.event
        )?;
        write!(f, "  expected: ")?;
        show(f, &expected.outcome, &expected.actions, expected.limit)?;
        write!(f, "\n  got:      ")?;
        match got {
            Got::Impossible => write!(f, "it cannot happen: no such request, or no such bulkhead"),
            Got::Decided {
                outcome,
                actions,
                limit,
            } => show(f, outcome, actions, *limit),
        }
    }
}

impl std::error::Error for Difference {}

fn show(
    f: &mut fmt::Formatter<'_>,
    outcome: &Outcome,
    actions: &[Action],
    limit: u32,
) -> fmt::Result {
    write!(f, "{outcome}")?;
    for action in actions {
        write!(f, "; {}", ShowAction(*action))?;
    }
    write!(f, "; limit={limit}")
}
