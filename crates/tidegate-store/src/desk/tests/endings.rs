use std::sync::atomic::AtomicBool;

use tidegate_core::session::{Gone, Name};

use super::*;
use crate::{Consumer, Reason};

async fn ends(fleet: &Fleet) -> Vec<(SessionId, Reason)> {
    let consumer = Consumer {
        group: Name::new("group").unwrap(),
        member: Name::new("member").unwrap(),
    };
    let desk = &fleet.desks[0];
    let events = desk.events(&consumer, 2_000, Duration::ZERO).await.unwrap();
    let ids: Vec<_> = events.iter().map(|event| event.id).collect();
    desk.acknowledge(&consumer.group, &ids).await.unwrap();
    events
        .into_iter()
        .map(|event| (event.ended.session, event.ended.reason))
        .collect()
}

#[test]
fn a_sign_out_ends_the_session_everywhere_and_is_told_once() {
    on_every_store(2, &plan(), async |fleet| {
        let [here, there] = &fleet.desks[..] else {
            unreachable!()
        };
        let id = sign_in(here, None, "ann").await.id;
        see(there, &id).await;

        assert_eq!(here.destroy(&id, Reason::SignedOut, BUDGET).await, Ok(true));
        assert_eq!(
            there.destroy(&id, Reason::SignedOut, BUDGET).await,
            Ok(false)
        );

        for desk in &fleet.desks {
            assert_eq!(open(desk, &id).await, Visit::Gone(Gone::Destroyed));
        }
        fleet.settle().await;
        assert_eq!(ends(&fleet).await, [(id, Reason::SignedOut)]);
        let listed = here.sessions_of(&uid("ann"), BUDGET).await.unwrap();
        assert!(listed.is_empty());
    });
}

#[test]
fn signing_out_everywhere_spares_the_one_session_that_it_is_to_spare() {
    on_every_store(2, &plan(), async |fleet| {
        let mut sessions = Vec::new();
        for desk in fleet.desks.iter().cycle().take(10) {
            sessions.push(sign_in(desk, None, "ann").await.id);
        }
        let spared = sessions.pop().unwrap();

        let user = uid("ann");
        let out = fleet.desks[0].sign_out_everywhere(&user, Some(&spared), BUDGET);
        let out = out.await.unwrap();

        assert_eq!((out.epoch, out.ended, out.pending), (1, 9, false));
        fleet.settle().await;
        for desk in &fleet.desks {
            for id in &sessions {
                assert_eq!(open(desk, id).await, Visit::Gone(Gone::Destroyed));
            }
            see(desk, &spared).await;
        }
        let told = ends(&fleet).await;
        assert_eq!(told.len(), 9);
        assert!(
            told.iter()
                .all(|(_, why)| *why == Reason::SignedOutEverywhere)
        );
        let later = sign_in(&fleet.desks[1], None, "ann").await.id;
        see(&fleet.desks[0], &later).await;
    });
}

#[test]
fn a_thousand_sessions_that_no_index_knows_are_signed_out_within_a_second() {
    on_every_store(3, &plan(), async |fleet| {
        let user = uid("ann");
        let mut sessions = Vec::new();
        for desk in fleet.desks.iter().cycle().take(1_000) {
            sessions.push(sign_in(desk, None, "ann").await.id);
        }
        fleet.settle().await;
        for desk in &fleet.desks {
            for id in &sessions {
                see(desk, id).await;
            }
        }
        let call = Call::within(BUDGET);
        fleet.store.unindex(&user, &sessions, call).await.unwrap();
        let indexed = fleet.store.sessions_of(&user, 1_000, call).await.unwrap();
        assert!(indexed.is_empty());

        let signed_out = Instant::now();
        for desk in &fleet.desks {
            // Each has just asked, and knows for as long as it can that nobody has signed out.
            desk.shared.epochs.note(&user, 0, signed_out);
        }
        let out = fleet.desks[0]
            .sign_out_everywhere(&user, None, BUDGET)
            .await;
        assert_eq!(out.unwrap().ended, 0);

        // Each desk with sessions of its own: one that was refused anywhere is soon over for all.
        for (desk, sessions) in fleet.desks.iter().zip(sessions.chunks(334)) {
            for id in sessions {
                until("the session is refused", async || {
                    let begun = signed_out.elapsed();
                    match open(desk, id).await {
                        Visit::Gone(_) => Some(()),
                        // However busy the machine is: what counts is when a visit begins.
                        let_in => {
                            assert!(begun < Duration::from_secs(1), "{begun:?}: {let_in:?}");
                            None
                        }
                    }
                })
                .await;
            }
        }
        for desk in &fleet.desks {
            for id in &sessions {
                assert_eq!(open(desk, id).await, Visit::Gone(Gone::Destroyed));
            }
        }
        let refused: u64 = fleet
            .desks
            .iter()
            .map(|desk| desk.stats().epoch_refused)
            .sum();
        assert!(refused >= 1_000);
        // Who was turned away by the epoch has ended, and that is told.
        fleet.settle().await;
        assert_eq!(ends(&fleet).await.len(), 1_000);
    });
}

#[test]
fn the_session_that_is_spared_is_never_turned_away_meanwhile() {
    on_every_store(2, &plan(), async |fleet| {
        let [here, there] = &fleet.desks[..] else {
            unreachable!()
        };
        let user = uid("ann");
        let spared = sign_in(here, None, "ann").await.id;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut visits = tokio::task::JoinSet::new();
        for desk in [here, there, there] {
            let (desk, is_over) = (desk.clone(), is_over.clone());
            visits.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    see(&desk, &spared).await;
                }
            });
        }

        for _ in 0..100 {
            let out = here.sign_out_everywhere(&user, Some(&spared), BUDGET);
            out.await.unwrap();
        }

        is_over.store(true, Ordering::Relaxed);
        while let Some(visits) = visits.join_next().await {
            visits.unwrap();
        }
    });
}
