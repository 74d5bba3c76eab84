//! Headers that are for the next hop only, and must not go further.

use http::header::{CONNECTION, EXPECT, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::names::{COMMANDS, KEEP_ALIVE, TIDEGATE_PREFIX};

/// What a look at every header name has found, so that absent headers cost nothing more.
#[derive(Debug, Default)]
struct Found {
    connection: bool,
    keep_alive: bool,
    transfer_encoding: bool,
    upgrade: bool,
    te: bool,
    expect: bool,
    others: Vec<HeaderName>,
}

/// Takes out of a request's headers what is meant for this hop.
///
/// `Transfer-Encoding` stays when it is there: whoever calls has checked that it is one `chunked`,
/// and the engine needs it to send a GET with a body. `TE` is narrowed to what both hops can do.
pub fn strip_request(headers: &mut HeaderMap, from: Peer) {
    let mut found = Found::default();
    for name in headers.keys() {
        found.note(name);
        let text = name.as_str();
        let foreign = from == Peer::Stranger && text.starts_with(TIDEGATE_PREFIX);
        if foreign || text.starts_with("proxy-") {
            found.others.push(name.clone());
        }
    }

    let trailers = found.te && headers.get_all(TE).iter().any(lists_trailers);
    if found.te {
        headers.remove(TE);
    }
    found.transfer_encoding = false;
    found.strip(headers);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Takes out of an answer's headers what is meant for this hop, and what is meant for Tidegate.
/// Returns whether the application keeps the connection.
pub fn strip_response(headers: &mut HeaderMap) -> Persistence {
    let mut found = Found::default();
    for name in headers.keys() {
        found.note(name);
        let text = name.as_str();
        if text.starts_with("proxy-connection")
            || (text.starts_with(TIDEGATE_PREFIX) && COMMANDS.contains(&text))
        {
            found.others.push(name.clone());
        }
    }

    let persistence = if found.connection {
        persistence(headers)
    } else {
        Persistence::Keeps
    };
    found.expect = false;
    found.strip(headers);
    persistence
}

/// Whether the other side keeps the connection, by the headers of its answer.
pub fn persistence(headers: &HeaderMap) -> Persistence {
    if tokens(headers).any(|token| token.eq_ignore_ascii_case("close")) {
        Persistence::Closes
    } else {
        Persistence::Keeps
    }
}

/// Whose headers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A trusted peer: what it says of Tidegate's own headers holds.
    Trusted,
    /// Anybody else.
    Stranger,
}

/// What the other side does with the connection after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// It waits for another request.
    Keeps,
    /// It closes.
    Closes,
}

impl Found {
    fn note(&mut self, name: &HeaderName) {
        match *name {
            CONNECTION => self.connection = true,
            TRANSFER_ENCODING => self.transfer_encoding = true,
            UPGRADE => self.upgrade = true,
            TE => self.te = true,
            EXPECT => self.expect = true,
            _ if *name == KEEP_ALIVE => self.keep_alive = true,
            _ => {}
        }
    }

    fn strip(self, headers: &mut HeaderMap) {
        let mut named = self.others;
        if self.connection {
            // A header that ends a message, or says whom it is for, is not for Connection to name.
            named.extend(
                tokens(headers)
                    .filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
                    .filter(|name| !NEVER_NAMED.contains(&name.as_str())),
            );
            headers.remove(CONNECTION);
        }
        for (there, name) in [
            (self.keep_alive, KEEP_ALIVE),
            (self.transfer_encoding, TRANSFER_ENCODING),
            (self.upgrade, UPGRADE),
            (self.expect, EXPECT),
        ] {
            if there {
                headers.remove(name);
            }
        }
        for name in named {
            headers.remove(name);
        }
    }
}

/// End-to-end headers that a client cannot have removed by naming them in `Connection`.
const NEVER_NAMED: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "trailer",
    "authorization",
    "cookie",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
];

fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

fn lists_trailers(value: &HeaderValue) -> bool {
    value.to_str().is_ok_and(|text| {
        text.split(',')
            .any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
    })
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, COOKIE, HOST};

    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                (name, HeaderValue::from_str(value).unwrap())
            })
            .collect()
    }

    #[test]
    fn what_is_for_one_hop_goes_no_further() {
        let mut request = headers(&[
            ("host", "shop"),
            ("connection", "keep-alive, X-Hop, te"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eA=="),
            ("te", "gzip, trailers"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("accept", "*/*"),
        ]);

        strip_request(&mut request, Peer::Trusted);

        assert_eq!(request.len(), 3, "{request:?}");
        assert_eq!(request[HOST], "shop");
        assert_eq!(request[ACCEPT], "*/*");
        assert_eq!(request[TE], "trailers");
    }

    #[test]
    fn a_client_cannot_have_end_to_end_headers_removed() {
        let mut request = headers(&[
            ("host", "shop"),
            ("cookie", "a=b"),
            ("connection", "close, Cookie, host, content-length"),
            ("content-length", "3"),
        ]);

        strip_request(&mut request, Peer::Stranger);

        assert_eq!(request[HOST], "shop");
        assert_eq!(request[COOKIE], "a=b");
        assert_eq!(request["content-length"], "3");
        assert!(!request.contains_key(CONNECTION));
    }

    #[test]
    fn our_own_headers_pass_from_trusted_peers_only() {
        let lines = [("tidegate-class", "critical"), ("tidegate-uid", "7")];
        let (mut trusted, mut stranger) = (headers(&lines), headers(&lines));

        strip_request(&mut trusted, Peer::Trusted);
        strip_request(&mut stranger, Peer::Stranger);

        assert_eq!(trusted.len(), 2);
        assert!(stranger.is_empty());
    }

    #[test]
    fn the_applications_commands_are_not_for_the_client() {
        let mut answer = headers(&[
            ("content-type", "text/html"),
            ("tidegate-set", "a=1"),
            ("tidegate-cost", "5"),
            ("tidegate-reason", "queue_full"),
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
        ]);

        let persistence = strip_response(&mut answer);

        assert_eq!(persistence, Persistence::Closes);
        assert_eq!(answer.len(), 2, "{answer:?}");
        assert_eq!(answer["tidegate-reason"], "queue_full");
    }

    #[test]
    fn an_answer_without_a_word_on_it_keeps_the_connection() {
        assert_eq!(
            strip_response(&mut headers(&[("etag", "\"1\"")])),
            Persistence::Keeps
        );
    }
}
