//! What gateways and the leader tell each other once a second: each its report, the leader its word for all.
//!
//! Both are JSON with short names. A reader skips what it does not know, so that a later release may say more. A word is a line
//! of that, and behind it the room's document, byte for byte as every gateway serves it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidegate_core::room::{Brake, Longer, Policy, Tier};
use tidegate_core::time::{Mono, Wall};
use tidegate_store::Fence;

/// The version of what is written here.
const VERSION: u32 = 1;
/// Longest report and longest word, in bytes.
const REPORT_MAX: usize = 1_024;
const WORD_MAX: usize = 64 * 1_024;
/// So many gateways are named in a word. Others go on by themselves as if nobody had said which of all they are.
const NAMED_MAX: usize = 256;
/// A word that nobody has followed by another for so long counts no more.
const FRESH: Duration = Duration::from_secs(3);
/// Brakes by their numbers.
const BRAKES: [Brake; 5] = [
    Brake::Spare,
    Brake::RateMax,
    Brake::ActiveMax,
    Brake::Unheard,
    Brake::Lost,
];

/// What a gateway says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    v: u32,
    /// Drawn when its process started: what is counted since belongs to it.
    pub(super) life: u64,
    /// Who is inside.
    pub(super) active: u64,
    /// Their requests per second.
    pub(super) rps: f64,
    /// How many ever went in without having been called by a leader.
    pub(super) let_in: u64,
}

/// What a leader says of the line, and what holds at a gateway that nobody tells.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figures {
    /// Visitors per second at all gateways, and what keeps it from being more.
    pub(super) rate: f64,
    pub(super) brake: Brake,
    pub(super) load_each: f64,
    pub(super) no_shows: f64,
    pub(super) active: u64,
    /// Gateways that take part, and the first of them by name.
    pub(super) gateways: u32,
    pub(super) nodes: Vec<String>,
    pub(super) policy: Policy,
    pub(super) paused_since_ms: Option<u64>,
    pub(super) longer: Option<Longer>,
    /// By how much waits were off that were told, and what part was within its band.
    pub(super) error: Option<(f64, f64)>,
    pub(super) overshoot: f64,
    /// How many a leader has swept, by tier, and how many of them had waited for long.
    pub(super) slept: Slept,
    /// Somebody waits, and that was told.
    pub(super) is_queueing: bool,
}

/// How many a leader has swept since it leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slept {
    pub(super) tiers: [u64; Tier::COUNT],
    pub(super) aged: u64,
}

/// A leader's word.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Word {
    /// Which of its words it is: a later one is greater.
    pub(super) number: u64,
    pub(super) by: Arc<str>,
    pub(super) figures: Figures,
    /// Empty where it would have been too long.
    pub(super) document: Bytes,
}

/// The last word that was heard.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) fence: Fence,
    pub(super) word: Word,
    /// When it was said, by the clock here.
    pub(super) said: Mono,
}

/// A word's first line. Times are in milliseconds.
#[derive(Serialize, Deserialize)]
struct Wire {
    v: u32,
    n: u64,
    by: String,
    rate: f64,
    brake: u8,
    each: f64,
    absent: f64,
    active: u64,
    gateways: u32,
    nodes: Vec<String>,
    /// Stretch, floor, beat, grace.
    poll: [u64; 4],
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paused: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    longer: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    off: Option<(f64, f64)>,
    over: f64,
    slept: [u64; Tier::COUNT],
    aged: u64,
    queueing: bool,
}

impl Report {
    pub(super) const fn new(life: u64, active: u64, rps: f64, let_in: u64) -> Self {
        Self {
            v: VERSION,
            life,
            active,
            rps,
            let_in,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let bytes = serde_json::to_vec(self).expect("numbers are JSON");
        debug_assert!(bytes.len() <= REPORT_MAX, "{} bytes", bytes.len());
        bytes
    }

    /// What `bytes` say, if they are a report.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let report: Self = serde_json::from_slice(bytes).ok()?;
        (report.rps.is_finite() && report.rps >= 0.0).then_some(report)
    }
}

impl Word {
    pub(super) fn encode(&self) -> Vec<u8> {
        let figures = &self.figures;
        let Policy {
            stretch,
            floor,
            beat,
            grace,
        } = figures.policy;
        let brake = BRAKES.iter().position(|it| *it == figures.brake);
        let wire = Wire {
            v: VERSION,
            n: self.number,
            by: self.by.to_string(),
            rate: number(figures.rate),
            brake: brake.unwrap_or(0) as u8,
            each: number(figures.load_each),
            absent: number(figures.no_shows),
            active: figures.active,
            gateways: figures.gateways,
            nodes: figures.nodes.iter().take(NAMED_MAX).cloned().collect(),
            poll: [stretch, floor, beat, grace].map(millis),
            paused: figures.paused_since_ms,
            longer: figures
                .longer
                .map(|longer| u8::from(longer == Longer::Surge)),
            off: figures
                .error
                .map(|(mean, inside)| (number(mean), number(inside))),
            over: number(figures.overshoot),
            slept: figures.slept.tiers,
            aged: figures.slept.aged,
            queueing: figures.is_queueing,
        };
        let mut bytes = serde_json::to_vec(&wire).expect("finite numbers and texts are JSON");
        bytes.push(b'\n');
        // Without a document each gateway makes its own.
        if bytes.len() + self.document.len() <= WORD_MAX {
            bytes.extend_from_slice(&self.document);
        }
        bytes
    }

    /// What `bytes` say, if they are a word.
    pub(super) fn decode(bytes: Vec<u8>) -> Option<Self> {
        let bytes = Bytes::from(bytes);
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let wire: Wire = serde_json::from_slice(&bytes[..end]).ok()?;
        let numbers = [wire.rate, wire.each, wire.absent, wire.over];
        if !numbers.iter().all(|it| it.is_finite() && *it >= 0.0) {
            return None;
        }
        let [stretch, floor, beat, grace] = wire.poll.map(Duration::from_millis);
        let figures = Figures {
            rate: wire.rate,
            brake: *BRAKES.get(usize::from(wire.brake))?,
            load_each: wire.each,
            no_shows: wire.absent,
            active: wire.active,
            gateways: wire.gateways.max(1),
            nodes: wire.nodes,
            policy: Policy {
                stretch,
                floor,
                beat,
                grace,
            },
            paused_since_ms: wire.paused,
            longer: wire.longer.map(|longer| match longer {
                0 => Longer::Slower,
                _ => Longer::Surge,
            }),
            error: wire.off,
            overshoot: wire.over,
            slept: Slept {
                tiers: wire.slept,
                aged: wire.aged,
            },
            is_queueing: wire.queueing,
        };
        Some(Self {
            number: wire.n,
            by: wire.by.into(),
            figures,
            document: bytes.slice(end + 1..),
        })
    }
}

impl Told {
    /// Takes in the word on a board that was read at `now`, when the store's clock was at `there`. Whether it is news: a word of
    /// an earlier leader is none, and one that is repeated counts no longer for that.
    pub(super) fn hear(
        last: &mut Option<Self>,
        now: Mono,
        there: Wall,
        (fence, written, bytes): (Fence, Wall, Vec<u8>),
    ) -> bool {
        if last.as_ref().is_some_and(|last| fence < last.fence) {
            return false;
        }
        let Some(word) = Word::decode(bytes) else {
            return false;
        };
        let is_known = |last: &Self| (fence, word.number) <= (last.fence, last.word.number);
        if last.as_ref().is_some_and(is_known) {
            return false;
        }
        *last = Some(Self {
            fence,
            word,
            said: now.minus(there.since(written)),
        });
        true
    }

    /// Whether it still counts at `now`.
    pub(super) fn is_fresh(&self, now: Mono) -> bool {
        now.since(self.said) < FRESH
    }
}

impl Figures {
    /// Of a room that nobody has said anything of.
    pub(super) fn unknown(load_each: f64, policy: Policy) -> Self {
        Self {
            rate: 0.0,
            brake: Brake::Lost,
            load_each,
            no_shows: 0.0,
            active: 0,
            gateways: 1,
            nodes: Vec::new(),
            policy,
            paused_since_ms: None,
            longer: None,
            error: None,
            overshoot: 0.0,
            slept: Slept::default(),
            is_queueing: false,
        }
    }

    /// Which of all gateways `node` is, and how many there are.
    pub(super) fn seat(&self, node: &str) -> Option<(u32, u32)> {
        let index = self.nodes.iter().position(|name| name == node)?;
        Some((u32::try_from(index).ok()?, self.gateways))
    }
}

impl Slept {
    /// What has come to it since it was `before`; nothing if that was more.
    pub(super) fn since(self, before: Self) -> Self {
        let mut tiers = self.tiers;
        for (count, before) in tiers.iter_mut().zip(before.tiers) {
            *count = count.saturating_sub(before);
        }
        Self {
            tiers,
            aged: self.aged.saturating_sub(before.aged),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// JSON has no others.
const fn number(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(number: u64) -> Word {
        let policy = Policy {
            stretch: Duration::from_millis(1_500),
            floor: Duration::ZERO,
            beat: Duration::from_secs(45),
            grace: Duration::from_secs(160),
        };
        Word {
            number,
            by: "gw1".into(),
            figures: Figures {
                rate: 12.5,
                brake: Brake::ActiveMax,
                gateways: 2,
                nodes: vec!["gw1".to_owned(), "gw2".to_owned()],
                paused_since_ms: Some(1_790_000_000_000),
                longer: Some(Longer::Surge),
                error: Some((0.08, 0.8)),
                slept: Slept {
                    tiers: [1, 2, 3],
                    aged: 4,
                },
                is_queueing: true,
                ..Figures::unknown(0.75, policy)
            },
            document: Bytes::from_static(b"{\"v\":1,\n\"room\":\"shop\"}"),
        }
    }

    fn board(fence: u64, word: &Word) -> (Fence, Wall, Vec<u8>) {
        (Fence(fence), Wall::from_micros(7_000_000), word.encode())
    }

    #[test]
    fn a_word_is_heard_as_it_was_said() {
        let heard = Word::decode(word(7).encode()).unwrap();

        assert_eq!(heard, word(7));
        assert_eq!(heard.figures.seat("gw2"), Some((1, 2)));
        assert_eq!(heard.figures.seat("gw3"), None);
    }

    #[test]
    fn a_word_is_never_longer_than_it_may_be() {
        let mut long = word(1);
        long.figures.nodes = (0..5_000).map(|number| format!("{number:064}")).collect();
        long.document = Bytes::from(vec![b'x'; WORD_MAX]);

        let bytes = long.encode();

        assert!(bytes.len() <= WORD_MAX, "{}", bytes.len());
        let heard = Word::decode(bytes).unwrap();
        assert!(heard.document.is_empty());
        assert_eq!(heard.figures.nodes.len(), NAMED_MAX);
    }

    #[test]
    fn what_is_no_word_and_no_report_is_ignored() {
        let none = [&b""[..], b"\n", b"{}\n{}", b"[]\n", b"\xff\n"];
        for odd in none {
            assert_eq!(Word::decode(odd.to_vec()), None);
            assert_eq!(Report::decode(odd), None);
        }
        let negative = Report::new(1, 2, -1.0, 3);
        assert_eq!(Report::decode(&negative.encode()), None);
        let later = br#"{"v":9,"life":1,"active":2,"rps":3.5,"let_in":4,"more":[]}"#;
        let report = Report::decode(later).unwrap();
        assert_eq!((report.life, report.rps), (1, 3.5));
    }

    #[test]
    fn a_word_that_is_repeated_is_over_and_one_of_an_earlier_leader_is_none() {
        let at = |second: u64| (Mono::from_millis(1_000 * second), second * 1_000_000);
        let mut last = None;
        let mut hear = |second: u64, fence, number| {
            let (now, there) = at(second);
            let there = Wall::from_micros(there);
            Told::hear(&mut last, now, there, board(fence, &word(number)))
        };

        // Written when the store's clock was at seven.
        assert!(hear(8, 5, 1));
        assert!(!hear(9, 5, 1));
        assert!(!hear(9, 4, 9));
        assert!(hear(9, 5, 2));
        assert!(hear(9, 6, 1));
        assert!(!hear(9, 5, 3));

        let last = last.unwrap();
        assert_eq!((last.fence, last.word.number), (Fence(6), 1));
        assert!(last.is_fresh(at(9).0));
        assert!(!last.is_fresh(at(10).0), "three seconds after it was said");
    }

    #[test]
    fn what_was_swept_meanwhile_is_the_difference() {
        let slept = |count| Slept {
            tiers: [count, 0, 2 * count],
            aged: count,
        };

        assert_eq!(slept(5).since(slept(3)), slept(2));
        assert_eq!(slept(1).since(slept(3)), Slept::default());
    }
}
