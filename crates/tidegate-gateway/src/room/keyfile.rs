//! The file with the keys: a JSON Web Key Set (RFC 7517) with private keys and, beside each, the times of its states.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::keys::{Algorithm, Key, Keys, Material, PUBLIC_BEFORE_SIGNING_S, Secret, Times};
use super::spelling::{read, spelt};
use crate::session::keys::random;

/// Why a text is no file of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKeys {
    /// It is not of the form.
    #[error("it is no JSON Web Key Set (RFC 7517) with the members in docs/room-tokens.md: {0}")]
    Unreadable(String),
    /// There are none, or too many.
    #[error("`keys` has {0} of them: 1 to {max} are right", max = Keys::COUNT_MAX)]
    Count(usize),
    /// Nothing makes tickets.
    #[error("`keys` has none with `kty` \"oct\", and tickets are made with such a one: add one")]
    NoSecret,
    /// A key is not one.
    #[error("key number {at} of `keys`, {kid}: `{field}` is {value}: {fix}")]
    Key {
        /// Which one, from 1 on.
        at: usize,
        /// Its name, as far as it has one.
        kid: String,
        /// Which member of it.
        field: &'static str,
        /// What the member is. What may be secret is not said.
        value: String,
        /// What to do about it.
        fix: String,
    },
}

/// Least bytes of a secret: as many as its hash has (RFC 7518, 3.2).
const SECRET_LEN_MIN: usize = 32;
/// The last second that a pass can name.
const SECOND_MAX: u64 = u32::MAX as u64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Jwk {
    kid: Option<Value>,
    kty: Option<Value>,
    crv: Option<Value>,
    alg: Option<Value>,
    k: Option<Value>,
    d: Option<Value>,
    x: Option<Value>,
    y: Option<Value>,
    published: Option<Value>,
    signs_from: Option<Value>,
    verify_only_from: Option<Value>,
    revoked_from: Option<Value>,
}

/// What is wrong with a member of a key.
struct Wrong {
    field: &'static str,
    value: String,
    fix: String,
}

impl Keys {
    /// The keys in the text of a file.
    ///
    /// # Errors
    ///
    /// With the key, the member, what it is and what it should be.
    pub fn from_json(text: &str) -> Result<Self, BadKeys> {
        let File { keys: all } =
            serde_json::from_str(text).map_err(|error| BadKeys::Unreadable(error.to_string()))?;
        if !(1..=Self::COUNT_MAX).contains(&all.len()) {
            return Err(BadKeys::Count(all.len()));
        }
        let mut keys: Vec<Key> = Vec::with_capacity(all.len());
        let (mut names, mut prints) = (HashSet::new(), HashSet::new());
        for (at, jwk) in all.iter().enumerate() {
            let bad = |wrong: Wrong| BadKeys::Key {
                at: at + 1,
                kid: shown(&jwk.kid),
                field: wrong.field,
                value: wrong.value,
                fix: wrong.fix,
            };
            let key = jwk.key().map_err(bad)?;
            if !names.insert(key.kid.clone()) {
                let fix = "an earlier key has this name: give each its own";
                return Err(bad(wrong("kid", shown(&jwk.kid), fix)));
            }
            if !prints.insert(key.print) {
                let fix = "an earlier key is the same: draw another";
                return Err(bad(wrong(jwk.secret_field(), SECRET.into(), fix)));
            }
            keys.push(key);
        }
        if !keys.iter().any(|key| key.algorithm() == Algorithm::Hs256) {
            return Err(BadKeys::NoSecret);
        }
        Ok(Self::of(keys))
    }
}

/// A new key for a file: an object of its `keys`. It is public from `published_s` on, in seconds since 1970.
pub fn draw_key(kid: &str, algorithm: Algorithm, published_s: u64) -> String {
    let mut jwk = match algorithm {
        Algorithm::Hs256 => json!({ "kty": "oct", "k": spelt(&random::<32>()) }),
        Algorithm::EdDsa => {
            let seed: [u8; 32] = random();
            let pair = Ed25519KeyPair::from_seed_unchecked(&seed);
            let pair = pair.expect("any 32 bytes are a seed");
            let x = spelt(pair.public_key().as_ref());
            json!({ "kty": "OKP", "crv": "Ed25519", "d": spelt(&seed), "x": x })
        }
        Algorithm::Es256 => {
            let (algorithm, system) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
            let drawn = EcdsaKeyPair::generate_pkcs8(algorithm, &system);
            let drawn = drawn.expect("the system has random bytes once it is up");
            // RFC 5915: the scalar in an octet string, and behind five bytes of framing the point, which is the end.
            let (rest, point) = drawn.as_ref().split_at(drawn.as_ref().len() - 65);
            let scalar = &rest[rest.len() - 5 - 32..rest.len() - 5];
            let (d, x, y) = (spelt(scalar), spelt(&point[1..33]), spelt(&point[33..]));
            json!({ "kty": "EC", "crv": "P-256", "d": d, "x": x, "y": y })
        }
    };
    jwk["kid"] = kid.into();
    jwk["alg"] = algorithm.name().into();
    jwk["published"] = published_s.into();
    jwk.to_string()
}

impl Jwk {
    fn key(&self) -> Result<Key, Wrong> {
        let kid = self.name()?;
        let times = self.times()?;
        let algorithm = self.algorithm()?;
        let material = match algorithm {
            Algorithm::Hs256 => self.oct()?,
            Algorithm::EdDsa => self.ed25519()?,
            Algorithm::Es256 => self.p256()?,
        };
        Ok(Key::new(kid, times, material))
    }

    fn name(&self) -> Result<String, Wrong> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let kid = self.kid.as_ref().and_then(Value::as_str);
        kid.filter(|kid| (1..=32).contains(&kid.len()) && kid.bytes().all(plain))
            .map(str::to_owned)
            .ok_or_else(|| {
                let fix = "name it with 1 to 32 letters, digits, '-', '_' and '.'";
                wrong("kid", shown(&self.kid), fix)
            })
    }

    fn algorithm(&self) -> Result<Algorithm, Wrong> {
        let text =
            |member: &Option<Value>| member.as_ref().and_then(Value::as_str).map(str::to_owned);
        let algorithm = match (text(&self.kty).as_deref(), text(&self.crv).as_deref()) {
            (Some("oct"), None) => Algorithm::Hs256,
            (Some("OKP"), Some("Ed25519")) => Algorithm::EdDsa,
            (Some("EC"), Some("P-256")) => Algorithm::Es256,
            (Some("OKP" | "EC"), _) => {
                let fix = "\"Ed25519\" goes with `kty` \"OKP\", and \"P-256\" with \"EC\"";
                return Err(wrong("crv", shown(&self.crv), fix));
            }
            (Some("oct"), Some(_)) => {
                return Err(wrong(
                    "crv",
                    shown(&self.crv),
                    "a secret has none: remove it",
                ));
            }
            _ => {
                let fix = "\"oct\" is a secret, \"OKP\" Ed25519, \"EC\" P-256; there are no others";
                return Err(wrong("kty", shown(&self.kty), fix));
            }
        };
        if self.alg.is_some() && text(&self.alg).as_deref() != Some(algorithm.name()) {
            let fix = format!("this key is for \"{}\" and nothing else", algorithm.name());
            return Err(wrong("alg", shown(&self.alg), fix));
        }
        Ok(algorithm)
    }

    fn times(&self) -> Result<Times, Wrong> {
        let published = second(&self.published, "published")?.ok_or_else(|| {
            let fix = "set it to the second since 1970 from which on everybody has this file";
            wrong("published", shown(&self.published), fix)
        })?;
        let earliest = published + PUBLIC_BEFORE_SIGNING_S;
        let signs = second(&self.signs_from, "signs_from")?.unwrap_or(earliest);
        if signs < earliest {
            let fix = format!(
                "a key is public for {PUBLIC_BEFORE_SIGNING_S} s before it signs: {earliest} is the earliest"
            );
            return Err(wrong("signs_from", shown(&self.signs_from), fix));
        }
        let verify_only = second(&self.verify_only_from, "verify_only_from")?.unwrap_or(u64::MAX);
        if verify_only <= signs {
            let fix = format!("it has to be later than `signs_from`, which is {signs}");
            return Err(wrong(
                "verify_only_from",
                shown(&self.verify_only_from),
                fix,
            ));
        }
        let revoked = second(&self.revoked_from, "revoked_from")?.unwrap_or(u64::MAX);
        if revoked < published {
            let fix = format!("it has to be no earlier than `published`, which is {published}");
            return Err(wrong("revoked_from", shown(&self.revoked_from), fix));
        }
        Ok(Times {
            published,
            signs,
            verify_only,
            revoked,
        })
    }

    fn oct(&self) -> Result<Material, Wrong> {
        let k = self.k.as_ref().and_then(Value::as_str);
        let secret = k.and_then(|k| URL_SAFE_NO_PAD.decode(k).ok());
        let secret = secret
            .filter(|it| it.len() >= SECRET_LEN_MIN)
            .ok_or_else(|| {
                let fix = "32 random bytes or more in base64url without padding";
                wrong("k", secretly(&self.k), fix)
            })?;
        Ok(Material::Secret(Box::new(Secret::derive(&secret))))
    }

    fn ed25519(&self) -> Result<Material, Wrong> {
        let (d, x) = (self.private()?, coordinate(&self.x, "x")?);
        let pair = Ed25519KeyPair::from_seed_and_public_key(&d, &x).map_err(|_| {
            let fix = "it is not the public key of `d`";
            wrong("x", shown(&self.x), fix)
        })?;
        Ok(Material::Ed25519(Box::new(pair)))
    }

    fn p256(&self) -> Result<Material, Wrong> {
        let d = self.private()?;
        let (x, y) = (coordinate(&self.x, "x")?, coordinate(&self.y, "y")?);
        let point = [&[4][..], &x, &y].concat();
        let (algorithm, system) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, &d, &point, &system);
        let pair = pair.map_err(|_| {
            let fix = "with `y` it is not the public key of `d`";
            wrong("x", shown(&self.x), fix)
        })?;
        Ok(Material::P256(Box::new(pair), system))
    }

    fn private(&self) -> Result<[u8; 32], Wrong> {
        let d = self.d.as_ref().and_then(Value::as_str);
        d.and_then(read).ok_or_else(|| {
            let fix = "the private key is 32 bytes in base64url without padding";
            wrong("d", secretly(&self.d), fix)
        })
    }

    fn secret_field(&self) -> &'static str {
        if self.k.is_some() { "k" } else { "d" }
    }
}

fn coordinate(member: &Option<Value>, field: &'static str) -> Result<[u8; 32], Wrong> {
    let text = member.as_ref().and_then(Value::as_str);
    text.and_then(read).ok_or_else(|| {
        let fix = "32 bytes in base64url without padding";
        wrong(field, shown(member), fix)
    })
}

fn second(member: &Option<Value>, field: &'static str) -> Result<Option<u64>, Wrong> {
    let Some(value) = member else {
        return Ok(None);
    };
    let second = value.as_u64().filter(|it| *it <= SECOND_MAX);
    second.map(Some).ok_or_else(|| {
        let fix = format!("a whole number of seconds since 1970, {SECOND_MAX} at most");
        wrong(field, shown(member), fix)
    })
}

const SECRET: &str = "not shown";

fn secretly(member: &Option<Value>) -> String {
    let shown = member.as_ref().map_or("missing", |_| SECRET);
    shown.to_owned()
}

fn shown(member: &Option<Value>) -> String {
    let shown = member.as_ref().map(ToString::to_string);
    shown.unwrap_or_else(|| "missing".to_owned())
}

fn wrong(field: &'static str, value: String, fix: impl Into<String>) -> Wrong {
    Wrong {
        field,
        value,
        fix: fix.into(),
    }
}
