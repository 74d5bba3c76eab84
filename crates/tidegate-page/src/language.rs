//! The languages that there are, and which of them a visitor reads.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A language of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Arabic, from right to left.
    Ar,
    /// Czech.
    Cs,
    /// German.
    De,
    /// English.
    En,
    /// Spanish.
    Es,
    /// French.
    Fr,
    /// Hebrew, from right to left.
    He,
    /// Italian.
    It,
    /// Japanese.
    Ja,
    /// Korean.
    Ko,
    /// Dutch.
    Nl,
    /// Polish.
    Pl,
    /// Portuguese.
    Pt,
    /// Swedish.
    Sv,
    /// Turkish.
    Tr,
    /// Chinese, in simplified characters.
    Zh,
}

/// Of a longer `Accept-Language` no more is read, in bytes.
const ACCEPT_MAX: usize = 1_024;

impl Language {
    /// How many there are.
    pub const COUNT: usize = 16;
    /// All of them, by tag.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Ar,
        Self::Cs,
        Self::De,
        Self::En,
        Self::Es,
        Self::Fr,
        Self::He,
        Self::It,
        Self::Ja,
        Self::Ko,
        Self::Nl,
        Self::Pl,
        Self::Pt,
        Self::Sv,
        Self::Tr,
        Self::Zh,
    ];

    /// Its tag, as in `lang="…"`.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::Ar => "ar",
            Self::Cs => "cs",
            Self::De => "de",
            Self::En => "en",
            Self::Es => "es",
            Self::Fr => "fr",
            Self::He => "he",
            Self::It => "it",
            Self::Ja => "ja",
            Self::Ko => "ko",
            Self::Nl => "nl",
            Self::Pl => "pl",
            Self::Pt => "pt",
            Self::Sv => "sv",
            Self::Tr => "tr",
            Self::Zh => "zh",
        }
    }

    /// Whether it is written from right to left.
    pub const fn is_rtl(self) -> bool {
        matches!(self, Self::Ar | Self::He)
    }

    /// Its position in [`Language::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The language of a tag such as `pt-BR`: by its first part, in any case. `iw` is an old tag of Hebrew.
    pub fn of_tag(tag: &str) -> Option<Self> {
        let first = tag.split(['-', '_']).next().unwrap_or(tag);
        let first = if first.eq_ignore_ascii_case("iw") {
            "he"
        } else {
            first
        };
        Self::ALL
            .into_iter()
            .find(|language| language.tag().eq_ignore_ascii_case(first))
    }

    /// The language that the value of an `Accept-Language` header likes best of those that there are (RFC 9110, 12.5.4), and
    /// `otherwise` where it names none of them. What is liked equally goes by the order in which it is named.
    pub fn choose(accept: Option<&str>, otherwise: Self) -> Self {
        let mut best = (0, otherwise);
        let accept = accept.unwrap_or_default();
        let accept = accept
            .get(..accept.floor_char_boundary(ACCEPT_MAX))
            .unwrap_or_default();
        for range in accept.split(',') {
            let mut parts = range.split(';');
            let tag = parts.next().unwrap_or_default().trim();
            let quality = parts.next().map_or(Some(1_000), quality);
            let language = if tag == "*" {
                Some(otherwise)
            } else {
                Self::of_tag(tag)
            };
            if let (Some(language), Some(quality)) = (language, quality)
                && quality > best.0
            {
                best = (quality, language);
            }
        }
        best.1
    }
}

/// Thousandths of `q=0.8`; `None` where it is none, so that the range is passed over.
fn quality(parameter: &str) -> Option<u32> {
    let value = parameter.trim().strip_prefix(['q', 'Q'])?.trim_start();
    let value = value.strip_prefix('=')?.trim();
    let value: f64 = value.parse().ok()?;
    (0.0..=1.0)
        .contains(&value)
        .then_some((value * 1_000.0) as u32)
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tag())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(accept: &str) -> Language {
        Language::choose(Some(accept), Language::Nl)
    }

    #[test]
    fn tags_are_read_as_they_are_written() {
        for (at, language) in Language::ALL.into_iter().enumerate() {
            assert_eq!(Language::of_tag(language.tag()), Some(language));
            assert_eq!(language.index(), at);
        }
        assert_eq!(Language::of_tag("PT-br"), Some(Language::Pt));
        assert_eq!(Language::of_tag("iw"), Some(Language::He));
        assert_eq!(Language::of_tag("english"), None);
    }

    #[test]
    fn what_is_liked_best_of_what_there_is_is_chosen() {
        assert_eq!(choose("de-AT,de;q=0.9,en;q=0.8"), Language::De);
        assert_eq!(choose("fi, en;q=0.5, fr;q=0.7"), Language::Fr);
        assert_eq!(choose("en;q=0.5,ja;q=0.5"), Language::En);
        assert_eq!(choose("zh-Hans-CN ; q=1.0"), Language::Zh);
        assert_eq!(choose("he-IL, en"), Language::He);
    }

    #[test]
    fn where_nothing_fits_the_operators_language_is_chosen() {
        assert_eq!(Language::choose(None, Language::Nl), Language::Nl);
        for accept in [
            "",
            "*",
            "fi,da",
            "de;q=0",
            "de;q=x",
            "de;q=7",
            ";;,,=",
            "*;q=0.5, fi",
        ] {
            assert_eq!(choose(accept), Language::Nl, "{accept}");
        }
        assert_eq!(choose("*;q=0.1, de;q=0.2"), Language::De);
    }

    #[test]
    fn of_a_header_without_end_only_the_beginning_is_read() {
        let long = format!("{},de", "x".repeat(5_000));
        assert_eq!(choose(&long), Language::Nl);
        let between = format!("{}é,de", "x".repeat(ACCEPT_MAX - 1));
        assert_eq!(choose(&between), Language::Nl);
    }
}
