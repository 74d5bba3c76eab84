//! What is kept by user.

use std::time::Duration;

use tidegate_core::session::{Attribute, Format, Found, SessionId, Value, Version};
use tidegate_lab::patience::until;

use crate::Rule;
use crate::world::{CALL, LONG, World, name, principal, text};

const DAY: Duration = Duration::from_secs(86_400);

pub(crate) fn rules(world: &World) -> Vec<(&'static str, Rule)> {
    let world = || world.clone();
    vec![
        (
            "a_sign_out_counts_and_lists",
            Box::pin(a_sign_out_counts_and_lists(world())),
        ),
        (
            "the_one_that_signs_the_others_out_stays",
            Box::pin(the_one_that_signs_the_others_out_stays(world())),
        ),
        (
            "the_index_is_sorted_by_last_activity",
            Box::pin(the_index_is_sorted_by_last_activity(world())),
        ),
        (
            "the_index_stays_bounded",
            Box::pin(the_index_stays_bounded(world())),
        ),
        (
            "the_index_forgets_after_its_window",
            Box::pin(the_index_forgets_after_its_window(world())),
        ),
        (
            "a_capsule_is_replaced_and_forgotten",
            Box::pin(a_capsule_is_replaced_and_forgotten(world())),
        ),
        (
            "a_capsule_gives_way_to_no_older_one",
            Box::pin(a_capsule_gives_way_to_no_older_one(world())),
        ),
    ]
}

async fn a_sign_out_counts_and_lists(world: World) {
    let (uid, other) = (world.user(), world.user());
    let (one, two) = (world.id(), world.id());
    assert_eq!(world.store.epoch(&uid, CALL).await.unwrap(), 0);
    for id in [&one, &two] {
        world.store.index(&uid, id, DAY, 100, CALL).await.unwrap();
    }
    world
        .store
        .index(&other, &world.id(), DAY, 100, CALL)
        .await
        .unwrap();

    let first = world.store.sign_out(&uid, DAY, CALL).await.unwrap().reply;
    let second = world.store.sign_out(&uid, DAY, CALL).await.unwrap().reply;

    let mut listed = first.sessions;
    listed.sort_unstable();
    let mut both = vec![one, two];
    both.sort_unstable();
    assert_eq!((first.epoch, listed), (1, both));
    assert_eq!((second.epoch, second.sessions.len()), (2, 0));
    assert_eq!(world.store.epoch(&uid, CALL).await.unwrap(), 2);
    assert_eq!(world.store.epoch(&other, CALL).await.unwrap(), 0);
    assert_eq!(
        world
            .store
            .sessions_of(&other, 10, CALL)
            .await
            .unwrap()
            .len(),
        1
    );
}

async fn the_one_that_signs_the_others_out_stays(world: World) {
    let uid = world.user();
    let id = world
        .session_with(LONG, Some(principal(&uid, 0)), &[])
        .await;
    let nobody = world.session(LONG).await;
    let (before, _) = world.all_of(&id).await;
    let adopt = async |id: &SessionId, epoch| {
        world
            .store
            .adopt_epoch(id, epoch, CALL)
            .await
            .unwrap()
            .reply
    };

    assert!(adopt(&id, 5).await);

    let (after, _) = world.all_of(&id).await;
    assert_eq!(after.principal, Some(principal(&uid, 5)));
    // A copy of the old epoch is not current any more.
    assert!(after.version > before.version);
    assert!(adopt(&id, 3).await);
    assert_eq!(world.all_of(&id).await.0, after);
    assert!(!adopt(&nobody, 5).await);
    assert!(!adopt(&world.id(), 5).await);
}

async fn the_index_is_sorted_by_last_activity(world: World) {
    let uid = world.user();
    let ids = [world.id(), world.id(), world.id()];
    for active in [0, 1, 2, 0] {
        let now = world.now().await;
        world
            .store
            .index(&uid, &ids[active], DAY, 100, CALL)
            .await
            .unwrap();
        // Activity has the grain of a millisecond.
        until("the clock moves on", async || {
            (world.now().await.since(now) >= Duration::from_millis(2)).then_some(())
        })
        .await;
    }

    let listed = world.store.sessions_of(&uid, 100, CALL).await.unwrap();

    let order: Vec<_> = listed.iter().map(|(id, _)| *id).collect();
    assert_eq!(order, [ids[0], ids[2], ids[1]]);
    let newest = world.store.sessions_of(&uid, 1, CALL).await.unwrap();
    assert_eq!(newest, listed[..1]);
    assert!(
        world
            .store
            .sessions_of(&uid, 0, CALL)
            .await
            .unwrap()
            .is_empty()
    );
    world
        .store
        .unindex(&uid, &[ids[0], ids[1]], CALL)
        .await
        .unwrap();
    world.store.unindex(&uid, &[], CALL).await.unwrap();
    let left = world.store.sessions_of(&uid, 100, CALL).await.unwrap();
    assert_eq!(left, listed[1..2]);
}

async fn the_index_stays_bounded(world: World) {
    let uid = world.user();
    let mut last = world.id();
    for _ in 0..10_000 {
        last = world.id();
        world
            .store
            .index(&uid, &last, DAY, 200, CALL)
            .await
            .unwrap();
    }

    let listed = world.store.sessions_of(&uid, 10_000, CALL).await.unwrap();

    assert_eq!(listed.len(), 200);
    assert!(listed.iter().any(|(id, _)| *id == last));
}

async fn the_index_forgets_after_its_window(world: World) {
    let uid = world.user();
    let (window, old) = (Duration::from_millis(300), world.id());
    world
        .store
        .index(&uid, &old, window, 100, CALL)
        .await
        .unwrap();
    let begun = world.now().await;
    // It is counted in whole milliseconds.
    let over = window + Duration::from_millis(1);
    until("the window is over", async || {
        (world.now().await.since(begun) >= over).then_some(())
    })
    .await;

    let new = world.id();
    world
        .store
        .index(&uid, &new, window, 100, CALL)
        .await
        .unwrap();

    let listed = world.store.sessions_of(&uid, 100, CALL).await.unwrap();
    assert!(listed.iter().all(|(id, _)| *id == new), "{listed:?}");
}

async fn a_capsule_is_replaced_and_forgotten(world: World) {
    let uid = world.user();
    let attribute = |version, value| Attribute {
        version: Version(version),
        value,
    };
    let odd = Value {
        format: Format::Other(b'Q'),
        bytes: vec![0, 255],
    };
    let first = Found {
        attributes: vec![
            (name("cart"), attribute(5, text("apple"))),
            (name("odd"), attribute(6, odd)),
        ],
        counters: vec![(name("items"), i64::MIN)],
    };
    let second = Found {
        attributes: vec![(name("cart"), attribute(9, text("pear")))],
        counters: Vec::new(),
    };
    let capsule = async || world.store.capsule(&uid, CALL).await.unwrap();
    let put = async |content: &Found, window| {
        let put = world
            .store
            .put_capsule(&uid, content, Version(17), window, CALL);
        // The same version may be the same write again.
        assert!(put.await.unwrap().reply);
    };

    assert_eq!(capsule().await, Found::default());
    put(&first, DAY).await;
    assert_eq!(capsule().await, first);
    put(&second, DAY).await;
    assert_eq!(capsule().await, second);
    put(&second, Duration::from_millis(100)).await;
    until("the window is over", async || {
        (capsule().await == Found::default()).then_some(())
    })
    .await;
    put(&first, DAY).await;
    put(&Found::default(), DAY).await;
    assert_eq!(capsule().await, Found::default());
}

/// A write that is done again after a failover, or comes late.
async fn a_capsule_gives_way_to_no_older_one(world: World) {
    let uid = world.user();
    let holding = |bytes| Found {
        attributes: vec![(
            name("cart"),
            Attribute {
                version: Version(5),
                value: text(bytes),
            },
        )],
        counters: vec![(name("items"), 1)],
    };
    let (older, newer, nothing) = (holding("apple"), holding("pear"), Found::default());
    let capsule = async || world.store.capsule(&uid, CALL).await.unwrap();
    // As many digits as times have, and as few as a number may.
    let now = world.now().await.as_micros();
    let put = async |content: &Found, version| {
        let put = world
            .store
            .put_capsule(&uid, content, Version(version), DAY, CALL);
        put.await.unwrap().reply
    };

    assert!(put(&older, 9).await);
    assert!(put(&newer, now).await);
    assert!(!put(&older, now - 1).await);
    assert!(!put(&nothing, 10).await);
    assert_eq!(capsule().await, newer);

    assert!(put(&nothing, now + 1).await);
    assert!(!put(&newer, now).await);
    assert_eq!(capsule().await, nothing);
    assert!(put(&older, now + 2).await);
    assert_eq!(capsule().await, older);
}
