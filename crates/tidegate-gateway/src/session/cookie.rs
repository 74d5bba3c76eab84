//! Cookies that an answer sets, and what that makes of the answer.

use std::time::Duration;

use http::header::{CACHE_CONTROL, EXPIRES, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::session::keys::Keys;
use crate::session::plan::{Affinity, SessionPlan, Transport};
use crate::session::token::Token;

/// The cookies that an answer is to set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cookies(Vec<HeaderValue>);

/// How long a visitor is led back to the gateway that has their session, unless the store is back
/// before that.
const AFFINITY_KEPT: Duration = Duration::from_secs(600);

/// What tells shared caches in the way of answers that they may keep this one, whatever
/// `Cache-Control` says.
static CACHE_OVERRIDES: [HeaderName; 3] = [
    HeaderName::from_static("cdn-cache-control"),
    HeaderName::from_static("surrogate-control"),
    EXPIRES,
];

impl Cookies {
    /// The session's cookie; `rest` is how long the session may still live.
    pub(crate) fn session(&mut self, plan: &SessionPlan, value: &str, rest: Duration) {
        let life = plan.cookies.persistent().then_some(rest);
        self.set(plan, plan.cookies.session(), value, life);
    }

    /// The ticket's cookie.
    pub(crate) fn ticket(&mut self, plan: &SessionPlan, value: &str, rest: Duration) {
        let life = plan.cookies.persistent().then_some(rest);
        self.set(plan, plan.cookies.ticket(), value, life);
    }

    /// Takes the session's cookie away.
    pub(crate) fn no_session(&mut self, plan: &SessionPlan) {
        self.set(plan, plan.cookies.session(), "", Some(Duration::ZERO));
    }

    /// Takes the ticket's cookie away.
    pub(crate) fn no_ticket(&mut self, plan: &SessionPlan) {
        self.set(plan, plan.cookies.ticket(), "", Some(Duration::ZERO));
    }

    /// Leads the visitor back to this gateway.
    pub(crate) fn affinity(&mut self, plan: &SessionPlan, affinity: &Affinity) {
        let value = affinity_value(affinity, &plan.keys);
        self.set(plan, Affinity::COOKIE, &value, Some(AFFINITY_KEPT));
    }

    /// Lets the visitor go to any gateway again.
    pub(crate) fn no_affinity(&mut self, plan: &SessionPlan) {
        self.set(plan, Affinity::COOKIE, "", Some(Duration::ZERO));
    }

    /// One of another part of Tidegate.
    pub(crate) fn add(&mut self, line: HeaderValue) {
        self.0.push(line);
    }

    /// Whether there are none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts them on an answer. No cache may keep it then: another visitor would get the cookies.
    pub(crate) fn put_on(self, headers: &mut HeaderMap) {
        if self.is_empty() {
            return;
        }
        for line in self.0 {
            headers.append(SET_COOKIE, line);
        }
        for name in &CACHE_OVERRIDES {
            headers.remove(name);
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    }

    fn set(&mut self, plan: &SessionPlan, name: &str, value: &str, life: Option<Duration>) {
        self.0.push(line(plan, name, value, life));
    }
}

/// Takes out of an answer what sets a cookie of ours without having it from us, and counts it: the
/// browser would lose its session. What the sidecar gave the application for its visitor stays.
pub(crate) fn take_out_foreign(headers: &mut HeaderMap, plan: &SessionPlan) -> u64 {
    let lines = headers.get_all(SET_COOKIE).iter();
    let count = lines.filter(|line| is_foreign(line, plan)).count();
    if count > 0 {
        let lines: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().cloned().collect();
        headers.remove(SET_COOKIE);
        for line in lines.into_iter().filter(|line| !is_foreign(line, plan)) {
            headers.append(SET_COOKIE, line);
        }
    }
    count as u64
}

fn is_foreign(line: &HeaderValue, plan: &SessionPlan) -> bool {
    let pair = line.as_bytes().split(|byte| *byte == b';').next();
    let pair = pair.unwrap_or_default();
    let Some(equals) = pair.iter().position(|byte| *byte == b'=') else {
        return false;
    };
    let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
    if name == plan.cookies.session().as_bytes() {
        return Token::parse(value, &plan.keys).is_err();
    }
    let is_affinity = plan.affinity.is_some() && name == Affinity::COOKIE.as_bytes();
    is_affinity || name == plan.cookies.ticket().as_bytes()
}

/// What sets a cookie.
pub(crate) fn line(
    plan: &SessionPlan,
    name: &str,
    value: &str,
    life: Option<Duration>,
) -> HeaderValue {
    cookie_line(plan.cookies.transport(), name, value, life)
}

/// What sets a cookie, of sessions or not.
pub(crate) fn cookie_line(
    transport: Transport,
    name: &str,
    value: &str,
    life: Option<Duration>,
) -> HeaderValue {
    let secure = match transport {
        Transport::Tls => "; Secure",
        Transport::Insecure => "",
    };
    let life = match life {
        None => String::new(),
        Some(life) => format!("; Max-Age={}", life.as_secs()),
    };
    let line = format!("{name}={value}; Path=/{life}{secure}; HttpOnly; SameSite=Lax");
    let mut line = HeaderValue::try_from(line).expect("our cookies are plain ASCII");
    line.set_sensitive(true);
    line
}

/// The value of the affinity cookie: the node's name and what shows that we have said it.
pub(crate) fn affinity_value(affinity: &Affinity, keys: &Keys) -> String {
    format!("{}.{}", affinity.node(), keys.vouch(affinity.node()))
}

/// Whether `value` leads to `affinity`'s node.
pub(crate) fn leads_here(value: &[u8], affinity: &Affinity, keys: &Keys) -> bool {
    let node = affinity.node().as_bytes();
    let rest = value.strip_prefix(node);
    let proof = rest.and_then(|rest| rest.strip_prefix(b"."));
    proof.is_some_and(|proof| keys.vouches(affinity.node(), proof))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::plan::{CookiePlan, OnUnstored};

    fn plan(transport: Transport, persistent: bool) -> SessionPlan {
        SessionPlan {
            cookies: CookiePlan::new("tg", transport, persistent),
            keys: Keys::draw(),
            tickets: true,
            affinity: None,
            tiers: Vec::new(),
            rotate_every: None,
            on_unstored: OnUnstored::Drop,
        }
    }

    #[test]
    fn a_cookie_is_for_this_host_by_tls_and_out_of_scripts_reach() {
        let mut cookies = Cookies::default();
        cookies.session(&plan(Transport::Tls, false), "v", Duration::from_secs(9));
        cookies.session(&plan(Transport::Tls, true), "v", Duration::from_secs(9));
        cookies.ticket(&plan(Transport::Insecure, false), "t", Duration::ZERO);
        cookies.no_session(&plan(Transport::Tls, false));

        assert_eq!(
            cookies.0,
            [
                "__Host-tg=v; Path=/; Secure; HttpOnly; SameSite=Lax",
                "__Host-tg=v; Path=/; Max-Age=9; Secure; HttpOnly; SameSite=Lax",
                "tgt=t; Path=/; HttpOnly; SameSite=Lax",
                "__Host-tg=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Lax",
            ]
        );
    }

    #[test]
    fn an_answer_with_a_cookie_of_ours_is_not_for_caches() {
        let mut headers = HeaderMap::new();
        headers.insert(
            CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=60"),
        );
        headers.insert(
            EXPIRES,
            HeaderValue::from_static("Thu, 01 Dec 2033 16:00:00 GMT"),
        );
        headers.insert("cdn-cache-control", HeaderValue::from_static("max-age=60"));
        headers.append(SET_COOKIE, HeaderValue::from_static("app=1"));
        let before = headers.clone();

        Cookies::default().put_on(&mut headers);
        assert_eq!(headers, before);

        let mut cookies = Cookies::default();
        cookies.session(&plan(Transport::Tls, false), "v", Duration::ZERO);
        cookies.put_on(&mut headers);
        assert_eq!(headers[CACHE_CONTROL], "private, no-store");
        assert_eq!(headers.get_all(SET_COOKIE).iter().count(), 2);
        assert_eq!(headers.len(), 3);
    }

    #[test]
    fn an_application_sets_no_cookie_of_ours_but_what_the_sidecar_gave_it() {
        for (transport, ours, others) in [
            (
                Transport::Tls,
                ["__Host-tg=evil; Path=/", "__Host-tgt=x", "tg_a=gw9.x"],
                ["tg=1", "tgt=1"],
            ),
            (
                Transport::Insecure,
                [" tg =evil", "tgt=", "tg_a=; Max-Age=0"],
                ["__Host-tg=1", "TG=1"],
            ),
        ] {
            let mut plan = plan(transport, false);
            plan.affinity = Affinity::new("gw1").ok();
            let given = Token::draw().write(&plan.keys);
            let given = line(&plan, plan.cookies.session(), &given, None);
            let mut headers = HeaderMap::new();
            for line in ours.iter().chain(&others).chain(&["app=tg=1", "flag"]) {
                headers.append(SET_COOKIE, HeaderValue::from_static(line));
            }
            headers.append(SET_COOKIE, given.clone());

            assert_eq!(take_out_foreign(&mut headers, &plan), 3);

            let left: Vec<&HeaderValue> = headers.get_all(SET_COOKIE).iter().collect();
            assert_eq!(left[..2], others);
            assert_eq!(left[2..4], ["app=tg=1", "flag"]);
            assert_eq!(left[4..], [&given]);
            assert_eq!(take_out_foreign(&mut headers, &plan), 0);
        }
    }

    #[test]
    fn an_affinity_cookie_leads_to_the_node_that_we_said_and_no_other() {
        let keys = Keys::draw();
        let (one, other) = (Affinity::new("gw1").unwrap(), Affinity::new("gw2").unwrap());
        let value = affinity_value(&one, &keys);

        assert!(leads_here(value.as_bytes(), &one, &keys));
        assert!(!leads_here(value.as_bytes(), &other, &keys));
        assert!(!leads_here(b"gw1.AAAAAAAAAAAA", &one, &keys));
        assert!(!leads_here(b"gw1.", &one, &keys));
        assert!(!leads_here(b"gw1", &one, &keys));
    }
}
