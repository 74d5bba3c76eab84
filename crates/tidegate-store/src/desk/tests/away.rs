use tidegate_core::session::Gone;

use super::*;
use crate::Reason;
use crate::desk::{Standing, Ticket};

#[test]
fn a_ticket_is_given_for_what_the_store_vouches_for_and_holds_what_is_small() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let id = sign_in(desk, None, "ann").await.id;
        patch(desk, &id, set("locale", text("de"))).await;
        patch(
            desk,
            &id,
            set("cart", json(&format!("[{}]", "1,".repeat(200)))),
        )
        .await;
        patch(desk, &id, set("secret", text("x"))).await;
        let mut seen = see(desk, &id).await;

        let ticket = desk.ticket(&seen).unwrap();

        assert_eq!(ticket.id, id);
        assert_eq!(ticket.principal, seen.session.head.principal);
        let names: Vec<_> = ticket.attributes.iter().map(|(name, _)| name).collect();
        assert_eq!(names, [&name("locale")]);
        seen.standing = Standing::Cached;
        assert_eq!(desk.ticket(&seen), None);
    });
}

#[test]
fn when_the_store_hangs_a_session_is_opened_from_its_copy_and_pays_for_it_once() {
    let impatient = DeskPlan {
        operation: Duration::from_millis(200),
        ..plan()
    };
    run(Fleet::redis(1, &impatient), async |fleet| {
        let desk = &fleet.desks[0];
        let id = create(desk, &[("cart", "apple")]).await.id;
        fleet.server.as_ref().unwrap().pause().unwrap();

        let seen = see(desk, &id).await;
        let again = see(desk, &id).await;

        fleet.server.as_ref().unwrap().resume().unwrap();
        assert_eq!(seen.standing, Standing::Cached);
        assert_eq!(again.standing, Standing::Cached);
        assert_eq!(value_of(&seen, "cart").as_deref(), Some("apple"));
        // Or not at all: the janitor's calls may have shown it before.
        assert!(desk.stats().timed_out <= 1);
    });
}

#[test]
fn without_a_copy_the_ticket_says_who_it_is_and_a_ticket_of_another_session_does_not() {
    let impatient = DeskPlan {
        operation: Duration::from_millis(200),
        ..plan()
    };
    run(Fleet::redis(2, &impatient), async |fleet| {
        let [here, there] = &fleet.desks[..] else {
            unreachable!()
        };
        let id = sign_in(here, None, "ann").await.id;
        patch(here, &id, set("locale", text("de"))).await;
        let ticket = here.ticket(&see(here, &id).await);
        fleet.server.as_ref().unwrap().pause().unwrap();

        let open = async |id| there.open(id, ticket.as_ref(), &Fields::All, BUDGET).await;
        let mine = open(&id).await;
        let others = open(&super::id()).await;

        fleet.server.as_ref().unwrap().resume().unwrap();
        let Visit::Open(seen) = mine else {
            panic!("{mine:?}");
        };
        assert_eq!(seen.standing, Standing::FromTicket);
        assert_eq!(seen.session.uid(), Some(&uid("ann")));
        assert_eq!(value_of(&seen, "locale").as_deref(), Some("de"));
        assert_eq!(others, Visit::Away);
    });
}

#[test]
fn what_was_ended_before_the_store_hung_is_not_let_in_by_its_ticket() {
    let impatient = DeskPlan {
        operation: Duration::from_millis(200),
        ..plan()
    };
    run(Fleet::redis(1, &impatient), async |fleet| {
        let desk = &fleet.desks[0];
        let destroyed = sign_in(desk, None, "ann").await.id;
        let of_destroyed = desk.ticket(&see(desk, &destroyed).await);
        let replaced = sign_in(desk, None, "bob").await.id;
        let of_replaced = desk.ticket(&see(desk, &replaced).await);
        desk.destroy(&destroyed, Reason::SignedOut, BUDGET)
            .await
            .unwrap();
        sign_in(desk, Some(replaced), "cid").await;
        fleet.server.as_ref().unwrap().pause().unwrap();

        let open = async |id, ticket: Option<Ticket>| {
            desk.open(id, ticket.as_ref(), &Fields::All, BUDGET).await
        };
        let first = open(&destroyed, of_destroyed.clone()).await;
        let again = open(&destroyed, of_destroyed).await;
        let old = open(&replaced, of_replaced).await;
        let written = patch(desk, &destroyed, set("cart", text("pear"))).await;

        fleet.server.as_ref().unwrap().resume().unwrap();
        assert_eq!(first, Visit::Gone(Gone::Destroyed));
        assert_eq!(again, Visit::Gone(Gone::Destroyed));
        assert_eq!(old, Visit::Gone(Gone::Replaced));
        assert_eq!(written, DeskPatched::Gone(Gone::Destroyed));
    });
}
