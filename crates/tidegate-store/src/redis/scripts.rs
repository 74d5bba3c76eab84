//! The scripts that are installed on the servers.

use std::sync::LazyLock;

use super::script::Script;

/// One of the scripts below.
pub(crate) type Installed = LazyLock<Script>;

pub(super) static ADOPT: Installed =
    LazyLock::new(|| Script::new("adopt", include_str!("scripts/adopt.lua")));
pub(super) static BEACON: Installed =
    LazyLock::new(|| Script::new("beacon", include_str!("scripts/beacon.lua")));
pub(super) static BEACONS: Installed =
    LazyLock::new(|| Script::new("beacons", include_str!("scripts/beacons.lua")));
pub(super) static CAPSULE: Installed =
    LazyLock::new(|| Script::new("capsule", include_str!("scripts/capsule.lua")));
pub(super) static CLAIM: Installed =
    LazyLock::new(|| Script::new("claim", include_str!("scripts/claim.lua")));
pub(super) static CREATE: Installed =
    LazyLock::new(|| Script::new("create", include_str!("scripts/create.lua")));
pub(crate) static DIVIDE: Installed =
    LazyLock::new(|| Script::new("divide", include_str!("scripts/divide.lua")));
pub(super) static DESTROY: Installed =
    LazyLock::new(|| Script::new("destroy", include_str!("scripts/destroy.lua")));
pub(super) static EVENTS: Installed =
    LazyLock::new(|| Script::new("events", include_str!("scripts/events.lua")));
pub(super) static FATE: Installed =
    LazyLock::new(|| Script::new("fate", include_str!("scripts/fate.lua")));
pub(super) static FINISH: Installed =
    LazyLock::new(|| Script::new("finish", include_str!("scripts/finish.lua")));
pub(super) static INDEX: Installed =
    LazyLock::new(|| Script::new("index", include_str!("scripts/index.lua")));
pub(crate) static LIMIT: Installed =
    LazyLock::new(|| Script::new("limit", include_str!("scripts/limit.lua")));
pub(super) static OPEN: Installed =
    LazyLock::new(|| Script::new("open", include_str!("scripts/open.lua")));
pub(super) static ORDER: Installed =
    LazyLock::new(|| Script::new("order", include_str!("scripts/order.lua")));
pub(super) static PATCH: Installed =
    LazyLock::new(|| Script::new("patch", include_str!("scripts/patch.lua")));
pub(crate) static PERMITS: Installed =
    LazyLock::new(|| Script::new("permits", include_str!("scripts/permits.lua")));
pub(super) static PUBLISH: Installed =
    LazyLock::new(|| Script::new("publish", include_str!("scripts/publish.lua")));
pub(super) static RAISE: Installed =
    LazyLock::new(|| Script::new("raise", include_str!("scripts/raise.lua")));
pub(super) static REARM: Installed =
    LazyLock::new(|| Script::new("rearm", include_str!("scripts/rearm.lua")));
pub(crate) static ROOM: Installed =
    LazyLock::new(|| Script::new("room", include_str!("scripts/room.lua")));
pub(crate) static ROOM_BOARD: Installed =
    LazyLock::new(|| Script::new("room_board", include_str!("scripts/room_board.lua")));
pub(crate) static ROOM_LEAD: Installed =
    LazyLock::new(|| Script::new("room_lead", include_str!("scripts/room_lead.lua")));
pub(super) static ROTATE: Installed =
    LazyLock::new(|| Script::new("rotate", include_str!("scripts/rotate.lua")));
pub(crate) static SHARE: Installed =
    LazyLock::new(|| Script::new("share", include_str!("scripts/share.lua")));
pub(super) static SIGN_OUT: Installed =
    LazyLock::new(|| Script::new("sign_out", include_str!("scripts/sign_out.lua")));
pub(super) static ENROL: Installed =
    LazyLock::new(|| Script::new("enrol", include_str!("scripts/enrol.lua")));
pub(super) static LEAD: Installed =
    LazyLock::new(|| Script::new("lead", include_str!("scripts/lead.lua")));
pub(super) static LEAVE: Installed =
    LazyLock::new(|| Script::new("leave", include_str!("scripts/leave.lua")));
pub(super) static LIVING: Installed =
    LazyLock::new(|| Script::new("living", include_str!("scripts/living.lua")));
pub(super) static VERDICTS: Installed =
    LazyLock::new(|| Script::new("verdicts", include_str!("scripts/verdicts.lua")));
pub(super) static YIELD: Installed =
    LazyLock::new(|| Script::new("yield", include_str!("scripts/yield.lua")));

#[cfg(test)]
mod tests {
    use crate::ends::ENDED_KEPT;

    #[test]
    fn scripts_keep_an_ended_session_as_long_as_its_end_may_be_told() {
        let kept = format!(" + {})", ENDED_KEPT.as_millis());
        for script in [
            include_str!("scripts/create.lua"),
            include_str!("scripts/open.lua"),
            include_str!("scripts/rotate.lua"),
        ] {
            assert!(script.contains(&kept), "{script}");
            let others = script.matches("PEXPIREAT").count();
            assert_eq!(script.matches(&kept).count(), others);
        }
    }
}
