//! What the room's document says of waits, for who does not read it.

use memchr::memmem;
use serde::Deserialize as _;
use tidegate_core::room::Phase;

use crate::room::hall::View;

/// Seconds: at least, likely, and at most, four times in five.
pub(crate) type Estimate = [u64; 3];

/// People ahead, and then an [`Estimate`]: as the document has it.
type Row = [u64; 4];

/// How long so many take by the document of `view`; `None` where the line stands still.
pub(crate) fn estimate(view: &View, ahead: u64) -> Option<Estimate> {
    if view.paused_since_ms.is_some() || view.phase == Phase::Hold {
        return None;
    }
    between(&rows(&view.document)?, ahead)
}

/// The rows of the table in a document. Names within texts are escaped, so that there is one such.
fn rows(document: &[u8]) -> Option<Vec<Row>> {
    const NAME: &[u8] = b"\"eta\":";
    let at = memmem::find(document, NAME)? + NAME.len();
    let mut rest = serde_json::Deserializer::from_slice(&document[at..]);
    Vec::deserialize(&mut rest).ok()
}

/// Straight between two rows, and beyond the last one in proportion: as the page does it.
fn between(rows: &[Row], ahead: u64) -> Option<Estimate> {
    let next = rows.iter().position(|row| row[0] >= ahead);
    let (from, to) = match next {
        Some(0) => return Some([rows[0][1], rows[0][2], rows[0][3]]),
        Some(at) => (rows[at - 1], rows[at]),
        None => ([0; 4], *rows.last()?),
    };
    let span = to[0].saturating_sub(from[0]).max(1) as f64;
    let part = (ahead - from[0]) as f64 / span;
    let point = |each: usize| {
        let (low, high) = (from[each] as f64, to[each] as f64);
        (low + (high - low) * part).round() as u64
    };
    Some([point(1), point(2), point(3)])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [Row; 3] = [[0, 5, 10, 20], [100, 50, 100, 200], [200, 80, 300, 700]];

    #[test]
    fn a_wait_is_read_between_rows_and_beyond_the_last() {
        for (ahead, expected) in [
            (0, [5, 10, 20]),
            (50, [28, 55, 110]),
            (100, [50, 100, 200]),
            (150, [65, 200, 450]),
            (200, [80, 300, 700]),
            (400, [160, 600, 1_400]),
        ] {
            assert_eq!(between(&ROWS, ahead), Some(expected), "{ahead}");
        }
        assert_eq!(between(&[], 7), None);
        assert_eq!(between(&[[0, 0, 0, 0]], 7), Some([0, 0, 0]));
    }

    #[test]
    fn the_table_is_found_whatever_the_texts_around_it_say() {
        let text = serde_json::json!({
            "called_per_min": 1.5,
            "message": { "en": "\"eta\":[[9,9,9,9]]" },
        });
        let text = text.to_string();
        let (head, tail) = text.split_at(text.len() - 1);
        let document = format!("{head},\"eta\":[[0,1,2,3],[9,4,5,6]],\"poll\":{{}}{tail}");
        assert!(serde_json::from_str::<serde_json::Value>(&document).is_ok());

        let found = rows(document.as_bytes());

        assert_eq!(found, Some(vec![[0, 1, 2, 3], [9, 4, 5, 6]]));
        for bad in ["", "{}", "{\"eta\":", "{\"eta\":[[1]]}", "{\"eta\":null}"] {
            assert_eq!(rows(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(rows(b"{\"eta\":[]}"), Some(vec![]));
    }
}
