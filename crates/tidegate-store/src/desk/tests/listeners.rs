use std::collections::HashMap;

use tidegate_core::session::Name;
use tokio::task::JoinSet;

use super::*;
use crate::{Consumer, Event, Position, Reason};

/// As many as anybody has listening on one node.
const LISTENERS: usize = 100;

const STORES: [fn(usize, &DeskPlan) -> Fleet; 4] = [
    Fleet::embedded,
    Fleet::redis,
    Fleet::whole_cluster,
    Fleet::cluster,
];

fn member(number: usize) -> Consumer {
    Consumer {
        group: Name::new("group").unwrap(),
        member: Name::new(&format!("member-{number}")).unwrap(),
    }
}

/// Ends a session of its own kind.
async fn end_one(desk: &Desk) -> SessionId {
    let id = create(desk, &[]).await.id;
    assert_eq!(desk.destroy(&id, Reason::Destroyed, BUDGET).await, Ok(true));
    id
}

/// What a member is told until `enough` were told to all.
async fn listen(desk: Desk, consumer: Consumer, told: Arc<AtomicU64>, enough: u64) -> Vec<Event> {
    let mut heard = Vec::new();
    while told.load(Ordering::Relaxed) < enough {
        let events = desk.events(&consumer, 4, Duration::from_secs(1)).await;
        let events = events.unwrap();
        let ids: Vec<_> = events.iter().map(|event| event.id).collect();
        let acked = desk.acknowledge(&consumer.group, &ids).await.unwrap();
        assert_eq!(acked as usize, ids.len());
        told.fetch_add(events.len() as u64, Ordering::Relaxed);
        heard.extend(events);
    }
    heard
}

#[test]
fn a_hundred_listeners_wait_at_once_and_each_end_is_told_to_one() {
    const ENDS: u64 = 60;
    for start in STORES {
        run(start(1, &plan()), async |fleet: Arc<Fleet>| {
            let desk = &fleet.desks[0];
            let told = Arc::new(AtomicU64::new(0));
            let mut listeners = JoinSet::new();
            for number in 0..LISTENERS {
                let told = told.clone();
                listeners.spawn(listen(desk.clone(), member(number), told, ENDS));
            }
            let mut ended = Vec::new();
            for _ in 0..ENDS {
                ended.push(end_one(desk).await);
            }

            let mut times: HashMap<SessionId, u32> = HashMap::new();
            while let Some(heard) = listeners.join_next().await {
                for event in heard.unwrap() {
                    *times.entry(event.ended.session).or_default() += 1;
                }
            }

            assert_eq!(times.len(), ended.len());
            assert!(
                ended.iter().all(|id| times.get(id) == Some(&1)),
                "{times:?}"
            );
        });
    }
}

#[test]
fn a_hundred_readers_that_keep_account_hear_of_every_end() {
    for start in STORES {
        run(start(1, &plan()), async |fleet: Arc<Fleet>| {
            let desk = &fleet.desks[0];
            let mut readers = JoinSet::new();
            for _ in 0..LISTENERS {
                let desk = desk.clone();
                readers.spawn(async move {
                    let (mut position, mut heard) = (Position::default(), Vec::new());
                    while heard.len() < 3 {
                        let read = desk.events_after(&position, 64, BUDGET).await;
                        let (events, behind) = read.unwrap();
                        heard.extend(events.into_iter().map(|event| event.ended.session));
                        position = behind;
                    }
                    heard
                });
            }
            let mut ended = Vec::new();
            for _ in 0..3 {
                ended.push(end_one(desk).await);
            }
            ended.sort_unstable();

            while let Some(heard) = readers.join_next().await {
                let mut heard = heard.unwrap();
                heard.sort_unstable();
                assert_eq!(heard, ended);
            }
        });
    }
}

#[test]
fn a_group_asks_the_store_no_more_often_than_one_listener() {
    run(Fleet::redis(1, &plan()), async |fleet: Arc<Fleet>| {
        let (desk, server) = (&fleet.desks[0], fleet.server.as_ref().unwrap());
        end_one(desk).await;
        fleet.settle().await;
        let first = desk.events(&member(0), 4, BUDGET).await.unwrap();
        assert_eq!(first.len(), 1);
        let reads = || {
            let calls = server.calls().unwrap();
            let of = |command: &str| calls.iter().find(|(name, _)| name == command);
            // There is one stream, so one of these is one look into all of them.
            of("xreadgroup").map_or(0, |(_, calls)| *calls)
        };
        let before = reads();

        let mut listeners = JoinSet::new();
        for number in 0..LISTENERS {
            let desk = desk.clone();
            listeners.spawn(async move {
                let wait = Duration::from_secs(1);
                desk.events(&member(number), 4, wait).await.unwrap()
            });
        }
        while let Some(heard) = listeners.join_next().await {
            assert_eq!(heard.unwrap(), []);
        }

        // Each looks when it comes and when it goes, and all of them together every quarter of a
        // second meanwhile.
        let looks = reads() - before;
        assert!(looks <= 2 * LISTENERS as u64 + 4, "{looks}");
    });
}

#[test]
fn who_does_not_wait_is_told_what_is_there_though_others_have_just_looked() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let nothing = desk.events(&member(0), 4, Duration::ZERO).await.unwrap();
        assert_eq!(nothing, []);

        let id = end_one(desk).await;
        fleet.settle().await;

        let told = desk.events(&member(1), 4, Duration::ZERO).await.unwrap();
        let told: Vec<_> = told.iter().map(|event| event.ended.session).collect();
        assert_eq!(told, [id]);
    });
}
