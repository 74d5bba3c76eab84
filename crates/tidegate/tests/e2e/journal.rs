//! The decision log of a real gateway, and `tidegate sim replay` of it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tidegate_lab::load::{self, Kind, LoadPlan, Patience, Phase, Retry};
use tidegate_lab::shop::{Shop, ShopPlan};

use crate::client::get;
use crate::process::{TempDir, Tidegate, output, tidegate};

const NAME: &str = "shop.tglog";

/// A shop that can do 500/s.
fn shop() -> Shop {
    let plan = ShopPlan {
        slots: 10,
        service: Duration::from_millis(20),
        ..ShopPlan::default()
    };
    Shop::open("127.0.0.1:0".parse().unwrap(), plan).unwrap()
}

/// A gateway that learns its limit and writes down what it decides.
fn start(directory: &TempDir, shop: &Shop, mode: &str) -> Tidegate {
    start_with(directory, shop, mode, "")
}

/// The same with `more` keys of the application.
fn start_with(directory: &TempDir, shop: &Shop, mode: &str, more: &str) -> Tidegate {
    let log = directory.path().join(NAME);
    let configuration = format!(
        "threads = 2\n[drain]\ndelay = \"0s\"\n[[app]]\nname = \"shop\"\nupstream = \"http://{}\"\n\
         mode = \"{mode}\"\ndecision_log = \"{}\"\n{more}\
         [[app.route]]\nname = \"checkout\"\npath = \"/checkout\"\nclass = \"critical\"\n",
        shop.address(),
        log.display()
    );
    Tidegate::start(directory, &configuration)
}

/// Twice what the shop can do, by visitors some of whom leave and come back.
fn crowd(tidegate: &Tidegate, length: Duration) {
    let patience = Patience::of(Duration::from_millis(150));
    let kinds = vec![
        Kind::get("browse", "/browse/1")
            .share(4.0)
            .patience(patience),
        Kind::get("checkout", "/checkout").patience(patience),
    ];
    let kinds = kinds.into_iter().map(|kind| kind.retry(Retry::at_once(2)));
    let phases = vec![Phase::new("crowd", 1000.0, length)];
    load::run(LoadPlan::new(tidegate.clients, kinds.collect(), phases)).unwrap();
}

fn replay(log: &Path, more: &[&str]) -> (Option<i32>, String) {
    let log = log.display().to_string();
    let Output {
        status,
        stdout,
        stderr,
    } = output(&[&["sim", "replay", &log], more].concat());
    let text = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    (status.code(), text)
}

/// The number behind `word` in what a replay prints.
fn number(text: &str, word: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(word));
    let line = line.unwrap_or_else(|| panic!("no {word} in\n{text}"));
    let digits: String = line
        .trim()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap()
}

/// A complete log of an overloaded gateway, and how many requests had arrived.
fn complete() -> &'static (Vec<u8>, u64) {
    static LOG: OnceLock<(Vec<u8>, u64)> = OnceLock::new();
    LOG.get_or_init(|| {
        let (shop, directory) = (shop(), TempDir::new());
        let tidegate = start(&directory, &shop, "enforce");
        crowd(&tidegate, Duration::from_secs(3));
        let metrics = get(tidegate.admin, "/metrics").text();
        let arrivals = metrics
            .lines()
            .filter(|line| line.starts_with("tidegate_arrivals_total"))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        let arrivals = arrivals.sum();
        tidegate.terminate();
        assert_eq!(tidegate.wait().code(), Some(0));
        (
            std::fs::read(directory.path().join(NAME)).unwrap(),
            arrivals,
        )
    })
}

#[test]
fn every_decision_of_an_overloaded_gateway_comes_out_again() {
    let directory = TempDir::new();
    let (log, arrivals) = complete();
    let file = directory.path().join(NAME);
    std::fs::write(&file, log).unwrap();

    let (code, text) = replay(&file, &[]);

    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("application shop, limit adaptive"), "{text}");
    assert!(text.contains("end       complete"), "{text}");
    assert!(text.contains("every decision reproduced"), "{text}");
    assert_eq!(number(&text, "arrivals"), *arrivals, "{text}");
    assert!(number(&text, "admitted") > 500, "{text}");
    assert!(number(&text, "refused") > 100, "{text}");
}

#[test]
fn decisions_that_do_not_bind_come_out_again_too() {
    let (shop, directory) = (shop(), TempDir::new());
    let tidegate = start(&directory, &shop, "shadow");
    crowd(&tidegate, Duration::from_secs(1));
    tidegate.terminate();
    assert_eq!(tidegate.wait().code(), Some(0));

    let (code, text) = replay(&directory.path().join(NAME), &[]);

    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("every decision reproduced"), "{text}");
    assert!(number(&text, "shadow") > 0, "{text}");
}

#[test]
fn a_killed_gateway_leaves_a_log_that_is_good_as_far_as_it_goes() {
    let (shop, directory) = (shop(), TempDir::new());
    let tidegate = start(&directory, &shop, "enforce");
    crowd(&tidegate, Duration::from_secs(1));

    let id = Pid::from_raw(i32::try_from(tidegate.id()).unwrap()).unwrap();
    kill_process(id, Signal::KILL).unwrap();
    assert_eq!(tidegate.wait().code(), None);

    let (code, text) = replay(&directory.path().join(NAME), &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("was stopped"), "{text}");
    assert!(text.contains("every decision reproduced"), "{text}");
    assert!(number(&text, "arrivals") > 300, "{text}");
}

#[test]
fn a_damaged_log_is_told_with_its_place() {
    let directory = TempDir::new();
    let (log, _) = complete();
    let file = directory.path().join(NAME);

    for at in [20, log.len() / 3, log.len() / 2, log.len() - 3] {
        let mut damaged = log.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&file, damaged).unwrap();

        let (code, text) = replay(&file, &[]);

        assert!(matches!(code, Some(1 | 2)), "byte {at}: {text}");
        assert!(text.contains("at byte "), "byte {at}: {text}");
    }

    std::fs::write(&file, "something else").unwrap();
    let (code, text) = replay(&file, &[]);
    assert_eq!(code, Some(2));
    assert!(text.contains("this is no decision log"), "{text}");
}

#[test]
fn events_are_lines_and_nobody_has_to_read_them_all() {
    let directory = TempDir::new();
    let (log, _) = complete();
    let file = directory.path().join(NAME);
    std::fs::write(&file, log).unwrap();

    let mut command = tidegate();
    command.args(["sim", "replay", "--events"]).arg(&file);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.take(2).map(Result::unwrap).collect();

    assert!(lines[1].contains(" arrive class="), "{lines:?}");
    assert!(lines[1].contains(" -> admitted "), "{lines:?}");
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
}

#[test]
fn a_new_start_keeps_the_log_before() {
    let (shop, directory) = (shop(), TempDir::new());
    for _ in 0..2 {
        let tidegate = start(&directory, &shop, "enforce");
        assert_eq!(get(tidegate.clients, "/").status, 200);
        tidegate.terminate();
        assert_eq!(tidegate.wait().code(), Some(0));
    }

    for name in [NAME, "shop.tglog.old"] {
        let (code, text) = replay(&directory.path().join(name), &[]);
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(number(&text, "arrivals"), 1, "{text}");
    }
}

#[test]
fn a_log_that_cannot_be_begun_is_no_reason_not_to_serve() {
    let (shop, directory) = (shop(), TempDir::new());
    directory.write(NAME, "something dear");
    let tidegate = start(&directory, &shop, "enforce");

    assert_eq!(get(tidegate.clients, "/").status, 200);

    let metrics = get(tidegate.admin, "/metrics").text();
    let ended = "tidegate_decision_log_ended_total{app=\"shop\",reason=\"failed\"} 1";
    assert!(metrics.contains(ended), "{metrics}");
    let kept = std::fs::read_to_string(directory.path().join(NAME)).unwrap();
    assert_eq!(kept, "something dear");
}

#[test]
fn a_file_that_may_not_grow_ends_the_log_and_not_the_gateway() {
    let (shop, directory) = (shop(), TempDir::new());
    let kept = directory.path().join("shop.json");
    let more = format!("warm_start = \"{}\"\n", kept.display());
    let tidegate = start_with(&directory, &shop, "enforce", &more);
    let id = Pid::from_raw(i32::try_from(tidegate.id()).unwrap());
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    prlimit(id, Resource::Fsize, none).unwrap();

    crowd(&tidegate, Duration::from_secs(1));

    assert_eq!(get(tidegate.clients, "/").status, 200);
    let metrics = get(tidegate.admin, "/metrics").text();
    let ended = "tidegate_decision_log_ended_total{app=\"shop\",reason=\"failed\"} 1";
    assert!(metrics.contains(ended), "{metrics}");
    tidegate.terminate();
    assert_eq!(tidegate.wait().code(), Some(0));
    assert!(!kept.exists());
    assert!(!directory.path().join("shop.json.new").exists());
}
