//! How often a room is asked: for places, by a network, and for one's own place, by whoever has it.
//!
//! Nobody keeps a line of their own: each table has so many places, and what is full again in it makes room.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::rate::key::{Part, Prefix, PrefixLengths};
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm as Counting, Rate, Spec, SpecError, Tick};
use tidegate_core::room::{Epoch, Place};
use tidegate_core::session::SlotTag;
use tidegate_core::time::Mono;
use tidegate_store::limits::{Asked, LimitTable, LimitTablePlan, Said};
use tidegate_store::{RateKeys, RateSecret};

use crate::room::checks::wait_us;
use crate::session::keys::random;

/// Networks whose joins are counted at once.
const NETWORKS_MAX: u64 = 1 << 16;
/// Places whose questions are counted at once.
const PLACES_MAX: u64 = 1 << 16;
/// One's own place is asked for once in that time, and this often at once.
const ASKS_EVERY_US: u64 = 1_000_000;
const ASKS_BURST: u64 = 3;
/// Turns that are remembered at once.
const TURNS_MAX: usize = 1 << 16;
/// Without room for another one it is looked so often whether there is some.
const SWEPT_EVERY: Duration = Duration::from_secs(1);
/// For so long somebody is told that they have missed a turn, and how often it can still be made longer.
const TURN_KEPT: Duration = Duration::from_secs(1_800);

/// What bounds how often a room is asked.
pub(crate) struct Limits {
    joins: Option<(Arc<Spec>, LimitTable)>,
    asks: (Arc<Spec>, LimitTable),
    keys: RateKeys,
    turns: Mutex<Turns>,
}

/// The turns that were told here.
#[derive(Default)]
struct Turns {
    by_place: HashMap<(Epoch, Place), Turn>,
    /// When those that are too old were taken out last.
    swept: Option<Mono>,
}

/// What whoever has a place wants of it. Looking often is not to keep them from going in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// To know how it stands.
    Look,
    /// To go in, to leave, or the like.
    Act,
    /// To see what is behind the room.
    Visit,
}

/// Somebody was told here that it is their turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// When that was.
    at: Mono,
    /// How often it can be made longer, as far as this gateway knows.
    left: u8,
    /// They did not come.
    is_missed: bool,
}

impl Limits {
    /// With as many joins of a network as `joins` has it.
    ///
    /// # Errors
    ///
    /// When that cannot be counted.
    pub(crate) fn new(joins: Option<Spec>) -> Result<Self, SpecError> {
        let rate = Rate {
            tokens: 1,
            period_us: ASKS_EVERY_US,
        };
        let asks = Spec::new(Counting::Bucket, rate, Some(ASKS_BURST))?;
        if let Some(joins) = &joins {
            joins.fits(1)?;
        }
        let table = |keys_max| LimitTable::new(LimitTablePlan::for_keys(keys_max));
        Ok(Self {
            joins: joins.map(|joins| (Arc::new(joins), table(NETWORKS_MAX))),
            asks: (Arc::new(asks), table(PLACES_MAX)),
            keys: RateSecret::new(random()).limit("room"),
            turns: Mutex::default(),
        })
    }

    /// Lets somebody from there have a place, or says in how long.
    pub(crate) fn join(&self, now: Tick, from: IpAddr) -> Result<(), Duration> {
        let lengths = PrefixLengths::new(24, 48).expect("addresses have so many bits");
        let network = Part::Address(Prefix::of(from, lengths));
        match &self.joins {
            Some(joins) => self.take(joins, network, now),
            None => Ok(()),
        }
    }

    /// Lets whoever has this place ask for it, or says in how long.
    pub(crate) fn ask(
        &self,
        now: Tick,
        (epoch, place): (Epoch, Place),
        wants: Wants,
    ) -> Result<(), Duration> {
        let mut bytes = [0; 17];
        bytes[..8].copy_from_slice(&epoch.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&place.0.to_be_bytes());
        bytes[16] = wants as u8;
        self.take(&self.asks, Part::Identity(&bytes), now)
    }

    fn take(
        &self,
        (spec, table): &(Arc<Spec>, LimitTable),
        part: Part<'_>,
        now: Tick,
    ) -> Result<(), Duration> {
        let asked = Asked {
            key: self.keys.key(&[part]),
            // Nobody else has this table.
            tag: SlotTag::from_bits(0),
            spec,
            cost: 1,
            standing: Standing::Enforced,
        };
        match table.take(&[asked], now).said[0] {
            Said::Passes { .. } | Said::Unasked => Ok(()),
            Said::Short { short, .. } => Err(Duration::from_micros(wait_us(short))),
        }
    }

    /// It is their turn, which can be made longer so often unless something else is known; how often it can.
    pub(crate) fn turn(&self, now: Mono, who: (Epoch, Place), most: u8) -> u8 {
        let mut turns = self.turns();
        let known = turns.by_place.get(&who).filter(|turn| !turn.is_missed);
        let left = known.map_or(most, |turn| turn.left);
        turns.keep(now, who, left);
        left
    }

    /// Their turn can be made longer so often from now on.
    pub(crate) fn extended(&self, now: Mono, who: (Epoch, Place), left: u8) {
        self.turns().keep(now, who, left);
    }

    /// If it is their turn, it cannot be made longer any more.
    pub(crate) fn not_extended(&self, who: (Epoch, Place)) {
        if let Some(turn) = self.turns().by_place.get_mut(&who) {
            turn.left = 0;
        }
    }

    /// It is not their turn, or not any more; whether it was, and they did not come.
    pub(crate) fn missed(&self, who: (Epoch, Place)) -> bool {
        match self.turns().by_place.get_mut(&who) {
            Some(turn) => {
                turn.is_missed = true;
                true
            }
            None => false,
        }
    }

    /// They went in, or left.
    pub(crate) fn done(&self, who: (Epoch, Place)) {
        self.turns().by_place.remove(&who);
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        // One entry after the other is whole.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turns {
    /// Notes a turn, if it is known already or there is room.
    fn keep(&mut self, now: Mono, who: (Epoch, Place), left: u8) {
        let is_due = |swept: Mono| now.since(swept) >= SWEPT_EVERY;
        if self.by_place.len() >= TURNS_MAX && self.swept.is_none_or(is_due) {
            self.by_place
                .retain(|_, turn| now.since(turn.at) < TURN_KEPT);
            self.swept = Some(now);
        }
        if self.by_place.len() < TURNS_MAX || self.by_place.contains_key(&who) {
            let turn = Turn {
                at: now,
                left,
                is_missed: false,
            };
            self.by_place.insert(who, turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(joins_per_minute: u64) -> Limits {
        let rate = Rate {
            tokens: joins_per_minute,
            period_us: 60_000_000,
        };
        let burst = Some(joins_per_minute);
        Limits::new(Some(Spec::new(Counting::Bucket, rate, burst).unwrap())).unwrap()
    }

    #[test]
    fn a_network_takes_so_many_places_and_the_others_take_theirs() {
        let limits = limits(5);
        let joins = |second: u64, from: &str| {
            let now = Tick(second * 1_000_000);
            (0..9)
                .filter(|_| limits.join(now, from.parse().unwrap()).is_ok())
                .count()
        };

        assert_eq!(joins(0, "192.0.2.1"), 5);
        assert_eq!(joins(0, "192.0.2.200"), 0, "the same /24");
        assert_eq!(joins(0, "::ffff:192.0.2.9"), 0, "the same address");
        assert_eq!(joins(0, "2001:db8:7:1::1"), 5);
        assert_eq!(joins(0, "2001:db8:7:2::1"), 0, "the same /48");
        assert_eq!(joins(24, "192.0.2.1"), 2);
        let wait = limits.join(Tick(24_000_000), "192.0.2.1".parse().unwrap());
        assert_eq!(wait, Err(Duration::from_secs(12)));
        assert!(
            Limits::new(None)
                .unwrap()
                .join(Tick(0), "192.0.2.1".parse().unwrap())
                .is_ok()
        );
    }

    #[test]
    fn a_place_is_asked_for_once_a_second_and_a_few_times_at_once() {
        let limits = limits(1);
        let asks = |ms: u64, place| {
            let now = Tick(ms * 1_000);
            (0..9)
                .filter(|_| {
                    limits
                        .ask(now, (Epoch(1), Place(place)), Wants::Look)
                        .is_ok()
                })
                .count()
        };

        assert_eq!((asks(0, 7), asks(0, 8)), (3, 3));
        assert_eq!(asks(999, 7), 0);
        let wait = limits.ask(Tick(999_000), (Epoch(1), Place(7)), Wants::Look);
        assert_eq!(wait, Err(Duration::from_millis(1)));
        let act = limits.ask(Tick(999_000), (Epoch(1), Place(7)), Wants::Act);
        assert!(act.is_ok(), "who has looked often may go in");
        assert_eq!(asks(1_000, 7), 1);
        let later = limits.ask(Tick(1_000_000), (Epoch(2), Place(7)), Wants::Look);
        assert!(later.is_ok());
    }

    #[test]
    fn a_turn_that_was_told_is_known_to_be_missed_and_the_next_one_begins_anew() {
        let limits = limits(1);
        let (now, who) = (Mono::from_millis(5), (Epoch(1), Place(7)));

        assert!(!limits.missed(who));
        assert_eq!(limits.turn(now, who, 3), 3);
        limits.extended(now, who, 2);
        assert_eq!(limits.turn(now, who, 3), 2);
        limits.not_extended(who);
        assert_eq!(limits.turn(now, who, 3), 0);
        limits.not_extended((Epoch(1), Place(8)));
        assert!(limits.missed(who) && limits.missed(who));
        assert!(!limits.missed((Epoch(1), Place(8))));
        assert_eq!(limits.turn(now, who, 3), 3);
        limits.done(who);
        assert!(!limits.missed(who));
    }

    #[test]
    fn so_many_turns_are_remembered_and_old_ones_make_room() {
        let limits = limits(1);
        let (first, later) = (Mono::from_millis(0), Mono::from_millis(2_000_000));
        for place in 0..TURNS_MAX as u64 + 9 {
            limits.turn(first, (Epoch(1), Place(place)), 3);
        }
        assert!(!limits.missed((Epoch(1), Place(TURNS_MAX as u64))));

        limits.turn(later, (Epoch(1), Place(u64::MAX)), 3);

        assert!(limits.missed((Epoch(1), Place(u64::MAX))));
        assert!(!limits.missed((Epoch(1), Place(0))));
    }
}
