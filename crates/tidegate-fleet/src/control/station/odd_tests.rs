//! A store that answers, but not what it should.

use super::*;
use crate::control::gauges;

#[tokio::test]
async fn one_entry_that_makes_no_sense_does_not_end_control() {
    let server = RedisServer::plain().unwrap();
    let (fleet, _background) = over(&server).await;
    let mut world = World::over(fleet, Arc::default(), 3);
    world.ticks(3).await;
    for (entry, value) in [
        ("two words", "1 1 9999999999999 {}"),
        ("huge", "1 1 99999999999999999999 no beacon"),
    ] {
        server
            .ask(&["HSET", "tg:hb:{fleet}", entry, value])
            .unwrap();
    }

    let standings = world.ticks(5).await;

    for standing in standings.iter().flatten() {
        assert_eq!(standing.source, Source::Control);
    }
    let leader = world.stations[world.leaders()[0]].as_ref().unwrap();
    assert_eq!(leader.odd(), 5, "one, in each of five seconds");
    assert_eq!(leader.odd_named.len(), 1);
    assert_eq!(leader.plane().unreadable(), 5);
    let gauges = gauges(leader, world.now);
    let unreadable = gauges
        .iter()
        .find(|it| it.name == "tidegate_fleet_unreadable_total");
    let counts: Vec<f64> = unreadable.unwrap().rows.iter().map(|row| row.1).collect();
    assert_eq!(counts, [5.0, 5.0]);
}

#[tokio::test]
async fn what_a_store_says_that_takes_nothing_is_told_once() {
    let mut station = World::new(1).stations.remove(0).unwrap();
    let oom = StoreError::Refused("OOM command not allowed".to_owned());

    station.note_refusal(&oom);
    station.note(Post::Away);
    assert_eq!(station.refusal.as_deref(), Some("OOM command not allowed"));
    // A timeout says nothing, so what was said before is still what is known.
    station.note_refusal(&StoreError::Timeout);
    assert_eq!(station.refusal.as_deref(), Some("OOM command not allowed"));
    station.note(Post::Heard);
    assert_eq!(station.refusal, None);
}
