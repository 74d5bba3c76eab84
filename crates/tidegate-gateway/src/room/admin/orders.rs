//! What is ordered of a room, as it is written in JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Map, Value};
use tidegate_core::room::{Phase, Place, Tier};
use tidegate_page::Language;
use tidegate_page::document::Reason;

use super::wrong::Wrong;
use crate::room::PassId;
use crate::room::hall::RoomOrder;
use crate::room::herald::{BY_BYTES_MAX, WHY_BYTES_MAX};

/// Longest text of a message in one language, in characters.
const TEXT_CHARS_MAX: usize = 500;
/// Longest message in all its languages as JSON, in bytes.
const MESSAGE_BYTES_MAX: usize = 8 * 1_024;
/// The last whole number that every reader of JSON takes as it is.
const NUMBER_MAX: u64 = (1 << 53) - 1;
/// How far ahead of now passes may be taken back: for what is renewed meanwhile.
const AHEAD_S_MAX: u64 = 60;

/// What can be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Phase,
    Stock,
    Message,
    Close,
    Turn,
    Promote,
    Revoke,
}

/// An order that makes sense.
pub(super) struct Order {
    pub(super) order: RoomOrder,
    /// The phase that it sets, `Some(None)` being the configured one; `None` where it sets none.
    pub(super) phase: Option<Option<Phase>>,
    /// What it is, in words.
    pub(super) what: String,
    /// Who orders it.
    pub(super) by: String,
    /// Why, in their words.
    pub(super) why: Option<String>,
}

/// What an order is judged by.
pub(super) struct Moment {
    /// Seconds since 1970.
    pub(super) now_s: u64,
    /// How long a pass lives at most.
    pub(super) pass_absolute: Duration,
}

/// The members of an order.
struct Members(Map<String, Value>);

impl Verb {
    /// All of them with their last segment of a path, and the members that each has besides `by` and `why`.
    const ALL: [(Self, &'static str, &'static [&'static str]); 7] = [
        (Self::Phase, "phase", &["phase"]),
        (Self::Stock, "stock", &["stock"]),
        (Self::Message, "message", &["message"]),
        (Self::Close, "close", &["reason"]),
        (Self::Turn, "turn", &[]),
        (Self::Promote, "promote", &["place", "tier"]),
        (Self::Revoke, "revoke", &["before_s", "pass", "absolute_s"]),
    ];

    /// The one that is called so in a path.
    pub(super) fn of(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known, _)| *known == name);
        found.map(|(verb, ..)| *verb)
    }

    /// How it is sent: what sets something with `PUT`, what happens once with `POST`.
    pub(super) const fn method(self) -> Method {
        match self {
            Self::Phase | Self::Stock | Self::Message => Method::PUT,
            Self::Close | Self::Turn | Self::Promote | Self::Revoke => Method::POST,
        }
    }

    fn members(self) -> &'static [&'static str] {
        let found = Self::ALL.iter().find(|(verb, ..)| *verb == self);
        found.map_or(&[], |(.., members)| *members)
    }
}

impl Order {
    /// What `body` orders.
    pub(super) fn read(verb: Verb, body: &[u8], moment: &Moment) -> Result<Self, Wrong> {
        let members = Members::of(body)?;
        members.only(verb)?;
        let by = members.line("by", BY_BYTES_MAX)?;
        let by = by.ok_or_else(|| members.wrong("by", "who orders it is missing", LINE_FIX))?;
        let why = members.line("why", WHY_BYTES_MAX)?;
        let (order, what) = match verb {
            Verb::Phase => {
                let phase = members.phase()?;
                let what = phase.map_or("the configured phase", Phase::name);
                (RoomOrder::Phase(phase), format!("phase: {what}"))
            }
            Verb::Close => {
                let (reason, name) = members.reason()?;
                (RoomOrder::Close(reason), format!("close: {name}"))
            }
            Verb::Stock => {
                let stock = members.number_or_null("stock")?;
                let what = stock.map_or_else(|| "not told".to_owned(), |stock| stock.to_string());
                (RoomOrder::Stock(stock), format!("stock: {what}"))
            }
            Verb::Message => {
                let message = members.message()?;
                let what = said(message.as_ref());
                (RoomOrder::Message(message), format!("message: {what}"))
            }
            Verb::Turn => (RoomOrder::Turn, "turn: a new line".to_owned()),
            Verb::Promote => {
                let place = members.number("place", 0, NUMBER_MAX)?;
                let (tier, number) = members.tier()?;
                let what = format!("promote: place {place} to tier {number}");
                (RoomOrder::Promote(Place(place), tier), what)
            }
            Verb::Revoke => members.revoked(moment)?,
        };
        let phase = match &order {
            RoomOrder::Phase(phase) => Some(*phase),
            RoomOrder::Close(_) => Some(Some(Phase::Closed)),
            _ => None,
        };
        // A room that is closed is in the phase `closed`, and why says nothing of how: so that goes before it.
        let why = match (verb, why) {
            (Verb::Close, None) => Some(what.clone()),
            (Verb::Close, Some(why)) => Some(format!("{what}; {why}")),
            (_, why) => why,
        };
        Ok(Self {
            order,
            phase,
            what,
            by,
            why,
        })
    }
}

const LINE_FIX: &str = "a text of one line, such as your name";

impl Members {
    fn of(body: &[u8]) -> Result<Self, Wrong> {
        let read = if body.is_empty() {
            Ok(Map::new())
        } else {
            serde_json::from_slice(body)
        };
        read.map(Self).map_err(|error| {
            Wrong::new(
                StatusCode::BAD_REQUEST,
                "invalid",
                &format!("the body is no JSON object: {error}"),
                "write an object, such as {\"phase\":\"hold\",\"by\":\"kim\"}",
            )
        })
    }

    /// Refuses members that the order does not have: a misspelt one would be taken for one that is not there.
    fn only(&self, verb: Verb) -> Result<(), Wrong> {
        let known = || verb.members().iter().chain(&["by", "why"]);
        let Some(name) = (self.0.keys()).find(|name| known().all(|known| known != name)) else {
            return Ok(());
        };
        let known: Vec<&str> = known().copied().collect();
        Err(Wrong::field(
            "body",
            Some(&name.as_str().into()),
            "it has a member that the order does not have",
            format!("it has {}", known.join(", ")),
        ))
    }

    fn wrong(&self, field: &'static str, detail: &str, fix: impl Into<String>) -> Wrong {
        Wrong::field(field, self.0.get(field), detail, fix)
    }

    /// A text of one line; `None` where it is missing or null.
    fn line(&self, field: &'static str, most: usize) -> Result<Option<String>, Wrong> {
        let text = match self.0.get(field) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text,
            Some(_) => return Err(self.wrong(field, "it is no text", LINE_FIX)),
        };
        if text.trim().is_empty() {
            return Err(self.wrong(field, "it is empty", LINE_FIX));
        }
        if text.len() > most {
            let detail = format!("it has {} bytes", text.len());
            return Err(self.wrong(field, &detail, format!("{most} bytes are the most")));
        }
        if text.contains(char::is_control) {
            return Err(self.wrong(field, "it has control characters in it", LINE_FIX));
        }
        Ok(Some(text.clone()))
    }

    fn phase(&self) -> Result<Option<Phase>, Wrong> {
        const FIX: &str =
            "off, auto, queue-all, hold, prequeue or drain; or null for what is configured";
        let name = match self.0.get("phase") {
            Some(Value::Null) => return Ok(None),
            Some(Value::String(name)) => name,
            None => return Err(self.wrong("phase", "it is missing", FIX)),
            Some(_) => return Err(self.wrong("phase", "it is no text", FIX)),
        };
        match Phase::parse(name) {
            Some(Phase::Closed) => {
                let fix = "POST /rooms/NAME/close, which says why, too";
                Err(self.wrong("phase", "a room is closed for a reason", fix))
            }
            Some(phase) => Ok(Some(phase)),
            None => Err(self.wrong("phase", "there is no such phase", FIX)),
        }
    }

    fn reason(&self) -> Result<(Reason, &'static str), Wrong> {
        match self.0.get("reason").and_then(Value::as_str) {
            Some("sold-out") => Ok((Reason::SoldOut, "sold-out")),
            Some("ended") => Ok((Reason::Ended, "ended")),
            _ => Err(self.wrong("reason", "it is no reason to close", "sold-out or ended")),
        }
    }

    fn tier(&self) -> Result<(Tier, u64), Wrong> {
        let number = self.number("tier", 1, 2)?;
        let tier = Tier::of_number(number);
        let tier = tier.ok_or_else(|| self.wrong("tier", "there is no such tier", "1 or 2"))?;
        Ok((tier, number))
    }

    fn number(&self, field: &'static str, least: u64, most: u64) -> Result<u64, Wrong> {
        let number = self.0.get(field).and_then(Value::as_u64);
        let number = number.filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| {
            let fix = format!("a whole number from {least} to {most}");
            self.wrong(field, "it is no such number", fix)
        })
    }

    fn number_or_null(&self, field: &'static str) -> Result<Option<u64>, Wrong> {
        if self.0.get(field) == Some(&Value::Null) {
            return Ok(None);
        }
        self.number(field, 0, NUMBER_MAX).map(Some)
    }

    fn message(&self) -> Result<Option<BTreeMap<Language, String>>, Wrong> {
        const FIELD: &str = "message";
        const FIX: &str = "an object of languages and texts, such as {\"en\":\"Doors open at ten.\"}; or null for none";
        let texts = match self.0.get(FIELD) {
            Some(Value::Null) => return Ok(None),
            Some(Value::Object(texts)) if !texts.is_empty() => texts,
            Some(_) => return Err(self.wrong(FIELD, "it is no object with texts", FIX)),
            None => return Err(self.wrong(FIELD, "it is missing", FIX)),
        };
        let mut message = BTreeMap::new();
        for (tag, text) in texts {
            let Some(language) = Language::of_tag(tag) else {
                let known = Language::ALL.map(Language::tag).join(", ");
                let detail = format!("{tag:?} is no language of the page");
                return Err(self.wrong(FIELD, &detail, format!("there are {known}")));
            };
            let bad = |detail: String, fix: &str| Err(self.wrong(FIELD, &detail, fix));
            let Some(text) = text.as_str().filter(|text| !text.trim().is_empty()) else {
                return bad(format!("{tag} has no text"), FIX);
            };
            let chars = text.chars().count();
            if chars > TEXT_CHARS_MAX {
                let fix = format!("{TEXT_CHARS_MAX} characters are the most");
                return bad(format!("{tag} has {chars} characters"), &fix);
            }
            if text.contains(|letter: char| letter.is_control() && letter != '\n') {
                let fix = "write plain text: line ends are all that it may have";
                return bad(format!("{tag} has control characters in it"), fix);
            }
            if message.insert(language, text.to_owned()).is_some() {
                let fix = "write each language once, without its country";
                return bad(format!("{tag} is a language that it has already"), fix);
            }
        }
        let bytes = serde_json::to_vec(&message).map_or(usize::MAX, |json| json.len());
        if bytes > MESSAGE_BYTES_MAX {
            let detail = format!("it has {bytes} bytes in all languages");
            let fix = format!("{MESSAGE_BYTES_MAX} bytes are the most");
            return Err(self.wrong(FIELD, &detail, fix));
        }
        Ok(Some(message))
    }

    fn revoked(&self, moment: &Moment) -> Result<(RoomOrder, String), Wrong> {
        const FIX: &str = "either before_s, for all passes of an earlier second, or pass, for one";
        match (self.0.get("before_s"), self.0.get("pass")) {
            (Some(_), None) => {
                if self.0.contains_key("absolute_s") {
                    let detail = "it is the end of one pass, and all are meant";
                    return Err(self.wrong("absolute_s", detail, "leave it out"));
                }
                let most = moment.now_s.saturating_add(AHEAD_S_MAX);
                let before = self.second("before_s", 1, most)?;
                let what = format!("revoke: passes from before second {before}");
                Ok((RoomOrder::RevokeBefore(before), what))
            }
            (None, Some(pass)) => {
                let id = pass.as_str().and_then(PassId::read).ok_or_else(|| {
                    let fix = "its jti: 22 characters";
                    self.wrong("pass", "it is no id of a pass", fix)
                })?;
                // Later than that none ends that there is now, by whichever clock.
                let last = moment.now_s + moment.pass_absolute.as_secs() + AHEAD_S_MAX;
                let until = match self.0.get("absolute_s") {
                    None | Some(Value::Null) => u32::try_from(last).unwrap_or(u32::MAX),
                    Some(_) => self.second("absolute_s", moment.now_s, last)?,
                };
                Ok((RoomOrder::Revoke(id, until), format!("revoke: pass {id}")))
            }
            (None, None) => Err(self.wrong("before_s", "it is missing, and so is pass", FIX)),
            (Some(_), Some(_)) => Err(self.wrong("before_s", "pass is there as well", FIX)),
        }
    }

    /// A second since 1970, as tokens have it.
    fn second(&self, field: &'static str, least: u64, most: u64) -> Result<u32, Wrong> {
        let second = self.number(field, least, most.min(u64::from(u32::MAX)))?;
        u32::try_from(second)
            .map_err(|_| self.wrong(field, "it is no such second", "a second since 1970"))
    }
}

/// A message in one line.
fn said(message: Option<&BTreeMap<Language, String>>) -> String {
    let Some(message) = message else {
        return "none".to_owned();
    };
    let texts = message.iter();
    let texts = texts.map(|(language, text)| format!("{}: {text}", language.tag()));
    texts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
