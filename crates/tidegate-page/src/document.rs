//! What the page reads: the room's document, the same bytes for everybody, and one's own.
//!
//! `docs/room-page.md` says what each field is for. Times ending in `_ms` are milliseconds since 1970 by the store's clock,
//! `left_ms` milliseconds from the answer on, those ending in `_s` seconds.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use tidegate_core::room::{Band, Epoch, Order, Pace, Phase, Place, Positions, Stage, Tier};

use crate::Language;

/// Of which form the documents are. A page reads no other.
pub const VERSION: u8 = 1;

/// Most rows of [`eta`].
pub const ETA_MAX: usize = 48;

/// `GET /.tidegate/v1/room/<room>.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Room {
    /// [`VERSION`].
    pub v: u8,
    /// Its name.
    pub room: String,
    /// When it was made.
    pub server_now_ms: u64,
    /// What the room does.
    #[serde(serialize_with = "phase")]
    pub phase: Phase,
    /// Which line this is: a place of another one means nothing in it.
    #[serde(serialize_with = "epoch")]
    pub epoch: Epoch,
    /// By tier, the head start in milliseconds; `None` where a tier goes before all behind it.
    pub credit_ms: Option<[u64; Tier::COUNT]>,
    /// By tier, who waits.
    pub tiers: [Marks; Tier::COUNT],
    /// How many are called in a minute, at the latest.
    pub called_per_min: f64,
    /// How long so many take, from [`eta`]: rows of people ahead, then seconds at least, likely, at most. Empty where the
    /// line stands still.
    pub eta: Vec<[u64; 4]>,
    /// Since when nobody is called, where that is so.
    pub paused_since_ms: Option<u64>,
    /// Why a wait has become longer, or why it is over.
    pub reason: Option<Reason>,
    /// What the operator says, by language. Plain text.
    pub message: Option<BTreeMap<Language, String>>,
    /// How many can still be had of what people wait for.
    pub stock: Option<u64>,
    /// What is to begin, before it does.
    pub event: Option<Event>,
    /// Passes from before this count no more.
    pub min_iat_ms: Option<u64>,
    /// How often to ask.
    pub poll: Poll,
}

/// Who waits in a tier. The same as the core's [`Marks`](tidegate_core::room::Marks).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Marks {
    /// How many.
    pub waiting: u64,
    /// How many a place stands for.
    pub step: u64,
    /// The place of the first one, and of every `step`th from there; ascending.
    pub places: Vec<u64>,
}

/// Why things are as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Fewer are called than before.
    Slower,
    /// More came who go first.
    Surge,
    /// The line is put together again after the store lost it.
    Restoring,
    /// With `closed`: nothing is left.
    SoldOut,
    /// With `closed`: the time is over.
    Ended,
}

/// Something that begins at a time.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// When.
    pub starts_ms: u64,
    /// How many wait for it.
    pub entrants: u64,
    /// Whether the order is drawn by lot then.
    pub draw: bool,
    /// The digest of the seed, in hexadecimal, where it is drawn.
    pub commitment: Option<String>,
}

/// How often the page asks: `max(floor_s, clamp(wait / part, least_s, most_s)) × (1 … 1 + jitter)` seconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Poll {
    /// Never sooner, by how near one is.
    pub least_s: f64,
    /// Never later, by how near one is.
    pub most_s: f64,
    /// Into how many parts a wait is cut.
    pub part: f64,
    /// Never sooner, by how many ask.
    pub floor_s: f64,
    /// How much longer an interval may be by chance, as a part of it.
    pub jitter: f64,
    /// Over how long those who have just come spread their first own question.
    pub spread_s: f64,
    /// How often a sign of life is due.
    pub beat_s: f64,
    /// With fewer ahead than this one asks for one's exact position.
    pub near: u64,
}

/// `GET /.tidegate/v1/me/<room>`, and what the `POST`s answer.
#[derive(Clone, Debug, Serialize)]
pub struct Me {
    /// [`VERSION`].
    pub v: u8,
    /// When it was made.
    pub server_now_ms: u64,
    /// Where one is on the way.
    #[serde(serialize_with = "stage")]
    pub state: Stage,
    /// Of which line.
    #[serde(serialize_with = "epoch")]
    pub epoch: Epoch,
    /// One's place; `None` for who has none.
    #[serde(serialize_with = "place")]
    pub place: Option<Place>,
    /// One's tier, 1 to 3; `None` for who has no place.
    #[serde(serialize_with = "tier")]
    pub tier: Option<Tier>,
    /// How many are ahead, exactly, where that was looked up.
    pub ahead: Option<u64>,
    /// How long one's turn is kept, from this answer on; `None` when it is not one's turn.
    pub left_ms: Option<u64>,
    /// How often more time can still be asked for.
    pub extensions_left: u8,
    /// When to ask again, in place of the room's policy.
    pub poll_s: Option<f64>,
    /// When the next sign of life is due, in place of the room's.
    pub beat_s: Option<f64>,
    /// `missed`: one was called, and did not come.
    pub reason: Option<Missed>,
}

/// Why one waits again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missed {
    /// One was called, and did not come.
    Missed,
}

/// What the room's document has of who waits, and in which order.
pub fn tiers(positions: &Positions) -> (Option<[u64; Tier::COUNT]>, [Marks; Tier::COUNT]) {
    let credit = match positions.order {
        Order::Strict => None,
        Order::Credit(ms) => Some(ms),
    };
    let marks = positions.tiers.each_ref().map(|marks| Marks {
        waiting: marks.waiting,
        step: marks.step,
        places: marks.places.iter().map(|place| place.0).collect(),
    });
    (credit, marks)
}

/// How long so many take, for up to `waiting` people ahead: rows whose distance grows with what is ahead, so that the page
/// may go straight from one to the next. At most [`ETA_MAX`] of them, and none where the line stands still.
pub fn eta(pace: &Pace, band: &Band, waiting: u64) -> Vec<[u64; 4]> {
    let mut rows = Vec::new();
    let mut ahead = 0_u64;
    while rows.len() < ETA_MAX {
        let Some(wait) = pace.wait(ahead) else {
            return Vec::new();
        };
        let (low, high) = band.around(wait);
        rows.push([ahead, low.as_secs(), wait.as_secs(), high.as_secs()]);
        if ahead >= waiting {
            break;
        }
        // Half as many again: forty rows reach ten million.
        ahead = (ahead + 1 + ahead / 2).min(waiting);
    }
    rows
}

fn phase<S: Serializer>(phase: &Phase, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(phase.name())
}

fn epoch<S: Serializer>(epoch: &Epoch, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(epoch.0)
}

fn stage<S: Serializer>(stage: &Stage, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match stage {
        Stage::Nobody => "nobody",
        Stage::Provisional => "provisional",
        Stage::Waiting => "waiting",
        Stage::Asleep => "asleep",
        Stage::Ready => "ready",
        Stage::Passed => "passed",
        Stage::Ghost => "ghost",
    })
}

fn place<S: Serializer>(place: &Option<Place>, to: S) -> Result<S::Ok, S::Error> {
    place.map(|place| place.0).serialize(to)
}

fn tier<S: Serializer>(tier: &Option<Tier>, to: S) -> Result<S::Ok, S::Error> {
    tier.map(Tier::number).serialize(to)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn moving() -> Pace {
        let mut pace = Pace::new();
        for _ in 0..600 {
            pace.learn(Duration::from_secs(1), 10, 0, 0);
        }
        pace
    }

    #[test]
    fn the_table_reaches_everybody_and_never_falls() {
        for waiting in [0, 1, 7, 50_000, 10_000_000] {
            let rows = eta(&moving(), &Band::new(), waiting);

            assert!(rows.len() <= ETA_MAX, "{}", rows.len());
            assert_eq!(rows[0][0], 0);
            assert_eq!(rows[rows.len() - 1][0], waiting);
            for pair in rows.windows(2) {
                assert!(pair[0][0] < pair[1][0]);
                assert!(pair[0][2] <= pair[1][2], "{pair:?}");
            }
            for [_, low, likely, high] in rows {
                assert!(low <= likely && likely <= high);
            }
        }
    }

    #[test]
    fn a_line_that_stands_still_has_no_table() {
        assert!(eta(&Pace::new(), &Band::new(), 100).is_empty());
    }

    #[test]
    fn the_documents_are_written_as_the_page_reads_them() {
        let me = Me {
            v: VERSION,
            server_now_ms: 1_790_000_000_000,
            state: Stage::Waiting,
            epoch: Epoch(5),
            place: Some(Place(4_096)),
            tier: Some(Tier::Anonymous),
            ahead: None,
            left_ms: None,
            extensions_left: 3,
            poll_s: None,
            beat_s: Some(60.0),
            reason: Some(Missed::Missed),
        };

        let json = serde_json::to_value(&me).unwrap();

        let expected = serde_json::json!({
            "v": 1, "server_now_ms": 1_790_000_000_000_u64, "state": "waiting", "epoch": 5, "place": 4096, "tier": 3,
            "ahead": null, "left_ms": null, "extensions_left": 3, "poll_s": null, "beat_s": 60.0, "reason": "missed",
        });
        assert_eq!(json, expected);
        assert_eq!(serde_json::to_value(Reason::SoldOut).unwrap(), "sold-out");
    }
}
