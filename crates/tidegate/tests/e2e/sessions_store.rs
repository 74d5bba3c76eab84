//! Gateways that share one store, and what becomes of them when it is not there.

use std::fs::Permissions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_lab::peers::RedisServer;

use crate::client::{connect, head};
use crate::process::{PATIENCE, TempDir, Tidegate, output};
use crate::sessions_visitor::{App, Visitor, metric, sign_in_twice};

/// A fleet of gateways before one application, with one store.
struct Fleet {
    redis: RedisServer,
    app: App,
    key: String,
}

impl Fleet {
    fn start() -> Self {
        let key = output(&["session", "key"]);
        assert!(key.status.success());
        Self {
            redis: RedisServer::plain().unwrap(),
            app: App::start(),
            key: String::from_utf8(key.stdout).unwrap(),
        }
    }

    /// A gateway called `node`, with these lines in `[[app]]`.
    fn gateway(&self, directory: &TempDir, node: &str, app: &str) -> Tidegate {
        let key_file = directory.write("keys", &self.key);
        std::fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
        let configuration = format!(
            "[store]\nurl = \"redis://{}\"\n\
             [sessions]\ninsecure = true\naffinity = \"{node}\"\nkey_file = \"{}\"\n\
             [[sessions.attribute]]\nname = \"cart\"\nexpose = true\nticket = true\n\
             [[app]]\nupstream = \"http://{}\"\n{app}\n\
             [[app.route]]\nname = \"checkout\"\npath = \"/checkout\"\nsession = \"required\"\n",
            self.redis.address(),
            key_file.display(),
            self.app.address,
        );
        let tidegate = Tidegate::start(directory, &configuration);
        // Until the store is known to be there, everything goes on without it.
        wait_until("the store is not found", || {
            let page = Visitor::default().ask(tidegate.clients, "/checkout", &[]);
            page.answer.status == 200
        });
        tidegate
    }

    /// How often sessions were read, by whatever script.
    fn reads(&self) -> u64 {
        let calls = self.redis.calls().unwrap().into_iter();
        let reads = calls.filter(|(name, _)| name == "hmget" || name == "hgetall");
        reads.map(|(_, calls)| calls).sum()
    }
}

fn wait_until(otherwise: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{otherwise}");
        thread::park_timeout(Duration::from_millis(10));
    }
}

fn cart(visitor: &mut Visitor, address: SocketAddr) -> Option<String> {
    visitor.ask(address, "/", &[]).told("tidegate-attr-cart")
}

#[test]
fn every_gateway_sees_what_another_one_wrote_at_once() {
    let fleet = Fleet::start();
    let folders = [TempDir::new(), TempDir::new()];
    let one = fleet.gateway(&folders[0], "gw1", "workers = 8");
    let two = fleet.gateway(&folders[1], "gw2", "workers = 8");
    let mut visitor = Visitor::default();

    for turn in 0..20 {
        let (writes, reads) = if turn % 2 == 0 {
            (&one, &two)
        } else {
            (&two, &one)
        };
        visitor.ask(
            writes.clients,
            "/",
            &[&format!("Tidegate-Set: cart=c{turn}")],
        );
        assert_eq!(cart(&mut visitor, reads.clients), Some(format!("c{turn}")));
    }
    visitor.ask(one.clients, "/", &["Tidegate-Rotate: uid=7;tier=gold"]);
    let page = visitor.ask(two.clients, "/checkout", &[]);
    assert_eq!(page.told("tidegate-uid").as_deref(), Some("7"));
    assert_eq!(page.told("tidegate-attr-cart").as_deref(), Some("c19"));
    let mut copied = visitor.clone();
    visitor.ask(two.clients, "/", &["Tidegate-Destroy: ?1"]);
    let page = copied.ask(one.clients, "/", &[]);
    assert_eq!(page.told("tidegate-uid"), None);
}

#[test]
fn whichever_cookie_of_a_double_click_at_two_gateways_stays_the_cart_is_there() {
    let fleet = Fleet::start();
    let folders = [TempDir::new(), TempDir::new()];
    let one = fleet.gateway(&folders[0], "gw1", "workers = 8");
    let two = fleet.gateway(&folders[1], "gw2", "workers = 8");
    for pair in 0..20 {
        let mut visitor = Visitor::default();
        visitor.ask(one.clients, "/", &["Tidegate-Set: cart=c9"]);

        let uid = format!("user-{pair}");
        let at = [one.clients, two.clients];
        for (mut browser, other) in sign_in_twice(&visitor, at, &uid)
            .into_iter()
            .zip([two.clients, one.clients])
        {
            let page = browser.ask(other, "/", &[]);
            assert_eq!(page.told("tidegate-uid"), Some(uid.clone()), "{pair}");
            assert_eq!(page.told("tidegate-attr-cart").as_deref(), Some("c9"));
        }
    }
}

#[test]
fn a_refusal_for_want_of_capacity_asks_the_store_nothing() {
    let fleet = Fleet::start();
    let directory = TempDir::new();
    let tidegate = fleet.gateway(&directory, "gw1", "workers = 1\nqueue_max = 0");
    let mut visitor = Visitor::default();
    let address = tidegate.clients;
    visitor.ask(address, "/", &["Tidegate-Rotate: uid=7"]);
    let before = fleet.reads();
    visitor.ask(address, "/", &[]);
    assert!(fleet.reads() > before, "a request that is served does ask");

    let mut holds = connect(address);
    let request = format!("{}\r\n", head("GET", "/hold", &[]));
    holds.write_all(request.as_bytes()).unwrap();
    fleet.app.wait_for_held(1);
    let (before, asked) = (fleet.reads(), fleet.app.asked());
    let mut without_ticket = visitor.clone();
    without_ticket.cookies.remove("tgt");
    for _ in 0..100 {
        for visitor in [&mut visitor, &mut without_ticket, &mut Visitor::default()] {
            let page = visitor.ask(address, "/", &["Tidegate-Set: cart=c9"]);
            assert_eq!(page.answer.header("tidegate-reason"), Some("queue_full"));
        }
    }

    assert_eq!(fleet.reads(), before);
    assert_eq!(fleet.app.asked(), asked);
    fleet.app.release();
}

#[test]
fn while_the_store_hangs_visitors_are_known_and_only_what_needs_it_is_refused() {
    let fleet = Fleet::start();
    let folders = [TempDir::new(), TempDir::new()];
    let one = fleet.gateway(&folders[0], "gw1", "workers = 8");
    let two = fleet.gateway(&folders[1], "gw2", "workers = 8");
    let mut visitor = Visitor::default();
    visitor.ask(one.clients, "/", &["Tidegate-Rotate: uid=7"]);
    visitor.ask(one.clients, "/", &["Tidegate-Set: cart=before"]);

    fleet.redis.pause().unwrap();
    let known = visitor.clone();
    let refused = |gateway: &Tidegate| {
        let page = known.clone().ask(gateway.clients, "/checkout", &[]);
        page.answer.header("tidegate-reason") == Some("store_away")
            && page.answer.status == 503
            && page.answer.header("retry-after").is_some()
    };
    for gateway in [&one, &two] {
        wait_until("the store is not missed", || refused(gateway));
        // The first gateway has a copy, the other one the ticket.
        let page = visitor.ask(gateway.clients, "/", &[]);
        assert_eq!(
            page.told("tidegate-session-state").as_deref(),
            Some("degraded")
        );
        assert_eq!(page.told("tidegate-uid").as_deref(), Some("7"));
        assert_eq!(page.told("tidegate-attr-cart").as_deref(), Some("before"));
    }
    let refusals = "tidegate_refused_total{app=\"app\",class=\"signed-in\",reason=\"store_away\"}";
    assert!(metric(&one, refusals) >= 1.0);

    visitor.ask(one.clients, "/", &["Tidegate-Set: cart=meanwhile"]);
    assert_eq!(
        cart(&mut visitor, one.clients).as_deref(),
        Some("meanwhile")
    );

    fleet.redis.resume().unwrap();
    wait_until("what was set meanwhile is lost", || {
        let page = visitor.clone().ask(two.clients, "/checkout", &[]);
        page.answer.status == 200 && page.told("tidegate-attr-cart").as_deref() == Some("meanwhile")
    });
}

#[test]
fn a_visitor_who_comes_while_the_store_is_away_stays_with_the_gateway_that_knows_them() {
    let fleet = Fleet::start();
    let folders = [TempDir::new(), TempDir::new()];
    let one = fleet.gateway(&folders[0], "gw1", "workers = 8");
    let two = fleet.gateway(&folders[1], "gw2", "workers = 8");
    fleet.redis.pause().unwrap();
    let mut visitor = Visitor::default();

    let page = visitor.ask(one.clients, "/", &["Tidegate-Set: cart=c9"]);
    assert!(
        page.cookies_set().contains(&"tg_a".to_owned()),
        "{:?}",
        page.cookies_set()
    );
    assert!(visitor.cookies["tg_a"].starts_with("gw1."));
    visitor.ask(one.clients, "/login", &["Tidegate-Rotate: uid=7"]);
    for _ in 0..100 {
        let page = visitor.ask(one.clients, "/", &[]);
        assert_eq!(page.told("tidegate-uid").as_deref(), Some("7"));
        assert_eq!(page.told("tidegate-attr-cart").as_deref(), Some("c9"));
        assert_eq!(
            page.told("tidegate-session-state").as_deref(),
            Some("degraded")
        );
    }

    fleet.redis.resume().unwrap();
    wait_until("the session does not come to the store", || {
        let page = visitor.clone().ask(two.clients, "/", &[]);
        page.told("tidegate-uid").as_deref() == Some("7")
            && page.told("tidegate-attr-cart").as_deref() == Some("c9")
            && page.told("tidegate-session-state").as_deref() == Some("ok")
    });
    wait_until("the visitor is not let go", || {
        let page = visitor.clone().ask(one.clients, "/", &[]);
        page.cookies_set().contains(&"-tg_a".to_owned())
    });
}

#[test]
fn a_gateway_starts_without_its_store() {
    let mut fleet = Fleet::start();
    let directory = TempDir::new();
    drop(fleet.gateway(&directory, "gw1", "workers = 8"));
    fleet.redis.kill().unwrap();

    let configuration = std::fs::read_to_string(directory.path().join("tidegate.toml")).unwrap();
    let tidegate = Tidegate::start(&directory, &configuration);
    let mut visitor = Visitor::default();
    visitor.ask(tidegate.clients, "/", &["Tidegate-Set: cart=c9"]);
    assert_eq!(cart(&mut visitor, tidegate.clients).as_deref(), Some("c9"));

    fleet.redis.restart().unwrap();
    wait_until("the session does not come to the store", || {
        let page = visitor.clone().ask(tidegate.clients, "/checkout", &[]);
        page.answer.status == 200 && page.told("tidegate-attr-cart").as_deref() == Some("c9")
    });
}
