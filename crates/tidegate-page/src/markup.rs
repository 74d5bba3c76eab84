//! How the files below `page/` become one.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tidegate_core::room::RoomName;

use crate::words::{of_script, plain};
use crate::{Language, Theme, Variation};

const PAGE: &str = include_str!("../page/page.html");
const CONTROLS: &str = include_str!("../page/controls.html");
const CALM: &str = include_str!("../page/calm.html");
const EXIT: &str = include_str!("../page/exit.html");
const STYLE: &str = include_str!("../page/page.css");
const SCRIPT: &str = include_str!("../page/page.js");

/// Seconds after which a page without script looks again. Below 20 it would hinder who reads slowly.
pub(crate) const REFRESH_S: u32 = 30;

/// A text by language.
type Texts = BTreeMap<Language, String>;

/// What is the same in every language: style, script, and the policy that allows these two and nothing else.
pub(crate) struct Assets {
    style: String,
    script: String,
    /// What a page may do, for its `meta` element.
    pub(crate) policy: String,
}

/// What the script is told.
#[derive(Serialize)]
struct Told<'a> {
    room: &'a str,
    name: &'a str,
    home: &'a str,
    fallback: Language,
    unsent: bool,
    hosted: bool,
    words: BTreeMap<&'static str, &'static crate::words::Saying>,
}

impl Assets {
    pub(crate) fn new(theme: &Theme) -> Self {
        let style = theme.variables() + &squeezed(STYLE);
        let script = squeezed(SCRIPT);
        let policy = format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; img-src 'self' data:; connect-src 'self'; \
             form-action 'self'; base-uri 'none'",
            digest(&script),
            digest(&style),
        );
        Self {
            style,
            script,
            policy,
        }
    }
}

/// A page, whole.
pub(crate) fn page(
    room: &RoomName,
    theme: &Theme,
    assets: &Assets,
    language: Language,
    variation: Variation,
) -> String {
    let say = |key: &str| escaped(plain(language, key));
    let (heading, sub) = variation.words();
    let title = match theme.name.as_str() {
        "" => say(heading),
        name => format!("{} · {}", say(heading), escaped(name)),
    };
    let block = |texts: &Texts, class: &str| block(texts, class, language, theme.fallback());
    let lives = variation.lives();
    // What only a script can do something with.
    let living = |template| match lives {
        true => filled(template, &say),
        false => String::new(),
    };
    let unsent = match variation {
        Variation::Unsent => format!("<p class=\"box\">{}</p>\n", say("unsent")),
        _ => String::new(),
    };
    filled(PAGE, &|key| match key {
        "lang" => language.tag().to_owned(),
        "dir" => if language.is_rtl() { "rtl" } else { "ltr" }.to_owned(),
        "csp" => escaped(&assets.policy),
        "title" => title.clone(),
        "style" => assets.style.clone(),
        "refresh" => refresh(theme, variation),
        "brand" => brand(theme),
        "state" => variation.name().to_owned(),
        "heading" => say(heading),
        "sub" => say(sub),
        "unsent" => unsent.clone(),
        "intro" => block(&theme.intro, "intro"),
        "nojs" => links(room, theme, language, variation),
        "script_part" => living(CONTROLS),
        "calm" => living(CALM) + &living(EXIT),
        "foot" => block(&theme.foot, "foot"),
        "script" if lives => script(room, theme, assets, language, variation),
        "script" => String::new(),
        other => unreachable!("the page has no {other}"),
    })
}

/// A text of the operator's, in `language` or else in `fallback`.
fn block(texts: &Texts, class: &str, language: Language, fallback: Language) -> String {
    let found = [language, fallback]
        .into_iter()
        .find_map(|tag| Some((tag, texts.get(&tag)?)));
    found.map_or_else(String::new, |(tag, text)| {
        format!(
            "<p class=\"{class}\" lang=\"{tag}\" dir=\"auto\">{}</p>\n",
            escaped(text)
        )
    })
}

/// Without script the browser looks again by itself. Never where that would lose what was entered.
fn refresh(theme: &Theme, variation: Variation) -> String {
    let to = match variation {
        Variation::Waiting => String::new(),
        // From a CDN the same address would say the same for ever.
        Variation::Hosted => format!(";url={}", escaped(theme.home())),
        _ => return String::new(),
    };
    format!("<noscript><meta http-equiv=\"refresh\" content=\"{REFRESH_S}{to}\"></noscript>\n")
}

/// What can be done where no script runs.
fn links(room: &RoomName, theme: &Theme, language: Language, variation: Variation) -> String {
    let say = |key: &str| escaped(plain(language, key));
    let link = |class: &str, to: &str, key| {
        format!(
            "<a class=\"{class}\" href=\"{}\">{}</a>",
            escaped(to),
            say(key)
        )
    };
    let looking = |to: &str| {
        let stop = format!("/.tidegate/v1/nojs/{room}");
        format!(
            "<noscript><p class=\"box\">{}</p>\n<p class=\"links\">{} {}</p></noscript>\n",
            say("nojs"),
            link("button main", to, "check"),
            link("button", &stop, "no_refresh"),
        )
    };
    match variation {
        // An empty reference is this page, with its query.
        Variation::Waiting => looking(""),
        Variation::Hosted => looking(theme.home()),
        Variation::Unsent => {
            format!(
                "<noscript><p class=\"box\">{}</p></noscript>\n",
                say("nojs_unsent")
            )
        }
        Variation::Still => {
            let check = link("button main", theme.home(), "check");
            format!("<p class=\"links\">{check}</p>\n")
        }
        Variation::NoCookies => {
            format!(
                "<p class=\"links\">{}</p>\n",
                link("button main", "", "again")
            )
        }
        Variation::SoldOut | Variation::Ended => String::new(),
    }
}

/// The logo with the name as its text, or the name alone.
fn brand(theme: &Theme) -> String {
    let name = escaped(&theme.name);
    let Some(logo) = &theme.logo else {
        return name;
    };
    let picture = format!("<img src=\"{}\" alt=\"{name}\">", escaped(logo));
    match &theme.logo_dark {
        Some(dark) => format!(
            "<picture><source media=\"(prefers-color-scheme: dark)\" srcset=\"{}\">{picture}</picture>",
            escaped(dark)
        ),
        None => picture,
    }
}

fn script(
    room: &RoomName,
    theme: &Theme,
    assets: &Assets,
    language: Language,
    variation: Variation,
) -> String {
    let told = Told {
        room: room.as_str(),
        name: &theme.name,
        home: theme.home(),
        fallback: theme.fallback(),
        unsent: variation == Variation::Unsent,
        hosted: variation == Variation::Hosted,
        words: of_script(language),
    };
    // Inside the element nothing is markup but what could end it.
    let told = serde_json::to_string(&told)
        .expect("texts, and maps with texts as keys")
        .replace('<', "\\u003c");
    format!(
        "<script type=\"application/json\" id=\"data\">{told}</script>\n<script>{}</script>\n",
        assets.script
    )
}

/// `template` with what `value` says for each `{{key}}`. What is put in is not looked at again.
fn filled(template: &str, value: &dyn Fn(&str) -> String) -> String {
    let mut parts = template.split("{{");
    let mut page = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (key, rest) = part.split_once("}}").expect("our own templates");
        page.push_str(&value(key));
        page.push_str(rest);
    }
    page
}

/// A text as it stands in markup and in a quoted attribute.
pub(crate) fn escaped(text: &str) -> String {
    let mut markup = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => markup.push_str("&amp;"),
            '<' => markup.push_str("&lt;"),
            '>' => markup.push_str("&gt;"),
            '"' => markup.push_str("&quot;"),
            '\'' => markup.push_str("&#39;"),
            other => markup.push(other),
        }
    }
    markup
}

/// Without indentation, blank lines and the lines that are comments: those are for who reads the source.
fn squeezed(source: &str) -> String {
    let lines = source.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//") && !is_comment(line))
        .fold(String::new(), |all, line| all + line + "\n")
}

fn is_comment(line: &str) -> bool {
    line.starts_with("/*") && line.ends_with("*/")
}

/// As a policy names the content of an element.
fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_takes_its_values_and_leaves_them_alone() {
        let value = |key: &str| format!("<{key} {{{{b}}}}>");

        assert_eq!(filled("1{{a}}2{{b}}", &value), "1<a {{b}}>2<b {{b}}>");
    }

    #[test]
    fn comments_and_indentation_are_for_the_source() {
        assert_eq!(squeezed("// why\n  a();\n\n/* b */\n  // c\n"), "a();\n");
        for source in [STYLE, SCRIPT] {
            assert!(
                !source.contains('`'),
                "a text over lines would lose its indentation"
            );
        }
    }

    #[test]
    fn text_is_never_markup() {
        assert_eq!(
            escaped("<b a=\"1\" c='2'>&"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;"
        );
    }
}
