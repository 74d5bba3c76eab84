//! The keys of waiting rooms: they sign passes, and a secret one also makes tickets.
//!
//! A key goes through states by times that stand in its file, so that all gateways change them at the same moment and
//! nobody has to load anything for it: it is published, signs, verifies what it signed, and is revoked. It signs only
//! when it has been public for [`PUBLIC_BEFORE_SIGNING_S`]: by then nobody has a set of keys without it.
//!
//! A token does not choose its algorithm. The header that a key writes is known to the byte, and a pass with any other
//! was not signed by it.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey,
};
use sha2::{Digest as _, Sha256};
use tidegate_core::time::Wall;

use super::pass::PASS_TYPE;
use super::spelling::{read, spelt};

/// For so many seconds at least a key is public before it signs: as long as anybody may keep a set of keys.
pub const PUBLIC_BEFORE_SIGNING_S: u64 = 300;

/// How passes are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// HMAC with SHA-256 (RFC 7518, 3.2): only who has the secret verifies.
    #[default]
    Hs256,
    /// Ed25519 (RFC 8037, 3.1).
    EdDsa,
    /// ECDSA on P-256 with SHA-256 (RFC 7518, 3.4), for who cannot verify Ed25519.
    Es256,
}

/// What a key does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// Nobody knows it yet.
    Pending,
    /// Everybody gets to know it.
    Published,
    /// It signs, unless a later one does.
    Signing,
    /// What it signed is good.
    VerifyOnly,
    /// Nothing that it signed is.
    Revoked,
}

/// From when on a key does what: seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) published: u64,
    pub(super) signs: u64,
    pub(super) verify_only: u64,
    pub(super) revoked: u64,
}

/// The keys of a fleet's rooms. Cloning shares them.
#[derive(Clone)]
pub struct Keys(Arc<[Key]>);

/// One of them.
pub(super) struct Key {
    pub(super) kid: String,
    pub(super) times: Times,
    pub(super) material: Material,
    /// The first part of each pass that it signs.
    pub(super) head: String,
    /// Tells what it verified from what another of the same name would have.
    pub(super) print: [u8; 8],
}

/// What it signs with.
pub(super) enum Material {
    Secret(Box<Secret>),
    Ed25519(Box<Ed25519KeyPair>),
    P256(Box<EcdsaKeyPair>, SystemRandom),
}

/// What is derived from a secret: one key for each use, so that whoever is given that for passes makes no tickets.
pub(super) struct Secret {
    /// Says in a ticket which secret made it; no secret itself.
    pub(super) ticket_id: [u8; 3],
    ticket: Hmac<Sha256>,
    pass: Hmac<Sha256>,
    pass_id: Hmac<Sha256>,
}

/// Nothing can be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSigner {
    /// There is no such key in the file.
    #[error("there is no key for {0} in the key file: add one")]
    None(&'static str),
    /// There are some, and none of them signs.
    #[error(
        "no key for {algorithm} signs at {now_s}: `signs_from` and `verify_only_from` of the keys for it have to leave no gap"
    )]
    NotNow {
        /// For which algorithm.
        algorithm: &'static str,
        /// When, in seconds since 1970.
        now_s: u64,
    },
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hs256, Self::EdDsa, Self::Es256];

    /// Its name (RFC 7518, 3.1).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
        }
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// What it costs to verify a signature that nobody has verified yet, in microseconds, generously.
    pub(super) const fn price_us(self) -> u64 {
        match self {
            Self::Hs256 => 2,
            Self::EdDsa | Self::Es256 => 100,
        }
    }
}

impl Times {
    /// What the key does at `now`.
    pub(super) const fn state(&self, now: Wall) -> KeyState {
        let now = seconds(now);
        if now < self.published {
            KeyState::Pending
        } else if now >= self.revoked {
            KeyState::Revoked
        } else if now >= self.verify_only {
            KeyState::VerifyOnly
        } else if now >= self.signs {
            KeyState::Signing
        } else {
            KeyState::Published
        }
    }
}

impl KeyState {
    /// Whether what it signed is good. A key that is public and does not sign yet may sign already by the clock of
    /// another gateway.
    pub const fn verifies(self) -> bool {
        matches!(self, Self::Published | Self::Signing | Self::VerifyOnly)
    }
}

impl Keys {
    /// Most keys in a file.
    pub const COUNT_MAX: usize = 16;

    pub(super) fn of(keys: Vec<Key>) -> Self {
        Self(keys.into())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Key> {
        self.0.iter()
    }

    /// What each key does at `now`.
    pub fn states(&self, now: Wall) -> impl Iterator<Item = (&str, Algorithm, KeyState)> {
        let said = move |key: &Key| key.times.state(now);
        self.iter()
            .map(move |key| (key.kid.as_str(), key.algorithm(), said(key)))
    }

    /// The key that signs with `algorithm` at `now`: of several that which began last.
    pub(super) fn signer(&self, algorithm: Algorithm, now: Wall) -> Result<&Key, NoSigner> {
        let named = |key: &&Key| key.algorithm() == algorithm;
        if !self.iter().any(|key| named(&key)) {
            return Err(NoSigner::None(algorithm.name()));
        }
        let signing = self
            .iter()
            .filter(|key| named(key) && key.times.state(now) == KeyState::Signing);
        signing
            .max_by_key(|key| key.times.signs)
            .ok_or_else(|| NoSigner::NotNow {
                algorithm: algorithm.name(),
                now_s: seconds(now),
            })
    }

    /// The secret that makes tickets at `now`.
    pub(super) fn secret(&self, now: Wall) -> Result<&Secret, NoSigner> {
        let key = self.signer(Algorithm::Hs256, now)?;
        Ok(key.secret().expect("what signs with HS256 is a secret"))
    }

    /// The secret of which tickets say `id`, if they are good at `now`.
    pub(super) fn secret_of(&self, id: [u8; 3], now: Wall) -> Option<&Secret> {
        let verifies = self.iter().filter(|key| key.times.state(now).verifies());
        let mut secrets = verifies.filter_map(Key::secret);
        secrets.find(|secret| secret.ticket_id == id)
    }

    /// The key that writes `head`, if what it signed is good at `now`.
    pub(super) fn by_head(&self, head: &str, now: Wall) -> Option<&Key> {
        let key = self.iter().find(|key| key.head == head)?;
        key.times.state(now).verifies().then_some(key)
    }
}

impl Key {
    pub(super) fn new(kid: String, times: Times, material: Material) -> Self {
        let algorithm = material.algorithm().name();
        let head = format!("{{\"alg\":\"{algorithm}\",\"kid\":\"{kid}\",\"typ\":\"{PASS_TYPE}\"}}");
        let mut print = [0; 8];
        print.copy_from_slice(&material.hash()[..8]);
        Self {
            head: spelt(head.as_bytes()),
            kid,
            times,
            material,
            print,
        }
    }

    pub(super) const fn algorithm(&self) -> Algorithm {
        self.material.algorithm()
    }

    /// A signature of `message`.
    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.material {
            Material::Secret(secret) => tag(&secret.pass, &[message]).to_vec(),
            Material::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Material::P256(pair, random) => {
                let signature = pair.sign(random, message);
                let signature = signature.expect("the system has random bytes once it is up");
                signature.as_ref().to_vec()
            }
        }
    }

    /// Whether `signature`, in base64url, is one of `message`.
    pub(super) fn has_signed(&self, message: &[u8], signature: &str) -> bool {
        match &self.material {
            Material::Secret(secret) => read::<32>(signature).is_some_and(|it| {
                let mac = secret.pass.clone().chain_update(message);
                mac.verify_slice(&it).is_ok()
            }),
            Material::Ed25519(pair) => {
                let key = UnparsedPublicKey::new(&ED25519, pair.public_key());
                read::<64>(signature).is_some_and(|it| key.verify(message, &it).is_ok())
            }
            Material::P256(pair, _) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key());
                read::<64>(signature).is_some_and(|it| key.verify(message, &it).is_ok())
            }
        }
    }

    fn secret(&self) -> Option<&Secret> {
        match &self.material {
            Material::Secret(secret) => Some(secret),
            Material::Ed25519(_) | Material::P256(..) => None,
        }
    }
}

impl Material {
    const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Secret(_) => Algorithm::Hs256,
            Self::Ed25519(_) => Algorithm::EdDsa,
            Self::P256(..) => Algorithm::Es256,
        }
    }

    fn hash(&self) -> [u8; 32] {
        match self {
            Self::Secret(secret) => tag(&secret.pass, &[b"tidegate room print 1"]),
            Self::Ed25519(pair) => Sha256::digest(pair.public_key()).into(),
            Self::P256(pair, _) => Sha256::digest(pair.public_key()).into(),
        }
    }
}

impl Secret {
    pub(super) fn derive(master: &[u8]) -> Self {
        let master = mac(master);
        let part = |label: &[u8]| tag(&master, &[label]);
        let id = part(b"tidegate room ticket id 1");
        Self {
            ticket_id: [id[0], id[1], id[2]],
            ticket: mac(&part(b"tidegate room ticket 1")),
            pass: mac(&part(b"tidegate room pass 1")),
            pass_id: mac(&part(b"tidegate room pass id 1")),
        }
    }

    /// What goes behind the body of a ticket.
    pub(super) fn ticket_tag(&self, body: &[u8]) -> [u8; 16] {
        half(tag(&self.ticket, &[TICKET_LABEL, body]))
    }

    /// Whether `tag` goes behind `body`, in a time that does not tell how much of it is right.
    pub(super) fn ticket_has(&self, body: &[u8], tag: &[u8; 16]) -> bool {
        let mac = self.ticket.clone().chain_update(TICKET_LABEL);
        mac.chain_update(body).verify_truncated_left(tag).is_ok()
    }

    /// The id of a pass for `what`: the same however often it is asked for.
    pub(super) fn pass_id(&self, what: &[u8]) -> [u8; 16] {
        half(tag(&self.pass_id, &[what]))
    }
}

/// The name of every key is in the file and in each pass; what it signs with prints nowhere.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.iter().map(|key| (&key.kid, key.algorithm().name()));
        f.debug_map().entries(names).finish()
    }
}

/// Before the body of a ticket, so that no other use of the key says anything about one.
const TICKET_LABEL: &[u8] = b"tidegate room ticket 1\0";

/// Whole seconds since 1970.
pub(super) const fn seconds(now: Wall) -> u64 {
    now.as_micros() / 1_000_000
}

pub(super) fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key of any length will do")
}

/// The tag of `parts`, one after the other.
pub(super) fn tag(mac: &Hmac<Sha256>, parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = mac.clone();
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Its first 128 bits.
pub(super) fn half(tag: [u8; 32]) -> [u8; 16] {
    let (first, _) = tag.split_first_chunk().expect("32 bytes are more than 16");
    *first
}
