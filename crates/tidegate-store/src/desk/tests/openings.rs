use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_core::session::Gone;

use super::*;
use crate::desk::Standing;

#[test]
fn a_session_reads_back_on_every_desk_and_a_copy_saves_fetching_it_again() {
    on_every_store(2, &plan(), async |fleet| {
        let [here, there] = &fleet.desks[..] else {
            unreachable!()
        };
        let id = create(here, &[("cart", "apple")]).await.id;

        let seen = see(there, &id).await;
        assert_eq!(value_of(&seen, "cart").as_deref(), Some("apple"));
        assert_eq!(seen.standing, Standing::Live);
        see(there, &id).await;
        see(here, &id).await;

        assert_eq!(there.stats().opened_unchanged, 1);
        assert_eq!(here.stats().opened_unchanged, 1);
    });
}

#[test]
fn parallel_openings_of_one_session_are_one_question() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let id = create(desk, &[("cart", "apple")]).await.id;

        let mut parallel = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let desk = desk.clone();
            parallel.spawn(async move { see(&desk, &id).await });
        }
        while let Some(seen) = parallel.join_next().await {
            assert_eq!(value_of(&seen.unwrap(), "cart").as_deref(), Some("apple"));
        }

        let stats = desk.stats();
        assert_eq!((stats.opened, stats.opened_joined), (1, 15));
    });
}

#[test]
fn an_unknown_id_costs_one_question_a_second() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let unknown = id();

        for _ in 0..10 {
            assert_eq!(open(desk, &unknown).await, Visit::Gone(Gone::Missing));
        }

        let stats = desk.stats();
        assert_eq!((stats.opened, stats.opened_unknown), (1, 9));
    });
}

#[test]
fn only_the_wanted_fields_are_fetched_and_more_of_them_when_more_are_wanted() {
    on_every_store(1, &plan(), async |fleet| {
        let writer = Desk::on(plan(), fleet.store.clone(), Background::start().unwrap()).unwrap();
        let id = create(&writer, &[("a", "1"), ("b", "2"), ("c", "3")])
            .await
            .id;
        let desk = &fleet.desks[0];
        let wanted = async |names: &[&str]| {
            let fields = Fields::Only(names.iter().map(|key| name(key)).collect());
            match desk.open(&id, None, &fields, BUDGET).await {
                Visit::Open(seen) => seen,
                other => panic!("{other:?}"),
            }
        };

        let first = wanted(&["a", "none"]).await;
        assert_eq!(first.session.found.attributes.len(), 1);
        let both = wanted(&["b"]).await;
        assert_eq!(both.session.found.attributes.len(), 2);
        wanted(&["a"]).await;

        assert_eq!(desk.stats().opened_unchanged, 1);
    });
}

#[test]
fn a_write_on_one_desk_is_seen_by_the_next_opening_on_another() {
    on_every_store(2, &plan(), async |fleet| {
        let id = create(&fleet.desks[0], &[("cart", "0")]).await.id;
        // Others ask all the time, so that there are copies and flights to be wrong about.
        let is_over = Arc::new(AtomicBool::new(false));
        let mut others = tokio::task::JoinSet::new();
        for desk in fleet.desks.iter().cycle().take(4) {
            let (desk, is_over) = (desk.clone(), is_over.clone());
            others.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    see(&desk, &id).await;
                }
            });
        }

        let mut stale = 0;
        for round in 1..=2_000 {
            let (writer, reader) = (&fleet.desks[round % 2], &fleet.desks[(round + 1) % 2]);
            patch(writer, &id, set("cart", text(&round.to_string()))).await;
            let seen = see(reader, &id).await;
            stale += u32::from(value_of(&seen, "cart") != Some(round.to_string()));
        }
        is_over.store(true, Ordering::Relaxed);
        while others.join_next().await.is_some() {}

        assert_eq!(stale, 0);
        assert_eq!(fleet.desks[0].stats().lost_writes, 0);
    });
}

#[test]
fn a_trusted_copy_is_used_without_asking() {
    let trusting = DeskPlan {
        trust: Duration::from_secs(60),
        ..plan()
    };
    on_every_store(1, &trusting, async |fleet| {
        let desk = &fleet.desks[0];
        let id = create(desk, &[("cart", "apple")]).await.id;

        see(desk, &id).await;

        let stats = desk.stats();
        assert_eq!((stats.opened, stats.opened_trusted), (0, 1));
    });
}

#[test]
fn a_write_that_the_store_has_lost_is_noticed_and_made_again() {
    on_every_store(1, &plan(), async |fleet| {
        let desk = &fleet.desks[0];
        let id = create(desk, &[("cart", "apple")]).await.id;
        let before = see(desk, &id).await;
        patch(desk, &id, set("cart", text("pear"))).await;
        // As if a replica took over that did not have the last write.
        let copy = desk.shared.l1.any(&id).unwrap();
        let mut session = (*copy.session).clone();
        session.head.version.0 += 1_000_000_000;
        session.found.attributes[0].1.version.0 += 1_000_000_000;
        session.found.attributes[0].1.value = text("plum");
        desk.shared.l1.correct(id, Arc::new(session));

        let seen = see(desk, &id).await;

        assert_eq!(value_of(&seen, "cart").as_deref(), Some("plum"));
        let shown = desk.show(&id, BUDGET).await;
        assert!(
            matches!(shown, Visit::Open(seen) if value_of(&seen, "cart").as_deref() == Some("plum"))
        );
        let stats = desk.stats();
        assert_eq!((stats.lost_writes, stats.lost_writes_repaired), (1, 1));
        assert!(seen.session.version() > before.session.version());
        see(desk, &id).await;
        assert_eq!(desk.stats().lost_writes, 1);
    });
}

#[test]
fn a_session_that_the_store_has_lost_comes_back_from_the_copy() {
    let fleet = Fleet::redis(2, &plan());
    run(fleet, async |fleet| {
        let [desk, other] = &fleet.desks[..] else {
            unreachable!()
        };
        let id = create(desk, &[("cart", "apple")]).await.id;
        see(other, &id).await;
        fleet.server.as_ref().unwrap().ask(&["FLUSHALL"]).unwrap();

        let (seen, others) = tokio::join!(see(desk, &id), see(other, &id));

        let standings = [seen.standing, others.standing];
        assert!(standings.contains(&Standing::Recovered), "{standings:?}");
        for seen in [seen, others] {
            assert_eq!(value_of(&seen, "cart").as_deref(), Some("apple"));
        }
        assert_eq!(see(desk, &id).await.standing, Standing::Live);
    });
}
