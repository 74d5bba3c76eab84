//! What this node is in its fleet: `[fleet]`.

use std::path::PathBuf;

use tidegate_core::session::Name;

use super::keys::fleet::FLEET;
use super::problem::Problems;
use super::section::Section;

/// What this node is in its fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FleetPlan {
    /// Its name; `None` for the machine's.
    pub(crate) node: Option<Name>,
    /// Whether it may decide for all.
    pub(crate) leads: bool,
    /// Whether sessions live in the application's memory.
    pub(crate) sessions_in_heap: bool,
    /// Where decisions are written down while it leads.
    pub(crate) decision_log: Option<PathBuf>,
}

/// The section `[fleet]` of `root`, if there is one.
pub(crate) fn fleet(root: &Section<'_>, problems: &Problems) -> Option<FleetPlan> {
    let node = root.node("fleet")?;
    let section = Section::new("[fleet]", node, FLEET, &[], problems);
    let node = section.text_if_set("node").and_then(|text| {
        let name = Name::new(text).ok();
        if name.is_none() {
            section.refuse(
                "node",
                format!("`node = \"{text}\"` is no name of a node"),
                "write 1 to 64 letters, digits, \"-\", \"_\" and \".\", and another one on every node",
            );
        }
        name
    });
    Some(FleetPlan {
        node,
        leads: section.switch("leads"),
        sessions_in_heap: section.switch("sessions_in_heap"),
        decision_log: section.text_if_set("decision_log").map(PathBuf::from),
    })
}

#[cfg(test)]
mod tests {
    use crate::config::{Flags, parse};

    const APP: &str = "[[app]]\nname = \"shop\"\nupstream = \"http://127.0.0.1:8000\"\n";

    #[test]
    fn a_node_has_a_name_that_others_can_read() {
        let named = format!("{APP}[fleet]\nnode = \"shop-1.example\"\nleads = false\n");
        let setup = parse("file", &named, &Flags::default()).unwrap();
        let fleet = setup.fleet.unwrap();
        assert_eq!(fleet.node.unwrap().as_str(), "shop-1.example");
        assert!(!fleet.leads && !fleet.sessions_in_heap);

        let odd = format!("{APP}[fleet]\nnode = \"shop 1\"\n");
        let refused = parse("file", &odd, &Flags::default())
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("`node = \"shop 1\"` is no name of a node"),
            "{refused}"
        );
    }

    #[test]
    fn a_gateway_is_in_no_fleet_unless_it_is_said() {
        assert_eq!(parse("file", APP, &Flags::default()).unwrap().fleet, None);
    }
}
