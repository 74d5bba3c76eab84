//! What the store is asked, and what becomes of a question without an answer.

use std::time::Duration;

use tidegate_core::rate::Tick;
use tidegate_lab::peers::{FaultProxy, RedisServer, Toward};
use tidegate_store::limits::{Answer, LimitStore, RedisLimits, Said};
use tidegate_store::redis::{Arrangement, Redis, RedisPlan, Use};
use tidegate_store::{Background, Call, StoreError};

use crate::backend::{CALL, address, until};
use crate::rules::Limit;

/// An operation's time where a loaded machine is not to be mistaken for a fault.
const PATIENT: Duration = Duration::from_millis(250);

#[tokio::test]
async fn a_question_without_an_answer_counts_as_charged_and_is_not_asked_again() {
    let server = RedisServer::plain().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (limits, _thread) = start(proxy.address());
    let limit = Limit::of(10);
    until("it answers", async || take(&limits, &limit).await.is_ok()).await;

    let (others, _thread) = start(server.address());
    until("it answers the others", async || {
        left(&others, &limit).await.is_some()
    })
    .await;
    let before = left(&others, &limit).await.unwrap();

    proxy.hold(Toward::Client);
    let unanswered = take(&limits, &limit).await;
    proxy.release(Toward::Client);

    assert_eq!(unanswered, Err(StoreError::Timeout));
    until("it is answered again", async || {
        take(&limits, &limit).await.is_ok()
    })
    .await;
    assert_eq!(left(&others, &limit).await, Some(before - 2));
}

#[tokio::test]
async fn a_server_is_silent_from_its_first_failure_until_it_answers() {
    let server = RedisServer::plain().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (store, _thread) = start(proxy.address());
    let LimitStore::Redis(limits) = &store else {
        unreachable!("it was started so");
    };
    let limit = Limit::of(10);
    until("it answers", async || take(&store, &limit).await.is_ok()).await;
    let is_silent = |longer_than| limits.is_silent(limit.asked(1).tag, longer_than);
    assert!(!is_silent(Duration::ZERO));

    proxy.hold(Toward::Client);
    assert_eq!(take(&store, &limit).await, Err(StoreError::Timeout));

    // It passes calls still, and has said nothing since.
    until("it has been silent for a while", async || {
        is_silent(Duration::from_millis(20))
    })
    .await;
    proxy.release(Toward::Client);
    until("it speaks again", async || {
        let answer = take(&store, &limit).await;
        answer.is_ok() && !is_silent(Duration::ZERO)
    })
    .await;
}

#[tokio::test]
async fn who_keeps_asking_after_a_refusal_costs_the_store_nothing() {
    let server = RedisServer::plain().unwrap();
    let (store, _thread) = start(server.address());
    let LimitStore::Redis(limits) = &store else {
        unreachable!("it was started so");
    };
    let limit = Limit::of(1);
    until("it answers", async || {
        take(&store, &limit)
            .await
            .is_ok_and(|answer| !answer.passes())
    })
    .await;
    let before = runs(&server);

    for us in 1..=2_000 {
        let asked = [limit.asked(1)];
        let answer = limits.take(&asked, Tick(us * 1_000), CALL).await.unwrap();
        assert!(!answer.passes());
    }

    // Two seconds: it is asked again when each is over.
    assert!(runs(&server) - before <= 3, "{}", runs(&server) - before);
    assert!(limits.known_refusals() >= 1_997);
}

fn start(at: std::net::SocketAddr) -> (LimitStore, Background) {
    let plan = RedisPlan {
        operation_timeout: PATIENT,
        connect_timeout: PATIENT,
        ..RedisPlan::usual(Arrangement::Standalone(address(at)))
    };
    let background = Background::start().unwrap();
    let redis = Redis::start(&plan, Use::Limits, &background);
    (LimitStore::Redis(RedisLimits::new(redis)), background)
}

async fn take(store: &LimitStore, limit: &Limit) -> Result<Answer, StoreError> {
    let asked = [limit.asked(1)];
    store.take(&asked, Tick(0), Call::within(PATIENT)).await
}

async fn left(store: &LimitStore, limit: &Limit) -> Option<u64> {
    let asked = [limit.asked(0)];
    let answer = store.ask(&asked, Tick(0), CALL).await.ok()?;
    match answer.said[0] {
        Said::Passes { remaining, .. } => Some(remaining),
        _ => None,
    }
}

/// Scripts that the server has run.
fn runs(server: &RedisServer) -> u64 {
    let calls = server.calls().unwrap();
    let scripts = calls.iter().filter(|(name, _)| name.starts_with("eval"));
    scripts.map(|(_, count)| count).sum()
}
