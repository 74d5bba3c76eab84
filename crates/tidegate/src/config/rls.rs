//! Where Envoy asks for its limits: `[rls]` and `[[rls.limit]]`.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_core::rate::set::Standing;
use tidegate_rls::{
    Allowance, ENTRIES_MAX, ENTRY_BYTES_MAX, Entry, Fit, Headers, OnStoreLoss, RLS_LIMITS_MAX,
    RlsLimit, RlsPlan, Scope, Wanted,
};
use tidegate_store::redis::Use;

use super::keys::rls::{RLS, RLS_ENTRY, RLS_LIMIT};
use super::local::public;
use super::name::Names;
use super::problem::Problems;
use super::rates::{algorithm, rate, spec};
use super::section::{Section, closest};
use super::store::Store;
use super::tree::{Node, Value};

/// How a good address looks.
const LISTEN: &str =
    "write \"127.0.0.1:8081\", say, or another address that only your proxies reach";
/// The longest name of a domain, in bytes.
const DOMAIN_BYTES_MAX: usize = 128;

/// What limits refer to.
struct Around<'a> {
    domains: &'a [String],
    /// Whether there are servers that a fleet shares.
    fleet: bool,
    problems: &'a Problems,
}

/// The section `[rls]` of `root`, if there is one. `own` are the addresses that are taken.
pub(crate) fn rls(
    root: &Section<'_>,
    own: &[SocketAddr],
    store: &Store,
    problems: &Problems,
) -> Option<RlsPlan> {
    let node = root.node("rls")?;
    let section = Section::new("[rls]", node, RLS, &["limit"], problems);
    let domains = domains(&section);
    let servers = store.servers(Use::Limits);
    let timeout = section.span("timeout");
    let around = Around {
        domains: &domains,
        fleet: servers.is_some(),
        problems,
    };
    let limits = limits(&section, &around);
    Some(RlsPlan {
        listen: public(&section, "listen", LISTEN, own),
        limits,
        headers: match section.choice("headers") {
            Some("always") => Headers::Always,
            Some("never") => Headers::Never,
            _ => Headers::Refusals,
        },
        connections_max: section.count("connections_max") as usize,
        streams_max: section.count("streams_max"),
        calls_max: section.count("calls_max") as usize,
        timeout,
        store_timeout: servers.map_or(timeout, |servers| servers.plan.operation_timeout),
        keys_max: section.count("limit_keys_max").into(),
        domains,
    })
}

fn domains(section: &Section<'_>) -> Vec<String> {
    let texts = section.texts("domains");
    if texts.is_empty() && section.sound(&["domains"]) {
        section.refuse(
            "domains",
            "[rls] needs `domains`: the names that your proxies send",
            "write domains = [\"edge\"], say, as in rate_limit_filter's `domain`",
        );
    }
    let mut domains = Vec::new();
    for (text, place) in texts {
        let plain = !text.chars().any(char::is_control);
        if text.is_empty() || text.len() > DOMAIN_BYTES_MAX || !plain {
            section.refuse_item(
                "domains",
                place,
                format!("`{text}` is no name of a domain"),
                format!("write 1 to {DOMAIN_BYTES_MAX} bytes without control characters"),
            );
        }
        domains.push(text.to_owned());
    }
    domains
}

fn limits(rls: &Section<'_>, around: &Around<'_>) -> Vec<RlsLimit> {
    let nodes = rls.sections("limit", "[[rls.limit]]");
    if nodes.len() > RLS_LIMITS_MAX {
        rls.refuse(
            "limit",
            format!("{} limits", nodes.len()),
            format!(
                "write at most {RLS_LIMITS_MAX}; an entry without a value counts each value apart"
            ),
        );
        return Vec::new();
    }
    let mut names = Names::reserving("", "limit of [rls]");
    let mut limits: Vec<RlsLimit> = Vec::new();
    let mut sections = Vec::new();
    for node in nodes {
        let section = Section::new("[[rls.limit]]", node, RLS_LIMIT, &[], around.problems);
        let name = section.text("name");
        names.take(&section, name);
        let limit = limit(&section, name, around);
        let same = limits.iter().find(|other| {
            limit.fit == Fit::Whole
                && other.fit == Fit::Whole
                && other.domain == limit.domain
                && alike(&other.descriptor, &limit.descriptor)
        });
        if let Some(same) = same
            && section.sound(&["descriptor", "domain", "match"])
        {
            section.refuse(
                "descriptor",
                format!("the limit \"{}\" has the same descriptor", same.name),
                "of limits for the whole of a descriptor one is met: remove one of them, or write \
                 match = \"part\" in one, for both to hold",
            );
        }
        limits.push(limit);
        sections.push(section);
    }
    let names: Vec<String> = limits.iter().map(|limit| limit.name.clone()).collect();
    for (limit, section) in limits.iter_mut().zip(&sections) {
        limit.replaces = replaces(section, &limit.name, &names);
    }
    limits
}

/// Whether two descriptors are met by the same ones.
fn alike(one: &[Entry], other: &[Entry]) -> bool {
    let same = |(one, other): (&Entry, &Entry)| one.key == other.key && one.value == other.value;
    one.len() == other.len() && one.iter().zip(other).all(same)
}

fn limit(section: &Section<'_>, name: &str, around: &Around<'_>) -> RlsLimit {
    let cost = u64::from(section.count("cost"));
    let scope = scope(section, around.fleet);
    if scope == Scope::Node && section.has("on_store_loss") && section.sound(&["on_store_loss"]) {
        section.refuse(
            "on_store_loss",
            "`on_store_loss` has no effect: this limit is kept in this process",
            "remove it, or name a server in [store] and write scope = \"fleet\"",
        );
    }
    RlsLimit {
        name: name.to_owned(),
        domain: domain(section, around.domains),
        descriptor: descriptor(section, around.problems),
        fit: match section.choice("match") {
            Some("part") => Fit::Part,
            _ => Fit::Whole,
        },
        allowance: allowance(section, cost),
        cost,
        standing: match section.switch("shadow") {
            true => Standing::Shadow,
            false => Standing::Enforced,
        },
        scope,
        on_store_loss: match section.choice("on_store_loss") {
            Some("open") => OnStoreLoss::Open,
            Some("closed") => OnStoreLoss::Closed,
            _ => OnStoreLoss::Local,
        },
        replaces: Vec::new(),
    }
}

/// The place of the limit's domain.
fn domain(section: &Section<'_>, domains: &[String]) -> usize {
    let Some(text) = section.text_if_set("domain") else {
        if domains.len() > 1 {
            section.refuse(
                "domain",
                "[[rls.limit]] needs `domain`: there are several",
                format!("write domain = \"{}\", say", domains[0]),
            );
        }
        return 0;
    };
    let found = domains.iter().position(|domain| domain == text);
    if found.is_none() && section.sound(&["domain"]) {
        let fix = match closest(text, domains.iter().map(String::as_str)) {
            Some(name) => format!("did you mean \"{name}\"?"),
            None => "add it to rls.domains".to_owned(),
        };
        section.refuse(
            "domain",
            format!("rls.domains has no domain \"{text}\""),
            fix,
        );
    }
    found.unwrap_or(0)
}

fn allowance(section: &Section<'_>, cost: u64) -> Allowance {
    let unlimited = section.switch("unlimited");
    if unlimited {
        for key in [
            "rate",
            "burst",
            "algorithm",
            "cost",
            "scope",
            "on_store_loss",
        ] {
            if section.has(key) && section.sound(&[key]) {
                section.refuse(
                    key,
                    format!("`{key}` has no effect: nothing is counted where `unlimited` is true"),
                    format!("remove {key}, or unlimited"),
                );
            }
        }
        return Allowance::Unlimited;
    }
    if !section.has("rate") {
        section.refuse(
            "rate",
            "[[rls.limit]] needs one of `rate` and `unlimited`",
            "write rate = \"100/s\", say, or unlimited = true for what is under no limit",
        );
        return Allowance::Unlimited;
    }
    let algorithm = algorithm(section);
    let Some(rate) = rate(section) else {
        return Allowance::Unlimited;
    };
    let Some(spec) = spec(section, algorithm, rate) else {
        return Allowance::Unlimited;
    };
    if let Err(error) = spec.fits(cost)
        && section.sound(&["cost"])
    {
        section.refuse(
            "cost",
            error.to_string(),
            "write a lower cost, or a higher burst or rate",
        );
    }
    Allowance::Limited {
        rate,
        algorithm,
        spec: Arc::new(spec),
    }
}

fn scope(section: &Section<'_>, fleet: bool) -> Scope {
    match section.choice("scope") {
        Some("node") => Scope::Node,
        Some("fleet") => {
            if !fleet && section.sound(&["scope"]) {
                section.refuse(
                    "scope",
                    "there is no store that a fleet shares: each process would let the whole rate pass, so \
                     that N of them let N times as much pass",
                    "name a server in [store], as in url = \"redis://10.0.0.5\", or write scope = \"node\" and \
                     the rate divided by the number of processes",
                );
            }
            Scope::Fleet
        }
        _ if fleet => Scope::Fleet,
        _ => Scope::Node,
    }
}

fn descriptor(section: &Section<'_>, problems: &Problems) -> Vec<Entry> {
    let Some(node) = section.node("descriptor") else {
        section.refuse(
            "descriptor",
            "[[rls.limit]] needs `descriptor`: which descriptors meet it",
            "write descriptor = [{ key = \"remote_address\" }], say",
        );
        return Vec::new();
    };
    let Value::List(items) = &node.value else {
        section.refuse(
            "descriptor",
            format!("`descriptor` is {}, but takes a list", node.kind()),
            "write descriptor = [{ key = \"remote_address\" }], say",
        );
        return Vec::new();
    };
    let is_whole = section.choice("match") != Some("part");
    if (items.is_empty() && is_whole) || items.len() > ENTRIES_MAX {
        section.refuse(
            "descriptor",
            format!("`descriptor` has {} entries", items.len()),
            format!("write 1 to {ENTRIES_MAX}; with match = \"part\" none is every descriptor"),
        );
        return Vec::new();
    }
    items.iter().map(|item| entry(item, problems)).collect()
}

fn entry(item: &Node, problems: &Problems) -> Entry {
    let table = Section::new(
        "descriptor of [[rls.limit]]",
        item,
        RLS_ENTRY,
        &[],
        problems,
    );
    let key = text(&table, "key").unwrap_or_default();
    if key.is_empty() && table.sound(&["key"]) {
        table.refuse("key", "an entry needs `key`", "write key = \"path\", say");
    }
    let found: Vec<Wanted> = [
        text(&table, "value").map(Wanted::Is),
        text(&table, "prefix").map(Wanted::Begins),
        text(&table, "not").map(Wanted::Not),
    ]
    .into_iter()
    .flatten()
    .collect();
    if found.len() > 1 {
        problems.add(
            &item.origin,
            "an entry has one of `value`, `prefix` and `not`",
            "remove the others; without any of them every value is meant",
        );
    }
    let value = found.into_iter().next().unwrap_or(Wanted::Any);
    let together = table.switch("together");
    if together && matches!(value, Wanted::Is(_) | Wanted::Not(_)) && table.sound(&["together"]) {
        table.refuse(
            "together",
            "`together` has no effect: what one value or all others are counts together anyway",
            "remove it",
        );
    }
    Entry {
        key,
        value,
        together,
    }
}

/// The text at `key`, if it is set; it may be empty.
fn text(table: &Section<'_>, key: &'static str) -> Option<String> {
    let text = table.text_if_set(key)?;
    if text.len() > ENTRY_BYTES_MAX {
        table.refuse(
            key,
            format!("`{key}` has {} bytes", text.len()),
            format!("write at most {ENTRY_BYTES_MAX}"),
        );
    }
    Some(text.to_owned())
}

/// The places of the limits that this one stands in for.
fn replaces(section: &Section<'_>, own: &str, names: &[String]) -> Vec<usize> {
    let mut places = Vec::new();
    for (text, place) in section.texts("replaces") {
        let found = names.iter().position(|name| name == text);
        match found {
            Some(_) if text == own => section.refuse_item(
                "replaces",
                place,
                "a limit cannot replace itself",
                "name another one",
            ),
            Some(found) => places.push(found),
            None => {
                let fix = match closest(text, names.iter().map(String::as_str)) {
                    Some(name) => format!("did you mean \"{name}\"?"),
                    None => "write the name of another [[rls.limit]]".to_owned(),
                };
                section.refuse_item(
                    "replaces",
                    place,
                    format!("there is no limit of [rls] called \"{text}\""),
                    fix,
                );
            }
        }
    }
    places
}

#[cfg(test)]
mod tests;
