//! Under which key the state of a rate limit is kept: a hash of what the limit counts by, with a secret of the fleet.

use tidegate_core::rate::key::{self, Part};

use crate::sip::Sip;

/// What keeps clients from choosing headers that collide with somebody else's. The same on every node of a fleet: with
/// another one, every node counts for itself.
#[derive(Clone)]
pub struct RateSecret([u8; 16]);

/// The keys of one limit.
#[derive(Clone)]
pub struct RateKeys(Sip);

impl RateSecret {
    /// Of 16 random bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The keys of the limit with that name.
    pub fn limit(&self, name: &str) -> RateKeys {
        let mut hash = Sip::new(&self.0);
        key::begin(name, &mut hash);
        RateKeys(hash)
    }
}

impl RateKeys {
    /// The key of what the limit counts a request by.
    pub fn key(&self, parts: &[Part<'_>]) -> u128 {
        let mut hash = self.0;
        key::write(parts, &mut hash);
        hash.finish()
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
        assert_eq!(key, 311_615_037_482_385_084_120_379_379_472_848_718_909);
    }
}
