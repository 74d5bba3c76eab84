//! The configuration of `tidegate agent`: the same format, of which the sections hold that are about a node and not about
//! requests.
//!
//! A section that would have no effect is refused: who has written `[[limit]]` counts on a limit.

use super::problem::Problems;
use super::tree::{Node, Value, subtable};

/// The sections that an agent alone has.
const KNOWN: &[&str] = &[
    "admin", "drain", "store", "sidecar", "fleet", "agent", "balancer",
];

/// Sections of which there may be several.
const LISTS: &[&str] = &["app", "dependency", "limit", "network", "room"];

/// Keys of the sections it has that are about requests all the same: section, key, and why.
const IDLE: &[(&str, &str, &str)] = &[
    (
        "drain",
        "timeout",
        "an agent alone has no requests to finish",
    ),
    (
        "agent",
        "latency_budget",
        "an agent alone sees no answers whose latency it could judge",
    ),
    (
        "balancer",
        "load_reports",
        "an agent alone has no answers that could carry a load report",
    ),
];

/// What the origin of a section is called that nobody has written.
const BY_COMMAND: &str = "tidegate agent";

/// Takes out of `root` what has no effect without requests, each as a problem, and puts in what every agent has.
pub(super) fn prepare(root: &mut Node, problems: &Problems) {
    let Some(table) = root.entries_mut() else {
        return;
    };
    table.retain(|entry| {
        let key = entry.key.as_str();
        // What nobody knows is refused by whoever reads the rest.
        let is_foreign = !KNOWN.contains(&key)
            && (super::TABLES.contains(&key) || super::keys::ROOT.iter().any(|it| it.name == key));
        if is_foreign {
            let name = match entry.node.value {
                _ if LISTS.contains(&key) => format!("[[{key}]]"),
                Value::Table(_) => format!("[{key}]"),
                _ => key.to_owned(),
            };
            problems.add(
                &entry.key_origin,
                format!("`{name}` has no effect: an agent alone carries no requests"),
                "remove it, or run the gateway with `tidegate run`, which has an agent, too",
            );
        }
        !is_foreign
    });
    for &(section, key, why) in IDLE {
        let sections = table.iter_mut().filter(|entry| entry.key == section);
        for entries in sections.filter_map(|entry| entry.node.entries_mut()) {
            entries.retain(|entry| {
                if entry.key == key {
                    let message = format!("`{key}` of [{section}] has no effect: {why}");
                    problems.add(&entry.key_origin, message, "remove it");
                }
                entry.key != key
            });
        }
    }
    for section in ["fleet", "agent"] {
        // With every default: the machine's name, and the machine's own figures.
        let _ = subtable(table, section, BY_COMMAND);
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Flags, Role, parse_for};

    fn refused(text: &str) -> String {
        let refused = parse_for(Role::Agent, "a.toml", text, &Flags::default());
        refused.expect_err("refused").to_string()
    }

    #[test]
    fn an_agent_alone_needs_nothing_and_carries_nothing() {
        let setup = parse_for(Role::Agent, "a.toml", "", &Flags::default()).unwrap();

        assert!(setup.gateway.apps.is_empty());
        assert_eq!(setup.gateway.listener.address, None);
        assert_eq!(setup.gateway.admin, Some(([127, 0, 0, 1], 9090).into()));
        assert!(setup.fleet.is_some() && setup.agent.is_some());
    }

    #[test]
    fn the_port_that_a_gateway_would_have_is_free() {
        let text = "[admin]\naddress = \"0.0.0.0:8080\"\n[balancer]\nagent_listen = \"0.0.0.0:9777\"\n\
                    [fleet]\nnode = \"a\"\n[agent]\nruntime = \"puma\"\n";

        let setup = parse_for(Role::Agent, "a.toml", text, &Flags::default()).unwrap();

        assert_eq!(setup.gateway.admin, Some(([0, 0, 0, 0], 8080).into()));
        assert!(setup.balancer.agent_check.is_some());
    }

    #[test]
    fn what_is_about_requests_is_refused_section_by_section() {
        for (text, why) in [
            ("[listen]\naddress = \"x\"\n", "`[listen]` has no effect"),
            (
                "[[app]]\nupstream = \"http://127.0.0.1:1\"\n",
                "`[[app]]` has no effect",
            ),
            (
                "[[limit]]\nname = \"x\"\n[[limit]]\n",
                "`[[limit]]` has no effect",
            ),
            ("threads = 4\n", "`threads` has no effect"),
            ("[sessions]\n", "`[sessions]` has no effect"),
            ("[drain]\ntimeout = \"1s\"\n", "`timeout` of [drain]"),
            (
                "[agent]\nlatency_budget = \"1s\"\n",
                "`latency_budget` of [agent]",
            ),
            (
                "[balancer]\nload_reports = true\n",
                "`load_reports` of [balancer]",
            ),
            ("[agnet]\n", "agnet"),
        ] {
            let page = refused(text);
            assert!(page.contains(why), "{page}");
            assert!(page.contains("\n1 error: "), "{page}");
        }
    }
}
