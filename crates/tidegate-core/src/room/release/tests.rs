use super::*;
use crate::rng::Rng;

fn bounds() -> Bounds {
    Bounds {
        rate_max: 1_000.0,
        rate_min: 0.5,
        fill: Duration::from_secs(30),
        active_max: None,
    }
}

fn at(tick: u64) -> Mono {
    Mono::from_millis(250 * tick)
}

fn look(spare: Option<f64>) -> Look {
    Look {
        spare_rps: spare,
        ..Look::default()
    }
}

#[test]
fn with_the_same_to_spare_twice_the_load_halves_the_rate() {
    let mut release = Release::new(bounds(), Load::new(1.0));
    let mut tick = 0;
    let mut rate = |seconds: u64, each: f64| {
        let mut rate = 0.0;
        for _ in 0..4 * seconds {
            tick += 1;
            let look = Look {
                spare_rps: Some(600.0),
                admitted_rps: 100.0 * each,
                active: 100,
                ..Look::default()
            };
            rate = release.tick(at(tick), &look).rate;
        }
        rate
    };
    let before = rate(60, 1.0);

    let after = rate(30, 2.0);

    let ratio = after / before;
    assert!((0.5..=0.51).contains(&ratio), "{ratio}");
}

#[test]
fn those_who_do_not_come_are_made_up_for_and_never_more_than_planned_come_in() {
    for comes in [1.0, 0.8, 0.6] {
        let mut release = Release::new(
            Bounds {
                rate_max: 40.0,
                ..bounds()
            },
            Load::new(0.5),
        );
        let mut rng = Rng::new(4);
        let (mut claimed, mut returned) = (0, 0);
        let mut called: Vec<(u64, bool)> = Vec::new();
        let mut history = vec![0];
        for tick in 1..=4 * 1_200 {
            called.retain(|&(until, will)| {
                let came = will && rng.unit() < 0.2;
                let missed = !will && tick > until;
                claimed += u64::from(came);
                returned += u64::from(missed);
                !came && !missed
            });
            let plan = release.tick(
                at(tick),
                &Look {
                    spare_rps: Some(1e9),
                    ready: called.len() as u64,
                    claimed,
                    returned,
                    ..Look::default()
                },
            );
            assert_eq!((plan.rate, plan.brake), (40.0, Brake::RateMax));
            for _ in 0..plan.count {
                called.push((tick + 120, rng.unit() < comes));
            }
            history.push(claimed);
        }
        let late = (history[4_800] - history[2_400]) as f64 / 600.0;
        println!("{comes}: {late:.2} a second of 40");
        assert!((38.0..=40.5).contains(&late), "{comes}: {late}");
        for minute in history[1_200..].windows(241) {
            let came = minute[240] - minute[0];
            assert!(
                came as f64 <= 60.0 * 40.0 * 1.1,
                "{comes}: {came} in a minute"
            );
        }
    }
}

#[test]
fn a_pause_saves_up_no_more_than_a_second() {
    let mut release = Release::new(bounds(), Load::new(1.0));
    release.tick(at(0), &look(Some(3_000.0)));

    let after = release.tick(at(4_000), &look(Some(3_000.0)));

    assert_eq!((after.count, after.rate), (100, 100.0));
}

#[test]
fn slow_rates_let_somebody_in_every_now_and_then() {
    let mut release = Release::new(bounds(), Load::new(1.0));
    let mut called = 0;
    for tick in 0..4 * 100 {
        let look = Look {
            claimed: called,
            ..look(Some(6.0))
        };
        called += release.tick(at(tick), &look).count;
    }

    assert!((19..=21).contains(&called), "{called} in 100 s at 0.2/s");
}

#[test]
fn while_nothing_is_heard_of_the_fleet_it_goes_on_at_half_and_then_at_the_least() {
    let mut release = Release::new(bounds(), Load::new(1.0));
    let first = release.tick(at(0), &look(Some(3_000.0)));
    assert_eq!(first.rate, 100.0);

    let rates: Vec<_> = [8, 12, 131, 132]
        .map(|tick| release.tick(at(tick), &look(None)))
        .map(|plan| (plan.rate, plan.brake))
        .into();

    let expected = [
        (100.0, Brake::Spare),
        (50.0, Brake::Unheard),
        (50.0, Brake::Unheard),
        (0.5, Brake::Lost),
    ];
    assert_eq!(rates, expected);
}

#[test]
fn who_was_called_holds_a_place_inside() {
    let mut release = Release::new(
        Bounds {
            active_max: Some(100),
            ..bounds()
        },
        Load::new(1.0),
    );
    release.tick(at(0), &look(Some(3_000.0)));
    let inside = Look {
        active: 60,
        ready: 35,
        ..look(Some(30_000.0))
    };

    let plan = release.tick(at(4), &inside);

    assert_eq!((plan.count, plan.brake), (5, Brake::ActiveMax));
}

#[test]
fn a_store_that_counts_anew_sets_nobody_free() {
    let mut release = Release::new(bounds(), Load::new(1.0));
    let claimed = |claimed| Look {
        claimed,
        ..look(Some(3_000.0))
    };
    release.tick(at(0), &claimed(5_000));
    release.tick(at(1), &claimed(5_025));

    let plan = release.tick(at(2), &claimed(0));

    assert!(plan.count <= 25, "{plan:?}");
}
