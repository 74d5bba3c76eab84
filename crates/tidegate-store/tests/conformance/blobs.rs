//! Large values beside a session.

use tidegate_core::session::{Rotation, SessionId};
use tidegate_core::time::Wall;
use tidegate_lab::patience::until;

use crate::Rule;
use crate::world::{CALL, LONG, World};

pub(crate) fn rules(world: &World) -> Vec<(&'static str, Rule)> {
    let world = || world.clone();
    vec![
        (
            "a_large_value_is_kept_beside_its_session",
            Box::pin(a_large_value_is_kept_beside_its_session(world())),
        ),
        (
            "an_orphan_goes_by_itself",
            Box::pin(an_orphan_goes_by_itself(world())),
        ),
    ]
}

fn after(now: Wall, millis: u64) -> Wall {
    Wall::from_micros(now.as_micros() + millis * 1_000)
}

async fn a_large_value_is_kept_beside_its_session(world: World) {
    let id = world.session(LONG).await;
    let until = world.all_of(&id).await.0.absolute;
    let large: Vec<u8> = (0..100 * 1_024).map(|at| (at % 251) as u8).collect();
    let read = async |id: &SessionId, blob: &str| world.store.blob(id, blob, CALL).await.unwrap();

    world
        .store
        .put_blob(&id, "photo", &large, until, CALL)
        .await
        .unwrap();

    assert_eq!(read(&id, "photo").await.as_ref(), Some(&large));
    assert_eq!(read(&id, "other").await, None);
    assert_eq!(world.all_of(&id).await.0.bytes, 0);
    let next = world.id_on(id.tag());
    let habit = Rotation::Habit {
        successor: Vec::new(),
        tombstone: LONG.idle,
    };
    world.store.rotate(&id, &next, &habit, CALL).await.unwrap();
    assert_eq!(read(&next, "photo").await, Some(large));
    world.store.drop_blob(&next, "photo", CALL).await.unwrap();
    assert_eq!(read(&next, "photo").await, None);
}

async fn an_orphan_goes_by_itself(world: World) {
    let id = world.session(LONG).await;
    let end = after(world.now().await, 300);
    world
        .store
        .put_blob(&id, "orphan", b"x", end, CALL)
        .await
        .unwrap();

    until("the orphan goes", async || {
        let there = world.store.blob(&id, "orphan", CALL).await.unwrap();
        there.is_none().then_some(())
    })
    .await;

    // Ends are kept to the millisecond.
    let millis = |at: Wall| at.as_micros() / 1000;
    assert!(millis(world.now().await) >= millis(end), "it went early");
}
