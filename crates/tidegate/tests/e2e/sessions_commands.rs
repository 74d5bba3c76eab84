//! What applications command, and what becomes of it when it cannot be done.

use std::io::Write;

use crate::client::{connect, get, head};
use crate::process::{PATIENCE, TempDir, Tidegate};
use crate::sessions_visitor::{App, Visitor, gateway, metric};

fn dropped(tidegate: &Tidegate, reason: &str) -> f64 {
    let name = "tidegate_session_changes_dropped_total{app=\"app\",reason=";
    metric(tidegate, &format!("{name}\"{reason}\"}}"))
}

#[test]
fn a_line_that_makes_no_sense_is_dropped_and_counted_and_never_passed_on() {
    let (directory, app) = (TempDir::new(), App::start());
    let tidegate = gateway(&directory, &app, "", "");
    let mut visitor = Visitor::default();

    let said = [
        "Tidegate-Set: cart",
        "Tidegate-Set: cart=c9",
        "Tidegate-Incr: visits=many",
        "Tidegate-Rotate: 7",
        "Tidegate-Destroy: yes",
        "Tidegate-Signout-User: everybody",
    ];
    let page = visitor.ask(tidegate.clients, "/", &said);

    assert_eq!(page.answer.status, 200);
    assert!(
        page.answer
            .headers
            .iter()
            .all(|(name, _)| !name.starts_with("tidegate-"))
    );
    assert_eq!(dropped(&tidegate, "malformed"), 5.0);
    let page = visitor.ask(tidegate.clients, "/", &[]);
    assert_eq!(page.told("tidegate-attr-cart").as_deref(), Some("c9"));
    assert_eq!(page.told("tidegate-uid"), None);
}

#[test]
fn a_change_that_meets_something_else_than_was_seen_is_not_made() {
    for (setting, status) in [("", 200), ("on_conflict = \"fail\"", 502)] {
        let (directory, app) = (TempDir::new(), App::start());
        let tidegate = gateway(&directory, &app, setting, "");
        let mut visitor = Visitor::default();
        visitor.ask(tidegate.clients, "/", &["Tidegate-Set: cart=one"]);

        // A slow request has seen the cart before another one changes it.
        let mut slow = visitor.clone();
        let address = tidegate.clients;
        let slow = std::thread::spawn(move || {
            slow.ask(address, "/hold", &["Tidegate-Set: cart=slow;if=seen"])
                .answer
        });
        app.wait_for_held(1);
        let seen = visitor.ask(tidegate.clients, "/", &["Tidegate-Set: cart=fast;if=seen"]);
        assert_eq!(seen.answer.status, 200);
        app.release();
        let answer = slow.join().unwrap();

        assert_eq!(answer.status, status, "{}", answer.text());
        let reason = (status == 502).then_some("session_unstored");
        assert_eq!(answer.header("tidegate-reason"), reason);
        let page = visitor.ask(tidegate.clients, "/", &[]);
        assert_eq!(page.told("tidegate-attr-cart").as_deref(), Some("fast"));
        assert_eq!(dropped(&tidegate, "conflict"), 1.0);
    }
}

#[test]
fn a_session_over_its_ceiling_stays_as_it_was() {
    let (directory, app) = (TempDir::new(), App::start());
    let small = "session_max = \"256B\"\nblob_max = \"0B\"\nvalue_max = \"200B\"";
    let tidegate = gateway(&directory, &app, small, "");
    let mut visitor = Visitor::default();
    visitor.ask(tidegate.clients, "/", &["Tidegate-Set: cart=c9"]);

    let large = format!("Tidegate-Set: cart=c10, big=\"{}\"", "x".repeat(250));
    let page = visitor.ask(tidegate.clients, "/", &[&large]);

    assert_eq!(page.answer.status, 200);
    assert_eq!(dropped(&tidegate, "too_large"), 1.0);
    let page = visitor.ask(tidegate.clients, "/", &[]);
    assert_eq!(page.told("tidegate-attr-cart").as_deref(), Some("c9"));
}

#[test]
fn what_an_application_has_done_is_kept_though_its_client_has_left() {
    let (directory, app) = (TempDir::new(), App::start());
    let tidegate = gateway(&directory, &app, "", "");
    let mut visitor = Visitor::default();
    visitor.ask(tidegate.clients, "/", &["Tidegate-Set: cart=one"]);

    let cookie = visitor.cookie();
    let headers = [
        ("cookie", cookie.as_str()),
        ("x-say", "Tidegate-Set: cart=two"),
    ];
    let mut client = connect(tidegate.clients);
    let request = format!("{}\r\n", head("GET", "/hold", &headers));
    client.write_all(request.as_bytes()).unwrap();
    app.wait_for_held(1);
    drop(client);
    app.release();

    let begun = std::time::Instant::now();
    loop {
        let page = visitor.ask(tidegate.clients, "/", &[]);
        if page.told("tidegate-attr-cart").as_deref() == Some("two") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "the change is lost");
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
}

#[test]
fn nothing_that_opens_a_session_is_ever_logged() {
    let (directory, app) = (TempDir::new(), App::start());
    let log = directory.path().join("log");
    let tidegate = {
        let quiet = gateway(&directory, &app, "", "");
        drop(quiet);
        Tidegate::start_logging(&directory, "trace", &log)
    };
    let mut visitor = Visitor::default();
    visitor.ask(tidegate.clients, "/", &["Tidegate-Set: cart=c9"]);
    let mut secrets = vec![visitor.cookies.clone()];
    visitor.ask(tidegate.clients, "/", &["Tidegate-Rotate: uid=anna"]);
    secrets.push(visitor.cookies.clone());
    let page = visitor.ask(tidegate.clients, "/", &[]);
    let id = page.told("tidegate-session").unwrap();
    visitor.ask(tidegate.clients, "/", &["Tidegate-Set: cart"]);
    visitor.ask(tidegate.clients, "/", &["Tidegate-Destroy: ?1"]);
    let (metrics, status) = (
        get(tidegate.admin, "/metrics").text(),
        get(tidegate.admin, "/status.json").text(),
    );
    tidegate.terminate();
    tidegate.wait();

    let text = std::fs::read_to_string(log).unwrap() + &metrics + &status;
    assert!(text.contains("drained"), "{text}");
    assert!(!text.contains(&id), "the id is logged whole");
    assert!(
        !text.contains(id.split_once('.').unwrap().1),
        "its hash is logged"
    );
    for cookies in secrets {
        let token: Vec<&str> = cookies["tg"].split('.').collect();
        assert!(!text.contains(token[2]), "a secret is logged");
        assert!(!text.contains(&cookies["tgt"][..60]), "a ticket is logged");
    }
}
