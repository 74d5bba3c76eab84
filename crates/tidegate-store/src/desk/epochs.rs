//! How often users have signed out everywhere, as far as was asked lately.

use std::time::{Duration, Instant};

use quick_cache::sync::{Cache, EntryAction, EntryResult};
use tidegate_core::session::Uid;

/// An epoch is asked for anew when it is so old. A sign-out everywhere is seen within a second,
/// the time of the call included.
const AGE_MAX: Duration = Duration::from_millis(900);
/// Users whose epoch is remembered; of others it is asked for each time.
const USERS_MAX: usize = 65_536;

/// Epochs that were asked for lately.
pub(super) struct Epochs(Cache<Uid, Epoch>);

#[derive(Clone, Copy, Debug)]
struct Epoch {
    number: u64,
    /// When the question was sent: what happened after that it does not tell.
    asked: Instant,
}

impl Epochs {
    pub(super) fn new() -> Self {
        Self(Cache::new(USERS_MAX))
    }

    /// The epoch of a user, if it was asked for lately enough.
    pub(super) fn lately(&self, uid: &Uid) -> Option<u64> {
        let epoch = self.0.get(uid)?;
        (epoch.asked.elapsed() < AGE_MAX).then_some(epoch.number)
    }

    /// The epoch of a user when it was asked for last; 0 when it is not remembered.
    pub(super) fn at_last(&self, uid: &Uid) -> u64 {
        self.0.get(uid).map_or(0, |epoch| epoch.number)
    }

    /// The epoch of a user when it was asked for last, if it is remembered.
    pub(super) fn known(&self, uid: &Uid) -> Option<u64> {
        self.0.get(uid).map(|epoch| epoch.number)
    }

    /// Notes that the answer to a question sent at `asked` was `number`.
    pub(super) fn note(&self, uid: &Uid, number: u64, asked: Instant) {
        let new = Epoch { number, asked };
        let done = self.0.entry(uid, None, |_, there| {
            // A late answer does not take back a sign-out that is known here already.
            let outruns = there.number > number && there.asked.elapsed() < AGE_MAX;
            if !outruns {
                *there = new;
            }
            EntryAction::Retain(())
        });
        if let EntryResult::Vacant(place) = done {
            // An error means that somebody else has just noted one.
            let _ = place.insert(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_good_for_less_than_a_second_and_a_late_answer_takes_nothing_back() {
        const { assert!(AGE_MAX.as_millis() < 1_000) };
        let epochs = Epochs::new();
        let uid = Uid::new("ann").unwrap();
        let now = Instant::now();
        let long_ago = now.checked_sub(AGE_MAX).unwrap();

        epochs.note(&uid, 3, long_ago);
        assert_eq!((epochs.lately(&uid), epochs.at_last(&uid)), (None, 3));

        epochs.note(&uid, 4, now);
        epochs.note(&uid, 3, now);
        assert_eq!(epochs.lately(&uid), Some(4));
    }
}
