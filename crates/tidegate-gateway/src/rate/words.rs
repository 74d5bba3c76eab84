//! Keys of limits in words: what an operator is shown of whoever a limit counts, and asks for.
//!
//! A key in words is the list of its parts, constants left out: these are always the same.

use std::borrow::Cow;
use std::net::IpAddr;

use tidegate_core::rate::key::{Part, Prefix, PrefixLengths};

use super::{KeyPart, LimitPlan};

/// What a key is made of. `None` is a part that a request lacks.
pub(crate) type Words = Box<[Option<String>]>;

/// Longest part that is shown, in bytes; of a longer one the beginning, and an ellipsis.
const PART_BYTES_MAX: usize = 128;
/// Longest part of a key that can be asked for, in bytes: as long as the longest token that is read.
pub const KEY_PART_BYTES_MAX: usize = 8 * 1024;
/// Longest key that can be asked for, in bytes of a query: less than a target may have.
pub const KEY_QUERY_BYTES_MAX: usize = 60 * 1024;
/// A part that requests lack, where keys are written by hand.
const ABSENT: &str = "-";

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

/// The parts of the key that `words` say.
pub(crate) fn read<'w>(
    plan: &'w LimitPlan,
    words: &'w [Option<String>],
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
        let given = word.as_ref().map_or(0, String::len);
        if given > KEY_PART_BYTES_MAX {
            return Err(BadKey::TooLong { name, given });
        }
    }
    let mut words = words.iter();
    let parts = plan.key.iter().map(|part| match part {
        KeyPart::Constant(text) => Ok(Part::Constant(text)),
        part => part_of(part, words.next().and_then(Option::as_deref)),
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

/// Whether `text` is a minus sign behind one equals sign or several.
fn is_minus_behind_signs(text: &str) -> bool {
    let signs = text.strip_suffix(ABSENT);
    signs.is_some_and(|signs| !signs.is_empty() && signs.bytes().all(|byte| byte == b'='))
}

fn part_of<'w>(plan: &'w KeyPart, word: Option<&'w str>) -> Result<Part<'w>, BadKey> {
    match (plan, word) {
        (KeyPart::Client { v4, v6 }, Some(word)) => {
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
        (KeyPart::Network, Some(word)) => Ok(Part::Network(word)),
        (KeyPart::ApiKey(_), Some(word)) => {
            let is_digit = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
            let is_hash = word.len() == 32 && word.bytes().all(is_digit);
            match is_hash {
                true => Ok(Part::ApiKey(word.as_bytes())),
                // It may be the key itself, which is nothing to say again.
                false => Err(BadKey::ApiKey(word.chars().take(2).collect())),
            }
        }
        (KeyPart::Claim(_), Some(word)) => Ok(Part::Claim(word.as_bytes())),
        (KeyPart::Session, Some(word)) => Ok(Part::Identity(word.as_bytes())),
        (KeyPart::Header(_), Some(word)) => Ok(Part::Header(word.as_bytes())),
        (KeyPart::Route, Some(word)) => Ok(Part::Route(word)),
        (KeyPart::Constant(text), _) => Ok(Part::Constant(text)),
        (plan, None) if plan.may_be_absent() => Ok(Part::Absent),
        (plan, None) => Err(BadKey::Absent(plan.name())),
    }
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
    let shown = &bytes[..bytes.len().min(PART_BYTES_MAX)];
    let mut text = String::from_utf8_lossy(shown);
    if shown.len() < bytes.len() {
        text = Cow::Owned(text.into_owned() + "…");
    }
    Some(text.into_owned())
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

        assert_eq!(shown[0].as_deref(), Some(&*("é".repeat(64) + "…")));
        let odd = written(&plan, &[Part::Identity(b"a\xff\n")]);
        assert_eq!(odd[0].as_deref(), Some("a\u{fffd}\n"));
    }
}
