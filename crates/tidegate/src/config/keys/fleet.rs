//! What a node is in its fleet.

use super::Kind::{Switch, Text};
use super::Otherwise::{Follows, Is, Unset};
use super::{Key, key};

pub(crate) const FLEET: &[Key] = &[
    key("node", Text("name"), Follows("the machine's host name")),
    key("leads", Switch, Is("true")),
    key("sessions_in_heap", Switch, Is("false")),
    key("decision_log", Text("path of a file"), Unset("no log")),
];
