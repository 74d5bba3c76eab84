//! Rate limits: `[[limit]]`.

use http::HeaderName;
use tidegate_core::rate::set::{LIMITS_MAX, Standing};
use tidegate_core::rate::{Algorithm, Rate, Spec, SpecError};
use tidegate_gateway::plan::AppPlan;
use tidegate_gateway::rate::{
    Absent, Cost, KEY_PARTS_MAX, KeyPart, LIMITS_CONFIGURED_MAX, LimitPlan, RatePlan, Stage,
};

use super::keys::rates::{LIMIT, LIMIT_COST, LIMIT_KEY, LIMIT_KEY_CLIENT, TOKENS_MAX};
use super::name::Names;
use super::problem::Problems;
use super::section::{Section, closest};
use super::tree::{Node, Value};

/// The longest constant part of a key, in bytes.
const CONSTANT_LEN_MAX: usize = 256;

/// What limits refer to.
pub(crate) struct Around<'a> {
    pub(crate) apps: &'a [AppPlan],
    /// Whether there are sessions.
    pub(crate) sessions: bool,
    /// Whether there are peers that are trusted.
    pub(crate) proxies: bool,
}

/// The limits at `[[limit]]`.
pub(crate) fn rates(root: &Section<'_>, around: &Around<'_>, problems: &Problems) -> RatePlan {
    let nodes = root.sections("limit", "[[limit]]");
    let mut names = Names::reserving("", "limit");
    let mut limits = Vec::new();
    if nodes.len() > LIMITS_CONFIGURED_MAX {
        root.refuse(
            "limit",
            format!("{} limits", nodes.len()),
            format!(
                "write at most {LIMITS_CONFIGURED_MAX}; a key with route counts each route apart"
            ),
        );
        return RatePlan::default();
    }
    for node in nodes {
        let section = Section::new("[[limit]]", node, LIMIT, &[], problems);
        let name = section.text("name");
        names.take(&section, name);
        limits.push(limit(&section, name, around, problems));
    }
    refuse_too_many(root, &limits, around.apps);
    RatePlan {
        limits,
        keys_max: root.count("limit_keys_max") as usize,
    }
}

fn limit(section: &Section<'_>, name: &str, around: &Around<'_>, problems: &Problems) -> LimitPlan {
    let algorithm = algorithm(section);
    let rate = rate(section);
    let spec = rate.and_then(|rate| spec(section, algorithm, rate));
    let cost = cost(section, problems, around);
    if let Some(spec) = spec {
        refuse_too_dear(section, &spec, &cost);
    }
    let key = key(section, problems, around);
    let apps = apps(section, around.apps);
    refuse_fleet(section);
    LimitPlan {
        name: name.to_owned(),
        algorithm,
        rate: rate.unwrap_or(Rate {
            tokens: 1,
            period_us: 1_000_000,
        }),
        spec: spec.unwrap_or(Spec::Deny),
        cost,
        absent: absent(section, &key),
        routes: routes(section, &apps, around.apps),
        apps,
        standing: match section.switch("shadow") {
            true => Standing::Shadow,
            false => Standing::Enforced,
        },
        stage: stage(section, &key),
        key,
    }
}

/// How a limit is counted.
pub(super) fn algorithm(section: &Section<'_>) -> Algorithm {
    match section.choice("algorithm") {
        Some("log") => Algorithm::Log,
        Some("window") => Algorithm::Window,
        _ => Algorithm::Bucket,
    }
}

/// The rate of a limit, if it is one.
pub(super) fn rate(section: &Section<'_>) -> Option<Rate> {
    let text = section.text("rate");
    if !section.sound(&["rate"]) {
        return None;
    }
    match text.parse::<Rate>() {
        Ok(rate) => Some(rate),
        Err(error) => {
            section.refuse(
                "rate",
                format!("`rate = \"{text}\"` is no rate: {error}"),
                "write a number, / and a period, such as \"100/s\", \"10/min\" or \"5/10s\"",
            );
            None
        }
    }
}

/// What the section says of a limit, if it can be kept.
pub(super) fn spec(section: &Section<'_>, algorithm: Algorithm, rate: Rate) -> Option<Spec> {
    let burst = section.count_if_set("burst").map(u64::from);
    if !section.sound(&["algorithm", "burst"]) {
        return None;
    }
    let error = match Spec::new(algorithm, rate, burst) {
        Ok(spec) => return Some(spec),
        Err(error) => error,
    };
    let (key, fix) = match error {
        SpecError::BurstUnused(_) => ("burst", "remove burst, or write algorithm = \"bucket\""),
        SpecError::LogTooLong { .. } => (
            "algorithm",
            "write algorithm = \"bucket\", or \"window\" for about as many in a period",
        ),
        SpecError::TooFine { burst_max: 1.., .. } if section.has("burst") => (
            "burst",
            "write a smaller burst, or a rate in rounder numbers",
        ),
        _ => (
            "rate",
            "write a rate in rounder numbers, or over a shorter period",
        ),
    };
    section.refuse(key, format!("this limit cannot be kept: {error}"), fix);
    None
}

fn cost(section: &Section<'_>, problems: &Problems, around: &Around<'_>) -> Cost {
    let Some(node) = section.node("cost") else {
        return Cost::Fixed(1);
    };
    match &node.value {
        Value::Integer(cost) if (1..=i128::from(TOKENS_MAX)).contains(cost) => {
            Cost::Fixed(*cost as u64)
        }
        Value::Integer(cost) => {
            section.refuse(
                "cost",
                format!("`cost = {cost}` is out of range"),
                format!("write a value from 1 to {TOKENS_MAX}"),
            );
            Cost::Fixed(1)
        }
        Value::Table(_) => {
            let table = Section::new("cost of [[limit]]", node, LIMIT_COST, &[], problems);
            let name = header(&table, table.text("header"));
            refuse_unheard(section, "cost", around);
            let otherwise = u64::from(table.count("otherwise"));
            match name {
                Some(name) => Cost::Header { name, otherwise },
                None => Cost::Fixed(1),
            }
        }
        _ => {
            section.refuse(
                "cost",
                format!("`cost` is {}, but takes a number or a header", node.kind()),
                "write cost = 5, or cost = { header = \"X-Cost\" }",
            );
            Cost::Fixed(1)
        }
    }
}

/// A cost that is above what there ever is would refuse every request.
fn refuse_too_dear(section: &Section<'_>, spec: &Spec, cost: &Cost) {
    let usual = match cost {
        Cost::Fixed(cost) => *cost,
        Cost::Header { otherwise, .. } => *otherwise,
    };
    if let Err(error) = spec.fits(usual)
        && section.sound(&["cost", "rate", "burst", "algorithm"])
    {
        let fix = match spec {
            Spec::Bucket(_) => format!("write burst = {usual} or more, or a lower cost"),
            _ => "write a higher rate, or a lower cost".to_owned(),
        };
        section.refuse("cost", error.to_string(), fix);
    }
}

fn key(section: &Section<'_>, problems: &Problems, around: &Around<'_>) -> Vec<KeyPart> {
    const CLIENT: KeyPart = KeyPart::Client { v4: 32, v6: 64 };
    let Some(node) = section.node("key") else {
        return vec![CLIENT];
    };
    let Value::List(items) = &node.value else {
        section.refuse(
            "key",
            format!("`key` is {}, but takes a list", node.kind()),
            "write key = [\"client\"], say; key = [] counts all requests together",
        );
        return Vec::new();
    };
    if items.len() > KEY_PARTS_MAX {
        section.refuse(
            "key",
            format!("`key` has {} parts", items.len()),
            format!("write at most {KEY_PARTS_MAX}"),
        );
        return Vec::new();
    }
    let mut parts: Vec<KeyPart> = Vec::new();
    for item in items {
        let part = match &item.value {
            Value::Text(text) => match text.as_str() {
                "client" => Some(CLIENT),
                "session" => Some(KeyPart::Session),
                "route" => Some(KeyPart::Route),
                other => {
                    unknown_part(section, item, other);
                    None
                }
            },
            Value::Table(_) => table_part(section, item, problems, around),
            _ => {
                unknown_part(section, item, item.kind());
                None
            }
        };
        let Some(part) = part else { continue };
        if part == KeyPart::Session && !around.sessions {
            section.refuse_item(
                "key",
                &item.origin,
                "the part \"session\" needs sessions, and there are none",
                "add a section [sessions], or count by another part",
            );
        }
        if parts.contains(&part) {
            section.refuse_item(
                "key",
                &item.origin,
                "this part is in `key` twice",
                "remove one of them",
            );
        }
        parts.push(part);
    }
    parts
}

fn unknown_part(section: &Section<'_>, item: &Node, found: &str) {
    let names = ["client", "session", "route", "header", "constant"];
    let fix = match closest(found, names.into_iter()) {
        Some("header") => "write { header = \"X-Tenant\" }, say".to_owned(),
        Some("constant") => "write { constant = \"all\" }, say".to_owned(),
        Some(name) => format!("did you mean \"{name}\"?"),
        None => "write \"client\", \"session\", \"route\", { client = { v4 = 24, v6 = 48 } }, \
                 { header = \"X-Tenant\" } or { constant = \"all\" }"
            .to_owned(),
    };
    section.refuse_item(
        "key",
        &item.origin,
        format!("`{found}` is no part of a key"),
        fix,
    );
}

/// A part that is more than its name.
fn table_part(
    section: &Section<'_>,
    item: &Node,
    problems: &Problems,
    around: &Around<'_>,
) -> Option<KeyPart> {
    let table = Section::new("key of [[limit]]", item, LIMIT_KEY, &[], problems);
    let set: Vec<_> = LIMIT_KEY.iter().filter(|key| table.has(key.name)).collect();
    if set.len() != 1 {
        section.refuse_item(
            "key",
            &item.origin,
            format!("a part of a key is one thing, not {}", set.len()),
            "write one of client, header and constant in each pair of braces",
        );
        return None;
    }
    match set[0].name {
        "header" => {
            refuse_unheard(section, "key", around);
            header(&table, table.text("header")).map(KeyPart::Header)
        }
        "constant" => {
            let text = table.text("constant");
            if text.len() > CONSTANT_LEN_MAX {
                table.refuse(
                    "constant",
                    format!("a constant of {} bytes", text.len()),
                    format!("write at most {CONSTANT_LEN_MAX}"),
                );
            }
            Some(KeyPart::Constant(text.to_owned()))
        }
        _ => {
            let node = table.node("client")?;
            if !matches!(node.value, Value::Table(_)) {
                // Says so.
                table.table("client");
                return None;
            }
            let client = Section::new(
                "client in key of [[limit]]",
                node,
                LIMIT_KEY_CLIENT,
                &[],
                problems,
            );
            Some(KeyPart::Client {
                v4: client.count("v4") as u8,
                v6: client.count("v6") as u8,
            })
        }
    }
}

fn header(table: &Section<'_>, text: &str) -> Option<HeaderName> {
    if !table.sound(&["header"]) {
        return None;
    }
    let name = text.parse::<HeaderName>().ok();
    if name.is_none() {
        table.refuse(
            "header",
            format!("`{text}` is no header name"),
            "write letters, digits and '-', such as \"X-Tenant\"",
        );
    }
    name
}

/// A header that nobody is trusted to send would never be read.
fn refuse_unheard(section: &Section<'_>, key: &'static str, around: &Around<'_>) {
    if !around.proxies {
        section.refuse(
            key,
            format!("the header in `{key}` would never be read: only trusted peers are believed, and there are none"),
            "name your proxies in [trust], as in proxies = [\"10.0.0.0/8\"]",
        );
    }
}

fn absent(section: &Section<'_>, key: &[KeyPart]) -> Absent {
    let chosen = section.choice("absent");
    let possible = key.iter().any(KeyPart::may_be_absent);
    if section.sound(&["absent", "key"]) && possible != chosen.is_some() {
        if possible {
            section.refuse(
                "absent",
                "a request may lack a part of the key, and nothing says what then",
                "write absent = \"shared\" (all such requests count together), \"skip\" (the limit does not apply) \
                 or \"deny\" (they are refused)",
            );
        } else {
            section.refuse(
                "absent",
                "`absent` has no effect: no request lacks a part of this key",
                "remove it",
            );
        }
    }
    match chosen {
        Some("deny") => Absent::Deny,
        Some("shared") => Absent::Shared,
        _ => Absent::Skip,
    }
}

fn stage(section: &Section<'_>, key: &[KeyPart]) -> Stage {
    let by_user = key.contains(&KeyPart::Session);
    let edge = section.switch_if_set("edge");
    if edge == Some(true) && by_user && section.sound(&["edge", "key"]) {
        section.refuse(
            "edge",
            "a limit that counts by session cannot be asked before the session is known",
            "remove edge, or take \"session\" out of key",
        );
    }
    match edge.unwrap_or(!by_user) {
        true => Stage::Edge,
        false => Stage::Known,
    }
}

fn refuse_fleet(section: &Section<'_>) {
    if section.choice("scope") == Some("fleet") {
        section.refuse(
            "scope",
            "limits that hold over all gateways together are not there yet",
            "write scope = \"node\" and a rate of the whole divided by the number of gateways: \
             each of them lets its own rate pass",
        );
    }
}

fn apps(section: &Section<'_>, apps: &[AppPlan]) -> Vec<String> {
    let known = || apps.iter().map(|app| app.name.as_str());
    names(section, "apps", "application", known)
}

fn routes(section: &Section<'_>, chosen: &[String], apps: &[AppPlan]) -> Vec<String> {
    let known = || {
        let apps = apps
            .iter()
            .filter(move |app| chosen.is_empty() || chosen.contains(&app.name));
        let routes = apps.flat_map(|app| &app.routes);
        routes.map(|route| route.name.as_str())
    };
    if !section.sound(&["apps"]) {
        return Vec::new();
    }
    names(section, "routes", "route", known)
}

/// The texts at `key`, which are names of things that there are.
fn names<'n, I: Iterator<Item = &'n str>>(
    section: &Section<'_>,
    key: &'static str,
    what: &str,
    known: impl Fn() -> I,
) -> Vec<String> {
    let mut names = Vec::new();
    for (text, place) in section.texts(key) {
        if !known().any(|name| name == text) {
            let fix = match closest(text, known()) {
                Some(name) => format!("did you mean \"{name}\"?"),
                None => {
                    format!("write the name of one that is configured, or remove `{key}` for all")
                }
            };
            section.refuse_item(
                key,
                place,
                format!("there is no {what} called \"{text}\""),
                fix,
            );
        }
        names.push(text.to_owned());
    }
    names
}

/// All limits of a request are decided on together, and there is a bound on how many.
fn refuse_too_many(root: &Section<'_>, limits: &[LimitPlan], apps: &[AppPlan]) {
    for app in apps {
        for route in &app.routes {
            let met = limits
                .iter()
                .filter(|limit| limit.applies_to(app, route))
                .count();
            if met > LIMITS_MAX {
                root.refuse(
                    "limit",
                    format!(
                        "requests for route {} of application {} meet {met} limits",
                        route.name, app.name
                    ),
                    format!("let at most {LIMITS_MAX} apply to it: say which routes each is for"),
                );
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
