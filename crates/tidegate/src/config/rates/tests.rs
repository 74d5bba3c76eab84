use tidegate_core::rate::set::Standing;
use tidegate_core::rate::share::OnLoss;
use tidegate_gateway::rate::{Absent, Cost, FleetMode, KeyPart, LimitPlan, Stage};

use super::super::Summary;
use super::super::tests::{MINIMAL, errors, plan, setup};

const PROXIES: &str = "[trust]\nproxies = [\"10.0.0.0/8\"]\n";

fn limits(text: &str) -> Vec<LimitPlan> {
    plan(&format!("{MINIMAL}{text}")).rates.limits
}

/// The only error that a limit with these keys causes.
fn error(keys: &str) -> (String, String) {
    let text = format!("{MINIMAL}[[limit]]\nname = \"l\"\n{keys}\n");
    let mut errors = errors(&text);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    let (_, message, help) = errors.remove(0);
    (message, help)
}

#[test]
fn a_limit_is_a_name_and_a_rate_and_counts_clients() {
    let limits = limits("[[limit]]\nname = \"all\"\nrate = \"10/min\"\n");

    let [limit] = &limits[..] else {
        panic!("{limits:?}")
    };
    assert_eq!(limit.spec.most(), 10);
    assert_eq!(limit.key, [KeyPart::Client { v4: 32, v6: 64 }]);
    assert_eq!(limit.cost, Cost::Fixed(1));
    assert_eq!(
        (limit.stage, limit.standing),
        (Stage::Edge, Standing::Enforced)
    );
    assert!(plan(MINIMAL).rates.limits.is_empty());
}

#[test]
fn keys_costs_and_stages_are_what_they_are_written_as() {
    let text = format!(
        "{PROXIES}[sessions]\nkey_file = \"/k\"\n\
         [[limit]]\nname = \"a\"\nrate = \"100/s\"\nburst = 300\n\
         key = [{{ client = {{ v4 = 24, v6 = 48 }} }}, \"route\", {{ constant = \"x\" }}]\n\
         cost = {{ header = \"X-Cost\", otherwise = 3 }}\nedge = false\n\
         [[limit]]\nname = \"b\"\nrate = \"5/10s\"\nalgorithm = \"log\"\nshadow = true\n\
         key = [\"session\", {{ header = \"X-Tenant\" }}]\nabsent = \"deny\"\nroutes = [\"other\"]\n"
    );

    let limits = limits(&text);

    assert_eq!(
        limits[0].key,
        [
            KeyPart::Client { v4: 24, v6: 48 },
            KeyPart::Route,
            KeyPart::Constant("x".to_owned())
        ]
    );
    assert_eq!(
        (limits[0].spec.most(), limits[0].stage),
        (300, Stage::Known)
    );
    assert!(matches!(&limits[0].cost, Cost::Header { name, otherwise: 3 } if name == "x-cost"));
    assert_eq!(
        (limits[1].absent, limits[1].stage),
        (Absent::Deny, Stage::Known)
    );
    assert_eq!(limits[1].standing, Standing::Shadow);
    assert_eq!(limits[1].routes, ["other"]);
}

#[test]
fn who_asks_and_what_an_answer_costs_are_what_they_are_written_as() {
    let text = "[[network]]\nname = \"office\"\naddresses = [\"198.51.100.0/24\"]\n\
        [tokens]\nkey_file = \"/k.jwks\"\nissuer = \"i\"\nleeway = \"0s\"\n\
        [[limit]]\nname = \"a\"\nrate = \"100/s\"\nabsent = \"skip\"\n\
        key = [\"network\", { api_key = \"X-Key\" }, { claim = \"sub\" }]\n\
        cost = { response_header = \"X-Cost\" }\n";
    let plan = plan(&format!("{MINIMAL}{text}"));
    let (limit, tokens) = (&plan.rates.limits[0], plan.rates.tokens.unwrap());

    let KeyPart::ApiKey(header) = &limit.key[1] else {
        panic!("{limit:?}")
    };
    assert_eq!(header, "x-key");
    assert_eq!(limit.key[0], KeyPart::Network);
    assert_eq!(limit.key[2], KeyPart::Claim("sub".to_owned()));
    assert!(matches!(&limit.cost, Cost::Response { name, reserve: 1 } if name == "x-cost"));
    assert_eq!(limit.stage, Stage::Edge);
    assert_eq!(plan.rates.networks[0].addresses.len(), 1);
    assert_eq!(
        (tokens.header.as_str(), tokens.issuer.as_deref()),
        ("authorization", Some("i"))
    );
    assert!(tokens.leeway.is_zero() && tokens.audience.is_none());
}

#[test]
fn an_override_is_another_limit_for_one_key() {
    let text = "[[limit]]\nname = \"all\"\nrate = \"10/min\"\nshadow = true\n\
        [[limit.override]]\nname = \"one\"\nkey = [\"192.0.2.1\"]\nrate = \"20/min\"\nburst = 5\n\
        [[limit]]\nname = \"other\"\nrate = \"1/s\"\n";
    let limits = limits(text);

    let names: Vec<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
    assert_eq!(names, ["all", "other", "one"]);
    let instead = limits[2].instead.as_ref().unwrap();
    assert_eq!((instead.of, instead.name.as_str()), (0, "all"));
    assert_eq!(instead.key, [Some("192.0.2.1".to_owned())]);
    assert_eq!(
        (limits[2].spec.most(), limits[2].standing),
        (5, Standing::Shadow)
    );
    let summary = Summary(&setup(&format!("{MINIMAL}{text}"))).to_string();
    let line = "one: 20/min with a burst of 5, in place of all for 192.0.2.1";
    assert!(summary.contains(line), "{summary}");
}

#[test]
fn an_override_for_an_address_is_one_for_the_network_that_counts_as_it() {
    let text = "[[limit]]\nname = \"all\"\nrate = \"10/min\"\n\
        [[limit.override]]\nname = \"one\"\nkey = [\"2001:db8::7\"]\nrate = \"20/min\"\n";

    let summary = Summary(&setup(&format!("{MINIMAL}{text}"))).to_string();

    let line = "one: 20/min with a burst of 20, in place of all for 2001:db8::/64";
    assert!(summary.contains(line), "{summary}");
}

/// Keys of a limit, and what is said of them: the message and the help have these words.
const UNSOUND: &[(&str, &str, &str)] = &[
    ("rate = \"10\"", "is no rate", "\"100/s\""),
    ("rate = \"1/m\"", "minute or a month", "write a number"),
    (
        "rate = \"10/min\"\nburst = 5\ncost = 6",
        "a cost of 6 never passes",
        "burst = 6",
    ),
    (
        "rate = \"200/s\"\nalgorithm = \"log\"",
        "a log of 200 is too long",
        "\"bucket\"",
    ),
    (
        "rate = \"10/s\"\nalgorithm = \"window\"\nburst = 5",
        "only a bucket has a burst",
        "remove burst",
    ),
    (
        "rate = \"999999999999/400d\"\nburst = 1000000000",
        "cannot be counted exactly",
        "smaller burst",
    ),
    (
        "rate = \"99999999999/s\"",
        "use a burst of 1000000000 at most",
        "rounder numbers",
    ),
    (
        "rate = \"5000000000/s\"",
        "the burst would be 5000000000",
        "burst = 1000000000 or less",
    ),
    (
        "rate = \"10/1.5s\"",
        "`1.5` is no whole number, as a period",
        "a period",
    ),
    (
        "rate = \"1/s\"\nkey = [{ api_key = \"Connection\" }]\nabsent = \"skip\"",
        "is about one connection",
        "from end to end",
    ),
    (
        "rate = \"1/s\"\ncost = { response_header = \"TE\" }",
        "is about one connection",
        "from end to end",
    ),
    (
        "rate = \"1/s\"\nkey = [{ claim = \"sub\" }]\nabsent = \"skip\"\n[tokens]\nkey_file = \"/k\"\nissuer = \"\"",
        "`issuer` is empty",
        "remove issuer",
    ),
    (
        "rate = \"1/s\"\nkey = [{ claim = \"sub\" }]\nabsent = \"skip\"\n[tokens]\nkey_file = \"/k\"\naudience = \"\"",
        "`audience` is empty",
        "remove audience",
    ),
    (
        "rate = \"1/s\"\nkey = [{ claim = \"sub\" }]\nabsent = \"skip\"\n[tokens]\nkey_file = \"/k\"\nheader = \"\"",
        "is no header name",
        "letters",
    ),
    ("rate = \"1/s\"\ncost = 0", "out of range", "from 1"),
    (
        "rate = \"1/s\"\ncost = \"x\"",
        "a number or a header",
        "X-Cost",
    ),
    (
        "rate = \"1/s\"\ncost = { header = \"X-C\" }",
        "would never be read",
        "[trust]",
    ),
    (
        "rate = \"1/s\"\nkey = [\"cleint\"]",
        "is no part of a key",
        "\"client\"",
    ),
    (
        "rate = \"1/s\"\nkey = [\"header\"]",
        "is no part of a key",
        "{ header =",
    ),
    (
        "rate = \"1/s\"\nkey = \"client\"",
        "takes a list",
        "key = [\"client\"]",
    ),
    (
        "rate = \"1/s\"\nkey = [\"client\", \"client\"]",
        "twice",
        "remove",
    ),
    (
        "rate = \"1/s\"\nkey = [\"session\"]\nabsent = \"skip\"",
        "there are none",
        "[sessions]",
    ),
    (
        "rate = \"1/s\"\nkey = [{ client = { v4 = 33 } }]",
        "out of range",
        "0 to 32",
    ),
    (
        "rate = \"1/s\"\nkey = [{ client = 3 }]",
        "is a table, not a whole number",
        "client = {",
    ),
    (
        "rate = \"1/s\"\nkey = [\"network\"]\nabsent = \"skip\"",
        "there are none",
        "[[network]]",
    ),
    (
        "rate = \"1/s\"\nkey = [{ claim = \"sub\" }]\nabsent = \"skip\"",
        "nothing says by which keys",
        "[tokens]",
    ),
    (
        "rate = \"1/s\"\nkey = [{ api_key = \"x y\" }]\nabsent = \"skip\"",
        "is no header name",
        "letters",
    ),
    (
        "rate = \"1/s\"\nkey = [{ api_key = \"x\" }]",
        "may lack a part",
        "absent",
    ),
    (
        "rate = \"1/s\"\nkey = [\"api_key\"]",
        "is no part of a key",
        "{ api_key =",
    ),
    (
        "rate = \"1/s\"\n[[network]]\nname = \"n\"\naddresses = [\"10.0.0.0/8\"]",
        "no limit counts by \"network\"",
        "key = [\"network\"]",
    ),
    (
        "rate = \"1/s\"\nkey = [\"network\"]\nabsent = \"skip\"\n[[network]]\nname = \"n\"",
        "a network of 0 addresses",
        "addresses =",
    ),
    (
        "rate = \"1/s\"\n[tokens]\nkey_file = \"/k\"",
        "no limit counts by a claim",
        "claim",
    ),
    (
        "rate = \"1/s\"\nkey = [{ claim = \"sub\" }]\nabsent = \"skip\"\n[tokens]\nkey_file = \"/\"",
        "names no file",
        "tokens.jwks",
    ),
    (
        "rate = \"1/s\"\ncost = {}",
        "by one header",
        "response_header",
    ),
    (
        "rate = \"1/s\"\ncost = { response_header = \"x\", otherwise = 2 }",
        "`otherwise` has no effect",
        "reserve",
    ),
    (
        "rate = \"5/s\"\ncost = { response_header = \"x\", reserve = 6 }",
        "a cost of 6 never passes",
        "burst = 6",
    ),
    (
        "rate = \"1/s\"\n[[limit.override]]\nname = \"o\"\nkey = [\"here\"]\nrate = \"1/s\"",
        "no key of l: \"here\" is no address",
        "limit show",
    ),
    (
        "rate = \"1/s\"\n[[limit.override]]\nname = \"o\"\nkey = [\"2001:db8::1\"]\nrate = \"1/s\"\n\
         [[limit.override]]\nname = \"p\"\nkey = [\"2001:db8::2\"]\nrate = \"2/s\"",
        "2001:db8::/64 is overridden already",
        "one network",
    ),
    (
        "rate = \"1/s\"\n[[limit.override]]\nname = \"o\"\nrate = \"1/s\"",
        "give 1 of them, not 0",
        "their order",
    ),
    (
        "rate = \"1/s\"\n[[limit.override]]\nname = \"l\"\nkey = [\"192.0.2.1\"]\nrate = \"1/s\"",
        "a second limit is called \"l\"",
        "name of its own",
    ),
    (
        "rate = \"1/s\"\nkey = []\n[[limit.override]]\nname = \"o\"\nrate = \"2/s\"",
        "counts all requests together",
        "write a key",
    ),
    (
        "rate = \"5/s\"\ncost = 5\n[[limit.override]]\nname = \"o\"\nkey = [\"192.0.2.1\"]\nrate = \"2/s\"",
        "a cost of 5 never passes",
        "burst = 5",
    ),
    (
        "rate = \"1/s\"\nkey = [{ api_key = \"x\" }]\nabsent = \"skip\"\n\
         [[limit.override]]\nname = \"o\"\nkey = [\"k\"]\nrate = \"2/s\"",
        "cannot be written down",
        "header",
    ),
    (
        "rate = \"1/s\"\nkey = [\"network\"]\nabsent = \"skip\"\n\
         [[limit.override]]\nname = \"o\"\nkey = [\"-\"]\nrate = \"2/s\"\n\
         [[network]]\nname = \"office\"\naddresses = [\"192.0.2.0/24\"]",
        "requests that lack a part of it are not counted",
        "their order",
    ),
    (
        "rate = \"1/s\"\nkey = [\"network\"]\nabsent = \"skip\"\n\
         [[limit.override]]\nname = \"o\"\nkey = [\"ofice\"]\nrate = \"2/s\"\n\
         [[network]]\nname = \"office\"\naddresses = [\"192.0.2.0/24\"]",
        "no network called \"ofice\"",
        "\"office\"",
    ),
    (
        "rate = \"1/s\"\nkey = [\"client\", \"route\"]\n\
         [[limit.override]]\nname = \"o\"\nkey = [\"192.0.2.1\", \"othr\"]\nrate = \"2/s\"",
        "no route called \"othr\"",
        "\"other\"",
    ),
    (
        "rate = \"1/s\"\nkey = [{}]",
        "is one thing, not 0",
        "one of client",
    ),
    (
        "rate = \"1/s\"\nabsent = \"skip\"",
        "has no effect",
        "remove",
    ),
    (
        "rate = \"1/s\"\nscope = \"fleet\"",
        "10 gateways together 10/s",
        "[store]",
    ),
    (
        "rate = \"1/s\"\nmode = \"lease\"",
        "has no effect",
        "scope = \"fleet\"",
    ),
    (
        "rate = \"1/s\"\napps = [\"shop\"]",
        "no application called \"shop\"",
        "apps",
    ),
    (
        "rate = \"1/s\"\nroutes = [\"othr\"]",
        "no route called \"othr\"",
        "\"other\"",
    ),
    (
        "rate = \"1/s\"\nbrust = 3",
        "unknown key `brust`",
        "`burst`",
    ),
];

#[test]
fn what_makes_no_limit_is_told_with_what_would() {
    for &(keys, message, help) in UNSOUND {
        let (said, fix) = error(keys);
        assert!(said.contains(message), "{keys}: {said}");
        assert!(fix.contains(help), "{keys}: {fix}");
    }
}

#[test]
fn the_burst_that_is_advised_may_be_written_and_so_may_the_rate_with_it() {
    for rate in ["99999999999/s", "5000000000/s"] {
        let limits = limits(&format!(
            "[[limit]]\nname = \"l\"\nrate = \"{rate}\"\nburst = 1000000000\n"
        ));
        assert_eq!(limits[0].spec.most(), 1_000_000_000);
    }
}

#[test]
fn an_override_is_for_a_key_that_a_header_can_bring() {
    let of = |key: &str| {
        format!(
            "{MINIMAL}{PROXIES}[[limit]]\nname = \"l\"\nrate = \"1/s\"\nkey = [{{ header = \"X-T\" }}]\nabsent = \"skip\"\n\
             [[limit.override]]\nname = \"o\"\nkey = [{key}]\nrate = \"2/s\"\n"
        )
    };

    for (key, why) in [
        ("\" a \"", "blanks around"),
        ("\"a\\t\"", "blanks around"),
        ("\"a\\nb\"", "no control characters"),
    ] {
        let errors = errors(&of(key));
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert!(errors[0].1.contains(why), "{errors:#?}");
    }
    assert_eq!(plan(&of("\"a é\"")).rates.limits.len(), 2);
}

/// Where gateways share a store.
const STORE: &str = "limit_nodes = 10\n[store]\nurl = \"redis://10.0.0.5\"\n";

fn of_fleet(keys: &str) -> String {
    format!("{STORE}{MINIMAL}[[limit]]\nname = \"l\"\nscope = \"fleet\"\n{keys}\n")
}

#[test]
fn a_limit_of_the_fleet_is_leased_and_goes_on_by_parts_unless_it_says_otherwise() {
    let fleet = |keys: &str| {
        let plan = plan(&of_fleet(keys));
        assert_eq!(plan.rates.nodes, 10);
        plan.rates.limits[0].fleet.unwrap()
    };

    let usual = fleet("rate = \"100/s\"");
    assert_eq!((usual.mode.name(), usual.on_loss), ("lease", OnLoss::Local));
    let log = fleet(
        "rate = \"100/s\"\nalgorithm = \"log\"\nmode = \"shared\"\non_store_loss = \"closed\"",
    );
    assert_eq!((log.mode, log.on_loss), (FleetMode::Shared, OnLoss::Closed));
    let reported = fleet("rate = \"100/s\"\nmode = \"aggregate\"\nreport_every = \"20ms\"");
    assert!(matches!(reported.mode, FleetMode::Aggregate(plan) if plan.every_us == 20_000));
}

#[test]
fn what_cannot_hold_over_a_fleet_is_told_with_what_can() {
    let cases = [
        (
            "rate = \"10/s\"\nalgorithm = \"log\"",
            "has mode = \"lease\" unless it says otherwise, which is for buckets",
            "\"shared\"",
        ),
        (
            "rate = \"10/s\"\nalgorithm = \"window\"\nmode = \"shared\"",
            "cannot go on by parts",
            "\"closed\"",
        ),
        (
            "rate = \"10/s\"\nalgorithm = \"log\"\nmode = \"divided\"",
            "mode = \"divided\" is for buckets",
            "\"shared\"",
        ),
        (
            "rate = \"10/s\"\nreport_every = \"1s\"",
            "no effect",
            "\"aggregate\"",
        ),
    ];
    for (keys, message, help) in cases {
        let mut errors = errors(&of_fleet(keys));
        assert_eq!(errors.len(), 1, "{keys}: {errors:#?}");
        let (_, said, fix) = errors.remove(0);
        assert!(said.contains(message), "{keys}: {said}");
        assert!(fix.contains(help), "{keys}: {fix}");
    }
}

#[test]
fn what_each_mode_promises_is_printed_for_the_gateways_that_there_should_be() {
    let said = |keys: &str| Summary(&setup(&of_fleet(keys))).to_string();

    let lease = said("rate = \"100/s\"");
    assert!(
        lease.contains("at most 399 in any s with 10 gateways"),
        "{lease}"
    );
    let divided = said("rate = \"100/s\"\nmode = \"divided\"");
    assert!(
        divided.contains("at one of 10 gateways at most 19 in any s; after a start its first token comes 100ms later"),
        "{divided}"
    );
    let slow = said("rate = \"10/day\"\nmode = \"divided\"");
    assert!(
        slow.contains(
            "warning: parts begin empty, so after each start or roll-out nobody passes for 1day;"
        ),
        "{slow}"
    );
    let reported = said("rate = \"100/s\"\nmode = \"aggregate\"\non_store_loss = \"closed\"");
    assert!(
        reported.contains("reports every 100ms: up to 206 more"),
        "{reported}"
    );
    assert!(
        reported.contains("up to 900 more when for a burst each at once"),
        "{reported}"
    );
    assert!(reported.contains("503 limit_store_away"), "{reported}");
    let seldom = said("rate = \"10/min\"\nmode = \"aggregate\"");
    assert!(
        seldom.contains("reports every 100ms: up to 1 more, 20 in any min"),
        "{seldom}"
    );
}

#[test]
fn what_may_be_missing_must_be_provided_for() {
    let with = |keys: &str| {
        let text = format!(
            "{MINIMAL}{PROXIES}[sessions]\nkey_file = \"/k\"\n[[limit]]\nname = \"l\"\nrate = \"1/s\"\n{keys}\n"
        );
        let mut errors = errors(&text);
        assert_eq!(errors.len(), 1, "{errors:#?}");
        errors.remove(0).1
    };

    assert!(with("key = [\"session\"]").contains("lack a part of the key"));
    assert!(with("key = [{ header = \"X-Tenant\" }]").contains("lack a part of the key"));
    let early = "key = [\"session\"]\nabsent = \"skip\"\nedge = true";
    assert!(with(early).contains("before the session is known"));
}

#[test]
fn names_are_given_once_and_no_route_meets_too_many() {
    let one = "[[limit]]\nname = \"l\"\nrate = \"1/s\"\n";
    let twice = errors(&format!("{MINIMAL}{one}{one}"));
    assert!(twice[0].1.contains("a second limit"), "{twice:?}");

    let many: String = (0..33)
        .map(|number| format!("[[limit]]\nname = \"l{number}\"\nrate = \"1/s\"\n"))
        .collect();
    let many = errors(&format!("{MINIMAL}{many}"));
    assert!(many[0].1.contains("meet 33 limits"), "{many:?}");
}

#[test]
fn the_worst_that_passes_in_any_period_is_printed() {
    let text = "[[limit]]\nname = \"login\"\nrate = \"10/min\"\nburst = 5\n\
        [[limit]]\nname = \"exact\"\nrate = \"100/min\"\nalgorithm = \"log\"\nkey = []\nshadow = true\n\
        [[limit]]\nname = \"none\"\nrate = \"0/s\"\n";

    let page = Summary(&setup(&format!("{MINIMAL}{text}"))).to_string();

    for said in [
        "login: 10/min with a burst of 5, for each client (IPv4 /32, IPv6 /64)\n    \
         at most 14 tokens in any min, wherever that begins; 5 at once",
        "exact: 100/min by a log, all together\n    at most 100 tokens in any min",
        "in the shadow: it only counts",
        "nothing passes",
    ] {
        assert!(page.contains(said), "{said}\n{page}");
    }
}
