//! By what a limit counts: `key` of `[[limit]]`.

use http::HeaderName;
use tidegate_gateway::rate::{KEY_PARTS_MAX, KeyPart};

use super::super::keys::rates::{LIMIT_KEY, LIMIT_KEY_CLIENT};
use super::super::problem::Problems;
use super::super::section::{Section, closest};
use super::super::tree::{Node, Value};
use super::{Around, Named, header, refuse_unheard};

/// The longest constant part of a key, in bytes.
const CONSTANT_LEN_MAX: usize = 256;

/// The parts of the key.
pub(super) fn key(
    section: &Section<'_>,
    problems: &Problems,
    around: &Around<'_>,
    named: &Named,
) -> Vec<KeyPart> {
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
                "network" => Some(KeyPart::Network),
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
        refuse_unfounded(section, item, &part, around, named);
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

/// What a part needs that there is not.
fn refuse_unfounded(
    section: &Section<'_>,
    item: &Node,
    part: &KeyPart,
    around: &Around<'_>,
    named: &Named,
) {
    let (needs, fix) = match part {
        KeyPart::Session if !around.sessions => (
            "the part \"session\" needs sessions, and there are none",
            "add a section [sessions], or count by another part",
        ),
        KeyPart::Network if !named.networks => (
            "the part \"network\" needs networks with names, and there are none",
            "add a section [[network]] with name and addresses, or count by \"client\"",
        ),
        KeyPart::Claim(_) if !named.tokens => (
            "a claim needs tokens that can be verified, and nothing says by which keys",
            "add a section [tokens] with a key_file, or count by another part",
        ),
        _ => return,
    };
    section.refuse_item("key", &item.origin, needs, fix);
}

fn unknown_part(section: &Section<'_>, item: &Node, found: &str) {
    let names = [
        "client", "network", "session", "route", "header", "api_key", "claim", "constant",
    ];
    let fix = match closest(found, names.into_iter()) {
        Some("header") => "write { header = \"X-Tenant\" }, say".to_owned(),
        Some("api_key") => "write { api_key = \"X-Api-Key\" }, say".to_owned(),
        Some("claim") => "write { claim = \"sub\" }, say".to_owned(),
        Some("constant") => "write { constant = \"all\" }, say".to_owned(),
        Some(name) => format!("did you mean \"{name}\"?"),
        None => "write \"client\", \"network\", \"session\", \"route\", { client = { v4 = 24, v6 = 48 } }, \
                 { header = \"X-Tenant\" }, { api_key = \"X-Api-Key\" }, { claim = \"sub\" } or \
                 { constant = \"all\" }"
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
            "write one of client, header, api_key, claim and constant in each pair of braces",
        );
        return None;
    }
    match set[0].name {
        "header" => {
            refuse_unheard(section, "key", around);
            Some(KeyPart::Header(header_or_stand_in(&table, "header")))
        }
        "api_key" => Some(KeyPart::ApiKey(header_or_stand_in(&table, "api_key"))),
        "claim" => {
            let name = table.text("claim");
            if name.is_empty() || name.len() > CONSTANT_LEN_MAX {
                table.refuse(
                    "claim",
                    format!("a claim's name of {} bytes", name.len()),
                    format!("write 1 to {CONSTANT_LEN_MAX}, such as claim = \"sub\""),
                );
            }
            Some(KeyPart::Claim(name.to_owned()))
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

/// The name of a header; one that will not do is a part of the key all the same, and nothing else follows from it.
fn header_or_stand_in(table: &Section<'_>, key: &'static str) -> HeaderName {
    header(table, key).unwrap_or(HeaderName::from_static("x-stand-in"))
}
