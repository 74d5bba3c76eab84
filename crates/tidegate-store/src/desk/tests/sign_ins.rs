use tidegate_core::session::Gone;

use super::*;
use crate::desk::DeskError;

#[test]
fn at_a_sign_in_the_old_id_dies_and_only_the_listed_attributes_come_along() {
    on_every_store(2, &plan(), async |fleet| {
        let [here, there] = &fleet.desks[..] else {
            unreachable!()
        };
        let planted = &[("cart", "apple"), ("locale", "de"), ("admin", "yes")];
        let old = create(here, planted).await.id;
        see(there, &old).await;

        let seen = sign_in(here, Some(old), "ann").await;

        assert_eq!(value_of(&seen, "cart").as_deref(), Some("apple"));
        assert_eq!(value_of(&seen, "admin"), None);
        for desk in &fleet.desks {
            assert_eq!(open(desk, &old).await, Visit::Gone(Gone::Replaced));
            let seen = see(desk, &seen.id).await;
            assert_eq!(seen.session.uid(), Some(&uid("ann")));
            assert_eq!(value_of(&seen, "admin"), None);
        }
        let late = patch(there, &old, set("cart", text("late"))).await;
        assert_eq!(late, DeskPatched::Gone(Gone::Replaced));
    });
}

#[test]
fn a_planted_id_is_never_adopted() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let planted = id();

        let seen = sign_in(desk, Some(planted), "ann").await;

        assert_ne!(seen.id, planted);
        assert_eq!(open(desk, &planted).await, Visit::Gone(Gone::Missing));
    });
}

#[test]
fn nothing_of_one_user_comes_along_to_another() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let anns = sign_in(desk, None, "ann").await.id;
        patch(desk, &anns, set("cart", text("ann's"))).await;

        let bobs = sign_in(desk, Some(anns), "bob").await;

        assert_eq!(value_of(&bobs, "cart"), None);
        assert!(matches!(open(desk, &anns).await, Visit::Gone(_)));
    });
}

#[test]
fn parallel_sign_ins_leave_no_session_that_the_index_does_not_know() {
    on_every_store(2, &plan(), async |fleet| {
        for round in 0..20 {
            let user = format!("user-{round}");
            let old = create(&fleet.desks[0], &[("cart", "apple")]).await.id;

            let (one, other) = tokio::join!(
                sign_in(&fleet.desks[0], Some(old), &user),
                sign_in(&fleet.desks[1], Some(old), &user),
            );
            fleet.settle().await;

            let user = uid(&user);
            let listed = fleet.desks[0].sessions_of(&user, BUDGET);
            let mut listed: Vec<_> = listed.await.unwrap().into_iter().map(|it| it.id).collect();
            let mut begun = vec![one.id, other.id];
            listed.sort();
            begun.sort();
            assert_eq!(listed, begun);
        }
    });
}

#[test]
fn a_taken_id_asks_for_another() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let taken = create(desk, &[]).await.id;

        let again = desk.create(taken, Vec::new(), Vec::new(), BUDGET).await;
        assert_eq!(again, Err(DeskError::Taken));
        let sign_in = SignIn {
            old: None,
            new: taken,
            uid: uid("ann"),
            tier: None,
        };
        let again = desk.sign_in(sign_in, BUDGET).await;
        assert_eq!(again, Err(DeskError::Taken));
    });
}

#[test]
fn a_habitual_rotation_keeps_everything_and_leads_from_the_old_id_to_the_new() {
    on_every_store(2, &plan(), async |fleet| {
        let [here, there] = &fleet.desks[..] else {
            unreachable!()
        };
        let old = sign_in(here, None, "ann").await.id;
        patch(here, &old, set("note", text("kept"))).await;
        let new = id_at(old.tag());

        let rotated = here.rotate(&old, new, b"sealed".to_vec(), BUDGET).await;

        let Ok(Visit::Open(seen)) = rotated else {
            panic!("{rotated:?}");
        };
        assert_eq!(value_of(&seen, "note").as_deref(), Some("kept"));
        let successor = b"sealed".to_vec();
        let moved = Visit::Gone(Gone::Rotated { successor });
        assert_eq!(open(there, &old).await, moved);
        let again = there.rotate(&old, id_at(old.tag()), Vec::new(), BUDGET);
        assert_eq!(again.await, Ok(moved));
        fleet.settle().await;
        let listed = there.sessions_of(&uid("ann"), BUDGET).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].id, new);
    });
}

#[test]
fn a_session_over_a_ceiling_does_not_begin() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let many = (0..129).map(|at| (name(&format!("n{at}")), 1)).collect();

        let refused = desk.create(id(), Vec::new(), many, BUDGET).await;

        let count = DeskError::TooLarge {
            name: None,
            size: 129,
            ceiling: 128,
        };
        assert_eq!(refused, Err(count));
    });
}

#[test]
fn without_replicas_one_sign_in_a_second_waits_for_them_and_not_each() {
    let usual = DeskPlan {
        durability: DeskPlan::default().durability,
        ..plan()
    };
    run(Fleet::redis(1, &usual), async |fleet| {
        let desk = &fleet.desks[0];
        sign_in(desk, None, "ann").await;
        let calls = fleet.server.as_ref().unwrap().calls().unwrap();
        let waits = |calls: &[(String, u64)]| {
            let wait = calls.iter().find(|(command, _)| command == "wait");
            wait.map_or(0, |(_, times)| *times)
        };
        // Twice at most: the server did not know the script.
        let before = waits(&calls);
        assert!((1..=2).contains(&before), "{calls:?}");

        for _ in 0..5 {
            sign_in(desk, None, "ann").await;
        }

        let calls = fleet.server.as_ref().unwrap().calls().unwrap();
        assert!(waits(&calls) <= before + 1, "{calls:?}");
        assert_eq!(desk.stats().short_replication, 6);
    });
}
