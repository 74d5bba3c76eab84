//! What gateways and the leader of a room tell each other: notes for everybody, the leader's last word, and what each gateway
//! reports. Word and notes outlive an epoch, and are lost when the store loses the room; then the line settles as well.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::session::Name;
use tidegate_core::time::Wall;

use crate::Fence;
use crate::error::StoreError;
use crate::members::MEMBERS_MAX;

/// A report is forgotten so long after the last one.
pub const REPORT_KEPT: Duration = Duration::from_secs(5);
/// Longest report.
pub const REPORT_BYTES_MAX: usize = 1 << 10;
/// Reports of so many are kept. More would be more than a fleet has members, and are not heard.
pub const REPORTS_MAX: u32 = MEMBERS_MAX;
/// Longest word.
pub const WORD_BYTES_MAX: usize = 64 << 10;
/// Most notes of a room, and in a notice.
pub const NOTES_MAX: usize = 16;
/// Longest note.
pub const NOTE_BYTES_MAX: usize = 8 << 10;
/// Longest name of a note.
pub const NOTE_NAME_MAX: usize = 32;

/// What one gateway says.
#[derive(Clone, Copy, Debug)]
pub struct Notice<'a> {
    /// Who.
    pub node: &'a Name,
    /// What it says of itself, [`REPORT_BYTES_MAX`] at most.
    pub report: &'a [u8],
    /// What it says to all as the leader with this fence, [`WORD_BYTES_MAX`] at most.
    pub word: Option<(Fence, &'a [u8])>,
    /// What everybody is to know: set, or taken away. [`NOTES_MAX`] of [`NOTE_BYTES_MAX`] each.
    pub notes: &'a [(&'a str, Option<&'a [u8]>)],
    /// Whether it wants to know what the others report.
    pub wants_reports: bool,
}

/// What all have said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Board {
    /// The store's clock.
    pub now: Wall,
    /// The last word: who led, when it was said, and what. It may be long over. `None` where none was said since the store
    /// knows of the room.
    pub word: Option<(Fence, Wall, Vec<u8>)>,
    /// The notes.
    pub notes: BTreeMap<String, Vec<u8>>,
    /// What gateways have reported within [`REPORT_KEPT`], where that was wanted, by name.
    pub reports: Vec<(Name, Vec<u8>)>,
}

/// A board in this process.
#[derive(Debug, Default)]
pub(super) struct Kept {
    word: Option<(Fence, Wall, Vec<u8>)>,
    notes: BTreeMap<String, Vec<u8>>,
    reports: BTreeMap<Name, (Wall, Vec<u8>)>,
}

impl Notice<'_> {
    /// Refuses what is too long.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let word = self.word.map_or(0, |(_, word)| word.len());
        let names = self.notes.iter().map(|(name, _)| name.len());
        let notes = self.notes.iter().filter_map(|(_, said)| *said);
        let longest = notes.map(<[u8]>::len).max().unwrap_or_default();
        let what = if self.report.len() > REPORT_BYTES_MAX {
            "a report is too long"
        } else if word > WORD_BYTES_MAX {
            "a word is too long"
        } else if self.notes.len() > NOTES_MAX {
            "there are too many notes"
        } else if longest > NOTE_BYTES_MAX {
            "a note is too long"
        } else if !names
            .into_iter()
            .all(|len| (1..=NOTE_NAME_MAX).contains(&len))
        {
            "a note has no name, or a long one"
        } else {
            return Ok(());
        };
        Err(StoreError::Refused(what.to_owned()))
    }
}

/// A room has as many notes as it may.
pub(super) fn too_many_notes() -> StoreError {
    StoreError::Refused(format!("a room has no more than {NOTES_MAX} notes"))
}

impl Kept {
    /// Whether there is place for its notes.
    pub(super) fn takes(&self, notice: &Notice<'_>) -> Result<(), StoreError> {
        let notes = notice.notes;
        let last = |name: &str| notes.iter().rev().find(|(other, _)| *other == name);
        let known = self.notes.keys().map(String::as_str);
        let mut names: Vec<_> = known.chain(notes.iter().map(|(name, _)| *name)).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| last(name).is_none_or(|(_, said)| said.is_some()));
        match names.len() > NOTES_MAX {
            true => Err(too_many_notes()),
            false => Ok(()),
        }
    }

    /// Takes in what one says, and says what all have.
    pub(super) fn exchange(&mut self, now: Wall, notice: &Notice<'_>) -> Board {
        if let Some((fence, word)) = notice.word {
            self.word = Some((fence, now, word.to_vec()));
        }
        for (name, said) in notice.notes {
            match said {
                Some(said) => drop(self.notes.insert((*name).to_owned(), said.to_vec())),
                None => drop(self.notes.remove(*name)),
            }
        }
        // A clock may have gone back: what was said then is as far away.
        let away = |at: Wall| now.since(at).max(at.since(now));
        self.reports.retain(|_, (at, _)| away(*at) < REPORT_KEPT);
        let is_known = self.reports.contains_key(notice.node);
        if is_known || self.reports.len() < REPORTS_MAX as usize {
            let report = (now, notice.report.to_vec());
            self.reports.insert(notice.node.clone(), report);
        }
        let reports = (self.reports.iter())
            .filter(|_| notice.wants_reports)
            .map(|(node, (_, report))| (node.clone(), report.clone()));
        Board {
            now,
            word: self.word.clone(),
            notes: self.notes.clone(),
            reports: reports.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: &[(&str, Option<&[u8]>)] = &[];

    fn name(of: &str) -> Name {
        Name::new(of).unwrap()
    }

    fn notice<'a>(node: &'a Name, notes: &'a [(&'a str, Option<&'a [u8]>)]) -> Notice<'a> {
        Notice {
            node,
            report: b"r",
            word: None,
            notes,
            wants_reports: true,
        }
    }

    fn at(ms: u64) -> Wall {
        Wall::from_micros(1_790_000_000_000_000 + ms * 1_000)
    }

    #[test]
    fn a_report_goes_and_a_note_stays() {
        let (one, other) = (name("a"), name("b"));
        let mut kept = Kept::default();

        kept.exchange(at(0), &notice(&one, &[("stock", Some(b"7"))]));
        let both = kept.exchange(at(4_999), &notice(&other, NOTHING));
        let rest = kept.exchange(at(5_000), &notice(&other, NOTHING));

        assert_eq!(both.reports.len(), 2);
        assert_eq!(rest.reports, [(other, b"r".to_vec())]);
        assert_eq!(rest.notes["stock"], b"7");
    }

    #[test]
    fn a_report_does_not_count_for_longer_because_a_clock_has_gone_back() {
        let (one, other) = (name("a"), name("b"));
        let mut kept = Kept::default();

        kept.exchange(at(60_000), &notice(&one, NOTHING));
        let board = kept.exchange(at(0), &notice(&other, NOTHING));

        assert_eq!(board.reports, [(other, b"r".to_vec())]);
    }

    #[test]
    fn no_more_reports_are_kept_than_a_fleet_has_members() {
        let mut kept = Kept::default();
        for number in 0..REPORTS_MAX {
            kept.exchange(
                at(0),
                &Notice {
                    wants_reports: false,
                    ..notice(&name(&format!("n{number}")), NOTHING)
                },
            );
        }

        let board = kept.exchange(at(1), &notice(&name("late"), NOTHING));
        assert_eq!(board.reports.len(), REPORTS_MAX as usize);
        assert!(board.reports.iter().all(|(node, _)| *node != name("late")));
        let board = kept.exchange(at(5_000), &notice(&name("late"), NOTHING));
        assert_eq!(board.reports.len(), 1);
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let node = name("a");
        let long = vec![0; WORD_BYTES_MAX + 1];
        let fits = Notice {
            report: &long[..REPORT_BYTES_MAX],
            word: Some((Fence(1), &long[1..])),
            ..notice(&node, &[("stock", Some(b"7"))])
        };
        let many = [("stock", None); NOTES_MAX + 1];
        let refused = [
            Notice {
                report: &long[..=REPORT_BYTES_MAX],
                ..fits
            },
            Notice {
                word: Some((Fence(1), &long)),
                ..fits
            },
            Notice {
                notes: &[("stock", Some(&long[..=NOTE_BYTES_MAX]))],
                ..fits
            },
            Notice {
                notes: &[("", None)],
                ..fits
            },
            Notice {
                notes: &[("a-name-of-thirty-three-characters", None)],
                ..fits
            },
            Notice {
                notes: &many,
                ..fits
            },
        ];

        assert_eq!(fits.check(), Ok(()));
        for notice in refused {
            assert!(notice.check().is_err());
        }
    }
}
