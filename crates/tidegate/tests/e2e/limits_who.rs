//! Rate limits by who asks (a network, an API key, a token) and by what an answer says that it has cost, through the
//! real binary.

use serde_json::Value;
use tidegate_lab::peers::RedisServer;

use crate::backend::Backend;
use crate::client::{Answer, ask, get};
use crate::limit_command::{json, refused, said};
use crate::process::{PATIENCE, TempDir, Tidegate, output};

// The keys are a secret and a public one, made for these tests with OpenSSL, and so are the tokens. They say
// {"iss":"https://id.example","aud":["shop","other"],"sub":"anna","plan":7,"exp":4102444800}.
const KEYS: &str = concat!(
    r#"{"keys": [{"kty": "oct", "kid": "h", "k": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdH"#,
    r#"h8"}, {"kty": "EC", "kid": "e", "crv": "P-256", "x": "AHBdJd7BwnLZtZ573XJaz1f6wuZcPX"#,
    r#"gjL8ziBj1Gkdo", "y": "V7V3EENZD7J6xoyuZybbivu31dj1QgibbHZBKd28bkg"}]}"#,
);
const HS256: &str = concat!(
    "eyJhbGciOiJIUzI1NiIsImtpZCI6ImgifQ.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOlsic",
    "2hvcCIsIm90aGVyIl0sInN1YiI6ImFubmEiLCJwbGFuIjo3LCJleHAiOjQxMDI0NDQ4MDB9.xn_WkvCGufRW",
    "8-_NvR5JXtg58sljoY_idLLf5Kzp5_0",
);
const ES256: &str = concat!(
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUifQ.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOlsic",
    "2hvcCIsIm90aGVyIl0sInN1YiI6ImFubmEiLCJwbGFuIjo3LCJleHAiOjQxMDI0NDQ4MDB9.rX-JUUF1v8mN",
    "cA3Opesxl38cSMe3t-3ODpBLAbvZ5aRooQNYbcmRzW_NxTCBUcYigDqifw9aaYAKTZqcn0mvcQ",
);

/// A gateway before `backend` that believes this machine.
fn gateway(directory: &TempDir, backend: &Backend, top: &str, limits: &str) -> Tidegate {
    let configuration = format!(
        "{top}[trust]\nproxies = [\"127.0.0.0/8\"]\n\
         [[app]]\nname = \"shop\"\nupstream = \"http://{}\"\nworkers = 8\nresponse_timeout = \"100ms\"\n{limits}",
        backend.address
    );
    Tidegate::start(directory, &configuration)
}

fn with(tidegate: &Tidegate, path: &str, headers: &[(&str, &str)]) -> Answer {
    ask(tidegate.clients, "GET", path, headers, b"")
}

/// How many of 10 such requests pass.
fn passed(tidegate: &Tidegate, headers: &[(&str, &str)]) -> usize {
    let statuses = (0..10).map(|_| with(tidegate, "/", headers).status);
    statuses.filter(|&status| status == 200).count()
}

fn used(tidegate: &Tidegate, args: &[&str]) -> u64 {
    let shown = json(tidegate, &[&["show"], args].concat());
    let state = &shown["states"][0];
    state["used"].as_u64().unwrap() - state["ahead"].as_u64().unwrap_or(0)
}

fn until(otherwise: &str, is: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{otherwise}");
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
}

#[test]
fn all_clients_in_a_network_with_a_name_count_together() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let tidegate = gateway(
        &directory,
        &backend,
        "",
        "[[network]]\nname = \"office\"\naddresses = [\"198.51.100.0/24\", \"2001:db8::/32\"]\n\
         [[network]]\nname = \"lab\"\naddresses = [\"198.51.100.128/25\"]\n\
         [[limit]]\nname = \"site\"\nrate = \"5/day\"\nkey = [\"network\"]\nabsent = \"skip\"\n",
    );
    let from = |client: &str| passed(&tidegate, &[("x-forwarded-for", client)]);

    assert_eq!(from("198.51.100.7"), 5);
    assert_eq!(from("198.51.100.8"), 0);
    assert_eq!(from("2001:db8:7::1"), 0);
    assert_eq!(from("198.51.100.200"), 5, "the smaller network has its own");
    assert_eq!(from("203.0.113.1"), 10, "who is in none is not limited");
    assert_eq!(used(&tidegate, &["site", "office"]), 5);
}

#[test]
fn an_api_key_has_a_limit_of_its_own_and_is_shown_nowhere() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let redis = RedisServer::plain().unwrap();
    let log = directory.path().join("log");
    let configuration = format!(
        "[store]\nurl = \"redis://{}\"\n[[app]]\nname = \"shop\"\nupstream = \"http://{}\"\nworkers = 8\n\
         [[limit]]\nname = \"here\"\nrate = \"5/day\"\nkey = [{{ api_key = \"X-Api-Key\" }}]\nabsent = \"deny\"\n\
         [[limit]]\nname = \"all\"\nrate = \"100/day\"\nkey = [{{ api_key = \"X-Api-Key\" }}]\nabsent = \"skip\"\n\
         scope = \"fleet\"\nmode = \"shared\"\n",
        redis.address(),
        backend.address
    );
    directory.write("tidegate.toml", &configuration);
    let tidegate = Tidegate::start_logging(&directory, "trace", &log);
    until("the store is not found", || {
        passed(&tidegate, &[("x-api-key", "warm-up-key")]) == 0
            && json(&tidegate, &["top", "all"])["spent"][0]["used"].is_u64()
    });

    assert_eq!(passed(&tidegate, &[("x-api-key", "sk-live-7")]), 5);
    assert_eq!(passed(&tidegate, &[("x-api-key", "sk-live-8")]), 5);
    let without = with(&tidegate, "/", &[]);
    assert_eq!(
        (without.status, without.header("tidegate-reason")),
        (403, Some("rate_never"))
    );

    for limit in ["here", "all"] {
        let top = json(&tidegate, &["top", limit]);
        let mut rows = top["spent"].as_array().unwrap().iter();
        // The first requests came before the store was found.
        let row = rows.find(|row| row["used"] == 5).unwrap();
        let hash = row["key"][0].as_str().unwrap().to_owned();
        assert_eq!(hash.len(), 32, "{top}");
        assert_eq!(used(&tidegate, &[limit, &hash]), 5);
        let why = refused(&tidegate, &["show", limit, "sk-live-7"]);
        assert!(
            why.contains("no hash of an API key") && !why.contains("sk-live"),
            "{why}"
        );
        said(&tidegate, &["reset", limit, &hash, "--yes"]);
        assert_eq!(used(&tidegate, &[limit, &hash]), 0);
        assert!(!top.to_string().contains("sk-live"), "{top}");
    }
    let metrics = get(tidegate.admin, "/metrics").text();
    assert!(!metrics.contains("sk-live"));
    let kept = format!("{:?}", redis.ask(&["KEYS", "*"]).unwrap());
    assert!(kept.contains("tg:l") && !kept.contains("sk-live"), "{kept}");
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(
        logged.contains("reset") && !logged.contains("sk-live"),
        "{logged}"
    );
}

#[test]
fn a_token_says_who_asks_if_it_verifies_and_nothing_if_not() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let keys = directory.write("tokens.jwks", KEYS);
    let top = format!(
        "[tokens]\nkey_file = \"{}\"\nissuer = \"https://id.example\"\naudience = \"shop\"\n",
        keys.display()
    );
    let limits = "[[limit]]\nname = \"user\"\nrate = \"5/day\"\nkey = [{ claim = \"sub\" }]\nabsent = \"shared\"\n";
    let tidegate = gateway(&directory, &backend, &top, limits);
    let shows = |token: &str| {
        let bearer = format!("Bearer {token}");
        passed(&tidegate, &[("authorization", &bearer)])
    };

    assert_eq!(shows(HS256), 5);
    assert_eq!(shows(ES256), 0, "another token of the same user");
    let (message, _) = HS256.rsplit_once('.').unwrap();
    assert_eq!(shows(&format!("{message}.AAAA")), 5, "nobody's");
    assert_eq!(passed(&tidegate, &[]), 0, "without one it is nobody's, too");
    assert_eq!(used(&tidegate, &["user", "anna"]), 5);
    assert_eq!(used(&tidegate, &["user", "-"]), 5);
}

#[test]
fn a_key_file_that_will_not_do_ends_the_start() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let keys = directory.write("tokens.jwks", "{\"keys\":[]}");
    let file = directory.write(
        "tokens.toml",
        &format!(
            "[tokens]\nkey_file = \"{}\"\n[[app]]\nupstream = \"http://{}\"\nworkers = 1\n\
             [[limit]]\nname = \"user\"\nrate = \"1/s\"\nkey = [{{ claim = \"sub\" }}]\nabsent = \"skip\"\n",
            keys.display(),
            backend.address
        ),
    );

    let file = file.to_str().unwrap();
    for command in [&["check", file][..], &["run", "--config", file]] {
        let done = output(command);
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(
            !done.status.success() && errors.contains("no key for HS256"),
            "{errors}"
        );
    }
}

const BY_ANSWER: &str = "cost = { response_header = \"X-Cost\", reserve = 10 }\nkey = []\n";

#[test]
fn an_answer_says_what_its_request_has_cost_and_one_that_does_not_has_cost_the_reserve() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let limits = format!("[[limit]]\nname = \"rows\"\nrate = \"100/day\"\n{BY_ANSWER}");
    let tidegate = gateway(&directory, &backend, "", &limits);
    let costs = |path: &str, expected: u64| {
        with(&tidegate, path, &[]);
        assert_eq!(used(&tidegate, &["rows"]), expected, "{path}");
    };

    costs("/cost/3", 3);
    costs("/cost/40", 43);
    costs("/cost/0", 43);
    costs("/", 53);
    costs("/cost/many", 63);
    costs("/hold", 73);
    // More than there is a number for leaves one burst of debt, and the debt is paid off at the rate.
    costs("/cost/99999999999999999999999", 100);
    let refused = with(&tidegate, "/", &[]);
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(refused.status, 429);
    assert!(
        (94_000..=95_040).contains(&wait),
        "110 tokens at 100 a day: {wait}"
    );
    backend.release();
}

#[test]
fn what_an_answer_costs_beyond_the_reserve_is_charged_however_gateways_share_the_limit() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let redis = RedisServer::plain().unwrap();
    let limit = |mode: &str| {
        format!(
            "[[limit]]\nname = \"{mode}\"\nrate = \"1000/day\"\nscope = \"fleet\"\nmode = \"{mode}\"\n{BY_ANSWER}"
        )
    };
    // Of this one the part of the only gateway is the whole.
    let divided =
        "[[limit]]\nname = \"divided\"\nrate = \"1000/s\"\nscope = \"fleet\"\nmode = \"divided\"\n";
    let limits = ["shared", "lease", "aggregate"].map(limit).concat();
    let top = format!("[store]\nurl = \"redis://{}\"\n", redis.address());
    let tidegate = gateway(
        &directory,
        &backend,
        &top,
        &format!("{limits}{divided}{BY_ANSWER}"),
    );
    until("the store is not found", || {
        let metrics = get(tidegate.admin, "/metrics").text();
        metrics.contains("\ntidegate_rate_fleet_part 1\n")
    });
    until("the part does not fill", || {
        json(&tidegate, &["show", "divided"])["states"][0]["remaining"] == 1000
    });
    for mode in ["shared", "lease", "aggregate"] {
        said(&tidegate, &["reset", mode, "--yes"]);
    }

    assert_eq!(with(&tidegate, "/cost/3", &[]).status, 200);
    assert_eq!(with(&tidegate, "/cost/300", &[]).status, 200);

    for mode in ["shared", "lease", "aggregate"] {
        until(mode, || used(&tidegate, &[mode]) == 303);
    }
    let part = json(&tidegate, &["show", "divided"]);
    assert!(part["states"][0]["used"].as_u64().unwrap() < 303, "{part}");
    assert_eq!(with(&tidegate, "/cost/99999", &[]).status, 200);
    let refused = with(&tidegate, "/", &[]);
    assert_eq!(refused.status, 429);
    let body: Value = serde_json::from_str(&refused.text()).unwrap();
    assert!(
        !body["violated-policies"].as_array().unwrap().is_empty(),
        "{body}"
    );
    until("a burst of debt is not in the store", || {
        let wait = json(&tidegate, &["show", "shared"])["states"][0]["wait_ms"].clone();
        // 1,010 tokens at 1,000 a day, less what has passed.
        wait.as_u64().is_some_and(|wait_ms| wait_ms > 87_000_000)
    });
}

#[test]
fn a_cost_that_is_no_number_of_ours_is_more_than_there_ever_is() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let limits =
        "[[limit]]\nname = \"l\"\nrate = \"100/day\"\nkey = []\ncost = { header = \"X-Cost\" }\n";
    let tidegate = gateway(&directory, &backend, "", limits);
    let costs = |cost: &str| {
        let answer = with(&tidegate, "/", &[("x-cost", cost)]);
        (
            answer.status,
            answer.header("tidegate-reason").map(str::to_owned),
        )
    };

    for much in [
        "101",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999",
    ] {
        assert_eq!(costs(much), (403, Some("rate_never".to_owned())), "{much}");
    }
    assert_eq!(used(&tidegate, &["l"]), 0);
    assert_eq!(costs("100").0, 200);
}

#[test]
fn a_key_that_no_token_could_be_verified_by_is_found_when_the_configuration_is_checked() {
    let directory = TempDir::new();
    let keys = directory.path().join("keys.jwks");
    let configuration = format!(
        "[tokens]\nkey_file = \"{}\"\n[[app]]\nupstream = \"http://127.0.0.1:1\"\nworkers = 1\n\
         [[limit]]\nname = \"l\"\nrate = \"1/s\"\nkey = [{{ claim = \"sub\" }}]\nabsent = \"skip\"\n",
        keys.display()
    );
    let file = directory.write("tidegate.toml", &configuration);
    directory.write("keys.jwks", KEYS);
    assert!(output(&["check", file.to_str().unwrap()]).status.success());

    // Another y than that of the point.
    directory.write("keys.jwks", &KEYS.replace("V7V3EENZ", "V7V3EENY"));
    let checked = output(&["check", file.to_str().unwrap()]);

    let errors = String::from_utf8_lossy(&checked.stderr);
    assert!(!checked.status.success(), "{errors}");
    for says in [
        "keys.jwks will not do",
        "key number 2 of `keys` is for ES256 and will not do: its x and y are no point of P-256",
    ] {
        assert!(errors.contains(says), "{errors}");
    }
    directory.write("keys.jwks", "");
    let checked = output(&["check", file.to_str().unwrap()]);
    let errors = String::from_utf8_lossy(&checked.stderr);
    assert_eq!(errors.matches("EOF").count(), 1, "{errors}");
    assert!(errors.contains("tidegate.toml:2:12\n"), "{errors}");
}

/// Limits with another rate for one of their keys.
fn overridden(more: &str) -> String {
    format!(
        "[[limit]]\nname = \"tenant\"\nrate = \"3/day\"\nkey = [{{ header = \"X-Tenant\" }}]\nabsent = \"shared\"\n{more}\n\
         [[limit.override]]\nname = \"acme\"\nkey = [\"acme\"]\nrate = \"7/day\"\n\
         [[limit.override]]\nname = \"nobody\"\nkey = [\"-\"]\nrate = \"0/s\"\n\
         [[limit.override]]\nname = \"dash\"\nkey = [\"=-\"]\nrate = \"5/day\"\n"
    )
}

fn keeps_overrides(tidegate: &Tidegate) {
    let from = |tenant: &str| passed(tidegate, &[("x-tenant", tenant)]);

    assert_eq!(from("blue"), 3);
    assert_eq!(from("acme"), 7);
    assert_eq!(from("red"), 3);
    assert_eq!(passed(tidegate, &[]), 0);

    let over = with(tidegate, "/", &[("x-tenant", "acme")]);
    let policy = over.header("ratelimit-policy").unwrap();
    assert!(policy.starts_with("\"acme\";q=7"), "{policy}");
    // Whichever of the two names is given, the key has one limit.
    for name in ["tenant", "acme"] {
        let shown = json(tidegate, &["show", name, "acme"]);
        assert_eq!(
            (&shown["limit"], &shown["rate"]),
            (&"acme".into(), &"7/day".into())
        );
        assert_eq!(shown["states"][0]["used"], 7);
    }
    // And its name is not asked for what it does not hold for.
    for verb in [&["show"][..], &["reset", "--yes"]] {
        for (name, key, alone) in [
            (
                "acme",
                "blue",
                "acme holds for acme alone, in place of tenant; ask tenant",
            ),
            ("acme", "-", "acme holds for acme alone"),
            ("nobody", "blue", "nobody holds for - alone"),
            ("dash", "-", "dash holds for =- alone"),
        ] {
            let why = refused(tidegate, &[verb, &[name, key]].concat());
            assert!(
                why.contains(alone) && why.contains("not_in_override"),
                "{why}"
            );
        }
    }
    assert_eq!(used(tidegate, &["tenant", "blue"]), 3);
    // A request that says "-" is another than one that says nothing.
    assert_eq!(from("-"), 5);
    assert_eq!(used(tidegate, &["dash", "=-"]), 5);
    assert_eq!(used(tidegate, &["tenant", "=-"]), 5);
    assert_eq!(used(tidegate, &["nobody", "-"]), 0);
    let top = said(tidegate, &["top", "dash"]);
    assert!(top.lines().any(|row| row.ends_with("  =-")), "{top}");
    let metrics = get(tidegate.admin, "/metrics").text();
    let line = "tidegate_rate_requests_total{limit=\"acme\",outcome=\"passed\"} 7";
    assert!(metrics.contains(line), "{metrics}");
    said(tidegate, &["reset", "tenant", "acme", "--yes"]);
    assert_eq!(from("acme"), 7);
}

#[test]
fn a_key_may_have_another_limit_than_all_others() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    keeps_overrides(&gateway(&directory, &backend, "", &overridden("")));
}

#[test]
fn so_may_a_key_of_a_limit_over_all_gateways() {
    let (directory, backend) = (TempDir::new(), Backend::start());
    let redis = RedisServer::plain().unwrap();
    let top = format!("[store]\nurl = \"redis://{}\"\n", redis.address());
    let fleet = "scope = \"fleet\"\nmode = \"shared\"\non_store_loss = \"closed\"";
    let tidegate = gateway(&directory, &backend, &top, &overridden(fleet));
    until("the store is not found", || {
        with(&tidegate, "/", &[("x-tenant", "warm-up")]).status == 200
    });

    keeps_overrides(&tidegate);
}
