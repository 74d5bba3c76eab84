//! Breakers hear how an answer ends, not only how it begins: before an application, and before a dependency.

use std::io::{BufReader, Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::backend::Backend;
use crate::client::{connect, get, head, read_head};
use crate::process::{PATIENCE, TempDir, Tidegate};

/// A gateway with a breaker before an application and one before a dependency, which are the same backend.
struct Site {
    tidegate: Tidegate,
    backend: Backend,
    _directory: TempDir,
}

/// Where a request comes in, and the name of the breaker there.
#[derive(Clone, Copy, Debug)]
struct Door {
    address: SocketAddr,
    label: &'static str,
}

impl Site {
    /// An answer may be silent for `silence`, and the dependency is left alone for `pause`.
    fn start(silence: &str, pause: &str) -> Self {
        let (directory, backend) = (TempDir::new(), Backend::start());
        let address = backend.address;
        let configuration = format!(
            "[[app]]\nname = \"shop\"\nupstream = \"http://{address}\"\nworkers = 16\nbreaker = true\n\
             response_timeout = \"200ms\"\nresponse_body_timeout = \"{silence}\"\n\
             [[dependency]]\nname = \"recs\"\nurl = \"http://{address}\"\nlisten = \"127.0.0.1:0\"\n\
             concurrency = 16\ntimeout = \"200ms\"\nresponse_body_timeout = \"{silence}\"\n\
             breaker_pause = \"{pause}\"\nbreaker_pause_max = \"{pause}\"\n"
        );
        Self {
            tidegate: Tidegate::start(&directory, &configuration),
            backend,
            _directory: directory,
        }
    }

    fn doors(&self) -> [Door; 2] {
        let listens = self.status().pointer("/dependencies/0/listens").cloned();
        let app = Door {
            address: self.tidegate.clients,
            label: "app=\"shop\"",
        };
        let dependency = Door {
            address: listens.unwrap().as_str().unwrap().parse().unwrap(),
            label: "dependency=\"recs\"",
        };
        [app, dependency]
    }

    fn status(&self) -> Value {
        serde_json::from_str(&get(self.tidegate.admin, "/status.json").text()).unwrap()
    }

    fn trips(&self, door: Door) -> u64 {
        let begins = format!(
            "tidegate_breaker_trips_total{{{},by=\"in-a-row\"}} ",
            door.label
        );
        let metrics = get(self.tidegate.admin, "/metrics").text();
        let line = metrics.lines().find_map(|line| line.strip_prefix(&begins));
        line.unwrap_or_else(|| panic!("{begins}: {metrics}"))
            .parse()
            .unwrap()
    }

    /// Waits until nothing is under way any more.
    fn until_idle(&self) {
        let begun = Instant::now();
        loop {
            let status = self.status();
            let in_flight = |list: &str| status[list][0]["in_flight"].as_u64().unwrap();
            if in_flight("apps") + in_flight("dependencies") == 0 {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{status:#}");
            thread::park_timeout(Duration::from_millis(2));
        }
    }
}

/// What is left of an answer after its head, and half of its body.
struct Half(BufReader<std::net::TcpStream>);

impl Half {
    fn begin(door: Door) -> Self {
        let mut stream = connect(door.address);
        write!(stream, "{}\r\n", head("GET", "/half", &[])).unwrap();
        let mut stream = BufReader::new(stream);
        assert_eq!(read_head(&mut stream).0, 200, "{door:?}");
        let mut half = [0; 4];
        stream.read_exact(&mut half).unwrap();
        assert_eq!(&half, b"half");
        Self(stream)
    }

    /// Waits for the end, before the end of the body.
    fn broken(mut self) {
        let mut rest = Vec::new();
        // A close or a reset, whichever comes first.
        let _ = self.0.read_to_end(&mut rest);
        assert_eq!(rest, b"");
    }
}

#[test]
fn answers_that_fall_silent_after_their_heads_trip_it() {
    let site = Site::start("50ms", "500ms");

    for door in site.doors() {
        for _ in 0..5 {
            Half::begin(door).broken();
        }
        site.until_idle();

        assert_eq!(site.trips(door), 1, "{door:?}");
    }
    for door in site.doors() {
        let begun = Instant::now();
        while get(door.address, "/").status != 200 {
            assert!(begun.elapsed() < PATIENCE, "{door:?}");
            thread::park_timeout(Duration::from_millis(20));
        }
    }
}

#[test]
fn answers_that_break_after_their_heads_trip_it() {
    let site = Site::start("1m", "30s");
    let begun: Vec<_> = site
        .doors()
        .into_iter()
        .flat_map(|door| (0..5).map(move |_| Half::begin(door)))
        .collect();
    let before = site.doors().map(|door| get(door.address, "/").status);
    assert_eq!(before, [200, 200], "nothing has broken yet");

    site.backend.release();
    begun.into_iter().for_each(Half::broken);
    site.until_idle();

    let doors = site.doors();
    assert_eq!(doors.map(|door| site.trips(door)), [1, 1]);
    let refused = get(doors[1].address, "/");
    let reason = refused.header("tidegate-reason");
    assert_eq!((refused.status, reason), (503, Some("breaker")));
}

#[test]
fn a_client_that_leaves_in_the_middle_of_an_answer_says_nothing_of_it() {
    let site = Site::start("1m", "30s");

    for door in site.doors() {
        for _ in 0..6 {
            drop(Half::begin(door));
        }
        site.until_idle();

        assert_eq!(get(door.address, "/").status, 200, "{door:?}");
        assert_eq!(site.trips(door), 0, "{door:?}");
    }
}
