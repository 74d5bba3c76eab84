//! How sessions change their ids.

use std::time::Duration;

use tidegate_core::session::{
    Created, Gone, Lifetimes, Opened, Patched, Principal, Rotated, Rotation, SessionId,
};
use tidegate_lab::patience::until;
use tidegate_store::{Fate, NewSession, Reason};

use crate::Rule;
use crate::world::{
    CALL, LONG, World, add, applied, attribute, counter, name, principal, seq, set,
};

pub(crate) fn rules(world: &World) -> Vec<(&'static str, Rule)> {
    let world = || world.clone();
    vec![
        (
            "a_sign_in_leaves_nothing_under_the_old_id",
            Box::pin(a_sign_in_leaves_nothing_under_the_old_id(world())),
        ),
        (
            "only_what_is_listed_comes_along",
            Box::pin(only_what_is_listed_comes_along(world())),
        ),
        (
            "a_habit_leads_on_for_a_while",
            Box::pin(a_habit_leads_on_for_a_while(world())),
        ),
        (
            "of_two_rotations_one_wins",
            Box::pin(of_two_rotations_one_wins(world())),
        ),
        (
            "who_signs_in_with_an_id_that_is_not_there_kills_it_all_the_same",
            Box::pin(who_signs_in_with_an_id_that_is_not_there_kills_it_all_the_same(world())),
        ),
        (
            "who_signs_in_second_finds_what_came_along_to_the_first",
            Box::pin(who_signs_in_second_finds_what_came_along_to_the_first(
                world(),
            )),
        ),
        (
            "a_taken_id_is_not_taken_over",
            Box::pin(a_taken_id_is_not_taken_over(world())),
        ),
        (
            "a_patch_is_known_after_a_rotation",
            Box::pin(a_patch_is_known_after_a_rotation(world())),
        ),
    ]
}

const MINUTE: Duration = Duration::from_secs(60);

fn sign_in(principal: Option<Principal>, carry: &[&str]) -> Rotation {
    Rotation::Privilege {
        principal,
        lifetimes: Lifetimes {
            idle: Duration::from_secs(900),
            absolute: Duration::from_secs(3_600),
        },
        carry: carry.iter().map(|carried| name(carried)).collect(),
        tombstone: MINUTE,
    }
}

async fn rotate(world: &World, old: &SessionId, new: &SessionId, how: &Rotation) -> Rotated {
    world.store.rotate(old, new, how, CALL).await.unwrap().reply
}

async fn a_sign_in_leaves_nothing_under_the_old_id(world: World) {
    let old = world.session_with(LONG, None, &[("cart", "apple")]).await;
    let new = world.id_on(old.tag());
    let owner = principal(&world.user(), 2);
    let (before, _) = world.all_of(&old).await;

    let rotated = rotate(&world, &old, &new, &sign_in(Some(owner.clone()), &["cart"])).await;

    let Rotated::Rotated { now, head } = rotated else {
        panic!("{rotated:?}");
    };
    assert_eq!(head.version, before.version.next(now.as_micros()));
    assert_eq!(head.principal, Some(owner));
    assert!(now.since(head.created) < Duration::from_millis(1));
    assert_eq!(head.deadline.since(head.created), Duration::from_secs(900));
    assert_eq!(
        head.absolute.since(head.created),
        Duration::from_secs(3_600)
    );
    assert_eq!(world.all_of(&new).await.0, head);
    // At once, for everybody, and for writes under way as well.
    assert_eq!(world.gone(&old).await, Gone::Replaced);
    let late = world.patch(&old, &[set("cart", "planted")], None).await;
    assert_eq!(late, Patched::Gone(Gone::Replaced));
    assert_eq!(
        world.store.fate(&old, CALL).await.unwrap(),
        Fate::Moved { to: new }
    );
}

async fn only_what_is_listed_comes_along(world: World) {
    let attributes = [("cart", "apple"), ("locale", "de"), ("role", "admin")];
    let old = world.session_with(LONG, None, &attributes).await;
    applied(
        &world
            .patch(&old, &[add("items", 3), add("planted", 9)], None)
            .await,
    );
    let new = world.id_on(old.tag());

    rotate(
        &world,
        &old,
        &new,
        &sign_in(None, &["cart", "locale", "items", "nothing"]),
    )
    .await;

    let (head, found) = world.all_of(&new).await;
    let names: Vec<_> = found
        .attributes
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["cart", "locale"]);
    assert_eq!(found.counters, [(name("items"), 3)]);
    assert_eq!(head.bytes, 4 + 5 + 16 + 6 + 2 + 16 + 5 + 20);
    assert_eq!(head.principal, None);
    // What it weighs is what the ceilings go by.
    applied(&world.patch(&new, &[set("cart", "pear")], None).await);
    assert_eq!(world.all_of(&new).await.0.bytes, head.bytes - 1);
}

async fn a_habit_leads_on_for_a_while(world: World) {
    let old = world.session_with(LONG, None, &[("cart", "apple")]).await;
    let new = world.id_on(old.tag());
    applied(&world.patch(&old, &[add("items", 1)], None).await);
    let (before, content) = world.all_of(&old).await;
    let habit = Rotation::Habit {
        successor: vec![0, 255, 7],
        tombstone: Duration::from_millis(400),
    };

    let rotated = rotate(&world, &old, &new, &habit).await;

    assert!(matches!(rotated, Rotated::Rotated { .. }), "{rotated:?}");
    let (head, found) = world.all_of(&new).await;
    assert_eq!(found, content);
    assert_eq!(
        (head.created, head.deadline, head.bytes),
        (before.created, before.deadline, before.bytes)
    );
    let left = until("the old id leads nowhere", async || {
        match world.gone(&old).await {
            Gone::Rotated { successor } => {
                assert_eq!(successor, [0, 255, 7]);
                None
            }
            gone => Some(gone),
        }
    });
    assert_eq!(left.await, Gone::Missing);
    assert_eq!(world.all_of(&new).await.1, content);
}

async fn of_two_rotations_one_wins(world: World) {
    let old = world.session_with(LONG, None, &[("cart", "apple")]).await;
    let (one, other) = (world.id_on(old.tag()), world.id_on(old.tag()));
    let how = sign_in(Some(principal(&world.user(), 0)), &["cart"]);

    let (first, second) = tokio::join!(
        rotate(&world, &old, &one, &how),
        rotate(&world, &old, &other, &how)
    );

    let (won, lost, loser) = match (&first, &second) {
        (Rotated::Rotated { .. }, lost) => (one, lost, other),
        (lost, _) => (other, lost, one),
    };
    assert_eq!(*lost, Rotated::Gone(Gone::Replaced));
    let (_, found) = world.all_of(&won).await;
    assert!(attribute(&found, "cart").is_some());
    // No orphan: the one that lost has no session.
    assert_eq!(world.gone(&loser).await, Gone::Missing);
}

async fn who_signs_in_with_an_id_that_is_not_there_kills_it_all_the_same(world: World) {
    let old = world.id();
    let new = world.id_on(old.tag());
    let how = sign_in(Some(principal(&world.user(), 0)), &["cart"]);

    let rotated = rotate(&world, &old, &new, &how).await;

    assert_eq!(rotated, Rotated::Gone(Gone::Missing));
    assert_eq!(world.gone(&old).await, Gone::Replaced);
    assert_eq!(world.gone(&new).await, Gone::Missing);
    let again = NewSession {
        id: old,
        lifetimes: LONG,
        principal: None,
        attributes: Vec::new(),
        counters: Vec::new(),
    };
    let created = world.store.create(&again, CALL).await.unwrap();
    assert_eq!(created.reply, Created::Taken);
}

/// A second click: what the desk does when its rotation finds nothing under the old id.
async fn who_signs_in_second_finds_what_came_along_to_the_first(world: World) {
    let attributes = [("cart", "apple"), ("role", "planted")];
    let old = world.session_with(LONG, None, &attributes).await;
    let (first, second) = (world.id_on(old.tag()), world.id_on(old.tag()));
    let owner = principal(&world.user(), 2);
    let how = sign_in(Some(owner.clone()), &["cart"]);
    let rotated = rotate(&world, &old, &first, &how).await;
    assert!(matches!(rotated, Rotated::Rotated { .. }), "{rotated:?}");

    let late = rotate(&world, &old, &second, &how).await;
    let Ok(Fate::Moved { to }) = world.store.fate(&old, CALL).await else {
        panic!("it leads nowhere");
    };

    assert_eq!(late, Rotated::Gone(Gone::Replaced));
    assert_eq!((to, to.tag()), (first, old.tag()));
    // Whose it is, how old it is, and what came along: nobody else gets anything.
    let Opened::Found { now, head, found } = world.open(&to).await else {
        panic!("it is not there");
    };
    assert_eq!(head.principal, Some(owner));
    assert!(now.since(head.created) < MINUTE);
    assert!(attribute(&found, "cart").is_some());
    assert!(attribute(&found, "role").is_none());
    // An end of the first does not lead to it any more.
    let ended = world.store.destroy(&first, Reason::SignedOut, MINUTE, CALL);
    ended.await.unwrap();
    assert_eq!(world.gone(&to).await, Gone::Destroyed);
}

async fn a_taken_id_is_not_taken_over(world: World) {
    let old = world.session_with(LONG, None, &[("cart", "apple")]).await;
    let taken = world.id_on(old.tag());
    let ended = world.store.destroy(&taken, Reason::Destroyed, MINUTE, CALL);
    ended.await.unwrap();

    let rotated = rotate(&world, &old, &taken, &sign_in(None, &[])).await;

    assert_eq!(rotated, Rotated::Taken);
    assert!(attribute(&world.all_of(&old).await.1, "cart").is_some());
    assert_eq!(world.gone(&taken).await, Gone::Destroyed);
}

async fn a_patch_is_known_after_a_rotation(world: World) {
    let old = world.session(LONG).await;
    applied(&world.patch(&old, &[add("items", 1)], Some(seq(6, 1))).await);
    let mut id = old;
    let habit = Rotation::Habit {
        successor: Vec::new(),
        tombstone: MINUTE,
    };
    for how in [habit, sign_in(None, &["items"])] {
        let next = world.id_on(id.tag());
        rotate(&world, &id, &next, &how).await;
        id = next;
        let again = world.patch(&id, &[add("items", 1)], Some(seq(6, 1))).await;
        assert!(matches!(again, Patched::AlreadyApplied { .. }), "{again:?}");
    }

    assert_eq!(counter(&world.all_of(&id).await.1, "items"), Some(1));
}
