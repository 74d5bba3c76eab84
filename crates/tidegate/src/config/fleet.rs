//! What this node is in its fleet: `[fleet]`.

use std::path::PathBuf;

use tidegate_core::health::{Bands, Settings, Smoothing, Turns};
use tidegate_core::session::Name;

use super::keys::fleet::{FLEET, HEALTH};
use super::problem::Problems;
use super::section::Section;

const BANDS: [&str; 3] = ["saturated_below", "stressed_below", "recover_above"];

/// What this node is in its fleet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FleetPlan {
    /// Its name; `None` for the machine's.
    pub(crate) node: Option<Name>,
    /// Whether it may decide for all.
    pub(crate) leads: bool,
    /// Whether sessions live in the application's memory.
    pub(crate) sessions_in_heap: bool,
    /// Where decisions are written down while it leads.
    pub(crate) decision_log: Option<PathBuf>,
    /// How nodes are judged while it leads, and how it judges itself.
    pub(crate) health: Settings,
}

/// Whether this gateway is a node of a fleet. One with waiting rooms is: they let in what a fleet has to spare.
pub(crate) fn is_in(root: &Section<'_>) -> bool {
    root.has("fleet") || root.has("room")
}

/// What `root` says of the fleet, if there is one.
pub(crate) fn fleet(root: &Section<'_>, problems: &Problems) -> Option<FleetPlan> {
    let section = match root.node("fleet") {
        Some(node) => Section::new("[fleet]", node, FLEET, &[], problems),
        None if is_in(root) => Section::absent("[fleet]", FLEET, problems),
        None => return None,
    };
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
        health: health(&section, problems),
    })
}

/// How nodes are judged.
fn health(section: &Section<'_>, problems: &Problems) -> Settings {
    let usual = Settings::default();
    let Some(node) = section.node("health") else {
        return usual;
    };
    let table = Section::new("[fleet.health]", node, HEALTH, &[], problems);
    let share = |key, otherwise| table.share_if_set(key).unwrap_or(otherwise);
    let ticks = |key| u8::try_from(table.count(key)).unwrap_or(u8::MAX);
    let [saturated, stressed, recover] = [
        share("saturated_below", usual.bands.saturated_below()),
        share("stressed_below", usual.bands.stressed_below()),
        share("recover_above", usual.bands.recover_above()),
    ];
    let bands = Bands::new(saturated, stressed, recover);
    if bands.is_err() && table.sound(&BANDS) {
        let key = BANDS.into_iter().find(|key| table.has(key));
        table.refuse(
            key.unwrap_or(BANDS[0]),
            format!(
                "saturated_below {saturated}, stressed_below {stressed} and recover_above {recover} are out of order"
            ),
            "choose saturated_below < stressed_below < recover_above, each a part of the headroom",
        );
    }
    let smoothing = Smoothing::new(
        share("worsening", usual.smoothing.worsening()),
        share("improving", usual.smoothing.improving()),
    );
    let target_used = share("target_used", usual.target_used);
    if target_used > 1.0 - saturated && table.sound(&["target_used", "saturated_below"]) {
        table.refuse(
            "target_used",
            format!("a node with {target_used} of it used would be saturated: saturated_below is {saturated}"),
            format!("write target_used = {:.2} at most", 1.0 - saturated),
        );
    }
    let out_max = share("out_max", f64::from(usual.out_percent_max) / 100.0);
    Settings {
        bands: bands.unwrap_or(usual.bands),
        turns: Turns {
            saturated_ticks: ticks("saturated_ticks"),
            recover_ticks: ticks("recover_ticks"),
            dwell: table.span("dwell"),
        },
        smoothing: smoothing.unwrap_or(usual.smoothing),
        target_used,
        out_percent_max: (out_max * 100.0).round().max(1.0) as u8,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
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
    fn what_is_not_set_of_how_nodes_are_judged_is_as_usual() {
        let health = |keys: &str| {
            let file = format!("{APP}[fleet]\nnode = \"a\"\n{keys}");
            parse("file", &file, &Flags::default()).map(|setup| setup.fleet.unwrap().health)
        };
        assert_eq!(health("").unwrap(), Settings::default());
        assert_eq!(health("[fleet.health]\n").unwrap(), Settings::default());

        let set = health(
            "[fleet.health]\nstressed_below = 0.3\nrecover_above = 0.5\nrecover_ticks = 10\n\
             dwell = \"20s\"\nworsening = 1.0\nout_max = 0.5\n",
        );
        let set = set.unwrap();
        assert_eq!(set.bands, Bands::new(0.2, 0.3, 0.5).unwrap());
        assert_eq!(set.smoothing, Smoothing::new(1.0, 0.2).unwrap());
        assert_eq!(set.turns.dwell, Duration::from_secs(20));
        assert_eq!(
            (set.turns.recover_ticks, set.turns.saturated_ticks),
            (10, 2)
        );
        assert_eq!(set.out_percent_max, 50);

        for (keys, said) in [
            (
                "stressed_below = 0.1",
                "saturated_below 0.2, stressed_below 0.1",
            ),
            (
                "recover_above = 1.5",
                "`recover_above = 1.5` is not above 0",
            ),
            ("recover_ticks = 0", "recover_ticks"),
            ("target_used = 0.9", "would be saturated"),
            ("dwel = \"5s\"", "did you mean"),
        ] {
            let refused = health(&format!("[fleet.health]\n{keys}\n"));
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn a_gateway_is_in_no_fleet_unless_it_is_said() {
        assert_eq!(parse("file", APP, &Flags::default()).unwrap().fleet, None);
    }
}
