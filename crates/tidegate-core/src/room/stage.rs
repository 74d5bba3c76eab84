//! What may become of a place.

/// Where somebody is on the way through the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Has no place.
    #[default]
    Nobody,
    /// Has a place that does not count yet: whoever takes no cookie never comes back with it.
    Provisional,
    /// Waits, and is heard of.
    Waiting,
    /// Is not heard of any more. The place is kept, and costs nobody anything.
    Asleep,
    /// May go in until a deadline.
    Ready,
    /// Went in.
    Passed,
    /// Never came back with the place, or was called too often and did not come: it is not counted, and another one has
    /// to be taken.
    Ghost,
}

/// What happens to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A place is given.
    Join,
    /// Its owner is heard of.
    Beat,
    /// Its owner was not heard of for too long.
    Silence,
    /// Its turn has come.
    Release,
    /// Its owner goes in.
    Claim,
    /// Its owner did not go in in time.
    Miss {
        /// Whether that was the last time.
        is_last: bool,
    },
}

impl Stage {
    /// What becomes of it by `event`; the same where the event means nothing to it.
    pub const fn after(self, event: Event) -> Self {
        match (self, event) {
            (Self::Nobody | Self::Ghost, Event::Join) => Self::Provisional,
            (Self::Provisional | Self::Asleep, Event::Beat) => Self::Waiting,
            (Self::Provisional, Event::Silence) => Self::Ghost,
            (Self::Waiting, Event::Silence) => Self::Asleep,
            (Self::Waiting, Event::Release) => Self::Ready,
            (Self::Ready, Event::Claim) => Self::Passed,
            (Self::Ready, Event::Miss { is_last: true }) => Self::Ghost,
            (Self::Ready, Event::Miss { is_last: false }) => Self::Asleep,
            _ => self,
        }
    }

    /// Whether others wait behind it: only the living count.
    pub const fn counts(self) -> bool {
        matches!(self, Self::Waiting)
    }

    /// Whether the place can still lead inside.
    pub const fn is_kept(self) -> bool {
        matches!(
            self,
            Self::Provisional | Self::Waiting | Self::Asleep | Self::Ready
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(events: &[Event]) -> Stage {
        let start = Stage::default();
        events
            .iter()
            .fold(start, |stage, event| stage.after(*event))
    }

    #[test]
    fn the_way_in_is_join_beat_release_claim() {
        let way = [Event::Join, Event::Beat, Event::Release, Event::Claim];

        let stages: Vec<_> = (1..=way.len()).map(|upto| through(&way[..upto])).collect();

        let expected = [
            Stage::Provisional,
            Stage::Waiting,
            Stage::Ready,
            Stage::Passed,
        ];
        assert_eq!(stages, expected);
    }

    #[test]
    fn only_who_came_back_with_the_place_counts_and_is_called() {
        assert!(!through(&[Event::Join]).counts());
        let called = through(&[Event::Join, Event::Release]);
        assert_eq!(called, Stage::Provisional);
        let silent = through(&[Event::Join, Event::Silence, Event::Beat]);
        assert_eq!(silent, Stage::Ghost);
    }

    #[test]
    fn who_sleeps_is_not_called_and_wakes_where_they_stood() {
        let asleep = [Event::Join, Event::Beat, Event::Silence];

        assert_eq!(through(&asleep).after(Event::Release), Stage::Asleep);
        assert_eq!(through(&asleep).after(Event::Beat), Stage::Waiting);
        assert!(through(&asleep).is_kept());
    }

    #[test]
    fn who_did_not_come_may_come_again_but_for_the_last_time() {
        let ready = through(&[Event::Join, Event::Beat, Event::Release]);

        let missed = ready.after(Event::Miss { is_last: false });
        assert_eq!(missed, Stage::Asleep);
        let last = ready.after(Event::Miss { is_last: true });
        assert_eq!(last.after(Event::Beat), Stage::Ghost);
        assert_eq!(last.after(Event::Join), Stage::Provisional);
    }

    #[test]
    fn who_went_in_stays_in() {
        let passed = Stage::Passed;
        for event in [
            Event::Beat,
            Event::Silence,
            Event::Release,
            Event::Claim,
            Event::Join,
            Event::Miss { is_last: false },
        ] {
            assert_eq!(passed.after(event), passed);
        }
    }
}
