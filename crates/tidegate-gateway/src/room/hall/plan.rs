//! A waiting room as it is configured, already checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;
use tidegate_core::rate::Spec;
use tidegate_core::room::{Bounds, Budget, Order, Phase, Rules};
use tidegate_page::{Language, Theme};

use crate::room::{Keys, TokensPlan};

/// A waiting room.
#[derive(Clone, Debug)]
pub struct RoomPlan {
    /// How its tokens are made. The room's name is in it.
    pub tokens: TokensPlan,
    /// Where the keys are, for who starts the gateway: they are in `keys` by then.
    pub key_file: PathBuf,
    /// The keys.
    pub keys: Keys,
    /// What it does until an operator says otherwise.
    pub phase: Phase,
    /// Who goes before whom.
    pub order: Order,
    /// Between what the rate moves.
    pub bounds: Bounds,
    /// What a visitor is taken to bring until it is learnt, in requests per second.
    pub load_each: f64,
    /// What holds for every place.
    pub rules: Rules,
    /// How long somebody who was called has to come in, and as long again each time they ask for more.
    pub claim_within: Duration,
    /// How often they may ask for more, 0 to 9.
    pub extensions_max: u8,
    /// How often all pages together may ask this gateway.
    pub asks: Budget,
    /// What happens while the store is away.
    pub on_store_loss: OnRoomLoss,
    /// Places that one network (a /24 or a /48) may take, at this gateway; `None` for any number.
    pub joins: Option<Spec>,
    /// The status of the page for who visits.
    pub page_status: StatusCode,
    /// How the page looks.
    pub theme: Theme,
    /// What is said to all who wait, until an operator says something else.
    pub message: Option<BTreeMap<Language, String>>,
    /// What begins at a time, if anything does.
    pub event: Option<EventPlan>,
    /// The file that keeps epoch and phase over a restart of everything; `None` for nowhere.
    pub state: Option<PathBuf>,
    /// The file that orders of operators are written to; `None` for nowhere.
    pub audit: Option<PathBuf>,
    /// Who is told of what happens.
    pub webhooks: Vec<WebhookPlan>,
}

/// What a room does while its store is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRoomLoss {
    /// Each gateway lets in those who come to it, in their order, at four fifths of its part of the last rate.
    #[default]
    LocalBudget,
    /// Nobody is let in.
    Hold,
    /// After so long everybody passes.
    Open {
        /// How long nobody is let in before that.
        after: Duration,
    },
}

/// Something that begins at a time: until then the room is in the phase `prequeue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPlan {
    /// When, in milliseconds since 1970.
    pub starts_ms: u64,
    /// How long before that the room begins to take people.
    pub opens_before: Duration,
}

/// Who is told of what happens, by a signed `POST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookPlan {
    /// Where: an `http://` URL, in parts.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its path and query, `/` at least.
    pub path: String,
    /// Where the secret is that signs it, for who starts the gateway.
    pub secret_file: PathBuf,
    /// The secret.
    pub secret: Vec<u8>,
}
