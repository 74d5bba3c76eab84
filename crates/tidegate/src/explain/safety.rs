//! Where a write can still be lost once it is acknowledged.

use std::time::Duration;

use tidegate_core::session::{Durability, OnShort, WriteClass};
use tidegate_store::redis::{Arrangement, RedisPlan};

/// For how long a write with `redo` is kept by the gateway that made it.
const REDO_KEPT: Duration = Duration::from_secs(30);

/// Each event, or events together, that loses an acknowledged write of `class`, in words that follow
/// "loses when". `None` for `servers` is the embedded store.
pub(super) fn losses(
    class: WriteClass,
    durability: Durability,
    servers: Option<&RedisPlan>,
) -> Vec<String> {
    let mut losses = match servers {
        None => return embedded(class, durability),
        Some(plan) => in_servers(durability, plan),
    };
    losses.push(while_away(class).to_owned());
    losses
}

fn embedded(class: WriteClass, durability: Durability) -> Vec<String> {
    let on_disk = "the disk is lost: there is no other copy";
    if durability.wait.is_some() {
        return vec![on_disk.to_owned()];
    }
    let gathered = if class == WriteClass::Touch {
        "a second"
    } else {
        "10 ms"
    };
    vec![
        format!("this process or machine fails before it is on disk, within about {gathered}"),
        on_disk.to_owned(),
    ]
}

fn in_servers(durability: Durability, plan: &RedisPlan) -> Vec<String> {
    let kept = humantime::format_duration(REDO_KEPT);
    let replicated = !matches!(plan.arrangement, Arrangement::Standalone(_));
    let and_gateway =
        format!(", and this gateway ends within the {kept} in which it would write it again");
    let redo = if durability.redo {
        and_gateway.as_str()
    } else {
        ""
    };
    let alone = if replicated {
        format!("the primary fails before a replica has it{redo}")
    } else {
        format!("the server fails before its disk has it, a second with appendfsync everysec{redo}")
    };
    let Some(wait) = durability.wait else {
        let mut losses = vec![alone];
        if durability.redo {
            losses.push(format!(
                "the store is gone for longer than {kept} and comes back without it"
            ));
        }
        return losses;
    };
    let within = humantime::format_duration(wait.within);
    let (replicas, s) = (wait.replicas, if wait.replicas == 1 { "" } else { "s" });
    let verb = if wait.replicas == 1 { "has" } else { "have" };
    let mut losses = vec![
        format!("the primary and the {replicas} replica{s} that {verb} it fail together{redo}"),
        format!("a replica that does not have it is promoted{redo}"),
    ];
    match wait.on_short {
        OnShort::Degrade => losses.push(format!(
            "fewer than {replicas} answer within {within} (it stands, and is counted as short), and then {alone}"
        )),
        OnShort::Fail => losses.push(format!(
            "never unreported, when fewer than {replicas} answer within {within}: that is an error, though the \
             write stands and may survive"
        )),
    }
    losses
}

/// What holds for a write that is made while the store does not answer.
const fn while_away(class: WriteClass) -> &'static str {
    match class {
        WriteClass::Touch => {
            "the store is away: nothing is written, and the session may end that much earlier"
        }
        WriteClass::Disposable | WriteClass::Work | WriteClass::Capsule => {
            "it is made while the store is away, and this gateway ends before the store is back"
        }
        WriteClass::SignIn => {
            "it is made while the store is away, and this gateway ends before the store is back; until then \
             other gateways know it by the ticket"
        }
        WriteClass::SignOut => {
            "it is made while the store is away, and this gateway ends before the store is back; until then \
             other gateways do not know of it"
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::session::Wait;
    use tidegate_store::redis::Address;

    use super::*;

    fn cluster() -> RedisPlan {
        RedisPlan::usual(Arrangement::Cluster(vec![Address::parse("a:1").unwrap()]))
    }

    fn waiting(redo: bool, on_short: OnShort) -> Durability {
        Durability {
            redo,
            wait: Some(Wait {
                replicas: 1,
                within: Duration::from_millis(50),
                on_short,
            }),
        }
    }

    #[test]
    fn a_write_that_is_kept_is_lost_only_together_with_its_gateway() {
        let of = |durability| losses(WriteClass::Work, durability, Some(&cluster())).concat();

        assert!(!of(Durability::ASYNC).contains("this gateway ends within"));
        assert!(of(Durability::REDO).contains("and this gateway ends within the 30s"));
    }

    #[test]
    fn a_short_write_says_whether_anybody_is_told() {
        let of = |durability| losses(WriteClass::SignIn, durability, Some(&cluster())).concat();

        assert!(of(waiting(false, OnShort::Degrade)).contains("counted as short"));
        assert!(of(waiting(true, OnShort::Fail)).contains("that is an error"));
    }

    #[test]
    fn nothing_is_said_of_replicas_where_there_are_none() {
        let alone = RedisPlan::usual(Arrangement::Standalone(Address::parse("a:1").unwrap()));
        for servers in [None, Some(&alone)] {
            let said = losses(WriteClass::Work, Durability::REDO, servers).concat();
            assert!(!said.contains("replica"), "{said}");
        }
    }
}
