//! Under which key the state of a rate limit is kept: a hash of what the limit counts by, with a secret of the fleet.

use siphasher::sip128::{Hasher128, SipHasher13};
use tidegate_core::rate::key::{self, Part};

/// What keeps clients from choosing headers that collide with somebody else's. The same on every node of a fleet: with
/// another one, every node counts for itself.
#[derive(Clone)]
pub struct RateSecret([u8; 16]);

/// The keys of one limit.
#[derive(Clone)]
pub struct RateKeys(SipHasher13);

impl RateSecret {
    /// Of 16 random bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The keys of the limit with that name.
    pub fn limit(&self, name: &str) -> RateKeys {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        key::begin(name, &mut hasher);
        RateKeys(hasher)
    }
}

impl RateKeys {
    /// The key of what the limit counts a request by.
    pub fn key(&self, parts: &[Part<'_>]) -> u128 {
        let mut hasher = self.0;
        key::write(parts, &mut hasher);
        hasher.finish128().as_u128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_depends_on_secret_limit_and_parts_and_on_nothing_else() {
        let secret = RateSecret::new(*b"sixteen bytes it");
        let other = RateSecret::new(*b"sixteen others!!");
        let (anna, bert) = ([Part::Identity(b"anna")], [Part::Identity(b"bert")]);

        let key = secret.limit("login").key(&anna);

        assert_eq!(key, secret.clone().limit("login").key(&anna));
        assert_ne!(key, secret.limit("login").key(&bert));
        assert_ne!(key, secret.limit("search").key(&anna));
        assert_ne!(key, other.limit("login").key(&anna));
        // Nodes of different versions share a store.
        assert_eq!(key, 299_985_730_335_320_817_966_376_978_305_232_036_698);
    }
}
