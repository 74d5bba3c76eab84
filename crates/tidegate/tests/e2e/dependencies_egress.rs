//! Connections of applications to a dependency's listener: who stays and who goes.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::backend::Backend;
use crate::client::{get, read_answer};
use crate::process::{PATIENCE, TempDir, Tidegate};

struct Site {
    egress: SocketAddr,
    _tidegate: Tidegate,
    _backend: Backend,
    _directory: TempDir,
}

impl Site {
    fn start(listen: &str, keys: &str) -> Self {
        let (directory, backend) = (TempDir::new(), Backend::start());
        let address = backend.address;
        let configuration = format!(
            "threads = 1\n[listen]\n{listen}\n[[app]]\nupstream = \"http://{address}\"\nworkers = 2\n\
             [[dependency]]\nname = \"recs\"\nurl = \"http://{address}\"\nlisten = \"127.0.0.1:0\"\nconcurrency = 4\n{keys}"
        );
        let tidegate = Tidegate::start(&directory, &configuration);
        let status = get(tidegate.admin, "/status.json").text();
        let status: Value = serde_json::from_str(&status).unwrap();
        let listens = status["dependencies"][0]["listens"].as_str().unwrap();
        Self {
            egress: listens.parse().unwrap(),
            _tidegate: tidegate,
            _backend: backend,
            _directory: directory,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.egress).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

fn call(stream: &mut TcpStream) -> u16 {
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: recs\r\n\r\n")
        .unwrap();
    read_answer(&mut BufReader::new(stream), "GET").status
}

/// Waits until the other side closes.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn who_sends_no_head_is_closed_soon_and_who_has_called_stays() {
    let site = Site::start("head_timeout = \"200ms\"", "");
    let mut kept = site.connect();
    assert_eq!(call(&mut kept), 200);
    let begun = Instant::now();
    let (mut silent, mut half) = (site.connect(), site.connect());
    half.write_all(b"GET / HTT").unwrap();

    assert!(is_closed(&mut silent) && is_closed(&mut half));

    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(call(&mut kept), 200);
    // And what begins a second call does not take its time either.
    kept.write_all(b"GET / HTT").unwrap();
    assert!(is_closed(&mut kept));
}

#[test]
fn where_there_is_no_room_who_is_idle_makes_some() {
    let site = Site::start("", "connections_max = 2\n");
    let (mut first, mut second) = (site.connect(), site.connect());
    assert_eq!((call(&mut first), call(&mut second)), (200, 200));

    let mut third = site.connect();

    assert_eq!(call(&mut third), 200);
    assert!(is_closed(&mut first));
    assert_eq!(call(&mut second), 200);
    // One that has said nothing makes room as well.
    let (mut silent, mut fourth) = (site.connect(), site.connect());
    assert_eq!(call(&mut fourth), 200);
    let mut fifth = site.connect();
    assert_eq!(call(&mut fifth), 200);
    assert!(is_closed(&mut silent));
}
