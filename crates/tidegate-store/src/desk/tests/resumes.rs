use super::*;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// A user who has filled a cart.
async fn shopper(fleet: &Fleet, cart: &str) -> SessionId {
    let desk = &fleet.desks[0];
    let id = sign_in(desk, None, "ann").await.id;
    patch(desk, &id, set("cart", json(cart))).await;
    fleet.settle().await;
    id
}

async fn cart_after_sign_in(fleet: &Fleet) -> Option<String> {
    let seen = sign_in(&fleet.desks[1], None, "ann").await;
    fleet.settle().await;
    value_of(&seen, "cart")
}

#[test]
fn who_comes_back_within_the_window_finds_their_work_and_later_they_do_not() {
    for (away, found) in [
        (24 * HOUR - MINUTE, Some(r#"["a"]"#.to_owned())),
        (24 * HOUR + MINUTE, None),
    ] {
        run(Fleet::embedded(2, &plan()), async |fleet| {
            shopper(&fleet, r#"["a"]"#).await;

            fleet.pass(away);

            assert_eq!(cart_after_sign_in(&fleet).await, found);
        });
    }
}

#[test]
fn the_window_begins_with_the_last_use_and_not_with_the_last_change() {
    run(Fleet::embedded(2, &plan()), async |fleet| {
        let id = shopper(&fleet, r#"["a"]"#).await;
        for _ in 0..6 {
            fleet.pass(20 * MINUTE);
            see(&fleet.desks[0], &id).await;
        }
        fleet.settle().await;

        fleet.pass(23 * HOUR);

        let found = cart_after_sign_in(&fleet).await;
        assert_eq!(found.as_deref(), Some(r#"["a"]"#));
    });
}

#[test]
fn a_session_alive_but_unused_for_longer_than_the_window_is_not_taken_up() {
    let lasting = DeskPlan {
        lives: super::super::SessionLives {
            signed_in: tidegate_core::session::Lifetimes {
                idle: 48 * HOUR,
                absolute: 96 * HOUR,
            },
            ..plan().lives
        },
        ..plan()
    };
    run(Fleet::embedded(2, &lasting), async |fleet| {
        let id = shopper(&fleet, r#"["a"]"#).await;

        fleet.pass(24 * HOUR + MINUTE);

        assert_eq!(cart_after_sign_in(&fleet).await, None);
        see(&fleet.desks[0], &id).await;
    });
}

#[test]
fn when_the_newest_session_is_dead_the_next_is_taken_up() {
    on_every_store(2, &plan(), async |fleet| {
        shopper(&fleet, r#"["older"]"#).await;
        let newest = sign_in(&fleet.desks[0], None, "ann").await.id;
        patch(&fleet.desks[0], &newest, set("cart", json(r#"["newer"]"#))).await;
        fleet.settle().await;
        let call = Call::within(BUDGET);
        let destroyed = fleet
            .store
            .destroy(&newest, crate::Reason::Destroyed, MINUTE, call);
        assert!(destroyed.await.unwrap().reply.existed);

        let found = cart_after_sign_in(&fleet).await;

        assert_eq!(found.as_deref(), Some(r#"["older"]"#));
    });
}

#[test]
fn the_cart_of_a_visitor_is_put_together_with_the_one_left_behind() {
    on_every_store(2, &plan(), async |fleet| {
        shopper(&fleet, r#"["old"]"#).await;
        let desk = &fleet.desks[1];
        let visitor = create(desk, &[]).await.id;
        patch(desk, &visitor, set("cart", json(r#"["new"]"#))).await;

        let seen = sign_in(desk, Some(visitor), "ann").await;

        let cart = value_of(&seen, "cart").unwrap();
        assert!(cart.contains("old") && cart.contains("new"), "{cart}");
        assert_eq!(value_of(&see(desk, &seen.id).await, "cart"), Some(cart));
    });
}

#[test]
fn a_large_cart_is_taken_up_as_a_copy_of_its_own() {
    on_every_store(2, &plan(), async |fleet| {
        let large = format!("[{}]", vec!["1"; 5_000].join(","));
        let first = shopper(&fleet, &large).await;

        let seen = sign_in(&fleet.desks[1], None, "ann").await;

        let pointer = &seen.session.attribute(&name("cart")).unwrap().value;
        let theirs = see(&fleet.desks[0], &first).await;
        assert_ne!(
            *pointer,
            theirs.session.attribute(&name("cart")).unwrap().value
        );
        let found = fleet.desks[1].blob(&seen.id, pointer, BUDGET).await;
        assert_eq!(found.unwrap(), Some(json(&large)));
    });
}

#[test]
fn the_index_of_a_user_is_bounded() {
    let small = DeskPlan {
        resume: super::super::Resume {
            sessions_max: 10,
            ..plan().resume
        },
        ..plan()
    };
    on_every_store(1, &small, async |fleet| {
        for _ in 0..50 {
            sign_in(&fleet.desks[0], None, "ann").await;
        }
        fleet.settle().await;

        let user = uid("ann");
        let indexed = fleet.store.sessions_of(&user, 1_000, Call::within(BUDGET));

        assert_eq!(indexed.await.unwrap().len(), 10);
    });
}
