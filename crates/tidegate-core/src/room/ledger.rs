//! All that there is of one room, as a store keeps it.

use super::calls::Extended;
use super::line::{Beat, Beaten, Census, Claim, Found, Line, Rules, Swept};
use super::order::Order;
use super::place::millis;
use super::{Epoch, Phase, Place, Tier};
use crate::time::Wall;

/// Most that are called, swept or settled at once.
pub const RELEASE_MAX: u64 = 1_000;

/// A room: which epoch it is in, whom it last obeyed, and its line.
///
/// Time is the store's. Whoever asks says which epoch they mean. A ledger that knows of none takes theirs: it has
/// forgotten, and whoever stands in the line brings their place along. Leaders are told apart by a fence, and one that is
/// not the latest changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    fence: u64,
    /// The last tick of that leader, and what it called.
    tick: u64,
    called: u64,
    /// What an operator has set. It outlives an epoch.
    phase: Option<Phase>,
    line: Option<Line>,
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The room is in another epoch.
    Epoch(Epoch),
    /// A later leader is known, by this fence.
    Deposed {
        /// Its fence.
        by: u64,
    },
    /// A later tick of this leader was done, or a later leader's.
    Stale,
    /// The line was forgotten, and may not be whole again yet.
    Settling {
        /// For so long, in milliseconds.
        left_ms: u64,
        /// How many are in it again.
        alive: u64,
    },
    /// Nobody is called in this phase.
    Phase(Phase),
}

/// What a leader has called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// How many, in this tick.
    pub count: u64,
    /// How many more would have been, but were silent and fell asleep.
    pub slept: u64,
}

/// A leader's order to call people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calling {
    /// Who goes before whom.
    pub order: Order,
    /// Which tick of the leader it is, from 1. The same one again calls nobody again.
    pub tick: u64,
    /// How many, [`RELEASE_MAX`] at most.
    pub count: u64,
    /// Milliseconds until they must have come.
    pub claim_ms: u64,
    /// Milliseconds after which somebody who is not heard of is not called.
    pub grace_ms: u64,
    /// Although the line was forgotten, so many in it are enough to go on.
    pub enough: u64,
}

impl Ledger {
    /// Which epoch the room is in. A ledger that knows of none goes on with the one that is `known`, or begins one.
    pub fn open(&mut self, now: Wall, rules: &Rules, known: Option<Epoch>) -> Epoch {
        let begin = || match known {
            Some(epoch) => Line::new(epoch, millis(now) + rules.settle_ms),
            None => Line::new(Epoch(millis(now)), 0),
        };
        self.line.get_or_insert_with(begin).epoch
    }

    /// An error if the room is in another epoch. One that knows of none is in any, and goes on knowing of none.
    pub fn is_in(&self, epoch: Epoch) -> Result<(), Denied> {
        match &self.line {
            Some(line) if line.epoch != epoch => Err(Denied::Epoch(line.epoch)),
            _ => Ok(()),
        }
    }

    /// Ends `epoch`, if the room is in it, and begins another; which one it is in then.
    pub fn turn(&mut self, now: Wall, rules: &Rules, epoch: Epoch) -> Result<Epoch, Denied> {
        self.at(now, rules, epoch)?;
        let next = Epoch(millis(now).max(epoch.0 + 1));
        self.line = Some(Line::new(next, 0));
        Ok(next)
    }

    /// What an operator has set the room to; `None` if nobody has, or if it was forgotten: then what is configured holds.
    pub const fn phase(&self) -> Option<Phase> {
        self.phase
    }

    /// Sets what the room does from now on, and says what it did. Whoever was called by then may still come.
    pub fn set_phase(
        &mut self,
        now: Wall,
        rules: &Rules,
        epoch: Epoch,
        phase: Option<Phase>,
    ) -> Result<Option<Phase>, Denied> {
        self.at(now, rules, epoch)?;
        Ok(std::mem::replace(&mut self.phase, phase))
    }

    /// Gives `count` places that follow each other; the first of them. They count once their owners are heard of.
    pub fn join(
        &mut self,
        now: Wall,
        rules: &Rules,
        epoch: Epoch,
        count: u64,
    ) -> Result<Place, Denied> {
        let line = self.at(now, rules, epoch)?;
        Ok(line.join(now, count))
    }

    /// These are heard of. Whoever joins later stands behind `floor`, the last of their arrivals.
    pub fn beat(
        &mut self,
        now: Wall,
        rules: &Rules,
        epoch: Epoch,
        floor: Place,
        beats: &[Beat],
    ) -> Result<Vec<Beaten>, Denied> {
        let line = self.at(now, rules, epoch)?;
        line.not_before(floor);
        let heard = beats.iter().map(|beat| line.beat(now, rules, beat));
        Ok(heard.collect())
    }

    /// Moves somebody who waits to a tier further ahead; whether that is a change.
    pub fn promote(
        &mut self,
        now: Wall,
        rules: &Rules,
        epoch: Epoch,
        place: Place,
        tier: Tier,
    ) -> Result<bool, Denied> {
        Ok(self.at(now, rules, epoch)?.promote(place, tier))
    }

    /// Takes somebody out who says that they do not want to wait: at once they are nobody that others wait behind, and a
    /// call to them has come back. Whether they were there. They keep their place like everybody who is not heard of.
    pub fn leave(
        &mut self,
        now: Wall,
        rules: &Rules,
        epoch: Epoch,
        place: Place,
    ) -> Result<bool, Denied> {
        Ok(self.at(now, rules, epoch)?.leave(rules, place))
    }

    /// Lets in somebody who was called, once.
    pub fn claim(
        &mut self,
        now: Wall,
        rules: &Rules,
        epoch: Epoch,
        place: Place,
    ) -> Result<Claim, Denied> {
        Ok(self.at(now, rules, epoch)?.claim(now, rules, place))
    }

    /// Gives somebody who was called `claim_ms` from now on, `most` times at most for one call,
    /// [`EXTENSIONS_MAX`](super::EXTENSIONS_MAX) at most; `None` when it is not their turn, or they have had that.
    pub fn extend(
        &mut self,
        now: Wall,
        rules: &Rules,
        epoch: Epoch,
        place: Place,
        claim_ms: u64,
        most: u8,
    ) -> Result<Option<Extended>, Denied> {
        let line = self.at(now, rules, epoch)?;
        Ok(line.extend(now, place, claim_ms, most))
    }

    /// Where somebody is who has a ticket of `tier`.
    pub fn find(
        &mut self,
        now: Wall,
        rules: &Rules,
        epoch: Epoch,
        order: &Order,
        (tier, place): (Tier, Place),
    ) -> Result<Found, Denied> {
        Ok(self.at(now, rules, epoch)?.find(order, tier, place))
    }

    /// How the line is, and how many stand before `aged`.
    pub fn census(
        &mut self,
        now: Wall,
        rules: &Rules,
        epoch: Epoch,
        aged: Place,
    ) -> Result<Census, Denied> {
        Ok(self.at(now, rules, epoch)?.census(now, aged))
    }

    /// Takes those out of the line who were not heard of for `grace_ms`, `most` at a time.
    pub fn sweep(
        &mut self,
        now: Wall,
        rules: &Rules,
        (epoch, fence): (Epoch, u64),
        grace_ms: u64,
        aged: Place,
        most: u64,
    ) -> Result<Swept, Denied> {
        let line = self.led(now, rules, epoch, fence)?;
        let silent = millis(now).saturating_sub(grace_ms);
        Ok(line.sweep(silent, aged, most.min(RELEASE_MAX) as usize))
    }

    /// Calls the next ones.
    pub fn release(
        &mut self,
        now: Wall,
        rules: &Rules,
        (epoch, fence): (Epoch, u64),
        calling: &Calling,
    ) -> Result<Released, Denied> {
        self.led(now, rules, epoch, fence)?;
        if calling.tick < self.tick {
            return Err(Denied::Stale);
        }
        if calling.tick == self.tick {
            return Ok(Released {
                count: self.called,
                slept: 0,
            });
        }
        if let Some(phase) = self.phase.filter(|phase| !phase.releases()) {
            return Err(Denied::Phase(phase));
        }
        let line = self.at(now, rules, epoch)?;
        let (left_ms, alive) = (line.settles(now), line.alive());
        if left_ms > 0 && alive < calling.enough {
            return Err(Denied::Settling { left_ms, alive });
        }
        let silent = millis(now).saturating_sub(calling.grace_ms);
        let until_ms = millis(now) + calling.claim_ms;
        let count = calling.count.min(RELEASE_MAX);
        let called = line.release(&calling.order, count, silent, until_ms);
        (self.tick, self.called) = (calling.tick, called.released);
        Ok(Released {
            count: called.released,
            slept: called.slept,
        })
    }

    /// Takes back calls that nobody came for, `most` at a time; how many.
    pub fn settle(
        &mut self,
        now: Wall,
        rules: &Rules,
        (epoch, fence): (Epoch, u64),
        most: u64,
    ) -> Result<u64, Denied> {
        let line = self.led(now, rules, epoch, fence)?;
        Ok(line.settle(now, rules, most.min(RELEASE_MAX) as usize))
    }

    /// Takes the word of the leader with this fence, unless a later one is known. From now on no earlier one is obeyed.
    pub fn obey(&mut self, fence: u64) -> Result<(), Denied> {
        if fence < self.fence {
            return Err(Denied::Deposed { by: self.fence });
        }
        if fence > self.fence {
            (self.fence, self.tick, self.called) = (fence, 0, 0);
        }
        Ok(())
    }

    fn at(&mut self, now: Wall, rules: &Rules, epoch: Epoch) -> Result<&mut Line, Denied> {
        let settles_ms = millis(now) + rules.settle_ms;
        let forgot = || Line::new(epoch, settles_ms);
        let line = self.line.get_or_insert_with(forgot);
        if line.epoch != epoch {
            return Err(Denied::Epoch(line.epoch));
        }
        Ok(line)
    }

    fn led(
        &mut self,
        now: Wall,
        rules: &Rules,
        epoch: Epoch,
        fence: u64,
    ) -> Result<&mut Line, Denied> {
        self.at(now, rules, epoch)?;
        self.obey(fence)?;
        self.at(now, rules, epoch)
    }
}

#[cfg(test)]
mod tests;
