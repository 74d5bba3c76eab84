//! What an operator orders about a node.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::time::Wall;
use tidegate_store::Order;

/// Bytes of the name of whoever orders.
pub const BY_BYTES_MAX: usize = 64;
/// Bytes of a reason. With the name it fits into what may be said of a node, also where each of them has to be escaped.
pub const WHY_BYTES_MAX: usize = 240;

/// A node is to be drained: nothing new, while what is there ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Who ordered it.
    pub by: String,
    /// Why, in the operator's words.
    pub why: Option<String>,
    /// For how long it has held.
    pub since: Duration,
    /// For how long it will hold; `None` until it is taken back.
    pub left: Option<Duration>,
}

/// Why a text of an order will not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadText {
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It is longer than it may be.
    #[error("it has {bytes} bytes, and {most} are allowed")]
    Long {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// It has line ends or other control characters in it.
    #[error("it has control characters in it: write one line")]
    Control,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    order: String,
    by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl Drain {
    /// Checks who orders something: 1 to [`BY_BYTES_MAX`] bytes, one line.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check_by(by: &str) -> Result<(), BadText> {
        check(by, BY_BYTES_MAX)
    }

    /// Checks a reason: 1 to [`WHY_BYTES_MAX`] bytes, one line.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check_why(why: &str) -> Result<(), BadText> {
        check(why, WHY_BYTES_MAX)
    }

    /// What is noted in the store when `by` orders it; both texts have been checked.
    pub fn encode(by: &str, why: Option<&str>) -> Vec<u8> {
        let wire = Wire {
            order: "drain".to_owned(),
            by: by.to_owned(),
            why: why.map(str::to_owned),
        };
        serde_json::to_vec(&wire).expect("texts are JSON")
    }

    /// What `order` says at `now` by the store's clock; `None` for an order of a later release.
    ///
    /// Anybody may write to the store, and an order that could not be published would keep all verdicts from being
    /// published: its texts are made to fit.
    pub fn of(order: &Order, now: Wall) -> Option<Self> {
        let wire: Wire = serde_json::from_slice(&order.said).ok()?;
        (wire.order == "drain").then(|| Self {
            by: fitting(&wire.by, BY_BYTES_MAX),
            why: wire.why.map(|why| fitting(&why, WHY_BYTES_MAX)),
            since: now.since(order.since),
            left: order.until.map(|until| until.since(now)),
        })
    }
}

fn check(text: &str, most: usize) -> Result<(), BadText> {
    if text.trim().is_empty() {
        return Err(BadText::Empty);
    }
    if text.len() > most {
        let bytes = text.len();
        return Err(BadText::Long { bytes, most });
    }
    if text.contains(char::is_control) {
        return Err(BadText::Control);
    }
    Ok(())
}

fn fitting(text: &str, most: usize) -> String {
    let mut text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.truncate(text.floor_char_boundary(most));
    text
}

#[cfg(test)]
mod tests {
    use tidegate_core::health::{Dimension, Estimate, Hold, Memory, Pull, State};
    use tidegate_core::session::Name;
    use tidegate_core::time::Mono;
    use tidegate_store::VERDICT_BYTES_MAX;

    use super::super::kept::Kept;
    use super::super::verdict::{Bound, Drained, Told};
    use super::*;

    #[test]
    fn texts_are_refused_with_their_bound() {
        assert_eq!(Drain::check_by("kim"), Ok(()));
        assert_eq!(Drain::check_by(""), Err(BadText::Empty));
        assert_eq!(Drain::check_why("  "), Err(BadText::Empty));
        assert_eq!(Drain::check_why("a\nb"), Err(BadText::Control));
        assert_eq!(Drain::check_why(&"w".repeat(WHY_BYTES_MAX)), Ok(()));
        let long = Drain::check_why(&"ü".repeat(121)).unwrap_err();
        assert_eq!(long.to_string(), "it has 242 bytes, and 240 are allowed");
    }

    #[test]
    fn whatever_stands_in_the_store_can_be_published() {
        for text in ["\"\\", "\u{1}\u{7f}", "🚧", "x"] {
            let text = text.repeat(4_000);
            let order = Order {
                node: Name::new("a").unwrap(),
                since: Wall::default(),
                until: None,
                said: Drain::encode(&text, Some(&text)),
            };
            let drain = Drain::of(&order, Wall::default()).unwrap();
            let mut told = Told::of(State::Saturated, 100).held(Some(Hold::Dependency));
            let memory = Memory {
                estimate: Some(Estimate {
                    rps: f64::MIN_POSITIVE,
                    at: Mono::default(),
                }),
                pull: Pull {
                    rps: Some(1.0 / 3.0),
                    ramp: Some(1.0 / 3.0),
                },
                put_back: Some(Mono::default()),
                weight: Some(100),
                ..Memory::default()
            };
            told.kept = Some(Kept::of(&memory, u64::MAX, Mono::MAX));
            told.left = Some(0.123);
            told.confidence = 0.456;
            (told.for_ms, told.age_ms) = (u64::MAX, Some(u64::MAX));
            told.binding = Some(Bound {
                dimension: Dimension::Downstream.name().to_owned(),
                value: Some(f64::MIN_POSITIVE),
                limit: Some(f64::MIN_POSITIVE),
                for_ms: u64::MAX,
            });
            told.drain = Some(Drained {
                by: drain.by,
                why: drain.why,
                since_ms: Some(u64::MAX),
                left_ms: Some(u64::MAX),
                is_done: false,
            });

            let bytes = told.encode().len();

            assert!(bytes <= VERDICT_BYTES_MAX, "{bytes}");
        }
    }
}
