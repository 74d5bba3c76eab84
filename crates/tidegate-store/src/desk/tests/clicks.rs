//! Two clicks are two sign-ins with one id: whichever cookie the browser keeps, the visitor has what
//! they had, and nobody else has it.

use tidegate_core::session::{Created, Gone};

use super::heal::{impatient, live, split};
use super::*;
use crate::desk::{Standing, Ticket};
use crate::{NewSession, Reason};

/// What comes along, and one that does not.
const OWN: &[(&str, &str)] = &[("cart", "apple"), ("locale", "de"), ("admin", "planted")];

/// Asserts that what comes along has come along, and nothing else.
fn assert_carried(seen: &Seen) {
    assert_eq!(value_of(seen, "cart").as_deref(), Some("apple"), "{seen:?}");
    assert_eq!(value_of(seen, "locale").as_deref(), Some("de"), "{seen:?}");
    assert_eq!(value_of(seen, "admin"), None, "{seen:?}");
}

fn assert_empty(seen: &Seen) {
    assert_eq!(seen.session.found, Default::default(), "{seen:?}");
}

#[test]
fn of_two_sign_ins_with_one_id_each_has_what_comes_along() {
    on_every_store(2, &plan(), async |fleet| {
        for round in 0..20 {
            let user = format!("user-{round}");
            let old = create(&fleet.desks[0], OWN).await.id;

            let both = tokio::join!(
                sign_in(&fleet.desks[0], Some(old), &user),
                sign_in(&fleet.desks[1], Some(old), &user),
            );

            for seen in [both.0, both.1] {
                assert_carried(&seen);
                for desk in &fleet.desks {
                    assert_carried(&see(desk, &seen.id).await);
                }
            }
            assert_eq!(
                open(&fleet.desks[0], &old).await,
                Visit::Gone(Gone::Replaced)
            );
        }
    });
}

#[test]
fn a_third_click_after_the_first_session_has_moved_on_has_it_too() {
    on_every_store(2, &plan(), async |fleet| {
        let [here, there] = &fleet.desks[..] else {
            unreachable!()
        };
        let old = create(here, OWN).await.id;
        let first = sign_in(here, Some(old), "ann").await.id;
        let next = id_at(old.tag());
        let moved = here.rotate(&first, next, b"sealed".to_vec(), BUDGET).await;
        assert!(matches!(moved, Ok(Visit::Open(_))), "{moved:?}");

        assert_carried(&sign_in(there, Some(old), "ann").await);
        sign_in(here, Some(next), "ann").await;
        assert_carried(&sign_in(there, Some(old), "ann").await);
    });
}

#[test]
fn somebody_else_with_the_same_id_has_nothing() {
    on_every_store(2, &plan(), async |fleet| {
        let old = create(&fleet.desks[0], OWN).await.id;
        assert_carried(&sign_in(&fleet.desks[0], Some(old), "ann").await);

        for desk in &fleet.desks {
            assert_empty(&sign_in(desk, Some(old), "eve").await);
        }
    });
}

#[test]
fn what_was_signed_out_or_is_long_ago_gives_nothing() {
    let fleet = Fleet::embedded(2, &plan());
    run(fleet, async |fleet| {
        let [here, there] = &fleet.desks[..] else {
            unreachable!()
        };
        // `locale` alone tells: a user's last cart is theirs again in any case.
        let old = create(here, &[("locale", "de")]).await.id;
        let first = sign_in(here, Some(old), "ann").await.id;
        let reason = Reason::SignedOut;
        here.destroy(&first, reason, BUDGET).await.unwrap();
        assert_empty(&sign_in(there, Some(old), "ann").await);

        let old = create(here, &[("locale", "de")]).await.id;
        sign_in(here, Some(old), "bob").await;
        let bob = uid("bob");
        here.sign_out_everywhere(&bob, None, BUDGET).await.unwrap();
        assert_empty(&sign_in(there, Some(old), "bob").await);

        let old = create(here, &[("locale", "de")]).await.id;
        sign_in(here, Some(old), "cid").await;
        fleet.pass(Duration::from_secs(61));
        assert_empty(&sign_in(there, Some(old), "cid").await);
    });
}

#[test]
fn an_id_that_was_changed_as_a_habit_signs_in_with_its_session() {
    on_every_store(2, &plan(), async |fleet| {
        let [here, there] = &fleet.desks[..] else {
            unreachable!()
        };
        let old = create(here, OWN).await.id;
        let new = id_at(old.tag());
        here.rotate(&old, new, b"sealed".to_vec(), BUDGET)
            .await
            .unwrap();

        assert_carried(&sign_in(there, Some(old), "ann").await);

        assert_eq!(open(there, &new).await, Visit::Gone(Gone::Replaced));
    });
}

#[test]
fn a_large_value_comes_along_as_a_copy_of_its_own() {
    on_every_store(2, &plan(), async |fleet| {
        let [here, there] = &fleet.desks[..] else {
            unreachable!()
        };
        let large = "x".repeat(10_000);
        let old = create(here, &[]).await.id;
        patch(here, &old, set("locale", text(&large))).await;
        let first = sign_in(here, Some(old), "ann").await.id;

        let second = sign_in(there, Some(old), "ann").await;
        // The first one does not want it any more.
        patch(here, &first, set("locale", text("de"))).await;
        fleet.settle().await;

        let pointer = &second.session.attribute(&name("locale")).unwrap().value;
        let found = there.blob(&second.id, pointer, BUDGET).await;
        assert_eq!(found.unwrap(), Some(text(&large)));
    });
}

#[test]
fn while_the_store_is_away_each_of_two_sign_ins_has_it_and_after_that_as_well() {
    split(&impatient(), async |split| {
        let (here, there) = (&split.here, &split.there);
        let old = create(here, &[("cart", "apple"), ("admin", "planted")])
            .await
            .id;
        see(here, &old).await;
        split.part();

        let first = sign_in(here, Some(old), "ann").await;
        let second = sign_in(here, Some(old), "ann").await;
        let other = sign_in(here, Some(old), "eve").await;
        assert_eq!(live(here, &old).await, Err(Gone::Replaced));
        assert_empty(&other);
        for seen in [&first, &second] {
            assert_eq!(seen.standing, Standing::Local);
            assert_eq!(value_of(seen, "cart").as_deref(), Some("apple"));
        }
        split.meet().await;

        for seen in [&first, &second] {
            let seen = see(there, &seen.id).await;
            assert_eq!(value_of(&seen, "cart").as_deref(), Some("apple"));
            assert_eq!(value_of(&seen, "admin"), None);
        }
        assert_empty(&see(there, &other.id).await);
        assert_eq!(live(there, &old).await, Err(Gone::Replaced));
    });
}

#[test]
fn what_nobody_knew_here_comes_along_to_both_once_the_store_is_back() {
    split(&impatient(), async |split| {
        let (here, there) = (&split.here, &split.there);
        let old = create(there, &[("cart", "apple")]).await.id;
        split.part();

        let first = sign_in(here, Some(old), "ann").await;
        let second = sign_in(here, Some(old), "ann").await;
        assert_eq!(value_of(&first, "cart"), None);
        split.meet().await;

        for seen in [first, second] {
            let seen = see(there, &seen.id).await;
            assert_eq!(value_of(&seen, "cart").as_deref(), Some("apple"));
        }
    });
}

#[test]
fn a_second_click_after_the_store_has_gone_has_it_from_the_copy_of_the_first() {
    split(&impatient(), async |split| {
        let here = &split.here;
        let old = create(here, &[("cart", "apple")]).await.id;
        assert_eq!(
            sign_in(here, Some(old), "ann").await.standing,
            Standing::Live
        );
        split.part();

        let second = sign_in(here, Some(old), "ann").await;
        assert_empty(&sign_in(here, Some(old), "eve").await);

        assert_eq!(second.standing, Standing::Local);
        assert_eq!(value_of(&second, "cart").as_deref(), Some("apple"));
        assert_eq!(live(here, &old).await, Err(Gone::Replaced));
    });
}

#[test]
fn without_a_copy_what_the_ticket_has_comes_along() {
    split(&impatient(), async |split| {
        let (here, there) = (&split.here, &split.there);
        let theirs = create(there, &[("cart", "apple"), ("role", "guest")])
            .await
            .id;
        let seen = see(there, &theirs).await;
        let ticket = there.ticket(&seen).unwrap();
        assert_eq!(ticket.attributes.len(), 2);
        split.part();
        let sign_in_with = async |old, ticket: &Ticket| {
            let sign_in = SignIn {
                old: Some(old),
                new: id_at(theirs.tag()),
                uid: uid("ann"),
                tier: None,
            };
            let signed_in = here.sign_in_with(sign_in, Some(ticket), BUDGET);
            signed_in.await.unwrap()
        };

        let others = sign_in_with(id_at(theirs.tag()), &ticket).await;
        let signed_in = sign_in_with(theirs, &ticket).await;
        let again = sign_in_with(theirs, &ticket).await;

        assert_empty(&others);
        for seen in [&signed_in, &again] {
            assert_eq!(seen.standing, Standing::Local);
            assert_eq!(value_of(seen, "cart").as_deref(), Some("apple"));
            assert_eq!(value_of(seen, "role"), None);
        }
        split.meet().await;
        for seen in [signed_in, again] {
            let seen = see(there, &seen.id).await;
            assert_eq!(value_of(&seen, "cart").as_deref(), Some("apple"));
        }
    });
}

#[test]
fn a_ticket_of_a_user_brings_nothing_to_another() {
    split(&impatient(), async |split| {
        let (here, there) = (&split.here, &split.there);
        let id = id();
        let principal = tidegate_core::session::Principal {
            uid: uid("ann"),
            tier: None,
            epoch: 0,
        };
        let new = NewSession {
            id,
            lifetimes: plan().lives.signed_in,
            principal: Some(principal),
            attributes: vec![(name("cart"), text("ann's"))],
            counters: Vec::new(),
        };
        let created = there.shared.store.create(&new, Call::within(BUDGET));
        let created = created.await.unwrap().reply;
        assert!(matches!(created, Created::Created { .. }), "{created:?}");
        let ticket = there.ticket(&see(there, &id).await);
        split.part();

        let sign_in = SignIn {
            old: Some(id),
            new: id_at(id.tag()),
            uid: uid("bob"),
            tier: None,
        };
        let bobs = here.sign_in_with(sign_in, ticket.as_ref(), BUDGET).await;

        assert_empty(&bobs.unwrap());
    });
}
