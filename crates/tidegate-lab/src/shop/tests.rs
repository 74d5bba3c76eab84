//! The shop through its own front door.

use std::net::SocketAddr;
use std::time::Duration;

use super::{ServiceLaw, Shop, ShopPlan, ShopStats};
use crate::load::Request;
use crate::load::raw::{AbortAt, Client, abort, ask};

const ANYWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn shop(slots: u32, service: Duration) -> Shop {
    let plan = ShopPlan {
        slots,
        service,
        law: ServiceLaw::Fixed,
        ..ShopPlan::default()
    };
    Shop::open(ANYWHERE, plan).unwrap()
}

async fn stats_over_http(shop: &Shop) -> ShopStats {
    let answer = ask(shop.address(), &Request::get("/stats")).await.unwrap();
    serde_json::from_slice(&answer.body).unwrap()
}

/// Asks the shop until its counters fulfil `condition`. Every question is a round trip.
async fn until(shop: &Shop, condition: impl Fn(&ShopStats) -> bool) -> ShopStats {
    for _ in 0..1_000_000 {
        let stats = stats_over_http(shop).await;
        if condition(&stats) {
            return stats;
        }
    }
    panic!("the shop never got there: {:?}", shop.stats());
}

#[tokio::test]
async fn a_job_runs_to_its_end_though_its_caller_has_left() {
    let shop = shop(1, Duration::from_millis(50));
    let request = Request::get("/browse/1");

    for _ in 0..3 {
        abort(
            shop.address(),
            &request,
            AbortAt::Waiting(Duration::from_millis(5)),
        )
        .await
        .unwrap();
    }
    let stats = until(&shop, |stats| stats.finished == 3).await;

    assert_eq!((stats.inside, stats.busy, stats.queue), (0, 0, 0));
    assert_eq!((stats.started, stats.finished_dead), (3, 3));
    assert!(
        stats.started_dead >= 1,
        "the last ones waited for longer than their callers did"
    );
    assert_eq!(stats.received["/browse/1"], 3);
}

#[tokio::test]
async fn what_does_not_fit_in_the_slots_waits_and_hung_calls_hold_theirs() {
    let shop = shop(2, Duration::ZERO);
    let mut callers = Vec::new();
    for _ in 0..2 {
        let mut caller = Client::connect(shop.address()).await.unwrap();
        caller
            .send(&Request::get("/hang?ms=600000").bytes("shop"))
            .await
            .unwrap();
        callers.push(caller);
    }
    until(&shop, |stats| stats.busy == 2).await;

    let mut waiting = Client::connect(shop.address()).await.unwrap();
    waiting
        .send(&Request::get("/browse/1").bytes("shop"))
        .await
        .unwrap();
    let stats = until(&shop, |stats| stats.inside == 3).await;
    assert_eq!((stats.busy, stats.queue, stats.queue_max), (2, 1, 1));

    ask(shop.address(), &Request::get("/control?slots=3"))
        .await
        .unwrap();
    assert_eq!(waiting.answer().await.unwrap().status, 200);
    assert_eq!(until(&shop, |stats| stats.inside == 2).await.queue, 0);
}

#[tokio::test]
async fn a_slow_dependency_slows_only_those_who_need_it() {
    let shop = shop(2, Duration::from_millis(1));
    shop.set_recommend_factor(1e6);

    let mut slow = Client::connect(shop.address()).await.unwrap();
    slow.send(&Request::get("/recommend/1").bytes("shop"))
        .await
        .unwrap();
    let browse = ask(shop.address(), &Request::get("/browse/1"))
        .await
        .unwrap();

    assert_eq!(browse.status, 200);
    assert_eq!(until(&shop, |stats| stats.inside == 1).await.busy, 1);
}

#[tokio::test]
async fn a_page_holds_its_slot_until_it_is_taken() {
    const BYTES: usize = 32 * 1024 * 1024;
    let shop = shop(1, Duration::ZERO);
    let page = Request::get(&format!("/page?bytes={BYTES}"));
    let mut reader = Client::connect(shop.address()).await.unwrap();

    reader.send(&page.bytes("shop")).await.unwrap();
    let mut got = reader.read_some().await.unwrap();
    assert_eq!(shop.stats().inside, 1);
    while got < BYTES {
        got += reader.read_some().await.unwrap();
    }

    assert_eq!(
        until(&shop, |stats| stats.inside == 0).await.finished_dead,
        0
    );
    let whole = ask(shop.address(), &page).await.unwrap();
    assert_eq!(whole.body.len(), BYTES);
}

#[tokio::test]
async fn an_echo_is_what_was_sent_and_headers_are_what_came() {
    let shop = shop(1, Duration::ZERO);
    let echo = Request::post("/echo", 100_000);
    let mut headers = Request::get("/headers?q=1");
    headers.headers.push(("X-One".to_owned(), "two".to_owned()));

    assert_eq!(ask(shop.address(), &echo).await.unwrap().body, echo.body);
    let lines = String::from_utf8(ask(shop.address(), &headers).await.unwrap().body).unwrap();

    assert!(lines.starts_with("GET /headers?q=1\n"), "{lines}");
    assert!(lines.contains("x-one: two\n"), "{lines}");
}

#[tokio::test]
async fn burning_uses_cpu_time_and_other_laws_keep_the_mean() {
    let plan = ShopPlan {
        service: Duration::from_millis(2),
        slots: 50,
        ..ShopPlan::default()
    };
    let plan = ShopPlan {
        law: ServiceLaw::Exponential,
        ..plan
    };
    let shop = Shop::open(ANYWHERE, plan).unwrap();

    // Threads of other tests may end meanwhile: only the whole process's time never falls.
    let used = || crate::measure::sample(std::process::id()).unwrap().cpu;
    let before = used();
    ask(shop.address(), &Request::get("/burn?us=30000"))
        .await
        .unwrap();
    let after = used();

    // Each reading is cut to whole ticks of 10 ms.
    assert!(after - before >= Duration::from_millis(20));
    assert_eq!(
        ask(shop.address(), &Request::get("/browse/1"))
            .await
            .unwrap()
            .status,
        200
    );
}

#[tokio::test]
async fn a_stall_holds_all_work_up_and_is_not_part_of_its_time() {
    let plan = ShopPlan {
        slots: 2,
        service: Duration::from_millis(20),
        times_kept: true,
        ..ShopPlan::default()
    };
    let shop = Shop::open(ANYWHERE, plan).unwrap();
    let stall = Request::get("/control?stall_ms=300");
    ask(shop.address(), &stall).await.unwrap();
    let begun = std::time::Instant::now();

    ask(shop.address(), &Request::get("/browse/1"))
        .await
        .unwrap();
    let took = begun.elapsed();
    let times = ask(shop.address(), &Request::get("/times?work=serve")).await;

    let times = String::from_utf8(times.unwrap().body).unwrap();
    let micros: u64 = times.trim().parse().expect("one job, one line");
    assert!(took >= Duration::from_millis(250), "{took:?}");
    assert!(micros >= 20_000, "{micros}");
    assert!(u128::from(micros) < took.as_micros() - 200_000, "{micros}");
}
