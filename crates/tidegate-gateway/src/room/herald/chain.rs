//! The lines of an audit log, and the chain that they are.
//!
//! Each line is a JSON object. It has a number, `prev`, which is the SHA-256 of the line before, and at its end `sum`, the
//! SHA-256 of all of it before that. So a line that was changed, taken out, put in or moved shows, wherever it stands. What
//! cannot show is that lines at the end are missing, or that somebody has written all of them anew: for that one has to know
//! from elsewhere what a later line was. The gateway's own log has the number and the SHA-256 of each.

use std::io::{self, BufRead, Read as _};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::event::{Said, TORN};

/// Longest line, in bytes. Control characters take six bytes each, so it is well above what texts may have.
pub(super) const LINE_BYTES_MAX: usize = 16 * 1_024;

/// Before the sum at the end of a line.
const BEFORE_SUM: &str = ",\"sum\":\"";
/// Behind it.
const AFTER_SUM: &str = "\"}";
/// Hexadecimal digits of a SHA-256.
const DIGEST_LEN: usize = 64;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, from 1 on.
    pub n: u64,
    /// When it was written, in milliseconds since 1970 by the clock of the gateway.
    pub at_ms: u64,
    /// The room.
    pub room: String,
    /// What has happened.
    #[serde(flatten)]
    pub said: Said,
    /// The SHA-256 of the line before, in hexadecimal; zeros in the first one.
    pub prev: String,
}

/// A log that is a whole chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// How many entries it has.
    pub entries: u64,
    /// How many lines were begun and not finished, because the machine or the process died. Each is followed by an entry
    /// that says so.
    pub torn: u64,
    /// The SHA-256 of the last line; zeros when there is none.
    pub last: String,
}

/// Why a log is no chain.
#[derive(Debug, thiserror::Error)]
pub enum BadAudit {
    /// It cannot be read.
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    /// A line is not as it was written.
    #[error("line {line} was changed: it does not have its own sum")]
    Changed {
        /// Which, from 1 on.
        line: u64,
    },
    /// A line has another number than follows.
    #[error(
        "line {line} is entry {found}, and entry {expected} should be there: lines were taken out, put in or moved"
    )]
    Order {
        /// Which, from 1 on.
        line: u64,
        /// Its number.
        found: u64,
        /// The one that should be there.
        expected: u64,
    },
    /// A line names another one before it than there is.
    #[error("line {line} follows another line than the one before it, which was replaced")]
    Replaced {
        /// Which, from 1 on.
        line: u64,
    },
}

/// Where a chain ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// The number of its last entry; 0 without any.
    pub(super) n: u64,
    /// The SHA-256 of its last line.
    pub(super) digest: String,
}

impl End {
    /// Of a chain without entries.
    pub(super) fn nothing() -> Self {
        Self {
            n: 0,
            digest: "0".repeat(DIGEST_LEN),
        }
    }

    /// The next line, and a line end behind it; from then on the chain ends with it.
    pub(super) fn add(&mut self, at_ms: u64, room: &str, said: &Said) -> String {
        let entry = Entry {
            n: self.n + 1,
            at_ms,
            room: room.to_owned(),
            said: said.clone(),
            prev: self.digest.clone(),
        };
        let mut line = serde_json::to_string(&entry).expect("numbers and texts are JSON");
        line.truncate(line.len() - 1);
        let sum = digest(line.as_bytes());
        line = line + BEFORE_SUM + &sum + AFTER_SUM;
        self.n = entry.n;
        self.digest = digest(line.as_bytes());
        line.push('\n');
        line
    }
}

/// The SHA-256 of `bytes` in hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    hexadecimal(&digest)
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// The entry on `line`, which has no line end, if it is as it was written.
pub(super) fn read(line: &[u8]) -> Option<Entry> {
    let line = str::from_utf8(line).ok()?;
    let rest = line.strip_suffix(AFTER_SUM)?;
    let (rest, sum) = rest.split_at_checked(rest.len().checked_sub(DIGEST_LEN)?)?;
    let body = rest.strip_suffix(BEFORE_SUM)?;
    if digest(body.as_bytes()) != sum {
        return None;
    }
    serde_json::from_str(line).ok()
}

/// Reads a log to its end and has `each` see every entry with the SHA-256 of its line.
///
/// # Errors
///
/// At the first line that is not as it was written, or not where.
pub fn verify(
    mut from: impl BufRead,
    mut each: impl FnMut(Entry, &str),
) -> Result<Whole, BadAudit> {
    let mut end = End::nothing();
    let (mut number, mut torn) = (0, 0);
    // A line that is no entry, until the one behind it says that it was not finished.
    let mut unread: Option<u64> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = LINE_BYTES_MAX as u64 + 1;
        if from.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        number += 1;
        let is_whole = line.pop_if(|byte| *byte == b'\n').is_some();
        let Some(entry) = read(&line).filter(|_| is_whole) else {
            if let Some(line) = unread.replace(number) {
                return Err(BadAudit::Changed { line });
            }
            if !is_whole {
                return Err(BadAudit::Changed { line: number });
            }
            end.digest = digest(&line);
            continue;
        };
        if let Some(line) = unread.take() {
            if entry.said.event != TORN {
                return Err(BadAudit::Changed { line });
            }
            torn += 1;
        }
        if entry.n != end.n + 1 {
            return Err(BadAudit::Order {
                line: number,
                found: entry.n,
                expected: end.n + 1,
            });
        }
        if entry.prev != end.digest {
            return Err(BadAudit::Replaced { line: number });
        }
        end.n = entry.n;
        end.digest = digest(&line);
        each(entry, &end.digest);
    }
    if let Some(line) = unread {
        return Err(BadAudit::Changed { line });
    }
    Ok(Whole {
        entries: end.n,
        torn,
        last: end.digest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::herald::RoomEvent;

    /// A log of so many lines.
    fn lines(count: u64) -> Vec<String> {
        let mut end = End::nothing();
        let line = |number| {
            let event = RoomEvent::Ordered {
                what: format!("stock {number}"),
                by: "kim".to_owned(),
                why: Some("a \"reason\"\n".to_owned()),
            };
            end.add(1_790_000_000_000 + number, "shop", &Said::of(event))
        };
        (0..count).map(line).collect()
    }

    fn verified(log: &[u8]) -> Result<Whole, BadAudit> {
        verify(log, |_, _| {})
    }

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let log = lines(3);
        let mut seen = Vec::new();

        let whole = verify(log.concat().as_bytes(), |entry, digest| {
            seen.push((entry, digest.to_owned()));
        });

        let whole = whole.unwrap();
        assert_eq!((whole.entries, whole.torn), (3, 0));
        assert_eq!(whole.last, digest(log[2].trim_end().as_bytes()));
        let numbers: Vec<u64> = seen.iter().map(|(entry, _)| entry.n).collect();
        assert_eq!(numbers, [1, 2, 3]);
        let (second, of_second) = &seen[1];
        assert_eq!(second.said.what.as_deref(), Some("stock 1"));
        assert_eq!(second.room, "shop");
        assert_eq!(&seen[2].0.prev, of_second);
        assert_eq!(verified(b"").unwrap().last, "0".repeat(64));
    }

    #[test]
    fn any_changed_byte_is_found_in_whichever_line() {
        let log = lines(4).concat().into_bytes();
        for at in 0..log.len() {
            let mut changed = log.clone();
            changed[at] ^= 0x01;

            assert!(verified(&changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn any_line_that_is_taken_out_put_in_or_moved_is_found() {
        let log = lines(6);
        for at in 0..5 {
            let mut without = log.clone();
            without.remove(at);
            assert!(verified(without.concat().as_bytes()).is_err(), "{at}");
        }
        for from in 0..6 {
            let mut twice = log.clone();
            twice.insert(from, log[from].clone());
            assert!(verified(twice.concat().as_bytes()).is_err(), "{from}");
            for to in from + 1..6 {
                let mut swapped = log.clone();
                swapped.swap(from, to);
                let found = verified(swapped.concat().as_bytes());
                assert!(found.is_err(), "{from} and {to}");
            }
        }
    }

    #[test]
    fn a_line_with_its_own_right_sum_is_found_if_it_was_not_there() {
        let log = lines(3);
        // Somebody who knows the form writes the second one anew.
        let mut end = End {
            n: 1,
            digest: digest(log[0].trim_end().as_bytes()),
        };
        let other = end.add(5, "shop", &Said::of(RoomEvent::Idle));

        let found = verified(
            [&log[0], &other, &log[2]]
                .map(String::as_str)
                .concat()
                .as_bytes(),
        );

        assert!(matches!(found, Err(BadAudit::Replaced { line: 3 })));
    }

    #[test]
    fn that_the_last_line_is_missing_shows_in_what_is_the_last() {
        let log = lines(3);

        let whole = verified(log[..2].concat().as_bytes()).unwrap();

        assert_eq!(whole.entries, 2);
        assert_ne!(whole.last, verified(log.concat().as_bytes()).unwrap().last);
    }

    #[test]
    fn a_line_that_was_not_finished_is_one_only_if_the_next_says_so() {
        let log = lines(2);
        let torn = &log[1][..40];
        let mut end = End {
            n: 1,
            digest: digest(torn.as_bytes()),
        };
        let said = Said {
            event: TORN.to_owned(),
            ..Said::default()
        };
        let after = end.add(9, "shop", &said);

        let whole = verified(format!("{}{torn}\n{after}", log[0]).as_bytes()).unwrap();
        assert_eq!((whole.entries, whole.torn), (2, 1));
        let other = format!("{}{}\n{after}", log[0], &log[1][..41]);
        assert!(verified(other.as_bytes()).is_err());
        let at_the_end = format!("{}{torn}", log[0]);
        let found = verified(at_the_end.as_bytes());
        assert!(matches!(found, Err(BadAudit::Changed { line: 2 })));
        let twice = format!("{}{torn}\n{torn}\n{after}", log[0]);
        assert!(verified(twice.as_bytes()).is_err());
    }

    #[test]
    fn a_line_without_end_is_read_no_further_than_a_line_may_be_long() {
        let endless = vec![b'x'; 3 * LINE_BYTES_MAX];

        let found = verified(&endless);

        assert!(matches!(found, Err(BadAudit::Changed { line: 1 })));
    }
}
