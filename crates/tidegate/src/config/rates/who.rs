//! Who asks: `[[network]]` and `[tokens]`.

use std::path::Path;

use tidegate_gateway::rate::{KeyPart, LimitPlan, NetworkPlan, TokenKeys, TokenPlan};

use super::super::keys::rates::{NETWORK, TOKENS};
use super::super::listener;
use super::super::name::Names;
use super::super::problem::Problems;
use super::super::section::Section;
use super::header;

/// The most networks with names, and the most addresses that one of them has.
const NETWORKS_MAX: usize = 256;

/// The networks at `[[network]]`.
pub(super) fn networks(root: &Section<'_>, problems: &Problems) -> Vec<NetworkPlan> {
    let nodes = root.sections("network", "[[network]]");
    if nodes.len() > NETWORKS_MAX {
        root.refuse(
            "network",
            format!("{} networks", nodes.len()),
            format!("write at most {NETWORKS_MAX}; one may have several addresses"),
        );
        return Vec::new();
    }
    let mut names = Names::reserving("", "network");
    let network = |node| {
        let section = Section::new("[[network]]", node, NETWORK, &[], problems);
        let name = section.text("name");
        names.take(&section, name);
        let addresses = listener::networks(&section, "addresses");
        if !(1..=NETWORKS_MAX).contains(&addresses.len()) && section.sound(&["addresses"]) {
            section.refuse(
                "addresses",
                format!("a network of {} addresses", addresses.len()),
                format!("write 1 to {NETWORKS_MAX}, as in addresses = [\"198.51.100.0/24\"]"),
            );
        }
        NetworkPlan {
            name: name.to_owned(),
            addresses,
        }
    };
    nodes.iter().map(network).collect()
}

/// What `[tokens]` says; the keys are read at the start.
pub(super) fn tokens(root: &Section<'_>, problems: &Problems) -> Option<TokenPlan> {
    let node = root.node("tokens")?;
    let section = Section::new("[tokens]", node, TOKENS, &[], problems);
    let path = section.text("key_file");
    if section.sound(&["key_file"]) && Path::new(path).file_name().is_none() {
        section.refuse(
            "key_file",
            format!("`key_file = \"{path}\"` names no file"),
            "write the path of a file, such as \"/etc/tidegate/tokens.jwks\"",
        );
    }
    let text = |key| {
        let text = section.text_if_set(key)?;
        if text.is_empty() {
            section.refuse(
                key,
                format!("`{key}` is empty, and no token says so"),
                format!("write what your tokens have, or remove {key} to take anybody's"),
            );
        }
        Some(text.to_owned())
    };
    Some(TokenPlan {
        header: header(&section, "header")?,
        issuer: text("issuer"),
        audience: text("audience"),
        leeway: section.span("leeway"),
        key_file: path.into(),
        keys: TokenKeys::default(),
    })
}

/// What no limit counts by has no effect.
pub(super) fn refuse_unused(root: &Section<'_>, limits: &[LimitPlan]) {
    let counts = |is_it: fn(&KeyPart) -> bool| limits.iter().flat_map(|it| &it.key).any(is_it);
    if root.has("network") && !counts(|part| *part == KeyPart::Network) && root.sound(&["limit"]) {
        root.refuse(
            "network",
            "[[network]] has no effect: no limit counts by \"network\"",
            "write key = [\"network\"] in a limit, or remove it",
        );
    }
    if root.has("tokens")
        && !counts(|part| matches!(part, KeyPart::Claim(_)))
        && root.sound(&["limit"])
    {
        root.refuse(
            "tokens",
            "[tokens] has no effect: no limit counts by a claim",
            "write key = [{ claim = \"sub\" }] in a limit, or remove it",
        );
    }
}
