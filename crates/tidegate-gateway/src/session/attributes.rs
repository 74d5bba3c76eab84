//! What the application is told of the session, in headers of the request.
//!
//! Values go as they are, but for what no header can carry and the percent sign itself, which are
//! percent-encoded as in a URL.

use std::fmt::Write as _;

use bytes::{BufMut as _, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_core::session::Format;
use tidegate_store::desk::{Seen, Standing};

use crate::session::plan::Exposed;

/// What the application is told of the session as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The store vouches for it.
    Ok,
    /// There is none yet; what the application sets begins one.
    New,
    /// The store is away: what is told may be old, or all there is.
    Degraded,
    /// The store had lost it and was given it again.
    Recovered,
}

/// Bytes that the values and names of attributes may take together.
const ATTRIBUTES_BYTES_MAX: usize = 8 * 1024;

const SESSION: HeaderName = HeaderName::from_static("tidegate-session");
const VERSION: HeaderName = HeaderName::from_static("tidegate-session-version");
const STATE: HeaderName = HeaderName::from_static("tidegate-session-state");
const OMITTED: HeaderName = HeaderName::from_static("tidegate-session-omitted");
const UID: HeaderName = HeaderName::from_static("tidegate-uid");
const TIER: HeaderName = HeaderName::from_static("tidegate-tier");

impl State {
    pub(crate) const fn of(standing: Standing) -> Self {
        match standing {
            Standing::Live => Self::Ok,
            Standing::Cached | Standing::FromTicket | Standing::Local => Self::Degraded,
            Standing::Recovered => Self::Recovered,
        }
    }

    /// Tells the application.
    pub(crate) fn tell(self, headers: &mut HeaderMap) {
        let text = match self {
            Self::Ok => "ok",
            Self::New => "new",
            Self::Degraded => "degraded",
            Self::Recovered => "recovered",
        };
        headers.insert(STATE, HeaderValue::from_static(text));
    }
}

/// Tells the application who `seen` is, and what of it is `exposed`. Returns how many values there
/// was no room for; they are named in `Tidegate-Session-Omitted`, with those that lie out of line,
/// so that what is not told is not taken for what is not there.
pub(crate) fn tell(seen: &Seen, exposed: &Exposed, headers: &mut HeaderMap) -> u64 {
    State::of(seen.standing).tell(headers);
    let session = &seen.session;
    insert(headers, SESSION, seen.id.to_string().into_bytes());
    insert(headers, VERSION, session.version().to_string().into_bytes());
    if let Some(uid) = session.uid() {
        insert(headers, UID, encoded(uid.as_str().as_bytes()));
    }
    if let Some(tier) = session.tier() {
        insert(headers, TIER, tier.as_str().as_bytes().to_vec());
    }

    let mut room = ATTRIBUTES_BYTES_MAX;
    let (mut omitted, mut dropped) = (BytesMut::new(), 0);
    for (name, header) in exposed.iter() {
        let value = match (session.attribute(name), session.counter(name)) {
            (Some(attribute), _) if attribute.value.format == Format::Pointer => None,
            (Some(attribute), _) => Some(encoded(&attribute.value.bytes)),
            (None, Some(count)) => Some(count.to_string().into_bytes()),
            (None, None) => continue,
        };
        let size = value
            .as_ref()
            .map_or(0, |value| value.len() + header.as_str().len());
        match value {
            Some(value) if size <= room => {
                room -= size;
                insert(headers, header.clone(), value);
            }
            left => {
                dropped += u64::from(left.is_some());
                if !omitted.is_empty() {
                    omitted.put_slice(b", ");
                }
                omitted.put_slice(name.as_str().as_bytes());
            }
        }
    }
    if !omitted.is_empty() {
        insert(headers, OMITTED, omitted.to_vec());
    }
    dropped
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: Vec<u8>) {
    let value = HeaderValue::from_maybe_shared(bytes::Bytes::from(value));
    headers.insert(name, value.expect("it is plain ASCII"));
}

/// `bytes` as a header can carry them, blanks at the ends included.
fn encoded(bytes: &[u8]) -> Vec<u8> {
    let last = bytes.len().saturating_sub(1);
    let as_it_is = |(index, &byte): (usize, &u8)| match byte {
        b'%' => false,
        b' ' => index > 0 && index < last,
        _ => byte.is_ascii_graphic(),
    };
    if bytes.iter().enumerate().all(as_it_is) {
        return bytes.to_vec();
    }
    let mut text = String::with_capacity(bytes.len() * 2);
    for (index, byte) in bytes.iter().enumerate() {
        if as_it_is((index, byte)) {
            text.push(char::from(*byte));
        } else {
            write!(text, "%{byte:02X}").expect("a string takes what is written to it");
        }
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tidegate_core::session::{
        Attribute, Found, Head, Name, Principal, SessionId, Uid, Value, Version,
    };
    use tidegate_core::time::Wall;
    use tidegate_store::desk::Session;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn seen(attributes: &[(&str, Format, &[u8])], exposed: &Exposed) -> Seen {
        let attributes = attributes.iter().map(|(text, format, bytes)| {
            let (format, bytes) = (*format, bytes.to_vec());
            let version = Version(7);
            let value = Value { format, bytes };
            (name(text), Attribute { version, value })
        });
        let wall = Wall::from_micros(5);
        Seen {
            id: SessionId::parse("abcd.ABCDEFGHIJKLMNOPQRSTUV").unwrap(),
            session: Arc::new(Session {
                head: Head {
                    version: Version(17),
                    created: wall,
                    last_used: wall,
                    idle: Duration::from_secs(60),
                    deadline: wall,
                    absolute: wall,
                    principal: Some(Principal {
                        uid: Uid::new("anna \u{e4}").unwrap(),
                        tier: Some(name("gold")),
                        epoch: 0,
                    }),
                    bytes: 0,
                },
                fields: exposed.fields().clone(),
                found: Found {
                    attributes: attributes.collect(),
                    counters: vec![(name("visits"), -3)],
                },
            }),
            standing: Standing::Live,
            now: wall,
            deadline: wall,
        }
    }

    #[test]
    fn the_application_learns_who_it_is_and_what_the_plan_exposes() {
        let exposed = Exposed::new(&[name("cart"), name("visits"), name("none")]).unwrap();
        let seen = seen(
            &[
                ("cart", Format::Json, b" {\"a\": 1}%\n"),
                ("secret", Format::Text, b"x"),
            ],
            &exposed,
        );
        let mut headers = HeaderMap::new();

        let dropped = tell(&seen, &exposed, &mut headers);

        assert_eq!(dropped, 0);
        assert_eq!(headers["tidegate-session"], "abcd.ABCDEFGHIJKLMNOPQRSTUV");
        assert_eq!(headers["tidegate-session-version"], "0000000000000017");
        assert_eq!(headers["tidegate-session-state"], "ok");
        assert_eq!(headers["tidegate-uid"], "anna %C3%A4");
        assert_eq!(headers["tidegate-tier"], "gold");
        assert_eq!(headers["tidegate-attr-cart"], "%20{\"a\": 1}%25%0A");
        assert_eq!(headers["tidegate-attr-visits"], "-3");
        assert_eq!(headers.len(), 7);
    }

    #[test]
    fn what_there_is_no_room_for_is_named() {
        let exposed = Exposed::new(&[name("big"), name("out"), name("small")]).unwrap();
        let big = vec![b'x'; ATTRIBUTES_BYTES_MAX];
        let attributes = [
            ("big", Format::Text, &big[..]),
            ("out", Format::Pointer, b"b,1,s"),
            ("small", Format::Text, b"s"),
        ];
        let mut headers = HeaderMap::new();

        let dropped = tell(&seen(&attributes, &exposed), &exposed, &mut headers);

        assert_eq!(dropped, 1);
        assert_eq!(headers["tidegate-session-omitted"], "big, out");
        assert_eq!(headers["tidegate-attr-small"], "s");
        assert!(!headers.contains_key("tidegate-attr-big"));
    }
}
