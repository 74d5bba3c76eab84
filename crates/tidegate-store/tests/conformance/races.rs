//! Many writers at once.

use tidegate_core::session::{Expect, Patched, Version};
use tokio::task::JoinSet;

use crate::Rule;
use crate::world::{LONG, World, add, applied, attribute, counter, seq, set, set_if};

const WRITERS: u64 = 16;
const WRITES: u64 = 50;

pub(crate) fn rules(world: &World) -> Vec<(&'static str, Rule)> {
    let world = || world.clone();
    vec![
        (
            "writers_of_different_fields_never_meet",
            Box::pin(writers_of_different_fields_never_meet(world())),
        ),
        (
            "increments_of_one_field_are_exact",
            Box::pin(increments_of_one_field_are_exact(world())),
        ),
        (
            "a_field_written_on_condition_loses_nothing",
            Box::pin(a_field_written_on_condition_loses_nothing(world())),
        ),
    ]
}

async fn writers_of_different_fields_never_meet(world: World) {
    let id = world.session(LONG).await;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let world = world.clone();
        writers.spawn_local(async move {
            let field = format!("field{writer}");
            let mut expect = Expect::Absent;
            for number in 1..=WRITES {
                let op = set_if(&field, &number.to_string(), expect);
                let patched = world.patch(&id, &[op], Some(seq(writer, number))).await;
                expect = Expect::At(applied(&patched));
            }
        });
    }
    // A second attempt anywhere would have been a panic.
    writers.join_all().await;

    let (_, found) = world.all_of(&id).await;
    for writer in 0..WRITERS {
        let last = attribute(&found, &format!("field{writer}")).unwrap();
        assert_eq!(last.value.bytes, WRITES.to_string().into_bytes());
    }
}

async fn increments_of_one_field_are_exact(world: World) {
    let id = world.session(LONG).await;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let world = world.clone();
        writers.spawn_local(async move {
            for number in 1..=WRITES {
                let patch = async || {
                    world
                        .patch(&id, &[add("n", 3)], Some(seq(writer, number)))
                        .await
                };
                applied(&patch().await);
                // As if the first answer had been lost.
                if number % 5 == 0 {
                    let again = patch().await;
                    assert!(matches!(again, Patched::AlreadyApplied { .. }), "{again:?}");
                }
            }
        });
    }
    writers.join_all().await;

    let (_, found) = world.all_of(&id).await;
    assert_eq!(counter(&found, "n"), Some((WRITERS * WRITES * 3) as i64));
}

async fn a_field_written_on_condition_loses_nothing(world: World) {
    let id = world.session(LONG).await;
    applied(&world.patch(&id, &[set("sum", "0")], None).await);
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let world = world.clone();
        writers.spawn_local(async move {
            let (mut known, mut sum) = (Version(1), 0_u64);
            for _ in 0..WRITES / 5 {
                loop {
                    let op = set_if("sum", &(sum + 1).to_string(), Expect::At(known));
                    match world.patch(&id, &[op], None).await {
                        Patched::Applied { version, .. } => {
                            (known, sum) = (version, sum + 1);
                            break;
                        }
                        // The answer has what is there: no second read.
                        Patched::Conflict { current, .. } => {
                            let there = current[0].1.as_ref().unwrap();
                            known = there.version;
                            sum = std::str::from_utf8(&there.value.bytes)
                                .unwrap()
                                .parse()
                                .unwrap();
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        });
    }
    writers.join_all().await;

    let (_, found) = world.all_of(&id).await;
    let sum = &attribute(&found, "sum").unwrap().value.bytes;
    assert_eq!(*sum, (WRITERS * (WRITES / 5)).to_string().into_bytes());
}
