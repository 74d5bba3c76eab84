//! Who is told of what happens in a room: `[[room.webhook]]`.

use std::path::Path;

use http::Uri;
use tidegate_gateway::room::WebhookPlan;

use super::super::keys::room::ROOM_WEBHOOK;
use super::super::problem::Problems;
use super::super::section::Section;
use super::needed_path;

/// Each has a queue of its own.
const WEBHOOKS_MAX: usize = 8;

/// The webhooks of the room.
pub(super) fn webhooks(room: &Section<'_>, folder: &Path, problems: &Problems) -> Vec<WebhookPlan> {
    let nodes = room.sections("webhook", "[[room.webhook]]");
    if nodes.len() > WEBHOOKS_MAX {
        room.refuse(
            "webhook",
            format!("{} webhooks of one room", nodes.len()),
            format!("write at most {WEBHOOKS_MAX}; a receiver can tell others"),
        );
        return Vec::new();
    }
    let webhook = |node| {
        let section = Section::new("[[room.webhook]]", node, ROOM_WEBHOOK, &[], problems);
        let (host, port, path) = address(&section).unwrap_or_default();
        WebhookPlan {
            host,
            port,
            path,
            secret_file: needed_path(&section, "secret_file", folder),
            secret: Vec::new(),
        }
    };
    nodes.iter().map(webhook).collect()
}

/// Host, port, and path with its query.
fn address(section: &Section<'_>) -> Option<(String, u16, String)> {
    const EXAMPLE: &str =
        "write scheme, host, port and path, such as \"http://127.0.0.1:9000/rooms\"";
    let text = section.text("url");
    if !section.sound(&["url"]) {
        return None;
    }
    let refuse = |why: &str, fix: &str| {
        section.refuse("url", format!("`url = \"{text}\"` {why}"), fix);
        None
    };
    if text.starts_with("https://") {
        return refuse(
            "asks for TLS, which comes later",
            "write the http:// URL of a receiver on your own network, or of a proxy there that speaks TLS to it",
        );
    }
    if !text.starts_with("http://") {
        return refuse("is no http:// URL", EXAMPLE);
    }
    // Of a fragment nothing is sent, and nobody would notice.
    let uri = text.parse::<Uri>().ok();
    let uri = uri.filter(|_| text.is_ascii() && !text.contains('#'));
    let Some((uri, authority)) = uri.as_ref().and_then(|uri| Some((uri, uri.authority()?))) else {
        return refuse("is no URL that can be asked", EXAMPLE);
    };
    if authority.as_str().contains('@') {
        return refuse(
            "carries credentials",
            "leave them out: what is sent is signed with the secret in secret_file",
        );
    }
    let port = authority.port_u16().unwrap_or(80);
    let no_port =
        authority.host().len() < authority.as_str().len() && authority.port_u16().is_none();
    if port == 0 || no_port || authority.host().is_empty() {
        return refuse("has no usable host and port", EXAMPLE);
    }
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Some((host, port, path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{error, room};

    #[test]
    fn a_webhook_is_asked_over_plain_http() {
        let with = |url: &str| format!("[[room.webhook]]\nurl = \"{url}\"\nsecret_file = \"s\"");
        for (url, message, help) in [
            ("https://h/x", "asks for TLS", "a proxy there"),
            ("h:80/x", "is no http:// URL", "scheme, host, port"),
            ("http://", "no URL that can be asked", "scheme, host, port"),
            ("http://h/x#y", "no URL that can be asked", "scheme"),
            ("http://u:p@h/x", "carries credentials", "signed"),
            ("http://h:0/x", "no usable host and port", "scheme"),
        ] {
            let (said, fix) = error(&with(url));
            assert!(said.contains(message), "{url}: {said}");
            assert!(fix.contains(help), "{url}: {fix}");
        }
        let plain = room(&with("http://h")).webhooks.remove(0);
        assert_eq!((plain.port, plain.path.as_str()), (80, "/"));
        let (said, _) = error("[[room.webhook]]\nurl = \"http://h\"");
        assert!(said.contains("needs `secret_file`"), "{said}");
        let many = vec![with("http://h"); 9].join("\n");
        assert!(error(&many).0.contains("9 webhooks"));
    }
}
