//! How a gateway goes on while the store is away, and what it does when the store is back.

use std::time::Duration;

use tidegate_core::room::{ALONE_PART, Census, Epoch, Phase, Place, Positions, part};
use tidegate_core::time::{Mono, Wall};
use tidegate_store::rooms::{BEATS_MAX, RoomError};

use super::CALL;
use crate::room::hall::{Hall, Mode, OnRoomLoss, Outcome, RoomPlan};
use crate::room::herald::RoomEvent;

/// After so long without an answer the gateway goes on by itself.
const AWAY_AFTER: Duration = Duration::from_secs(2);
/// How often those are taken out of the own line who are silent.
const TIDY_EVERY: Duration = Duration::from_secs(1);
/// So many batches of those who wait here are put back at a tick, and the store is told of so many who went in.
const BATCHES: usize = 8;
const LEAVES: usize = 64;

/// What a gateway knows of its store's absence.
pub(super) struct Away {
    /// When it began to listen.
    began: Mono,
    gone: Option<Gone>,
    back: Option<Back>,
    /// How many had gone in without waiting when it was last looked.
    admitted: u64,
    tidies: Mono,
}

/// The store is away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone {
    pub(super) since: Mono,
    /// Since when by the store's own clock, in milliseconds.
    pub(super) since_ms: u64,
    /// Visitors per second that all gateways let in before.
    rate: f64,
}

/// The store is back, and the own line is put into it.
#[derive(Clone, Copy, Debug)]
struct Back {
    at: Mono,
    restored: u64,
    is_told: bool,
}

/// What a gateway that is alone goes by.
#[derive(Clone, Copy)]
pub(super) struct Solo {
    pub(super) now: Mono,
    pub(super) there: Wall,
    pub(super) phase: Phase,
    pub(super) gateways: u32,
    pub(super) grace_ms: u64,
}

impl Away {
    pub(super) const fn new(began: Mono) -> Self {
        Self {
            began,
            gone: None,
            back: None,
            admitted: 0,
            tidies: began,
        }
    }

    /// The store is away.
    pub(super) const fn gone(&self) -> Option<Gone> {
        self.gone
    }

    /// Looks whether the store has answered of late. `rate` is what is let in at the moment.
    pub(super) fn notice(&mut self, hall: &Hall, now: Mono, rate: f64) {
        let last = hall.clerk.answered().max(self.began);
        let is_away = now.since(last) >= AWAY_AFTER;
        match self.gone {
            None if is_away => {
                self.gone = Some(Gone {
                    since: last,
                    since_ms: hall.clerk.there(last).as_micros() / 1_000,
                    rate,
                });
                self.back = None;
                self.admitted = admitted(hall);
                hall.clerk.go(mode(&hall.plan));
                hall.herald.tell(RoomEvent::StoreAway);
            }
            Some(_) if !is_away => {
                self.gone = None;
                self.back = Some(Back {
                    at: now,
                    restored: 0,
                    is_told: false,
                });
                hall.clerk.go(Mode::Stored);
            }
            _ => {}
        }
    }

    /// Visitors per second that this gateway lets in by itself.
    pub(super) fn rate(&self, plan: &RoomPlan, gateways: u32) -> f64 {
        match (self.gone, mode(plan)) {
            (Some(gone), Mode::Alone) => ALONE_PART * part(gone.rate, gateways),
            _ => 0.0,
        }
    }

    /// Whether everybody passes by now. What is over, or was stopped by somebody, stays so.
    pub(super) fn is_open(&self, plan: &RoomPlan, now: Mono, phase: Phase) -> bool {
        match (self.gone, plan.on_store_loss) {
            (Some(gone), OnRoomLoss::Open { after }) => {
                phase.releases() && now.since(gone.since) >= after
            }
            _ => false,
        }
    }

    /// Moves the own line, four times a second.
    pub(super) fn go_on(&mut self, hall: &Hall, epoch: Epoch, solo: &Solo) {
        let rate = self.rate(&hall.plan, solo.gateways);
        let admitted = admitted(hall);
        let others = admitted - self.admitted.min(admitted);
        self.admitted = admitted;
        let tidies = self.tidies <= solo.now;
        if tidies {
            self.tidies = solo.now + TIDY_EVERY;
        }
        let called = hall.clerk.with_own(|own| {
            if tidies {
                own.tidy(solo.there, epoch, solo.grace_ms);
            }
            if rate <= 0.0 || !solo.phase.releases() {
                return 0;
            }
            let when = (solo.now, solo.there);
            own.call(when, epoch, rate, others, solo.grace_ms)
        });
        hall.counts.called.add(called);
    }

    /// Who waits, as far as is known here: as it was `before`, until everybody has been heard of here that comes to this
    /// gateway, after `beat`; and from then on those.
    pub(super) fn positions(
        &self,
        hall: &Hall,
        epoch: Epoch,
        (now, there): (Mono, Wall),
        before: Option<&Positions>,
        beat: Duration,
    ) -> (Positions, Census) {
        let own = hall
            .clerk
            .with_own(|own| own.census(there, epoch, Place(0)));
        let positions = Positions::of(hall.plan.order, &own);
        let is_early = self.gone.is_some_and(|gone| now.since(gone.since) < beat);
        match before.filter(|before| is_early && before.waiting() > positions.waiting()) {
            Some(before) => (before.clone(), own),
            None => (positions, own),
        }
    }

    /// Puts those who wait here into the line of the store, and tells it of those who went in. Who was called here keeps that turn
    /// for as long as it was given.
    pub(super) async fn come_back(&mut self, hall: &Hall, epoch: Epoch, now: Mono) {
        let Some(back) = &mut self.back else {
            return;
        };
        let (clerk, room) = (&hall.clerk, hall.clerk.room());
        for _ in 0..BATCHES {
            let there = clerk.there(now);
            let beats = clerk.with_own(|own| own.take_waiting(there, BEATS_MAX));
            if beats.is_empty() {
                break;
            }
            match clerk.ask(room.beat(epoch, &beats, CALL)).await {
                Ok(_) => back.restored += beats.len() as u64,
                Err(RoomError::Store(_)) => {
                    clerk.with_own(|own| own.keep_waiting(&beats));
                    return;
                }
                // In another epoch their places are worth nothing.
                Err(RoomError::Denied(_)) => {
                    clerk.with_own(|own| own.clear());
                    break;
                }
            }
        }
        for _ in 0..LEAVES {
            let Some(place) = clerk.with_own(|own| own.take_passed()) else {
                break;
            };
            // One that was called there meanwhile does not come, so that this is no loss.
            if clerk.ask(room.leave(epoch, place, CALL)).await.is_err() {
                return;
            }
        }
        let is_done = clerk.with_own(|own| own.is_put_back());
        if is_done && !back.is_told {
            back.is_told = true;
            hall.herald.tell(RoomEvent::StoreBack {
                restored: back.restored,
            });
        }
        if is_done && now.since(back.at) >= hall.plan.claim_within {
            clerk.with_own(|own| own.clear());
            self.back = None;
        }
    }
}

/// Who answers while the store is away.
const fn mode(plan: &RoomPlan) -> Mode {
    match plan.on_store_loss {
        OnRoomLoss::LocalBudget => Mode::Alone,
        OnRoomLoss::Hold | OnRoomLoss::Open { .. } => Mode::Held,
    }
}

/// How many have gone in at this gateway without waiting.
pub(super) fn admitted(hall: &Hall) -> u64 {
    hall.counts.outcomes[Outcome::Admitted as usize].value()
}
