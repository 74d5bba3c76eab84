use super::*;

fn scenario() -> Scenario {
    toml::from_str(
        r#"
        id = "T"
        title = "a test"
        length = "10s"
        [[traffic]]
        name = "people"
        rate = 100.0
        [app]
        kind = "slots"
        slots = 40
        [[app.route]]
        name = "page"
        service = { kind = "constant", mean = "50ms" }
        "#,
    )
    .unwrap()
}

#[test]
fn every_name_is_known_and_keeps_itself() {
    for name in Policy::PEERS {
        let family = name.replace(":100", ":N");
        assert!(Policy::ALL.contains(&&*family), "{name}");
    }
    for name in Policy::ALL {
        let name = name.replace(":N", ":40");

        let policy = Policy::named(&name).unwrap();

        assert_eq!(policy.name(), name);
        assert!(policy.admission(&scenario(), 1).snapshot().limit > 0);
    }
}

#[test]
fn an_unknown_name_is_answered_with_all_names_and_the_nearest() {
    let error = Policy::named("gradient-2").unwrap_err().to_string();

    assert!(error.contains("did you mean gradient2?"), "{error}");
    assert!(error.contains(", none, fixed:N, aimd"), "{error}");
    for name in ["", "qqq", "fixed:0", "fixed:x", "fixed", "fixed:-1"] {
        let error = Policy::named(name).unwrap_err();
        assert_eq!(
            error.nearest.is_some(),
            name.starts_with("fixed"),
            "{error}"
        );
    }
}

#[test]
fn limits_of_others_have_no_queue_and_queues_of_others_have_the_workers_as_their_limit() {
    let scenario = scenario();
    for name in ["none", "fixed:7", "aimd", "vegas", "gradient2"] {
        assert_eq!(Policy::named(name).unwrap().config(&scenario).queue_max, 0);
    }
    for name in ["deadline", "bounded", "codel"] {
        let policy = Policy::named(name).unwrap();
        assert_eq!(policy.limit(&scenario, 1).limit(), 40, "{name}");
    }
    let bounded = Policy::named("bounded").unwrap();
    assert_eq!(bounded.config(&scenario).queue_max, 260);
}
