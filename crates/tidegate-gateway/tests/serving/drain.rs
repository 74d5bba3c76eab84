use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_gateway::Gateway;

use crate::support::{App, Client, admin_page, plan};

#[test]
fn a_drain_finishes_what_is_there_and_takes_nothing_new() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();
    let address = gateway.address();
    let mut idle = Client::connect(&gateway);
    assert_eq!(idle.get("/").status, 200);
    let mut busy = Client::connect(&gateway);
    busy.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    app.wait_for_requests(2);

    gateway.drain();

    assert!(idle.is_closed());
    assert!(
        TcpStream::connect(address).is_err(),
        "the listener is closed before connections are"
    );
    app.release();
    let answer = busy.answer();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(busy.is_closed());
    gateway.join();
}

#[test]
fn readiness_fails_first_and_requests_are_served_meanwhile() {
    let app = App::start();
    let mut plan = plan(&app);
    // Longer than the test: it never gets further than this.
    plan.drain.delay = Duration::from_secs(600);
    let gateway = Gateway::start(plan).unwrap();
    assert_eq!(admin_page(&gateway, "/readyz").status, 200);

    gateway.drain();

    assert_eq!(admin_page(&gateway, "/readyz").status, 503);
    assert_eq!(admin_page(&gateway, "/healthz").status, 200);
    let mut client = Client::connect(&gateway);
    let readiness = client.get("/health");
    assert_eq!(readiness.status, 503);
    assert!(readiness.body.contains("draining"));
    assert_eq!(client.get("/").status, 200);
}

#[test]
fn a_request_that_does_not_end_is_cut_at_the_timeout() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.drain.timeout = Duration::from_millis(100);
    let gateway = Gateway::start(plan).unwrap();
    let mut busy = Client::connect(&gateway);
    busy.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    app.wait_for_requests(1);

    gateway.drain();
    gateway.join();

    assert!(busy.is_closed());
}

#[test]
fn whoever_was_in_the_backlog_is_answered() {
    let app = App::start();
    let mut plan = plan(&app);
    plan.drain.delay = Duration::from_millis(50);
    let gateway = Gateway::start(plan).unwrap();
    let address = gateway.address();

    gateway.drain();
    let mut answered = 0;
    let deadline = Instant::now() + Duration::from_secs(20);
    // Each connection that is made has its request sent at once and must be answered, or closed
    // unanswered if the drain had come to idle connections; what must not happen is a hang.
    while let Ok(stream) = TcpStream::connect(address) {
        drop(stream);
        let Ok(()) = try_get(address) else { break };
        answered += 1;
        assert!(Instant::now() < deadline, "the listener never closes");
    }

    assert!(answered > 0);
    gateway.join();
}

#[test]
fn dropping_a_gateway_stops_it() {
    let app = App::start();
    let gateway = Gateway::start(plan(&app)).unwrap();
    let address = gateway.address();
    let mut client = Client::connect(&gateway);
    assert_eq!(client.get("/").status, 200);

    thread::spawn(move || drop(gateway)).join().unwrap();

    assert!(client.is_closed());
    assert!(TcpStream::connect(address).is_err());
}

fn try_get(address: std::net::SocketAddr) -> std::io::Result<()> {
    use std::io::{Read, Write};

    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    match answer.starts_with(b"HTTP/1.1 200") {
        true => Ok(()),
        false => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}
