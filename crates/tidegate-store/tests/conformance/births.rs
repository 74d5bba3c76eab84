//! How sessions begin, and how they are read.

use std::time::Duration;

use tidegate_core::session::{
    Created, Fields, Format, Gone, Lifetimes, Opened, Patched, Rotation, Value, Version,
};
use tidegate_lab::patience::until;
use tidegate_store::{NewSession, Reason};

use crate::Rule;
use crate::world::{CALL, LONG, World, applied, attribute, counter, name, principal, set, text};

pub(crate) fn rules(world: &World) -> Vec<(&'static str, Rule)> {
    let world = || world.clone();
    vec![
        (
            "is_what_it_was_created_as",
            Box::pin(is_what_it_was_created_as(world())),
        ),
        (
            "an_id_is_given_once",
            Box::pin(an_id_is_given_once(world())),
        ),
        (
            "an_id_whose_time_is_over_begins_anew",
            Box::pin(an_id_whose_time_is_over_begins_anew(world())),
        ),
        (
            "who_knows_it_gets_no_content",
            Box::pin(who_knows_it_gets_no_content(world())),
        ),
        (
            "only_the_fields_wanted_come",
            Box::pin(only_the_fields_wanted_come(world())),
        ),
        (
            "bytes_of_any_format_stay_as_they_are",
            Box::pin(bytes_of_any_format_stay_as_they_are(world())),
        ),
        (
            "what_never_was_is_missing",
            Box::pin(what_never_was_is_missing(world())),
        ),
    ]
}

async fn is_what_it_was_created_as(world: World) {
    let owner = principal(&world.user(), 7);
    let new = NewSession {
        id: world.id(),
        lifetimes: LONG,
        principal: Some(owner.clone()),
        attributes: vec![
            (name("cart"), text("apple")),
            (name("visits"), text("an attribute under a counter's name")),
            (name("cart"), text("pear")),
        ],
        counters: vec![(name("visits"), -3)],
    };

    let created = world.store.create(&new, CALL).await.unwrap().reply;

    let Created::Created { now, head } = created else {
        panic!("{created:?}");
    };
    assert_eq!(head.version, Version(now.as_micros()));
    assert_eq!(head.created, head.last_used);
    assert!(now.since(head.created) < Duration::from_millis(1));
    assert_eq!(head.deadline.since(head.created), LONG.idle);
    assert_eq!(head.absolute.since(head.created), LONG.absolute);
    assert_eq!((head.idle, &head.principal), (LONG.idle, &Some(owner)));
    let (read, found) = world.all_of(&new.id).await;
    assert_eq!(read, head);
    assert_eq!(found.attributes.len(), 1);
    let cart = attribute(&found, "cart").unwrap();
    assert_eq!((cart.version, &cart.value), (head.version, &text("pear")));
    assert_eq!(found.counters, [(name("visits"), -3)]);
    assert_eq!(head.bytes, 4 + 4 + 16 + 6 + 20);
}

async fn an_id_is_given_once(world: World) {
    let alive = world.session(LONG).await;
    let dead = world.session(LONG).await;
    let ended = world
        .store
        .destroy(&dead, Reason::SignedOut, LONG.idle, CALL);
    ended.await.unwrap();

    for id in [alive, dead] {
        let again = NewSession {
            id,
            lifetimes: LONG,
            principal: None,
            attributes: vec![(name("cart"), text("planted"))],
            counters: Vec::new(),
        };
        let created = world.store.create(&again, CALL).await.unwrap().reply;
        assert_eq!(created, Created::Taken);
    }

    assert!(world.all_of(&alive).await.1.attributes.is_empty());
    assert_eq!(world.gone(&dead).await, Gone::Destroyed);
}

async fn an_id_whose_time_is_over_begins_anew(world: World) {
    let brief = Lifetimes {
        idle: Duration::from_millis(50),
        ..LONG
    };
    let id = world.session_with(brief, None, &[("note", "old")]).await;
    until("its time to be over", async || {
        let opened = world.open(&id).await;
        matches!(opened, Opened::Gone(_)).then_some(())
    })
    .await;

    let new = NewSession {
        id,
        lifetimes: LONG,
        principal: None,
        attributes: vec![(name("cart"), text("apple"))],
        counters: Vec::new(),
    };
    let created = world.store.create(&new, CALL).await.unwrap().reply;

    assert!(matches!(created, Created::Created { .. }), "{created:?}");
    let found = world.all_of(&id).await.1;
    assert_eq!(found.attributes.len(), 1);
    assert_eq!(found.attributes[0].0, name("cart"));
}

async fn who_knows_it_gets_no_content(world: World) {
    let id = world.session_with(LONG, None, &[("cart", "apple")]).await;
    let (head, _) = world.all_of(&id).await;
    let open = |known| world.store.open(&id, known, &Fields::All, None, CALL);

    let Opened::Unchanged { deadline, .. } = open(head.version).await.unwrap() else {
        panic!("it is known");
    };
    assert_eq!(deadline, head.deadline);
    applied(&world.patch(&id, &[set("cart", "pear")], None).await);
    let opened = open(head.version).await.unwrap();
    assert!(matches!(opened, Opened::Found { .. }), "{opened:?}");
}

async fn only_the_fields_wanted_come(world: World) {
    let attributes = [("cart", "apple"), ("locale", "de"), ("page", "/")];
    let owner = principal(&world.user(), 1);
    let id = world.session_with(LONG, Some(owner), &attributes).await;
    let more = [
        crate::world::add("visits", 4),
        crate::world::add("other", 5),
    ];
    applied(&world.patch(&id, &more, None).await);
    let (all, _) = world.all_of(&id).await;
    let open = async |names: &[&str]| {
        let fields = Fields::Only(names.iter().map(|wanted| name(wanted)).collect());
        let opened = world.store.open(&id, Version::NONE, &fields, None, CALL);
        match opened.await.unwrap() {
            Opened::Found { head, found, .. } => (head, found),
            other => panic!("{other:?}"),
        }
    };

    let (head, found) = open(&["locale", "visits", "nothing"]).await;
    assert_eq!(head, all);
    assert_eq!(found.attributes.len(), 1);
    assert_eq!(attribute(&found, "locale").unwrap().value, text("de"));
    assert_eq!(counter(&found, "visits"), Some(4));
    assert_eq!(found.counters.len(), 1);

    let (head, found) = open(&[]).await;
    assert_eq!(head, all);
    assert!(found.attributes.is_empty() && found.counters.is_empty());
}

async fn bytes_of_any_format_stay_as_they_are(world: World) {
    let id = world.session(LONG).await;
    let next = world.id_on(id.tag());
    let odd = Value {
        format: Format::Other(b'Q'),
        bytes: (0..=255).collect(),
    };
    let put = tidegate_core::session::Op::Set {
        name: name("odd"),
        value: odd.clone(),
        expect: tidegate_core::session::Expect::Absent,
    };

    let version = applied(&world.patch(&id, &[put], None).await);
    applied(&world.patch(&id, &[set("cart", "apple")], None).await);
    let habit = Rotation::Habit {
        successor: vec![0, 1, 255],
        tombstone: LONG.idle,
    };
    world.store.rotate(&id, &next, &habit, CALL).await.unwrap();

    let (_, found) = world.all_of(&next).await;
    let kept = attribute(&found, "odd").unwrap();
    assert_eq!((kept.version, &kept.value), (version, &odd));
}

async fn what_never_was_is_missing(world: World) {
    let id = world.id();
    assert_eq!(world.gone(&id).await, Gone::Missing);
    let patched = world.patch(&id, &[set("cart", "apple")], None).await;
    assert_eq!(patched, Patched::Gone(Gone::Missing));
    assert_eq!(world.gone(&id).await, Gone::Missing);
}
