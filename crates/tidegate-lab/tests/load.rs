//! The generator against real servers: every visit ends in exactly one way, and the right one.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test may fail as the test does"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use tidegate_lab::load::{
    ClosedLoop, Kind, LoadPlan, Patience, Phase, Report, Request, Retry, RetryAfter, Reuse, Run,
    closed_loop, run,
};
use tidegate_lab::shop::{Shop, ShopPlan};

const ANYWHERE: &str = "127.0.0.1:0";

fn shop(slots: u32, service_ms: u64) -> Shop {
    let service = Duration::from_millis(service_ms);
    let plan = ShopPlan {
        slots,
        service,
        ..ShopPlan::default()
    };
    Shop::open(ANYWHERE.parse().unwrap(), plan).unwrap()
}

/// A server that gives the same answer to everything.
fn parrot(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(ANYWHERE).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut bytes = [0; 4_096];
                while stream.read(&mut bytes).is_ok_and(|read| read > 0) {
                    if stream.write_all(answer.as_bytes()).is_err() || answer.is_empty() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn assert_conserved(report: &Report) {
    for (index, second) in report.seconds.iter().enumerate() {
        for tally in &second.kinds {
            assert_eq!(tally.offered, tally.ended(), "second {index}: {tally:?}");
        }
    }
    for (index, kind) in report.kinds.iter().enumerate() {
        let sum = report.sum(0..report.seconds.len(), |other| other.name == kind.name);
        assert_eq!(sum, kind.total, "kind {index}");
        assert_eq!(kind.good.count, kind.total.good);
    }
}

#[test]
fn below_the_knee_everybody_is_served_and_the_shop_counts_the_same() {
    let shop = shop(50, 5);
    let kinds = vec![
        Kind::get("browse", "/browse/1")
            .class("anonymous")
            .share(3.0),
        Kind::get("checkout", "/checkout")
            .class("critical")
            .request(Request::post("/checkout", 99)),
    ];
    let patience = Patience::of(Duration::from_secs(60));
    let kinds = kinds
        .into_iter()
        .map(|kind| kind.patience(patience))
        .collect();
    let phases = vec![Phase::new("calm", 400.0, Duration::from_secs(2))];

    let report = run(LoadPlan::new(shop.address(), kinds, phases)).unwrap();

    assert_conserved(&report);
    let all = report.sum(0..report.seconds.len(), |_| true);
    assert_eq!(all.good, all.offered);
    assert_eq!(all.attempts, all.offered);
    assert_eq!(shop.stats().finished, all.offered);
    assert_eq!(
        shop.stats().received["/checkout"],
        report.kinds[1].total.offered
    );
    assert!((600..1_000).contains(&all.offered), "{}", all.offered);
}

#[test]
fn past_the_knee_a_bare_shop_works_for_callers_who_have_left() {
    let shop = shop(5, 10);
    let kind = Kind::get("browse", "/browse/1").patience(Patience::of(Duration::from_millis(100)));
    let phases = vec![Phase::new("flood", 2_000.0, Duration::from_secs(2))];

    let report = run(LoadPlan::new(shop.address(), vec![kind], phases)).unwrap();

    assert_conserved(&report);
    let last = report.sum(1..2, |_| true);
    assert!(last.timeout > last.offered / 2, "{last:?}");
    assert!(shop.stats().finished_dead > 0);
    assert!(shop.stats().queue > 100);
}

#[test]
fn those_turned_away_come_back_as_often_as_planned() {
    let target = parrot("HTTP/1.1 503 Busy\r\nRetry-After: 9\r\nContent-Length: 2\r\n\r\nno");
    let patience = Patience::of(Duration::from_secs(60));
    let stubborn = Kind::get("stubborn", "/")
        .retry(Retry::at_once(3))
        .patience(patience);
    let polite = Retry {
        retry_after: RetryAfter::Honoured,
        ..Retry::at_once(3)
    };
    let polite = Kind::get("polite", "/").retry(polite);
    let phases = vec![Phase::new("all", 100.0, Duration::from_secs(1))];

    let report = run(LoadPlan::new(target, vec![stubborn, polite], phases)).unwrap();

    assert_conserved(&report);
    let [stubborn, polite] = [report.kinds[0].total, report.kinds[1].total];
    assert_eq!(stubborn.refused, stubborn.offered);
    assert_eq!(stubborn.attempts, 3 * stubborn.offered);
    assert_eq!(stubborn.refusals, stubborn.attempts);
    assert_eq!(
        polite.attempts, polite.offered,
        "9 s do not fit in 1 s of patience"
    );
    assert_eq!(polite.refused, polite.offered);
}

#[test]
fn broken_answers_and_closed_doors_are_errors() {
    let closed = {
        let listener = TcpListener::bind(ANYWHERE).unwrap();
        listener.local_addr().unwrap()
    };
    for target in [
        closed,
        parrot(""),
        parrot("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"),
        parrot("nonsense\r\n\r\n"),
    ] {
        let kind = Kind::get("k", "/").patience(Patience::of(Duration::from_secs(60)));
        let phases = vec![Phase::new("all", 50.0, Duration::from_secs(1))];

        let report = run(LoadPlan::new(target, vec![kind], phases)).unwrap();

        assert_conserved(&report);
        assert!(report.kinds[0].total.offered > 0);
        assert_eq!(report.kinds[0].total.error, report.kinds[0].total.offered);
    }
}

#[test]
fn a_visitor_who_lingers_sees_that_an_answer_was_late() {
    let shop = shop(100, 100);
    let patience = Patience {
        linger: Duration::from_secs(60),
        ..Patience::of(Duration::from_millis(20))
    };
    let kind = Kind::get("k", "/browse/1")
        .patience(patience)
        .reuse(Reuse::Never);
    let phases = vec![Phase::new("all", 50.0, Duration::from_secs(1))];

    let report = run(LoadPlan::new(shop.address(), vec![kind], phases)).unwrap();

    assert_conserved(&report);
    let total = report.kinds[0].total;
    assert_eq!(total.late, total.offered);
    assert_eq!(total.answers, total.offered);
}

#[test]
fn a_run_that_may_not_have_so_many_visits_says_so() {
    let shop = shop(1, 600_000);
    let patience = Patience::of(Duration::from_millis(1_500));
    let kind = Kind::get("k", "/browse/1").patience(patience);
    let phases = vec![Phase::new("all", 50.0, Duration::from_secs(1))];
    let mut plan = LoadPlan::new(shop.address(), vec![kind], phases);
    plan.visits_max = 3;

    let report = run(plan).unwrap();

    assert_conserved(&report);
    assert_eq!(report.kinds[0].total.timeout, 3);
    assert!(!report.is_valid());
}

#[test]
fn a_dropped_run_ends_long_before_its_plan() {
    let shop = shop(1, 1);
    let phases = vec![Phase::new("all", 10.0, Duration::from_secs(1_000_000))];
    let run = Run::start(LoadPlan::new(
        shop.address(),
        vec![Kind::get("k", "/")],
        phases,
    ))
    .unwrap();

    drop(run);
}

#[test]
fn a_closed_loop_finds_what_slots_and_service_time_allow() {
    let shop = shop(10, 20);
    let plan = ClosedLoop {
        target: shop.address(),
        request: Request::get("/browse/1"),
        connections: 20,
        warm_up: Duration::from_millis(200),
        length: Duration::from_secs(1),
    };

    let capacity = closed_loop(&plan).unwrap();

    // 500 at most; a busy machine is allowed to miss half of it.
    assert!(
        (250.0..=505.0).contains(&capacity.per_second),
        "{capacity:?}"
    );
    assert_eq!(capacity.failures, 0);
}
