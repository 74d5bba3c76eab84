//! What a gateway sees of a room in its store: which epoch it is, who waits, and what an operator has set.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::room::{self, Denied, Epoch, Phase, Positions};
use tidegate_core::time::{Mono, Wall};
use tidegate_store::rooms::{Looked, RoomError};

use super::CALL;
use super::state::{Kept, about};
use crate::room::hall::{Hall, RoomPlan};

/// What was seen, and what is remembered from before the store forgot it.
pub(super) struct Sight {
    seen: Option<Seen>,
    /// Who waited before the line was lost.
    whole: Option<Arc<Positions>>,
    /// What an operator has set, as far as is known.
    ordered: Option<Phase>,
    /// How many waited before the line was lost.
    alive: Option<u64>,
    /// Until when, in milliseconds since 1970, a line would settle of which enough are back. From then on it moves, though those
    /// who are called leave fewer behind.
    back: Option<u64>,
    /// Of which epoch that is.
    epoch: Option<Epoch>,
    /// While a line is put together again: what an operator had set was seen since, so that what is there now holds.
    is_set_again: bool,
}

/// What was seen.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) at: Mono,
    pub(super) epoch: Epoch,
    pub(super) looked: Looked,
    pub(super) positions: Arc<Positions>,
}

impl Sight {
    /// Nothing was seen yet; an earlier process has `kept` this.
    pub(super) fn new(kept: Option<&Kept>) -> Self {
        Self {
            seen: None,
            whole: None,
            back: None,
            ordered: kept.and_then(|kept| kept.phase),
            alive: kept.and_then(|kept| kept.alive),
            epoch: kept.map(|kept| kept.epoch),
            is_set_again: false,
        }
    }

    /// Looks; whether the store has answered. It says which epoch it is where that is not known for sure.
    pub(super) async fn look(&mut self, hall: &Hall, now: Mono, grace: Duration) -> bool {
        let (clerk, room) = (&hall.clerk, hall.clerk.room());
        // In another epoch than was thought it is looked again.
        for _ in 0..2 {
            let epoch = match clerk.epoch() {
                (Some(epoch), true) => epoch,
                (known, _) => match clerk.ask(room.open(known, CALL)).await {
                    Ok(epoch) => {
                        clerk.learn(epoch);
                        epoch
                    }
                    Err(_) => break,
                },
            };
            let aged = room::aged(epoch.place(clerk.there(now)), grace);
            match clerk.ask(room.look(epoch, aged, CALL)).await {
                Ok(looked) => {
                    clerk.answered_at(now);
                    clerk.set_clock(now, looked.now);
                    self.take(hall.plan.order, now, epoch, looked);
                    return true;
                }
                Err(RoomError::Denied(Denied::Epoch(other))) => clerk.learn(other),
                Err(_) => break,
            }
        }
        hall.counts.unanswered.add(1);
        false
    }

    /// What was seen last.
    pub(super) const fn seen(&self) -> Option<&Seen> {
        self.seen.as_ref()
    }

    /// What the room does at `there` by the store's clock, and whether an operator has said so.
    pub(super) fn phase(&self, plan: &RoomPlan, there: Wall) -> (Phase, bool) {
        match self.ordered {
            Some(phase) => (phase, true),
            None => (configured(plan, there.as_micros() / 1_000), false),
        }
    }

    /// For how long yet, in milliseconds, a line that was lost is put together again; `None` where it was not lost, or enough are
    /// back.
    pub(super) fn restores_ms(&self) -> Option<u64> {
        let census = &self.seen.as_ref()?.looked.census;
        let waiting: u64 = census.waiting.iter().sum();
        (census.settles_ms > 0 && waiting < self.enough()).then_some(census.settles_ms)
    }

    /// Who waits, and where. While a line is put together again it is as it was: who is not back yet still has their place.
    pub(super) fn positions(&self) -> Option<Arc<Positions>> {
        let seen = &self.seen.as_ref()?.positions;
        let whole = self
            .whole
            .as_ref()
            .filter(|whole| self.restores_ms().is_some() && whole.waiting() > seen.waiting());
        Some(Arc::clone(whole.unwrap_or(seen)))
    }

    /// So many have to be back before anybody is called.
    pub(super) fn enough(&self) -> u64 {
        let settles = self.seen.as_ref().and_then(|seen| settles(&seen.looked));
        match settles.is_some() && settles == self.back {
            true => 0,
            false => room::enough(self.alive),
        }
    }

    /// What an operator had set, and the store has forgotten.
    pub(super) fn forgotten(&self) -> Option<Phase> {
        let looked = &self.seen.as_ref()?.looked;
        let is_lost = looked.census.settles_ms > 0 && looked.phase.is_none();
        self.ordered.filter(|_| is_lost && !self.is_set_again)
    }

    /// What is to be remembered over a restart, with these notes; `None` before anything was seen.
    pub(super) fn kept(&self, notes: &BTreeMap<String, Vec<u8>>) -> Option<Kept> {
        // All of ours are texts.
        let text = |note: &Vec<u8>| String::from_utf8(note.clone()).ok();
        let notes = notes
            .iter()
            .filter_map(|(name, note)| Some((name.clone(), text(note)?)));
        Some(Kept {
            epoch: self.seen.as_ref()?.epoch,
            phase: self.ordered,
            alive: self.alive.map(about),
            notes: notes.collect(),
        })
    }

    /// Whether the store had forgotten the room of late.
    pub(super) fn is_lost(&self) -> bool {
        let seen = self.seen.as_ref();
        seen.is_some_and(|seen| seen.looked.census.settles_ms > 0)
    }

    fn take(&mut self, order: room::Order, at: Mono, epoch: Epoch, looked: Looked) {
        let census = &looked.census;
        if self.epoch.replace(epoch) != Some(epoch) {
            // An order outlives an epoch, and is where it was.
            (self.ordered, self.alive, self.is_set_again) = (looked.phase, None, false);
            self.whole = None;
        }
        let positions = Arc::new(Positions::of(order, census));
        if census.settles_ms == 0 {
            self.ordered = looked.phase;
            self.alive = Some(census.waiting.iter().sum());
            self.is_set_again = false;
            self.whole = Some(Arc::clone(&positions));
        } else if looked.phase.is_some() || self.is_set_again {
            self.ordered = looked.phase;
            self.is_set_again = true;
        }
        let until = settles(&looked);
        let census = &looked.census;
        let waiting: u64 = census.waiting.iter().sum();
        // Who was called between two looks has come back as well.
        let came = census.tallies.entered.max(waiting);
        if until.is_some() && came >= room::enough(self.alive) {
            self.back = until;
        }
        self.seen = Some(Seen {
            at,
            epoch,
            positions,
            looked,
        });
    }
}

/// Until when a line that was lost settles, in milliseconds since 1970; `None` for one that was not.
fn settles(looked: &Looked) -> Option<u64> {
    let left_ms = looked.census.settles_ms;
    (left_ms > 0).then(|| looked.now.as_micros() / 1_000 + left_ms)
}

/// What a room does where no operator has said anything: before an event that it opens for, people are waiting for it.
fn configured(plan: &RoomPlan, now_ms: u64) -> Phase {
    match plan.event {
        Some(event) => {
            let before_ms = u64::try_from(event.opens_before.as_millis()).unwrap_or(u64::MAX);
            let opens_ms = event.starts_ms.saturating_sub(before_ms);
            if (opens_ms..event.starts_ms).contains(&now_ms) {
                Phase::Prequeue
            } else {
                plan.phase
            }
        }
        None => plan.phase,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::room::{Census, Order};

    use super::*;
    use crate::room::hall::EventPlan;
    use crate::room::lead::tests::plan;

    const EPOCH: Epoch = Epoch(1_790_000_000_000);

    fn sees(sight: &mut Sight, phase: Option<Phase>, waiting: u64, settles_ms: u64) {
        let looked = Looked {
            now: Wall::from_micros(EPOCH.0 * 1_000),
            phase,
            census: Census {
                waiting: [0, 0, waiting],
                settles_ms,
                ..Census::default()
            },
        };
        sight.take(Order::Strict, Mono::default(), EPOCH, looked);
    }

    #[test]
    fn what_an_operator_has_set_is_known_after_a_store_has_forgotten_it() {
        let mut sight = Sight::new(None);
        sees(&mut sight, Some(Phase::QueueAll), 100, 0);

        sees(&mut sight, None, 10, 9_000);
        assert_eq!(sight.forgotten(), Some(Phase::QueueAll));
        assert_eq!(
            sight.kept(&BTreeMap::new()).unwrap().phase,
            Some(Phase::QueueAll)
        );

        sees(&mut sight, Some(Phase::QueueAll), 20, 8_000);
        assert_eq!(sight.forgotten(), None);
        // Whoever takes it back meanwhile is not overruled.
        sees(&mut sight, None, 20, 7_000);
        assert_eq!(sight.forgotten(), None);
        assert_eq!(sight.kept(&BTreeMap::new()).unwrap().phase, None);
    }

    #[test]
    fn what_was_kept_over_a_restart_is_set_again_and_only_in_its_epoch() {
        let kept = |epoch| Kept {
            epoch,
            phase: Some(Phase::Hold),
            alive: Some(50),
            notes: BTreeMap::new(),
        };
        let mut same = Sight::new(Some(&kept(EPOCH)));
        let mut other = Sight::new(Some(&kept(Epoch(5))));

        sees(&mut same, None, 0, 9_000);
        sees(&mut other, None, 0, 9_000);

        assert_eq!(same.forgotten(), Some(Phase::Hold));
        assert_eq!(same.enough(), 40);
        assert_eq!(other.forgotten(), None);
        assert_eq!(other.restores_ms(), Some(9_000));
    }

    #[test]
    fn a_line_is_put_together_again_until_enough_are_back() {
        let mut sight = Sight::new(None);
        sees(&mut sight, None, 100, 0);

        for (waiting, settles_ms, expected) in [
            (0, 9_000, Some(9_000)),
            (79, 5_000, Some(5_000)),
            (80, 4_000, None),
            (10, 0, None),
        ] {
            sees(&mut sight, None, waiting, settles_ms);
            assert_eq!(sight.restores_ms(), expected, "{waiting}");
            let shown = if expected.is_some() { 100 } else { waiting };
            assert_eq!(sight.positions().unwrap().waiting(), shown);
        }
        // Where nobody waited there is nothing to wait for.
        sees(&mut sight, None, 0, 0);
        sees(&mut sight, None, 0, 9_000);
        assert_eq!(sight.restores_ms(), None);
    }

    #[test]
    fn a_line_of_which_enough_were_back_goes_on_though_fewer_are_left() {
        let mut sight = Sight::new(None);
        sees(&mut sight, None, 100, 0);

        sees(&mut sight, None, 79, 9_000);
        assert_eq!(sight.enough(), 80);
        sees(&mut sight, None, 85, 9_000);
        sees(&mut sight, None, 35, 9_000);
        assert_eq!((sight.enough(), sight.restores_ms()), (0, None));
        // It is lost once more.
        sees(&mut sight, None, 20, 9_500);
        assert_eq!(sight.restores_ms(), Some(9_500));
    }

    #[test]
    fn before_an_event_people_wait_for_it() {
        let starts_ms = 1_790_000_000_000;
        let plan = RoomPlan {
            phase: Phase::Auto,
            event: Some(EventPlan {
                starts_ms,
                opens_before: Duration::from_secs(60),
            }),
            ..plan()
        };
        let at = |before_ms: u64| configured(&plan, starts_ms - before_ms);

        let phases = [60_001, 60_000, 1, 0].map(at);

        let expected = [Phase::Auto, Phase::Prequeue, Phase::Prequeue, Phase::Auto];
        assert_eq!(phases, expected);
        let sight = Sight::new(None);
        let there = Wall::from_micros((starts_ms - 1) * 1_000);
        assert_eq!(sight.phase(&plan, there), (Phase::Prequeue, false));
    }
}
