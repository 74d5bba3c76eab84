//! `tidegate sim` from the outside: what it prints, writes and refuses, and its exit codes.

use std::io::Read;
use std::process::{Output, Stdio};

use crate::process::{TempDir, output, tidegate};

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/one-box.toml");
const SHAPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shape-3x.toml");

const SMALL: &str = r#"
id = "T1"
title = "Twice what ten slots can do"
length = "6s"
warm_up = "2s"
beside = ["none"]

[[traffic]]
name = "people"
class = "signed-in"
rate = 400.0

[app]
kind = "slots"
slots = 10

[[app.route]]
name = "page"
service = { kind = "constant", mean = "50ms" }

[protection]
workers = 10

[[bar]]
measure = "goodput"
at_least = 190.0
"#;

/// Runs `SMALL` with `from` replaced by `to`.
fn simulate(from: &str, to: &str, args: &[&str]) -> Output {
    let directory = TempDir::new();
    let file = directory.write("small.toml", &SMALL.replace(from, to));
    let mut command = tidegate();
    command.arg("sim").arg(file).args(args);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What `simulate` says of bad input.
fn refused(from: &str, to: &str, args: &[&str]) -> String {
    let simulated = simulate(from, to, args);
    assert_eq!(simulated.status.code(), Some(2), "{from} → {to}");
    assert!(simulated.stdout.is_empty());
    text(&simulated.stderr)
}

#[test]
fn a_scenario_is_a_table_with_its_bars() {
    let simulated = simulate("", "", &[]);

    assert_eq!(simulated.status.code(), Some(0));
    assert!(simulated.stderr.is_empty(), "{}", text(&simulated.stderr));
    let out = text(&simulated.stdout);
    assert!(
        out.starts_with("T1  Twice what ten slots can do  ("),
        "{out}"
    );
    assert!(
        out.contains("\ntidegate ") && out.contains("\nnone "),
        "{out}"
    );
    assert!(
        out.contains("  holds   tidegate: goodput ≥ 190 /s: "),
        "{out}"
    );
    assert!(out.contains("million a second\nall 1 bars hold\n"), "{out}");
}

#[test]
fn a_missed_bar_is_named_and_the_exit_code_1() {
    let simulated = simulate("at_least = 190.0", "at_least = 250.0", &["--seeds", "3"]);

    assert_eq!(simulated.status.code(), Some(1));
    let out = text(&simulated.stdout);
    assert!(
        out.ends_with("1 of 1 bars missed:\n  T1 tidegate: goodput ≥ 250 /s\n"),
        "{out}"
    );
}

#[test]
fn what_cannot_be_meant_is_named_with_what_to_write() {
    let unknown = refused("length", "lenght", &[]);
    assert!(
        unknown.contains("`lenght`") && unknown.contains("`length`"),
        "{unknown}"
    );
    let class = refused("signed-in", "vip", &[]);
    assert!(
        class.contains("write one of critical, signed-in"),
        "{class}"
    );
    let rate = refused("400.0", "-1.0", &[]);
    assert!(rate.contains("traffic \"people\": rate is -1"), "{rate}");
    let slots = refused("slots = 10", "slots = 0", &[]);
    assert!(slots.contains("`slots` has to be at least 1"), "{slots}");
    let seeds = refused("", "", &["--seeds", "0"]);
    assert!(seeds.contains("--seeds"), "{seeds}");
    let policy = refused("", "", &["--policy", "vega"]);
    assert!(policy.contains("did you mean vegas?"), "{policy}");
    let scale = refused("", "", &["--scale=-3"]);
    assert!(scale.contains("above 0"), "{scale}");
    let path = refused("class = \"signed-in\"", "path = \"/\"", &[]);
    assert!(path.contains("run it with --config FILE --shape"), "{path}");
}

#[test]
fn what_is_not_there_is_named() {
    for (args, expected) in [
        (&["sim"][..], "nothing to run"),
        (&["sim", "no-such.toml"], "cannot read no-such.toml: "),
        (&["sim", "--suite", "limits"], "there are limiter, queue"),
        (&["sim", "--suite", "queue", "--only", "S1"], "among Q1"),
        (&["sim", "--config", CONFIG], "--shape"),
    ] {
        let simulated = output(args);
        assert_eq!(simulated.status.code(), Some(2), "{args:?}");
        let err = text(&simulated.stderr);
        assert!(err.contains(expected), "{err}");
        assert!(err.matches("No such file").count() <= 1, "{err}");
    }
}

#[test]
fn suites_are_listed_with_their_scenarios() {
    let listed = output(&["sim", "--list"]);

    assert_eq!(listed.status.code(), Some(0));
    let out = text(&listed.stdout);
    for expected in [
        "limiter: ",
        "  S1 ",
        "queue: ",
        "  Q1 ",
        "retry-storm: ",
        "policies: tidegate, none",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_whatever_the_threads() {
    let hashes = |threads| {
        let simulated = simulate("", "", &["--seeds", "2", "--threads", threads, "--json"]);
        let results: serde_json::Value = serde_json::from_slice(&simulated.stdout).unwrap();
        assert!(text(&simulated.stderr).contains("all 1 bars hold"));
        let policies = results["scenarios"][0]["policies"].as_array().unwrap();
        let seeds = policies
            .iter()
            .flat_map(|policy| policy["seeds"].as_array().unwrap());
        seeds
            .map(|seed| seed["hash"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };

    let one = hashes("1");

    assert_eq!(one.len(), 4);
    assert_ne!(one[0], one[1]);
    assert_eq!(one, hashes("2"));
}

#[test]
fn the_page_and_the_json_are_written_and_no_scenario_is_overwritten() {
    let directory = TempDir::new();
    let scenario = directory.write("small.toml", SMALL);
    let (page, json) = (
        directory.path().join("r.html"),
        directory.path().join("r.json"),
    );
    let mut command = tidegate();
    command.arg("sim").arg(&scenario);
    command.arg("--html").arg(&page).arg("--json").arg(&json);

    assert!(command.output().unwrap().status.success());

    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<svg ").count(), 8);
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(json["scenarios"][0]["bars"][0]["held"], true);
    let series = &json["scenarios"][0]["policies"][0]["series"];
    assert_eq!(series["good"].as_array().unwrap().len(), 6);

    let mistaken = tidegate()
        .args(["sim", "--json"])
        .arg(&scenario)
        .output()
        .unwrap();
    assert_eq!(mistaken.status.code(), Some(2));
    assert!(text(&mistaken.stderr).contains("would overwrite"));
    assert_eq!(std::fs::read_to_string(&scenario).unwrap(), SMALL);
}

#[test]
fn policies_can_be_chosen_and_peers_added() {
    let chosen = text(&simulate("", "", &["--policy", "envoy,fixed:7"]).stdout);
    assert!(
        chosen.contains("\nenvoy ") && chosen.contains("\nfixed:7 "),
        "{chosen}"
    );
    assert!(!chosen.contains("\ntidegate "), "{chosen}");
    assert!(chosen.ends_with("there are no bars to clear\n"), "{chosen}");

    let peers = text(&simulate("", "", &["--peers", "--seeds", "3"]).stdout);
    for peer in [
        "tidegate",
        "vegas-windowed",
        "gradient2-windowed",
        "envoy",
        "brpc",
    ] {
        assert!(peers.contains(&format!("\n{peer} ")), "{peer}: {peers}");
    }
    // Three seeds of ours, two of each of the ten others.
    assert!(peers.contains("\n23 runs, "), "{peers}");
}

#[test]
fn a_reader_that_has_read_enough_is_no_error() {
    let directory = TempDir::new();
    let file = directory.write("small.toml", SMALL);
    let mut child = tidegate()
        .arg("sim")
        .arg(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());

    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();

    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(err, "");
}

#[test]
fn an_operators_own_configuration_meets_three_times_its_peak() {
    let simulated = output(&["sim", "--config", CONFIG, "--shape", SHAPE]);

    let out = text(&simulated.stdout);
    assert_eq!(simulated.status.code(), Some(0), "{out}");
    assert!(
        out.contains("holds   tidegate: share of critical ≥ 99 %, 40–100 s"),
        "{out}"
    );
}

#[test]
fn a_rate_is_scaled_on_the_command_line() {
    let args = ["sim", "--config", CONFIG, "--shape", SHAPE, "--scale", "3"];

    let scaled = output(&args);

    assert_eq!(scaled.status.code(), Some(1));
    let out = text(&scaled.stdout);
    assert!(out.contains("MISSED  tidegate: share ≥ 99.5 %"), "{out}");
}

#[test]
fn a_shape_that_does_not_fit_its_configuration_says_where() {
    let directory = TempDir::new();
    let shape = std::fs::read_to_string(SHAPE).unwrap();
    let apps = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/several-apps.toml"
    );
    let run = |config: &str, shape: String, more: &[&str]| {
        let file = directory.write("shape.toml", &shape);
        let mut command = tidegate();
        command
            .args(["sim", "--config", config, "--shape"])
            .arg(file);
        let simulated = command.args(more).output().unwrap();
        assert_eq!(simulated.status.code(), Some(2));
        text(&simulated.stderr)
    };

    let probe = run(CONFIG, shape.replace("/recommend/17", "/health"), &[]);
    assert!(probe.contains("is answered by Tidegate itself"), "{probe}");
    let pathless = run(CONFIG, shape.replace("path = \"/recommend/17\"", ""), &[]);
    assert!(pathless.contains("it has no `path`"), "{pathless}");
    let timeless = "[[app.route]]\nname = \"other\"\n\
                    service = { kind = \"lognormal\", mean = \"60ms\", sigma = 0.6 }\n";
    let timeless = run(CONFIG, shape.replace(timeless, ""), &[]);
    assert!(timeless.contains("add an [[app.route]]"), "{timeless}");
    let unknown = shape.replace("name = \"checkout\"", "name = \"chekout\"");
    let unknown = run(CONFIG, unknown, &[]);
    assert!(
        unknown.contains("has no route \"chekout\"")
            && unknown.contains("did you mean \"checkout\"?"),
        "{unknown}"
    );
    let app = run(apps, shape.clone(), &["--app", "blog"]);
    assert!(app.contains("there are shop, api"), "{app}");
    let mixed = shape.replace(
        "headers = { sec-purpose = \"prefetch\" }",
        "headers = { host = \"api.example.com\" }",
    );
    let mixed = run(apps, mixed, &[]);
    assert!(mixed.contains("for the application \"api\""), "{mixed}");
    let senseless = shape.replace("sec-purpose = \"prefetch\"", "tidegate-class = \"great\"");
    let senseless = run(CONFIG, senseless, &[]);
    assert!(senseless.contains("makes no sense as class"), "{senseless}");
}

#[test]
fn nothing_that_is_read_is_overwritten_by_whatever_name() {
    let directory = TempDir::new();
    let trace = directory.write("trace.csv", "0,400\n");
    let times = directory.write("times.txt", "50000\n");
    let scenario = SMALL
        .replace(
            "rate = 400.0",
            "arrivals = { kind = \"trace\", file = \"trace.csv\" }",
        )
        .replace(
            "{ kind = \"constant\", mean = \"50ms\" }",
            "{ kind = \"recorded\", file = \"times.txt\" }",
        );
    // Neither ends in `.toml`, which is refused on sight.
    let scenario = directory.write("scenario", &scenario);
    let config = directory.write("config", &std::fs::read_to_string(CONFIG).unwrap());
    let shape = directory.write("shape", &std::fs::read_to_string(SHAPE).unwrap());
    let shaped = [
        "--config".as_ref(),
        config.as_os_str(),
        "--shape".as_ref(),
        shape.as_os_str(),
    ];
    let plain = [scenario.as_os_str()];
    for (number, (input, args)) in [
        (&scenario, &plain[..]),
        (&trace, &plain),
        (&times, &plain),
        (&config, &shaped),
        (&shape, &shaped),
    ]
    .into_iter()
    .enumerate()
    {
        let before = std::fs::read(input).unwrap();
        let link = directory.path().join(format!("link{number}"));
        std::os::unix::fs::symlink(input, &link).unwrap();
        for flag in ["--html", "--json"] {
            for name in [input, &link] {
                let mut command = tidegate();
                command.arg("sim").args(args).arg(flag).arg(name);
                let refused = command.output().unwrap();
                let err = text(&refused.stderr);
                assert_eq!(refused.status.code(), Some(2), "{err}");
                assert!(
                    err.contains(&format!("{flag} would overwrite {}", input.display())),
                    "{err}"
                );
                assert_eq!(std::fs::read(input).unwrap(), before);
            }
        }
    }
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_anything_is_run() {
    let directory = TempDir::new();
    let file = directory.path().join("results");
    for (html, json, expected) in [
        (directory.path(), file.as_path(), "Is a directory"),
        (&file, directory.path(), "Is a directory"),
        (&file, "/no/such/place/r.json".as_ref(), "No such file"),
        ("/proc/version/r".as_ref(), &file, "Not a directory"),
        (&file, &directory.path().join("./results"), "name two files"),
    ] {
        let mut command = tidegate();
        command.args(["sim", "--config", CONFIG, "--shape", SHAPE]);
        command.arg("--html").arg(html).arg("--json").arg(json);
        let refused = command.output().unwrap();
        let err = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{err}");
        assert!(refused.stdout.is_empty(), "nothing has been run");
        assert!(err.contains(expected), "{err}");
        assert!(!file.exists(), "{expected}");
    }
}

#[test]
fn results_that_cannot_be_written_in_the_end_are_still_in_the_table() {
    let full = simulate("", "", &["--html", "/dev/full"]);

    assert_eq!(full.status.code(), Some(2));
    assert!(text(&full.stdout).ends_with("all 1 bars hold\n"));
    let err = text(&full.stderr);
    assert!(err.contains("--html asks for to /dev/full"), "{err}");
}

#[test]
fn a_stated_number_of_workers_is_not_pooled() {
    let gateways = "[gateways]\ncount = 4\narrangement = \"pooled\"\n\n[protection]";

    let stated = refused("[protection]", gateways, &[]);

    assert!(stated.contains("write \"node\""), "{stated}");
    let one = simulate("[protection]", &gateways.replace("4", "1"), &[]);
    assert_eq!(one.status.code(), Some(0), "{}", text(&one.stderr));

    let directory = TempDir::new();
    let config = std::fs::read_to_string(CONFIG).unwrap();
    let config = directory.write("own.toml", &config);
    let shape = std::fs::read_to_string(SHAPE).unwrap();
    let gateways = gateways.replace("\n\n[protection]", "");
    let shape = directory.write("shape.toml", &format!("{shape}\n{gateways}\n"));
    let mut command = tidegate();
    command.arg("sim").arg("--config").arg(config);
    let configured = command.arg("--shape").arg(shape).output().unwrap();
    assert_eq!(configured.status.code(), Some(2));
    let configured = text(&configured.stderr);
    assert!(configured.contains("write \"node\""), "{configured}");
}

#[test]
fn a_run_that_would_not_end_today_is_not_begun() {
    let long = SMALL.replace("\"6s\"", "\"1day\"");
    let endless = refused(SMALL, &long, &["--scale", "1000"]);

    assert!(
        endless.contains("T1: each run would have 35 billion events"),
        "{endless}"
    );
}

#[test]
fn names_are_trimmed_and_what_is_named_twice_runs_once() {
    let directory = TempDir::new();
    let file = directory.write("small.toml", SMALL);
    let mut command = tidegate();
    command.arg("sim").arg(&file);
    command.arg(directory.path().join("./small.toml"));
    command.args(["--policy", "none, envoy,none"]);

    let twice = text(&command.output().unwrap().stdout);

    assert!(twice.contains("\n2 runs, "), "{twice}");
    let args = ["sim", "--suite", "queue, queue", "--only", " Q1"];
    let suite = text(&output(&args).stdout);
    assert_eq!(suite.matches("Q1  ").count(), 1, "{suite}");
}

#[test]
fn a_fixed_limit_out_of_range_is_told_the_range() {
    for policy in ["fixed:0", "fixed:99999999999", "fixed:"] {
        let range = refused("", "", &["--policy", policy]);
        assert!(range.contains("with N from 1 to 4294967295"), "{range}");
    }
    let long = refused("", "", &["--policy", &"x".repeat(10_000)]);
    assert!(long.len() < 1000, "{long}");
}

#[test]
fn nothing_raw_reaches_a_terminal() {
    let broken = refused("id = ", "id = \u{1b}[2J", &[]);
    let named = refused("\"T1\"", "\"T\\u001b[2J\"", &[]);
    let turned = refused("# ", "", &["--policy", "\u{202e}none"]);

    for told in [broken, named, turned] {
        let raw = ['\u{1b}', '\u{202e}'];
        assert!(!told.contains(raw), "{told:?}");
    }
}

#[test]
fn an_empty_log_is_nothing_to_replay() {
    let directory = TempDir::new();
    let file = directory.write("empty.jsonl", "");

    let replayed = output(&["sim", "replay", file.to_str().unwrap()]);

    assert_eq!(replayed.status.code(), Some(0), "{replayed:?}");
    assert!(text(&replayed.stdout).contains("the log is empty: there is nothing to replay"));
}
