//! For the tests of waiting rooms: a site with a room in front, and visitors with a browser and without.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_lab::peers::RedisServer;

use crate::client::{Answer, ask, get};
use crate::process::{PATIENCE, TempDir, Tidegate, output, tidegate};
use crate::sessions_visitor::App;

/// Time between two looks at what comes about by itself.
const PAUSE: Duration = Duration::from_millis(20);
/// Fifty in a second go in, whatever is known of the fleet.
pub(crate) const FLOWS: &str =
    "rate_min = \"50/s\"\nrate_max = \"50/s\"\nvisitor_rps = 0.001\nfill = \"5s\"\n";
/// Nobody is called while a test lasts.
pub(crate) const STANDS: &str = "rate_min = \"1/h\"\nrate_max = \"1/h\"\n";

/// What a browser sends that goes to a page.
pub(crate) const NAVIGATES: [(&str, &str); 4] = [
    (
        "accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    ),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-site", "none"),
    ("accept-language", "en"),
];
/// What the script of a page sends.
pub(crate) const FETCHES: [(&str, &str); 3] = [
    ("accept", "application/json"),
    ("sec-fetch-mode", "cors"),
    ("sec-fetch-site", "same-origin"),
];
/// What an application sends that is no browser.
pub(crate) const ASKS: [(&str, &str); 1] = [("accept", "application/json")];

/// A site: its application, and what its gateways have in common.
///
/// Its pages are behind the room `shop`, `/pay/…` is critical, and `/door/…` is outside, so that somebody can sign in there.
pub(crate) struct Site {
    pub(crate) app: App,
    pub(crate) redis: Option<RedisServer>,
    room_keys: String,
    session_keys: String,
}

impl Site {
    /// One gateway, which keeps the line itself.
    pub(crate) fn alone() -> Self {
        Self::with(None)
    }

    /// As many gateways as are wanted, with one Redis.
    pub(crate) fn shared() -> Self {
        Self::with(Some(RedisServer::plain().unwrap()))
    }

    fn with(redis: Option<RedisServer>) -> Self {
        let made = |args: &[&str]| {
            let made = output(args);
            assert!(made.status.success(), "{made:?}");
            String::from_utf8(made.stdout).unwrap()
        };
        Self {
            app: App::start(),
            redis,
            room_keys: made(&["room", "key"]),
            session_keys: made(&["session", "key"]),
        }
    }

    /// The configuration of a gateway called `node` with these lines in `[[room]]`, and whatever follows them.
    pub(crate) fn configuration(&self, directory: &TempDir, node: &str, room: &str) -> String {
        let key_file = |name: &str, keys: &str| {
            let path = directory.write(name, keys);
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            path.display().to_string()
        };
        let store = match &self.redis {
            Some(redis) => format!("url = \"redis://{}\"", redis.address()),
            None => format!("path = \"{}/state\"", directory.path().display()),
        };
        format!(
            "[store]\n{store}\n[fleet]\nnode = \"{node}\"\n\
             [sessions]\ninsecure = true\nkey_file = \"{}\"\n\
             [[sessions.attribute]]\nname = \"cart\"\nexpose = true\n\
             [[app]]\nname = \"shop\"\nupstream = \"http://{}\"\nworkers = 64\n\
             [[app.route]]\nname = \"pay\"\npath = \"/pay/**\"\nclass = \"critical\"\n\
             [[app.route]]\nname = \"door\"\npath = \"/door/**\"\n\
             [[app.route]]\nname = \"pages\"\npath = \"/**\"\n\
             [[room]]\nname = \"shop\"\nroutes = [\"pages\"]\nkey_file = \"{}\"\njoins_per_network = \"none\"\n{room}\n",
            key_file("session.keys", &self.session_keys),
            self.app.address,
            key_file("room.jwks", &self.room_keys),
        )
    }

    /// Starts that gateway, and waits until it knows its line.
    pub(crate) fn gateway(&self, directory: &TempDir, node: &str, room: &str) -> Tidegate {
        let gateway = Tidegate::start(directory, &self.configuration(directory, node, room));
        until("the line is known", || {
            let epoch = document(&gateway)?["epoch"].as_u64()?;
            (epoch > 0).then_some(())
        });
        gateway
    }

    /// What the store has under `name` in the hash of the room.
    pub(crate) fn kept(&self, name: &str) -> Option<u64> {
        let redis = self.redis.as_ref().unwrap();
        let reply = redis.ask(&["HGET", "tg:r:{room/shop}", name]).unwrap();
        reply.text().parse().ok()
    }

    /// How many were called since the line began, or since the store forgot it.
    pub(crate) fn called(&self) -> u64 {
        self.kept("released").unwrap_or(0)
    }

    /// The places in the part `part` of the line of `epoch`, as the store writes them: in their order.
    pub(crate) fn places(&self, epoch: u64, part: &str) -> Vec<String> {
        let key = format!("tg:r:{{room/shop}}:{epoch}:{part}");
        let redis = self.redis.as_ref().unwrap();
        let reply = redis.ask(&["ZRANGE", &key, "0", "-1"]).unwrap();
        let places = reply.parts().iter().map(|place| place.text().to_owned());
        let mut places: Vec<String> = places.collect();
        places.sort_unstable();
        places
    }

    /// The node that moves the line.
    pub(crate) fn leader(&self) -> String {
        let redis = self.redis.as_ref().unwrap();
        let command = ["HGET", "tg:lead:{room/shop}", "node"];
        until("somebody leads", || {
            let reply = redis.ask(&command).unwrap();
            (!reply.text().is_empty()).then(|| reply.text().to_owned())
        })
    }
}

/// The room's document; `None` where it is not answered.
pub(crate) fn document(gateway: &Tidegate) -> Option<Value> {
    let answer = get(gateway.clients, "/.tidegate/v1/room/shop.json");
    match answer.status {
        200 => Some(serde_json::from_slice(&answer.body).unwrap()),
        _ => None,
    }
}

/// How many wait, by the room's document.
pub(crate) fn waiting(gateway: &Tidegate) -> Option<u64> {
    let document = document(gateway)?;
    let tiers = document["tiers"].as_array().unwrap().iter();
    Some(tiers.map(|tier| tier["waiting"].as_u64().unwrap()).sum())
}

/// Waits until the document is a new one so many times.
pub(crate) fn documents(gateway: &Tidegate, count: usize) {
    let mut seen = None;
    for _ in 0..=count {
        let next = until("the document is made anew", || {
            let made = document(gateway)?["server_now_ms"].as_u64();
            (made != seen).then_some(made)
        });
        seen = next;
    }
}

/// What `look` finds, as soon as it finds anything.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::park_timeout(PAUSE);
    }
}

/// `tidegate room` with these arguments, to the gateway.
pub(crate) fn run(gateway: &Tidegate, args: &[&str]) -> Output {
    let mut command = tidegate();
    command.arg("room").args(args);
    command.args(["--admin", &gateway.admin.to_string()]);
    command.stdin(Stdio::null()).output().unwrap()
}

/// What it says when it goes well.
pub(crate) fn said(gateway: &Tidegate, args: &[&str]) -> String {
    let output = run(gateway, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Orders something as somebody called kim, and waits until the document says that it is so, where it is a phase.
pub(crate) fn order(gateway: &Tidegate, args: &[&str]) -> String {
    let said = said(gateway, &[args, &["--by", "kim", "--yes"]].concat());
    let phase = args[0];
    if ["off", "auto", "queue-all", "hold", "drain"].contains(&phase) {
        until_phase(gateway, phase);
    }
    said
}

/// Waits until the document says that the room is in this phase.
pub(crate) fn until_phase(gateway: &Tidegate, phase: &str) {
    until(phase, || {
        (document(gateway)?["phase"] == phase).then_some(())
    });
}

/// Sends a signal to the gateway's process.
pub(crate) fn signal(gateway: &Tidegate, signal: &str) {
    let id = gateway.id().to_string();
    let sent = Command::new("kill").args([signal, &id]).status();
    assert!(sent.unwrap().success());
}

/// What the application was told by the header `name`, in lower case.
pub(crate) fn told(answer: &Answer, name: &str) -> Option<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let mut lines = text.lines().filter_map(|line| line.split_once(": "));
    let line = lines.find(|(known, _)| *known == name);
    line.map(|(_, value)| value.to_owned())
}

/// Somebody with a browser that keeps cookies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Browser {
    pub(crate) cookies: BTreeMap<String, String>,
}

impl Browser {
    /// One that has come to the site, has been told to wait, and stands in the line.
    pub(crate) fn waiting(gateway: &Tidegate) -> Self {
        let mut browser = Self::default();
        browser.stand(gateway);
        browser
    }

    /// One that waits, was called, and went in.
    pub(crate) fn inside(gateway: &Tidegate) -> Self {
        let mut browser = Self::waiting(gateway);
        browser.until_state(gateway, "ready");
        let claimed = browser.claim(gateway);
        assert_eq!(claimed.status, 200, "{}", claimed.text());
        browser
    }

    /// Comes to the site, is told to wait, and stands in the line.
    pub(crate) fn stand(&mut self, gateway: &Tidegate) {
        let page = self.go(gateway, "/");
        assert_eq!(page.status, 503, "{}", page.text());
        until("it stands in the line", || {
            let state = self.me(gateway)["state"].clone();
            (state == "waiting" || state == "ready").then_some(())
        });
    }

    /// Goes to a page.
    pub(crate) fn go(&mut self, gateway: &Tidegate, path: &str) -> Answer {
        self.ask(gateway, "GET", path, &NAVIGATES)
    }

    /// Goes to a page, and the application's answer has these headers.
    pub(crate) fn go_where(&mut self, gateway: &Tidegate, path: &str, says: &str) -> Answer {
        let headers = [&NAVIGATES[..], &[("x-say", says)]].concat();
        self.ask(gateway, "GET", path, &headers)
    }

    /// What the page's script is told about its own place. Who asks too often is told to wait, and does.
    pub(crate) fn me(&mut self, gateway: &Tidegate) -> Value {
        until("one's own document", || {
            let me = self.ask(gateway, "GET", "/.tidegate/v1/me/shop?vis=1", &FETCHES);
            match me.status {
                200 => Some(serde_json::from_slice(&me.body).unwrap()),
                429 | 503 => None,
                other => panic!("{other}: {}", me.text()),
            }
        })
    }

    /// What the page's script does.
    pub(crate) fn post(&mut self, gateway: &Tidegate, verb: &str) -> Answer {
        let path = format!("/.tidegate/v1/{verb}/shop");
        self.ask(gateway, "POST", &path, &FETCHES)
    }

    /// Wants to go in; at the door it waits as long as it is told to.
    pub(crate) fn claim(&mut self, gateway: &Tidegate) -> Answer {
        until("the door is free", || {
            let claimed = self.post(gateway, "claim");
            (claimed.status != 429).then_some(claimed)
        })
    }

    /// Waits until its own document says that it is in this state; what it says then.
    pub(crate) fn until_state(&mut self, gateway: &Tidegate, state: &str) -> Value {
        until(state, || {
            let me = self.me(gateway);
            (me["state"] == state).then_some(me)
        })
    }

    /// The value of the cookie of this name.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        let prefixed = format!("__Host-{name}");
        let cookie = self.cookies.get(name);
        cookie
            .or_else(|| self.cookies.get(&prefixed))
            .map(String::as_str)
    }

    /// Takes the cookie of this name from `other`, or loses it.
    pub(crate) fn take(&mut self, name: &str, other: &Self) {
        for name in [name.to_owned(), format!("__Host-{name}")] {
            match other.cookies.get(&name) {
                Some(value) => self.cookies.insert(name, value.clone()),
                None => self.cookies.remove(&name),
            };
        }
    }

    /// Any request, with its cookies.
    pub(crate) fn ask(
        &mut self,
        gateway: &Tidegate,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let pairs = self.cookies.iter();
        let pairs: Vec<String> = pairs
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let cookie = pairs.join("; ");
        let mut headers = headers.to_vec();
        if !cookie.is_empty() {
            headers.push(("cookie", &cookie));
        }
        let answer = ask(gateway.clients, method, path, &headers, b"");
        for (name, value) in set_cookies(&answer) {
            if value.is_empty() {
                self.cookies.remove(&name);
            } else {
                self.cookies.insert(name, value);
            }
        }
        answer
    }
}

/// The cookies that an answer sets, those that it takes away with nothing in them.
pub(crate) fn set_cookies(answer: &Answer) -> Vec<(String, String)> {
    let lines = answer.headers.iter();
    let lines = lines.filter(|(name, _)| name == "set-cookie");
    let pair = |line: &str| {
        let (pair, _) = line.split_once(';').unwrap();
        let (name, value) = pair.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    lines.map(|(_, line)| pair(line)).collect()
}
