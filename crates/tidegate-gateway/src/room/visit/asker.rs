//! Who asks, and in which form the answer is wanted: what the head of a request says of it.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCESS_CONTROL_REQUEST_METHOD, COOKIE, HOST, ORIGIN, REFERER,
};
use http::{HeaderMap, HeaderName, Method, Uri};
use tidegate_http::names::{SEC_FETCH_MODE, SEC_FETCH_SITE};

/// Who asks, as far as the form of an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// Somebody who goes to a page, and sees what is answered.
    Navigation,
    /// The script of a page.
    Script,
    /// A picture, a style or the like: there are many of them on a page, and nobody reads their answers.
    Part,
    /// An application that is no browser.
    Application,
}

impl Asker {
    /// Who sent a request with this head. A browser says so; of others whoever likes `text/html` best gets a page.
    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Self {
        if let Some(mode) = headers.get(SEC_FETCH_MODE) {
            return match mode.as_bytes() {
                b"navigate" => Self::Navigation,
                b"cors" | b"same-origin" => Self::Script,
                _ => Self::Part,
            };
        }
        let visits = matches!(*method, Method::GET | Method::HEAD | Method::POST);
        if visits && prefers_html(headers) {
            Self::Navigation
        } else if is_browser(headers) {
            Self::Script
        } else {
            Self::Application
        }
    }
}

/// Whether a browser sent it: it keeps cookies, and needs its tokens nowhere else.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(SEC_FETCH_SITE)
}

/// Whether a browser asks if a page of another origin may send something. It never has cookies, so that who was let in
/// could not be told from others, and what is asked for comes after it.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Whether the answer may be compressed with gzip (RFC 9110, 12.5.3).
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut any) = (None, 0);
    for (coding, quality) in ranges(headers, ACCEPT_ENCODING) {
        if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            gzip = gzip.max(Some(quality));
        } else if coding == "*" {
            any = quality;
        }
    }
    gzip.unwrap_or(any) > 0
}

/// Whether a visit without a ticket comes from a browser that was here before and has kept no cookie.
///
/// Our page without script asks for its own address again. That request comes from this site and names the page as
/// where it comes from, or nothing, and a browser that keeps cookies would have sent one with it. Somebody who comes to a
/// page for the first time, from it, and without any cookie of the site may look like that as well: so the answer sets a
/// cookie, and with it they get a place at the next try.
pub(crate) fn keeps_no_cookies(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    if *method != Method::GET || headers.contains_key(COOKIE) {
        return false;
    }
    let from = headers.get(REFERER);
    let is_own = from.is_some_and(|from| is_same_page(from.as_bytes(), uri, headers));
    match headers.get(SEC_FETCH_SITE) {
        Some(site) if site == "same-origin" => from.is_none() || is_own,
        Some(_) => false,
        None => is_own,
    }
}

/// Whether a page of another site sends a form here. Our cookies do not come with it (`SameSite=Lax`), and what the answer sets
/// is kept: it would take the place of what its sender has, who may come back from paying.
pub(crate) fn is_form_from_elsewhere(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    if matches!(*method, Method::GET | Method::HEAD)
        || Asker::of(method, headers) != Asker::Navigation
    {
        return false;
    }
    match (headers.get(SEC_FETCH_SITE), headers.get(ORIGIN)) {
        (Some(site), _) => site == "cross-site",
        (None, Some(origin)) => {
            !Uri::try_from(origin.as_bytes()).is_ok_and(|origin| is_here(&origin, uri, headers))
        }
        (None, None) => false,
    }
}

fn is_same_page(from: &[u8], uri: &Uri, headers: &HeaderMap) -> bool {
    let Ok(from) = Uri::try_from(from) else {
        return false;
    };
    let page = |uri: &Uri| uri.path_and_query().map(|it| it.as_str().to_owned());
    is_here(&from, uri, headers) && page(&from) == page(uri)
}

/// Whether `other` is at the host that a request for `uri` is for.
fn is_here(other: &Uri, uri: &Uri, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = uri.authority().map(|it| it.as_str()).or(host);
    other.authority().is_some_and(|authority| {
        host.is_some_and(|host| authority.as_str().eq_ignore_ascii_case(host))
    })
}

/// Whether `text/html` is liked best. What likes JSON as much is a program.
fn prefers_html(headers: &HeaderMap) -> bool {
    let (mut html, mut json, mut best) = (0, 0, 0);
    for (range, quality) in ranges(headers, ACCEPT) {
        best = best.max(quality);
        if range.eq_ignore_ascii_case("text/html") {
            html = html.max(quality);
        } else if is_json(range) {
            json = json.max(quality);
        }
    }
    html > 0 && html == best && html > json
}

fn is_json(range: &str) -> bool {
    let Some((kind, sub)) = range.split_once('/') else {
        return false;
    };
    let ends = |with: &str| {
        let at = sub.len().checked_sub(with.len());
        at.and_then(|at| sub.get(at..))
            .is_some_and(|end| end.eq_ignore_ascii_case(with))
    };
    kind.eq_ignore_ascii_case("application") && (sub.eq_ignore_ascii_case("json") || ends("+json"))
}

/// What a header lists, each with its quality in thousandths. What makes no sense is passed over.
fn ranges(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = (&str, u32)> {
    let lines = headers.get_all(name).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).filter_map(range)
}

fn range(entry: &str) -> Option<(&str, u32)> {
    let mut parts = entry.split(';');
    let what = parts.next()?.trim();
    if what.is_empty() {
        return None;
    }
    match parts.find_map(quality) {
        None => Some((what, 1_000)),
        Some(quality) => quality.map(|quality| (what, quality)),
    }
}

/// Thousandths of `q=0.8`, where that is what the parameter is; `None` in it where it is no quality.
fn quality(parameter: &str) -> Option<Option<u32>> {
    let (name, value) = parameter.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("q") {
        return None;
    }
    let value: Option<f64> = value.trim().parse().ok();
    let value = value.filter(|value| (0.0..=1.0).contains(value));
    Some(value.map(|value| (value * 1_000.0) as u32))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const CHROME: &str =
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        });
        lines.collect()
    }

    fn asker(method: &Method, lines: &[(&'static str, &str)]) -> Asker {
        Asker::of(method, &headers(lines))
    }

    #[test]
    fn a_browser_says_what_it_wants_the_answer_for() {
        for (mode, expected) in [
            ("navigate", Asker::Navigation),
            ("cors", Asker::Script),
            ("same-origin", Asker::Script),
            ("no-cors", Asker::Part),
            ("websocket", Asker::Part),
            ("anything", Asker::Part),
        ] {
            for method in [Method::GET, Method::POST, Method::DELETE] {
                let lines = [("sec-fetch-mode", mode), ("accept", CHROME)];
                assert_eq!(asker(&method, &lines), expected, "{method} {mode}");
            }
        }
    }

    #[test]
    fn without_that_the_page_is_for_who_likes_it_best() {
        for (accept, expected) in [
            (CHROME, Asker::Navigation),
            ("text/html", Asker::Navigation),
            ("TEXT/HTML;level=1", Asker::Navigation),
            ("application/json;q=0.5, text/html", Asker::Navigation),
            ("text/html, */*;q=0.1", Asker::Navigation),
            ("text/html;q=0.9, */*;q=0.8", Asker::Navigation),
            ("text/html;q=0.5, application/json", Asker::Application),
            ("application/json, text/html", Asker::Application),
            ("text/html, application/hal+json", Asker::Application),
            (
                "application/json, text/javascript, */*; q=0.01",
                Asker::Application,
            ),
            ("text/html;q=0", Asker::Application),
            ("text/html;q=7", Asker::Application),
            ("text/html;q=x", Asker::Application),
            ("text/htmlx", Asker::Application),
            ("*/*", Asker::Application),
            ("image/png", Asker::Application),
            ("", Asker::Application),
            (";q=1,,=;", Asker::Application),
        ] {
            assert_eq!(
                asker(&Method::GET, &[("accept", accept)]),
                expected,
                "{accept}"
            );
        }
        assert_eq!(asker(&Method::GET, &[]), Asker::Application);
        let html = [("accept", "text/html")];
        assert_eq!(asker(&Method::POST, &html), Asker::Navigation, "a form");
        assert_eq!(asker(&Method::PUT, &html), Asker::Application);
        let old = [("accept", "*/*"), ("sec-fetch-site", "same-origin")];
        assert_eq!(asker(&Method::GET, &old), Asker::Script);
        let two = [
            ("accept", "application/json;q=0.1"),
            ("accept", "text/html"),
        ];
        assert_eq!(asker(&Method::GET, &two), Asker::Navigation);
    }

    #[test]
    fn an_answer_is_compressed_for_who_takes_it() {
        let takes = |accept: &str| takes_gzip(&headers(&[("accept-encoding", accept)]));

        for accept in [
            "gzip",
            "br, gzip;q=0.1",
            "GZIP",
            "x-gzip",
            "*",
            "identity, *;q=0.5",
        ] {
            assert!(takes(accept), "{accept}");
        }
        for accept in [
            "",
            "br",
            "gzip;q=0",
            "gzip;q=0, *",
            "*;q=0",
            "gzip;q=2",
            "identity",
        ] {
            assert!(!takes(accept), "{accept}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn a_question_before_the_question_is_told_by_its_headers() {
        let asks = [
            ("origin", "https://a"),
            ("access-control-request-method", "PUT"),
        ];

        assert!(is_preflight(&Method::OPTIONS, &headers(&asks)));
        assert!(!is_preflight(&Method::OPTIONS, &headers(&asks[..1])));
        assert!(!is_preflight(&Method::GET, &headers(&asks)));
    }

    #[test]
    fn a_form_of_another_site_comes_without_our_cookies() {
        let uri: Uri = "/paid".parse().unwrap();
        let is_foreign = |method: &Method, lines: &[(&'static str, &str)]| {
            let accept = [("accept", "text/html"), ("host", "shop.example")];
            let lines: Vec<_> = accept.iter().chain(lines).copied().collect();
            is_form_from_elsewhere(method, &uri, &headers(&lines))
        };
        let navigates = ("sec-fetch-mode", "navigate");
        let site = |site| ("sec-fetch-site", site);

        assert!(is_foreign(&Method::POST, &[navigates, site("cross-site")]));
        assert!(is_foreign(
            &Method::POST,
            &[("origin", "https://bank.example")]
        ));
        assert!(is_foreign(&Method::POST, &[("origin", "null")]));
        for (method, lines) in [
            (Method::GET, [navigates, site("cross-site")]),
            (Method::POST, [navigates, site("same-origin")]),
            (Method::POST, [navigates, site("same-site")]),
            (
                Method::POST,
                [("sec-fetch-mode", "cors"), site("cross-site")],
            ),
            (
                Method::POST,
                [("origin", "https://Shop.example"), ("x", "y")],
            ),
            (Method::POST, [("x", "y"), ("z", "y")]),
        ] {
            assert!(!is_foreign(&method, &lines), "{method} {lines:?}");
        }
    }

    #[test]
    fn who_comes_again_without_any_cookie_keeps_none() {
        let uri: Uri = "/basket?item=7".parse().unwrap();
        let host = ("host", "shop.example");
        let own = ("referer", "https://shop.example/basket?item=7");
        let other = ("referer", "https://shop.example/");
        let foreign = ("referer", "https://other.example/basket?item=7");
        let site = |site| ("sec-fetch-site", site);
        let comes_again = [
            vec![host, site("same-origin"), own],
            vec![host, site("same-origin")],
            vec![host, own],
            vec![("host", "SHOP.example"), own],
        ];
        let comes = [
            vec![host],
            vec![host, site("none")],
            vec![host, site("cross-site"), foreign],
            vec![host, site("same-origin"), other],
            vec![host, site("none"), own],
            vec![host, other],
            vec![host, foreign],
            vec![own],
            vec![host, ("referer", "::")],
            vec![host, own, ("cookie", "a=b")],
            vec![host, site("same-origin"), own, ("cookie", "tgd=x")],
        ];

        for lines in comes_again {
            assert!(
                keeps_no_cookies(&Method::GET, &uri, &headers(&lines)),
                "{lines:?}"
            );
            assert!(
                !keeps_no_cookies(&Method::POST, &uri, &headers(&lines)),
                "a form"
            );
        }
        for lines in comes {
            assert!(
                !keeps_no_cookies(&Method::GET, &uri, &headers(&lines)),
                "{lines:?}"
            );
        }
    }
}
