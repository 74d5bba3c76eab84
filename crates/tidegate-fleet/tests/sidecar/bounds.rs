//! Who may ask, how much, and how slowly; and the socket's place.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_fleet::{Listen, ListenError, SidecarError};

use crate::site::{PATIENCE, Site, ask_loopback, plan, read, socket, start, wait_until};

#[test]
fn pages_in_browsers_are_kept_out() {
    let mut over_tcp = plan();
    over_tcp.listen = Listen::Loopback(([127, 0, 0, 1], 0).into());
    let sidecar = start(over_tcp).unwrap();
    let ask = |headers: &str| {
        let request =
            format!("GET /v1/openapi.json HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        ask_loopback(sidecar.listen(), &request)
    };

    for own in ["127.0.0.1", "localhost:9091", "[::1]:9091", "LocalHost"] {
        assert_eq!(ask(&format!("Host: {own}\r\n")).status, 200, "{own}");
    }
    for foreign in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "a b"] {
        let refused = ask(&format!("Host: {foreign}\r\n"));
        assert!(
            matches!(refused.status, 400 | 403),
            "{foreign}: {refused:?}"
        );
    }
    let page = ask("Host: localhost\r\nOrigin: https://evil.example\r\n");
    assert_eq!(
        (page.status, page.json()["reason"].clone()),
        (403, json!("not_for_browsers"))
    );
    assert_eq!(
        ask("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n").status,
        403
    );
    let form = "POST /v1/users/ada/sign-out HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(ask_loopback(sidecar.listen(), form).status, 415);
}

#[test]
fn a_body_that_is_too_large_is_not_read() {
    let mut small = plan();
    small.body_bytes_max = 1024;
    let site = Site::with(small);
    let session = site.session();

    let said = site.send(
        format!(
            "PATCH /v1/sessions/{session} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n"
        )
        .as_bytes(),
    );
    assert_eq!(
        (said.status, said.json()["reason"].clone()),
        (413, json!("body_too_large"))
    );
    assert_eq!(said.json()["field"], "body");
    let mut chunked = format!(
        "PATCH /v1/sessions/{session} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    chunked += &format!("800\r\n{}\r\n0\r\n\r\n", "x".repeat(0x800));
    assert_eq!(site.send(chunked.as_bytes()).status, 413);
}

#[test]
fn who_writes_all_of_a_large_body_before_it_reads_sees_the_answer() {
    const LARGE: usize = 3 * 1024 * 1024;
    let site = Site::new();
    let mut over_tcp = plan();
    over_tcp.listen = Listen::Loopback(([127, 0, 0, 1], 0).into());
    let sidecar = start(over_tcp).unwrap();
    let session = site.session();
    let body = "x".repeat(LARGE);
    let head = |method: &str, path: &str, more: &str| {
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}")
    };
    let json = "Content-Type: application/json\r\n";
    let path = format!("/v1/sessions/{session}");
    for (head, status, reason) in [
        (head("PATCH", &path, json), 413, "body_too_large"),
        (
            head("PUT", &format!("{path}/blobs/a"), ""),
            413,
            "body_too_large",
        ),
        (
            head("PATCH", &path, "Origin: https://evil.example\r\n"),
            403,
            "not_for_browsers",
        ),
    ] {
        let whole = format!("{head}Content-Length: {LARGE}\r\n\r\n{body}");
        let chunked =
            format!("{head}Transfer-Encoding: chunked\r\n\r\n{LARGE:x}\r\n{body}\r\n0\r\n\r\n");
        for request in [whole, chunked] {
            for said in [
                site.send(request.as_bytes()),
                ask_loopback(sidecar.listen(), &request),
            ] {
                assert_eq!(said.status, status, "{head}: {:?}", said.status);
                assert_eq!(said.json()["reason"], reason);
                assert_eq!(said.header("connection"), Some("close"));
            }
        }
    }
    let small = format!(
        "{}Content-Type: text/plain\r\nContent-Length: 300000\r\n\r\n{}",
        head("PATCH", &path, ""),
        "x".repeat(300_000)
    );
    assert_eq!(site.send(small.as_bytes()).json()["reason"], "not_json");
}

#[test]
fn who_asks_before_it_sends_a_large_body_is_told_not_to() {
    let site = Site::new();

    let said = site.send(
        b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
          Expect: 100-continue\r\nContent-Length: 3000000\r\n\r\n",
    );

    assert_eq!(said.status, 413);
}

#[test]
fn a_request_that_does_not_come_to_its_end_is_not_waited_for() {
    let mut narrow = plan();
    narrow.connections_max = 1;
    narrow.timeout = Duration::from_millis(200);
    let site = Site::with(narrow);
    for half in [
        &b""[..],
        b"POST /v1/sessions HT",
        b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConte",
    ] {
        let begun = Instant::now();
        let mut slow = site.connect();
        slow.write_all(half).unwrap();
        slow.flush().unwrap();

        // The only connection there is: it comes free because the one before is given up.
        assert_eq!(site.ask("GET", "/v1/openapi.json", "").status, 200);
        let mut rest = Vec::new();
        let _ = slow.read_to_end(&mut rest);
        assert_eq!(rest, b"", "{}", String::from_utf8_lossy(&rest));
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn a_head_that_comes_in_drops_is_not_waited_for() {
    let mut hasty = plan();
    hasty.timeout = Duration::from_millis(200);
    let site = Site::with(hasty);
    let mut slow = site.connect();
    slow.write_all(b"GET /v1/openapi.json HTTP/1.1\r\nX: ")
        .unwrap();

    wait_until("the end", || slow.write_all(b"x").is_err());
}

#[test]
fn between_two_requests_a_connection_may_rest_for_longer_than_one_may_take() {
    let mut hasty = plan();
    let timeout = Duration::from_millis(200);
    hasty.timeout = timeout;
    let site = Site::with(hasty);
    let mut kept = site.connect();
    let ask = |kept: &mut UnixStream| {
        let request = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
        kept.write_all(request).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}\n") {
            let mut byte = [0];
            kept.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        answer
    };

    assert!(ask(&mut kept).starts_with(b"HTTP/1.1 404"));
    kept.set_read_timeout(Some(3 * timeout)).unwrap();
    let cut = kept.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(cut, Err(ErrorKind::WouldBlock), "it was not left alone");
    kept.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(ask(&mut kept).starts_with(b"HTTP/1.1 404"));
}

#[test]
fn one_request_too_many_is_told_to_come_back() {
    let mut narrow = plan();
    narrow.requests_max = 1;
    let site = Site::with(narrow);
    let mut slow = site.connect();
    slow.write_all(
        b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
          Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{",
    )
    .unwrap();
    wait_until("the slow request", || site.sidecar.tally().requests == 1);

    let busy = site.ask("POST", "/v1/sessions", "");
    assert_eq!(
        (busy.status, busy.json()["reason"].clone()),
        (503, json!("busy"))
    );
    assert_eq!(busy.header("retry-after"), Some("1"));
    assert_eq!(site.sidecar.tally().busy, 1);

    slow.write_all(b"}").unwrap();
    assert_eq!(read(slow).status, 201);
    assert_eq!(site.ask("POST", "/v1/sessions", "").status, 201);
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let mut hasty = plan();
    hasty.timeout = Duration::from_millis(100);
    let site = Site::with(hasty);
    let mut slow = site.connect();
    slow.write_all(
        b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
          Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{",
    )
    .unwrap();

    let said = read(slow);

    assert_eq!(
        (said.status, said.json()["reason"].clone()),
        (408, json!("slow_body"))
    );
}

#[test]
fn a_client_that_takes_no_bytes_is_let_go() {
    let mut narrow = plan();
    narrow.connections_max = 1;
    narrow.timeout = Duration::from_millis(200);
    let site = Site::with(narrow);
    let session = site.session();
    let path = format!("/v1/sessions/{session}/blobs/large");
    let put = site.ask("PUT", &path, &format!("\"{}\"", "x".repeat(1_000_000)));
    assert_eq!(put.status, 200, "{put:?}");
    let mut idle = site.connect();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    idle.write_all(request.as_bytes()).unwrap();

    // The only connection there is: it comes free because the one before is given up.
    assert_eq!(site.ask("GET", "/v1/openapi.json", "").status, 200);
    let mut rest = Vec::new();
    let _ = idle.read_to_end(&mut rest);
    assert!(rest.len() < 1_000_000, "{}", rest.len());
}

#[test]
fn a_request_that_two_readers_could_see_differently_is_refused() {
    let site = Site::new();
    for fields in [
        "Host: localhost\r\nContent-Length: 2\r\nContent-Length: 2\r\n",
        "Host: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Host: localhost\r\nContent-Length: +2\r\n",
        "Host: localhost\nContent-Length: 2\r\n",
        "Host: localhost\r\nHost: localhost\r\nContent-Length: 2\r\n",
        "Content-Length: 2\r\n",
    ] {
        let head = "POST /v1/users/ada/sign-out HTTP/1.1\r\nContent-Type: application/json\r\n";

        let answer = site.send(format!("{head}{fields}\r\n{{}}").as_bytes());

        assert_eq!(
            (answer.status, answer.header("connection")),
            (400, Some("close")),
            "{fields:?}"
        );
    }
}

#[test]
fn bytes_that_are_no_http_do_no_harm() {
    let site = Site::new();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n\r\n",
        b"GET /v1/sessions/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PATCH / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ] {
        let mut stream = site.connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            !answer.starts_with(b"HTTP/1.1 2"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    let deep = format!("{{\"ops\":{}", "[".repeat(100_000));
    let session = site.session();
    assert_eq!(
        site.ask("PATCH", &format!("/v1/sessions/{session}"), &deep)
            .status,
        400
    );
    let long = format!("/v1/sessions/{}", "x".repeat(60_000));
    let request = format!("GET {long} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(matches!(site.send(request.as_bytes()).status, 414 | 431));
    assert_eq!(site.ask("GET", "/v1/openapi.json", "").status, 200);
}

#[test]
fn the_socket_is_for_its_owner_and_group() {
    let site = Site::new();

    let mode = std::fs::metadata(&site.socket)
        .unwrap()
        .permissions()
        .mode();

    assert_eq!(mode & 0o777, 0o660);
    let path = site.socket.clone();
    drop(site);
    assert!(!path.exists());
}

#[test]
fn a_directory_that_is_missing_is_said_with_what_makes_it() {
    let mut nowhere = plan();
    nowhere.listen = Listen::Socket("/nowhere/tidegate/sidecar.sock".into());

    let said = start(nowhere).unwrap_err().to_string();

    assert!(
        said.starts_with(
            "cannot listen on unix:/nowhere/tidegate/sidecar.sock: there is no directory"
        ),
        "{said}"
    );
    assert!(
        said.contains("install -d -o \"$USER\" /nowhere/tidegate`"),
        "{said}"
    );
    assert!(said.contains("RuntimeDirectory=tidegate"), "{said}");
}

#[test]
fn a_socket_left_behind_is_replaced_and_nothing_else() {
    let left = plan();
    let Listen::Socket(path) = left.listen.clone() else {
        panic!("a socket")
    };
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let sidecar = start(left.clone()).unwrap();
    assert!(UnixStream::connect(&path).is_ok());

    assert!(matches!(
        start(left),
        Err(SidecarError::Listen(ListenError::InUse(_)))
    ));
    drop(sidecar);

    let mut occupied = plan();
    let file = socket();
    std::fs::write(&file, "precious").unwrap();
    occupied.listen = Listen::Socket(file.clone());
    assert!(matches!(
        start(occupied),
        Err(SidecarError::Listen(ListenError::Occupied(_)))
    ));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn a_socket_that_cannot_be_made_is_an_error_also_where_a_runtime_runs() {
    let mut nowhere = plan();
    nowhere.listen = Listen::Socket("/nowhere/tidegate.sock".into());

    let error = start(nowhere).err().unwrap().to_string();

    assert!(error.contains("/nowhere/tidegate.sock"), "{error}");
}

#[test]
fn an_address_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut over_tcp = plan();
    over_tcp.listen = Listen::Loopback(taken.local_addr().unwrap());

    let error = start(over_tcp).err().unwrap().to_string();

    assert!(
        error.contains(&taken.local_addr().unwrap().to_string()),
        "{error}"
    );
}
