//! What a node is in its fleet.

use super::Kind::{Count, Share, Span, Switch, Table, Text};
use super::Otherwise::{Follows, Is, Unset};
use super::{Key, key};

pub(crate) const FLEET: &[Key] = &[
    key("node", Text("name"), Follows("the machine's host name")),
    key("leads", Switch, Is("true")),
    key("sessions_in_heap", Switch, Is("false")),
    key("decision_log", Text("path of a file"), Unset("no log")),
    key("health", Table("how nodes are judged"), Unset("as usual")),
];

/// How its nodes are judged, by whichever of them leads.
pub(crate) const HEALTH: &[Key] = &[
    key("saturated_below", Share { max: 0.9 }, Is("0.2")),
    key("stressed_below", Share { max: 0.95 }, Is("0.45")),
    key("recover_above", Share { max: 0.99 }, Is("0.55")),
    key("saturated_ticks", Count { min: 1, max: 60 }, Is("2")),
    key("recover_ticks", Count { min: 1, max: 250 }, Is("6")),
    key(
        "dwell",
        Span {
            min: "0s",
            max: "10m",
        },
        Is("5s"),
    ),
    key("worsening", Share { max: 1.0 }, Is("0.6")),
    key("improving", Share { max: 1.0 }, Is("0.2")),
    key("target_used", Share { max: 0.95 }, Is("0.5")),
    key("out_max", Share { max: 0.9 }, Is("0.3")),
];
