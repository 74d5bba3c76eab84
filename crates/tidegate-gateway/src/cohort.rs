//! Which part of the users a request belongs to.
//!
//! When not all of a class can be served, whole cohorts are refused rather than every request by
//! chance, so that those who get in get all of a page and of a checkout. Every hour the users are
//! dealt out anew, so that nobody is unlucky for long.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;

use http::HeaderMap;
use ipnet::IpNet;
use tidegate_core::facts::COHORTS;
use tidegate_core::time::Mono;
use tidegate_http::names::X_FORWARDED_FOR;

/// How long a user stays in a cohort.
const HOUR_NANOS: u64 = 3600 * 1_000_000_000;

/// Deals users out to cohorts. The hash is keyed anew in every process, so that no client can work
/// out which session would be in which.
#[derive(Debug, Default)]
pub struct Cohorts(RandomState);

impl Cohorts {
    /// The cohort at `now` of whoever has `session`, or else comes from the client network of
    /// `address`: an IPv4 address or an IPv6 /64.
    pub fn of(&self, now: Mono, session: Option<&[u8]>, address: IpAddr) -> u8 {
        let mut hasher = self.0.build_hasher();
        hasher.write_u64(now.as_nanos() / HOUR_NANOS);
        match (session, address.to_canonical()) {
            (Some(session), _) => hasher.write(session),
            (None, IpAddr::V4(address)) => hasher.write_u32(address.into()),
            (None, IpAddr::V6(address)) => hasher.write_u64((u128::from(address) >> 64) as u64),
        }
        (hasher.finish() % u64::from(COHORTS)) as u8
    }
}

/// The address of the client of a trusted `peer`: the last one in `X-Forwarded-For` that is not
/// itself one of the `trusted`, since each of them adds who has called it. `peer` itself when there
/// is no such.
pub fn client(headers: &HeaderMap, peer: IpAddr, trusted: &[IpNet]) -> IpAddr {
    let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
    let entries = lines.flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b','));
    // An entry that is no address ends the way back: before it anybody may have written anything.
    entries
        .map_while(address)
        .find(|&address| !trusted.iter().any(|network| network.contains(&address)))
        .unwrap_or(peer)
}

/// An address with or without port, an IPv6 one with or without brackets.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let entry = str::from_utf8(entry).ok()?.trim();
    let bare = match entry.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => match entry.rsplit_once(':') {
            Some((host, _)) if !host.contains(':') => host,
            _ => entry,
        },
    };
    bare.parse()
        .ok()
        .map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9));

    fn forwarded(lines: &[&'static str]) -> HeaderMap {
        let lines = lines
            .iter()
            .map(|line| (X_FORWARDED_FOR, HeaderValue::from_static(line)));
        lines.collect()
    }

    #[test]
    fn a_user_stays_in_a_cohort_for_an_hour_wherever_they_are() {
        let cohorts = Cohorts::default();
        let other: IpAddr = "198.51.100.7".parse().unwrap();
        let of = |minute: u64, address| {
            cohorts.of(
                Mono::from_millis(minute * 60_000),
                Some(b"JSESSIONID=1"),
                address,
            )
        };

        assert_eq!(of(0, HOME), of(59, other));
        let hours = (0..100).filter(|hour| of(60 * hour, HOME) == of(60 * hour + 60, HOME));
        assert!(hours.count() < 20, "the next hour deals anew");
    }

    #[test]
    fn without_a_session_a_client_network_is_a_user() {
        let cohorts = Cohorts::default();
        let of = |text: &str| cohorts.of(Mono::default(), None, text.parse().unwrap());

        assert_eq!(of("2001:db8:1:2::3"), of("2001:db8:1:2:ffff::9"));
        assert_eq!(of("203.0.113.9"), of("::ffff:203.0.113.9"));
    }

    #[test]
    fn users_spread_over_all_cohorts_and_differently_in_every_process() {
        let seen = |cohorts: &Cohorts| {
            (0..1280u32).fold([0u32; COHORTS as usize], |mut seen, user| {
                let session = user.to_le_bytes();
                seen[usize::from(cohorts.of(Mono::default(), Some(&session), HOME))] += 1;
                seen
            })
        };

        let (one, another) = (seen(&Cohorts::default()), seen(&Cohorts::default()));

        assert!(one.iter().all(|&count| count < 40), "{one:?}");
        assert!(
            one.iter().filter(|&&count| count == 0).count() < 5,
            "{one:?}"
        );
        assert_ne!(one, another);
    }

    #[test]
    fn a_client_is_the_last_that_no_proxy_of_ours_is() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let peer: IpAddr = "10.0.0.1".parse().unwrap();
        let found = |lines: &[&'static str]| client(&forwarded(lines), peer, &trusted);

        assert_eq!(found(&["198.51.100.1, 203.0.113.9, 10.1.1.1"]), HOME);
        assert_eq!(found(&["198.51.100.1", "203.0.113.9:4711"]), HOME);
        assert_eq!(
            found(&["[2001:db8::1]:80"]),
            "2001:db8::1".parse::<IpAddr>().unwrap()
        );
        assert_eq!(
            found(&["2001:db8::1"]),
            "2001:db8::1".parse::<IpAddr>().unwrap()
        );
        assert_eq!(found(&[]), peer);
        assert_eq!(found(&["203.0.113.9, unknown"]), peer);
        assert_eq!(found(&["10.2.2.2"]), peer);
    }
}
