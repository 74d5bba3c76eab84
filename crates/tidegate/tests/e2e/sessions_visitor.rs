//! For the tests of sessions: an application that says what it is asked to say, and visitors who keep
//! their cookies.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::client::{Answer, ask, get, read_line};
use crate::process::{PATIENCE, TempDir, Tidegate};

/// An application. It answers with the head of the request, and with the headers that the request's
/// `X-Say` lists, parted by ` | `. A request for `/hold` waits until it is released first.
pub(crate) struct App {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    asked: AtomicU64,
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    waiting: u32,
    released: bool,
}

impl App {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(&stream.unwrap(), &state));
            }
        });
        Self { address, state }
    }

    /// Requests that it has seen.
    pub(crate) fn asked(&self) -> u64 {
        self.state.asked.load(Ordering::Relaxed)
    }

    /// Waits until `count` requests for `/hold` are there.
    pub(crate) fn wait_for_held(&self, count: u32) {
        let held = self.state.held.lock().unwrap();
        let few = |held: &mut Held| held.waiting < count;
        let (_held, timeout) = self
            .state
            .changed
            .wait_timeout_while(held, PATIENCE, few)
            .unwrap();
        assert!(!timeout.timed_out(), "the application is not asked");
    }

    /// Lets all requests for `/hold` go on, now and later.
    pub(crate) fn release(&self) {
        self.state.held.lock().unwrap().released = true;
        self.state.changed.notify_all();
    }
}

fn serve(stream: &TcpStream, state: &State) {
    let mut input = BufReader::new(stream);
    loop {
        let mut head = read_line(&mut input);
        if head.is_empty() {
            return;
        }
        let holds = head.contains(" /hold ");
        let mut said = String::new();
        loop {
            let line = read_line(&mut input);
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            let name = name.to_ascii_lowercase();
            if name == "x-say" {
                for header in value.split(" | ") {
                    said += &format!("{header}\r\n");
                }
            }
            head += &format!("\n{name}: {value}");
        }
        state.asked.fetch_add(1, Ordering::Relaxed);
        if holds {
            let mut held = state.held.lock().unwrap();
            held.waiting += 1;
            state.changed.notify_all();
            let closed = |held: &mut Held| !held.released;
            drop(state.changed.wait_while(held, closed).unwrap());
        }
        let length = head.len();
        let answer = format!("HTTP/1.1 200 OK\r\n{said}content-length: {length}\r\n\r\n{head}");
        let mut out = stream;
        if out.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A visitor with a browser that keeps cookies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visitor {
    pub(crate) cookies: BTreeMap<String, String>,
}

/// What a visitor got, and what the application was told on that occasion.
pub(crate) struct Page {
    pub(crate) answer: Answer,
}

impl Visitor {
    /// Asks for `path` at `address`; the application says the headers `say`.
    pub(crate) fn ask(&mut self, address: SocketAddr, path: &str, say: &[&str]) -> Page {
        self.ask_with(address, path, say, &[])
    }

    pub(crate) fn ask_with(
        &mut self,
        address: SocketAddr,
        path: &str,
        say: &[&str],
        more: &[(&str, &str)],
    ) -> Page {
        let (cookie, say) = (self.cookie(), say.join(" | "));
        let mut headers = more.to_vec();
        if !cookie.is_empty() {
            headers.push(("cookie", &cookie));
        }
        if !say.is_empty() {
            headers.push(("x-say", &say));
        }
        let answer = ask(address, "GET", path, &headers, b"");
        for (name, value) in set_cookies(&answer) {
            if value.is_empty() {
                self.cookies.remove(&name);
            } else {
                self.cookies.insert(name, value);
            }
        }
        Page { answer }
    }

    pub(crate) fn cookie(&self) -> String {
        let pairs = self.cookies.iter();
        let pairs: Vec<String> = pairs
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        pairs.join("; ")
    }

    /// The value of the session's cookie.
    pub(crate) fn token(&self) -> &str {
        self.cookies.get("tg").map_or("", String::as_str)
    }
}

/// Signs in with one browser's cookies at both addresses at once, and returns the browser that has
/// kept the cookies of the one answer and the one that has kept those of the other.
pub(crate) fn sign_in_twice(visitor: &Visitor, at: [SocketAddr; 2], uid: &str) -> [Visitor; 2] {
    let rotate = format!("Tidegate-Rotate: uid={uid}");
    let clicks = at.map(|address| {
        let (mut browser, rotate) = (visitor.clone(), rotate.clone());
        thread::spawn(move || {
            let page = browser.ask(address, "/login", &[&rotate]);
            assert_eq!(page.answer.status, 200, "{}", page.answer.text());
            browser
        })
    });
    clicks.map(|click| click.join().unwrap())
}

impl Page {
    /// What the application was told by the header `name`, in lower case.
    pub(crate) fn told(&self, name: &str) -> Option<String> {
        assert_eq!(self.answer.status, 200, "{}", self.answer.text());
        let text = self.answer.text();
        let mut lines = text.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.to_owned())
    }

    /// Names of the cookies that the answer sets or, with a `-` before them, takes away.
    pub(crate) fn cookies_set(&self) -> Vec<String> {
        let cookies = set_cookies(&self.answer).into_iter();
        let sign = |(name, value): (String, String)| match value.as_str() {
            "" => format!("-{name}"),
            _ => name,
        };
        let mut names: Vec<String> = cookies.map(sign).collect();
        names.sort();
        names
    }
}

fn set_cookies(answer: &Answer) -> Vec<(String, String)> {
    let lines = answer
        .headers
        .iter()
        .filter(|(name, _)| name == "set-cookie");
    let pair = |line: &str| {
        let (name, rest) = line.split_once('=').unwrap();
        let (value, _) = rest.split_once(';').unwrap();
        (name.to_owned(), value.to_owned())
    };
    lines.map(|(_, line)| pair(line)).collect()
}

/// A gateway with sessions before `app`. `sessions` and `more` are lines of the configuration: in
/// the section of that name, and after it.
pub(crate) fn gateway(directory: &TempDir, app: &App, sessions: &str, more: &str) -> Tidegate {
    let (address, path) = (app.address, directory.path().display());
    let configuration = format!(
        "[sessions]\ninsecure = true\n{sessions}\n\
         [[sessions.attribute]]\nname = \"cart\"\nexpose = true\n\
         [[sessions.attribute]]\nname = \"visits\"\nexpose = true\n\
         [[app]]\nupstream = \"http://{address}\"\nworkers = 8\n{more}\n\
         [store]\npath = \"{path}/state\"\n"
    );
    Tidegate::start(directory, &configuration)
}

/// The value of a metric without labels, or of one with these.
pub(crate) fn metric(tidegate: &Tidegate, name: &str) -> f64 {
    let page = get(tidegate.admin, "/metrics").text();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name} ")));
    let value = line.unwrap_or_else(|| panic!("no {name} in\n{page}"));
    value.parse().unwrap()
}
