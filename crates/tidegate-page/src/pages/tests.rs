use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;

use super::*;

fn room() -> RoomName {
    RoomName::new("shop").unwrap()
}

fn pages(theme: &Theme) -> Pages {
    Pages::new(&room(), theme).unwrap()
}

fn text(page: &Page) -> &str {
    std::str::from_utf8(&page.plain).unwrap()
}

/// What is between the first `open` and the next `close`.
fn between<'a>(text: &'a str, open: &str, close: &str) -> &'a str {
    let rest = text.split_once(open).unwrap().1;
    rest.split_once(close).unwrap().0
}

#[test]
fn every_page_is_small_enough_for_the_first_packets() {
    let pages = pages(&Theme {
        name: "A shop with a name".to_owned(),
        ..Theme::default()
    });
    for language in Language::ALL {
        let sizes = Variation::ALL.map(|variation| {
            let page = pages.of(language, variation);
            let mut again = Vec::new();
            GzDecoder::new(&page.gzip[..])
                .read_to_end(&mut again)
                .unwrap();
            assert_eq!(again, page.plain, "{language} {variation:?}");
            page.gzip.len()
        });
        let largest = sizes.into_iter().max().unwrap();
        println!(
            "{language}: {largest} bytes compressed, {} plain",
            pages.of(language, Variation::Waiting).plain.len()
        );
        assert!(largest <= SIZE_MAX, "{language}: {largest}");
    }
}

#[test]
fn the_policy_allows_the_very_style_and_script_of_the_page() {
    let pages = pages(&Theme::default());
    let policy = pages.policy().to_str().unwrap();
    for language in Language::ALL {
        for variation in Variation::ALL {
            let page = text(pages.of(language, variation));
            let hashed =
                |content: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(content)));

            let style = between(page, "<style>", "</style>");
            assert!(
                policy.contains(&format!("style-src {};", hashed(style))),
                "{language}"
            );
            assert_eq!(page.matches("<style").count(), 1);
            if variation.lives() {
                let script = between(page, "<script>", "</script>");
                assert!(
                    policy.contains(&format!("script-src {};", hashed(script))),
                    "{language}"
                );
            }
            let scripts = if variation.lives() { 2 } else { 0 };
            assert_eq!(
                page.matches("<script").count(),
                scripts,
                "{language} {variation:?}"
            );
            for forbidden in [
                "style=",
                " onclick",
                "onload",
                "javascript:",
                "http://",
                "https://",
            ] {
                assert!(
                    !page.contains(forbidden),
                    "{language} {variation:?} has {forbidden}"
                );
            }
        }
    }
    assert!(policy.starts_with("default-src 'none';"));
    assert!(!policy.contains("unsafe"));
}

#[test]
fn what_an_operator_writes_is_text() {
    let evil = "</script><img src=x onerror=alert(1)>'\"&";
    let mut theme = Theme {
        name: evil.to_owned(),
        ..Theme::default()
    };
    theme.intro.insert(Language::En, evil.to_owned());
    theme.foot.insert(Language::En, evil.to_owned());
    let pages = pages(&theme);

    for language in Language::ALL {
        let page = text(pages.of(language, Variation::Waiting));
        assert!(!page.contains("<img"), "{language}");
        assert_eq!(page.matches("</script>").count(), 2, "{language}");
        let data: serde_json::Value =
            serde_json::from_str(between(page, "id=\"data\">", "</script>")).unwrap();
        assert_eq!(data["name"], evil);
    }
}

#[test]
fn a_page_is_written_in_its_language_and_direction() {
    let pages = pages(&Theme::default());
    for language in Language::ALL {
        let page = text(pages.of(language, Variation::Waiting));
        let direction = if language.is_rtl() { "rtl" } else { "ltr" };
        assert!(page.contains(&format!("<html lang=\"{language}\" dir=\"{direction}\">")));
        assert!(!page.contains("{{"), "{language}");
    }
    assert_eq!(
        Language::ALL
            .iter()
            .filter(|language| language.is_rtl())
            .count(),
        2
    );
}

#[test]
fn only_a_visit_that_loses_nothing_is_repeated_by_itself_and_only_without_script() {
    let pages = pages(&Theme {
        home: Some("/shop".to_owned()),
        ..Theme::default()
    });
    for variation in Variation::ALL {
        let page = text(pages.of(Language::En, variation));
        let refresh = page.matches("http-equiv=\"refresh\"").count();
        let expected = matches!(variation, Variation::Waiting | Variation::Hosted);
        assert_eq!(refresh, usize::from(expected), "{variation:?}");
        if expected {
            let inside = between(
                page,
                "<noscript><meta http-equiv=\"refresh\" content=\"",
                "\"></noscript>",
            );
            let seconds: u32 = inside.split(';').next().unwrap().parse().unwrap();
            assert!(seconds >= 20, "{inside}");
            assert!(page.contains("href=\"/.tidegate/v1/nojs/shop\""));
        }
    }
    let hosted = text(pages.of(Language::En, Variation::Hosted));
    assert!(hosted.contains("content=\"30;url=/shop\""));
}

#[test]
fn who_needs_more_than_the_first_packets_is_told_so() {
    // Noise, so that compressing does not help.
    let mut rng = tidegate_core::rng::Rng::new(1);
    let noise: Vec<u8> = (0..SIZE_MAX).map(|_| rng.below(256) as u8).collect();
    let theme = Theme {
        logo: Some(format!("data:image/png;base64,{}", STANDARD.encode(noise))),
        ..Theme::default()
    };

    let error = Pages::new(&room(), &theme).unwrap_err();

    assert!(
        matches!(error, BadTheme::TooLarge { max: SIZE_MAX, .. }),
        "{error}"
    );
}

#[test]
fn any_change_changes_the_hash() {
    let plain = pages(&Theme::default());
    let again = pages(&Theme::default());
    assert_eq!(plain.hash(), again.hash());
    assert_eq!(plain.hash().len(), 16);

    let mut other = Theme::default();
    other.foot.insert(Language::Zh, "x".to_owned());
    assert_ne!(plain.hash(), pages(&other).hash());
    assert_eq!(plain.language(Some("fr")), Language::Fr);
    assert_eq!(plain.language(None), Language::En);
}

#[test]
fn answering_copies_nothing() {
    let pages = pages(&Theme::default());
    let page = pages.of(Language::En, Variation::Waiting);
    let sent = page.gzip.clone();
    assert_eq!(sent.as_ptr(), page.gzip.as_ptr());
}
