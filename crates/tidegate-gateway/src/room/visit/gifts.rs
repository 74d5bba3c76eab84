//! What an answer gives a visitor, or takes from them.

use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_http::names::{TIDEGATE_DEVICE, TIDEGATE_PASS, TIDEGATE_TICKET};

use crate::room::{Given, Tokens};

/// The tokens that an answer gives.
#[derive(Debug, Default)]
pub(crate) struct Gifts {
    pub(crate) ticket: Option<Given>,
    pub(crate) pass: Option<Given>,
    pub(crate) device: Option<Given>,
    /// What takes tokens from a browser. What is given in their place is not among them.
    takes: Vec<HeaderValue>,
}

impl Gifts {
    /// Whether there is nothing.
    pub(crate) const fn is_empty(&self) -> bool {
        let Self {
            ticket,
            pass,
            device,
            takes,
        } = self;
        ticket.is_none() && pass.is_none() && device.is_none() && takes.is_empty()
    }

    /// Takes the ticket away.
    pub(crate) fn take_ticket(&mut self, tokens: &Tokens) {
        let [ticket, _] = tokens.take_cookies();
        self.ticket = None;
        self.takes.push(ticket);
    }

    /// Takes ticket and pass away.
    pub(crate) fn take_all(&mut self, tokens: &Tokens) {
        (self.ticket, self.pass) = (None, None);
        self.takes = tokens.take_cookies().into();
    }

    /// What sets the cookies.
    pub(crate) fn cookies(&self) -> impl Iterator<Item = &HeaderValue> {
        self.named()
            .map(|(_, given)| &given.set_cookie)
            .chain(&self.takes)
    }

    /// Puts the tokens into headers, as somebody needs them who keeps no cookies.
    pub(crate) fn say(&self, headers: &mut HeaderMap) {
        for (name, given) in self.named() {
            // They are base64url and points: always a value.
            if let Ok(mut text) = HeaderValue::from_str(&given.text) {
                text.set_sensitive(true);
                headers.insert(name, text);
            }
        }
    }

    /// Puts everything on an answer of our own, which says by itself that it is for no cache.
    pub(crate) fn put_on(&self, headers: &mut HeaderMap, is_browser: bool) {
        for line in self.cookies() {
            headers.append(SET_COOKIE, line.clone());
        }
        if !is_browser {
            self.say(headers);
        }
    }

    fn named(&self) -> impl Iterator<Item = (HeaderName, &Given)> {
        let all = [
            (TIDEGATE_TICKET, &self.ticket),
            (TIDEGATE_PASS, &self.pass),
            (TIDEGATE_DEVICE, &self.device),
        ];
        let all = all.into_iter();
        all.filter_map(|(name, given)| Some((name, given.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Option<Given> {
        let text = text.to_owned();
        let set_cookie = HeaderValue::from_str(&format!("c={text}")).unwrap();
        Some(Given { text, set_cookie })
    }

    #[test]
    fn a_browser_gets_cookies_and_an_application_headers_as_well() {
        let gifts = Gifts {
            ticket: given("t"),
            device: given("d"),
            ..Gifts::default()
        };
        let on = |is_browser| {
            let mut headers = HeaderMap::new();
            gifts.put_on(&mut headers, is_browser);
            headers
        };

        let (browser, application) = (on(true), on(false));

        let cookies: Vec<_> = browser.get_all(SET_COOKIE).iter().collect();
        assert_eq!(cookies, ["c=t", "c=d"]);
        assert_eq!(browser.len(), 2);
        assert_eq!(application[TIDEGATE_TICKET], "t");
        assert_eq!(application[TIDEGATE_DEVICE], "d");
        assert!(!application.contains_key(TIDEGATE_PASS));
        assert_eq!(application.get_all(SET_COOKIE).iter().count(), 2);
        assert!(!gifts.is_empty() && Gifts::default().is_empty());
    }
}
