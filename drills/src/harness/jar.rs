//! A browser's cookies for one site.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::SET_COOKIE;

/// Cookies by name. `Secure` is obeyed by assumption: a visitor who talks to a server of a drill
/// takes the loopback for TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Jar(BTreeMap<String, String>);

impl Jar {
    /// Keeps what an answer sets, and drops what it takes away.
    pub(crate) fn learn(&mut self, headers: &HeaderMap) {
        for cookie in headers.get_all(SET_COOKIE) {
            let Ok(cookie) = cookie.to_str() else {
                continue;
            };
            let mut parts = cookie.split(';').map(str::trim);
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            let ended = parts.any(|part| {
                let (key, age) = part.split_once('=').unwrap_or((part, ""));
                key.eq_ignore_ascii_case("max-age") && age.parse::<i64>().is_ok_and(|age| age <= 0)
            });
            if ended {
                self.0.remove(name);
            } else {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    /// The `Cookie` field that is sent; `None` without cookies.
    pub(crate) fn field(&self) -> Option<String> {
        let cookies: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        (!cookies.is_empty()).then(|| cookies.join("; "))
    }

    /// The value of the cookie called `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Puts a cookie in, as somebody does who plants one.
    pub(crate) fn plant(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn setting(cookie: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.append(SET_COOKIE, HeaderValue::from_str(cookie).unwrap());
        headers
    }

    #[test]
    fn a_cookie_stays_until_its_age_is_set_to_nothing() {
        let mut jar = Jar::default();

        jar.learn(&setting("a=1; Path=/; HttpOnly"));
        jar.learn(&setting("b=2; Max-Age=60"));
        assert_eq!(jar.field().as_deref(), Some("a=1; b=2"));

        jar.learn(&setting("a=; Path=/; max-age=0"));
        assert_eq!(jar.field().as_deref(), Some("b=2"));
    }
}
