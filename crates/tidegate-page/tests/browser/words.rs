//! All languages, in the browser's own rules for them.

use tidegate_page::Language;

use crate::browser::Browser;
use crate::site::Site;

#[test]
fn every_language_has_the_plurals_that_the_browser_asks_for_and_shows_whole_sentences() {
    let (site, browser) = (Site::start(), Browser::start());
    site.world().stock = Some(100);
    for language in Language::ALL {
        browser.language(language.tag());
        browser.go(&site.url("/"));
        browser.until_state("waiting");

        assert_eq!(
            browser.eval("document.documentElement.lang"),
            language.tag()
        );
        let missing = browser.run(
            "const words = JSON.parse(document.getElementById('data').textContent).words;
             const rules = new Intl.PluralRules(document.documentElement.lang).resolvedOptions().pluralCategories;
             return Object.keys(words).filter(key => typeof words[key] !== 'string'
                 && rules.some(category => !(category in words[key])));",
        );
        assert_eq!(missing, serde_json::json!([]), "{language}");
        let told = browser.told();
        for wrong in ["{", "}", "undefined", "NaN", "null"] {
            assert!(!told.contains(wrong), "{language}: {told}");
        }
        assert!(!browser.text("big").is_empty() && !browser.text("notes").is_empty());
        assert_eq!(
            browser.eval("document.documentElement.scrollWidth <= innerWidth"),
            true,
            "{language} is too wide"
        );
    }
}

#[test]
fn arabic_and_hebrew_run_from_right_to_left() {
    let (site, browser) = (Site::start(), Browser::start());
    for tag in ["ar", "he"] {
        browser.language(tag);
        browser.go(&site.url("/"));
        browser.until_state("waiting");

        assert_eq!(
            browser.eval("getComputedStyle(document.getElementById('sub')).direction"),
            "rtl"
        );
        let right = "document.getElementById('fill').getBoundingClientRect().right === document.getElementById('bar').getBoundingClientRect().right";
        assert_eq!(
            browser.eval(right),
            true,
            "the bar grows from where reading begins"
        );
        let calm = "getComputedStyle(document.querySelector('#calm li')).paddingRight";
        assert_ne!(browser.eval(calm), "0px", "its dots are on the right");
    }
}
