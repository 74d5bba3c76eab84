//! The value of a session cookie: `1.TTTT.SECRET.CC`.
//!
//! `TTTT` is the slot tag, `SECRET` is 24 random bytes in base64url, and `CC` is a check by our key,
//! which keeps all but one in 4096 of made-up cookies away from the store. It is no proof of
//! anything: that is what the secret is. The store knows the session by a hash of it, so what
//! somebody reads there, or in a log, is no cookie.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use tidegate_core::session::{SessionId, SlotTag};

use crate::session::keys::{Keys, random};

/// Where a session lies and the secret of who holds it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    tag: SlotTag,
    secret: [u8; SECRET_LEN],
}

/// Why a cookie's value is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadToken {
    /// It does not look like one.
    Malformed,
    /// It was not made with one of our keys.
    Unchecked,
}

/// Characters of a secret.
const SECRET_LEN: usize = 32;
const CHECK_LEN: usize = 2;
/// What the check is over: all but the point before it, and it.
const CHECKED_LEN: usize = 2 + SlotTag::LEN + 1 + SECRET_LEN;

impl Token {
    /// Characters of a token.
    pub(crate) const LEN: usize = CHECKED_LEN + 1 + CHECK_LEN;

    /// Characters of what [`Token::kept`] gives.
    pub(crate) const KEPT_LEN: usize = SlotTag::LEN + SECRET_LEN;

    /// A token of a new session, on any slot.
    pub(crate) fn draw() -> Self {
        Self::draw_on(SlotTag::from_bits(u32::from_le_bytes(random())))
    }

    /// A token that lies where another does.
    pub(crate) fn draw_on(tag: SlotTag) -> Self {
        let bytes: [u8; SECRET_LEN / 4 * 3] = random();
        let mut secret = [0; SECRET_LEN];
        URL_SAFE_NO_PAD
            .encode_slice(bytes, &mut secret)
            .expect("24 bytes are 32 characters");
        Self { tag, secret }
    }

    /// The token that is written as `text`.
    pub(crate) fn parse(text: &[u8], keys: &Keys) -> Result<Self, BadToken> {
        let (checked, rest) = text
            .split_at_checked(CHECKED_LEN)
            .ok_or(BadToken::Malformed)?;
        let &[b'.', first, second] = rest else {
            return Err(BadToken::Malformed);
        };
        let [b'1', b'.', tagged @ ..] = checked else {
            return Err(BadToken::Malformed);
        };
        let (tag, secret) = tagged.split_at(SlotTag::LEN);
        let [b'.', secret @ ..] = secret else {
            return Err(BadToken::Malformed);
        };
        let token = Self::of(tag, secret).ok_or(BadToken::Malformed)?;
        if keys.checks(checked, [first, second]) {
            Ok(token)
        } else {
            Err(BadToken::Unchecked)
        }
    }

    /// How it is written in a cookie.
    pub(crate) fn write(&self, keys: &Keys) -> String {
        let mut text = String::with_capacity(Self::LEN);
        text.push_str("1.");
        text.push_str(self.tag.as_str());
        text.push('.');
        text.push_str(self.secret());
        let check = keys.check(text.as_bytes());
        text.push('.');
        text.extend(check.map(char::from));
        text
    }

    /// What the store knows the session by.
    pub(crate) fn id(&self) -> SessionId {
        let mut hash = Sha256::new();
        hash.update(b"tg1");
        hash.update(self.secret);
        let digest: [u8; 32] = hash.finalize().into();
        let mut text = [0; 43];
        URL_SAFE_NO_PAD
            .encode_slice(digest, &mut text)
            .expect("32 bytes are 43 characters");
        let (hash, _) = text
            .split_first_chunk()
            .expect("43 characters are more than an id has");
        SessionId::new(self.tag, *hash).expect("a hash in base64url is an id")
    }

    /// Where the session lies.
    pub(crate) const fn tag(&self) -> SlotTag {
        self.tag
    }

    /// The token without its check, to be sealed.
    pub(crate) fn kept(&self) -> [u8; Self::KEPT_LEN] {
        let mut kept = [0; Self::KEPT_LEN];
        kept[..SlotTag::LEN].copy_from_slice(self.tag.as_str().as_bytes());
        kept[SlotTag::LEN..].copy_from_slice(&self.secret);
        kept
    }

    /// The token that was kept as `kept`.
    pub(crate) fn of_kept(kept: &[u8]) -> Option<Self> {
        let (tag, secret) = kept.split_at_checked(SlotTag::LEN)?;
        Self::of(tag, secret)
    }

    fn of(tag: &[u8], secret: &[u8]) -> Option<Self> {
        let base64url = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let secret: [u8; SECRET_LEN] = secret.try_into().ok()?;
        secret.iter().all(base64url).then_some(Self {
            tag: SlotTag::parse(tag).ok()?,
            secret,
        })
    }

    fn secret(&self) -> &str {
        std::str::from_utf8(&self.secret).expect("base64url is ASCII")
    }
}

/// The secret is nobody's business.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:?})", self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_under_its_key_and_no_other() {
        let (keys, others) = (Keys::draw(), Keys::draw());
        let tokens: Vec<Token> = (0..32).map(|_| Token::draw()).collect();

        for token in &tokens {
            let text = token.write(&keys);
            assert_eq!(text.len(), Token::LEN);
            assert_eq!(Token::parse(text.as_bytes(), &keys), Ok(*token));
            assert_eq!(Token::of_kept(&token.kept()), Some(*token));
        }
        // Two characters fit by chance once in 4096 times.
        let unchecked = tokens
            .iter()
            .filter(|token| Token::parse(token.write(&others).as_bytes(), &keys).is_err());
        assert!(unchecked.count() >= 30);
    }

    #[test]
    fn any_other_character_makes_another_session_or_none() {
        let keys = Keys::draw();
        let token = Token::draw();
        let text = token.write(&keys);
        let mut passed = 0;

        for index in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[index] = if changed[index] == b'a' { b'b' } else { b'a' };
            passed += u32::from(Token::parse(&changed, &keys).is_ok());
        }
        assert!(passed <= 2, "{passed} of {} by chance", text.len());

        for text in [
            "",
            "1",
            "2.aaaa.",
            &text[1..],
            &format!("{text}x"),
            &text.replace('.', "-"),
        ] {
            assert_eq!(
                Token::parse(text.as_bytes(), &keys),
                Err(BadToken::Malformed)
            );
        }
    }

    #[test]
    fn the_id_is_a_hash_and_the_token_does_not_print() {
        let token = Token {
            tag: SlotTag::from_bits(0),
            secret: *b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        };

        // Sixteen bytes and a half of SHA-256("tg1AAAA...").
        assert_eq!(token.id().hash().len(), SessionId::HASH_LEN);
        assert!(!token.id().hash().starts_with("AAAA"));
        assert!(!format!("{token:?}").contains("AAAA"));
        assert_eq!(Token::draw_on(token.tag()).tag(), token.tag());
        assert_ne!(Token::draw_on(token.tag()).id(), token.id());
    }
}
