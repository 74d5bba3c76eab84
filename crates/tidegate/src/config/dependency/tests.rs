use std::time::Duration;

use tidegate_core::bulkhead::{Loan, Portion, Reserve};
use tidegate_core::facts::Class;
use tidegate_core::limit::Kind;
use tidegate_core::rate::permits::Terms;
use tidegate_core::rate::share::OnLoss;
use tidegate_gateway::dependency::DependencyPlan;
use tidegate_http::local::Listen;

use super::super::Summary;
use super::super::tests::{MINIMAL, app_error, errors, plan, setup};

fn dependencies(text: &str) -> Vec<DependencyPlan> {
    plan(&format!("{MINIMAL}{text}")).dependencies
}

/// The only error that a dependency with these keys causes.
fn error(keys: &str) -> (String, String) {
    let text = format!("{MINIMAL}[[dependency]]\nname = \"d\"\n{keys}\n");
    let mut errors = errors(&text);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    let (_, message, help) = errors.remove(0);
    (message, help)
}

#[test]
fn a_dependency_is_a_name_and_how_many_calls_it_takes() {
    let all = dependencies("[[dependency]]\nname = \"recs\"\nconcurrency = 8\n");

    let [recs] = &all[..] else { panic!("{all:?}") };
    assert_eq!((recs.name(), recs.concurrency()), ("recs", 8));
    assert_eq!(recs.wait_max, Duration::from_millis(50));
    assert_eq!(recs.app.upstream.response_timeout, Duration::from_secs(1));
    assert_eq!(recs.egress, None);
    assert!(recs.rate.is_none());
    assert!(recs.app.breaker.is_some());
    // Nobody keeps any of the eight for themselves unless that is said.
    assert!(
        recs.app
            .admission
            .bulkheads
            .reserves
            .iter()
            .all(Option::is_none)
    );
    assert!(dependencies("").is_empty());
}

#[test]
fn every_key_is_heard() {
    let all = dependencies(
        "[[dependency]]\nname = \"recs\"\nurl = \"http://recs.internal:8080\"\nlisten = \"127.0.0.1:9101\"\n\
         concurrency = 10\nwait = \"0s\"\nrate = \"100/s\"\nburst = 20\ntimeout = \"300ms\"\nbreaker_failures = 3\n\
         [dependency.reserve.critical]\nslots = 2\nloan = \"lent\"\n",
    );

    let recs = &all[0];
    assert_eq!(recs.app.limit, Kind::Static(10.try_into().unwrap()));
    assert_eq!(recs.app.admission.queue_max, 0);
    assert_eq!(recs.app.upstream.host, "recs.internal");
    let listen = Listen::Loopback(([127, 0, 0, 1], 9101).into());
    assert_eq!(recs.egress.as_ref().unwrap().listen, listen);
    assert_eq!(recs.rate.unwrap().1.burst(), 20);
    let breaker = recs.app.breaker.unwrap().breaker;
    assert_eq!(
        (breaker.failures, breaker.probe_within),
        (3, Duration::from_millis(300))
    );
    let reserve = recs.app.admission.bulkheads.reserves[Class::Critical.index()];
    assert_eq!(
        reserve,
        Some(Reserve {
            portion: Portion::Slots(2),
            loan: Loan::Lent
        })
    );
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    for (keys, message, help) in [
        ("", "needs `concurrency`", "add concurrency"),
        ("concurrency = 0", "out of range", "from 1"),
        (
            "concurrency = 1\nurl = \"http://h:1\"",
            "no effect without `listen`",
            "add listen",
        ),
        (
            "concurrency = 1\nlisten = \"127.0.0.1:9101\"",
            "no effect without `url`",
            "add url",
        ),
        (
            "concurrency = 1\nurl = \"https://h\"\nlisten = \"127.0.0.1:9101\"",
            "asks for TLS",
            "http:// URL",
        ),
        (
            "concurrency = 1\nurl = \"http://h:1\"\nlisten = \"0.0.0.0:9101\"",
            "other machines would call",
            "127.0.0.1:9101",
        ),
        (
            "concurrency = 1\nurl = \"http://h:1\"\nlisten = \"127.0.0.1:8080\"",
            "taken by a listener",
            "another port",
        ),
        (
            "concurrency = 1\nurl = \"http://127.0.0.1:8080\"\nlisten = \"127.0.0.1:9101\"",
            "Tidegate's own",
            "where it listens itself",
        ),
        (
            "concurrency = 1\nburst = 5",
            "no effect without `rate`",
            "add rate",
        ),
        ("concurrency = 1\nrate = \"lots\"", "is no rate", "100/s"),
        (
            "concurrency = 1\nbreaker = false\nbreaker_failures = 3",
            "there is no breaker",
            "remove breaker_failures",
        ),
        (
            "concurrency = 1\nbreaker_pause = \"10s\"",
            "longer than `breaker_pause_max`",
            "breaker_pause ≤",
        ),
        (
            "concurrency = 4\n[dependency.reserve.critical]\nslots = 4",
            "reserves 4 of 4 calls at once",
            "leaves room",
        ),
        (
            "concurrency = 4\n[dependency.reserve.crucial]\nslots = 1",
            "is no class",
            "[dependency.reserve.critical]",
        ),
    ] {
        let (said, fix) = error(keys);
        assert!(said.contains(message), "{keys}: {said}");
        assert!(fix.contains(help), "{keys}: {fix}");
    }
}

#[test]
fn two_dependencies_do_not_share_a_name_or_a_listener() {
    let one = "[[dependency]]\nname = \"a\"\nconcurrency = 1\nurl = \"http://h:1\"\nlisten = \"unix:/run/a.sock\"\n";
    let other = |name: &str, listen: &str| {
        format!(
            "{MINIMAL}{one}[[dependency]]\nname = \"{name}\"\nconcurrency = 1\nurl = \"http://h:2\"\n\
             listen = \"{listen}\"\n"
        )
    };

    assert!(
        errors(&other("a", "unix:/run/b.sock"))[0]
            .1
            .contains("second dependency")
    );
    assert!(
        errors(&other("b", "unix:/run/a.sock"))[0]
            .1
            .contains("taken by another")
    );
    plan(&other("b", "unix:/run/b.sock"));
}

#[test]
fn an_application_is_not_where_a_dependency_is_called() {
    let text = "[[app]]\nupstream = \"http://127.0.0.1:9101\"\n[[dependency]]\nname = \"a\"\nconcurrency = 1\n\
                url = \"http://h:1\"\nlisten = \"127.0.0.1:9101\"\n";

    assert!(errors(text)[0].1.contains("Tidegate's own"));
}

#[test]
fn a_breaker_before_an_application_is_asked_for() {
    assert!(plan(MINIMAL).apps[0].breaker.is_none());
    let plan = plan(&format!(
        "{MINIMAL}breaker = true\nresponse_timeout = \"5s\"\n"
    ));
    let breaker = plan.apps[0].breaker.unwrap().breaker;
    assert_eq!(breaker.probe_within, Duration::from_secs(5));

    let (message, help) = app_error("breaker = true\nmode = \"shadow\"");
    assert!(message.contains("no effect") && help.contains("remove breaker"));
}

#[test]
fn what_cannot_hold_where_it_is_said_is_refused_as_well() {
    for (keys, message, help) in [
        (
            "concurrency = 1\nurl = \"http://localhost:9101\"\nlisten = \"127.0.0.1:9101\"",
            "`url = \"http://localhost:9101\"`: the dependency's address is Tidegate's own, 127.0.0.1:9101",
            "where it listens itself",
        ),
        (
            "concurrency = 7\nscope = \"fleet\"",
            "each would let 7 calls in, and 10 gateways together 70",
            "[store]",
        ),
        (
            "concurrency = 7\non_store_loss = \"closed\"",
            "has no effect",
            "scope = \"fleet\"",
        ),
    ] {
        let (said, fix) = error(keys);
        assert!(said.contains(message), "{keys}: {said}");
        assert!(fix.contains(help), "{keys}: {fix}");
    }
}

const STORE: &str = "limit_nodes = 4\n[store]\nurl = \"redis://10.0.0.5\"\n";

#[test]
fn calls_of_all_gateways_count_together_where_that_is_asked_for() {
    let dependency = |keys: &str| {
        let text =
            format!("{STORE}{MINIMAL}[[dependency]]\nname = \"d\"\nscope = \"fleet\"\n{keys}");
        plan(&text).dependencies.remove(0)
    };
    let fleet = |keys: &str| dependency(keys).fleet.unwrap();

    let usual = fleet("concurrency = 9\n");
    assert_eq!(usual.terms, Terms::of(9, 5_000_000));
    assert_eq!((usual.on_loss, usual.nodes), (OnLoss::Local, 4));
    let closed = dependency(
        "concurrency = 20\non_store_loss = \"closed\"\nlease = \"2s\"\n[dependency.reserve.critical]\nslots = 8\n\
         loan = \"lent\"\n[dependency.reserve.signed-in]\nshare = 0.1\n",
    );
    // Of a lent reserve the spare is kept always where others have to know of it, and on one gateway it need not be.
    let most = [Class::Critical, Class::SignedIn, Class::Anonymous];
    assert_eq!(most.map(|class| closed.weight_max(class)), [18, 18, 16]);
    let closed = closed.fleet.unwrap();
    assert_eq!(
        (closed.on_loss, closed.terms.lease_us),
        (OnLoss::Closed, 2_000_000)
    );
    let keeps = |class: Class| {
        let keep = closed.terms.keeps[class.index()];
        (keep.reserve, keep.idle)
    };
    assert_eq!(
        (keeps(Class::Critical), keeps(Class::SignedIn)),
        ((8, 2), (2, 2))
    );
}

#[test]
fn what_cannot_hold_over_all_gateways_is_refused() {
    let error = |keys: &str| {
        let text =
            format!("{STORE}{MINIMAL}[[dependency]]\nname = \"d\"\nscope = \"fleet\"\n{keys}");
        let mut errors = errors(&text);
        assert_eq!(errors.len(), 1, "{errors:#?}");
        let (_, message, help) = errors.remove(0);
        (message, help)
    };

    let (message, help) = error("concurrency = 3\n");
    assert!(
        message.contains("3 calls cannot be divided among 4 gateways"),
        "{message}"
    );
    assert!(
        help.contains("\"closed\"") && help.contains("limit_nodes"),
        "{help}"
    );
    let (message, help) = error("concurrency = 8\nlease = \"100ms\"\n");
    assert!(message.contains("shorter than 500 ms"), "{message}");
    assert!(help.contains("500ms"), "{help}");
}

#[test]
fn the_summary_says_what_holds_over_all_gateways() {
    let setup = setup(&format!(
        "{STORE}{MINIMAL}[[dependency]]\nname = \"db\"\nconcurrency = 8\nscope = \"fleet\"\n"
    ));

    let page = Summary(&setup).to_string();

    for line in [
        "  calls     8 at once, the next waits for 50ms at most; over all gateways",
        "what a gateway held that dies is back after 5s",
        "2 calls at once on each of 4 gateways, 14 together at most, and 8 more where some still have it",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[test]
fn the_summary_says_what_a_dependency_takes() {
    let setup = setup(&format!(
        "{MINIMAL}[[dependency]]\nname = \"recs\"\nurl = \"http://h:1\"\nlisten = \"127.0.0.1:9101\"\n\
         concurrency = 8\nrate = \"100/s\"\n"
    ));

    let page = Summary(&setup).to_string();

    for line in [
        "dependency recs",
        "  egress    127.0.0.1:9101 to http://h:1, an answer within 1s",
        "  calls     8 at once, the next waits for 50ms at most; 100/s with a burst of 100; on each gateway",
        "  breaker   after 5 failures in a row no calls for 500ms, up to 5s while it does not answer",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[test]
fn a_route_names_dependencies_that_there_are() {
    let text = |name: &str| {
        format!(
            "{MINIMAL}[[app.route]]\nname = \"r\"\npath = \"/r\"\ndependency = [\"{name}\"]\n\
             [[dependency]]\nname = \"a\"\nconcurrency = 1\n[[dependency]]\nname = \"recs\"\nconcurrency = 1\n"
        )
    };

    assert_eq!(plan(&text("recs")).apps[0].routes[0].dependencies, [1]);
    let (_, message, help) = errors(&text("rec")).remove(0);
    assert!(
        message.contains("no dependency called \"rec\""),
        "{message}"
    );
    assert_eq!(help, "did you mean \"recs\"?");
}

#[test]
fn a_dependency_that_nobody_can_call_is_a_warning() {
    let warned = |dependency: &str, more: &str| {
        let text =
            format!("{MINIMAL}{more}[[dependency]]\nname = \"d\"\nconcurrency = 1\n{dependency}");
        let page = Summary(&setup(&text)).to_string();
        page.contains("nothing is ever counted")
    };

    assert!(warned("", ""));
    let url = "url = \"http://d.internal:80\"\nlisten = \"127.0.0.1:9101\"\n";
    assert!(!warned(url, ""));
    assert!(!warned(
        "",
        "[sidecar]\nlisten = \"unix:/run/tidegate/side.sock\"\n"
    ));
    let route = "[[app.route]]\nname = \"r\"\npaths = [\"/r\"]\ndependency = [\"d\"]\n";
    assert!(!warned("", route));
    let other = "[[dependency]]\nname = \"e\"\nconcurrency = 1\n".to_owned() + url;
    assert!(warned("", &other));
}
