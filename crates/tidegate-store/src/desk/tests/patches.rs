use super::*;

#[test]
fn patches_of_many_clients_lose_nothing() {
    on_every_store(2, &plan(), async |fleet| {
        let id = create(&fleet.desks[0], &[]).await.id;
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..16 {
            let desk = fleet.desks[client % 2].clone();
            clients.spawn(async move {
                for round in 0..20 {
                    let mut both = set(&format!("field-{client}"), text(&round.to_string()));
                    both.ops.extend(add("count", 1).ops);
                    let done = patch(&desk, &id, both).await;
                    assert!(matches!(done, DeskPatched::Applied { .. }), "{done:?}");
                }
            });
        }
        while let Some(done) = clients.join_next().await {
            done.unwrap();
        }

        for desk in &fleet.desks {
            let seen = see(desk, &id).await;
            assert_eq!(seen.session.counter(&name("count")), Some(320));
            for client in 0..16 {
                let field = format!("field-{client}");
                assert_eq!(value_of(&seen, &field).as_deref(), Some("19"));
            }
        }
    });
}

#[test]
fn a_patch_sent_again_under_its_name_changes_nothing() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let id = create(desk, &[]).await.id;
        let named = |key: &str| Patch {
            key: Some(key.to_owned()),
            ..add("count", 1)
        };

        patch(desk, &id, named("one")).await;
        let again = patch(desk, &id, named("one")).await;
        patch(desk, &id, named("two")).await;

        assert!(matches!(again, DeskPatched::AlreadyApplied { .. }));
        let seen = see(desk, &id).await;
        assert_eq!(seen.session.counter(&name("count")), Some(2));
    });
}

#[test]
fn after_the_own_patch_the_copy_is_still_right() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let id = create(desk, &[("cart", "apple")]).await.id;

        patch(desk, &id, set("cart", text("pear"))).await;
        let seen = see(desk, &id).await;

        assert_eq!(value_of(&seen, "cart").as_deref(), Some("pear"));
        assert_eq!(desk.stats().opened_unchanged, 1);
    });
}

#[test]
fn a_conflict_shows_what_is_there() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let id = create(desk, &[("cart", "apple")]).await.id;
        let op = Op::Set {
            name: name("cart"),
            value: text("pear"),
            expect: Expect::Absent,
        };

        let refused = patch(desk, &id, Patch::of(vec![op])).await;

        let DeskPatched::Conflict { current, .. } = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(current[0].1.as_ref().unwrap().value, text("apple"));
        assert_eq!(desk.stats().patch_conflicts, 1);
    });
}

#[test]
fn a_large_value_lies_beside_the_session_and_is_fetched_when_asked_for() {
    on_every_store(2, &plan(), async |fleet| {
        let [here, there] = &fleet.desks[..] else {
            unreachable!()
        };
        let id = create(here, &[]).await.id;
        let large = Value {
            format: Format::Bytes,
            bytes: vec![7; 100_000],
        };

        patch(here, &id, set("picture", large.clone())).await;
        let seen = see(there, &id).await;
        let pointer = &seen.session.attribute(&name("picture")).unwrap().value;

        assert_eq!(pointer.format, Format::Pointer);
        assert!(pointer.bytes.len() < 64);
        assert_eq!(there.stats().blobs_read, 0);
        let fetched = there.blob(&id, pointer, BUDGET).await.unwrap();
        assert_eq!(fetched, Some(large.clone()));

        // What nothing points to any more goes.
        see(here, &id).await;
        patch(here, &id, set("picture", text("small"))).await;
        fleet.settle().await;
        assert_eq!(there.blob(&id, pointer, BUDGET).await.unwrap(), None);
    });
}

#[test]
fn a_value_that_is_too_large_for_anything_is_refused_and_nothing_is_half_written() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let id = create(desk, &[]).await.id;
        let mut both = add("count", 1);
        let huge = Value {
            format: Format::Bytes,
            bytes: vec![0; 1024 * 1024 + 1],
        };
        both.ops.extend(set("huge", huge).ops);

        let refused = patch(desk, &id, both).await;

        let DeskPatched::TooLarge {
            name: what,
            size,
            ceiling,
        } = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(what, Some(name("huge")));
        assert_eq!((size, ceiling), (1024 * 1024 + 1, 1024 * 1024));
        assert_eq!(see(desk, &id).await.session.counter(&name("count")), None);
    });
}

#[test]
fn an_application_cannot_point_to_what_it_likes() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let id = create(desk, &[]).await.id;
        let forged = Value {
            format: Format::Pointer,
            bytes: b"aaaa0123456789abcdef,1,s".to_vec(),
        };

        let refused = desk.patch(&id, None, set("cart", forged), BUDGET).await;

        assert!(refused.is_err());
    });
}
