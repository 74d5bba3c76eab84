//! Putting two JSON lists or objects together, element by element.
//!
//! Only the outermost elements are looked at; what is in them is checked for its grammar and then
//! copied. Elements are the same when their texts are, blanks aside; keys when they spell the same.

use std::collections::BTreeMap;

/// How deep a text may nest.
const DEPTH_MAX: u32 = 64;

/// The elements of both texts: of an object every key, with the value of `winner` where both have
/// it; of a list those of `base`, then those of `winner` that `base` lacks, each as often as the
/// text that has it more often. `None` unless both are lists or both are objects.
pub(super) fn union(base: &[u8], winner: &[u8]) -> Option<Vec<u8>> {
    match (Parts::read(base)?, Parts::read(winner)?) {
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
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader {
            text: std::str::from_utf8(bytes).ok()?,
            at: 0,
            copy: String::new(),
        };
        reader.blanks();
        let parts = match reader.peek()? {
            b'[' => {
                let mut elements = Vec::new();
                reader.elements(b'[', b']', |reader| {
                    elements.push(reader.taken(|reader| reader.value(DEPTH_MAX))?);
                    Some(())
                })?;
                Self::List(elements)
            }
            b'{' => {
                let mut members: Vec<Member> = Vec::new();
                reader.elements(b'{', b'}', |reader| {
                    let key_text = reader.taken(Reader::string)?;
                    reader.blanks();
                    reader.skip(b':')?;
                    let value = reader.taken(|reader| reader.value(DEPTH_MAX))?;
                    let key = spelt(&key_text)?;
                    // Of a key that is there twice the last value counts, as most readers have it.
                    members.retain(|member| member.key != key);
                    members.push(Member {
                        key,
                        key_text,
                        value,
                    });
                    Some(())
                })?;
                Self::Object(members)
            }
            _ => return None,
        };
        reader.blanks();
        (reader.at == reader.text.len()).then_some(parts)
    }
}

/// Reads a text by JSON's grammar (RFC 8259) and copies what it reads, blanks left out.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    copy: String,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes `byte`, which is ASCII.
    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| {
            self.copy.push(char::from(byte));
            self.at += 1;
        })
    }

    /// What `read` reads, after blanks.
    fn taken(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<String> {
        self.blanks();
        self.copy.clear();
        read(self)?;
        Some(std::mem::take(&mut self.copy))
    }

    /// Elements between `open` and `close`, with commas between them.
    fn elements(
        &mut self,
        open: u8,
        close: u8,
        mut element: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.skip(open)?;
        self.blanks();
        if self.peek()? == close {
            return self.skip(close);
        }
        loop {
            self.blanks();
            element(self)?;
            self.blanks();
            if self.peek()? == close {
                return self.skip(close);
            }
            self.skip(b',')?;
        }
    }

    fn value(&mut self, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match self.peek()? {
            b'[' => self.elements(b'[', b']', |reader| reader.value(depth)),
            b'{' => self.elements(b'{', b'}', |reader| {
                reader.string()?;
                reader.blanks();
                reader.skip(b':')?;
                reader.blanks();
                reader.value(depth)
            }),
            b'"' => self.string(),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| {
            self.copy.push_str(word);
            self.at += word.len();
        })
    }

    fn string(&mut self) -> Option<()> {
        let start = self.at;
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.escape()?,
                ..0x20 => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.copy.push_str(&self.text[start..self.at]);
        Some(())
    }

    fn escape(&mut self) -> Option<()> {
        self.at += 1;
        match self.peek()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
            b'u' => {
                let hex = self.text.as_bytes().get(self.at + 1..self.at + 5)?;
                hex.iter().all(u8::is_ascii_hexdigit).then_some(())?;
                self.at += 5;
            }
            _ => return None,
        }
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek()? == b'0' {
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
        self.copy.push_str(&self.text[start..self.at]);
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
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
        let deep = "[".repeat(66) + &"]".repeat(66);
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
        assert!(united("[]", &("[".repeat(64) + &"]".repeat(64))).is_some());
    }
}
