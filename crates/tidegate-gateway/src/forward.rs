//! What a request looks like to the application, and what is added about where it came from.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use bytes::{BufMut, BytesMut};
use http::header::{CONNECTION, FORWARDED, HOST};
use http::request::Parts;
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use tidegate_core::time::Mono;
use tidegate_http::hops::{self, Peer};
use tidegate_http::names::{
    TIDEGATE_TIMEOUT_MS, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO,
};

use crate::context::Conn;
use crate::plan::UpstreamPlan;

/// What is said of every request of one client connection, worked out once.
#[derive(Clone, Debug)]
pub struct Origin {
    address: HeaderValue,
    forwarded: HeaderValue,
}

impl Origin {
    /// What is said of requests that come from `peer` without TLS.
    pub fn new(peer: SocketAddr) -> Self {
        let address = peer.ip().to_canonical();
        let mut forwarded = String::new();
        let written = match address {
            IpAddr::V4(address) => write!(forwarded, "for={address};proto=http"),
            IpAddr::V6(address) => write!(forwarded, "for=\"[{address}]\";proto=http"),
        };
        written.expect("a string takes what is written to it");
        let value = |text: &str| HeaderValue::from_str(text).expect("an address is plain text");
        Self {
            address: value(&address.to_string()),
            forwarded: value(&forwarded),
        }
    }
}

/// Turns the head of a client's request into the one that the application gets.
pub fn rewrite(head: &mut Parts, conn: &Conn, upstream: &UpstreamPlan) {
    let peer = if conn.trusted {
        Peer::Trusted
    } else {
        Peer::Stranger
    };
    hops::strip_request(&mut head.headers, peer);
    head.version = Version::HTTP_11;
    head.extensions.clear();
    // A proxy's request line and Host agree on the host.
    to_origin_form(head);
    say_origin(&mut head.headers, peer, conn.origin());
    if !head.headers.contains_key(HOST) {
        // HTTP/1.0 may leave it out, 1.1 may not.
        head.headers.insert(HOST, authority(upstream));
    }
    if !upstream.keep_alive {
        head.headers
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Turns the head of an application's call into the one that the dependency gets. Nothing is said of the caller, and
/// nothing of whose session it works for.
pub fn rewrite_outward(head: &mut Parts, upstream: &UpstreamPlan) {
    hops::strip_request(&mut head.headers, Peer::Trusted);
    hops::strip_session(&mut head.headers);
    head.version = Version::HTTP_11;
    head.extensions.clear();
    to_origin_form(head);
    // The caller has our own address there.
    head.headers.insert(HOST, authority(upstream));
    if !upstream.keep_alive {
        head.headers
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Says how long the caller will still wait.
pub fn say_deadline(head: &mut Parts, deadline: Mono, now: Mono) {
    if deadline == Mono::MAX {
        head.headers.remove(TIDEGATE_TIMEOUT_MS);
        return;
    }
    let left_ms = u64::try_from(deadline.since(now).as_millis()).unwrap_or(u64::MAX);
    head.headers
        .insert(TIDEGATE_TIMEOUT_MS, HeaderValue::from(left_ms));
}

/// The request line that an origin gets, where it is a proxy's.
fn to_origin_form(head: &mut Parts) {
    if head.uri.authority().is_some() {
        let path = head.uri.path_and_query().cloned();
        head.uri = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    }
}

fn say_origin(headers: &mut HeaderMap, peer: Peer, origin: &Origin) {
    let host = headers.get(HOST).cloned();
    match peer {
        Peer::Stranger => {
            headers.insert(X_FORWARDED_FOR, origin.address.clone());
            headers.insert(FORWARDED, origin.forwarded.clone());
            headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
            match host {
                Some(host) => headers.insert(X_FORWARDED_HOST, host),
                None => headers.remove(X_FORWARDED_HOST),
            };
        }
        // What it says of the client holds; it has become the last hop itself.
        Peer::Trusted => {
            append(headers, X_FORWARDED_FOR, &origin.address);
            append(headers, FORWARDED, &origin.forwarded);
            if !headers.contains_key(X_FORWARDED_PROTO) {
                headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
            }
            if let Some(host) = host.filter(|_| !headers.contains_key(X_FORWARDED_HOST)) {
                headers.insert(X_FORWARDED_HOST, host);
            }
        }
    }
}

/// Adds `value` to the list in `name`. The list becomes one line, as many applications read only
/// the first.
fn append(headers: &mut HeaderMap, name: HeaderName, value: &HeaderValue) {
    if !headers.contains_key(&name) {
        headers.insert(name, value.clone());
        return;
    }
    let mut list = BytesMut::new();
    for entry in headers.get_all(&name) {
        list.put_slice(entry.as_bytes());
        list.put_slice(b", ");
    }
    list.put_slice(value.as_bytes());
    let list = HeaderValue::from_maybe_shared(list.freeze())
        .expect("header values joined by commas are a header value");
    headers.insert(name, list);
}

fn authority(upstream: &UpstreamPlan) -> HeaderValue {
    // A plan may hold an IPv6 address with or without the brackets that a Host needs.
    let bare = upstream.host.contains(':') && !upstream.host.starts_with('[');
    let host = if bare {
        format!("[{}]", upstream.host)
    } else {
        upstream.host.clone()
    };
    let text = if upstream.port == 80 {
        host
    } else {
        format!("{host}:{}", upstream.port)
    };
    HeaderValue::from_maybe_shared(bytes::Bytes::from(text))
        .unwrap_or_else(|_| HeaderValue::from_static("localhost"))
}

#[cfg(test)]
mod tests;
