//! Leaders that die or are paused in the middle of a release, on a real Redis.

use std::time::{Duration, Instant};

use tidegate_core::room::{Claim, Denied, Place, Tier};
use tidegate_lab::patience::{until, until_so};
use tidegate_lab::peers::{FaultProxy, RedisServer, Toward};
use tidegate_store::Background;
use tidegate_store::redis::Arrangement;
use tidegate_store::rooms::{Room, RoomError};

use crate::backend::{Backend, Open, RULES, Servers, address, block_on, node, rooms};

/// How often each of them happens.
const TIMES: u64 = 20;
/// How many are called each time, by the leader that fails and by the one after it.
const CALLED: u64 = 3;
const LEASE: Duration = Duration::from_millis(100);
/// The room has heard of its next leader after so long at most.
const GAP_MAX: Duration = Duration::from_secs(4);

/// A leader whose way to the store can be held.
struct Leader {
    room: Room,
    proxy: FaultProxy,
    _thread: Background,
}

impl Leader {
    /// Whose connections are all there: a release has another one than a lease, and would not leave by one that is still
    /// being made when the way is held.
    async fn of(open: &Open, server: &RedisServer) -> Self {
        let proxy = FaultProxy::start(server.address()).unwrap();
        let thread = Background::start().unwrap();
        let store = rooms(Arrangement::Standalone(address(proxy.address())), &thread);
        let room = store.room(open.room.name(), RULES);
        until("releases have a connection", async || {
            let looked = room.look(open.epoch, Place(0), crate::backend::CALL).await;
            looked.ok()
        })
        .await;
        Self {
            room,
            proxy,
            _thread: thread,
        }
    }
}

/// A server, a room in it, and a line of people with every turn of whom something goes wrong.
async fn a_line(backend: &Backend) -> (Open, Vec<Place>) {
    backend.wait_until_ready().await;
    let open = backend.open().await;
    let mut places = Vec::new();
    for _ in 0..TIMES * CALLED * 2 {
        places.push(open.waits(Tier::Anonymous).await);
    }
    (open, places)
}

fn server(backend: &Backend) -> &RedisServer {
    let Servers::Standalone(server, _) = &backend.servers else {
        unreachable!("it was started so")
    };
    server
}

#[test]
fn a_leader_killed_in_the_middle_of_a_release_has_called_nobody_whom_the_next_one_calls() {
    let backend = Backend::standalone();
    block_on(async {
        let (open, places) = a_line(&backend).await;
        let mut longest = Duration::ZERO;
        for time in 0..TIMES {
            let dying = Leader::of(&open, server(&backend)).await;
            let name = node(&format!("dying-{time}"));
            let fence = open.lead_through(&dying.room, &name).await;
            let before = scripts(&backend);
            // What it asks arrives, and it never hears of it.
            dying.proxy.hold(Toward::Client);
            let (room, epoch) = (dying.room.clone(), open.epoch);
            let calling = open.calling(CALLED);
            let asking = tokio::spawn(async move {
                let call = tidegate_store::Call::within(Duration::from_secs(60));
                room.release((epoch, fence), &calling, call).await
            });
            until_so("the release has arrived", || scripts(&backend) > before).await;
            let died = Instant::now();
            asking.abort();
            drop(dying);

            let next = node(&format!("next-{time}"));
            let fence = open.lead_at_last(&next, LEASE).await;
            let said = open.release_as(fence, &open.calling(CALLED)).await;
            longest = longest.max(died.elapsed());

            assert_eq!(said.unwrap().count, CALLED);
            assert!(open.room.resign(fence, crate::backend::CALL).await.unwrap());
        }

        assert!(longest < GAP_MAX, "{longest:?}");
        everybody_was_called_once(&open, &places).await;
    });
}

#[test]
fn what_a_leader_sent_before_it_was_paused_is_refused_after_another_has_led() {
    let backend = Backend::standalone();
    block_on(async {
        let (open, places) = a_line(&backend).await;
        for time in 0..TIMES {
            let frozen = Leader::of(&open, server(&backend)).await;
            let name = node(&format!("frozen-{time}"));
            let fence = open.lead_through(&frozen.room, &name).await;
            // It is on its way for as long as nobody knows.
            frozen.proxy.hold(Toward::Server);
            let (room, epoch) = (frozen.room.clone(), open.epoch);
            let calling = open.calling(CALLED);
            let late = tokio::spawn(async move {
                let call = tidegate_store::Call::within(Duration::from_secs(60));
                room.release((epoch, fence), &calling, call).await
            });

            let next = open.lead_at_last(&node("next"), LEASE).await;
            let said = open.release_as(next, &open.calling(CALLED)).await;
            assert_eq!(said.unwrap().count, CALLED);
            let before = open.look().await.census.tallies.released;
            frozen.proxy.release(Toward::Server);

            let refused = Err(RoomError::Denied(Denied::Deposed { by: next.0 }));
            assert_eq!(late.await.unwrap(), refused);
            let after = open.look().await.census.tallies.released;
            assert_eq!(after, before);
            assert!(open.room.resign(next, crate::backend::CALL).await.unwrap());
        }
        // The rest, whom the frozen ones did not call.
        let fence = open.lead_at_last(&node("last"), LEASE).await;
        let rest = open.release_as(fence, &open.calling(1_000)).await.unwrap();
        assert_eq!(rest.count, TIMES * CALLED);
        everybody_was_called_once(&open, &places).await;
    });
}

impl Open {
    async fn lead_through(
        &self,
        room: &Room,
        name: &tidegate_store::Node,
    ) -> tidegate_store::Fence {
        until("it leads", async || {
            let call = crate::backend::CALL;
            match room.lead(name, LEASE, call).await {
                Ok(tidegate_store::Taken::Held(held)) => Some(held.fence),
                _ => None,
            }
        })
        .await
    }
}

/// Everybody can go in, each of them once, and as many calls were made as there are people.
async fn everybody_was_called_once(open: &Open, places: &[Place]) {
    let tallies = open.look().await.census.tallies;
    assert_eq!(tallies.released, places.len() as u64);
    for place in places {
        let first = open.claim(*place).await;
        assert!(matches!(first, Claim::Passed { is_first: true, .. }));
        let again = open.claim(*place).await;
        assert!(matches!(
            again,
            Claim::Passed {
                is_first: false,
                ..
            }
        ));
    }
    assert_eq!(open.look().await.census.ready, 0);
}

/// Releases that the server has run, and whatever else leaders and others had it run.
fn scripts(backend: &Backend) -> u64 {
    let calls = server(backend).calls().unwrap();
    let scripts = calls.iter().filter(|(name, _)| name.starts_with("eval"));
    scripts.map(|(_, count)| count).sum()
}
