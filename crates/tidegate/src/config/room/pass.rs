//! How passes are made, and what one may bring.

use std::time::Duration;

use tidegate_core::rate::{self, Rate, Spec};
use tidegate_core::room::RoomName;
use tidegate_gateway::room::{Algorithm, Budget, TokensPlan};
use tidegate_gateway::session::Transport;

use super::super::section::Section;
use super::super::sessions::Sessions;

/// Longest name of who signs.
const ISSUER_LEN_MAX: usize = 64;

/// How the tokens of `room` are made.
pub(super) fn tokens(
    section: &Section<'_>,
    room: RoomName,
    sessions: Option<&Sessions>,
) -> TokensPlan {
    let [idle, absolute] = ["pass_idle", "pass_absolute"].map(|key| whole(section, key));
    if idle > absolute && section.sound(&["pass_idle", "pass_absolute"]) {
        let key = match section.has("pass_idle") {
            true => "pass_idle",
            false => "pass_absolute",
        };
        section.refuse(
            key,
            format!(
                "`pass_idle` is {}, longer than `pass_absolute`, {}",
                humantime::format_duration(idle),
                humantime::format_duration(absolute)
            ),
            "write pass_idle ≤ pass_absolute: no pass lives longer than that, used or not",
        );
    }
    let algorithm = section.choice("algorithm").and_then(Algorithm::parse);
    TokensPlan {
        issuer: issuer(section).to_owned(),
        algorithm: algorithm.unwrap_or_default(),
        idle,
        absolute,
        transport: transport(section, sessions),
        budgets: vec![budget(section)],
        ..TokensPlan::of(room)
    }
}

/// Tokens name whole seconds.
fn whole(section: &Section<'_>, key: &'static str) -> Duration {
    let span = section.span(key);
    if span.subsec_nanos() != 0 && section.sound(&[key]) {
        section.refuse(
            key,
            format!(
                "`{key} = \"{}\"` has a part of a second, and passes name whole ones",
                section.text_if_set(key).unwrap_or_default()
            ),
            format!("write {key} = \"{}s\"", span.as_secs() + 1),
        );
    }
    Duration::from_secs(span.as_secs())
}

fn issuer<'t>(section: &Section<'t>) -> &'t str {
    let text = section.text("issuer");
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    let fits = (1..=ISSUER_LEN_MAX).contains(&text.len()) && text.bytes().all(plain);
    if !fits && section.sound(&["issuer"]) {
        section.refuse(
            "issuer",
            format!("`issuer = \"{text}\"` is nobody that passes can name"),
            format!(
                "write 1 to {ISSUER_LEN_MAX} visible characters of ASCII without '\"' and '\\', such as \"tidegate\""
            ),
        );
    }
    text
}

/// Whether cookies need TLS: as the session's do.
fn transport(section: &Section<'_>, sessions: Option<&Sessions>) -> Transport {
    match (section.switch_if_set("insecure"), sessions) {
        (Some(true), _) => Transport::Insecure,
        (Some(false), _) | (None, None) => Transport::Tls,
        (None, Some(sessions)) => sessions.gateway.cookies.transport(),
    }
}

fn budget(section: &Section<'_>) -> Budget {
    let budget = Budget {
        in_flight: section.count("pass_in_flight"),
        per_second: section.count("pass_per_second").into(),
        burst: section.count("pass_burst").into(),
    };
    let rate = Rate {
        tokens: budget.per_second,
        period_us: 1_000_000,
    };
    let counted = Spec::new(rate::Algorithm::Bucket, rate, Some(budget.burst));
    if let Err(error) = counted
        && section.sound(&["pass_per_second", "pass_burst"])
    {
        section.refuse(
            "pass_burst",
            format!("so many requests cannot be counted: {error}"),
            "write a smaller pass_burst, or pass_per_second in rounder numbers",
        );
    }
    budget
}
