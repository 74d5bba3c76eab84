//! The cookies of a request that are ours.

use bytes::{BufMut as _, BytesMut};
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

use crate::session::plan::{Affinity, SessionPlan};

/// The values of our cookies, as they came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jar<'r> {
    sessions: [&'r [u8]; SESSIONS_MAX],
    len: usize,
    /// Session cookies beyond those that are looked at.
    pub(crate) surplus: u64,
    /// The ticket, the first of that name.
    pub(crate) ticket: Option<&'r [u8]>,
    /// The affinity cookie, the first of that name.
    pub(crate) affinity: Option<&'r [u8]>,
}

/// Cookies of the session's name that are looked at. A browser sends several when something else
/// than Tidegate has set one for another path or domain.
pub(crate) const SESSIONS_MAX: usize = 4;

impl<'r> Jar<'r> {
    /// What `headers` have for us.
    pub(crate) fn of(headers: &'r HeaderMap, plan: &SessionPlan) -> Self {
        let mut jar = Self::default();
        for line in headers.get_all(COOKIE) {
            for (name, value) in cookies(line.as_bytes()) {
                jar.put(name, value, plan);
            }
        }
        jar
    }

    /// The values of cookies that have the session's name.
    pub(crate) fn sessions(&self) -> &[&'r [u8]] {
        &self.sessions[..self.len]
    }

    /// Whether there is nothing in it.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0 && self.ticket.is_none() && self.affinity.is_none()
    }

    fn put(&mut self, name: &[u8], value: &'r [u8], plan: &SessionPlan) {
        if name == plan.cookies.session().as_bytes() {
            match self.sessions.get_mut(self.len) {
                Some(place) => {
                    *place = value;
                    self.len += 1;
                }
                None => self.surplus += 1,
            }
        } else if name == plan.cookies.ticket().as_bytes() {
            self.ticket.get_or_insert(value);
        } else if name == Affinity::COOKIE.as_bytes() {
            self.affinity.get_or_insert(value);
        }
    }
}

/// Takes the secrets out of what the application sees: it has no use for them, and logs them
/// perhaps.
pub(crate) fn redact(headers: &mut HeaderMap, plan: &SessionPlan) {
    take_out(headers, |name| {
        name == plan.cookies.session().as_bytes() || name == plan.cookies.ticket().as_bytes()
    });
}

/// Takes the cookies out that are `ours` by their names.
pub(crate) fn take_out(headers: &mut HeaderMap, ours: impl Fn(&[u8]) -> bool) {
    let mut names = headers.get_all(COOKIE).iter();
    if !names.any(|line| cookies(line.as_bytes()).any(|(name, _)| ours(name))) {
        return;
    }
    let mut lines = Vec::new();
    for line in headers.get_all(COOKIE) {
        let bytes = line.as_bytes();
        if !cookies(bytes).any(|(name, _)| ours(name)) {
            lines.push(line.clone());
            continue;
        }
        let mut kept = BytesMut::with_capacity(bytes.len());
        for pair in pairs(bytes).filter(|pair| !ours(split(pair).0)) {
            if !kept.is_empty() {
                kept.put_slice(b"; ");
            }
            kept.put_slice(pair);
        }
        if !kept.is_empty() {
            let line = HeaderValue::from_maybe_shared(kept.freeze());
            lines.push(line.expect("a part of a header's value is one"));
        }
    }
    headers.remove(COOKIE);
    for line in lines {
        headers.append(COOKIE, line);
    }
}

/// The names and values in a `Cookie` line.
pub(crate) fn cookies(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    pairs(line).map(split)
}

fn pairs(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b';')
        .map(|pair| pair.trim_ascii())
        .filter(|pair| !pair.is_empty())
}

/// The name of a cookie and its value, without the quotes that some clients put around it.
fn split(pair: &[u8]) -> (&[u8], &[u8]) {
    let end = pair.iter().position(|&byte| byte == b'=');
    let (name, value) = pair.split_at(end.unwrap_or(pair.len()));
    match value {
        [b'=', b'"', value @ .., b'"'] | [b'=', value @ ..] => (name, value),
        _ => (name, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::keys::Keys;
    use crate::session::plan::{CookiePlan, OnUnstored, Transport};

    fn plan() -> SessionPlan {
        SessionPlan {
            cookies: CookiePlan::new("tg", Transport::Insecure, false),
            keys: Keys::draw(),
            tickets: true,
            affinity: None,
            tiers: Vec::new(),
            rotate_every: None,
            on_unstored: OnUnstored::Drop,
        }
    }

    fn headers(lines: &[&'static str]) -> HeaderMap {
        let lines = lines
            .iter()
            .map(|line| (COOKIE, HeaderValue::from_static(line)));
        lines.collect()
    }

    #[test]
    fn our_cookies_are_found_wherever_they_stand() {
        let headers = headers(&[
            "a=b; tg=1;tgx=2 ; tg=\"2\"",
            "tg=3; tgt=t; tg_a=n; tg=4; tg=5",
        ]);
        let plan = plan();

        let jar = Jar::of(&headers, &plan);

        assert_eq!(jar.sessions(), [b"1", b"2", b"3", b"4"]);
        assert_eq!(jar.surplus, 1);
        assert_eq!(jar.ticket, Some(&b"t"[..]));
        assert_eq!(jar.affinity, Some(&b"n"[..]));
        assert!(Jar::of(&HeaderMap::new(), &plan).is_empty());
    }

    #[test]
    fn the_application_gets_the_other_cookies() {
        let plan = plan();
        for (before, after) in [
            (&["a=b; tg=1; c=d"][..], &["a=b; c=d"][..]),
            (&["tg=1", "tgt=2; x=y"], &["x=y"]),
            (&["tg=1;tgt=2"], &[]),
            (&["a=b;c=d", "tg=1"], &["a=b;c=d"]),
        ] {
            let mut headers = headers(before);
            redact(&mut headers, &plan);
            let left: Vec<_> = headers.get_all(COOKIE).iter().collect();
            assert_eq!(left, after, "{before:?}");
        }
    }
}
