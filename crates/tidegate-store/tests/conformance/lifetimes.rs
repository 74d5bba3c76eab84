//! How long sessions live, by the store's clock.

use std::time::Duration;

use tidegate_core::session::{Fields, Gone, Lifetimes, Opened, Patched, SessionId, Version};
use tidegate_core::time::Wall;
use tidegate_lab::patience::until;
use tidegate_store::Fate;

use crate::Rule;
use crate::world::{CALL, LONG, World, add, principal};

pub(crate) fn rules(world: &World) -> Vec<(&'static str, Rule)> {
    let world = || world.clone();
    vec![
        (
            "a_session_in_use_ends_at_its_absolute_deadline",
            Box::pin(a_session_in_use_ends_at_its_absolute_deadline(world())),
        ),
        (
            "an_idle_session_ends_on_time",
            Box::pin(an_idle_session_ends_on_time(world())),
        ),
        (
            "most_openings_write_nothing",
            Box::pin(most_openings_write_nothing(world())),
        ),
        (
            "what_has_ended_cannot_be_touched",
            Box::pin(what_has_ended_cannot_be_touched(world())),
        ),
    ]
}

/// Opens a session as a gateway does; the store's clock and the deadline, or why it is gone.
async fn used(world: &World, id: &SessionId, lifetimes: Lifetimes) -> Result<(Wall, Wall), Gone> {
    let touch_after = Some(lifetimes.touch_after());
    let opened = world
        .store
        .open(id, Version::NONE, &Fields::All, touch_after, CALL);
    match opened.await.unwrap() {
        Opened::Found { now, head, .. } => Ok((now, head.deadline)),
        Opened::Unchanged { now, deadline } => Ok((now, deadline)),
        Opened::Gone(gone) => Err(gone),
    }
}

async fn a_session_in_use_ends_at_its_absolute_deadline(world: World) {
    let lifetimes = Lifetimes {
        // Longer than a busy machine ever lets us wait between two looks.
        idle: Duration::from_millis(2_500),
        absolute: Duration::from_millis(3_000),
    };
    let id = world.session(lifetimes).await;
    let (head, _) = world.all_of(&id).await;

    let gone = until("the session ends", async || {
        match used(&world, &id, lifetimes).await {
            Ok((now, deadline)) => {
                assert!(now < head.absolute, "it lives past its absolute deadline");
                assert!(deadline <= head.absolute);
                None
            }
            Err(gone) => Some(gone),
        }
    });

    assert_eq!(gone.await, Gone::Missing);
    assert!(world.now().await >= head.absolute, "it ended early");
}

async fn an_idle_session_ends_on_time(world: World) {
    let lifetimes = Lifetimes {
        idle: Duration::from_millis(800),
        absolute: Duration::from_secs(60),
    };
    let id = world.session(lifetimes).await;
    let (head, _) = world.all_of(&id).await;

    let gone = until("the session ends", async || match world.open(&id).await {
        Opened::Gone(gone) => Some(gone),
        Opened::Found { now, .. } | Opened::Unchanged { now, .. } => {
            assert!(now < head.deadline, "it lives past its deadline");
            None
        }
    });
    assert_eq!(gone.await, Gone::Missing);

    assert!(world.now().await >= head.deadline, "it ended early");
}

async fn most_openings_write_nothing(world: World) {
    let lifetimes = Lifetimes {
        idle: Duration::from_secs(4),
        absolute: LONG.absolute,
    };
    let grain = lifetimes.touch_after();
    assert_eq!(grain, Duration::from_millis(200));
    let id = world.session(lifetimes).await;
    let mut deadlines = vec![world.all_of(&id).await.0.deadline];

    let (mut opened, begun) = (0, deadlines[0]);
    until("a few touches", async || {
        let (now, deadline) = used(&world, &id, lifetimes).await.unwrap();
        opened += 1;
        // At most 5 % early, never late.
        assert!(deadline.since(now) <= lifetimes.idle);
        assert!(deadline.since(now) + grain + Duration::from_millis(1) >= lifetimes.idle);
        if deadlines.last() != Some(&deadline) {
            deadlines.push(deadline);
        }
        (deadline.since(begun) > grain * 4).then_some(())
    })
    .await;

    for pair in deadlines.windows(2) {
        assert!(pair[1].since(pair[0]) >= grain, "touched too soon");
    }
    assert!(deadlines.len() <= 6 && opened >= deadlines.len());
}

async fn what_has_ended_cannot_be_touched(world: World) {
    let lifetimes = Lifetimes {
        idle: Duration::from_millis(50),
        absolute: LONG.absolute,
    };
    let uid = world.user();
    let id = world
        .session_with(lifetimes, Some(principal(&uid, 0)), &[])
        .await;
    let fate = async || world.store.fate(&id, CALL).await.unwrap();
    until("the session ends", async || {
        (!matches!(fate().await, Fate::Lives { .. })).then_some(())
    })
    .await;

    assert_eq!(used(&world, &id, lifetimes).await, Err(Gone::Missing));
    let patched = world.patch(&id, &[add("n", 1)], None).await;
    assert_eq!(patched, Patched::Gone(Gone::Missing));
    assert!(!world.store.adopt_epoch(&id, 3, CALL).await.unwrap().reply);
    assert_eq!(used(&world, &id, lifetimes).await, Err(Gone::Missing));
    // Whoever tells its end still knows whose it was.
    assert_eq!(fate().await, Fate::Expired { uid: Some(uid) });
}
