//! What one patch does, and what a refused one does not.

use std::time::Duration;

use tidegate_core::session::{Ceilings, Expect, Gone, Op, Patched, Version};
use tidegate_core::time::Wall;
use tidegate_lab::patience::until;
use tidegate_store::Reason;

use crate::Rule;
use crate::world::{
    CALL, LONG, World, add, applied, attribute, counter, delete, name, raise, seq, set, set_if,
    text,
};

pub(crate) fn rules(world: &World) -> Vec<(&'static str, Rule)> {
    let world = || world.clone();
    vec![
        (
            "a_patch_changes_what_it_says",
            Box::pin(a_patch_changes_what_it_says(world())),
        ),
        (
            "a_refused_patch_changes_nothing",
            Box::pin(a_refused_patch_changes_nothing(world())),
        ),
        (
            "a_conflict_tells_what_is_there",
            Box::pin(a_conflict_tells_what_is_there(world())),
        ),
        (
            "swapped_patches_lose_nothing",
            Box::pin(swapped_patches_lose_nothing(world())),
        ),
        (
            "a_second_delivery_changes_nothing",
            Box::pin(a_second_delivery_changes_nothing(world())),
        ),
        (
            "nobody_guesses_about_an_old_patch",
            Box::pin(nobody_guesses_about_an_old_patch(world())),
        ),
        (
            "the_stalest_writer_is_forgotten_first",
            Box::pin(the_stalest_writer_is_forgotten_first(world())),
        ),
        (
            "a_late_patch_is_not_applied",
            Box::pin(a_late_patch_is_not_applied(world())),
        ),
        (
            "a_late_write_revives_nothing",
            Box::pin(a_late_write_revives_nothing(world())),
        ),
        (
            "counters_have_all_64_bits",
            Box::pin(counters_have_all_64_bits(world())),
        ),
        ("counters_count", Box::pin(counters_count(world()))),
        (
            "a_lowered_ceiling_locks_nobody_in",
            Box::pin(a_lowered_ceiling_locks_nobody_in(world())),
        ),
    ]
}

async fn a_patch_changes_what_it_says(world: World) {
    let id = world
        .session_with(LONG, None, &[("cart", "apple"), ("page", "/")])
        .await;
    let (before, _) = world.all_of(&id).await;
    let ops = [
        set("cart", "pear"),
        delete("page"),
        set_if("locale", "de", Expect::Absent),
        add("visits", 2),
        add("visits", -5),
        raise("best", 9),
        raise("best", 4),
    ];

    let patched = world.patch(&id, &ops, None).await;

    let Patched::Applied {
        now,
        before: was,
        version,
        counters,
    } = patched
    else {
        panic!("{patched:?}");
    };
    assert_eq!(was, before.version);
    assert_eq!(version, was.next(now.as_micros()));
    assert_eq!(counters, [(name("best"), 9), (name("visits"), -3)]);
    let (head, found) = world.all_of(&id).await;
    assert_eq!(head.version, version);
    let cart = attribute(&found, "cart").unwrap();
    assert_eq!((cart.version, &cart.value), (version, &text("pear")));
    assert_eq!(attribute(&found, "locale").unwrap().value, text("de"));
    assert_eq!(attribute(&found, "page"), None);
    assert_eq!(found.counters, counters);
    assert_eq!(head.bytes, 4 + 4 + 16 + 6 + 2 + 16 + 4 + 20 + 6 + 20);
    assert_eq!(
        (head.last_used, head.deadline),
        (before.last_used, before.deadline)
    );
}

async fn a_refused_patch_changes_nothing(world: World) {
    let id = world.session_with(LONG, None, &[("cart", "apple")]).await;
    applied(
        &world
            .patch(&id, &[add("most", i64::MAX), add("n", 1)], None)
            .await,
    );
    let before = world.all_of(&id).await;
    let long = "x".repeat(11);
    let refusals: [(&str, Vec<Op>); 6] = [
        ("a value over its ceiling", vec![set("b", &long)]),
        (
            "the session over its ceiling",
            vec![set("b", "123456789"), set("c", "123456789")],
        ),
        ("too many", vec![add("b", 1), add("c", 1), add("d", 1)]),
        ("a counter over its range", vec![add("most", 1)]),
        ("a counter that is an attribute", vec![add("cart", 1)]),
        (
            "an attribute that is another",
            vec![set_if("cart", "pear", Expect::At(Version(1)))],
        ),
    ];

    for (number, (what, mut ops)) in (1..).zip(refusals) {
        // Whatever could have been done before it or behind it.
        ops.insert(0, set("cart", "plum"));
        ops.insert(0, add("n", 1));
        ops.push(add("n", 1));
        if what == "a counter that is an attribute" {
            ops.remove(1);
        }
        let ceilings = Ceilings {
            value: 10,
            session: if what == "too many" { 1_000 } else { 120 },
            count: 5,
        };
        let patched = world
            .patch_under(&id, &ops, Some(seq(1, number)), ceilings)
            .await;
        let expected = match what {
            "a value over its ceiling" => {
                matches!(&patched, Patched::TooLarge { name: Some(over), size: 11, ceiling: 10 } if *over == name("b"))
            }
            "the session over its ceiling" => matches!(
                patched,
                Patched::TooLarge {
                    name: None,
                    ceiling: 120,
                    ..
                }
            ),
            "too many" => matches!(
                patched,
                Patched::TooLarge {
                    name: None,
                    size: 6,
                    ceiling: 5
                }
            ),
            "a counter over its range" => patched == Patched::Overflow { name: name("most") },
            "a counter that is an attribute" => {
                patched == Patched::WrongKind { name: name("cart") }
            }
            _ => matches!(patched, Patched::Conflict { .. }),
        };
        assert!(expected, "{what}: {patched:?}");
        assert_eq!(world.all_of(&id).await, before, "{what}");
    }

    // Nor is a refused one taken for one that was applied.
    applied(&world.patch(&id, &[add("n", 1)], Some(seq(1, 1))).await);
}

async fn a_conflict_tells_what_is_there(world: World) {
    let id = world
        .session_with(LONG, None, &[("cart", "apple"), ("page", "/")])
        .await;
    applied(&world.patch(&id, &[add("visits", 4)], None).await);
    let (head, found) = world.all_of(&id).await;
    let old = Expect::At(Version(7));
    let ops = [
        set_if(
            "page",
            "/a",
            Expect::At(attribute(&found, "page").unwrap().version),
        ),
        set_if("visits", "x", Expect::Absent),
        set_if("nothing", "x", old),
        set_if("cart", "pear", old),
        Op::Delete {
            name: name("cart"),
            expect: Expect::Absent,
        },
    ];

    let patched = world.patch(&id, &ops, None).await;

    let Patched::Conflict { version, current } = patched else {
        panic!("{patched:?}");
    };
    assert_eq!(version, head.version);
    let current: Vec<_> = current
        .iter()
        .map(|(name, there)| {
            let there = there
                .as_ref()
                .map(|there| (there.version, there.value.bytes.as_slice()));
            (name.as_str(), there)
        })
        .collect();
    let cart = attribute(&found, "cart").unwrap();
    assert_eq!(
        current,
        [
            ("cart", Some((cart.version, b"apple".as_slice()))),
            ("nothing", None),
            ("visits", Some((Version::NONE, b"4"))),
        ]
    );
}

async fn swapped_patches_lose_nothing(world: World) {
    let id = world.session(LONG).await;

    // Sent as 1, 2, 3; they arrive as 3, 1, 2, and again.
    for round in 0..2 {
        for number in [3, 1, 2] {
            let field = format!("field{number}");
            let ops = [set(&field, "x"), add("sum", 1)];
            let patched = world.patch(&id, &ops, Some(seq(9, number))).await;
            let again = matches!(patched, Patched::AlreadyApplied { .. });
            assert_eq!(again, round == 1, "{patched:?}");
        }
    }

    let (_, found) = world.all_of(&id).await;
    assert_eq!(found.attributes.len(), 3);
    assert_eq!(counter(&found, "sum"), Some(3));
}

async fn a_second_delivery_changes_nothing(world: World) {
    let id = world.session(LONG).await;
    let version = applied(&world.patch(&id, &[add("n", 5)], Some(seq(2, 1))).await);

    let again = world.patch(&id, &[add("n", 5)], Some(seq(2, 1))).await;
    assert_eq!(again, Patched::AlreadyApplied { version });
    // The number is the writer's, not the session's.
    applied(&world.patch(&id, &[add("n", 5)], Some(seq(3, 1))).await);
    applied(&world.patch(&id, &[add("n", 5)], None).await);

    assert_eq!(counter(&world.all_of(&id).await.1, "n"), Some(15));
}

async fn nobody_guesses_about_an_old_patch(world: World) {
    let id = world.session(LONG).await;
    for number in 2..=18 {
        applied(&world.patch(&id, &[add("n", 1)], Some(seq(4, number))).await);
    }

    let patched = world.patch(&id, &[add("n", 1)], Some(seq(4, 1))).await;

    assert_eq!(patched, Patched::TooOld);
    assert_eq!(counter(&world.all_of(&id).await.1, "n"), Some(17));
}

async fn the_stalest_writer_is_forgotten_first(world: World) {
    let id = world.session(LONG).await;
    for writer in 1..=16 {
        applied(&world.patch(&id, &[add("n", 1)], Some(seq(writer, 1))).await);
        if writer == 1 {
            let now = world.now().await;
            until("the clock moves on", async || {
                (world.now().await.since(now) >= Duration::from_millis(2)).then_some(())
            })
            .await;
        }
    }
    let again = world.patch(&id, &[add("n", 1)], Some(seq(1, 1))).await;
    assert!(matches!(again, Patched::AlreadyApplied { .. }), "{again:?}");

    applied(&world.patch(&id, &[add("n", 1)], Some(seq(17, 1))).await);

    let again = world.patch(&id, &[add("n", 1)], Some(seq(16, 1))).await;
    assert!(matches!(again, Patched::AlreadyApplied { .. }), "{again:?}");
    applied(&world.patch(&id, &[add("n", 1)], Some(seq(1, 1))).await);
}

async fn a_late_patch_is_not_applied(world: World) {
    let id = world.session(LONG).await;
    let now = world.now().await;
    let patch = async |not_after: Wall| {
        let ops = [add("n", 1)];
        let usual = Ceilings::default();
        let patched = world
            .store
            .patch(&id, &ops, None, usual, Some(not_after), CALL);
        patched.await.unwrap().reply
    };
    let later = Wall::from_micros(now.as_micros() + 60_000_000);
    let earlier = Wall::from_micros(now.as_micros() - 1_000);

    assert_eq!(patch(earlier).await, Patched::Late);
    applied(&patch(later).await);

    assert_eq!(counter(&world.all_of(&id).await.1, "n"), Some(1));
}

async fn a_late_write_revives_nothing(world: World) {
    let id = world.session(LONG).await;
    let day = Duration::from_secs(86_400);
    let ended = world.store.destroy(&id, Reason::SignedOut, day, CALL);
    assert!(ended.await.unwrap().reply.existed);

    let patched = world
        .patch(&id, &[set("cart", "apple")], Some(seq(5, 1)))
        .await;
    assert_eq!(patched, Patched::Gone(Gone::Destroyed));
    let again = world.store.destroy(&id, Reason::Destroyed, day, CALL);
    assert!(!again.await.unwrap().reply.existed);

    assert_eq!(world.gone(&id).await, Gone::Destroyed);
}

async fn counters_have_all_64_bits(world: World) {
    let id = world.session(LONG).await;
    let values = [
        i64::MAX,
        i64::MIN,
        i64::MAX - 1,
        i64::MIN + 1,
        0,
        -1,
        1,
        999_999_999,
        1_000_000_000,
        -1_000_000_000,
        9_007_199_254_740_993,
        -9_007_199_254_740_993,
        4_611_686_018_427_387_904,
        1_234_567_890_123_456_789,
    ];
    for start in values {
        for by in values {
            let start_again = [delete("n"), add("n", start)];
            applied(&world.patch(&id, &start_again, None).await);
            let patched = world.patch(&id, &[add("n", by)], None).await;
            let counters = match start.checked_add(by) {
                Some(sum) => Some(sum),
                None => {
                    assert_eq!(patched, Patched::Overflow { name: name("n") });
                    Some(start)
                }
            };
            let (_, found) = world.all_of(&id).await;
            assert_eq!(counter(&found, "n"), counters, "{start} + {by}");

            applied(
                &world
                    .patch(&id, &[delete("n"), add("n", start), raise("n", by)], None)
                    .await,
            );
            let (_, found) = world.all_of(&id).await;
            assert_eq!(
                counter(&found, "n"),
                Some(start.max(by)),
                "{start} and {by}"
            );
        }
    }
}

async fn counters_count(world: World) {
    let id = world.session(LONG).await;
    let ceilings = Ceilings {
        value: 10,
        session: 50,
        count: 8,
    };

    // 21 bytes each.
    applied(
        &world
            .patch_under(&id, &[add("a", 1), add("b", 1)], None, ceilings)
            .await,
    );
    let patched = world
        .patch_under(&id, &[raise("c", 1)], None, ceilings)
        .await;

    let too_large = Patched::TooLarge {
        name: None,
        size: 63,
        ceiling: 50,
    };
    assert_eq!(patched, too_large);
    applied(
        &world
            .patch_under(
                &id,
                &[add("a", 1), delete("b"), raise("c", 1)],
                None,
                ceilings,
            )
            .await,
    );
    assert_eq!(world.all_of(&id).await.0.bytes, 42);
}

async fn a_lowered_ceiling_locks_nobody_in(world: World) {
    let id = world
        .session_with(LONG, None, &[("a", "123456789"), ("b", "123456789")])
        .await;
    let low = Ceilings {
        value: 10,
        session: 20,
        count: 1,
    };

    applied(&world.patch_under(&id, &[set("a", "1234")], None, low).await);
    let patched = world
        .patch_under(&id, &[set("a", "12345")], None, low)
        .await;
    assert!(
        matches!(patched, Patched::TooLarge { name: None, .. }),
        "{patched:?}"
    );
    applied(&world.patch_under(&id, &[delete("a")], None, low).await);
}
