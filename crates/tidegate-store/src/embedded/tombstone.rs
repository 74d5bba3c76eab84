//! What remembers that there was a session.

use tidegate_core::session::{Gone, SessionId, Uid};

use super::pairs;
use crate::ends::{Fate, Reason};

/// What remembers that there was a session under an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tombstone {
    pub(super) how: How,
    /// In milliseconds of the store's clock.
    pub(super) until_ms: u64,
}

/// How the session under the id ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum How {
    Destroyed {
        reason: Reason,
        uid: Option<Uid>,
    },
    Privilege {
        to: SessionId,
    },
    Habit {
        to: SessionId,
        successor: Vec<u8>,
        /// Until when the id leads to its successor, in milliseconds.
        leads_until_ms: u64,
    },
}

impl Tombstone {
    /// What holders of the id are told at `now_ms`.
    pub(super) fn gone(&self, now_ms: u64) -> Gone {
        match &self.how {
            _ if now_ms >= self.until_ms => Gone::Missing,
            How::Destroyed { .. } => Gone::Destroyed,
            How::Privilege { .. } => Gone::Replaced,
            How::Habit { leads_until_ms, .. } if now_ms >= *leads_until_ms => Gone::Missing,
            How::Habit { successor, .. } => Gone::Rotated {
                successor: successor.clone(),
            },
        }
    }

    /// What has become of the session.
    pub(super) fn fate(&self) -> Fate {
        match &self.how {
            How::Destroyed { reason, uid } => Fate::Ended {
                uid: uid.clone(),
                reason: *reason,
            },
            How::Privilege { to } | How::Habit { to, .. } => Fate::Moved { to: *to },
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let until = self.until_ms.to_string();
        let mut fields: Vec<(&str, Vec<u8>)> = vec![("until", until.into_bytes())];
        match &self.how {
            How::Destroyed { reason, uid } => {
                fields.push(("k", b"d".to_vec()));
                fields.push(("y", reason.name().into()));
                if let Some(uid) = uid {
                    fields.push(("u", uid.as_str().into()));
                }
            }
            How::Privilege { to } => {
                fields.push(("k", b"p".to_vec()));
                fields.push(("h", to.to_string().into_bytes()));
            }
            How::Habit {
                to,
                successor,
                leads_until_ms,
            } => {
                fields.push(("k", b"r".to_vec()));
                fields.push(("h", to.to_string().into_bytes()));
                fields.push(("n", successor.clone()));
                fields.push(("t", leads_until_ms.to_string().into_bytes()));
            }
        }
        pairs::encode(fields.iter().map(|(name, value)| (*name, &**value)))
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let fields = pairs::decode(bytes)?;
        let text = |name| pairs::text(&fields, name);
        let to = || SessionId::parse(text("h")?).ok();
        let how = match text("k")? {
            "d" => How::Destroyed {
                reason: Reason::parse(text("y")?)?,
                uid: text("u").map(Uid::new).transpose().ok()?,
            },
            "p" => How::Privilege { to: to()? },
            "r" => How::Habit {
                to: to()?,
                successor: pairs::field(&fields, "n")?.to_vec(),
                leads_until_ms: pairs::number(&fields, "t")?,
            },
            _ => return None,
        };
        Some(Self {
            how,
            until_ms: pairs::number(&fields, "until")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::session::SlotTag;

    #[test]
    fn a_tombstone_reads_back_and_leads_on_for_a_while() {
        let to = SessionId::new(SlotTag::from_bits(9), [b'A'; SessionId::HASH_LEN]).unwrap();
        let hows = [
            How::Destroyed {
                reason: Reason::SignedOut,
                uid: Some(Uid::new("ann").unwrap()),
            },
            How::Privilege { to },
            How::Habit {
                to,
                successor: vec![0, 1],
                leads_until_ms: 50,
            },
        ];
        let gone = hows.map(|how| {
            let tombstone = Tombstone { how, until_ms: 100 };
            assert_eq!(
                Tombstone::decode(&tombstone.encode()),
                Some(tombstone.clone())
            );
            [49, 50, 100].map(|now_ms| tombstone.gone(now_ms))
        });

        let missing = Gone::Missing;
        let leads = Gone::Rotated {
            successor: vec![0, 1],
        };
        assert_eq!(gone[0], [Gone::Destroyed, Gone::Destroyed, missing.clone()]);
        assert_eq!(gone[1], [Gone::Replaced, Gone::Replaced, missing.clone()]);
        assert_eq!(gone[2], [leads, missing.clone(), missing]);
    }
}
