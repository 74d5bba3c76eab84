use super::*;

const S1: &str = r#"
    id = "S1"
    title = "half as much again as 100 slots can do"
    length = "60s"
    warm_up = "30s"
    app = { kind = "slots", slots = 100, route = [{ name = "page", service = { kind = "constant", mean = "50ms" } }] }

    [[traffic]]
    name = "users"
    rate = 2100
    class = "signed-in"

    [[traffic]]
    name = "batch"
    rate = 900
    class = "background"
"#;

fn read(text: &str) -> Scenario {
    toml::from_str(text).unwrap()
}

fn policy(name: &str) -> Policy {
    Policy::named(name).unwrap()
}

#[test]
fn without_protection_everything_is_late_in_the_end() {
    let record = run(&read(S1), &policy("none"), 1);

    let late = record.window(Duration::from_secs(30), Duration::from_secs(60));
    assert_eq!((late.goodput(None), late.wasted()), (0.0, 2000.0));
    assert!(late.queue_most() > 55_000);
}
