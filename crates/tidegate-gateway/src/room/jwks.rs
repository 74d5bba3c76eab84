//! The public keys, for whoever verifies passes without a secret of ours.

use ring::signature::KeyPair as _;
use serde_json::{Value, json};
use tidegate_core::time::Wall;

use super::keys::{Key, Keys, Material, PUBLIC_BEFORE_SIGNING_S};
use super::spelling::spelt;

/// Where the set is.
pub const JWKS_PATH: &str = "/.well-known/tidegate/jwks.json";

/// For how many seconds anybody may keep it: a key signs only when all of that is over.
pub const JWKS_MAX_AGE_S: u64 = PUBLIC_BEFORE_SIGNING_S;

impl Keys {
    /// The JSON Web Key Set (RFC 7517, 5) of the keys that are public at `now`. There is no secret in it, and nothing of
    /// one.
    pub fn jwks(&self, now: Wall) -> String {
        let shown = self.iter().filter(|key| key.times.state(now).verifies());
        let keys: Vec<Value> = shown.filter_map(Key::public).collect();
        json!({ "keys": keys }).to_string()
    }
}

impl Key {
    fn public(&self) -> Option<Value> {
        let mut jwk = match &self.material {
            Material::Secret(_) => return None,
            Material::Ed25519(pair) => {
                let x = spelt(pair.public_key().as_ref());
                json!({ "kty": "OKP", "crv": "Ed25519", "x": x })
            }
            Material::P256(pair, _) => {
                // Uncompressed: a byte that says so, and both coordinates.
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": spelt(x), "y": spelt(y) })
            }
        };
        jwk["kid"] = self.kid.as_str().into();
        jwk["alg"] = self.algorithm().name().into();
        jwk["use"] = "sig".into();
        Some(jwk)
    }
}
