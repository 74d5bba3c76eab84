//! What the page says, in each language: `words/<tag>.json`, and the rules for those who add one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::Language;

/// Everything that the page says in one language, by key.
pub(crate) type Catalogue = BTreeMap<String, Saying>;

/// One thing that is said. `{n}` and the like stand for values.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(untagged)]
pub(crate) enum Saying {
    /// The same for every number.
    Plain(String),
    /// By the plural category of its number, as CLDR has them.
    Plural(BTreeMap<String, String>),
}

/// What stands in the file itself; the script needs all the others.
const PAGE_ONLY: [&str; 18] = [
    "calm_head",
    "check",
    "keep_open",
    "keep_place",
    "keep_tabs",
    "leave",
    "leave_ask",
    "leave_no",
    "leave_yes",
    "more",
    "no_refresh",
    "noauto",
    "nojs",
    "nojs_unsent",
    "still",
    "sub",
    "title",
    "unsent",
];

static CATALOGUES: LazyLock<[Catalogue; Language::COUNT]> =
    LazyLock::new(|| Language::ALL.map(|language| read(source(language))));

/// What the page says in `language`.
pub(crate) fn of(language: Language) -> &'static Catalogue {
    &CATALOGUES[language.index()]
}

/// The part of it that the script needs.
pub(crate) fn of_script(language: Language) -> BTreeMap<&'static str, &'static Saying> {
    let all = of(language).iter();
    all.filter(|(key, _)| !PAGE_ONLY.contains(&key.as_str()))
        .map(|(key, saying)| (key.as_str(), saying))
        .collect()
}

/// One that is the same for every number.
pub(crate) fn plain(language: Language, key: &str) -> &'static str {
    match of(language).get(key) {
        Some(Saying::Plain(text)) => text,
        // The page is made once at start, and a test makes all of them.
        _ => unreachable!("{key} is not a plain word of {language}"),
    }
}

fn read(source: &str) -> Catalogue {
    serde_json::from_str(source).expect("a test reads every catalogue")
}

const fn source(language: Language) -> &'static str {
    match language {
        Language::Ar => include_str!("../words/ar.json"),
        Language::Cs => include_str!("../words/cs.json"),
        Language::De => include_str!("../words/de.json"),
        Language::En => include_str!("../words/en.json"),
        Language::Es => include_str!("../words/es.json"),
        Language::Fr => include_str!("../words/fr.json"),
        Language::He => include_str!("../words/he.json"),
        Language::It => include_str!("../words/it.json"),
        Language::Ja => include_str!("../words/ja.json"),
        Language::Ko => include_str!("../words/ko.json"),
        Language::Nl => include_str!("../words/nl.json"),
        Language::Pl => include_str!("../words/pl.json"),
        Language::Pt => include_str!("../words/pt.json"),
        Language::Sv => include_str!("../words/sv.json"),
        Language::Tr => include_str!("../words/tr.json"),
        Language::Zh => include_str!("../words/zh.json"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The plural categories of whole numbers and halves by CLDR; a test in a browser compares them with what it has.
    const fn categories(language: Language) -> &'static [&'static str] {
        match language {
            Language::Ar => &["few", "many", "one", "other", "two", "zero"],
            Language::Cs | Language::Pl => &["few", "many", "one", "other"],
            Language::Es | Language::Fr | Language::It | Language::Pt => &["many", "one", "other"],
            Language::He => &["one", "other", "two"],
            Language::Ja | Language::Ko | Language::Zh => &["other"],
            Language::De | Language::En | Language::Nl | Language::Sv | Language::Tr => {
                &["one", "other"]
            }
        }
    }

    /// The values that a text asks for.
    fn values(text: &str) -> BTreeSet<&str> {
        let parts = text.split('{').skip(1);
        parts.map(|part| part.split('}').next().unwrap()).collect()
    }

    fn texts(saying: &Saying) -> Vec<&str> {
        match saying {
            Saying::Plain(text) => vec![text],
            Saying::Plural(forms) => forms.values().map(String::as_str).collect(),
        }
    }

    #[test]
    fn every_language_says_everything() {
        let english: Vec<_> = of(Language::En).keys().collect();
        for language in Language::ALL {
            let keys: Vec<_> = of(language).keys().collect();
            assert_eq!(keys, english, "{language}");
            for (key, saying) in of(language) {
                for text in texts(saying) {
                    assert!(!text.trim().is_empty(), "{language}: {key}");
                    assert_eq!(text, text.trim(), "{language}: {key}");
                }
            }
        }
    }

    #[test]
    fn every_plural_has_the_categories_of_its_language() {
        for language in Language::ALL {
            for (key, saying) in of(language) {
                let Saying::Plural(forms) = saying else {
                    continue;
                };
                let has: Vec<_> = forms.keys().map(String::as_str).collect();
                // Two languages have a form for some whole numbers, and a browser may ask for it for any.
                assert_eq!(has, categories(language), "{language}: {key}");
            }
            for counted in ["ahead", "ahead_about", "entrants"] {
                assert!(
                    matches!(of(language)[counted], Saying::Plural(_)),
                    "{language}: {counted}"
                );
            }
        }
    }

    #[test]
    fn every_language_uses_the_same_values() {
        for (key, saying) in of(Language::En) {
            let expected: BTreeSet<_> = texts(saying).into_iter().flat_map(values).collect();
            for language in Language::ALL {
                let own = &of(language)[key];
                let found: BTreeSet<_> = texts(own).into_iter().flat_map(values).collect();
                assert_eq!(found, expected, "{language}: {key}");
            }
        }
    }

    #[test]
    fn the_script_gets_what_it_says_and_no_more() {
        let script = include_str!("../page/page.js");
        let keys = of_script(Language::En);
        for key in keys.keys() {
            let said = [
                format!("words.{key};"),
                format!("words.{key})"),
                format!("words.{key}]"),
                format!("words.{key},"),
                format!("words.{key} "),
                format!("'{key}'"),
                format!("words.{key}."),
            ]
            .iter()
            .any(|form| script.contains(form.as_str()));
            let composed = ["sold_out", "ended", "hours", "minutes", "surge"]
                .iter()
                .any(|word| key.starts_with(word));
            assert!(said || composed, "the script never says {key}");
        }
        for key in PAGE_ONLY {
            assert!(of(Language::En).contains_key(key), "{key}");
            assert!(
                !script.contains(&format!("words.{key}")),
                "the script says {key}"
            );
        }
    }
}
