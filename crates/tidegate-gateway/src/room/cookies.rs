//! Where tokens are in a request, and the cookies that give them.
//!
//! A browser has them in cookies of a room, an application of its own in headers. Whoever sends both sends the same.

use std::time::Duration;

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_core::room::RoomName;
use tidegate_http::names::{TIDEGATE_DEVICE, TIDEGATE_PASS, TIDEGATE_TICKET};

use super::why::Ambiguous;
use crate::session::{Transport, cookie_line, cookies};

/// For how long a browser keeps a ticket, and the secret of its device: as long as an epoch lasts at most.
pub const KEPT: Duration = Duration::from_secs(86_400);

/// The names of a room's cookies.
pub(super) struct Names {
    transport: Transport,
    ticket: String,
    pass: String,
    device: &'static str,
}

/// What a request has of them, as it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found<'r> {
    pub(super) ticket: Option<&'r [u8]>,
    pub(super) pass: Option<&'r [u8]>,
    pub(super) device: Option<&'r [u8]>,
}

impl Names {
    /// Those of `room`.
    pub(super) fn of(room: &RoomName, transport: Transport) -> Self {
        let (prefix, device) = match transport {
            Transport::Tls => ("__Host-", "__Host-tgd"),
            Transport::Insecure => ("", "tgd"),
        };
        Self {
            transport,
            ticket: format!("{prefix}tgq-{room}"),
            pass: format!("{prefix}tga-{room}"),
            device,
        }
    }

    /// What `headers` have.
    pub(super) fn find<'r>(&self, headers: &'r HeaderMap) -> Result<Found<'r>, Ambiguous> {
        let mut found = Found::default();
        let lines = headers.get_all(COOKIE).iter();
        for (name, value) in lines.flat_map(|line| cookies(line.as_bytes())) {
            let place = if name == self.ticket.as_bytes() {
                (&mut found.ticket, "ticket")
            } else if name == self.pass.as_bytes() {
                (&mut found.pass, "pass")
            } else if name == self.device.as_bytes() {
                (&mut found.device, "device")
            } else {
                continue;
            };
            put(place.0, value, place.1)?;
        }
        let shown = |name: &HeaderName, place: &mut Option<&'r [u8]>, what| {
            let mut lines = headers.get_all(name).iter();
            lines.try_for_each(|line| put(place, line.as_bytes(), what))
        };
        shown(&TIDEGATE_TICKET, &mut found.ticket, "ticket")?;
        shown(&TIDEGATE_PASS, &mut found.pass, "pass")?;
        shown(&TIDEGATE_DEVICE, &mut found.device, "device")?;
        Ok(found)
    }

    /// Whether a cookie of this name is one of them.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        let own = [&*self.ticket, &*self.pass, self.device];
        own.iter().any(|own| own.as_bytes() == name)
    }

    /// Gives a browser a ticket.
    pub(super) fn give_ticket(&self, text: &str) -> HeaderValue {
        self.line(&self.ticket, text, KEPT)
    }

    /// Gives a browser a pass that is good for so long.
    pub(super) fn give_pass(&self, text: &str, life: Duration) -> HeaderValue {
        self.line(&self.pass, text, life)
    }

    /// Gives a browser the secret of its device.
    pub(super) fn give_device(&self, text: &str) -> HeaderValue {
        self.line(self.device, text, KEPT)
    }

    /// Takes ticket and pass away.
    pub(super) fn take(&self) -> [HeaderValue; 2] {
        [&self.ticket, &self.pass].map(|name| self.line(name, "", Duration::ZERO))
    }

    fn line(&self, name: &str, value: &str, life: Duration) -> HeaderValue {
        cookie_line(self.transport, name, value, Some(life))
    }
}

/// Puts `value` where nothing else is.
fn put<'r>(
    place: &mut Option<&'r [u8]>,
    value: &'r [u8],
    what: &'static str,
) -> Result<(), Ambiguous> {
    match place.replace(value) {
        Some(before) if before != value => Err(Ambiguous(what)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(transport: Transport) -> Names {
        Names::of(&RoomName::new("shop").unwrap(), transport)
    }

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn cookies_are_for_this_host_by_tls_and_out_of_scripts_reach() {
        let names = names(Transport::Tls);

        assert_eq!(
            names.give_ticket("t"),
            "__Host-tgq-shop=t; Path=/; Max-Age=86400; Secure; HttpOnly; SameSite=Lax"
        );
        assert_eq!(
            names.give_pass("p", Duration::from_secs(900)),
            "__Host-tga-shop=p; Path=/; Max-Age=900; Secure; HttpOnly; SameSite=Lax"
        );
        assert_eq!(
            names.give_device("d"),
            "__Host-tgd=d; Path=/; Max-Age=86400; Secure; HttpOnly; SameSite=Lax"
        );
        assert_eq!(
            names.take(),
            [
                "__Host-tgq-shop=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Lax",
                "__Host-tga-shop=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Lax",
            ]
        );
        assert!(names.give_pass("p", Duration::ZERO).is_sensitive());
    }

    #[test]
    fn tokens_are_found_in_cookies_and_in_headers() {
        let in_cookies = headers(&[
            (
                "cookie",
                "a=b; __Host-tgq-shop=t; __Host-tgq-shops=x; tga-shop=y",
            ),
            ("cookie", "__Host-tga-shop=p;__Host-tgd=\"d\""),
        ]);
        let in_headers = headers(&[
            ("tidegate-ticket", "t"),
            ("tidegate-pass", "p"),
            ("tidegate-device", "d"),
        ]);
        let names = names(Transport::Tls);

        let expected = Found {
            ticket: Some(b"t"),
            pass: Some(b"p"),
            device: Some(b"d"),
        };
        assert_eq!(names.find(&in_cookies), Ok(expected));
        assert_eq!(names.find(&in_headers), Ok(expected));
        assert_eq!(names.find(&headers(&[])), Ok(Found::default()));
        let bare = self::names(Transport::Insecure);
        assert_eq!(bare.find(&in_cookies).unwrap().pass, Some(&b"y"[..]));
    }

    #[test]
    fn two_that_differ_are_no_request_and_two_that_do_not_are_one() {
        let names = names(Transport::Tls);
        for (cookie, header, name, what) in [
            ("__Host-tgq-shop=1", "tidegate-ticket", "2", "ticket"),
            ("__Host-tga-shop=1", "tidegate-pass", "2", "pass"),
            ("__Host-tgd=1", "tidegate-device", "2", "device"),
            ("__Host-tga-shop=", "tidegate-pass", "2", "pass"),
            (
                "__Host-tga-shop=1; __Host-tga-shop=3",
                "accept",
                "2",
                "pass",
            ),
        ] {
            let both = headers(&[("cookie", cookie), (header, name)]);
            assert_eq!(names.find(&both), Err(Ambiguous(what)), "{cookie}");
        }
        let twice = headers(&[("tidegate-pass", "1"), ("tidegate-pass", "2")]);
        assert_eq!(names.find(&twice), Err(Ambiguous("pass")));
        let same = headers(&[("cookie", "__Host-tga-shop=1"), ("tidegate-pass", "1")]);
        assert_eq!(names.find(&same).unwrap().pass, Some(&b"1"[..]));
    }
}
