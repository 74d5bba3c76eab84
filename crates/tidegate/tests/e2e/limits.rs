//! Rate limits, through the real binary: exactly so many pass.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::backend::Backend;
use crate::client::{Answer, ask, get};
use crate::process::{TempDir, Tidegate, output};
use crate::sessions_visitor::{App, Visitor};

/// A gateway before `backend` that believes this machine, with these limits.
fn gateway(directory: &TempDir, backend: &Backend, limits: &str) -> Tidegate {
    gateway_with(directory, backend, 8, limits)
}

fn gateway_with(directory: &TempDir, backend: &Backend, workers: u32, limits: &str) -> Tidegate {
    let address = backend.address;
    let configuration = format!(
        "[trust]\nproxies = [\"127.0.0.0/8\"]\n\
         [[app]]\nname = \"shop\"\nupstream = \"http://{address}\"\nworkers = {workers}\nqueue_max = 0\n\
         [[app.route]]\nname = \"checkout\"\npath = \"/checkout\"\n{limits}"
    );
    Tidegate::start(directory, &configuration)
}

/// A GET as the client at `client` makes it through a proxy.
fn from(tidegate: &Tidegate, client: &str, more: &[(&str, &str)]) -> Answer {
    let mut headers = vec![("x-forwarded-for", client)];
    headers.extend_from_slice(more);
    ask(tidegate.clients, "GET", "/", &headers, b"")
}

/// How many of `count` such requests pass; the others are over a limit.
fn passed(count: u32, request: impl Fn(u32) -> Answer) -> u32 {
    let statuses = (0..count).map(|number| request(number).status);
    let passed = |status| match status {
        200 => true,
        429 => false,
        other => panic!("answered {other}"),
    };
    statuses.filter(|&status| passed(status)).count() as u32
}

/// What `/status.json` says of the limit `name`: a number at this path.
fn counted(tidegate: &Tidegate, name: &str, path: &str) -> u64 {
    let status = get(tidegate.admin, "/status.json").text();
    let status: Value = serde_json::from_str(&status).unwrap();
    let limits = status["limits"].as_array().unwrap();
    let limit = limits.iter().find(|limit| limit["name"] == name).unwrap();
    limit.pointer(path).and_then(Value::as_u64).unwrap()
}

#[test]
fn a_burst_passes_and_the_next_is_told_when_to_come_back() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let tidegate = gateway(
        &directory,
        &backend,
        "[[limit]]\nname = \"day\"\nrate = \"10/day\"\n[[limit]]\nname = \"roomy\"\nrate = \"1000/s\"\n",
    );

    assert_eq!(passed(15, |_| from(&tidegate, "203.0.113.1", &[])), 10);

    // A tenth of a day, less what has passed since the burst.
    let refused = from(&tidegate, "203.0.113.1", &[]);
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((8_000..=8_640).contains(&wait), "{wait}");
    assert_eq!(refused.header("tidegate-reason"), Some("rate_limited"));
    assert_eq!(
        refused.header("ratelimit-policy"),
        Some("\"day\";q=10;w=86400")
    );
    assert_eq!(
        refused.header("ratelimit"),
        Some(format!("\"day\";r=0;t={wait}").as_str())
    );
    let body: Value = serde_json::from_str(&refused.text()).unwrap();
    assert_eq!(body["status"], 429);
    assert_eq!(body["violated-policies"], serde_json::json!(["day"]));
    assert!(!refused.text().contains("203.0.113"), "{}", refused.text());
    // Another client has its own.
    assert_eq!(passed(12, |_| from(&tidegate, "203.0.113.2", &[])), 10);
    assert_eq!(counted(&tidegate, "day", "/requests/passed"), 20);
    assert_eq!(counted(&tidegate, "day", "/requests/refused"), 8);
    assert_eq!(counted(&tidegate, "day", "/keys"), 2);
    let metrics = get(tidegate.admin, "/metrics").text();
    for line in [
        "tidegate_rate_requests_total{limit=\"day\",outcome=\"passed\"} 20",
        "tidegate_rate_keys{limit=\"day\"} 2",
        "tidegate_rate_evicted_total{limit=\"day\"} 0",
        "reason=\"rate_limited\"} 8",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[test]
fn over_any_time_no_more_passes_than_burst_and_rate_allow_and_no_less() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let limits = "[[limit]]\nname = \"refill\"\nrate = \"20/s\"\nburst = 100\n";
    let tidegate = gateway(&directory, &backend, limits);

    // From before the first request to after the last there was at least as much time as there was for the limit.
    let outside = Instant::now();
    let mut inside = None;
    let (mut count, mut asked_for) = (0_u64, 0_u64);
    let mut last = Duration::ZERO;
    while outside.elapsed() < Duration::from_secs(2) {
        let asked = outside.elapsed();
        let answer = from(&tidegate, "203.0.113.1", &[]);
        let begun = *inside.get_or_insert_with(|| outside.elapsed());
        asked_for += 1;
        count += u64::from(answer.status == 200);
        last = asked.saturating_sub(begun);
    }

    let most = 100 + outside.elapsed().as_micros() as u64 * 20 / 1_000_000;
    assert!(count <= most, "{count} of {most}");
    // Whoever asks all the time misses nothing but what came while a request was on its way.
    let least = 100 + (last.as_micros() as u64 * 20 / 1_000_000).saturating_sub(1);
    let least = least.min(asked_for);
    assert!(count >= least, "{count} of {least}");
}

#[test]
fn whoever_has_a_network_of_addresses_is_one_client() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let limits = "[[limit]]\nname = \"client\"\nrate = \"10/day\"\n";
    let tidegate = gateway(&directory, &backend, limits);

    let rotating = |number| {
        from(
            &tidegate,
            &format!("2001:db8:0:1:{number:x}::{number:x}"),
            &[],
        )
    };

    assert_eq!(passed(60, rotating), 10);
    assert_eq!(counted(&tidegate, "client", "/keys"), 1);
    assert_eq!(from(&tidegate, "2001:db8:0:2::1", &[]).status, 200);
}

#[test]
fn a_stranger_is_not_believed_about_its_address() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let address = backend.address;
    let configuration = format!(
        "[[app]]\nupstream = \"http://{address}\"\nworkers = 8\n\
         [[limit]]\nname = \"client\"\nrate = \"10/day\"\n"
    );
    let tidegate = Tidegate::start(&directory, &configuration);

    let lying = |number| from(&tidegate, &format!("198.51.100.{number}"), &[]);

    assert_eq!(passed(40, lying), 10);
    assert_eq!(counted(&tidegate, "client", "/keys"), 1);
}

#[test]
fn what_a_trusted_proxy_was_told_before_is_not_believed_either() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let limits = "[[limit]]\nname = \"client\"\nrate = \"10/day\"\n";
    let tidegate = gateway(&directory, &backend, limits);

    // The proxy adds whom it sees at the end; what is before that the client has made up.
    let lying = |number| from(&tidegate, &format!("198.51.100.{number}, 203.0.113.7"), &[]);

    assert_eq!(passed(40, lying), 10);
    assert_eq!(counted(&tidegate, "client", "/keys"), 1);
}

#[test]
fn a_request_that_admission_refuses_has_cost_nothing() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let limits = "[[limit]]\nname = \"client\"\nrate = \"5/day\"\n";
    let tidegate = gateway_with(&directory, &backend, 1, limits);
    let address = tidegate.clients;
    let client = [("x-forwarded-for", "203.0.113.1")];

    let holding = std::thread::spawn(move || ask(address, "GET", "/hold", &client, b"").status);
    backend.wait_for_arrival();
    for _ in 0..20 {
        let refused = from(&tidegate, "203.0.113.1", &[]);
        assert_eq!(
            (refused.status, refused.header("tidegate-reason")),
            (503, Some("queue_full"))
        );
    }
    backend.release();
    assert_eq!(holding.join().unwrap(), 200);

    assert_eq!(counted(&tidegate, "client", "/requests/given_back"), 20);
    let patient = |_| loop {
        // The slot of the one before may be taken for a moment yet, and that costs nothing either.
        let answer = from(&tidegate, "203.0.113.1", &[]);
        if answer.status != 503 {
            return answer;
        }
    };
    assert_eq!(passed(10, patient), 4);
}

#[test]
fn of_seventeen_limits_all_are_spent_from_or_none() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let mut limits = String::from(
        "[[limit]]\nname = \"tenant\"\nrate = \"5/day\"\nkey = [{ header = \"X-Tenant\" }]\nabsent = \"skip\"\n",
    );
    for (number, algorithm) in
        (0..16).zip(["bucket", "log", "window", "bucket"].into_iter().cycle())
    {
        limits += &format!(
            "[[limit]]\nname = \"wide{number}\"\nrate = \"7/day\"\nalgorithm = \"{algorithm}\"\n"
        );
    }
    let tidegate = gateway(&directory, &backend, &limits);
    let of = |tenant: &'static str| {
        let tidegate = &tidegate;
        move |_| from(tidegate, "203.0.113.1", &[("x-tenant", tenant)])
    };

    let first: u32 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| passed(10, of("a"))))
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum()
    });
    let second = passed(10, of("b"));

    assert_eq!((first, second), (5, 2));
    let refused = of("b")(0);
    let body: Value = serde_json::from_str(&refused.text()).unwrap();
    assert_eq!(body["violated-policies"].as_array().unwrap().len(), 16);
}

#[test]
fn a_limit_in_the_shadow_counts_and_never_refuses() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let tidegate = gateway(
        &directory,
        &backend,
        "[[limit]]\nname = \"tight\"\nrate = \"2/day\"\nshadow = true\n\
         [[limit]]\nname = \"real\"\nrate = \"5/day\"\n",
    );

    assert_eq!(passed(8, |_| from(&tidegate, "203.0.113.1", &[])), 5);

    assert_eq!(counted(&tidegate, "tight", "/requests/passed"), 2);
    assert_eq!(counted(&tidegate, "tight", "/requests/refused"), 0);
    assert_eq!(counted(&tidegate, "tight", "/requests/shadow_refused"), 6);
    assert_eq!(counted(&tidegate, "real", "/requests/refused"), 3);
}

#[test]
fn what_costs_more_than_there_ever_is_is_told_never_to_come_back() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let tidegate = gateway(
        &directory,
        &backend,
        "[[limit]]\nname = \"work\"\nrate = \"10/day\"\ncost = { header = \"X-Cost\" }\n",
    );

    let refused = from(&tidegate, "203.0.113.1", &[("x-cost", "11")]);
    assert_eq!(refused.status, 403);
    assert_eq!(refused.header("tidegate-reason"), Some("rate_never"));
    assert_eq!(refused.header("retry-after"), None);
    assert!(
        refused.text().contains("never passes"),
        "{}",
        refused.text()
    );

    assert_eq!(
        from(&tidegate, "203.0.113.1", &[("x-cost", "9")]).status,
        200
    );
    assert_eq!(
        from(&tidegate, "203.0.113.1", &[("x-cost", "2")]).status,
        429
    );
    assert_eq!(from(&tidegate, "203.0.113.1", &[]).status, 200);
    assert_eq!(from(&tidegate, "203.0.113.1", &[]).status, 429);
}

#[test]
fn a_user_has_one_limit_in_all_sessions_and_a_refusal_gives_the_slot_back() {
    let (directory, app) = (TempDir::new(), App::start());
    let (address, path) = (app.address, directory.path().display());
    let configuration = format!(
        "[sessions]\ninsecure = true\n[store]\npath = \"{path}/state\"\n\
         [[app]]\nupstream = \"http://{address}\"\nworkers = 2\n\
         [[limit]]\nname = \"user\"\nrate = \"5/day\"\nkey = [\"session\"]\nabsent = \"skip\"\n\
         [[limit]]\nname = \"client\"\nrate = \"100/day\"\n"
    );
    let tidegate = Tidegate::start(&directory, &configuration);
    let sign_in = || {
        let mut visitor = Visitor::default();
        let page = visitor.ask(tidegate.clients, "/", &["Tidegate-Rotate: uid=u7"]);
        assert_eq!(page.answer.status, 200);
        visitor
    };

    let mut visitors = [sign_in(), sign_in()];
    for at in [0, 1, 0, 1, 0] {
        let page = visitors[at].ask(tidegate.clients, "/", &[]);
        assert_eq!(page.answer.status, 200);
    }
    for at in [0, 1, 0, 1] {
        let page = visitors[at].ask(tidegate.clients, "/", &[]);
        assert_eq!(page.answer.status, 429);
    }

    assert_eq!(app.asked(), 7);
    assert_eq!(counted(&tidegate, "user", "/requests/refused"), 4);
    // What the other limit had been charged before the session was known, it has again.
    assert_eq!(counted(&tidegate, "client", "/requests/given_back"), 4);
    // Who has not signed in is not counted, and finds both slots free.
    assert_eq!(get(tidegate.clients, "/").status, 200);
}

#[test]
fn a_request_is_explained_with_the_limits_that_it_meets() {
    let directory = TempDir::new();
    let text = "[[app]]\nname = \"shop\"\nupstream = \"http://127.0.0.1:8000\"\n\
        [[app.route]]\nname = \"login\"\npath = \"/login\"\n\
        [[limit]]\nname = \"login-ip\"\nrate = \"10/min\"\nburst = 5\nroutes = [\"login\"]\n\
        [[limit]]\nname = \"all\"\nrate = \"500/s\"\nkey = []\nshadow = true\n";
    let file = directory.write("limits.toml", text);
    let file = file.to_str().unwrap();
    let said = |request: &str| {
        let explained = output(&["explain", file, request]);
        String::from_utf8(explained.stdout).unwrap()
    };

    let login = said("POST /login");
    assert!(
        login.contains(
            "limits       login-ip: 10/min with a burst of 5, for each client (IPv4 /32, IPv6 /64); before admission\n"
        ),
        "{login}"
    );
    let other = said("/");
    assert!(!other.contains("login-ip"), "{other}");
    assert!(
        other.contains(
            "limits       all: 500/s with a burst of 500, all together; before admission; it only counts\n"
        ),
        "{other}"
    );
}
