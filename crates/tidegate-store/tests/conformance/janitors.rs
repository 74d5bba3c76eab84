//! Ends that nobody told. These rules have the backend to themselves: a janitor sees to every
//! session.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_core::session::{Lifetimes, Rotation, SessionId, Uid};
use tidegate_lab::patience::until;
use tidegate_store::{Background, Consumer, Ended, Janitor, Reason};

use crate::Rule;
use crate::world::{CALL, LONG, World, name, principal};

const KEPT: u32 = 10_000;
/// Longer than the rules take.
const PATIENT: Duration = Duration::from_secs(3_600);
const SESSIONS: usize = 300;

pub(crate) fn rules(world: &World) -> Vec<(&'static str, Rule)> {
    let world = world.clone();
    vec![(
        "every_end_is_told_once_whoever_dies",
        Box::pin(every_end_is_told_once_whoever_dies(world)),
    )]
}

/// Sessions and how they are to end; `None` for those that live.
type Expected = HashMap<SessionId, Option<(Option<Uid>, Reason)>>;

async fn every_end_is_told_once_whoever_dies(world: World) {
    let mut expected = Expected::new();
    for number in 0..SESSIONS {
        let idle = Duration::from_millis(300 + (number * 3) as u64);
        expected.extend(short_session(&world, idle).await);
    }
    expected.extend(others(&world).await);
    let threads = [Background::start().unwrap(), Background::start().unwrap()];
    let janitor = |holder: usize| {
        let thread = &threads[holder % 2];
        Janitor::start(world.store.clone(), holder as u64 + 1, KEPT, thread)
    };
    let mut janitors = vec![janitor(0), janitor(1)];

    let consumer = Consumer {
        group: name("janitors"),
        member: name("a"),
    };
    let mut told: HashMap<SessionId, Ended> = HashMap::new();
    let ends = expected.values().flatten().count();
    let mut holder = 2;
    until("every end is told", async || {
        let read = world.store.events(&consumer, 1_000, PATIENT, CALL);
        for event in read.await.unwrap() {
            if expected.contains_key(&event.ended.session) {
                let before = told.insert(event.ended.session, event.ended);
                assert_eq!(before, None, "an end was told twice");
            }
        }
        // One dies wherever it may be, again and again, and another one comes.
        if holder < 20 && told.len() * 20 > holder * ends {
            janitors.remove(0);
            janitors.push(janitor(holder));
            holder += 1;
        }
        (told.len() >= ends).then_some(())
    })
    .await;

    for (id, end) in &expected {
        let told = told.get(id).map(|told| (told.uid.clone(), told.reason));
        assert_eq!(told, *end, "{id:?}");
    }
    let told_by: u64 = janitors
        .iter()
        .map(|janitor| janitor.stats().told.iter().sum::<u64>())
        .sum();
    assert!(told_by > 0);
}

async fn armed(world: &World, id: &SessionId) {
    let deadline = world.all_of(id).await.0.deadline;
    world.store.arm(id, deadline, CALL).await.unwrap();
}

async fn short_session(world: &World, idle: Duration) -> Expected {
    let uid = world.user();
    let lifetimes = Lifetimes {
        idle,
        absolute: LONG.absolute,
    };
    let id = world
        .session_with(lifetimes, Some(principal(&uid, 0)), &[])
        .await;
    // Its deadline is looked up before it may be over.
    let now = world.now().await;
    world.store.arm(&id, now, CALL).await.unwrap();
    world
        .store
        .index(&uid, &id, LONG.absolute, 10, CALL)
        .await
        .unwrap();
    [(id, Some((Some(uid), Reason::Expired)))].into()
}

/// Sessions that end otherwise, or live.
async fn others(world: &World) -> Expected {
    let now = world.now().await;
    let mut expected = Expected::new();

    let lives = world.session(LONG).await;
    world.store.arm(&lives, now, CALL).await.unwrap();
    expected.insert(lives, None);

    let uid = world.user();
    let ended = world
        .session_with(LONG, Some(principal(&uid, 0)), &[])
        .await;
    world.store.arm(&ended, now, CALL).await.unwrap();
    let destroyed = world
        .store
        .destroy(&ended, Reason::SignedOut, LONG.idle, CALL);
    destroyed.await.unwrap();
    expected.insert(ended, Some((Some(uid), Reason::SignedOut)));

    let told = world.session(LONG).await;
    armed(world, &told).await;
    let destroyed = world
        .store
        .destroy(&told, Reason::Destroyed, LONG.idle, CALL);
    destroyed.await.unwrap();
    let end = Ended {
        session: told,
        uid: None,
        reason: Reason::Destroyed,
    };
    assert!(world.store.finish(&end, KEPT, CALL).await.unwrap());
    expected.insert(told, Some((None, Reason::Destroyed)));

    let lost = world.id();
    world.store.arm(&lost, now, CALL).await.unwrap();
    expected.insert(lost, Some((None, Reason::Lost)));

    // Rotated twice by somebody who died before saying so to the index.
    let first = world.session(LONG).await;
    world.store.arm(&first, now, CALL).await.unwrap();
    let (second, third) = (world.id_on(first.tag()), world.id_on(first.tag()));
    let habit = Rotation::Habit {
        successor: Vec::new(),
        tombstone: LONG.idle,
    };
    for (old, new) in [(&first, &second), (&second, &third)] {
        world.store.rotate(old, new, &habit, CALL).await.unwrap();
    }
    let destroyed = world
        .store
        .destroy(&third, Reason::Destroyed, LONG.idle, CALL);
    destroyed.await.unwrap();
    expected.extend([
        (first, None),
        (second, None),
        (third, Some((None, Reason::Destroyed))),
    ]);
    expected
}
