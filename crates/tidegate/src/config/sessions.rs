//! What is kept of visitors: `[sessions]`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::facts::Class;
use tidegate_core::session::{Ceilings, Lifetimes, MergePolicy, Name, ResumePolicy, WriteClass};
use tidegate_gateway::session::{
    Affinity, CookiePlan, Exposed, Keys, Need, OnUnstored, RouteSession, SessionPlan, Transport,
};
use tidegate_store::desk::{AttributePlan, Attributes, Backend, DeskPlan, Resume, SessionLives};
use tidegate_store::redis::{Arrangement, Use};

use super::durability;
use super::keys::CLASSES;
use super::keys::sessions::{ATTRIBUTE, DURABILITY, SESSIONS};
use super::problem::Problems;
use super::section::{Section, closest};
use super::store::Store;
use super::tree::Value;

/// Rows of attributes; a session holds fewer.
const ATTRIBUTES_MAX: usize = 1024;
/// Ranks of users: more than anybody keeps apart.
const TIERS_MAX: usize = 64;
/// The longest name of a cookie.
const COOKIE_LEN_MAX: usize = 64;

/// Sessions as they are configured. Keys and passwords are in their files until they are needed.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    /// For the desk. Without passwords.
    pub(crate) desk: DeskPlan,
    /// For the gateway. With keys of its own in place of those of `key_file`.
    pub(crate) gateway: SessionPlan,
    /// The fleet's keys.
    pub(crate) key_file: KeyFile,
    /// What is read for a route that does not say: the attributes with `expose = true`.
    pub(crate) exposed: Vec<Name>,
}

/// Where the keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyFile {
    /// In this file, which must be there.
    Shared(PathBuf),
    /// In this file, which is made when it is missing: nobody else needs it.
    Own(PathBuf),
}

impl Sessions {
    /// What holds for a route that says nothing.
    pub(crate) fn usual_of_a_route(&self) -> RouteSession {
        RouteSession {
            need: Need::Optional,
            exposed: Exposed::new(&self.exposed).unwrap_or_default(),
        }
    }
}

/// The section `[sessions]` of `root`, if there is one.
pub(crate) fn sessions(root: &Section<'_>, store: &Store, problems: &Problems) -> Option<Sessions> {
    let node = root.node("sessions")?;
    let names = ["attribute", "durability"];
    let section = Section::new("[sessions]", node, SESSIONS, &names, problems);
    let (attributes, exposed) = attributes(&section, problems);
    let durability = match section.node("durability") {
        Some(node) => Section::new("[sessions.durability]", node, DURABILITY, &[], problems),
        None => Section::absent("[sessions.durability]", DURABILITY, problems),
    };
    let ceilings = ceilings(&section);
    let servers = store.servers(Use::Sessions);
    let usual = DeskPlan::default();
    let one_server = servers
        .is_some_and(|servers| matches!(servers.plan.arrangement, Arrangement::Standalone(_)));
    let desk = DeskPlan {
        backend: servers.map_or_else(
            || Backend::Embedded(Some(store.path.clone())),
            |servers| Backend::Redis(servers.plan.clone()),
        ),
        lives: lives(&section),
        ceilings,
        blob_bytes_max: blob_max(&section, ceilings),
        attributes,
        durability: durability::durabilities(&durability, one_server),
        l1_bytes: section.bytes("l1"),
        trust: section.span("trust"),
        resume: Resume {
            window: section.span("resume"),
            sessions_max: section.count("sessions_per_user_max"),
        },
        operation: servers.map_or(usual.operation, |servers| servers.plan.operation_timeout),
        ..usual
    };
    Some(Sessions {
        desk,
        gateway: gateway(&section),
        key_file: key_file(&section, store),
        exposed,
    })
}

/// The cookies that the gateway sets: their names, and what they are. No two may have one name, as a
/// browser keeps one cookie of a name.
pub(super) fn own_cookies(plan: &SessionPlan) -> Vec<(&str, &'static str)> {
    let affinity = plan.affinity.as_ref().map(|_| Affinity::COOKIE);
    let mut own = vec![
        (plan.cookies.session(), "the session's cookie"),
        (plan.cookies.ticket(), "the ticket's cookie"),
    ];
    own.extend(affinity.map(|name| (name, "the cookie of `affinity`")));
    own
}

fn refuse_same_cookies(section: &Section<'_>, plan: &SessionPlan) {
    if !section.sound(&["cookie", "affinity", "insecure"]) {
        return;
    }
    let own = own_cookies(plan);
    for (place, (name, what)) in own.iter().enumerate() {
        if let Some((_, other)) = own[place + 1..].iter().find(|(other, _)| other == name) {
            section.refuse(
                "cookie",
                format!(
                    "`cookie = \"{}\"`: {what} and {other} would both be called {name}",
                    section.text("cookie")
                ),
                "write another name, such as \"__Host-tg\"",
            );
        }
    }
}

fn gateway(section: &Section<'_>) -> SessionPlan {
    let plan = SessionPlan {
        cookies: cookies(section),
        keys: Keys::draw(),
        tickets: section.switch("ticket"),
        affinity: affinity(section),
        tiers: tiers(section),
        rotate_every: section.span_if_set("rotate_every"),
        on_unstored: match section.choice("on_conflict") {
            Some("fail") => OnUnstored::Fail,
            _ => OnUnstored::Drop,
        },
    };
    refuse_same_cookies(section, &plan);
    plan
}

fn cookies(section: &Section<'_>) -> CookiePlan {
    let name = section.text("cookie");
    let token = |c: char| c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?={}".contains(c);
    let fits = (1..=COOKIE_LEN_MAX).contains(&name.len()) && name.chars().all(token);
    if (!fits || name == "__Host-") && section.sound(&["cookie"]) {
        section.refuse(
            "cookie",
            format!("`cookie = \"{name}\"` is no name of a cookie"),
            "write a name such as \"__Host-tg\"",
        );
    }
    if name.starts_with("__Secure-") && section.sound(&["cookie"]) {
        section.refuse(
            "cookie",
            format!("`cookie = \"{name}\"` asks for a weaker prefix than the cookie has"),
            format!("write \"__Host-{}\"", name.trim_start_matches("__Secure-")),
        );
    }
    let transport = if section.switch("insecure") {
        Transport::Insecure
    } else {
        Transport::Tls
    };
    CookiePlan::new(name, transport, section.switch("persistent"))
}

fn affinity(section: &Section<'_>) -> Option<Affinity> {
    let text = section.text_if_set("affinity")?;
    match Affinity::new(text) {
        Ok(affinity) => Some(affinity),
        Err(why) => {
            if section.sound(&["affinity"]) {
                section.refuse(
                    "affinity",
                    format!("`affinity = \"{text}\"` will not do: {why}"),
                    "write what the balancer in front calls this node, such as \"gw1\"",
                );
            }
            None
        }
    }
}

fn tiers(section: &Section<'_>) -> Vec<(Name, Class)> {
    let mut tiers = Vec::new();
    let table = section.table("tiers");
    if table.len() > TIERS_MAX {
        section.refuse(
            "tiers",
            format!("{} tiers", table.len()),
            format!("write at most {TIERS_MAX}; a tier that is not named is signed-in"),
        );
        return tiers;
    }
    for entry in table {
        let class = match &entry.node.value {
            Value::Text(class) => class.as_str(),
            _ => "",
        };
        match (Name::new(&entry.key), Class::from_name(class)) {
            (Ok(tier), Some(class)) if entry.key.len() <= 32 => tiers.push((tier, class)),
            (Ok(_), None) => {
                let near = closest(class, CLASSES.iter().copied());
                section.refuse_item(
                    "tiers",
                    &entry.node.origin,
                    format!("tier \"{}\" has no class", entry.key),
                    near.map_or_else(
                        || format!("write one of \"{}\"", CLASSES.join("\", \"")),
                        |near| format!("did you mean \"{near}\"?"),
                    ),
                );
            }
            _ => section.refuse_item(
                "tiers",
                &entry.key_origin,
                format!("`{}` is no name of a tier", entry.key),
                "write 1 to 32 letters, digits, '-', '_', '.' and '/', such as gold",
            ),
        }
    }
    tiers
}

fn lives(section: &Section<'_>) -> SessionLives {
    let idle = section.span("idle");
    let life = |key| {
        let absolute: Duration = section.span(key);
        if absolute < idle && section.sound(&[key, "idle"]) {
            let set = if section.has(key) { key } else { "idle" };
            section.refuse(
                set,
                format!(
                    "`{key}` is {}, which is less than `idle`, {}",
                    humantime::format_duration(absolute),
                    humantime::format_duration(idle)
                ),
                format!("no session would live long enough to be idle: lower idle, or raise {key}"),
            );
        }
        Lifetimes { idle, absolute }
    };
    SessionLives {
        anonymous: life("absolute_anonymous"),
        signed_in: life("absolute"),
    }
}

fn ceilings(section: &Section<'_>) -> Ceilings {
    let bytes = |key| u32::try_from(section.bytes(key)).unwrap_or(u32::MAX);
    let ceilings = Ceilings {
        value: bytes("value_max"),
        session: bytes("session_max"),
        count: section.count("attributes_max"),
    };
    if ceilings.session < ceilings.value && section.sound(&["value_max", "session_max"]) {
        section.refuse(
            "session_max",
            "`session_max` is less than `value_max`, which is for one value",
            "let all values together have at least the room of one",
        );
    }
    ceilings
}

fn blob_max(section: &Section<'_>, ceilings: Ceilings) -> u32 {
    let bytes = u32::try_from(section.bytes("blob_max")).unwrap_or(u32::MAX);
    if bytes != 0 && bytes <= ceilings.value && section.sound(&["blob_max", "value_max"]) {
        section.refuse(
            "blob_max",
            "`blob_max` has no effect: values up to `value_max` are in the session itself",
            "write more than value_max, or \"0B\" to refuse what is over value_max",
        );
    }
    bytes
}

fn key_file(section: &Section<'_>, store: &Store) -> KeyFile {
    let text = section.text_if_set("key_file");
    if text.is_some_and(|text| text.is_empty() || text.ends_with('/'))
        && section.sound(&["key_file"])
    {
        section.refuse(
            "key_file",
            format!(
                "`key_file = \"{}\"` names no file",
                text.unwrap_or_default()
            ),
            "write a path such as \"/etc/tidegate/session.key\"",
        );
    }
    if text.is_none() && store.servers(Use::Sessions).is_some() {
        section.refuse(
            "key_file",
            "sessions that a fleet shares need `key_file`",
            "every gateway must have the same keys: write them once with `tidegate session key > \
             /etc/tidegate/session.key`, copy the file, and set key_file",
        );
    }
    match text {
        Some(text) => KeyFile::Shared(PathBuf::from(text)),
        None => KeyFile::Own(store.path.join("session.key")),
    }
}

/// What is configured of attributes, and those that applications are told.
fn attributes(section: &Section<'_>, problems: &Problems) -> (Attributes, Vec<Name>) {
    let usual = DeskPlan::default().attributes;
    let mut rows: BTreeMap<Name, AttributePlan> = usual
        .rows()
        .map(|(name, row)| {
            (
                name.clone(),
                AttributePlan {
                    carry: false,
                    ..*row
                },
            )
        })
        .collect();
    for name in carried(section) {
        rows.entry(name).or_default().carry = true;
    }
    let mut exposed = Vec::new();
    let mut named: Vec<&str> = Vec::new();
    let nodes = section.sections("attribute", "[[sessions.attribute]]");
    if nodes.len() > ATTRIBUTES_MAX {
        section.refuse(
            "attribute",
            format!("{} attributes", nodes.len()),
            format!("write at most {ATTRIBUTES_MAX}; those that need no row have none"),
        );
        return (Attributes::default(), exposed);
    }
    for node in nodes {
        let row = Section::new("[[sessions.attribute]]", node, ATTRIBUTE, &[], problems);
        let text = row.text("name");
        let Some(name) = attribute_name(&row, text, &mut named) else {
            continue;
        };
        let plan = rows.entry(name.clone()).or_default();
        read_attribute(&row, plan);
        if row.switch("expose") {
            exposed.push(name);
            refuse_unsayable(&row, &mut exposed);
        }
    }
    (Attributes::new(rows, AttributePlan::default()), exposed)
}

fn attribute_name<'t>(row: &Section<'t>, text: &'t str, named: &mut Vec<&'t str>) -> Option<Name> {
    if !row.sound(&["name"]) {
        return None;
    }
    let Ok(name) = Name::new(text) else {
        row.refuse(
            "name",
            format!("`name = \"{text}\"` is no name of an attribute"),
            "write 1 to 64 letters, digits, '-', '_', '.' and '/', such as \"cart\"",
        );
        return None;
    };
    if named.contains(&text) {
        row.refuse(
            "name",
            format!("attribute \"{text}\" has a second row"),
            "put into one what holds for it",
        );
        return None;
    }
    named.push(text);
    Some(name)
}

fn read_attribute(row: &Section<'_>, plan: &mut AttributePlan) {
    plan.class = match row.choice("class") {
        Some("disposable") => WriteClass::Disposable,
        _ => WriteClass::Work,
    };
    match row.choice("merge") {
        Some("newest") => plan.merge = MergePolicy::Newest,
        Some("union") => plan.merge = MergePolicy::Union,
        Some("store-wins") => plan.merge = MergePolicy::StoreWins,
        _ => {}
    }
    match row.choice("resume") {
        Some("no") => plan.resume = None,
        Some("newest") => plan.resume = Some(ResumePolicy::Newest),
        Some("union") => plan.resume = Some(ResumePolicy::Union),
        Some("keep-session") => plan.resume = Some(ResumePolicy::KeepSession),
        _ => {}
    }
    if let Some(ticket) = row.switch_if_set("ticket") {
        plan.ticket = ticket;
    }
}

/// Takes the last of `exposed` out again and notes it when it cannot be told in a header beside the
/// others: rows after it are to hear of their own faults.
fn refuse_unsayable(row: &Section<'_>, exposed: &mut Vec<Name>) {
    let Err(why) = Exposed::new(exposed) else {
        return;
    };
    exposed.pop();
    if row.sound(&["expose"]) {
        row.refuse(
            "expose",
            format!("the attribute cannot be told in a header: {why}"),
            "give it another name, or read it through the sidecar",
        );
    }
}

fn carried(section: &Section<'_>) -> Vec<Name> {
    if section.has("carry") {
        return names(section, "carry");
    }
    let usual = section.default_texts("carry");
    usual
        .iter()
        .filter_map(|text| Name::new(text).ok())
        .collect()
}

/// What the route that `section` describes has to do with sessions.
pub(crate) fn of_route(section: &Section<'_>, sessions: Option<&Sessions>) -> RouteSession {
    let need = match section.choice("session") {
        Some("none") => Need::None,
        Some("required") => Need::Required,
        _ => Need::Optional,
    };
    let Some(sessions) = sessions else {
        for key in ["session", "session_fields"] {
            if section.has(key) && section.sound(&[key]) {
                section.refuse(
                    key,
                    format!("`{key}` has no effect: there are no sessions"),
                    format!("add a section [sessions], or remove {key}"),
                );
            }
        }
        return RouteSession::default();
    };
    if need == Need::None && section.has("session_fields") && section.sound(&["session"]) {
        section.refuse(
            "session_fields",
            "`session_fields` has no effect: the route's session is \"none\"",
            "remove one of them",
        );
    }
    if !section.has("session_fields") {
        return RouteSession {
            need,
            ..sessions.usual_of_a_route()
        };
    }
    let names = names(section, "session_fields");
    let exposed = Exposed::new(&names).unwrap_or_else(|why| {
        section.refuse(
            "session_fields",
            format!("the attributes cannot be told in headers: {why}"),
            "give the attribute another name, or read it through the sidecar",
        );
        Exposed::default()
    });
    RouteSession { need, exposed }
}

/// The list of attributes at `key`.
fn names(section: &Section<'_>, key: &'static str) -> Vec<Name> {
    let mut names = Vec::new();
    for (text, place) in section.texts(key) {
        match Name::new(text) {
            Ok(name) => names.push(name),
            Err(_) => section.refuse_item(
                key,
                place,
                format!("`{text}` is no name of an attribute"),
                "write 1 to 64 letters, digits, '-', '_', '.' and '/', such as \"cart\"",
            ),
        }
    }
    names
}

#[cfg(test)]
mod tests;
