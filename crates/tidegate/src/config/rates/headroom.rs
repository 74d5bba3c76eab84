//! Whether the rate of a limit follows what the fleet has left: `headroom` of `[[limit]]`.

use tidegate_core::rate::price::SHARE_MIN;
use tidegate_core::rate::{Algorithm, Spec};
use tidegate_gateway::FollowPlan;

use super::super::keys::rates::LIMIT_HEADROOM;
use super::super::problem::Problems;
use super::super::section::Section;
use super::Around;

/// The part of the rate that always holds, unless something else is said.
const FLOOR: f64 = 0.25;

/// How the limit follows the fleet, if it does.
pub(super) fn headroom(
    section: &Section<'_>,
    algorithm: Algorithm,
    spec: Option<Spec>,
    problems: &Problems,
    around: &Around<'_>,
) -> Option<FollowPlan> {
    let follows = follows(section, problems, around.in_fleet)?;
    if spec == Some(Spec::Deny) {
        section.refuse(
            "headroom",
            "a rate of 0 has no part that could be taken away",
            "remove headroom, or write a rate",
        );
        return None;
    }
    if algorithm == Algorithm::Log && section.sound(&["algorithm"]) {
        section.refuse(
            "headroom",
            "a log remembers whole tokens, and a part of its rate would have to be counted in parts of them",
            "write algorithm = \"bucket\" or \"window\", or remove headroom",
        );
        return None;
    }
    Some(follows)
}

/// The table `headroom` of a limit or a dependency.
pub(in crate::config) fn follows(
    section: &Section<'_>,
    problems: &Problems,
    in_fleet: bool,
) -> Option<FollowPlan> {
    let node = section.node("headroom")?;
    let table = Section::new("headroom", node, LIMIT_HEADROOM, &[], problems);
    let floor = table.share_if_set("floor").unwrap_or(FLOOR);
    let hold = table.span("hold");
    if !in_fleet {
        section.refuse(
            "headroom",
            "nobody would say how much is left: this gateway is in no fleet",
            "add a section [fleet], with a [store] that all gateways share; or remove headroom",
        );
        return None;
    }
    let floor = (floor * 1e3).round() as u32;
    if floor < SHARE_MIN && table.sound(&["floor"]) {
        table.refuse(
            "floor",
            format!(
                "`floor` is {}, and a tenth of the rate always holds",
                f64::from(floor) / 1e3
            ),
            "write 0.1 to 0.9",
        );
        return None;
    }
    Some(FollowPlan { floor, hold })
}

/// The limit as it is counted: in units of a token where it follows something.
pub(in crate::config) fn counted(
    section: &Section<'_>,
    spec: Option<Spec>,
    follows: Option<&FollowPlan>,
) -> Option<Spec> {
    let spec = spec?;
    if follows.is_none() {
        return Some(spec);
    }
    match spec.in_units() {
        Ok(counted) => Some(counted),
        Err(error) => {
            if section.sound(&["rate", "burst", "algorithm"]) {
                section.refuse(
                    "rate",
                    format!("with headroom a limit is counted in hundredths of a token: {error}"),
                    "write a rate in rounder numbers, or a smaller burst",
                );
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_core::rate::Price;

    use super::super::super::Summary;
    use super::super::super::tests::{MINIMAL, errors, plan, setup};
    use super::*;

    const FLEET: &str = "[fleet]\nnode = \"a\"\n";

    fn limit(keys: &str) -> String {
        format!("{MINIMAL}{FLEET}[[limit]]\nname = \"l\"\nrate = \"100/s\"\n{keys}\n")
    }

    #[test]
    fn a_limit_follows_down_to_its_floor_and_is_counted_in_units() {
        let plan = plan(&limit(
            "burst = 50\nheadroom = { floor = 0.3, hold = \"1m\" }",
        ));

        let limit = &plan.rates.limits[0];
        let hold = Duration::from_secs(60);
        assert_eq!(limit.follows, Some(FollowPlan { floor: 300, hold }));
        assert_eq!(limit.spec.most(), 50);
        assert_eq!(limit.counted().unwrap().most(), 5_000);
        assert_eq!(limit.unit(), Price::FULL);
    }

    #[test]
    fn an_override_follows_as_its_limit_does() {
        let text = limit(
            "headroom = {}\n[[limit.override]]\nname = \"o\"\nkey = [\"203.0.113.7\"]\nrate = \"7/s\"",
        );

        let plan = plan(&text);

        let floors = plan
            .rates
            .limits
            .iter()
            .map(|it| it.follows.map(|it| it.floor));
        assert!(floors.eq([Some(250), Some(250)]));
    }

    #[test]
    fn what_cannot_follow_is_told_why() {
        let only = |text: &str| {
            let mut errors = errors(text);
            assert_eq!(errors.len(), 1, "{errors:#?}");
            errors.remove(0).1
        };
        for (keys, said) in [
            ("algorithm = \"log\"\nheadroom = {}", "whole tokens"),
            (
                "headroom = { floor = 0.05 }",
                "a tenth of the rate always holds",
            ),
            ("headroom = { floor = 0.95 }", "not above 0 and up to 0.9"),
            ("headroom = { flor = 0.5 }", "flor"),
            ("burst = 5\nrate = \"0/s\"\nheadroom = {}", "a rate of 0"),
            (
                "burst = 10000000\nrate = \"7/11s\"\nheadroom = {}",
                "hundredths of a token",
            ),
        ] {
            let text = limit(keys).replacen("rate = \"100/s\"\nburst", "burst", 1);
            let message = only(&text);
            assert!(message.contains(said), "{keys}: {message}");
        }
        let alone = limit("headroom = {}").replacen(FLEET, "", 1);
        assert!(only(&alone).contains("in no fleet"));
        let dependency = "[store]\nurl = \"redis://127.0.0.1:1\"\n[[dependency]]\nname = \"d\"\nconcurrency = 40\n\
                          scope = \"fleet\"\nheadroom = {}\n";
        let message = only(&format!("{MINIMAL}{FLEET}{dependency}"));
        assert!(message.contains("follows nothing"), "{message}");
    }

    #[test]
    fn what_is_left_at_least_is_printed() {
        let setup = setup(&limit("headroom = { floor = 0.3 }"));

        let page = Summary(&setup).to_string();

        assert!(
            page.contains("follows the headroom of the fleet down to 30/s"),
            "{page}"
        );
        assert!(page.contains("10s after what was heard last"), "{page}");
    }
}
