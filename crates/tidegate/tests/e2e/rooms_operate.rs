//! Those who operate a room: what they see and order, what the application commands, and who is told of it.

use std::collections::BTreeMap;
use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::Value;

use crate::client::{ask, get, read_line};
use crate::process::{PATIENCE, TempDir, Tidegate, output};
use crate::rooms_visitor::{
    ASKS, Browser, FETCHES, FLOWS, NAVIGATES, STANDS, Site, document, order, run, said, until,
    until_phase, waiting,
};

const REFERENCE: &str = include_str!("../../../../docs/http-api.md");

/// What the gateway says of its room.
fn status(gateway: &Tidegate) -> Value {
    let said = said(gateway, &["status", "--room", "shop", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    match said["rooms"].as_array() {
        Some(rooms) => rooms[0].clone(),
        None => said,
    }
}

/// The samples of `/metrics` that are about rooms.
fn samples(gateway: &Tidegate) -> String {
    let metrics = get(gateway.admin, "/metrics").text();
    let rooms = metrics
        .lines()
        .filter(|line| line.contains("tidegate_room_"));
    rooms.map(|line| format!("{line}\n")).collect()
}

fn metric(gateway: &Tidegate, series: &str) -> Option<f64> {
    let samples = samples(gateway);
    let mut values = samples.lines().filter_map(|line| line.strip_prefix(series));
    values.next()?.trim().parse().ok()
}

/// The SHA-256 of `bytes`, by the system's own program.
fn sha256(bytes: &[u8]) -> Vec<u8> {
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha256sum is in Debian's coreutils");
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let printed = child.wait_with_output().unwrap().stdout;
    let digits = str::from_utf8(&printed[..64]).unwrap();
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
    (0..32).map(byte).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// HMAC-SHA256 (RFC 2104), for keys up to a block.
fn hmac(key: &[u8], message: &[u8]) -> String {
    let padded = |with: u8| -> Vec<u8> {
        let key = key.iter().copied().chain(std::iter::repeat(0));
        key.take(64).map(|byte| byte ^ with).collect()
    };
    let inner = sha256(&[&padded(0x36)[..], message].concat());
    hexadecimal(&sha256(&[&padded(0x5c)[..], &inner].concat()))
}

#[test]
fn an_operator_sees_the_room_and_sets_its_phase_until_it_is_released() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(
        &directory,
        "gw1",
        &format!("phase = \"queue-all\"\n{STANDS}"),
    );
    let _waits = Browser::waiting(&gateway);
    until("it is counted", || (waiting(&gateway)? == 1).then_some(()));

    let before = until("somebody leads", || {
        let status = status(&gateway);
        status["leader"].is_string().then_some(status)
    });
    assert_eq!(
        (&before["name"], &before["phase"]),
        (&"shop".into(), &"queue-all".into())
    );
    assert_eq!(
        (&before["waiting"], &before["ordered"]),
        (&1.into(), &Value::Null)
    );
    assert_eq!(before["leader"], "gw1");
    for phase in ["hold", "off", "auto", "drain", "queue-all"] {
        order(&gateway, &[phase, "--why", "a test"]);
        let status = status(&gateway);
        assert_eq!(
            (&status["phase"], &status["configured"]),
            (&phase.into(), &"queue-all".into())
        );
        assert_eq!(
            (&status["ordered"]["by"], &status["ordered"]["why"]),
            (&"kim".into(), &"a test".into())
        );
    }
    let page = said(&gateway, &["status"]);
    for word in ["shop", "queue-all", "kim"] {
        assert!(page.contains(word), "{word}: {page}");
    }
    order(&gateway, &["hold"]);
    order(&gateway, &["release"]);
    until("it is as configured", || {
        (status(&gateway)["ordered"].is_null()).then_some(())
    });
    assert_eq!(status(&gateway)["phase"], "queue-all");
}

#[test]
fn nothing_is_ordered_that_nobody_has_said_yes_to_or_that_makes_no_sense() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(
        &directory,
        "gw1",
        &format!("phase = \"queue-all\"\n{STANDS}"),
    );
    let refused = |args: &[&str]| {
        let output = run(&gateway, args);
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };

    // What cannot be taken back.
    for args in [&["close"][..], &["turn"], &["revoke", "--all"]] {
        let asked = refused(&[args, &["--by", "kim"]].concat());
        assert!(asked.contains("--yes"), "{asked}");
    }
    let nowhere = refused(&["hold", "--room", "gala", "--by", "kim"]);
    assert!(nowhere.contains("no room"), "{nowhere}");
    refused(&["stock", "many", "--by", "kim", "--yes"]);
    refused(&["vip", "7", "--tier", "9", "--by", "kim", "--yes"]);
    assert_eq!(status(&gateway)["phase"], "queue-all");
    // A page in a browser on this machine is not its operator.
    let host = [("content-type", "application/json")];
    let body = br#"{"phase":"off","by":"page"}"#;
    assert_eq!(
        ask(gateway.admin, "PUT", "/rooms/shop/phase", &host, body).status,
        403
    );
    assert_eq!(ask(gateway.admin, "GET", "/rooms", &[], b"").status, 403);
}

#[test]
fn what_an_operator_says_of_stock_and_end_is_told_to_who_waits() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(
        &directory,
        "gw1",
        &format!("phase = \"queue-all\"\n{STANDS}"),
    );
    let mut browser = Browser::waiting(&gateway);

    order(&gateway, &["stock", "2500"]);
    until("the stock is told", || {
        (document(&gateway)?["stock"] == 2_500).then_some(())
    });
    order(
        &gateway,
        &["message", "en=Doors open at ten.", "de=Um zehn."],
    );
    until("the message is told", || {
        let said = serde_json::json!({ "en": "Doors open at ten.", "de": "Um zehn." });
        (document(&gateway)?["message"] == said).then_some(())
    });
    order(&gateway, &["message", "--clear"]);
    order(&gateway, &["stock", "unknown"]);
    until("neither is told", || {
        let document = document(&gateway)?;
        (document["message"].is_null() && document["stock"].is_null()).then_some(())
    });
    order(&gateway, &["close", "--reason", "sold-out"]);
    until_phase(&gateway, "closed");

    assert_eq!(document(&gateway).unwrap()["reason"], "sold-out");
    let page = browser.go(&gateway, "/");
    assert!(page.text().contains("Sold out"), "{}", page.text());
    assert!(page.text().contains("data-state=\"closed\""));
    // It can be opened again, and the place is kept.
    order(&gateway, &["hold"]);
    assert_eq!(browser.me(&gateway)["state"], "waiting");
}

#[test]
fn a_new_line_has_no_place_and_no_pass_of_the_old_one() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(
        &directory,
        "gw1",
        &format!("phase = \"queue-all\"\n{FLOWS}"),
    );
    let mut inside = Browser::inside(&gateway);
    order(&gateway, &["hold"]);
    let mut browser = Browser::waiting(&gateway);
    let before = browser.me(&gateway);

    order(&gateway, &["turn"]);
    let after = until("the line is another one", || {
        let me = browser.me(&gateway);
        (me["epoch"].as_u64() > before["epoch"].as_u64()).then_some(me)
    });

    assert_eq!(after["state"], "nobody");
    until("who was inside is not any more", || {
        (inside.go(&gateway, "/").status == 503).then_some(())
    });
    until_phase(&gateway, "hold");
    order(&gateway, &["queue-all"]);
    browser.go(&gateway, "/");
    browser.until_state(&gateway, "ready");
    assert_eq!(browser.claim(&gateway).status, 200);
    assert_eq!(browser.go(&gateway, "/").status, 200);
}

#[test]
fn passes_that_are_taken_back_are_none_and_their_owners_wait_again() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(
        &directory,
        "gw1",
        &format!("phase = \"queue-all\"\n{FLOWS}"),
    );
    let mut inside = Browser::inside(&gateway);
    order(&gateway, &["hold"]);
    assert_eq!(inside.go(&gateway, "/").status, 200);

    order(&gateway, &["revoke", "--all"]);

    until("it is taken back", || {
        (inside.go(&gateway, "/").status == 503).then_some(())
    });
    assert_eq!(inside.until_state(&gateway, "waiting")["tier"], 3);
    let revoked =
        "tidegate_room_bad_tokens_total{room=\"shop\",token=\"pass\",reason=\"revoked\"} ";
    assert!(metric(&gateway, revoked).is_some_and(|count| count >= 1.0));
}

#[test]
fn the_application_tells_the_stock_and_closes_the_room() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(
        &directory,
        "gw1",
        &format!("phase = \"queue-all\"\n{FLOWS}"),
    );
    let mut browser = Browser::inside(&gateway);

    let page = browser.go_where(&gateway, "/", "Tidegate-Command: stock=2500");
    assert_eq!((page.status, page.header("tidegate-command")), (200, None));
    until("the stock is told", || {
        (document(&gateway)?["stock"] == 2_500).then_some(())
    });
    browser.go_where(&gateway, "/", "Tidegate-Command: close=\"sold-out\"");
    until_phase(&gateway, "closed");

    assert_eq!(document(&gateway).unwrap()["reason"], "sold-out");
    assert_eq!(browser.go(&gateway, "/").status, 200, "who is inside stays");
    let new = Browser::default().go(&gateway, "/");
    assert!(new.text().contains("Sold out"), "{}", new.text());
    // Nobody outside commands anything.
    order(&gateway, &["hold"]);
    let lies = [&NAVIGATES[..], &[("tidegate-command", "close")]].concat();
    browser.ask(&gateway, "GET", "/", &lies);
    Browser::default().ask(&gateway, "GET", "/", &lies);
    assert_eq!(document(&gateway).unwrap()["phase"], "hold");
}

#[test]
fn what_is_ordered_is_written_down_in_a_chain_that_goes_on_over_a_restart() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let audit = directory.path().join("audit.jsonl");
    let room = format!(
        "phase = \"queue-all\"\n{STANDS}audit = \"{}\"\n",
        audit.display()
    );
    let gateway = site.gateway(&directory, "gw1", &room);
    order(&gateway, &["hold", "--why", "a \"test\""]);
    order(&gateway, &["stock", "12"]);
    gateway.terminate();
    assert!(gateway.wait().success());
    let gateway = site.gateway(&directory, "gw1", &room);
    order(&gateway, &["drain"]);
    gateway.terminate();
    assert!(gateway.wait().success());

    let written = std::fs::read_to_string(&audit).unwrap();
    assert!(written.ends_with('\n'));
    let (mut before, mut orders) = ("0".repeat(64), Vec::new());
    for (number, line) in (1..).zip(written.lines()) {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&entry["n"], &entry["prev"]),
            (&number.into(), &before.as_str().into()),
            "{line}"
        );
        assert_eq!(entry["room"], "shop");
        assert!(entry["at_ms"].is_u64());
        before = hexadecimal(&sha256(line.as_bytes()));
        if entry["by"] == "kim" {
            orders.push(entry);
        }
    }
    let verified = output(&["room", "audit", audit.to_str().unwrap()]);
    let page = String::from_utf8(verified.stdout).unwrap();
    assert!(verified.status.success() && page.contains("kim"), "{page}");
    std::fs::write(&audit, written.replacen("kim", "tim", 1)).unwrap();
    let changed = output(&["room", "audit", audit.to_str().unwrap()]);
    assert_eq!(changed.status.code(), Some(1));
    let [hold, stock, drain] = &orders[..] else {
        panic!("{written}");
    };
    assert_eq!(
        (&hold["event"], &hold["to"], &hold["why"]),
        (&"phase.set".into(), &"hold".into(), &"a \"test\"".into())
    );
    assert!(stock["what"].as_str().unwrap().contains("12"), "{stock}");
    assert_eq!(
        (&drain["event"], &drain["to"]),
        (&"phase.set".into(), &"drain".into())
    );
}

/// Somebody who is told of events: what came, with its signature. The first try is refused.
fn receiver() -> (u16, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (heard, hears) = mpsc::channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let stream = stream.unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut input = BufReader::new(&stream);
            let request = read_line(&mut input);
            assert_eq!(request, "POST /hook?of=shop HTTP/1.1");
            let mut headers = BTreeMap::new();
            loop {
                let line = read_line(&mut input);
                let Some((name, value)) = line.split_once(": ") else {
                    break;
                };
                headers.insert(name.to_ascii_lowercase(), value.to_owned());
            }
            let mut body = vec![0; headers["content-length"].parse().unwrap()];
            input.read_exact(&mut body).unwrap();
            let answer = if number == 0 {
                "500 Oops"
            } else {
                "204 No Content"
            };
            write!(&stream, "HTTP/1.1 {answer}\r\nconnection: close\r\n\r\n").unwrap();
            let body = String::from_utf8(body).unwrap();
            if heard
                .send((headers["tidegate-signature"].clone(), body))
                .is_err()
            {
                return;
            }
        }
    });
    (port, hears)
}

#[test]
fn others_are_told_of_what_happens_by_a_signed_post_and_again_if_they_did_not_take_it() {
    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    let (site, directory) = (Site::alone(), TempDir::new());
    let (port, hears) = receiver();
    let secret = directory.write("hook.secret", SECRET);
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let room = format!(
        "phase = \"queue-all\"\n{STANDS}[[room.webhook]]\nurl = \"http://127.0.0.1:{port}/hook?of=shop\"\n\
         secret_file = \"{}\"\n",
        secret.display()
    );
    let gateway = site.gateway(&directory, "gw1", &room);
    order(&gateway, &["hold", "--why", "a test"]);

    let mut tried: Vec<String> = Vec::new();
    let told = loop {
        let (signature, body) = hears.recv_timeout(PATIENCE).unwrap();
        let (at, tag) = signature.split_once(",v1=").unwrap();
        let seconds = at.strip_prefix("t=").unwrap();
        assert_eq!(
            tag,
            hmac(SECRET.as_bytes(), format!("{seconds}.{body}").as_bytes())
        );
        let letter: Value = serde_json::from_str(&body).unwrap();
        tried.push(letter["id"].as_str().unwrap().to_owned());
        if letter["event"] == "phase.set" && tried.len() > 1 {
            break letter;
        }
    };

    assert_eq!(
        (&told["room"], &told["to"], &told["by"]),
        (&"shop".into(), &"hold".into(), &"kim".into())
    );
    assert_eq!(tried[0], tried[1], "the same again");
    let sent = "tidegate_room_webhooks_total{room=\"shop\",outcome=\"sent\"} ";
    until("it is counted", || {
        metric(&gateway, sent).filter(|sent| *sent >= 1.0)
    });
}

#[test]
fn every_metric_of_a_room_is_there_sound_and_in_the_reference() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let gateway = site.gateway(
        &directory,
        "gw1",
        &format!("phase = \"queue-all\"\n{FLOWS}"),
    );
    let mut browser = Browser::inside(&gateway);
    browser.go(&gateway, "/");
    Browser::default().ask(&gateway, "GET", "/api", &ASKS);
    Browser::default().ask(&gateway, "GET", "/api", &FETCHES);

    let metrics = get(gateway.admin, "/metrics");
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    promtool.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut promtool = promtool
        .spawn()
        .expect("promtool is in Debian's package prometheus");
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(&metrics.body)
        .unwrap();
    let checked = promtool.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&checked.stderr), "");
    let samples = samples(&gateway);
    let kinds = samples
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let names: Vec<&str> = kinds.map(|line| line.split(' ').next().unwrap()).collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        assert!(
            REFERENCE.contains(&format!("`{name}`")),
            "the reference lacks {name}"
        );
    }
    for (series, least) in [
        (
            "tidegate_room_requests_total{room=\"shop\",outcome=\"passed\"} ",
            1.0,
        ),
        (
            "tidegate_room_requests_total{room=\"shop\",outcome=\"waits\"} ",
            3.0,
        ),
        (
            "tidegate_room_own_requests_total{room=\"shop\",asked=\"claim\"} ",
            1.0,
        ),
        (
            "tidegate_room_passes_total{room=\"shop\",how=\"given\"} ",
            1.0,
        ),
        ("tidegate_room_places_total{room=\"shop\"} ", 3.0),
        ("tidegate_room_called_total{room=\"shop\"} ", 1.0),
        (
            "tidegate_room_phase{room=\"shop\",phase=\"queue-all\"} ",
            1.0,
        ),
    ] {
        let value = metric(&gateway, series);
        assert!(
            value.is_some_and(|value| value >= least),
            "{series}{value:?}\n{samples}"
        );
    }
    // What visitors send is no label.
    assert!(!samples.contains("127.0.0.1"), "{samples}");
    let shown: Value = serde_json::from_str(&get(gateway.admin, "/status.json").text()).unwrap();
    assert_eq!(shown["rooms"][0]["name"], "shop", "{shown}");
}

#[test]
fn a_room_that_cannot_be_is_found_when_the_configuration_is_checked() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let check = |room: &str, change: (&str, &str)| {
        let configuration = site.configuration(&directory, "gw1", room);
        let configuration = configuration.replace(change.0, change.1);
        let file = directory.write("checked.toml", &configuration);
        output(&["check", file.to_str().unwrap()])
    };
    let nothing = ("[[room]]", "[[room]]");
    let sound = check("phase = \"auto\"\n", nothing);
    assert_eq!(
        sound.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&sound.stderr)
    );
    let text = String::from_utf8(sound.stdout).unwrap();
    assert!(text.contains("shop") && text.contains("room"), "{text}");

    for (room, change, says) in [
        ("phase = \"on\"\n", nothing, "phase"),
        ("fase = \"auto\"\n", nothing, "phase"),
        ("credit = { returning = \"20m\" }\n", nothing, "credit"),
        ("page_status = 418\n", nothing, "page_status"),
        (
            "rate_min = \"10/s\"\nrate_max = \"1/s\"\n",
            nothing,
            "rate_m",
        ),
        ("visitor_rps = 0.0\n", nothing, "visitor_rps"),
        ("more_time = 10\n", nothing, "more_time"),
        ("on_store_loss = \"panic\"\n", nothing, "on_store_loss"),
        ("message = { xx = \"?\" }\n", nothing, "xx"),
        ("algorithm = \"none\"\n", nothing, "algorithm"),
        ("starts = \"tomorrow\"\n", nothing, "starts"),
        (
            "",
            ("routes = [\"pages\"]", "routes = [\"nowhere\"]"),
            "nowhere",
        ),
        (
            "",
            ("name = \"shop\"\nroutes", "name = \"The Shop\"\nroutes"),
            "name",
        ),
        ("app = \"other\"\n", nothing, "other"),
    ] {
        let checked = check(room, change);
        let errors = String::from_utf8_lossy(&checked.stderr);
        assert_eq!(checked.status.code(), Some(1), "{room}{change:?}: {errors}");
        assert!(errors.contains(says), "{room}{change:?}: {errors}");
        assert!(
            errors.contains("checked.toml:"),
            "{room}{change:?}: {errors}"
        );
    }
}

#[test]
fn keys_that_will_not_do_end_the_start_in_the_words_of_the_check() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let configuration = site.configuration(&directory, "gw1", "phase = \"auto\"\n");
    let file = directory.write("tidegate.toml", &configuration);
    for keys in ["", "{}", "{\"keys\":[]}", "secret"] {
        directory.write("room.jwks", keys);

        let checked = output(&["check", file.to_str().unwrap()]);
        let ran = output(&["run", "--config", file.to_str().unwrap(), "--log", "error"]);

        for done in [&checked, &ran] {
            let errors = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.status.code(), Some(1), "{keys}: {errors}");
            assert!(errors.contains("room.jwks"), "{keys}: {errors}");
        }
    }
}
