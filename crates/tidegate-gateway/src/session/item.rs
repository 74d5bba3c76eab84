//! Reading values of headers in the manner of structured fields (RFC 8941), strictly.
//!
//! Beyond the standard, names may have every character that an attribute's may, and whole numbers
//! the full range of 64 bits. Decimals are none of it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What is left to be read.
pub(crate) struct Reader<'a>(&'a [u8]);

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// `"like this"`, without quotes and backslashes.
    Text(Cow<'a, str>),
    /// A word without quotes.
    Token(&'a str),
    /// `-42`.
    Integer(i64),
    /// `:AAEC:`, decoded.
    Bytes(Vec<u8>),
    /// `?1` and `?0`.
    Boolean(bool),
}

/// It is not what was expected. The line as a whole is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl<'a> Reader<'a> {
    pub(crate) const fn new(line: &'a [u8]) -> Self {
        Self(line)
    }

    /// Whether everything was read.
    pub(crate) const fn is_end(&self) -> bool {
        self.0.is_empty()
    }

    /// What was not read yet.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Reads `byte` if it is next.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let there = self.0.first() == Some(&byte);
        if there {
            self.0 = &self.0[1..];
        }
        there
    }

    /// Reads `byte`, which has to be next.
    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        self.take(byte).then_some(()).ok_or(Malformed)
    }

    /// Reads blanks.
    pub(crate) fn blanks(&mut self) {
        self.while_some(|byte| matches!(byte, b' ' | b'\t'));
    }

    /// Goes to the next member of a list: false at its end, an error when there is something else.
    pub(crate) fn next_member(&mut self) -> Result<bool, Malformed> {
        self.blanks();
        if self.is_end() {
            return Ok(false);
        }
        self.expect(b',')?;
        self.blanks();
        // A comma at the end is an error in the standard as well.
        if self.is_end() {
            return Err(Malformed);
        }
        Ok(true)
    }

    /// Reads what may be the name of an attribute, or of a parameter.
    pub(crate) fn name(&mut self) -> Result<&'a str, Malformed> {
        let name = self.while_some(
            |byte| matches!(byte, b'-' | b'_' | b'.' | b'/' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z'),
        );
        if name.is_empty() {
            return Err(Malformed);
        }
        ascii(name)
    }

    /// Reads the name of a parameter and its value, if there is a parameter.
    pub(crate) fn parameter(&mut self) -> Result<Option<(&'a str, Item<'a>)>, Malformed> {
        if !self.take(b';') {
            return Ok(None);
        }
        self.while_some(|byte| byte == b' ');
        let name = self.name()?;
        let value = if self.take(b'=') {
            self.item()?
        } else {
            Item::Boolean(true)
        };
        Ok(Some((name, value)))
    }

    /// Reads a value.
    pub(crate) fn item(&mut self) -> Result<Item<'a>, Malformed> {
        match self.0.first().ok_or(Malformed)? {
            b'"' => self.text().map(Item::Text),
            b':' => self.bytes().map(Item::Bytes),
            b'?' => self.boolean().map(Item::Boolean),
            b'-' | b'0'..=b'9' => self.integer().map(Item::Integer),
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                let token = self.while_some(|byte| is_token(byte) || matches!(byte, b':' | b'/'));
                ascii(token).map(Item::Token)
            }
            _ => Err(Malformed),
        }
    }

    /// Reads a value as it stands: text in quotes, or characters of a token, digits first or not.
    pub(crate) fn word(&mut self) -> Result<Cow<'a, str>, Malformed> {
        if self.0.first() == Some(&b'"') {
            return self.text();
        }
        let word = self.while_some(|byte| is_token(byte) || matches!(byte, b':' | b'/'));
        if word.is_empty() {
            return Err(Malformed);
        }
        ascii(word).map(Cow::Borrowed)
    }

    /// Reads bytes, if it is bytes that come next.
    pub(crate) fn take_bytes(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        match self.0.first() {
            Some(b':') => self.bytes().map(Some),
            _ => Ok(None),
        }
    }

    fn text(&mut self) -> Result<Cow<'a, str>, Malformed> {
        self.expect(b'"')?;
        let plain = self.while_some(is_plain);
        if self.take(b'"') {
            return ascii(plain).map(Cow::Borrowed);
        }
        let mut text = ascii(plain)?.to_owned();
        loop {
            text.push_str(ascii(self.while_some(is_plain))?);
            if self.take(b'"') {
                return Ok(Cow::Owned(text));
            }
            self.expect(b'\\')?;
            let escaped = *self.0.first().ok_or(Malformed)?;
            if !matches!(escaped, b'"' | b'\\') {
                return Err(Malformed);
            }
            self.0 = &self.0[1..];
            text.push(char::from(escaped));
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Malformed> {
        self.expect(b':')?;
        let coded = self.while_some(|byte| byte != b':');
        self.expect(b':')?;
        STANDARD.decode(coded).map_err(|_| Malformed)
    }

    fn boolean(&mut self) -> Result<bool, Malformed> {
        self.expect(b'?')?;
        if self.take(b'1') {
            return Ok(true);
        }
        self.expect(b'0').map(|()| false)
    }

    fn integer(&mut self) -> Result<i64, Malformed> {
        let before = self.0;
        let sign = usize::from(self.take(b'-'));
        let digits = self.while_some(|byte| byte.is_ascii_digit()).len();
        if matches!(self.0.first(), Some(byte) if is_token(*byte)) {
            return Err(Malformed);
        }
        let number = ascii(&before[..sign + digits])?;
        number.parse().map_err(|_| Malformed)
    }

    fn while_some(&mut self, is: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| !is(byte));
        let (read, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        read
    }
}

/// What may stand in quotes without a backslash before it.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

fn ascii(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(text: &str) -> Result<Item<'_>, Malformed> {
        let mut reader = Reader::new(text.as_bytes());
        let item = reader.item()?;
        reader.is_end().then_some(item).ok_or(Malformed)
    }

    #[test]
    fn values_are_what_the_standard_says() {
        assert_eq!(
            item(r#""a \"b\" \\c""#),
            Ok(Item::Text(r#"a "b" \c"#.into()))
        );
        assert_eq!(item("gold/1:b"), Ok(Item::Token("gold/1:b")));
        assert_eq!(item("-42"), Ok(Item::Integer(-42)));
        assert_eq!(item("9223372036854775807"), Ok(Item::Integer(i64::MAX)));
        assert_eq!(item(":AAEC/w==:"), Ok(Item::Bytes(vec![0, 1, 2, 255])));
        assert_eq!(item("?0"), Ok(Item::Boolean(false)));
    }

    #[test]
    fn everything_else_is_void() {
        for text in [
            "",
            "-",
            "4.5",
            "12ab",
            "9223372036854775808",
            "\"open",
            "\"\\n\"",
            "\"\u{e4}\"",
            ":AA",
            ":A:",
            ":!:",
            "?2",
            "?",
            "{}",
            "'a'",
            "a b",
        ] {
            assert_eq!(item(text), Err(Malformed), "{text}");
        }
    }
}
