//! The examples in deploy/ and examples/ are ones that their programs take.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Answer, ask, get};
use crate::process::{PATIENCE, TempDir, output};

fn at_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
        .canonicalize()
        .unwrap()
}

/// A program of Debian's that may be where only root looks.
fn system(name: &str) -> Command {
    let path = ["/usr/sbin", "/usr/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name));
    let path = path.into_iter().find(|path| path.exists());
    Command::new(path.unwrap_or_else(|| panic!("{name} is missing; ./test installs it")))
}

#[test]
fn haproxy_takes_the_example_for_it() {
    let checked = system("haproxy")
        .args(["-c", "-f"])
        .arg(at_root("deploy/haproxy.cfg"))
        .output()
        .unwrap();

    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

/// HAProxy with the example's configuration before two nodes. Ends when it is dropped.
struct Haproxy {
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Haproxy {
    fn start(nodes: [SocketAddr; 2]) -> Self {
        let address = free_address();
        let mut text = std::fs::read_to_string(at_root("deploy/haproxy.cfg")).unwrap();
        let directory = TempDir::new();
        for (from, to) in [
            ("bind :80", format!("bind {address}")),
            // A test may open fewer descriptors than a balancer's machine.
            ("maxconn 20000", "maxconn 200".to_owned()),
            // Its directory is made by Debian's package, for root.
            (
                "/run/haproxy/admin.sock",
                directory.path().join("s").display().to_string(),
            ),
            ("10.0.0.11:8080", nodes[0].to_string()),
            ("10.0.0.12:8080", nodes[1].to_string()),
        ] {
            assert!(text.contains(from), "the example has no {from}");
            text = text.replace(from, &to);
        }
        let file = directory.write("haproxy.cfg", &text);
        let mut command = system("haproxy");
        command.arg("-db").arg("-f").arg(file);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let haproxy = Self {
            child: command.spawn().unwrap(),
            address,
            _directory: directory,
        };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < PATIENCE, "haproxy does not listen");
            thread::park_timeout(Duration::from_millis(5));
        }
        haproxy
    }

    /// Who answers a request with these cookies.
    fn ask(&self, cookies: &str) -> String {
        let answer: Answer = match cookies {
            "" => get(self.address, "/"),
            cookies => ask(self.address, "GET", "/", &[("cookie", cookies)], b""),
        };
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node that answers everything with its name, until the process ends.
fn node(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || say(name, &stream.unwrap()));
        }
    });
    address
}

fn say(name: &str, mut stream: &TcpStream) {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        let length = name.len();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{name}");
        if line.is_empty() && stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// An address that nobody listens on, for now.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn haproxy_leads_a_visitor_to_the_node_of_the_affinity_cookie_and_nobody_else() {
    let haproxy = Haproxy::start([node("node1"), node("node2")]);

    for _ in 0..8 {
        assert_eq!(haproxy.ask("a=b; tg_a=node1.AAAAAAAAAAAA"), "node1");
        assert_eq!(haproxy.ask("tg_a=node2.AAAAAAAAAAAA"), "node2");
    }
    let without: Vec<String> = (0..16).map(|_| haproxy.ask("")).collect();
    let unknown: Vec<String> = (0..16).map(|_| haproxy.ask("tg_a=node3.x")).collect();
    for answers in [without, unknown] {
        for name in ["node1", "node2"] {
            assert!(answers.iter().any(|answer| answer == name), "{answers:?}");
        }
    }
}

#[test]
fn haproxy_leads_a_visitor_elsewhere_when_their_node_is_gone() {
    let haproxy = Haproxy::start([node("node1"), free_address()]);

    for _ in 0..4 {
        assert_eq!(haproxy.ask("tg_a=node2.AAAAAAAAAAAA"), "node1");
    }
}

#[test]
fn the_example_for_big_ip_is_whole_tcl() {
    // Only a BIG-IP knows its commands; that it is Tcl with all its braces any Tcl can say.
    let text = std::fs::read_to_string(at_root("deploy/f5-affinity.tcl")).unwrap();
    let (mut depth, mut least) = (0, 0);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        for byte in line.bytes() {
            depth += i32::from(byte == b'{') - i32::from(byte == b'}');
            least = least.min(depth);
        }
    }

    assert_eq!((depth, least), (0, 0));
    assert!(text.contains("when HTTP_REQUEST {"));
}

#[test]
fn nginx_takes_the_example_for_it() {
    let checked = system("nginx")
        .args(["-t", "-e", "stderr", "-c"])
        .arg(at_root("deploy/nginx.conf"))
        .output()
        .unwrap();

    // Whether it could write its process id does not matter here.
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(said.contains("syntax is ok"), "{said}");
}

#[test]
fn every_example_configuration_is_sound() {
    for entry in at_root("examples").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        // A shape is for `tidegate sim --shape` to read.
        if name.ends_with(".toml") && !name.starts_with("shape-") {
            let checked = output(&["check", path.to_str().unwrap()]);
            assert_eq!(
                checked.status.code(),
                Some(0),
                "{}",
                String::from_utf8_lossy(&checked.stderr)
            );
        }
    }
}
