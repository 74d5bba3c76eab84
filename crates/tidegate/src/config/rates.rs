//! Rate limits: `[[limit]]`.

mod fleet;
mod headroom;
mod key;
mod overrides;
mod who;

use http::HeaderName;
use tidegate_core::rate::set::{LIMITS_MAX, Standing};
use tidegate_core::rate::{Algorithm, Rate, Spec, SpecError};
use tidegate_gateway::plan::AppPlan;
use tidegate_gateway::rate::{
    Absent, Cost, KeyPart, LIMITS_CONFIGURED_MAX, LimitPlan, RatePlan, Stage,
};

pub(super) use self::headroom::{counted, follows};
use super::keys::rates::{LIMIT, LIMIT_COST, TOKENS_MAX};
use super::name::Names;
use super::problem::Problems;
use super::section::{Section, closest};
use super::tree::Value;

/// What limits refer to.
pub(crate) struct Around<'a> {
    pub(crate) apps: &'a [AppPlan],
    /// Whether there are sessions.
    pub(crate) sessions: bool,
    /// Whether there are peers that are trusted.
    pub(crate) proxies: bool,
    /// Whether this gateway is a node of a fleet.
    pub(crate) in_fleet: bool,
    /// Whether gateways share a store of limits.
    pub(crate) shares_limits: bool,
    /// How many of them there should be.
    pub(crate) nodes: u32,
}

/// What keys of limits refer to.
struct Named {
    networks: bool,
    tokens: bool,
}

/// The limits at `[[limit]]`.
pub(crate) fn rates(root: &Section<'_>, around: &Around<'_>, problems: &Problems) -> RatePlan {
    let networks = who::networks(root, problems);
    let tokens = who::tokens(root, problems);
    let named = Named {
        networks: !networks.is_empty(),
        // What is wrong with them is said there.
        tokens: root.has("tokens"),
    };
    let nodes = root.sections("limit", "[[limit]]");
    let mut names = Names::reserving("", "limit");
    let mut limits = Vec::new();
    let mut instead = Vec::new();
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
        let section = Section::new("[[limit]]", node, LIMIT, &["override"], problems);
        let name = section.text("name");
        names.take(&section, name);
        let limit = limit(&section, name, around, &named, problems);
        let overrides = overrides::Overrides {
            section: &section,
            of: limits.len(),
            limit: &limit,
            around,
            networks: &networks,
        };
        instead.extend(overrides.read(&mut names, problems));
        limits.push(limit);
    }
    limits.extend(instead);
    overrides::refuse_too_many(root, limits.len());
    refuse_too_many(root, &limits, around.apps);
    who::refuse_unused(root, &limits);
    RatePlan {
        limits,
        keys_max: root.count("limit_keys_max") as usize,
        nodes: around.nodes,
        networks,
        tokens,
    }
}

fn limit(
    section: &Section<'_>,
    name: &str,
    around: &Around<'_>,
    named: &Named,
    problems: &Problems,
) -> LimitPlan {
    let algorithm = algorithm(section);
    let rate = rate(section);
    let spec = rate.and_then(|rate| spec(section, algorithm, rate));
    let cost = cost(section, problems, around);
    if let Some(spec) = spec {
        refuse_too_dear(section, &spec, &cost);
    }
    let key = key::key(section, problems, around, named);
    let apps = apps(section, around.apps);
    let follows = headroom::headroom(section, algorithm, spec, problems, around);
    let counted = counted(section, spec, follows.as_ref());
    let fleet = fleet::fleet(section, rate, counted, around);
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
        follows,
        fleet,
        instead: None,
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
        Ok(spec) => return in_range(section, spec, burst),
        Err(error) => bounded(error),
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

/// The same, if its burst is one that could have been written down.
fn in_range(section: &Section<'_>, spec: Spec, burst: Option<u64>) -> Option<Spec> {
    let Spec::Bucket(bucket) = spec else {
        return Some(spec);
    };
    if burst.is_none() && bucket.burst() > u64::from(TOKENS_MAX) {
        section.refuse(
            "rate",
            format!(
                "with this rate alone the burst would be {}, which is out of range",
                bucket.burst()
            ),
            format!(
                "write burst = {TOKENS_MAX} or less beside it, or a rate over a shorter period"
            ),
        );
        return None;
    }
    Some(spec)
}

/// The same, with no burst in its advice that could not be written down.
fn bounded(error: SpecError) -> SpecError {
    match error {
        SpecError::TooFine {
            tokens,
            period_us,
            burst,
            burst_max,
        } => SpecError::TooFine {
            tokens,
            period_us,
            burst,
            burst_max: burst_max.min(u64::from(TOKENS_MAX)),
        },
        error => error,
    }
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
            let cost = cost_by_header(section, &table, around);
            cost.unwrap_or(Cost::Fixed(1))
        }
        _ => {
            section.refuse(
                "cost",
                format!("`cost` is {}, but takes a number or a header", node.kind()),
                "write cost = 5, cost = { header = \"X-Cost\" } or cost = { response_header = \"X-Cost\" }",
            );
            Cost::Fixed(1)
        }
    }
}

/// What a header says, of the request or of its answer.
fn cost_by_header(section: &Section<'_>, table: &Section<'_>, around: &Around<'_>) -> Option<Cost> {
    let by_answer = table.has("response_header");
    if by_answer == table.has("header") {
        section.refuse(
            "cost",
            "`cost` is said by one header, of the request or of its answer",
            "write one of header and response_header, as in cost = { response_header = \"X-Cost\", reserve = 5 }",
        );
        return None;
    }
    let (unused, fix) = match by_answer {
        true => (
            "otherwise",
            "write reserve, which is taken until the answer says more",
        ),
        false => (
            "reserve",
            "write otherwise, which is what a request costs that says nothing",
        ),
    };
    if table.has(unused) {
        table.refuse(unused, format!("`{unused}` has no effect here"), fix);
    }
    let tokens = |key| table.count_if_set(key).map_or(1, u64::from);
    if by_answer {
        let name = header(table, "response_header")?;
        let reserve = tokens("reserve");
        return Some(Cost::Response { name, reserve });
    }
    refuse_unheard(section, "cost", around);
    let name = header(table, "header")?;
    let otherwise = tokens("otherwise");
    Some(Cost::Header { name, otherwise })
}

/// A cost that is above what there ever is would refuse every request.
fn refuse_too_dear(section: &Section<'_>, spec: &Spec, cost: &Cost) {
    let usual = cost.usual();
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

/// The name of a header at `key`.
fn header(table: &Section<'_>, key: &'static str) -> Option<HeaderName> {
    let text = table.text(key);
    if !table.sound(&[key]) {
        return None;
    }
    let name = text.parse::<HeaderName>().ok();
    if name.is_none() {
        table.refuse(
            key,
            format!("`{text}` is no header name"),
            "write letters, digits and '-', such as \"X-Tenant\"",
        );
    }
    if name.as_ref().is_some_and(is_about_connection) {
        table.refuse(
            key,
            format!("`{text}` is about one connection, and never read here"),
            "name a header that goes from end to end, such as \"X-Tenant\"",
        );
        return None;
    }
    name
}

/// Whether a header of this name ends with the connection that it came on (RFC 9110, section 7.6.1).
fn is_about_connection(name: &HeaderName) -> bool {
    const NAMES: [&str; 7] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    NAMES.contains(&name.as_str())
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
                .filter(|limit| limit.instead.is_none() && limit.applies_to(app, route))
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
