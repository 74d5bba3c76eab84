//! What becomes of a line when a leader, the store or the process is lost.

use std::time::{Duration, Instant};

use crate::process::{TempDir, Tidegate};
use crate::rooms_visitor::{
    ASKS, Browser, FLOWS, STANDS, Site, document, documents, order, signal, until, until_phase,
    waiting,
};

/// Ten in a second are called.
const TEN: &str = "rate_min = \"10/s\"\nrate_max = \"10/s\"\n";
/// The longest time in which nobody moves a line whose leader has died.
const GAP_MAX: Duration = Duration::from_secs(4);

/// Two gateways before one line: the one that leads, and the other.
struct Pair {
    site: Site,
    gateways: Vec<(String, Tidegate)>,
    _directories: [TempDir; 2],
}

impl Pair {
    fn start(room: &str) -> Self {
        let site = Site::shared();
        let directories = [TempDir::new(), TempDir::new()];
        let named = ["gw1", "gw2"].into_iter().zip(&directories);
        let gateways =
            named.map(|(name, directory)| (name.to_owned(), site.gateway(directory, name, room)));
        Self {
            gateways: gateways.collect(),
            site,
            _directories: directories,
        }
    }

    /// So many who wait while nobody is called.
    fn waiting(&self, count: usize) -> Vec<Browser> {
        let (_, gateway) = &self.gateways[0];
        order(gateway, &["hold"]);
        (0..count).map(|_| Browser::waiting(gateway)).collect()
    }

    /// Where the leader is among the gateways.
    fn leader(&self) -> usize {
        usize::from(self.site.leader() != self.gateways[0].0)
    }

    /// Waits until so many were called.
    fn until_called(&self, count: u64) -> u64 {
        until(&format!("{count} are called"), || {
            let called = self.site.called();
            (called >= count).then_some(called)
        })
    }

    /// How many are or were ready, each counted once. Who is called twice is called more often than they are.
    fn everybody_called(&self) -> u64 {
        let (_, gateway) = self.gateways.last().unwrap();
        let epoch = document(gateway).unwrap()["epoch"].as_u64().unwrap();
        let parts = ["ready", "passed"].map(|part| self.site.places(epoch, part).len());
        parts.iter().sum::<usize>() as u64
    }
}

#[test]
fn the_other_gateway_calls_soon_after_a_leader_has_died() {
    let mut pair = Pair::start(&format!(
        "phase = \"queue-all\"\n{TEN}claim_within = \"30m\"\n"
    ));
    let mut people = pair.waiting(60);
    order(&pair.gateways[0].1, &["release"]);
    pair.until_called(5);

    let leader = pair.leader();
    let (_, leader) = pair.gateways.remove(leader);
    signal(&leader, "-9");
    leader.wait();
    let (died, called) = (Instant::now(), pair.site.called());
    pair.until_called(called + 1);

    let gap = died.elapsed();
    assert!(gap <= GAP_MAX, "{gap:?}");
    let (name, gateway) = &pair.gateways[0];
    assert_eq!(&pair.site.leader(), name);
    pair.until_called(60);
    assert_eq!(
        (
            pair.everybody_called(),
            pair.site.kept("returned").unwrap_or(0)
        ),
        (60, 0)
    );
    for browser in &mut people {
        assert_eq!(browser.claim(gateway).status, 200);
    }
    assert_eq!(pair.site.called(), 60);
}

#[test]
fn a_leader_that_was_paused_calls_nobody_a_second_time() {
    let pair = Pair::start(&format!(
        "phase = \"queue-all\"\n{TEN}claim_within = \"30m\"\n"
    ));
    let people = pair.waiting(60);
    order(&pair.gateways[0].1, &["release"]);
    pair.until_called(5);

    let leader = pair.leader();
    let (was, other) = (&pair.gateways[leader], &pair.gateways[1 - leader]);
    signal(&was.1, "-STOP");
    until("the other one leads", || {
        (pair.site.leader() == other.0).then_some(())
    });
    pair.until_called(pair.site.called() + 5);
    signal(&was.1, "-CONT");
    pair.until_called(60);

    assert_eq!(pair.site.called(), people.len() as u64);
    assert_eq!(
        (
            pair.everybody_called(),
            pair.site.kept("returned").unwrap_or(0)
        ),
        (60, 0)
    );
    until("it is well again", || {
        (document(&was.1)?["phase"] == "queue-all").then_some(())
    });
    until("nobody waits", || (waiting(&was.1)? == 0).then_some(()));
}

#[test]
fn a_line_that_the_store_has_forgotten_comes_back_in_its_order_and_nobody_is_called_meanwhile() {
    let (site, directory) = (Site::shared(), TempDir::new());
    // What an operator has set is forgotten as well, and then this holds.
    let room = format!("phase = \"hold\"\n{FLOWS}claim_within = \"30m\"\n");
    let gateway = site.gateway(&directory, "gw1", &room);
    let mut people: Vec<Browser> = (0..100).map(|_| Browser::waiting(&gateway)).collect();
    let places = |people: &mut [Browser]| -> Vec<u64> {
        let all = people
            .iter_mut()
            .map(|it| it.me(&gateway)["place"].as_u64().unwrap());
        all.collect()
    };
    let before = places(&mut people);
    assert!(before.is_sorted_by(|a, b| a < b), "{before:?}");
    until("all are seen", || (waiting(&gateway)? == 100).then_some(()));
    let epoch = document(&gateway).unwrap()["epoch"].as_u64().unwrap();

    site.redis.as_ref().unwrap().ask(&["FLUSHALL"]).unwrap();
    for browser in people.iter_mut().take(50).rev() {
        assert_eq!(browser.until_state(&gateway, "waiting")["epoch"], epoch);
    }
    order(&gateway, &["queue-all"]);
    until("it is said what goes on", || {
        (document(&gateway)?["reason"] == "restoring").then_some(())
    });
    let mut late = Browser::default();
    late.stand(&gateway);
    documents(&gateway, 3);
    assert_eq!(site.called(), 0, "half of them are not back");

    for browser in people.iter_mut().skip(50).rev() {
        browser.until_state(&gateway, "waiting");
    }
    until("all are called in their order", || {
        // Who is called later stands behind: the line is looked at last.
        let called = site.places(epoch, "ready");
        let line = site.places(epoch, "w3");
        assert!(
            called.last() < line.first() || line.is_empty(),
            "{called:?} {line:?}"
        );
        (called.len() == 101).then_some(())
    });
    assert_eq!(places(&mut people), before);
    assert!(late.me(&gateway)["place"].as_u64() > before.last().copied());
}

/// A gateway whose store is killed once somebody is inside and somebody waits.
fn without_store(site: &mut Site, directory: &TempDir, more: &str) -> (Tidegate, Browser, Browser) {
    let room = format!("phase = \"queue-all\"\n{FLOWS}settle = \"10s\"\n{more}");
    let gateway = site.gateway(directory, "gw1", &room);
    let inside = Browser::inside(&gateway);
    order(&gateway, &["hold"]);
    let waits = Browser::waiting(&gateway);
    order(&gateway, &["release"]);
    until("the gateway knows", || {
        (document(&gateway)?["phase"] == "queue-all").then_some(())
    });
    site.redis.as_mut().unwrap().kill().unwrap();
    (gateway, inside, waits)
}

#[test]
fn without_the_store_a_gateway_lets_in_those_who_come_to_it_and_everybody_inside_goes_on() {
    let (mut site, directory) = (Site::shared(), TempDir::new());
    let (gateway, mut inside, mut waits) = without_store(&mut site, &directory, "");

    for _ in 0..20 {
        assert_eq!(inside.go(&gateway, "/").status, 200);
    }
    let mut new = Browser::default();
    for browser in [&mut waits, &mut new] {
        until("the gateway lets in by itself", || {
            (browser.go(&gateway, "/").status == 200).then_some(())
        });
        assert_eq!(
            browser.go(&gateway, "/basket").status,
            200,
            "{:?}",
            browser.cookies
        );
    }

    // With the store everything is as it was.
    site.redis.as_mut().unwrap().restart().unwrap();
    until("the line is known again", || {
        let mut fresh = Browser::default();
        fresh.go(&gateway, "/");
        (fresh.me(&gateway)["state"] == "waiting").then_some(())
    });
    for browser in [&mut inside, &mut waits, &mut new] {
        assert_eq!(
            browser.go(&gateway, "/").status,
            200,
            "{:?}",
            browser.cookies
        );
    }
}

#[test]
fn without_the_store_nobody_comes_in_where_that_is_wanted() {
    let (mut site, directory) = (Site::shared(), TempDir::new());
    let hold = "on_store_loss = \"hold\"\n";
    let (gateway, mut inside, mut waits) = without_store(&mut site, &directory, hold);
    let place = waits.cookie("tgq-shop").unwrap().to_owned();

    // Seen from outside: it says since when it stands.
    until("it is known that the store is away", || {
        document(&gateway)?["paused_since_ms"].as_u64()
    });
    for _ in 0..20 {
        assert_eq!(inside.go(&gateway, "/").status, 200);
        assert_eq!(waits.go(&gateway, "/").status, 503);
        assert_eq!(Browser::default().go(&gateway, "/").status, 503);
        let app = Browser::default().ask(&gateway, "GET", "/api", &ASKS);
        assert_eq!(app.status, 503);
    }
    assert_eq!(waits.cookie("tgq-shop"), Some(place.as_str()));

    site.redis.as_mut().unwrap().restart().unwrap();
    until("who waits is called when it is back", || {
        (waits.go(&gateway, "/").status == 200).then_some(())
    });
}

#[test]
fn without_the_store_everybody_passes_where_that_is_wanted() {
    let (mut site, directory) = (Site::shared(), TempDir::new());
    let open = "on_store_loss = \"open\"\nopen_after = \"1s\"\n";
    let (gateway, mut inside, mut waits) = without_store(&mut site, &directory, open);

    until("everybody passes", || {
        (Browser::default().go(&gateway, "/").status == 200).then_some(())
    });

    assert_eq!(
        Browser::default()
            .ask(&gateway, "POST", "/api", &ASKS)
            .status,
        200
    );
    for browser in [&mut inside, &mut waits] {
        assert_eq!(browser.go(&gateway, "/").status, 200);
    }
    site.redis.as_mut().unwrap().restart().unwrap();
    until("it is closed again", || {
        (Browser::default().go(&gateway, "/").status == 503).then_some(())
    });
}

#[test]
fn a_gateway_starts_without_the_store_of_its_room() {
    let (mut site, directory) = (Site::shared(), TempDir::new());
    let room = format!("phase = \"queue-all\"\n{FLOWS}");
    drop(site.gateway(&directory, "gw1", &room));
    site.redis.as_mut().unwrap().kill().unwrap();

    let configuration = site.configuration(&directory, "gw1", &room);
    let gateway = Tidegate::start(&directory, &configuration);

    let critical = Browser::default().ask(&gateway, "POST", "/pay/callback", &ASKS);
    assert_eq!(critical.status, 200);
    assert!([200, 503].contains(&Browser::default().go(&gateway, "/").status));
    site.redis.as_mut().unwrap().restart().unwrap();
    let mut browser = Browser::default();
    until("the line is there", || {
        browser.go(&gateway, "/");
        (browser.me(&gateway)["state"] == "waiting" || browser.cookie("tga-shop").is_some())
            .then_some(())
    });
}

#[test]
fn a_process_that_keeps_the_line_itself_has_every_place_after_a_restart() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let state = directory.path().join("room-shop.json");
    let room = format!(
        "phase = \"queue-all\"\n{STANDS}state = \"{}\"\n",
        state.display()
    );
    let gateway = site.gateway(&directory, "gw1", &room);
    order(&gateway, &["hold"]);
    let mut people: Vec<Browser> = (0..3).map(|_| Browser::waiting(&gateway)).collect();
    let before: Vec<_> = people.iter_mut().map(|it| it.me(&gateway)).collect();

    gateway.terminate();
    assert!(gateway.wait().success());
    let gateway = site.gateway(&directory, "gw1", &room);

    until_phase(&gateway, "hold");
    for (browser, before) in people.iter_mut().zip(&before) {
        let me = browser.me(&gateway);
        for name in ["state", "place", "tier", "epoch"] {
            assert_eq!(me[name], before[name], "{me}");
        }
    }
    let mut late = Browser::waiting(&gateway);
    until("the order is the old one", || {
        let line = people.iter_mut().chain([&mut late]);
        let ahead: Vec<u64> = line
            .filter_map(|it| it.me(&gateway)["ahead"].as_u64())
            .collect();
        (ahead == [0, 1, 2, 3]).then_some(())
    });
}

#[test]
fn a_pass_outlives_a_restart_of_the_process() {
    let (site, directory) = (Site::alone(), TempDir::new());
    let state = directory.path().join("room-shop.json");
    let room = format!(
        "phase = \"queue-all\"\n{FLOWS}state = \"{}\"\n",
        state.display()
    );
    let gateway = site.gateway(&directory, "gw1", &room);
    let mut browser = Browser::inside(&gateway);

    gateway.terminate();
    assert!(gateway.wait().success());
    let gateway = site.gateway(&directory, "gw1", &room);

    assert_eq!(browser.go(&gateway, "/").status, 200);
}
