//! The room's document as a page reads it.

use std::time::Duration;

use serde::Deserialize;
use tidegate_core::room::{Marks, Order, Place, Positions, Tier};
use tidegate_lab::load::Request;

use super::ROOM;
use super::pool::Pool;

/// What everybody is told of the room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    positions: Positions,
    eta: Vec<[u64; 4]>,
    poll: Poll,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Poll {
    least_s: f64,
    most_s: f64,
    part: f64,
    floor_s: f64,
    beat_s: f64,
    near: u64,
}

#[derive(Deserialize)]
struct Written {
    credit_ms: Option<[u64; Tier::COUNT]>,
    tiers: [WrittenMarks; Tier::COUNT],
    eta: Vec<[u64; 4]>,
    poll: Poll,
}

#[derive(Deserialize)]
struct WrittenMarks {
    waiting: u64,
    step: u64,
    places: Vec<u64>,
}

impl Document {
    /// Reads it.
    pub(crate) async fn read(pool: &Pool) -> anyhow::Result<Self> {
        let answer = pool
            .ask(&Request::get(&format!("/.tidegate/v1/room/{ROOM}.json")))
            .await?;
        anyhow::ensure!(
            answer.status == 200,
            "the document is answered {}",
            answer.status
        );
        Self::parse(&answer.body)
    }

    fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let written: Written = serde_json::from_slice(bytes)?;
        let tiers = written.tiers.map(|marks| Marks {
            waiting: marks.waiting,
            step: marks.step,
            places: marks.places.into_iter().map(Place).collect(),
        });
        Ok(Self {
            positions: Positions {
                order: written.credit_ms.map_or(Order::Strict, Order::Credit),
                tiers,
            },
            eta: written.eta,
            poll: written.poll,
        })
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.positions.waiting()
    }

    /// How many go before somebody.
    pub(crate) fn ahead(&self, (tier, place): (Tier, Place)) -> u64 {
        self.positions.ahead(tier, place)
    }

    /// Whether somebody with so many ahead asks for their own document with every look.
    pub(crate) const fn is_near(&self, ahead: u64) -> bool {
        ahead < self.poll.near
    }

    /// When somebody with so many ahead looks again, without what chance adds.
    pub(crate) fn interval(&self, ahead: u64) -> Duration {
        let poll = &self.poll;
        let row = self.eta.iter().rfind(|row| row[0] <= ahead);
        let seconds = match row {
            Some(row) => (row[2] as f64 / poll.part.max(1.0))
                .clamp(poll.least_s, poll.most_s.max(poll.least_s)),
            None => poll.most_s,
        };
        Duration::from_secs_f64(seconds.max(poll.floor_s).clamp(0.5, 300.0))
    }

    /// How often a sign of life is due.
    pub(crate) fn beat(&self) -> Duration {
        Duration::from_secs_f64(self.poll.beat_s.clamp(1.0, 600.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_says_how_many_are_ahead_and_when_to_look_again() {
        let text = r#"{"v":1,"room":"shop","server_now_ms":7,"phase":"auto","epoch":5,"credit_ms":null,"tiers":[
            {"waiting":60,"step":50,"places":[10,200]},{"waiting":0,"step":50,"places":[]},
            {"waiting":100,"step":50,"places":[5,300]}],"called_per_min":60.0,"eta":[[0,0,0,0],[100,90,100,120]],
            "paused_since_ms":null,"reason":"surge","message":null,"stock":null,"event":null,"min_iat_ms":null,
            "poll":{"least_s":2.0,"most_s":30.0,"part":20.0,"floor_s":0.0,"jitter":0.3,"spread_s":1.0,"beat_s":45.0,"near":20}}"#;

        let document = Document::parse(text.as_bytes()).unwrap();

        assert_eq!(document.waiting(), 160);
        assert_eq!(document.ahead((Tier::Anonymous, Place(300))), 110);
        assert_eq!(document.interval(110), Duration::from_secs(5));
        assert_eq!(document.interval(50), Duration::from_secs(2));
        assert!(document.is_near(19) && !document.is_near(20));
    }
}
