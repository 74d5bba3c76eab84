//! JSON: whether every language reads it, and putting two lists or objects together.
//!
//! The grammar allows what readers refuse or change. [`check`] is stricter, so that what one
//! application stored another can read.
//!
//! Of two texts that are put together only the outermost elements are looked at; what is in them is
//! checked and then copied. Elements are the same when their texts are, blanks aside; keys when they
//! spell the same.

use std::collections::BTreeMap;
use std::fmt;

/// How many lists and objects may be in each other. Readers give up at 64 (.NET), 100 (Ruby), 128
/// (Rust), 512 (PHP), or about 1,000 (Java, Python), and a value is read in an answer of ours too,
/// which is three deep.
pub const DEPTH_MAX: u32 = 60;

/// Why a text is not kept as JSON. `at` is how many bytes are before the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadJson {
    /// It breaks the grammar of RFC 8259, or is no UTF-8.
    Malformed {
        /// The first byte that does.
        at: usize,
    },
    /// Lists and objects are in each other more than [`DEPTH_MAX`] deep.
    Deep {
        /// The first one too many.
        at: usize,
    },
    /// A number is beyond what a double can be (about 1.8e308): most readers make infinity of it.
    Number {
        /// The number.
        at: usize,
    },
    /// A text has one half of a surrogate pair (`\\ud800` to `\\udfff`) without the other.
    Surrogate {
        /// The text.
        at: usize,
    },
}

impl fmt::Display for BadJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { at } => write!(f, "it is no JSON from byte {at} on"),
            Self::Deep { at } => write!(
                f,
                "lists and objects may be in each other {DEPTH_MAX} deep, and are deeper at byte {at}"
            ),
            Self::Number { at } => write!(
                f,
                "the number at byte {at} is beyond the range of a double, 1.8e308"
            ),
            Self::Surrogate { at } => {
                write!(f, "the text at byte {at} has half of a surrogate pair")
            }
        }
    }
}

impl std::error::Error for BadJson {}

/// Whether `bytes` are one JSON value that every usual reader takes, and takes for the same.
///
/// # Errors
///
/// The first thing that one of them would stumble over.
pub fn check(bytes: &[u8]) -> Result<(), BadJson> {
    let mut reader = Reader::of(bytes)?;
    reader.blanks();
    reader.value(DEPTH_MAX)?;
    reader.end()
}

/// The elements of both texts: of an object every key, with the value of `winner` where both have
/// it; of a list those of `base`, then those of `winner` that `base` lacks, each as often as the
/// text that has it more often. `None` unless both are lists or both are objects.
pub(super) fn union(base: &[u8], winner: &[u8]) -> Option<Vec<u8>> {
    match (Parts::read(base).ok()?, Parts::read(winner).ok()?) {
        (Parts::List(base), Parts::List(winner)) => Some(list_of(base, winner)),
        (Parts::Object(base), Parts::Object(winner)) => Some(object_of(base, winner)),
        _ => None,
    }
}

fn list_of(mut elements: Vec<String>, more: Vec<String>) -> Vec<u8> {
    let mut left: BTreeMap<String, u32> = BTreeMap::new();
    for element in &elements {
        *left.entry(element.clone()).or_default() += 1;
    }
    for element in more {
        match left.get_mut(&element) {
            Some(count) if *count > 0 => *count -= 1,
            _ => elements.push(element),
        }
    }
    format!("[{}]", elements.join(",")).into_bytes()
}

fn object_of(mut members: Vec<Member>, more: Vec<Member>) -> Vec<u8> {
    for member in more {
        match members.iter_mut().find(|known| known.key == member.key) {
            Some(known) => known.value = member.value,
            None => members.push(member),
        }
    }
    let texts: Vec<String> = members
        .iter()
        .map(|member| format!("{}:{}", member.key_text, member.value))
        .collect();
    format!("{{{}}}", texts.join(",")).into_bytes()
}

/// A list or an object in its outermost elements, without blanks around and in them.
enum Parts {
    List(Vec<String>),
    Object(Vec<Member>),
}

struct Member {
    /// What the key spells.
    key: String,
    /// How it is written, with its quotes.
    key_text: String,
    value: String,
}

impl Parts {
    fn read(bytes: &[u8]) -> Result<Self, BadJson> {
        let mut reader = Reader::of(bytes)?;
        reader.blanks();
        let parts = match reader.peek() {
            Some(b'[') => {
                let mut elements = Vec::new();
                reader.elements(b'[', b']', |reader| {
                    elements.push(reader.taken(|reader| reader.value(DEPTH_MAX - 1))?);
                    Ok(())
                })?;
                Self::List(elements)
            }
            Some(b'{') => {
                let mut members: Vec<Member> = Vec::new();
                reader.elements(b'{', b'}', |reader| {
                    let at = reader.at;
                    let key_text = reader.taken(Reader::string)?;
                    reader.blanks();
                    reader.skip(b':')?;
                    let value = reader.taken(|reader| reader.value(DEPTH_MAX - 1))?;
                    let key = spelt(&key_text).ok_or(BadJson::Surrogate { at })?;
                    // Of a key that is there twice the last value counts, as most readers have it.
                    members.retain(|member| member.key != key);
                    members.push(Member {
                        key,
                        key_text,
                        value,
                    });
                    Ok(())
                })?;
                Self::Object(members)
            }
            _ => return Err(reader.malformed()),
        };
        reader.end().map(|()| parts)
    }
}

/// Reads a text by JSON's grammar (RFC 8259) and copies what it reads, blanks left out.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    copy: String,
}

impl<'a> Reader<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, BadJson> {
        let text = std::str::from_utf8(bytes).map_err(|error| BadJson::Malformed {
            at: error.valid_up_to(),
        })?;
        Ok(Self {
            text,
            at: 0,
            copy: String::new(),
        })
    }
}

impl Reader<'_> {
    const fn malformed(&self) -> BadJson {
        BadJson::Malformed { at: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Nothing but blanks is left.
    fn end(&mut self) -> Result<(), BadJson> {
        self.blanks();
        let all = self.at == self.text.len();
        all.then_some(()).ok_or_else(|| self.malformed())
    }

    /// Takes `byte`, which is ASCII.
    fn skip(&mut self, byte: u8) -> Result<(), BadJson> {
        if self.peek() != Some(byte) {
            return Err(self.malformed());
        }
        self.copy.push(char::from(byte));
        self.at += 1;
        Ok(())
    }

    /// What `read` reads, after blanks.
    fn taken(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<(), BadJson>,
    ) -> Result<String, BadJson> {
        self.blanks();
        self.copy.clear();
        read(self)?;
        Ok(std::mem::take(&mut self.copy))
    }

    /// Elements between `open` and `close`, with commas between them.
    fn elements(
        &mut self,
        open: u8,
        close: u8,
        mut element: impl FnMut(&mut Self) -> Result<(), BadJson>,
    ) -> Result<(), BadJson> {
        self.skip(open)?;
        self.blanks();
        if self.peek() == Some(close) {
            return self.skip(close);
        }
        loop {
            self.blanks();
            element(self)?;
            self.blanks();
            if self.peek() == Some(close) {
                return self.skip(close);
            }
            self.skip(b',')?;
        }
    }

    /// A value with up to `depth` lists and objects in each other.
    fn value(&mut self, depth: u32) -> Result<(), BadJson> {
        let within = || depth.checked_sub(1).ok_or(BadJson::Deep { at: self.at });
        match self.peek() {
            Some(b'[') => {
                let depth = within()?;
                self.elements(b'[', b']', |reader| reader.value(depth))
            }
            Some(b'{') => {
                let depth = within()?;
                self.elements(b'{', b'}', |reader| {
                    reader.string()?;
                    reader.blanks();
                    reader.skip(b':')?;
                    reader.blanks();
                    reader.value(depth)
                })
            }
            Some(b'"') => self.string(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), BadJson> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.malformed());
        }
        self.copy.push_str(word);
        self.at += word.len();
        Ok(())
    }

    fn string(&mut self) -> Result<(), BadJson> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.malformed());
        }
        self.at += 1;
        let mut is_escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    is_escaped = true;
                    self.escape()?;
                }
                None | Some(..0x20) => return Err(self.malformed()),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        let text = &self.text[start..self.at];
        if is_escaped && spelt(text).is_none() {
            return Err(BadJson::Surrogate { at: start });
        }
        self.copy.push_str(text);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), BadJson> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let hex = self.text.as_bytes().get(self.at + 1..self.at + 5);
                if !hex.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.malformed());
                }
                self.at += 5;
            }
            _ => return Err(self.malformed()),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), BadJson> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        if !text.parse::<f64>().is_ok_and(f64::is_finite) {
            return Err(BadJson::Number { at: start });
        }
        self.copy.push_str(text);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), BadJson> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.malformed());
        }
        Ok(())
    }
}

/// What a string, with its quotes and well formed, spells. Half of a surrogate pair spells nothing
/// that text can hold: such a key is refused.
fn spelt(text: &str) -> Option<String> {
    let mut spelt = String::new();
    let mut units: Vec<u16> = Vec::new();
    let mut rest = text[1..text.len() - 1].chars();
    while let Some(letter) = rest.next() {
        let letter = match letter {
            '\\' => match rest.next()? {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    let hex: String = rest.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&hex, 16).ok()?);
                    continue;
                }
                plain => plain,
            },
            plain => plain,
        };
        spelt.push_str(&String::from_utf16(&units).ok()?);
        units.clear();
        spelt.push(letter);
    }
    spelt.push_str(&String::from_utf16(&units).ok()?);
    Some(spelt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn united(base: &str, winner: &str) -> Option<String> {
        let bytes = union(base.as_bytes(), winner.as_bytes())?;
        Some(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_list_keeps_every_element_of_both_as_often_as_the_one_that_has_more() {
        let both = united(r#"["a", {"n" : 1}, "a"]"#, r#"[ {"n":1},"b","a", "b" ]"#);

        assert_eq!(both.unwrap(), r#"["a",{"n":1},"a","b","b"]"#);
        assert_eq!(united("[]", " [ ] ").unwrap(), "[]");
    }

    #[test]
    fn an_object_keeps_every_key_and_the_winners_value() {
        let both = united(
            r#"{"a":1, "\u0062":[2, 3], "c":null}"#,
            r#"{"b" : {"x":"y z"},"d":-1.5e+3}"#,
        );

        let wanted = r#"{"a":1,"\u0062":{"x":"y z"},"c":null,"d":-1.5e+3}"#;
        assert_eq!(both.unwrap(), wanted);
    }

    #[test]
    fn the_last_of_a_key_that_is_there_twice_counts() {
        assert_eq!(united(r#"{"a":1,"a":2}"#, "{}").unwrap(), r#"{"a":2}"#);
    }

    #[test]
    fn keys_that_spell_the_same_are_one_beyond_the_basic_plane_too() {
        let both = united(r#"{"\ud83d\ude00":1}"#, r#"{"😀":2}"#);

        assert_eq!(both.unwrap(), r#"{"\ud83d\ude00":2}"#);
        assert_eq!(united(r#"{"\ud83d":1}"#, "{}"), None);
    }

    #[test]
    fn what_is_not_two_lists_or_two_objects_is_left_alone() {
        let deep = nested(61);
        for odd in [
            "",
            "{}",
            "1",
            "[",
            "[1",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[01]",
            "[1.]",
            "[1e]",
            "[-]",
            "[tru]",
            "[\"a]",
            "[\"\\x\"]",
            "[\"\\u12g4\"]",
            "[\"a\nb\"]",
            "[1]x",
            "[{\"a\"}]",
            "[{a:1}]",
            &deep,
        ] {
            assert_eq!(united("[]", odd), None, "{odd}");
        }
        assert!(united("[]", &nested(60)).is_some());
    }

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    #[test]
    fn what_some_reader_would_stumble_over_is_told_by_its_place() {
        let checked = |text: &str| check(text.as_bytes());
        for fine in [
            " {\"a\" : [1.5e300, -0, 12345678901234567890123, \"\\ud83d\\ude00 \u{e4}\"]} ",
            "1e-400",
            "null",
            &nested(60),
        ] {
            assert_eq!(checked(fine), Ok(()), "{fine}");
        }
        assert_eq!(checked("[1, 1e400]"), Err(BadJson::Number { at: 4 }));
        assert_eq!(checked("-1E+999"), Err(BadJson::Number { at: 0 }));
        assert_eq!(checked(&"9".repeat(400)), Err(BadJson::Number { at: 0 }));
        assert_eq!(checked(&nested(61)), Err(BadJson::Deep { at: 60 }));
        // So many that a reader that calls itself would run out of its stack.
        assert_eq!(
            checked(&"{\"a\":".repeat(1_000_000)),
            Err(BadJson::Deep { at: 300 })
        );
        assert_eq!(
            checked(r#"{"a":"\udc00\ud800"}"#),
            Err(BadJson::Surrogate { at: 5 })
        );
        assert_eq!(
            checked(r#"{"\ud800":1}"#),
            Err(BadJson::Surrogate { at: 1 })
        );
        assert_eq!(checked("[1] 2"), Err(BadJson::Malformed { at: 4 }));
        assert_eq!(checked("NaN"), Err(BadJson::Malformed { at: 0 }));
        assert_eq!(checked(""), Err(BadJson::Malformed { at: 0 }));
        assert_eq!(check(b"\"a\xff\""), Err(BadJson::Malformed { at: 2 }));
    }
}
