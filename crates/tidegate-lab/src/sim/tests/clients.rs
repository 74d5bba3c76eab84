//! Patience, and what comes after it.

use super::{run_under, scenario, whole};

/// One worker that takes `service`; somebody who waits for a second asks at `from`.
fn one_worker(service: &str, traffic: &str) -> String {
    format!(
        r#"
        app = {{ kind = "slots", slots = 1, route = [{{ name = "page", service = {{ kind = "constant", mean = "{service}" }} }}] }}
        [[traffic]]
        name = "somebody"
        arrivals = {{ kind = "bursts", size = 1 }}
        {traffic}
        "#
    )
}

#[test]
fn an_impatient_client_asks_again_and_its_old_work_goes_on() {
    let text = one_worker("1500ms", "retry = { attempts = 3 }");
    let scenario = scenario("10s", &text);

    let record = run_under("none", &scenario);

    let gave_up: Vec<usize> = (0..100)
        .filter(|&at| record.bins[at].timed_out.iter().sum::<u32>() > 0)
        .collect();
    assert_eq!(gave_up, [10, 20, 30]);
    let wasted: Vec<usize> = (0..100).filter(|&at| record.bins[at].wasted > 0).collect();
    assert_eq!(wasted, [15, 30, 45]);
    assert_eq!(whole(&record).goodput(None), 0.0);
}

#[test]
fn a_slot_stays_taken_for_a_client_who_has_gone() {
    let text = one_worker("1500ms", "retry = { attempts = 3 }");
    let scenario = scenario("10s", &text);

    let record = run_under("fixed:1", &scenario);

    // The first retry comes a moment after one second, while the first attempt is worked on.
    assert_eq!(record.bins[10].refused.iter().sum::<u32>(), 2);
    assert_eq!(whole(&record).failures(None), 3);
    assert_eq!(whole(&record).wasted() * 10.0, 1.0);
}

#[test]
fn an_answer_in_the_last_moment_of_patience_is_in_time() {
    let record = run_under("none", &scenario("5s", &one_worker("1s", "")));

    assert_eq!(whole(&record).latencies().count(), 1);
    assert_eq!(whole(&record).failures(None), 0);
}

#[test]
fn who_never_got_an_answer_is_counted_when_the_run_ends() {
    let record = run_under("none", &scenario("5s", &one_worker("1h", "")));

    assert_eq!(record.bins[10].timed_out.iter().sum::<u32>(), 1);
    assert_eq!(whole(&record).failures(None), 1);
}

#[test]
fn the_same_clients_come_under_every_policy() {
    let scenario = scenario(
        "20s",
        r#"
        app = { kind = "slots", slots = 100, route = [{ name = "page", service = { kind = "constant", mean = "50ms" } }] }
        [[traffic]]
        name = "users"
        rate = 2100
        class = "signed-in"
        retry = { attempts = 2, retry_after = true }
        [[traffic]]
        name = "batch"
        rate = 900
        class = "background"
        "#,
    );

    let records = ["none", "fixed:100", "aimd", "tidegate"].map(|name| run_under(name, &scenario));

    for record in &records {
        assert!(
            record
                .bins
                .iter()
                .zip(&records[0].bins)
                .all(|(one, other)| one.first == other.first)
        );
    }
}

#[test]
fn a_rate_that_changes_neither_loses_nor_makes_up_arrivals() {
    let scenario = scenario(
        "30s",
        r#"
        app = { kind = "sharing", cores = 8, route = [{ name = "page", service = { kind = "constant", mean = "1ms" } }] }
        [[traffic]]
        name = "even"
        rate = 10
        arrivals = { kind = "fixed" }
        change = [{ at = "9950ms", rate = 0 }, { at = "20s", rate = 1000 }]
        until = "25s"
        [[traffic]]
        name = "random"
        rate = 1000
        class = "background"
        change = [{ at = "10s", rate = 0 }, { at = "20s", rate = 2000 }]
        "#,
    );

    let record = run_under("none", &scenario);

    // Half a gap was over when the rate dropped; the other half is half a gap of the new rate.
    let first = |class: usize, from: usize, to: usize| -> u32 {
        record.bins[from..to]
            .iter()
            .map(|bin| bin.first[class])
            .sum()
    };
    assert_eq!([first(2, 0, 100), first(2, 100, 200)], [100, 0]);
    assert_eq!([first(2, 200, 250), first(2, 250, 300)], [5000, 0]);
    assert_eq!(first(4, 100, 200), 0);
    assert!((9700..10_300).contains(&first(4, 0, 100)));
    assert!((19_500..20_500).contains(&first(4, 200, 300)));
}

/// Everything that can go wrong does: the application stalls, fails and is full; the gateways
/// compete, and one of them is restarted with work in it.
const TROUBLE: &str = r#"
    gateways = { count = 3, arrangement = "alone", restarted_at = "9s" }
    [app]
    kind = "slots"
    slots = 20
    backlog_max = 25
    [[app.route]]
    name = "page"
    service = { kind = "lognormal", mean = "40ms", sigma = 1.0 }
    [[fault]]
    kind = "stall"
    at = "3s"
    for = "2s"
    [[fault]]
    kind = "fail-fast"
    at = "6s"
    until = "8s"
    share = 0.3
    takes = "1ms"
    [[traffic]]
    name = "persistent"
    rate = 600
    until = "20s"
    patience = "300ms"
    retry = { attempts = 3, pause = { kind = "backoff", base = "100ms", most = "1s", jitter = true }, retry_after = true }
    [[traffic]]
    name = "patient"
    class = "background"
    rate = 200
    until = "20s"
    patience = "700ms"
"#;

#[test]
fn every_attempt_ends_once_whatever_happens() {
    let scenario = scenario("60s", TROUBLE);

    for policy in ["none", "fixed:40", "gradient2", "tidegate"] {
        let record = run_under(policy, &scenario);

        let all = whole(&record);
        let attempts = (all.offered(None) * all.length().as_secs_f64()).round() as u64;
        let good = all.latencies().count();
        assert_eq!(good + all.failures(None), attempts, "{policy}");
        let last = record.bins.last().unwrap();
        assert_eq!((last.in_flight, last.queued, last.backlog), (0, 0, 0));
        assert!(record.bins[90].failed.iter().sum::<u32>() > 0, "{policy}");
    }
}
