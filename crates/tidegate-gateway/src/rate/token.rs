//! Tokens by which clients say who they are, signed by somebody whose keys are configured: JSON Web Tokens (RFC 7519) in
//! their compact form, with HS256, RS256 or ES256.
//!
//! A key says which algorithm it is for, and a token that names another one has not been signed by it. A token that does
//! not verify, has ended or is for somebody else says nothing about who asks; it is for the application to refuse it.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use ring::agreement::{self, ECDH_P256, EphemeralPrivateKey};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::Sha256;
use tidegate_core::time::Wall;

/// Longest token that is read, in bytes.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Most keys.
const KEYS_MAX: usize = 64;
/// A token is held against so many keys at most: each takes up to a tenth of a millisecond.
const KEYS_TRIED_MAX: usize = 4;
/// What bits the modulus of an RSA key may have (RFC 7518, 3.3, and what the verifier bears).
const RSA_BITS: RangeInclusive<usize> = 2_048..=8_192;
/// And what its exponent may be, if it is odd.
const RSA_EXPONENTS: RangeInclusive<u64> = 3..=(1 << 33) - 1;
const BAD_EXPONENT: &str =
    "its e, the exponent, is not odd and from 3 to 2^33 - 1; 65537, AQAB, is usual";
/// Least bytes of a secret: as many as its hash has (RFC 7518, 3.2).
const SECRET_BYTES_MIN: usize = 32;

/// Whose tokens are believed.
#[derive(Clone, Debug)]
pub struct TokenPlan {
    /// Where they are: in `Authorization` after `Bearer`.
    pub header: HeaderName,
    /// Who has to have issued them; `None` for anybody who has a key.
    pub issuer: Option<String>,
    /// For whom they have to be; `None` for whomever.
    pub audience: Option<String>,
    /// By how much the clocks may differ.
    pub leeway: Duration,
    /// The file with the keys, which whoever starts the gateway reads.
    pub key_file: PathBuf,
    /// The keys.
    pub keys: TokenKeys,
}

/// Keys of those who sign tokens. By default none, and no token is believed.
#[derive(Clone, Default)]
pub struct TokenKeys(Arc<[Key]>);

/// Why a text is no set of keys.
#[derive(Debug, thiserror::Error)]
pub enum BadTokenKeys {
    /// It is no JSON Web Key Set.
    #[error("it is no JSON Web Key Set (RFC 7517)")]
    Unreadable(#[from] serde_json::Error),
    /// There are too many keys.
    #[error("it has {0} keys, and {KEYS_MAX} are the most")]
    TooMany(usize),
    /// A key for one of our algorithms is not what such a key is.
    #[error("key number {0} of `keys` is for {1} and will not do: {2}")]
    Key(usize, &'static str, &'static str),
    /// None of the keys is for one of our algorithms.
    #[error("it has no key for HS256, RS256 or ES256")]
    None,
}

struct Key {
    id: Option<String>,
    material: Material,
}

enum Material {
    Secret(Vec<u8>),
    /// Modulus and exponent, without zeros before them.
    Rsa(Vec<u8>, Vec<u8>),
    /// A point of P-256, uncompressed.
    Point(Vec<u8>),
}

/// What a verified token says: its texts and whole numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claims(Vec<(String, String)>);

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    k: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    /// What must be understood, and is not.
    crit: Option<Value>,
}

impl TokenKeys {
    /// The keys of a JSON Web Key Set. Those for other algorithms, and those for encryption, are passed over.
    ///
    /// # Errors
    ///
    /// When there is none left, or one of them is no such key.
    pub fn parse(text: &str) -> Result<Self, BadTokenKeys> {
        let KeySet { keys } = serde_json::from_str(text)?;
        if keys.len() > KEYS_MAX {
            return Err(BadTokenKeys::TooMany(keys.len()));
        }
        let mut known = Vec::new();
        for (at, jwk) in keys.into_iter().enumerate() {
            let Some(algorithm) = jwk.algorithm() else {
                continue;
            };
            let material = jwk.material(algorithm);
            let material = material.map_err(|why| BadTokenKeys::Key(at + 1, algorithm, why))?;
            known.push(Key {
                id: jwk.kid,
                material,
            });
        }
        match known.is_empty() {
            true => Err(BadTokenKeys::None),
            false => Ok(Self(known.into())),
        }
    }
}

/// A secret is in no log.
impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKeys({})", self.0.len())
    }
}

impl Jwk {
    /// The algorithm that it is for, if that is one of ours.
    fn algorithm(&self) -> Option<&'static str> {
        let algorithm = match (self.kty.as_str(), self.crv.as_deref()) {
            ("oct", _) => "HS256",
            ("RSA", _) => "RS256",
            ("EC", Some("P-256")) => "ES256",
            _ => return None,
        };
        let is_for_it = self.alg.as_deref().is_none_or(|named| named == algorithm);
        let signs = self.purpose.as_deref().is_none_or(|it| it == "sig");
        (is_for_it && signs).then_some(algorithm)
    }

    fn material(&self, algorithm: &str) -> Result<Material, &'static str> {
        let bytes = |member: &Option<String>, missing: &'static str| {
            let text = member.as_deref().ok_or(missing)?;
            decoded(text).ok_or("a member of it is not base64url without padding")
        };
        let number = |member: &Option<String>, missing| -> Result<Vec<u8>, &'static str> {
            let bytes = bytes(member, missing)?;
            let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
            Ok(bytes[zeros..].to_vec())
        };
        match algorithm {
            "HS256" => {
                let secret = bytes(&self.k, "it has no k")?;
                match secret.len() >= SECRET_BYTES_MIN {
                    true => Ok(Material::Secret(secret)),
                    false => Err("its secret has less than 32 bytes"),
                }
            }
            "RS256" => {
                let modulus = number(&self.n, "it has no n")?;
                let exponent = number(&self.e, "it has no e")?;
                check_rsa(&modulus, &exponent)?;
                Ok(Material::Rsa(modulus, exponent))
            }
            _ => {
                let (x, y) = (
                    bytes(&self.x, "it has no x")?,
                    bytes(&self.y, "it has no y")?,
                );
                if x.len() != 32 || y.len() != 32 {
                    return Err("its x and y have not 32 bytes each");
                }
                let point = [&[4][..], &x, &y].concat();
                match is_on_curve(&point) {
                    true => Ok(Material::Point(point)),
                    false => Err("its x and y are no point of P-256"),
                }
            }
        }
    }
}

/// Whether these, which begin with no zeros, are what the verifier takes for a key: what it does not, it would say of each
/// token and not of the key.
fn check_rsa(modulus: &[u8], exponent: &[u8]) -> Result<(), &'static str> {
    let bits = modulus.first().map_or(0, |first| {
        modulus.len() * 8 - first.leading_zeros() as usize
    });
    if !RSA_BITS.contains(&bits) {
        return Err("its n, the modulus, has not 2048 to 8192 bits");
    }
    let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
    if !is_odd(modulus) {
        return Err("its n, the modulus, is even, so it is no product of two primes");
    }
    if exponent.len() > size_of::<u64>() || !is_odd(exponent) {
        return Err(BAD_EXPONENT);
    }
    let exponent = exponent
        .iter()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    match RSA_EXPONENTS.contains(&exponent) {
        true => Ok(()),
        false => Err(BAD_EXPONENT),
    }
}

/// Whether the verifier takes this, uncompressed, for a point of P-256. It does not say so without a signature; whoever
/// agrees on a key with the point reads it by the same rules and does.
fn is_on_curve(point: &[u8]) -> bool {
    let ours = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new());
    let ours = ours.expect("the system has random bytes once it is up");
    let theirs = agreement::UnparsedPublicKey::new(&ECDH_P256, point);
    agreement::agree_ephemeral(ours, &theirs, |_| ()).is_ok()
}

impl Key {
    const fn algorithm(&self) -> &'static str {
        match self.material {
            Material::Secret(_) => "HS256",
            Material::Rsa(..) => "RS256",
            Material::Point(_) => "ES256",
        }
    }

    fn may_have_signed(&self, head: &Head) -> bool {
        let same = self.id.is_none() || head.kid.is_none() || self.id == head.kid;
        same && self.algorithm() == head.alg
    }

    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Secret(secret) => {
                let mac = Hmac::<Sha256>::new_from_slice(secret);
                let mac = mac.expect("a key of any length will do");
                mac.chain_update(message).verify_slice(signature).is_ok()
            }
            Material::Rsa(n, e) => {
                let key = RsaPublicKeyComponents { n, e };
                let algorithm = &RSA_PKCS1_2048_8192_SHA256;
                key.verify(algorithm, message, signature).is_ok()
            }
            Material::Point(point) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(message, signature).is_ok()
            }
        }
    }
}

impl TokenPlan {
    /// What the token in `headers` says at `now`, if there is one and it is to be believed.
    pub(crate) fn claims(&self, headers: &HeaderMap, now: Wall) -> Option<Claims> {
        let line = headers.get(&self.header)?.as_bytes();
        let token = match self.header == AUTHORIZATION {
            true => {
                let (scheme, rest) = line.split_at_checked("bearer ".len())?;
                scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest)?
            }
            false => line,
        };
        self.verified(str::from_utf8(token).ok()?.trim(), now)
    }

    fn verified(&self, token: &str, now: Wall) -> Option<Claims> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (head, payload) = message.split_once('.')?;
        let head: Head = serde_json::from_slice(&decoded(head)?).ok()?;
        if head.crit.is_some() {
            return None;
        }
        let signature = decoded(signature)?;
        let keys = self.keys.0.iter().filter(|key| key.may_have_signed(&head));
        keys.take(KEYS_TRIED_MAX)
            .find(|key| key.has_signed(message.as_bytes(), &signature))?;
        let said: Map<String, Value> = serde_json::from_slice(&decoded(payload)?).ok()?;
        self.is_for_us_at(&said, now).then(|| Claims::of(said))
    }

    /// Whether the token holds at `now` and here. One that never ends does not.
    fn is_for_us_at(&self, said: &Map<String, Value>, now: Wall) -> bool {
        let seconds = |name| said.get(name).map(|at| at.as_f64().unwrap_or(f64::NAN));
        let (now, leeway) = (now.as_micros() as f64 / 1e6, self.leeway.as_secs_f64());
        let has_not_ended = seconds("exp").is_some_and(|end| now < end + leeway);
        let has_begun = seconds("nbf").is_none_or(|begin| begin <= now + leeway);
        let is_from = self.issuer.as_ref().is_none_or(|issuer| {
            let from = said.get("iss").and_then(Value::as_str);
            from == Some(issuer)
        });
        let is_to = self
            .audience
            .as_ref()
            .is_none_or(|us| match said.get("aud") {
                Some(Value::String(to)) => to == us,
                Some(Value::Array(all)) => all.iter().any(|to| to.as_str() == Some(us)),
                _ => false,
            });
        has_not_ended && has_begun && is_from && is_to
    }
}

impl Claims {
    fn of(said: Map<String, Value>) -> Self {
        let plain = said.into_iter().filter_map(|(name, value)| match value {
            Value::String(text) => Some((name, text)),
            Value::Number(number) if !number.is_f64() => Some((name, number.to_string())),
            _ => None,
        });
        Self(plain.collect())
    }

    /// The claim `name`, if the token has it and it is a text or a whole number.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests;
