//! The keys of a fleet: they check session cookies, and seal what a browser keeps for us.
//!
//! Every gateway reads the same file. Its first line makes everything new, all of its lines open
//! what is old. So a new key is added at the end everywhere, then moved to the top everywhere, and
//! the old one is taken out when the longest absolute lifetime is over.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// The keys of a fleet, the one for new things first. Cloning shares them.
#[derive(Clone)]
pub struct Keys(Arc<[Key]>);

/// Why a text is no key file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKeys {
    /// There is no key in it.
    #[error("there is no key in it")]
    Empty,
    /// There are too many.
    #[error("there are more than {} keys in it", Keys::COUNT_MAX)]
    TooMany,
    /// A line is neither a key nor a comment. The line itself is a secret, perhaps, and not said.
    #[error("line {line} is no key; `tidegate session key` makes one")]
    Line {
        /// Its number, from 1 on.
        line: usize,
    },
    /// A key is there twice.
    #[error("line {line} has a key that an earlier line has")]
    Twice {
        /// Its number, from 1 on.
        line: usize,
    },
}

/// What something was sealed for; sealed for one purpose it does not open for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A ticket, kept by a browser.
    Ticket,
    /// The secret that follows another, kept by the store.
    Successor,
}

/// What is derived from one line.
struct Key {
    /// Says which key has sealed something; no secret.
    id: [u8; ID_LEN],
    check: Hmac<Sha256>,
    affinity: Hmac<Sha256>,
    resume: Hmac<Sha256>,
    seal: XChaCha20Poly1305,
}

/// What a line of a key file begins with.
const LINE_PREFIX: &str = "tgk1.";
const MASTER_LEN: usize = 32;
const ID_LEN: usize = 2;
const NONCE_LEN: usize = 24;
const TAG_LEN: usize = 16;

/// Bytes that sealing adds.
pub(crate) const SEAL_LEN: usize = ID_LEN + NONCE_LEN + TAG_LEN;

impl Keys {
    /// Most keys in a file.
    pub const COUNT_MAX: usize = 8;

    /// The keys in the text of a key file: one in a line, with empty lines and lines that begin
    /// with `#` between them.
    pub fn parse(text: &str) -> Result<Self, BadKeys> {
        let mut keys: Vec<Key> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), index + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = Key::parse(line).ok_or(BadKeys::Line { line: number })?;
            if keys.iter().any(|other| other.id == key.id) {
                return Err(BadKeys::Twice { line: number });
            }
            if keys.len() == Self::COUNT_MAX {
                return Err(BadKeys::TooMany);
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(BadKeys::Empty);
        }
        Ok(Self(keys.into()))
    }

    /// A key that nobody else has. What it makes is worth nothing to another process.
    pub fn draw() -> Self {
        Self(Arc::new([Key::derive(&random())]))
    }

    /// Two characters that go with `text`.
    pub(crate) fn check(&self, text: &[u8]) -> [u8; 2] {
        self.first().check(text)
    }

    /// Whether `check` goes with `text` under any of the keys, in a time that does not tell how
    /// much of it is right.
    pub(crate) fn checks(&self, text: &[u8], check: [u8; 2]) -> bool {
        self.0.iter().fold(false, |fits, key| {
            let right = key.check(text);
            fits | ((right[0] ^ check[0]) | (right[1] ^ check[1]) == 0)
        })
    }

    /// `plain`, so that nobody without the key can read or change it.
    pub(crate) fn seal(&self, purpose: Purpose, plain: &[u8]) -> Vec<u8> {
        let key = self.first();
        let nonce: [u8; NONCE_LEN] = random();
        let payload = Payload {
            msg: plain,
            aad: purpose.label(),
        };
        let sealed = key
            .seal
            .encrypt(&nonce.into(), payload)
            .expect("what is sealed here is far below what the cipher can take");
        let mut bytes = Vec::with_capacity(SEAL_LEN + plain.len());
        bytes.extend_from_slice(&key.id);
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&sealed);
        bytes
    }

    /// What was sealed for `purpose` under any of the keys.
    pub(crate) fn open(&self, purpose: Purpose, sealed: &[u8]) -> Option<Vec<u8>> {
        let (id, rest) = sealed.split_first_chunk::<ID_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = self.0.iter().find(|key| key.id == *id)?;
        let payload = Payload {
            msg: sealed,
            aad: purpose.label(),
        };
        key.seal.decrypt(&(*nonce).into(), payload).ok()
    }

    /// Twelve characters that go with the name of a node.
    pub(crate) fn vouch(&self, node: &str) -> String {
        self.first().vouch(node)
    }

    /// Whether `proof` goes with the name of a node under any of the keys.
    pub(crate) fn vouches(&self, node: &str, proof: &[u8]) -> bool {
        self.0.iter().fold(false, |fits, key| {
            fits | is_same(key.vouch(node).as_bytes(), proof)
        })
    }

    /// What says that somebody has something to go on with, until that second since 1970. It is of nobody in particular.
    pub(crate) fn promise(&self, until_s: u64) -> String {
        format!("{until_s}.{}", self.first().promise(until_s))
    }

    /// Until when `text` says so, if it was made with one of the keys.
    pub(crate) fn promised(&self, text: &[u8]) -> Option<u64> {
        let (until, proof) = str::from_utf8(text).ok()?.split_once('.')?;
        let until_s: u64 = until.parse().ok()?;
        let fits = self.0.iter().fold(false, |fits, key| {
            fits | is_same(key.promise(until_s).as_bytes(), proof.as_bytes())
        });
        fits.then_some(until_s)
    }

    fn first(&self) -> &Key {
        self.0.first().expect("there is at least one key")
    }
}

/// A new line for a key file.
pub fn draw_line() -> String {
    let master: [u8; MASTER_LEN] = random();
    format!("{LINE_PREFIX}{}", URL_SAFE_NO_PAD.encode(master))
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random bytes once it is up");
    bytes
}

impl Key {
    fn parse(line: &str) -> Option<Self> {
        let mut master = [0; MASTER_LEN];
        let text = line.strip_prefix(LINE_PREFIX)?;
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut master).ok()?;
        (length == MASTER_LEN).then(|| Self::derive(&master))
    }

    /// A key for each use, so that no use can tell anything about another.
    fn derive(master: &[u8; MASTER_LEN]) -> Self {
        let part = |label: &[u8]| -> [u8; 32] {
            let mut mac = hmac(master);
            mac.update(label);
            mac.finalize().into_bytes().into()
        };
        let [first, second, ..] = part(b"tidegate key id");
        Self {
            id: [first, second],
            check: hmac(&part(b"tidegate cookie check")),
            affinity: hmac(&part(b"tidegate affinity")),
            resume: hmac(&part(b"tidegate resume hint")),
            seal: XChaCha20Poly1305::new(&part(b"tidegate seal").into()),
        }
    }

    fn check(&self, text: &[u8]) -> [u8; 2] {
        let mut mac = self.check.clone();
        mac.update(text);
        let bytes = mac.finalize().into_bytes();
        let bits = u16::from_be_bytes([bytes[0], bytes[1]]);
        [base64url(bits >> 10), base64url(bits >> 4)]
    }

    fn vouch(&self, node: &str) -> String {
        let mut mac = self.affinity.clone();
        mac.update(node.as_bytes());
        URL_SAFE_NO_PAD.encode(&mac.finalize().into_bytes()[..9])
    }

    fn promise(&self, until_s: u64) -> String {
        let mut mac = self.resume.clone();
        mac.update(&until_s.to_be_bytes());
        URL_SAFE_NO_PAD.encode(&mac.finalize().into_bytes()[..18])
    }
}

impl Purpose {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Ticket => b"tidegate ticket 1",
            Self::Successor => b"tidegate successor 1",
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

/// Whether both are the same, in a time that does not tell where they differ.
fn is_same(right: &[u8], given: &[u8]) -> bool {
    let pairs = right.iter().zip(given);
    let differing = pairs.fold(0, |differing, (a, b)| differing | (a ^ b));
    (right.len() == given.len()) & (differing == 0)
}

fn hmac(key: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key of any length will do")
}

/// The character of base64url for the lower six bits.
const fn base64url(bits: u16) -> u8 {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    ALPHABET[(bits & 63) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_key_has_made_opens_and_new_things_are_made_with_the_first() {
        let (old, new) = (draw_line(), draw_line());
        let before = Keys::parse(&old).unwrap();
        let during = Keys::parse(&format!("# rotated\n{new}\n\n{old}\n")).unwrap();
        let after = Keys::parse(&new).unwrap();

        let sealed = before.seal(Purpose::Ticket, b"gold");
        let check = before.check(b"1.abcd");

        assert_eq!(
            during.open(Purpose::Ticket, &sealed).as_deref(),
            Some(&b"gold"[..])
        );
        assert!(during.checks(b"1.abcd", check));
        assert!(during.vouches("gw1", before.vouch("gw1").as_bytes()));
        assert_eq!(after.open(Purpose::Ticket, &sealed), None);
        let sealed = during.seal(Purpose::Ticket, b"gold");
        assert!(after.open(Purpose::Ticket, &sealed).is_some());
        assert!(before.open(Purpose::Ticket, &sealed).is_none());
    }

    #[test]
    fn what_is_sealed_opens_unchanged_and_for_its_purpose_alone() {
        let keys = Keys::draw();
        let sealed = keys.seal(Purpose::Ticket, b"gold");

        assert_eq!(sealed.len(), SEAL_LEN + 4);
        assert_eq!(keys.open(Purpose::Successor, &sealed), None);
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert_eq!(keys.open(Purpose::Ticket, &changed), None, "byte {index}");
        }
        assert_eq!(keys.open(Purpose::Ticket, b"short"), None);
        assert_ne!(
            sealed,
            keys.seal(Purpose::Ticket, b"gold"),
            "never the same twice"
        );
    }

    #[test]
    fn a_key_file_is_refused_with_the_line_that_is_wrong() {
        let key = draw_line();
        let parse = |text: &str| Keys::parse(text).map(|_| ()).unwrap_err();

        assert_eq!(parse("# nothing\n\n"), BadKeys::Empty);
        assert_eq!(parse(&format!("{key}\nsecret")), BadKeys::Line { line: 2 });
        assert_eq!(parse(&key[..20]), BadKeys::Line { line: 1 });
        assert_eq!(parse(&format!("{key}\n{key}")), BadKeys::Twice { line: 2 });
        let many: Vec<String> = (0..=Keys::COUNT_MAX).map(|_| draw_line()).collect();
        assert_eq!(parse(&many.join("\n")), BadKeys::TooMany);
    }

    #[test]
    fn a_promise_is_kept_under_the_fleets_keys_and_for_its_own_time() {
        let keys = Keys::draw();
        let text = keys.promise(1_796_000_000);

        assert_eq!(keys.promised(text.as_bytes()), Some(1_796_000_000));
        assert_eq!(Keys::draw().promised(text.as_bytes()), None);
        let longer = text.replacen('1', "2", 1);
        assert_eq!(keys.promised(longer.as_bytes()), None);
        for bad in [
            "",
            ".",
            "1796000000",
            "1796000000.",
            "x.y",
            &text[..text.len() - 1],
        ] {
            assert_eq!(keys.promised(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(keys.promised(b"\xff.\xff"), None);
    }

    #[test]
    fn keys_do_not_print() {
        assert_eq!(format!("{:?}", Keys::draw()), "Keys(1)");
    }
}
