use crate::config::tests::{MINIMAL, errors, setup};

use super::*;

const RLS: &str = "[rls]\nlisten = \"127.0.0.1:8081\"\ndomains = [\"edge\", \"mail\"]\n";
const REDIS: &str = "[store]\nurl = \"redis://127.0.0.1:6379\"\n";

fn plan(text: &str) -> RlsPlan {
    setup(&format!("{MINIMAL}{text}")).rls.unwrap()
}

/// The only error of `text` below a sound `[rls]`.
fn error(text: &str) -> (String, String) {
    let mut errors = errors(&format!("{MINIMAL}{RLS}{text}"));
    assert_eq!(errors.len(), 1, "{errors:#?}");
    let (_, message, help) = errors.remove(0);
    (message, help)
}

/// The only error of a limit with these keys.
fn limit_error(keys: &str) -> String {
    error(&format!("[[rls.limit]]\nname = \"a\"\n{keys}\n")).0
}

#[test]
fn a_limit_says_which_descriptors_meet_it() {
    let plan = plan(&format!(
        "{RLS}[[rls.limit]]\nname = \"login\"\ndomain = \"mail\"\n\
         descriptor = [{{ key = \"path\", value = \"/login\" }}, {{ key = \"remote_address\" }}]\n\
         rate = \"10/min\"\nburst = 5\ncost = 2\nshadow = true\n\
         [[rls.limit]]\nname = \"health\"\ndomain = \"edge\"\n\
         descriptor = [{{ key = \"path\", prefix = \"/health\", together = true }}]\nunlimited = true\n\
         replaces = [\"login\"]\n"
    ));

    assert_eq!(plan.domains, ["edge", "mail"]);
    let [login, health] = &plan.limits[..] else {
        panic!("two limits");
    };
    assert_eq!((login.domain, login.cost), (1, 2));
    assert_eq!(login.standing, Standing::Shadow);
    assert_eq!(login.scope, Scope::Node);
    assert_eq!(login.descriptor[0].value, Wanted::Is("/login".to_owned()));
    assert_eq!(login.descriptor[1].value, Wanted::Any);
    let Allowance::Limited { rate, spec, .. } = &login.allowance else {
        panic!("it has a rate");
    };
    assert_eq!((rate.to_string().as_str(), spec.most()), ("10/min", 5));
    assert!(matches!(health.allowance, Allowance::Unlimited));
    assert!(health.descriptor[0].together);
    assert_eq!(health.replaces, [0]);
}

#[test]
fn limits_are_of_the_fleet_where_there_is_a_store_for_it() {
    let limit = "[[rls.limit]]\nname = \"a\"\ndomain = \"edge\"\ndescriptor = [{ key = \"k\" }]\nrate = \"1/s\"\n";

    let shared = plan(&format!("{REDIS}{RLS}{limit}on_store_loss = \"closed\"\n"));
    let own = plan(&format!("{REDIS}{RLS}{limit}scope = \"node\"\n"));

    assert_eq!(shared.limits[0].scope, Scope::Fleet);
    assert_eq!(shared.limits[0].on_store_loss, OnStoreLoss::Closed);
    assert_eq!(own.limits[0].scope, Scope::Node);
    let fleet = format!("{limit}scope = \"fleet\"\n");
    assert!(
        error(&fleet)
            .0
            .contains("N of them let N times as much pass")
    );
    let lost = format!("{limit}on_store_loss = \"open\"\n");
    assert!(error(&lost).0.contains("kept in this process"));
}

#[test]
fn what_makes_no_limit_is_told_why() {
    let descriptor = "descriptor = [{ key = \"k\" }]";
    for (keys, why) in [
        (format!("{descriptor}\nrate = \"1/s\""), "needs `domain`: there are several"),
        (format!("domain = \"egde\"\n{descriptor}\nrate = \"1/s\""), "no domain \"egde\""),
        ("domain = \"edge\"\nrate = \"1/s\"".to_owned(), "needs `descriptor`"),
        ("domain = \"edge\"\nrate = \"1/s\"\ndescriptor = []".to_owned(), "has 0 entries"),
        (
            "domain = \"edge\"\nrate = \"1/s\"\ndescriptor = [{ value = \"v\" }]".to_owned(),
            "`key`",
        ),
        (
            "domain = \"edge\"\nrate = \"1/s\"\ndescriptor = [{ key = \"k\", value = \"v\", not = \"w\" }]".to_owned(),
            "one of `value`, `prefix` and `not`",
        ),
        (
            "domain = \"edge\"\nrate = \"1/s\"\ndescriptor = [{ key = \"k\", value = \"v\", together = true }]"
                .to_owned(),
            "`together` has no effect",
        ),
        (format!("domain = \"edge\"\n{descriptor}"), "one of `rate` and `unlimited`"),
        (
            format!("domain = \"edge\"\n{descriptor}\nrate = \"1/s\"\nunlimited = true"),
            "`rate` has no effect",
        ),
        (
            format!("domain = \"edge\"\n{descriptor}\nrate = \"1/s\"\ncost = 2"),
            "never passes",
        ),
        (
            format!("domain = \"edge\"\n{descriptor}\nrate = \"1/s\"\nreplaces = [\"a\"]"),
            "cannot replace itself",
        ),
        (
            format!("domain = \"edge\"\n{descriptor}\nrate = \"1/s\"\nreplaces = [\"b\"]"),
            "no limit of [rls] called \"b\"",
        ),
    ] {
        let message = limit_error(&keys);
        assert!(message.contains(why), "{keys}\n{message}");
    }
}

#[test]
fn of_two_limits_for_the_same_descriptor_only_parts_may_both_be() {
    let limit = |name: &str, more: &str| {
        format!(
            "[[rls.limit]]\nname = \"{name}\"\ndomain = \"edge\"\ndescriptor = [{{ key = \"k\" }}]\n\
             rate = \"1/s\"\n{more}\n"
        )
    };

    let (message, _) = error(&(limit("a", "") + &limit("b", "")));
    assert!(
        message.contains("\"a\" has the same descriptor"),
        "{message}"
    );

    let both = limit("a", "") + &limit("b", "match = \"part\"");
    assert_eq!(plan(&format!("{RLS}{both}")).limits.len(), 2);
}

#[test]
fn a_service_has_an_address_of_its_own_and_knows_its_domains() {
    let error = |text: &str| {
        let errors = errors(&format!("{MINIMAL}[rls]\n{text}"));
        assert_eq!(errors.len(), 1, "{errors:#?}");
        errors[0].1.clone()
    };

    assert!(error("listen = \"127.0.0.1:9090\"\ndomains = [\"a\"]\n").contains("taken"));
    assert!(error("listen = \"8081\"\ndomains = [\"a\"]\n").contains("no address and port"));
    assert!(error("listen = \"127.0.0.1:8081\"\n").contains("needs `domains`"));
    assert!(error("domains = [\"a\"]\n").contains("needs `listen`"));
    assert!(error("listen = \"127.0.0.1:8000\"\ndomains = [\"a\"]\n").contains("Tidegate's own"));
}
