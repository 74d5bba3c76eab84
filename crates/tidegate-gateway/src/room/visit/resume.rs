//! The hint that somebody has something to go on with: a cookie that makes its owner one who is back (tier 1) although
//! nobody has asked the store for them.
//!
//! It is made by a gateway when it sees a session with a cart, a draft or the like, says until when, and is checked with the keys of
//! the sessions. It is of nobody in particular: what it gives is a place further ahead.

use std::time::Duration;

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use tidegate_core::time::Wall;

use crate::session::{SessionPlan, Transport, cookie_line, cookies};

/// How long it counts: as long as what it is about is kept for who comes back, unless that is configured otherwise.
const KEPT: Duration = Duration::from_secs(86_400);

/// The name of its cookie.
pub(crate) const fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Tls => "__Host-tg_resume",
        Transport::Insecure => "tg_resume",
    }
}

/// Until which second since 1970 `headers` say so, if that is not over at `now`.
pub(crate) fn read(headers: &HeaderMap, plan: &SessionPlan, now: Wall) -> Option<u64> {
    let name = name(plan.cookies.transport()).as_bytes();
    let lines = headers.get_all(COOKIE).iter();
    let mut all = lines.flat_map(|line| cookies(line.as_bytes()));
    let (_, value) = all.find(|(known, _)| *known == name)?;
    let until_s = plan.keys.promised(value)?;
    (until_s > seconds(now)).then_some(until_s)
}

/// Whether who has it until `until_s` gets another one at `now`: not with every answer, since one with a cookie is for no
/// cache.
pub(crate) fn is_due(until_s: Option<u64>, now: Wall) -> bool {
    let half = KEPT.as_secs() / 2;
    until_s.is_none_or(|until_s| until_s.saturating_sub(seconds(now)) < half)
}

/// What gives it.
pub(crate) fn give(plan: &SessionPlan, now: Wall) -> HeaderValue {
    let transport = plan.cookies.transport();
    let value = plan.keys.promise(seconds(now) + KEPT.as_secs());
    cookie_line(transport, name(transport), &value, Some(KEPT))
}

const fn seconds(now: Wall) -> u64 {
    now.as_micros() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{CookiePlan, Keys, OnUnstored};

    const NOW_S: u64 = 1_796_000_000;

    fn plan(transport: Transport) -> SessionPlan {
        SessionPlan {
            cookies: CookiePlan::new("tg", transport, false),
            keys: Keys::draw(),
            tickets: true,
            affinity: None,
            tiers: Vec::new(),
            rotate_every: None,
            on_unstored: OnUnstored::Drop,
        }
    }

    fn at(second: u64) -> Wall {
        Wall::from_micros(second * 1_000_000)
    }

    /// What a browser sends that got this cookie.
    fn kept(line: &HeaderValue) -> HeaderMap {
        let line = line.to_str().unwrap();
        let (pair, _) = line.split_once(';').unwrap();
        let mut headers = HeaderMap::new();
        let both = format!("a=b; {pair}");
        headers.insert(COOKIE, HeaderValue::from_str(&both).unwrap());
        headers
    }

    #[test]
    fn it_counts_for_a_day_and_is_given_again_after_half_of_it() {
        for transport in [Transport::Tls, Transport::Insecure] {
            let plan = plan(transport);
            let line = give(&plan, at(NOW_S));
            let headers = kept(&line);

            let until = read(&headers, &plan, at(NOW_S));
            assert_eq!(until, Some(NOW_S + 86_400));
            assert_eq!(read(&headers, &plan, at(NOW_S + 86_399)), until);
            assert_eq!(read(&headers, &plan, at(NOW_S + 86_400)), None);
            assert!(!is_due(until, at(NOW_S + 43_200)));
            assert!(is_due(until, at(NOW_S + 43_201)));
            assert!(is_due(None, at(NOW_S)));
            assert!(line.to_str().unwrap().contains("Max-Age=86400"), "{line:?}");
        }
    }

    #[test]
    fn nobody_makes_it_but_we() {
        let (ours, theirs) = (plan(Transport::Insecure), plan(Transport::Insecure));

        assert_eq!(
            read(&kept(&give(&theirs, at(NOW_S))), &ours, at(NOW_S)),
            None
        );
        for value in [
            "1",
            "",
            "AAAA",
            "99999999999.",
            "99999999999.AAAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            let mut headers = HeaderMap::new();
            let line = format!("tg_resume={value}");
            headers.insert(COOKIE, HeaderValue::from_str(&line).unwrap());
            assert_eq!(read(&headers, &ours, at(NOW_S)), None, "{value}");
        }
        assert_eq!(read(&HeaderMap::new(), &ours, at(NOW_S)), None);
    }
}
