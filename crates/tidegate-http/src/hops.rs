//! Headers that are for the next hop only, and must not go further.

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::names::{
    COMMANDS, KEEP_ALIVE, TIDEGATE_PREFIX, TIDEGATE_REASON, TIDEGATE_RETRY, TIDEGATE_STATE,
};

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
        let is_alias = text.bytes().any(|byte| byte != b'-' && is_separator(byte));
        let foreign = (from == Peer::Stranger || is_alias) && is_any(text, &SAID_BY_PROXIES);
        let framing = is_alias && is_any(text, &FRAMING);
        if foreign || framing || is_any(text, &["proxy-"]) {
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

/// Takes out of a request's headers what an application is told of the session, so that nobody else
/// tells it: neither a client nor a proxy that passes on what clients say.
pub fn strip_session(headers: &mut HeaderMap) {
    let names = headers.keys();
    let said: Vec<HeaderName> = names
        .filter(|name| is_any(name.as_str(), &SAID_OF_SESSIONS))
        .cloned()
        .collect();
    for name in said {
        headers.remove(name);
    }
}

/// What was taken out of an answer's headers.
#[derive(Debug)]
pub struct Stripped {
    /// Whether the application keeps the connection.
    pub persistence: Persistence,
    /// What the application commands Tidegate: names and values, those of one name in their order.
    pub commands: Vec<(HeaderName, HeaderValue)>,
}

/// Takes out of an answer's headers what is meant for this hop, and what is meant for Tidegate or
/// said by it to applications: an application that reflects what it was told tells no client.
pub fn strip_response(headers: &mut HeaderMap) -> Stripped {
    let mut found = Found::default();
    let mut commands = Vec::new();
    for name in headers.keys() {
        found.note(name);
        let text = name.as_str();
        if text.starts_with("proxy-connection") {
            found.others.push(name.clone());
        } else if is_any(text, &[TIDEGATE_PREFIX]) && !FOR_CLIENTS.contains(name) {
            if COMMANDS.contains(&text) {
                let values = headers.get_all(name).iter();
                commands.extend(values.map(|value| (name.clone(), value.clone())));
            }
            found.others.push(name.clone());
        }
    }

    if found.transfer_encoding {
        // The coding is what has framed the answer (RFC 9112, 6.3). Passed on, a length that says
        // otherwise would let the client see the end of the answer somewhere else.
        headers.remove(CONTENT_LENGTH);
    }
    let persistence = if found.connection {
        persistence(headers)
    } else {
        Persistence::Keeps
    };
    found.expect = false;
    found.strip(headers);
    Stripped {
        persistence,
        commands,
    }
}

/// Takes out of trailers, of either direction, what would say something where headers say it: an
/// application may put the two together.
pub fn strip_trailers(trailers: &mut HeaderMap) {
    let names = trailers.keys();
    let said: Vec<HeaderName> = names
        .filter(|name| {
            let text = name.as_str();
            is_any(text, &SAID_BY_PROXIES) || is_any(text, &FRAMING) || is_any(text, &["proxy-"])
        })
        .cloned()
        .collect();
    for name in said {
        trailers.remove(name);
    }
}

/// Whether an answer is coded in another way than by one `chunked`. What else there may be cannot be
/// taken off here, and must not be passed on without saying so.
pub fn is_coded_otherwise(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => false,
        (Some(coding), None) => !coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => true,
    }
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
                    .filter(|token| !is_persistence(token))
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

/// What only a proxy of ours may say, by whole names or, up to a closing `-`, by beginnings.
const SAID_BY_PROXIES: [&str; 8] = [
    TIDEGATE_PREFIX,
    "x-forwarded-",
    "forwarded",
    "x-request-start",
    "x-real-ip",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
];

/// What only Tidegate says, where it keeps sessions.
const SAID_OF_SESSIONS: [&str; 5] = [
    "tidegate-session",
    "tidegate-session-",
    "tidegate-uid",
    "tidegate-tier",
    "tidegate-attr-",
];

/// Headers of ours that clients are to see, also when a Tidegate behind this one has said them.
static FOR_CLIENTS: [HeaderName; 3] = [TIDEGATE_REASON, TIDEGATE_RETRY, TIDEGATE_STATE];

/// Names whose aliases would tell some applications another end of the request.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// Whether `name` is one of `known`. CGI, WSGI and their kin cannot tell `_` from `-`, and PHP cannot
/// tell `.` from either, so that `X_Forwarded.For` is `X-Forwarded-For` to the application behind
/// them, and to us. The same is held of every other mark that a name may have: it costs nobody
/// anything, and who knows what turns them into what.
fn is_any(name: &str, known: &[&str]) -> bool {
    known.iter().any(|known| {
        let same = |(a, b): (u8, u8)| a == b || (b == b'-' && is_separator(a));
        let fits = name.len() == known.len() || (name.len() > known.len() && known.ends_with('-'));
        fits && name.bytes().zip(known.bytes()).all(same)
    })
}

/// Whether `byte` is no letter and no digit: in a header's name, something that parts words.
const fn is_separator(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric()
}

/// End-to-end headers that a client cannot have removed by naming them in `Connection`.
const NEVER_NAMED: [&str; 14] = [
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
    "x-real-ip",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
];

fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// Whether `token` is about the connection itself and names no header; nearly all are.
fn is_persistence(token: &str) -> bool {
    token.eq_ignore_ascii_case("keep-alive") || token.eq_ignore_ascii_case("close")
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
    fn what_is_said_of_a_session_can_be_taken_out_whoever_says_it() {
        let mut request = headers(&[
            ("tidegate-session", "aaaa.x"),
            ("tidegate-session-state", "ok"),
            ("tidegate-uid", "7"),
            ("tidegate_uid", "7"),
            ("tidegate.uid", "7"),
            ("tidegate.attr-cart", "c9"),
            ("tidegate~tier", "gold"),
            ("tidegate-tier", "gold"),
            ("tidegate-attr-cart", "c9"),
            ("tidegate-class", "critical"),
            ("tidegate-timeout-ms", "100"),
            ("tidegate-uids", "no"),
        ]);

        strip_session(&mut request);

        assert_eq!(request.len(), 3, "{request:?}");
    }

    #[test]
    fn what_proxies_say_is_not_for_strangers_to_say() {
        let lines = [
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-port", "443"),
            ("x-forwarded-ssl", "on"),
            ("forwarded", "for=1.1.1.1"),
            ("x-request-start", "t=1"),
            ("x-real-ip", "1.1.1.1"),
            ("true-client-ip", "1.1.1.1"),
            ("x-client-ip", "1.1.1.1"),
            ("x-cluster-client-ip", "1.1.1.1"),
        ];
        let (mut trusted, mut stranger) = (headers(&lines), headers(&lines));

        strip_request(&mut trusted, Peer::Trusted);
        strip_request(&mut stranger, Peer::Stranger);

        assert_eq!(trusted.len(), lines.len());
        assert!(stranger.is_empty(), "{stranger:?}");
    }

    #[test]
    fn another_mark_makes_no_other_name() {
        let lines = [
            ("x_forwarded_for", "1.1.1.1"),
            ("x-forwarded_proto", "https"),
            ("tidegate_class", "critical"),
            ("tidegate.class", "critical"),
            ("x.forwarded+for", "1.2.3.4"),
            ("content.length", "5"),
            ("x_request_start", "t=1"),
            ("x_real_ip", "1.1.1.1"),
            ("proxy_connection", "close"),
            ("content_length", "5"),
            ("transfer_encoding", "chunked"),
            ("x_shop_id", "7"),
        ];

        for peer in [Peer::Trusted, Peer::Stranger] {
            let mut request = headers(&lines);
            strip_request(&mut request, peer);
            assert_eq!(request.len(), 1, "{request:?}");
            assert_eq!(request["x_shop_id"], "7");
        }
    }

    #[test]
    fn an_answer_in_chunks_has_no_length_beside() {
        let mut answer = headers(&[("content-length", "3"), ("transfer-encoding", "chunked")]);

        strip_response(&mut answer);

        assert!(answer.is_empty(), "{answer:?}");
    }

    #[test]
    fn one_chunked_is_the_only_coding() {
        for (lines, otherwise) in [
            (&[][..], false),
            (&[("transfer-encoding", "Chunked")], false),
            (&[("transfer-encoding", "gzip")], true),
            (&[("transfer-encoding", "gzip, chunked")], true),
            (&[("transfer-encoding", "chunked, chunked")], true),
            (&[("transfer-encoding", "identity")], true),
            (&[("transfer-encoding", "")], true),
            (
                &[
                    ("transfer-encoding", "gzip"),
                    ("transfer-encoding", "chunked"),
                ],
                true,
            ),
        ] {
            assert_eq!(is_coded_otherwise(&headers(lines)), otherwise, "{lines:?}");
        }
    }

    #[test]
    fn the_applications_commands_are_not_for_the_client() {
        let mut answer = headers(&[
            ("content-type", "text/html"),
            ("tidegate-set", "a=1"),
            ("tidegate-set", "b=2"),
            ("tidegate-cost", "5"),
            ("tidegate-reason", "queue_full"),
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
        ]);

        let stripped = strip_response(&mut answer);

        assert_eq!(stripped.persistence, Persistence::Closes);
        let commands: Vec<_> = stripped
            .commands
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(
            commands,
            [
                ("tidegate-set", "a=1"),
                ("tidegate-set", "b=2"),
                ("tidegate-cost", "5")
            ]
        );
        assert_eq!(answer.len(), 2, "{answer:?}");
        assert_eq!(answer["tidegate-reason"], "queue_full");
    }

    #[test]
    fn what_is_said_to_applications_is_not_for_clients() {
        let mut answer = headers(&[
            ("tidegate-session", "aaaa.x"),
            ("tidegate-session-version", "0000000000000017"),
            ("tidegate-uid", "7"),
            ("tidegate_uid", "7"),
            ("tidegate-tier", "gold"),
            ("tidegate-attr-cart", "c9"),
            ("tidegate-timeout-ms", "100"),
            ("tidegate-class", "critical"),
            ("tidegate-degrade", "1"),
            ("tidegate-of-a-later-release", "1"),
            ("tidegate-reason", "queue_full"),
            ("tidegate-retry", "no"),
            ("tidegates", "of another kind"),
            ("x-request-id", "1"),
        ]);

        let stripped = strip_response(&mut answer);

        assert!(stripped.commands.is_empty());
        let mut left: Vec<&str> = answer.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(
            left,
            [
                "tidegate-reason",
                "tidegate-retry",
                "tidegates",
                "x-request-id"
            ]
        );
    }

    #[test]
    fn trailers_say_nothing_that_is_for_headers_to_say() {
        let mut trailers = headers(&[
            ("x-sum", "6"),
            ("tidegate-uid", "7"),
            ("tidegate.set", "a=1"),
            ("x-forwarded-for", "1.1.1.1"),
            ("content_length", "5"),
            ("proxy-connection", "close"),
            ("grpc-status", "0"),
        ]);

        strip_trailers(&mut trailers);

        let mut left: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["grpc-status", "x-sum"]);
    }

    #[test]
    fn an_answer_without_a_word_on_it_keeps_the_connection() {
        assert_eq!(
            strip_response(&mut headers(&[("etag", "\"1\"")])).persistence,
            Persistence::Keeps
        );
    }
}
