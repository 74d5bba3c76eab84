//! The pages about languages work when they are followed: their blocks are taken out of them and run,
//! with real PHP, Node, Python and Tomcat, and so are the commands that they end with.

mod application;
mod page;
mod visitor;

use std::net::SocketAddr;
use std::process::Command;
use std::thread;

use crate::process::{TempDir, Tidegate};
use application::Application;
use page::Page;
use visitor::Visitor;

/// Requests at the same time that change one value.
const AT_ONCE: usize = 4;
/// How often each of them does.
const TIMES: usize = 5;

#[test]
fn the_page_for_php_works_when_followed() {
    follow("php", Application::php);
}

#[test]
fn the_page_for_node_works_when_followed() {
    follow("node", Application::node);
}

#[test]
fn the_page_for_python_works_when_followed() {
    follow("python", Application::python);
}

#[test]
fn the_page_for_java_works_when_followed() {
    follow("java", Application::tomcat);
}

fn follow(language: &str, start: fn(&TempDir, u16) -> Application) {
    let directory = TempDir::new();
    let page = Page::read(language, &directory);
    let application = start(&directory, page.application_port);
    application.wait_until_it_listens();
    let tidegate = Tidegate::start(&directory, &page.configuration);

    try_it(&page, &directory, tidegate.clients);
    a_visitor_keeps_a_cart_through_a_sign_in(tidegate.clients);
    changes_at_the_same_time_lose_nothing(tidegate.clients);
    a_large_value_comes_back(tidegate.clients);
    a_user_signs_out_on_other_devices(tidegate.clients);
}

/// The commands at the end of the page print what the page says.
fn try_it(page: &Page, directory: &TempDir, clients: SocketAddr) {
    let script = page.script.replace("127.0.0.1:8080", &clients.to_string());
    let output = Command::new("bash")
        .args(["-ec", &script])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    };
    assert_eq!(
        lines(&printed),
        lines(&page.prints),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn a_visitor_keeps_a_cart_through_a_sign_in(clients: SocketAddr) {
    let mut visitor = Visitor::new(clients);
    assert_eq!(visitor.get("/cart"), "nobody:");
    assert!(!visitor.has_session(), "nothing was stored yet");

    visitor.post("/cart", "item=100%25+%22%C3%84pfel%22+%2B+Obst%3B");
    assert!(visitor.has_session());
    let anonymous = visitor.clone();
    assert_eq!(visitor.get("/cart"), "nobody: 100% \"Äpfel\" + Obst;");
    assert_eq!(visitor.post("/login", "user=grace"), "welcome");
    assert_eq!(visitor.get("/cart"), "grace (gold): 100% \"Äpfel\" + Obst;");

    let mut old = anonymous;
    assert_eq!(old.get("/cart"), "nobody:", "the cookie of before is dead");
    assert_eq!(visitor.post("/logout", ""), "goodbye");
    assert_eq!(visitor.get("/cart"), "nobody:");
}

fn changes_at_the_same_time_lose_nothing(clients: SocketAddr) {
    let mut visitor = Visitor::new(clients);
    visitor.post("/cart", "item=tea");

    thread::scope(|scope| {
        for writer in 0..AT_ONCE {
            let mut visitor = visitor.clone();
            scope.spawn(move || {
                for wish in 0..TIMES {
                    let said = visitor.post("/wishes", &format!("item=w{writer}x{wish}"));
                    assert!(said.ends_with(" wishes"), "{said}");
                }
            });
        }
    });

    let wishes = AT_ONCE * TIMES + 1;
    assert_eq!(
        visitor.post("/wishes", "item=last"),
        format!("{wishes} wishes")
    );
}

fn a_large_value_comes_back(clients: SocketAddr) {
    let mut visitor = Visitor::new(clients);
    visitor.post("/cart", "item=tea");
    let draft = "Entwurf ".repeat(20_000);

    assert_eq!(visitor.put("/draft", &draft), "kept");

    assert_eq!(visitor.get("/draft"), draft.trim_end());
}

fn a_user_signs_out_on_other_devices(clients: SocketAddr) {
    let mut here = Visitor::new(clients);
    let mut there = Visitor::new(clients);
    here.post("/login", "user=mary+%C3%A4");
    there.post("/login", "user=mary+%C3%A4");
    assert_eq!(there.get("/devices"), "2 devices");

    assert_eq!(here.post("/logout-others", ""), "signed out elsewhere");

    assert_eq!(there.get("/cart"), "nobody:");
    assert_eq!(here.get("/cart"), "mary ä (gold):");
}
