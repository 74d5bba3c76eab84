//! Keys of limits in words: what an operator is shown of whoever a limit counts, and asks for.
//!
//! A key in words is the list of its parts, constants left out: these are always the same.

use std::borrow::Cow;
use std::net::IpAddr;

use tidegate_core::rate::key::{Part, Prefix, PrefixLengths};

use super::{KeyPart, LimitPlan};

/// What a key is made of, as it is shown. `None` is a part that a request lacks.
pub(crate) type Words = Box<[Option<String>]>;
/// A part of a key that is asked for, as it is counted.
pub(crate) type Given = Option<Vec<u8>>;

/// Longest part that is shown, in bytes; of a longer one the beginning, and [`MORE`].
const PART_BYTES_MAX: usize = 128;
/// Longest part of a key that can be asked for, in bytes: as long as the longest token that is read.
pub const KEY_PART_BYTES_MAX: usize = 8 * 1024;
/// Longest key that can be asked for, in bytes of a query: less than a target may have.
pub const KEY_QUERY_BYTES_MAX: usize = 60 * 1024;
/// A part that requests lack, where keys are written by hand.
const ABSENT: &str = "-";
/// At the end of what is shown of a part that is longer. No whole part is shown so.
const MORE: &str = "\\…";

/// Why words are no key of a limit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadKey {
    /// There are too few parts, or too many.
    #[error("the limit counts by {counted}: give {wanted} of them, not {given}")]
    Count {
        counted: String,
        wanted: usize,
        given: usize,
    },
    /// A part is longer than can be asked for.
    #[error(
        "its {name} has {given} bytes, and {KEY_PART_BYTES_MAX} are the most that can be asked for"
    )]
    TooLong { name: String, given: usize },
    /// A client is no address.
    #[error("\"{0}\" is no address of a client, such as 203.0.113.7")]
    Address(String),
    /// An API key, or something else that is no hash of one.
    #[error(
        "\"{0}…\" is no hash of an API key, which has 32 digits, 0 to 9 and a to f; `tidegate limit top` shows them"
    )]
    ApiKey(String),
    /// The network is of another size than those that the limit counts.
    #[error("the limit counts networks of /{counted}, and /{given} is another size")]
    Bits { counted: u8, given: String },
    /// A request that lacks a part has no key in this limit.
    #[error(
        "requests that lack a part of it are not counted, as they are with absent = \"shared\""
    )]
    NotCounted,
    /// What is named in the configuration is no text.
    #[error("its {0} is no text, as every name of one is")]
    NoText(String),
    /// A request cannot lack this part.
    #[error("no request lacks its {0}")]
    Absent(String),
}

/// The key that has these `parts`.
pub(crate) fn written(plan: &LimitPlan, parts: &[Part<'_>]) -> Words {
    let parts = plan.key.iter().zip(parts);
    let parts = parts.filter(|(plan, _)| plan.is_said());
    parts.map(|(_, part)| word(part)).collect()
}

/// A key that is asked for, as it is shown.
pub(crate) fn again(key: &[Given]) -> Words {
    let parts = key.iter().map(|part| part.as_deref().map(shown));
    parts.collect()
}

/// The parts of the key that `words` say.
pub(crate) fn read<'w, W: AsRef<[u8]>>(
    plan: &'w LimitPlan,
    words: &'w [Option<W>],
) -> Result<Vec<Part<'w>>, BadKey> {
    let names = names(plan);
    if words.len() != names.len() {
        return Err(BadKey::Count {
            counted: match &names[..] {
                [] => "nothing that a request brings".to_owned(),
                names => names.join(" and "),
            },
            wanted: names.len(),
            given: words.len(),
        });
    }
    for (name, word) in names.into_iter().zip(words) {
        let given = word.as_ref().map_or(0, |word| word.as_ref().len());
        if given > KEY_PART_BYTES_MAX {
            return Err(BadKey::TooLong { name, given });
        }
    }
    let mut words = words.iter();
    let parts = plan.key.iter().map(|part| match part {
        KeyPart::Constant(text) => Ok(Part::Constant(text)),
        part => {
            let word = words.next().and_then(Option::as_ref);
            part_of(part, word.map(W::as_ref))
        }
    });
    parts.collect()
}

/// By what a limit counts, constants left out.
pub(crate) fn names(plan: &LimitPlan) -> Vec<String> {
    let said = plan.key.iter().filter(|part| part.is_said());
    said.map(KeyPart::name).collect()
}

/// The part of a key that is written by hand as `text`: `-` is one that requests lack. So a minus sign itself is written
/// `=-`, and what would be that, `==-`; everything else is written as it is.
pub fn part_written(text: &str) -> Option<&str> {
    match text {
        ABSENT => None,
        text if is_minus_behind_signs(text) => Some(&text[1..]),
        text => Some(text),
    }
}

/// How a part of a key is written by hand, see [`part_written`].
pub fn in_writing(part: Option<&str>) -> Cow<'_, str> {
    match part {
        None => Cow::Borrowed(ABSENT),
        Some(part) if part == ABSENT || is_minus_behind_signs(part) => {
            Cow::Owned(format!("={part}"))
        }
        Some(part) => Cow::Borrowed(part),
    }
}

/// Why a text is no part of a key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPart {
    /// It is the beginning of a part.
    #[error("this is the beginning of a longer part, of which no more was shown")]
    Beginning,
    /// A backslash is followed by nothing that it stands before.
    #[error(
        "a backslash stands for nothing here: write \\\\ for itself, or \\xff, \\u{{1b}}, \\n or \\t"
    )]
    Escape,
}

/// The bytes that `text` stands for: as a part is shown, `\xff` is a byte, `\u{1b}`, `\n` and `\t` are characters, and `\\` is a
/// backslash.
///
/// # Errors
///
/// When it is shown of no part so.
pub fn part_bytes(text: &str) -> Result<Vec<u8>, BadPart> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let mut letters = after.chars();
        let kind = letters.next().ok_or(BadPart::Escape)?;
        rest = letters.as_str();
        match kind {
            '\\' => bytes.push(b'\\'),
            'n' => bytes.push(b'\n'),
            't' => bytes.push(b'\t'),
            'x' => {
                let (digits, after) = rest.split_at_checked(2).ok_or(BadPart::Escape)?;
                let byte = number(digits).and_then(|number| u8::try_from(number).ok());
                bytes.push(byte.ok_or(BadPart::Escape)?);
                rest = after;
            }
            'u' => {
                let inner = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                let (digits, after) = inner.ok_or(BadPart::Escape)?;
                let letter = number(digits).and_then(char::from_u32);
                let letter = letter.ok_or(BadPart::Escape)?;
                bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                rest = after;
            }
            '…' => return Err(BadPart::Beginning),
            _ => return Err(BadPart::Escape),
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// Hexadecimal digits and nothing else: the standard library's reader takes a sign, too.
fn number(digits: &str) -> Option<u32> {
    let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u32::from_str_radix(digits, 16).ok();
    number.filter(|_| is_number)
}

/// `bytes` as a text that leads to them again, see [`part_bytes`].
fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                letter => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            text += &format!("\\x{byte:02x}");
        }
    }
    text
}

/// The beginning of `bytes` that is shown: not half of a character.
fn beginning(bytes: &[u8]) -> &[u8] {
    let mut end = PART_BYTES_MAX;
    // A byte within a character begins with the bits 10, and there are three of them at most.
    while end > PART_BYTES_MAX - 4 && bytes[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    match bytes[end] & 0xC0 {
        0x80 => &bytes[..PART_BYTES_MAX],
        _ => &bytes[..end],
    }
}

/// Whether `text` is a minus sign behind one equals sign or several.
fn is_minus_behind_signs(text: &str) -> bool {
    let signs = text.strip_suffix(ABSENT);
    signs.is_some_and(|signs| !signs.is_empty() && signs.bytes().all(|byte| byte == b'='))
}

fn part_of<'w>(plan: &'w KeyPart, word: Option<&'w [u8]>) -> Result<Part<'w>, BadKey> {
    match (plan, word) {
        (KeyPart::Client { v4, v6 }, Some(word)) => {
            let word = str::from_utf8(word).map_err(|_| BadKey::Address(shown(word)))?;
            let (address, bits) = match word.split_once('/') {
                Some((address, bits)) => (address, Some(bits)),
                None => (word, None),
            };
            let address: IpAddr = address
                .parse()
                .map_err(|_| BadKey::Address(word.to_owned()))?;
            let counted = match address.to_canonical() {
                IpAddr::V4(_) => *v4,
                IpAddr::V6(_) => *v6,
            };
            if let Some(given) = bits.filter(|bits| bits.parse() != Ok(counted)) {
                let given = given.to_owned();
                return Err(BadKey::Bits { counted, given });
            }
            let lengths = PrefixLengths::new(*v4, *v6).unwrap_or_default();
            Ok(Part::Address(Prefix::of(address, lengths)))
        }
        (KeyPart::Network, Some(word)) => Ok(Part::Network(name(plan, word)?)),
        (KeyPart::ApiKey(_), Some(word)) => {
            let is_digit = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
            let is_hash = word.len() == 32 && word.iter().copied().all(is_digit);
            match is_hash {
                true => Ok(Part::ApiKey(word)),
                // It may be the key itself, which is nothing to say again.
                false => Err(BadKey::ApiKey(shown(word).chars().take(2).collect())),
            }
        }
        (KeyPart::Claim(_), Some(word)) => Ok(Part::Claim(word)),
        (KeyPart::Session, Some(word)) => Ok(Part::Identity(word)),
        (KeyPart::Header(_), Some(word)) => Ok(Part::Header(word)),
        (KeyPart::Route, Some(word)) => Ok(Part::Route(name(plan, word)?)),
        (KeyPart::Constant(text), _) => Ok(Part::Constant(text)),
        (plan, None) if plan.may_be_absent() => Ok(Part::Absent),
        (plan, None) => Err(BadKey::Absent(plan.name())),
    }
}

/// What is named in the configuration is a text.
fn name<'w>(plan: &KeyPart, word: &'w [u8]) -> Result<&'w str, BadKey> {
    str::from_utf8(word).map_err(|_| BadKey::NoText(plan.name()))
}

fn word(part: &Part<'_>) -> Option<String> {
    let bytes = match *part {
        Part::Address(prefix) => return Some(prefix.to_string()),
        Part::Absent => return None,
        Part::Network(text) | Part::Route(text) | Part::Constant(text) => text.as_bytes(),
        Part::Identity(bytes)
        | Part::Header(bytes)
        | Part::ApiKey(bytes)
        | Part::Claim(bytes)
        | Part::Session(bytes) => bytes,
    };
    Some(match bytes.len() {
        ..=PART_BYTES_MAX => shown(bytes),
        _ => shown(beginning(bytes)) + MORE,
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::super::Absent;
    use super::super::tests::limit;
    use super::*;

    fn plan() -> LimitPlan {
        let header = KeyPart::Header(HeaderName::from_static("x-tenant"));
        let client = KeyPart::Client { v4: 24, v6: 64 };
        let constant = KeyPart::Constant("all".to_owned());
        limit(
            vec![client, constant, header, KeyPart::Route],
            Absent::Shared,
        )
    }

    fn words<const N: usize>(words: [&str; N]) -> [Option<String>; N] {
        words.map(|word| (word != "-").then(|| word.to_owned()))
    }

    #[test]
    fn what_is_shown_of_a_key_leads_to_it_again() {
        let plan = plan();
        for asked in [
            words(["203.0.113.0/24", "a b", "checkout"]),
            words(["2001:db8::/64", "-", "checkout"]),
        ] {
            let parts = read(&plan, &asked).unwrap();

            assert_eq!(parts[1], Part::Constant("all"));
            assert_eq!(*written(&plan, &parts), asked);
        }
        let address = words(["203.0.113.9", "a b", "checkout"]);
        let network = words(["203.0.113.0/24", "a b", "checkout"]);
        assert_eq!(read(&plan, &address), read(&plan, &network));
    }

    #[test]
    fn what_is_no_key_is_told_why() {
        let plan = plan();
        let why = |words: &[Option<String>]| read(&plan, words).unwrap_err().to_string();

        assert_eq!(
            why(&words(["203.0.113.9"])),
            "the limit counts by client and header x-tenant and route: give 3 of them, not 1"
        );
        assert_eq!(
            why(&words(["nobody", "a", "checkout"])),
            "\"nobody\" is no address of a client, such as 203.0.113.7"
        );
        assert_eq!(
            why(&words(["203.0.113.9/32", "a", "checkout"])),
            "the limit counts networks of /24, and /32 is another size"
        );
        assert_eq!(
            why(&words(["203.0.113.9", "a", "-"])),
            "no request lacks its route"
        );
    }

    #[test]
    fn a_hash_of_an_api_key_is_written_as_it_is_shown_or_not_taken() {
        let header = HeaderName::from_static("x-api-key");
        let plan = limit(vec![KeyPart::ApiKey(header)], Absent::Skip);
        let shown = "0123456789abcdef0123456789abcdef";

        let asked = words([shown]);
        let parts = read(&plan, &asked).unwrap();
        assert_eq!(parts, [Part::ApiKey(shown.as_bytes())]);
        // Nobody counts under another one.
        let other = [Some(shown.to_uppercase())];
        assert_eq!(read(&plan, &other), Err(BadKey::ApiKey("01".to_owned())));
    }

    #[test]
    fn what_is_too_long_to_be_asked_for_is_told_its_bound() {
        let plan = limit(vec![KeyPart::Session], Absent::Skip);
        let asked = |bytes| [Some("x".repeat(bytes))];

        assert!(read(&plan, &asked(KEY_PART_BYTES_MAX)).is_ok());
        assert_eq!(
            read(&plan, &asked(100_000)).unwrap_err().to_string(),
            "its session has 100000 bytes, and 8192 are the most that can be asked for"
        );
    }

    #[test]
    fn every_part_can_be_written_by_hand_and_none_in_two_ways() {
        for (text, part) in [
            ("-", None),
            ("=-", Some("-")),
            ("==-", Some("=-")),
            ("=", Some("=")),
            ("=x", Some("=x")),
            ("--", Some("--")),
            ("-=-", Some("-=-")),
            ("a b", Some("a b")),
            ("", Some("")),
        ] {
            assert_eq!(part_written(text), part, "{text}");
            assert_eq!(in_writing(part), text);
        }
    }

    #[test]
    fn what_a_client_has_chosen_is_shown_in_part() {
        let plan = limit(vec![KeyPart::Session], Absent::Skip);
        let long = "é".repeat(100);

        let shown = written(&plan, &[Part::Identity(long.as_bytes())]);

        assert_eq!(shown[0].as_deref(), Some(&*("é".repeat(64) + "\\…")));
        // No half of a character, and not less than there may be where there are no characters.
        let shifted = "x".to_owned() + &long;
        let shown = written(&plan, &[Part::Identity(shifted.as_bytes())]);
        let expected = "x".to_owned() + &"é".repeat(63) + "\\…";
        assert_eq!(shown[0].as_deref(), Some(&*expected));
        let shown = written(&plan, &[Part::Identity(&[0x80; 129])]);
        assert_eq!(shown[0].as_deref(), Some(&*("\\x80".repeat(128) + "\\…")));
        let whole = written(&plan, &[Part::Identity(&[b'x'; 128])]);
        assert_eq!(whole[0].as_deref(), Some(&*"x".repeat(128)));
    }

    #[test]
    fn whatever_bytes_a_part_has_what_is_shown_of_it_leads_to_them() {
        let plan = limit(vec![KeyPart::Session], Absent::Skip);
        for (bytes, text) in [
            (&b"a\xff\n"[..], "a\\xff\n"),
            (b"DOMAIN\\anna", "DOMAIN\\\\anna"),
            (b"\\xff", "\\\\xff"),
            ("\u{1b}é…".as_bytes(), "\u{1b}é…"),
            (b"\xc3", "\\xc3"),
            (b"", ""),
        ] {
            let shown = written(&plan, &[Part::Identity(bytes)]);

            assert_eq!(shown[0].as_deref(), Some(text));
            let given = [Some(part_bytes(text).unwrap())];
            assert_eq!(read(&plan, &given), Ok(vec![Part::Identity(bytes)]));
            assert_eq!(again(&given), shown);
        }
        // As a terminal is shown it.
        assert_eq!(part_bytes("\\u{1b}\\n\\t").unwrap(), b"\x1b\n\t");
        let beginning = "é\\…";
        assert_eq!(part_bytes(beginning), Err(BadPart::Beginning));
        for wrong in [
            "\\",
            "a\\b",
            "\\x",
            "\\xf",
            "\\xfg",
            "\\x+1",
            "\\xé",
            "\\u",
            "\\u{",
            "\\u{}",
            "\\u{d800}",
            "\\u{110000}",
            "\\u{+1}",
        ] {
            assert_eq!(part_bytes(wrong), Err(BadPart::Escape), "{wrong}");
        }
    }

    #[test]
    fn a_name_is_a_text_and_an_address_is_one() {
        let client = KeyPart::Client { v4: 32, v6: 64 };
        let plan = limit(vec![client, KeyPart::Route], Absent::Skip);
        let why = |client: &[u8], route: &[u8]| {
            let key = [Some(client.to_vec()), Some(route.to_vec())];
            read(&plan, &key).unwrap_err()
        };

        let address = BadKey::Address("\\xff".to_owned());
        assert_eq!(why(b"\xff", b"checkout"), address);
        let route = BadKey::NoText("route".to_owned());
        assert_eq!(why(b"192.0.2.1", b"\xff"), route);
    }
}
