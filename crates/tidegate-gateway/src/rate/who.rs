//! Who asks, as far as limits can tell: the named network that a client is in, the API key that it shows, and what its
//! token says.

use std::net::IpAddr;
use std::sync::OnceLock;

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use ipnet::IpNet;
use sha2::Sha256;

use super::plan::{KEY_PARTS_MAX, KeyPart, NetworkPlan};
use super::token::{Claims, TokenPlan};
use super::{Limit, RatePlan};
use crate::context::Clock;

/// What is known beforehand.
#[derive(Debug)]
pub(crate) struct Who {
    /// The longest prefixes first.
    networks: Vec<(IpNet, String)>,
    tokens: Option<TokenPlan>,
    clock: Clock,
}

/// What the token of a request says: found out when a limit first asks, and once.
#[derive(Debug, Default)]
pub(crate) struct Bearer(OnceLock<Option<Claims>>);

/// What API keys are hashed with before anything else is done with them.
#[derive(Clone)]
pub(crate) struct KeyHash(Hmac<Sha256>);

/// Hashes of the API keys of a request, by their places in the key of a limit: as they are shown, in hexadecimal digits.
#[derive(Default)]
pub(crate) struct ApiKeys([Option<[u8; 32]>; KEY_PARTS_MAX]);

impl Who {
    /// What `plan` says of networks and tokens.
    pub(crate) fn new(plan: &RatePlan, clock: Clock) -> Self {
        let named = |network: &NetworkPlan| -> Vec<(IpNet, String)> {
            let addresses = network.addresses.iter();
            addresses.map(|it| (*it, network.name.clone())).collect()
        };
        let mut networks: Vec<_> = plan.networks.iter().flat_map(named).collect();
        networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
        Self {
            networks,
            tokens: plan.tokens.clone(),
            clock,
        }
    }

    /// The name of the smallest network that `client` is in.
    pub(crate) fn network(&self, client: IpAddr) -> Option<&str> {
        let client = client.to_canonical();
        let mut networks = self.networks.iter();
        let (_, name) = networks.find(|(network, _)| network.contains(&client))?;
        Some(name)
    }

    /// What the token in `headers` says under `name`, if it is to be believed.
    pub(crate) fn claim<'r>(
        &self,
        bearer: &'r Bearer,
        headers: &HeaderMap,
        name: &str,
    ) -> Option<&'r str> {
        let read = || self.tokens.as_ref()?.claims(headers, self.clock.wall());
        bearer.0.get_or_init(read).as_ref()?.get(name)
    }
}

impl KeyHash {
    /// With the secret that keys of limits are hashed with.
    pub(crate) fn new(secret: [u8; 16]) -> Self {
        let mac = Hmac::<Sha256>::new_from_slice(&secret).expect("a key of any length will do");
        Self(mac.chain_update(b"tidegate api key\0"))
    }

    /// The hashes of what `headers` have of the API keys that `limit` counts by. Of several lines the first: what most
    /// applications read, or they read all of them joined, and that is no key of anybody.
    pub(crate) fn api_keys(&self, limit: &Limit, headers: &HeaderMap) -> ApiKeys {
        let mut found = ApiKeys::default();
        for (found, part) in found.0.iter_mut().zip(&limit.plan.key) {
            let KeyPart::ApiKey(name) = part else {
                continue;
            };
            let shown = headers.get(name).filter(|shown| !shown.is_empty());
            *found = shown.map(|shown| self.hash(shown.as_bytes()));
        }
        found
    }

    fn hash(&self, key: &[u8]) -> [u8; 32] {
        let hash = self.0.clone().chain_update(key).finalize().into_bytes();
        let digit = |at: usize| {
            let byte = hash[at / 2];
            let half = if at & 1 == 0 { byte >> 4 } else { byte & 15 };
            b"0123456789abcdef"[usize::from(half)]
        };
        std::array::from_fn(digit)
    }
}

impl ApiKeys {
    pub(crate) fn at(&self, place: usize) -> Option<&[u8]> {
        self.0[place].as_ref().map(|digits| &digits[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_network_that_an_address_is_in_has_its_name() {
        let network = |name: &str, addresses: &[&str]| NetworkPlan {
            name: name.to_owned(),
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
        };
        let plan = RatePlan {
            networks: vec![
                network("all", &["10.0.0.0/8"]),
                network("office", &["10.1.0.0/16", "2001:db8::/32"]),
            ],
            ..RatePlan::default()
        };
        let who = Who::new(&plan, Clock::start());
        let of = |text: &str| who.network(text.parse().unwrap());

        assert_eq!(of("10.1.2.3"), Some("office"));
        assert_eq!(of("::ffff:10.1.2.3"), Some("office"));
        assert_eq!(of("10.2.2.3"), Some("all"));
        assert_eq!(of("2001:db8:7::1"), Some("office"));
        assert_eq!(of("192.0.2.1"), None);
    }

    #[test]
    fn the_hash_of_an_api_key_depends_on_it_and_on_the_secret() {
        let (one, other) = (KeyHash::new([1; 16]), KeyHash::new([2; 16]));

        assert_eq!(one.hash(b"key"), KeyHash::new([1; 16]).hash(b"key"));
        assert_ne!(one.hash(b"key"), one.hash(b"kez"));
        assert_ne!(one.hash(b"key"), other.hash(b"key"));
        assert!(one.hash(b"key").iter().all(u8::is_ascii_hexdigit));
    }
}
