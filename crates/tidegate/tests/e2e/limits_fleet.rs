//! Limits over a fleet, through the real binary: two gateways with one store.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_lab::peers::RedisServer;

use crate::backend::Backend;
use crate::client::{Answer, ask, get};
use crate::limit_command::{json, refused, said};
use crate::process::{PATIENCE, TempDir, Tidegate};

/// A gateway before `upstream` with these limits, whose store is `redis`; ready when the store has answered it.
fn gateway(directory: &TempDir, redis: &RedisServer, upstream: &str, limits: &str) -> Tidegate {
    let configuration = format!(
        "limit_nodes = 2\n[store]\nurl = \"redis://{}\"\n[trust]\nproxies = [\"127.0.0.0/8\"]\n\
         [[app]]\nname = \"shop\"\nupstream = \"http://{upstream}\"\nworkers = 8\nqueue_max = 0\n{limits}",
        redis.address()
    );
    let tidegate = Tidegate::start(directory, &configuration);
    until("the store is not found", || {
        let answered = "tidegate_rate_store_calls_total{mode=\"divided\",outcome=\"answered\"}";
        metric(&tidegate, answered) > 0
    });
    tidegate
}

/// Two of them before one application.
struct Fleet {
    redis: RedisServer,
    gateways: [Tidegate; 2],
    _backend: Backend,
    _directories: [TempDir; 2],
}

impl Fleet {
    fn start(limits: &str) -> Self {
        let (redis, backend) = (RedisServer::plain().unwrap(), Backend::start());
        let directories = [TempDir::new(), TempDir::new()];
        let upstream = backend.address.to_string();
        let gateways = directories
            .each_ref()
            .map(|directory| gateway(directory, &redis, &upstream, limits));
        Self {
            redis,
            gateways,
            _backend: backend,
            _directories: directories,
        }
    }

    /// How many of `count` requests of one client pass that come to both by turns; the others are over a limit.
    fn passed(&self, count: usize) -> usize {
        let answers = (0..count).map(|number| from(&self.gateways[number % 2], "203.0.113.1"));
        let passed = answers.map(|answer| match answer.status {
            200 => true,
            429 => false,
            other => panic!("answered {other}"),
        });
        passed.filter(|&passed| passed).count()
    }
}

fn from(tidegate: &Tidegate, client: &str) -> Answer {
    let headers = [("x-forwarded-for", client)];
    ask(tidegate.clients, "GET", "/", &headers, b"")
}

fn until(otherwise: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{otherwise}");
        thread::park_timeout(Duration::from_millis(10));
    }
}

/// The sample of `/metrics` with this name and these labels, 0 if there is none.
fn metric(tidegate: &Tidegate, series: &str) -> u64 {
    let metrics = get(tidegate.admin, "/metrics").text();
    let of = |line: &str| line.strip_prefix(series)?.trim().parse().ok();
    metrics.lines().find_map(of).unwrap_or(0)
}

fn limit(rate: &str, keys: &str) -> String {
    format!("[[limit]]\nname = \"all\"\nrate = \"{rate}\"\nscope = \"fleet\"\n{keys}\n")
}

#[test]
fn asked_of_the_store_exactly_as_many_pass_at_all_gateways_together() {
    let fleet = Fleet::start(&limit("10/day", "mode = \"shared\""));

    assert_eq!(fleet.passed(30), 10);

    let refused = from(&fleet.gateways[0], "203.0.113.1");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((8_000..=8_640).contains(&wait), "{wait}");
    assert_eq!(refused.header("tidegate-reason"), Some("rate_limited"));
    // Another client has its own.
    assert_eq!(from(&fleet.gateways[1], "203.0.113.2").status, 200);
}

#[test]
fn by_leases_no_more_pass_and_hardly_fewer() {
    let fleet = Fleet::start(&limit("100/day", ""));

    let passed = fleet.passed(200);

    // A chunk is a tenth of the burst, and each gateway may have one left.
    assert!((80..=100).contains(&passed), "{passed}");
    let asked = "tidegate_rate_store_calls_total{mode=\"lease\",outcome=\"answered\"}";
    let asked: u64 = fleet.gateways.iter().map(|it| metric(it, asked)).sum();
    assert!((2..=120).contains(&asked), "{asked}");
}

#[test]
fn by_reports_it_is_passed_by_no_more_than_is_unreported() {
    let keys = "mode = \"aggregate\"\nreport_every = \"20ms\"";
    let fleet = Fleet::start(&limit("50/day", keys));

    let passed = fleet.passed(200);

    // What another gateway has spent since it last reported, at most the burst, may pass once more.
    assert!((50..=100).contains(&passed), "{passed}");
    let reports = "tidegate_rate_store_calls_total{mode=\"aggregate\",outcome=\"answered\"}";
    until("nothing was reported", || {
        fleet.gateways.iter().all(|it| metric(it, reports) > 0)
    });
}

#[test]
fn of_a_divided_limit_each_gateway_lets_its_part_pass() {
    let fleet = Fleet::start(&limit("100/s", "mode = \"divided\""));
    until("the gateways do not find each other", || {
        let part = |it: &Tidegate| metric(it, "tidegate_rate_fleet_part");
        fleet.gateways.iter().all(|it| part(it) == 2)
    });

    let begun = Instant::now();
    let (mut asked, mut passed) = (0, 0);
    while begun.elapsed() < Duration::from_secs(2) {
        asked += 1;
        passed += u64::from(from(&fleet.gateways[0], "203.0.113.1").status == 200);
    }

    // Half of the burst and half of the rate, though the other gateway has nothing to do.
    let most = 50 + begun.elapsed().as_micros() as u64 * 50 / 1_000_000 + 1;
    let least = asked.min(10);
    assert!((least..=most).contains(&passed), "{passed} of {most}");
}

#[test]
fn a_request_that_does_not_reach_the_application_costs_nothing() {
    let redis = RedisServer::plain().unwrap();
    let directory = TempDir::new();
    // Nobody listens there.
    let tidegate = gateway(
        &directory,
        &redis,
        "127.0.0.1:1",
        &limit("1/day", "mode = \"shared\""),
    );
    assert_eq!(from(&tidegate, "203.0.113.1").status, 502);

    until("the token does not come back", || {
        from(&tidegate, "203.0.113.1").status == 502
    });
}

#[test]
fn while_the_store_is_away_each_limit_does_what_it_says() {
    let limits = ["local", "open", "closed"].map(|on_loss| {
        format!(
            "[[limit]]\nname = \"{on_loss}\"\nrate = \"10/day\"\nkey = [{{ header = \"X-{on_loss}\" }}]\n\
             absent = \"skip\"\nscope = \"fleet\"\nmode = \"shared\"\non_store_loss = \"{on_loss}\"\n"
        )
    });
    let mut fleet = Fleet::start(&limits.concat());
    let request = |fleet: &Fleet, on_loss: &str| {
        let headers = [(on_loss, "somebody")];
        ask(fleet.gateways[0].clients, "GET", "/", &headers, b"")
    };
    for on_loss in ["x-local", "x-open", "x-closed"] {
        assert_eq!(request(&fleet, on_loss).status, 200);
    }

    fleet.redis.kill().unwrap();

    let refused = request(&fleet, "x-closed");
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("tidegate-reason"), Some("limit_store_away"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    for _ in 0..30 {
        assert_eq!(request(&fleet, "x-open").status, 200);
        let local = request(&fleet, "x-local").status;
        assert!([200, 429].contains(&local), "{local}");
    }
    // Half of the burst of ten for each of two gateways, or less for one that has only just become a member.
    let passed = "tidegate_rate_store_lost_total{limit=\"local\",outcome=\"passed\"}";
    assert!(metric(&fleet.gateways[0], passed) <= 5);

    fleet.redis.restart().unwrap();

    until("the store is not found again", || {
        request(&fleet, "x-closed").status == 200
    });
}

#[test]
fn a_reported_limit_that_is_to_let_nothing_pass_without_the_store_does_not_for_keys_that_are_new_either()
 {
    let keys = "key = [\"client\"]\nmode = \"aggregate\"\non_store_loss = \"closed\"";
    let mut fleet = Fleet::start(&limit("10/day", keys));
    let mut number = 0;
    // A client that never came before.
    let mut stranger = || {
        number += 1;
        format!("203.0.{}.{}", number / 250, number % 250)
    };
    assert_eq!(from(&fleet.gateways[0], &stranger()).status, 200);
    assert_eq!(from(&fleet.gateways[0], CLIENT).status, 200);

    fleet.redis.kill().unwrap();

    let begun = Instant::now();
    while from(&fleet.gateways[0], &stranger()).status == 200 {
        assert!(begun.elapsed() < PATIENCE, "everybody passes");
    }
    // Through several times that what was not answered is sent once more.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2_500) {
        for client in [&stranger(), CLIENT] {
            let refused = from(&fleet.gateways[0], client);
            assert_eq!(refused.status, 503, "{client}");
            assert_eq!(refused.header("tidegate-reason"), Some("limit_store_away"));
            assert_eq!(refused.header("retry-after"), Some("1"));
        }
        thread::park_timeout(Duration::from_millis(5));
    }
    let closed = "tidegate_rate_store_lost_total{limit=\"all\",outcome=\"closed\"}";
    assert!(metric(&fleet.gateways[0], closed) > 0);

    fleet.redis.restart().unwrap();

    until("the store is not found again", || {
        from(&fleet.gateways[0], CLIENT).status == 200
    });
    assert_eq!(from(&fleet.gateways[0], &stranger()).status, 200);
}

#[test]
fn reported_limits_that_go_on_without_the_store_do_so_for_keys_that_are_new() {
    let limits = ["local", "open"].map(|on_loss| {
        format!(
            "[[limit]]\nname = \"{on_loss}\"\nrate = \"10/day\"\nkey = [{{ header = \"X-{on_loss}\" }}]\n\
             absent = \"skip\"\nscope = \"fleet\"\nmode = \"aggregate\"\non_store_loss = \"{on_loss}\"\n"
        )
    });
    let mut fleet = Fleet::start(&limits.concat());
    let passed = |fleet: &Fleet, header: &str, who: &str| {
        let statuses = (0..30).map(|_| {
            let headers = [(header, who)];
            ask(fleet.gateways[0].clients, "GET", "/", &headers, b"").status
        });
        statuses.filter(|&status| status == 200).count()
    };
    fleet.redis.kill().unwrap();
    let failed = || {
        let failed = "tidegate_rate_store_calls_total{mode=\"aggregate\",outcome=\"failed\"}";
        metric(&fleet.gateways[0], failed)
    };
    for header in ["x-local", "x-open"] {
        let before = failed();
        let headers = [(header, "a")];
        let first = ask(fleet.gateways[0].clients, "GET", "/", &headers, b"");
        assert_eq!(first.status, 200, "{header}");
        until("its report is not missed", || failed() > before);
    }

    assert_eq!(passed(&fleet, "x-open", "a"), 30);
    // What is left of the burst that it may leave unreported, unless a second without an answer is over by now; and its
    // part of the burst, or less for one that has only just become a member.
    let local = passed(&fleet, "x-local", "a");
    assert!((1..=14).contains(&local), "{local}");
}

const CLIENT: &str = "203.0.113.1";

/// What one gateway says of the client's key.
fn state(tidegate: &Tidegate) -> serde_json::Value {
    json(tidegate, &["show", "all", CLIENT])["states"][0].clone()
}

#[test]
fn what_is_used_in_the_store_is_shown_by_each_gateway_and_who_is_refused_by_the_one_that_refuses() {
    let fleet = Fleet::start(&limit("10/day", "mode = \"shared\""));
    assert_eq!(fleet.passed(30), 10);

    for gateway in &fleet.gateways {
        let state = state(gateway);
        assert_eq!(
            (&state["used"], &state["remaining"]),
            (&10.into(), &0.into())
        );
        let top = json(gateway, &["top", "all"]);
        let (refused, spent) = (&top["refused"][0], &top["spent"][0]);
        assert_eq!(
            (&refused["count"], &refused["used"]),
            (&10.into(), &10.into())
        );
        assert_eq!(
            (&spent["count"], &spent["key"]),
            (&5.into(), &serde_json::json!([CLIENT]))
        );
    }
    let page = said(&fleet.gateways[0], &["show", "all", CLIENT]);
    for line in [
        "scope      all gateways, shared\n",
        "counted    in the store, for all gateways\n",
        "used       10\n",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }
    let metrics = get(fleet.gateways[0].admin, "/metrics").text();
    assert!(!metrics.contains(CLIENT), "{metrics}");
}

#[test]
fn a_key_of_the_fleet_is_reset_in_the_store_and_it_is_said_what_stays() {
    let fleet = Fleet::start(&limit("10/day", "mode = \"shared\""));
    assert_eq!(fleet.passed(30), 10);

    let done = said(&fleet.gateways[0], &["reset", "all", CLIENT, "--yes"]);

    assert!(
        done.starts_with("all is reset for 203.0.113.1: 10 was used before\nbut another gateway"),
        "{done}"
    );
    assert_eq!(from(&fleet.gateways[0], CLIENT).status, 200);
    until("the other gateway does not hear of it", || {
        from(&fleet.gateways[1], CLIENT).status == 200
    });
    assert_eq!(state(&fleet.gateways[1])["used"], 2);
}

#[test]
fn a_reset_key_is_leased_anew_and_what_was_ahead_of_it_does_not_come_back() {
    let fleet = Fleet::start(&limit("100/day", ""));
    let [gateway, other] = &fleet.gateways;
    let passed = fleet.passed(200) as u64;
    let before = state(gateway);
    let (used, ahead) = (
        before["used"].as_u64().unwrap(),
        before["ahead"].as_u64().unwrap(),
    );
    assert!(used >= passed && used <= 100, "{passed}: {before}");
    assert!(ahead <= used - passed, "{passed}: {before}");

    for it in [gateway, other] {
        said(it, &["reset", "all", CLIENT, "--yes"]);
    }

    assert_eq!(state(gateway)["used"], 0);
    let again = fleet.passed(200);
    assert!((80..=100).contains(&again), "{again}");
    let used = state(other)["used"].as_u64().unwrap();
    assert!((again as u64..=100).contains(&used), "{again}: {used}");
}

#[test]
fn of_a_divided_limit_a_gateway_shows_and_resets_its_part() {
    let fleet = Fleet::start(&limit("100/s", "mode = \"divided\""));
    until("the gateways do not find each other", || {
        let part = |it: &Tidegate| metric(it, "tidegate_rate_fleet_part");
        fleet.gateways.iter().all(|it| part(it) == 2)
    });
    let gateway = &fleet.gateways[0];
    until("the part does not fill", || {
        state(gateway)["remaining"] == 50
    });

    let shown = json(gateway, &["show", "all", CLIENT]);
    assert_eq!(shown["mode"], "divided");
    assert_eq!(shown["states"][0]["used"], 0);
    let done = json(gateway, &["reset", "all", CLIENT, "--yes"]);

    let left = done["left"].as_str().unwrap();
    assert!(left.contains("parts of the other gateways"), "{left}");
    assert_eq!(from(gateway, CLIENT).status, 200);
}

#[test]
fn what_is_reported_is_shown_and_reset_and_without_the_store_it_is_not_known() {
    let keys = "mode = \"aggregate\"\nreport_every = \"20ms\"";
    let mut fleet = Fleet::start(&limit("50/day", keys));
    fleet.passed(200);
    let [gateway, other] = &fleet.gateways;
    until("not all is reported", || {
        [gateway, other]
            .iter()
            .all(|it| state(it)["unreported"] == 0)
    });
    assert_eq!(state(gateway)["remaining"], 0);
    assert_eq!(from(gateway, CLIENT).status, 429);

    said(gateway, &["reset", "all", CLIENT, "--yes"]);

    assert_eq!(from(gateway, CLIENT).status, 200);
    until("the other gateway does not hear of it", || {
        from(other, CLIENT).status == 200
    });
    fleet.redis.kill().unwrap();
    let why = refused(&fleet.gateways[0], &["show", "all", CLIENT]);
    assert!(why.contains("limit_store_away"), "{why}");
    let top = json(&fleet.gateways[0], &["top", "all"]);
    assert_eq!(top["spent"][0]["key"], serde_json::json!([CLIENT]));
    assert_eq!(top["spent"][0]["used"], serde_json::Value::Null);
    let page = said(&fleet.gateways[0], &["top", "all"]);
    assert!(page.contains(" ? "), "{page}");
}
