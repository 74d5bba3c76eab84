//! How an operator has the page look, checked once.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::{Colour, Language};

/// Least contrast of text and what is behind it, by WCAG 2.2 AA.
const CONTRAST_MIN: f64 = 4.5;
/// Longest name of a site, in characters.
const NAME_MAX: usize = 60;
/// Longest text block, in characters.
const TEXT_MAX: usize = 600;
/// Longest font list, and longest path of a logo that is not part of the page, in bytes.
const VALUE_MAX: usize = 300;
/// Roundest corner, in CSS pixels.
const CORNER_MAX: u8 = 32;

/// Kinds of pictures that browsers show, as media types name them.
const PICTURES: [&str; 6] = ["png", "jpeg", "gif", "webp", "avif", "svg+xml"];

/// The fonts of the visitor's system: none is fetched.
const FONT: &str =
    r#"system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif"#;

/// How the page looks and what the operator says on it. Everything has a default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Theme {
    /// What the site is called: above the page, in its title, and instead of a logo.
    pub name: String,
    /// In which language who reads none of ours is spoken to.
    pub language: Option<Language>,
    /// A picture: a path on this site (which must be served to those who wait), or a `data:` URI. It counts to the page's
    /// size then.
    pub logo: Option<String>,
    /// The same, on dark ground.
    pub logo_dark: Option<String>,
    /// Where the site begins: a path. Without it `/`.
    pub home: Option<String>,
    /// Font names as CSS has them; only what visitors have on their machines.
    pub font: Option<String>,
    /// How round the corners are, in CSS pixels, 0 to 32.
    pub corner_px: Option<u8>,
    /// Colours in the light.
    pub light: Colours,
    /// Colours in the dark.
    pub dark: Colours,
    /// A text above the hints, by language. Plain text; line ends are kept.
    pub intro: BTreeMap<Language, String>,
    /// A text below the page, by language.
    pub foot: BTreeMap<Language, String>,
}

/// Colours of one scheme; what is not set has its default.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Colours {
    /// Buttons, links and the bar.
    pub accent: Option<Colour>,
    /// Text on the accent.
    pub on_accent: Option<Colour>,
    /// Behind everything.
    pub ground: Option<Colour>,
    /// Behind the text.
    pub card: Option<Colour>,
    /// Text.
    pub ink: Option<Colour>,
    /// Text that matters less.
    pub soft: Option<Colour>,
}

/// Why a theme cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadTheme {
    /// A text is too long, or has control characters.
    #[error("{what} has control characters, or more than {max} characters")]
    Text {
        /// Which text.
        what: &'static str,
        /// How long it may be.
        max: usize,
    },
    /// Something stands on something that it cannot be read on.
    #[error(
        "{text} on {ground} ({scheme}) has a contrast of {ratio:.2}, below {}",
        CONTRAST_MIN
    )]
    Contrast {
        /// `light` or `dark`.
        scheme: &'static str,
        /// The colour of the text.
        text: &'static str,
        /// The colour behind it.
        ground: &'static str,
        /// What it is.
        ratio: f64,
    },
    /// A logo that is neither a path here nor a picture in itself.
    #[error("a logo is a path on this site that begins with /, or data:image/…;base64,…")]
    Logo,
    /// Where the site begins is no path.
    #[error("home is a path on this site that begins with /")]
    Home,
    /// Not a list of font names.
    #[error("font is a list of names: letters, digits, spaces, hyphens, commas and double quotes")]
    Font,
    /// Rounder than may be.
    #[error("corner_px is {} at most", CORNER_MAX)]
    Corner,
    /// A page would not be there with the first packets.
    #[error(
        "the page in {language} has {bytes} bytes when compressed, more than {max}: a smaller logo, or less text"
    )]
    TooLarge {
        /// Of the page.
        language: Language,
        /// Its size.
        bytes: usize,
        /// What it may have.
        max: usize,
    },
}

/// Colours of one scheme, all of them.
#[derive(Clone, Copy, Debug)]
struct Scheme {
    accent: Colour,
    on_accent: Colour,
    ground: Colour,
    card: Colour,
    ink: Colour,
    soft: Colour,
}

const LIGHT: Scheme = Scheme {
    accent: Colour::new(0x0b, 0x5c, 0x8a),
    on_accent: Colour::new(0xff, 0xff, 0xff),
    ground: Colour::new(0xf1, 0xf5, 0xf7),
    card: Colour::new(0xff, 0xff, 0xff),
    ink: Colour::new(0x13, 0x21, 0x2b),
    soft: Colour::new(0x4d, 0x5d, 0x69),
};

const DARK: Scheme = Scheme {
    accent: Colour::new(0x7c, 0xc4, 0xee),
    on_accent: Colour::new(0x06, 0x20, 0x2f),
    ground: Colour::new(0x0c, 0x14, 0x1a),
    card: Colour::new(0x14, 0x1f, 0x28),
    ink: Colour::new(0xe9, 0xf0, 0xf5),
    soft: Colour::new(0xa6, 0xb6, 0xc2),
};

impl Theme {
    /// A picture as part of the page, for [`Theme::logo`]: by the extension of its file, such as `svg`. `None` where browsers
    /// show no such pictures.
    pub fn picture(extension: &str, bytes: &[u8]) -> Option<String> {
        let kind = match extension {
            "svg" => "svg+xml",
            "jpg" => "jpeg",
            other => PICTURES.into_iter().find(|kind| *kind == other)?,
        };
        Some(format!(
            "data:image/{kind};base64,{}",
            STANDARD.encode(bytes)
        ))
    }

    /// Checks everything but the size, which the pages know.
    pub(crate) fn check(&self) -> Result<(), BadTheme> {
        text("the name", &self.name, NAME_MAX, false)?;
        for texts in [&self.intro, &self.foot] {
            for block in texts.values() {
                text("a text block", block, TEXT_MAX, true)?;
            }
        }
        for logo in [&self.logo, &self.logo_dark].into_iter().flatten() {
            if !is_path(logo) && !is_picture(logo) {
                return Err(BadTheme::Logo);
            }
        }
        if self.home.as_deref().is_some_and(|home| !is_path(home)) {
            return Err(BadTheme::Home);
        }
        if self.font.as_deref().is_some_and(|font| !is_font(font)) {
            return Err(BadTheme::Font);
        }
        if self.corner_px.is_some_and(|corner| corner > CORNER_MAX) {
            return Err(BadTheme::Corner);
        }
        self.light.over(LIGHT).check("light")?;
        self.dark.over(DARK).check("dark")
    }

    /// The variables of the style.
    pub(crate) fn variables(&self) -> String {
        let font = self.font.as_deref().unwrap_or(FONT);
        let corner = self.corner_px.unwrap_or(16);
        let light = self.light.over(LIGHT).variables();
        let dark = self.dark.over(DARK).variables();
        format!(
            ":root{{--font:{font};--corner:{corner}px;{light}}}\n\
             @media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        )
    }

    /// Where the site begins.
    pub(crate) fn home(&self) -> &str {
        self.home.as_deref().unwrap_or("/")
    }

    /// In which language who reads none of ours is spoken to.
    pub(crate) fn fallback(&self) -> Language {
        self.language.unwrap_or(Language::En)
    }
}

impl Colours {
    fn over(&self, other: Scheme) -> Scheme {
        Scheme {
            accent: self.accent.unwrap_or(other.accent),
            on_accent: self.on_accent.unwrap_or(other.on_accent),
            ground: self.ground.unwrap_or(other.ground),
            card: self.card.unwrap_or(other.card),
            ink: self.ink.unwrap_or(other.ink),
            soft: self.soft.unwrap_or(other.soft),
        }
    }
}

impl Scheme {
    /// A hint of the accent, behind notes.
    fn tint(&self) -> Colour {
        self.accent.mixed(0.08, self.card)
    }

    /// Every pair that is text on something somewhere.
    fn check(&self, scheme: &'static str) -> Result<(), BadTheme> {
        let tint = self.tint();
        let pairs = [
            ("ink", self.ink, "card", self.card),
            ("ink", self.ink, "ground", self.ground),
            ("ink", self.ink, "the tint of the accent", tint),
            ("soft", self.soft, "card", self.card),
            ("soft", self.soft, "ground", self.ground),
            ("soft", self.soft, "the tint of the accent", tint),
            ("accent", self.accent, "card", self.card),
            ("accent", self.accent, "ground", self.ground),
            ("on_accent", self.on_accent, "accent", self.accent),
        ];
        for (text, colour, ground, behind) in pairs {
            let ratio = colour.contrast(behind);
            if ratio < CONTRAST_MIN {
                return Err(BadTheme::Contrast {
                    scheme,
                    text,
                    ground,
                    ratio,
                });
            }
        }
        Ok(())
    }

    fn variables(&self) -> String {
        let line = self.ink.mixed(0.14, self.card);
        [
            ("accent", self.accent),
            ("on-accent", self.on_accent),
            ("ground", self.ground),
            ("card", self.card),
            ("ink", self.ink),
            ("soft", self.soft),
            ("line", line),
            ("tint", self.tint()),
        ]
        .map(|(name, colour)| format!("--{name}:{colour};"))
        .concat()
    }
}

fn text(what: &'static str, text: &str, max: usize, lines: bool) -> Result<(), BadTheme> {
    let plain = |char: char| !char.is_control() || (lines && char == '\n');
    if text.chars().count() <= max && text.chars().all(plain) {
        Ok(())
    } else {
        Err(BadTheme::Text { what, max })
    }
}

/// A path of this site: `//` would be another one.
fn is_path(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%?&=+,:@!".contains(&byte);
    text.starts_with('/')
        && !text.starts_with("//")
        && text.len() <= VALUE_MAX
        && text.bytes().all(allowed)
}

fn is_picture(text: &str) -> bool {
    let rest = text.strip_prefix("data:image/");
    let Some((kind, bytes)) = rest.and_then(|rest| rest.split_once(";base64,")) else {
        return false;
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    PICTURES.contains(&kind) && !bytes.is_empty() && bytes.bytes().all(allowed)
}

fn is_font(text: &str) -> bool {
    let allowed = |char: char| char.is_alphanumeric() || " -,\"".contains(char);
    let quotes = text.matches('"').count();
    !text.is_empty()
        && text.len() <= VALUE_MAX
        && text.chars().all(allowed)
        && quotes.is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Theme)) -> BadTheme {
        let mut theme = Theme::default();
        change(&mut theme);
        theme.check().unwrap_err()
    }

    #[test]
    fn the_defaults_can_be_read_in_the_light_and_in_the_dark() {
        assert_eq!(Theme::default().check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_figure() {
        let pale = Some(Colour::parse("#9ecbe8").unwrap());

        let error = refused(|theme| theme.light.accent = pale);

        let told = error.to_string();
        assert!(
            told.starts_with("accent on card (light) has a contrast of 1.7"),
            "{told}"
        );
        let both = refused(|theme| (theme.dark.card, theme.dark.ink) = (pale, pale));
        assert!(matches!(both, BadTheme::Contrast { scheme: "dark", .. }));
    }

    #[test]
    fn nothing_gets_into_the_page_that_is_not_what_it_says() {
        for logo in [
            "//evil.example/a.png",
            "https://evil.example/a.png",
            "javascript:alert(1)",
            "/a\"onerror=\"x",
            "data:text/html;base64,AA",
            "data:image/png;base64,",
            "data:image/png;base64,A\"",
            "a.png",
        ] {
            assert_eq!(
                refused(|theme| theme.logo = Some(logo.to_owned())),
                BadTheme::Logo,
                "{logo}"
            );
        }
        for home in [
            "//evil.example",
            "https://evil.example",
            "javascript:x",
            "/a b",
            "",
        ] {
            assert_eq!(
                refused(|theme| theme.home = Some(home.to_owned())),
                BadTheme::Home,
                "{home}"
            );
        }
        for font in ["", "a;b", "url(x)", "a}b{", "\"a", "a\\b", "</style>"] {
            assert_eq!(
                refused(|theme| theme.font = Some(font.to_owned())),
                BadTheme::Font,
                "{font}"
            );
        }
        assert_eq!(
            refused(|theme| theme.corner_px = Some(33)),
            BadTheme::Corner
        );
    }

    #[test]
    fn a_picture_becomes_part_of_the_page() {
        let logo = Theme::picture("svg", b"<svg/>").unwrap();
        assert_eq!(logo, "data:image/svg+xml;base64,PHN2Zy8+");
        let theme = Theme {
            logo: Some(logo),
            ..Theme::default()
        };
        assert_eq!(theme.check(), Ok(()));
        assert_eq!(Theme::picture("exe", b""), None);
    }

    #[test]
    fn texts_are_bounded_and_have_no_control_characters() {
        let long = "x".repeat(NAME_MAX + 1);
        assert!(matches!(
            refused(|theme| theme.name = long),
            BadTheme::Text {
                what: "the name",
                ..
            }
        ));
        assert!(matches!(
            refused(|theme| theme.name = "a\nb".to_owned()),
            BadTheme::Text { .. }
        ));
        let bell = "a\u{7}".to_owned();
        assert!(matches!(
            refused(|theme| drop(theme.foot.insert(Language::En, bell))),
            BadTheme::Text { .. }
        ));

        let mut fine = Theme {
            name: "n".repeat(NAME_MAX),
            ..Theme::default()
        };
        fine.intro.insert(Language::De, "Zeile\nZeile".to_owned());
        assert_eq!(fine.check(), Ok(()));
    }

    #[test]
    fn a_file_says_what_a_theme_is_and_nothing_else() {
        let theme: Theme = toml::from_str(
            "name = 'Shop'\nlanguage = 'de'\ncorner_px = 4\nfont = 'Inter, \"Segoe UI\"'\n[light]\naccent = '#036'\n[foot]\nde = 'Hilfe: 123'",
        )
        .unwrap();
        assert_eq!(theme.check(), Ok(()));
        assert_eq!(theme.fallback(), Language::De);
        assert!(theme.variables().contains("--accent:#003366;"));

        for bad in [
            "nome = 'x'",
            "[light]\naccent = 'red'",
            "[light]\nborder = '#fff'",
            "[foot]\nxx = 'a'",
        ] {
            assert!(toml::from_str::<Theme>(bad).is_err(), "{bad}");
        }
    }
}
