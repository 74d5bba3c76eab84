//! Pages in somebody's browser, which reach listeners for this machine, too: whether a request could be one's.

use std::net::{IpAddr, Ipv4Addr};

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use http::uri::Authority;

/// Whether a page has sent it: browsers say so.
pub fn is_from_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site")
}

/// The address that `Host` names; `localhost` is one. A name may lead anywhere, and to another place when it is asked again: a
/// page that was got from it may speak to us under that name, and its browser sees nothing wrong.
pub fn host_address(headers: &HeaderMap) -> Option<IpAddr> {
    let host = headers.get(HOST)?.to_str().ok()?;
    let authority: Authority = host.parse().ok()?;
    let name = authority.host().trim_matches(['[', ']']);
    if name.eq_ignore_ascii_case("localhost") {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    name.parse().ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        headers
    }

    #[test]
    fn a_host_is_an_address_or_this_machine() {
        let address = |host| host_address(&headers("host", host)).map(|ip| ip.to_string());

        assert_eq!(address("localhost:9090").as_deref(), Some("127.0.0.1"));
        assert_eq!(address("[::1]:9090").as_deref(), Some("::1"));
        assert_eq!(address("10.0.0.7").as_deref(), Some("10.0.0.7"));
        assert_eq!(address("rebound.example:9090"), None);
        assert_eq!(host_address(&HeaderMap::new()), None);
    }

    #[test]
    fn a_page_is_known_by_what_its_browser_adds() {
        assert!(is_from_page(&headers("origin", "null")));
        assert!(is_from_page(&headers("sec-fetch-site", "same-origin")));
        assert!(!is_from_page(&headers("host", "localhost")));
    }
}
