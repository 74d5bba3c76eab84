//! How the ends of sessions are noticed and told.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use tidegate_core::session::{Rotation, SessionId, SlotTag};
use tidegate_core::time::Wall;
use tidegate_lab::patience::until;
use tidegate_store::{Claimed, Consumer, Ended, Event, Fate, Position, Reason, bucket_of};

use crate::Rule;
use crate::world::{CALL, LONG, World, name, principal};

/// More than rules ever tell.
const KEPT: u32 = 100_000;
const LEASE: Duration = Duration::from_millis(400);

/// Tags whose buckets each rule has for itself.
const CLAIMED: u32 = 1;
const REARMED: u32 = 2;

pub(crate) fn rules(world: &World) -> Vec<(&'static str, Rule)> {
    let world = || world.clone();
    vec![
        (
            "what_is_due_goes_to_one_holder",
            Box::pin(what_is_due_goes_to_one_holder(world())),
        ),
        (
            "an_entry_that_was_told_is_not_moved",
            Box::pin(an_entry_that_was_told_is_not_moved(world())),
        ),
        (
            "an_end_has_its_reason",
            Box::pin(an_end_has_its_reason(world())),
        ),
        (
            "a_group_sees_each_end_once",
            Box::pin(a_group_sees_each_end_once(world())),
        ),
        (
            "what_a_dead_member_left_goes_to_another",
            Box::pin(what_a_dead_member_left_goes_to_another(world())),
        ),
        (
            "a_reader_goes_on_where_it_was",
            Box::pin(a_reader_goes_on_where_it_was(world())),
        ),
    ]
}

fn ended(session: SessionId, reason: Reason) -> Ended {
    Ended {
        session,
        uid: None,
        reason,
    }
}

fn consumer(group: &str, member: &str) -> Consumer {
    Consumer {
        group: name(group),
        member: name(member),
    }
}

async fn what_is_due_goes_to_one_holder(world: World) {
    let tag = SlotTag::from_bits(CLAIMED);
    let bucket = bucket_of(tag);
    let now = world.now().await;
    let ahead = Wall::from_micros(now.as_micros() + 600_000_000);
    let late = Wall::from_micros(now.as_micros() - 5_000_000);
    let (due, later, not_due) = (world.id_on(tag), world.id_on(tag), world.id_on(tag));
    world.store.arm(&not_due, ahead, CALL).await.unwrap();
    world.store.arm(&later, now, CALL).await.unwrap();
    world.store.arm(&due, late, CALL).await.unwrap();
    let ours = [due, later, not_due];
    let claim = async |holder, most| {
        let claimed = world.store.claim(bucket, holder, most, LEASE, CALL);
        let mut claimed = claimed.await.unwrap();
        if let Claimed::Held { due, .. } = &mut claimed {
            // Other rules have sessions in this bucket too.
            due.retain(|due| ours.contains(&due.session));
        }
        claimed
    };

    let Claimed::Held {
        now: clock,
        due: first,
    } = claim(1, 1_000).await
    else {
        panic!("nobody had it");
    };
    assert!(clock >= now);
    let sessions: Vec<_> = first.iter().map(|due| due.session).collect();
    assert_eq!(sessions, [due, later]);
    assert_eq!(
        first[0].deadline,
        Wall::from_micros(late.as_micros() / 1_000 * 1_000)
    );
    let Claimed::Taken { left } = claim(2, 1_000).await else {
        panic!("somebody has it");
    };
    assert!(left <= LEASE);
    // Whoever has it may go on, and one that dies leaves it to another with all that is not done.
    let Claimed::Held { due: again, .. } = claim(1, 1).await else {
        panic!("it is ours");
    };
    assert_eq!(again, first[..1]);
    assert!(
        world
            .store
            .finish(&ended(due, Reason::Expired), KEPT, CALL)
            .await
            .unwrap()
    );
    let rest = until("the lease is over", async || match claim(2, 1_000).await {
        Claimed::Held { due, .. } => Some(due),
        Claimed::Taken { .. } => None,
    });
    assert_eq!(rest.await, first[1..]);
    world.store.disarm(&later, CALL).await.unwrap();
    world.store.disarm(&not_due, CALL).await.unwrap();
}

async fn an_entry_that_was_told_is_not_moved(world: World) {
    let tag = SlotTag::from_bits(REARMED);
    let (old, new) = (world.id_on(tag), world.id_on(tag));
    let now = world.now().await;
    let rearm = async |from: &SessionId, to: &SessionId| {
        world.store.rearm(from, to, now, CALL).await.unwrap()
    };
    let finish = async |session| {
        let end = ended(session, Reason::SignedOut);
        world.store.finish(&end, KEPT, CALL).await.unwrap()
    };

    world.store.arm(&old, now, CALL).await.unwrap();
    assert!(rearm(&old, &old).await);
    assert!(rearm(&old, &new).await);
    assert!(!rearm(&old, &new).await);
    assert!(!finish(old).await);
    assert!(finish(new).await);

    assert!(!finish(new).await);
    assert!(!rearm(&new, &new).await);
    assert!(!finish(new).await);
}

async fn an_end_has_its_reason(world: World) {
    let uid = world.user();
    let fate = async |id: &SessionId| world.store.fate(id, CALL).await.unwrap();
    let signed_in = || world.session_with(LONG, Some(principal(&uid, 0)), &[]);

    let id = signed_in().await;
    let deadline = world.all_of(&id).await.0.deadline;
    assert_eq!(fate(&id).await, Fate::Lives { deadline });
    for reason in [
        Reason::SignedOut,
        Reason::SignedOutEverywhere,
        Reason::Destroyed,
    ] {
        let id = signed_in().await;
        let destroyed = world
            .store
            .destroy(&id, reason, LONG.idle, CALL)
            .await
            .unwrap()
            .reply;
        assert_eq!(destroyed.principal, Some(principal(&uid, 0)));
        // A second ending does not change why it ended.
        world
            .store
            .destroy(&id, Reason::Destroyed, LONG.idle, CALL)
            .await
            .unwrap();
        assert_eq!(
            fate(&id).await,
            Fate::Ended {
                uid: Some(uid.clone()),
                reason
            }
        );
    }
    let old = signed_in().await;
    let new = world.id_on(old.tag());
    let habit = Rotation::Habit {
        successor: Vec::new(),
        tombstone: Duration::ZERO,
    };
    world.store.rotate(&old, &new, &habit, CALL).await.unwrap();
    assert_eq!(fate(&old).await, Fate::Moved { to: new });
    assert_eq!(fate(&world.id()).await, Fate::Missing);
}

/// Tells the ends of `count` sessions.
async fn tell(world: &World, count: usize) -> HashSet<SessionId> {
    let now = world.now().await;
    let mut told = HashSet::new();
    for _ in 0..count {
        let id = world.id();
        world.store.arm(&id, now, CALL).await.unwrap();
        let end = Ended {
            session: id,
            uid: Some(world.user()),
            reason: Reason::Destroyed,
        };
        assert!(world.store.finish(&end, KEPT, CALL).await.unwrap());
        told.insert(id);
    }
    told
}

fn those(events: &[Event], told: &HashSet<SessionId>) -> Vec<SessionId> {
    let sessions = events.iter().map(|event| event.ended.session);
    sessions.filter(|session| told.contains(session)).collect()
}

async fn a_group_sees_each_end_once(world: World) {
    let mut told = tell(&world, 150).await;
    let members = [consumer("once", "a"), consumer("once", "b")];
    let mut seen = Vec::new();
    let mut ids = BTreeSet::new();

    for round in 0..2 {
        if round == 1 {
            told.extend(tell(&world, 50).await);
        }
        until("every end is seen", async || {
            for member in &members {
                let events = world
                    .store
                    .events(member, 128, PATIENT, CALL)
                    .await
                    .unwrap();
                assert!(events.len() <= 128);
                seen.extend(those(&events, &told));
                let delivered: Vec<_> = events.iter().map(|event| event.id).collect();
                for id in &delivered {
                    assert!(ids.insert(*id), "{id} came twice");
                }
                let open = world.store.acknowledge(&member.group, &delivered, CALL);
                assert_eq!(open.await.unwrap() as usize, delivered.len());
                let again = world.store.acknowledge(&member.group, &delivered, CALL);
                assert_eq!(again.await.unwrap(), 0);
            }
            (seen.len() >= told.len()).then_some(())
        })
        .await;
    }

    assert_eq!(seen.len(), told.len());
    assert_eq!(seen.iter().collect::<HashSet<_>>().len(), told.len());
    // Another group sees all of it.
    let other = consumer("once-more", "a");
    let mut seen = HashSet::new();
    until("every end is seen", async || {
        let events = world
            .store
            .events(&other, 1_000, PATIENT, CALL)
            .await
            .unwrap();
        seen.extend(those(&events, &told));
        (seen.len() == told.len()).then_some(())
    })
    .await;
}

/// Longer than the rules take.
const PATIENT: Duration = Duration::from_secs(3_600);

async fn what_a_dead_member_left_goes_to_another(world: World) {
    let told = tell(&world, 5).await;
    let (dead, heir) = (consumer("heirs", "dead"), consumer("heirs", "heir"));
    let mut left = HashSet::new();
    until("the first one has them", async || {
        let events = world
            .store
            .events(&dead, 1_000, PATIENT, CALL)
            .await
            .unwrap();
        left.extend(those(&events, &told));
        (left.len() == told.len()).then_some(())
    })
    .await;
    let events = world
        .store
        .events(&heir, 1_000, PATIENT, CALL)
        .await
        .unwrap();
    assert!(those(&events, &told).is_empty());

    let mut inherited = Vec::new();
    until("the heir has them", async || {
        let after = Duration::from_millis(20);
        let events = world.store.events(&heir, 1_000, after, CALL).await.unwrap();
        let (ids, reasons): (Vec<_>, HashSet<_>) = events
            .iter()
            .map(|event| (event.id, event.ended.reason))
            .unzip();
        inherited.extend(those(&events, &told));
        world
            .store
            .acknowledge(&heir.group, &ids, CALL)
            .await
            .unwrap();
        assert!(reasons.is_subset(&Reason::ALL.into()));
        (inherited.len() >= told.len()).then_some(())
    })
    .await;

    assert_eq!(inherited.into_iter().collect::<HashSet<_>>(), told);
}

async fn a_reader_goes_on_where_it_was(world: World) {
    let told = tell(&world, 80).await;
    let (mut position, mut seen) = (Position::default(), Vec::new());

    until("every end is read", async || {
        let read = world.store.events_after(&position, 64, CALL);
        let (events, behind) = read.await.unwrap();
        seen.extend(those(&events, &told));
        position = Position::parse(&behind.to_string()).unwrap();
        (seen.len() >= told.len()).then_some(())
    })
    .await;

    assert_eq!(seen.len(), told.len());
    let (events, _) = world.store.events_after(&position, 64, CALL).await.unwrap();
    assert!(those(&events, &told).is_empty());
}
