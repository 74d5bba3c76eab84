use super::*;

const SECOND: u64 = 1_000_000;

fn hundred() -> BucketSpec {
    BucketSpec::new(100, SECOND, 100).unwrap()
}

fn plan() -> AggregatePlan {
    AggregatePlan {
        jitter_milli: 0,
        early: false,
        ..AggregatePlan::usual(100)
    }
}

fn reporter(life: u64) -> Reporter {
    Reporter::new(hundred(), plan(), Life(life), Tick(0))
}

fn tally() -> Tally {
    Tally::new(hundred(), &plan(), Tick(0))
}

/// Reports and is answered at once.
fn flush(reporter: &mut Reporter, tally: &mut Tally, now: u64) -> Report {
    let report = reporter.report(Tick(now), &mut Rng::new(1)).unwrap();
    let told = tally.report(Tick(now), &report);
    reporter.told(Tick(now), &told);
    report
}

#[test]
fn a_node_knows_what_it_spent_itself_and_hears_of_the_others() {
    let (mut one, mut two, mut tally) = (reporter(1), reporter(2), tally());
    one.take(Tick(0), 40);
    two.take(Tick(0), 30);
    assert_eq!((one.remaining(Tick(0)), two.remaining(Tick(0))), (60, 70));

    flush(&mut one, &mut tally, 0);
    flush(&mut two, &mut tally, 0);

    assert_eq!((one.remaining(Tick(0)), two.remaining(Tick(0))), (60, 30));
    one.take(Tick(100_000), 1);
    flush(&mut one, &mut tally, 100_000);
    assert_eq!(one.remaining(Tick(100_000)), 39);
}

#[test]
fn what_was_used_beyond_what_was_taken_is_owed_and_reported() {
    let (mut one, mut tally) = (reporter(1), tally());
    assert_eq!(one.take(Tick(0), 40), Verdict::Passed);

    one.charge(Tick(0), 90);

    assert_eq!(one.take(Tick(0), 1), Verdict::Short { wait_us: 310_000 });
    assert_eq!(flush(&mut one, &mut tally, 0).spent, 130);
    assert_eq!(one.take(Tick(0), 1), Verdict::Short { wait_us: 310_000 });
}

#[test]
fn what_was_spent_while_a_report_was_on_its_way_is_not_forgotten() {
    let (mut one, mut tally) = (reporter(1), tally());
    one.take(Tick(0), 40);
    let report = one.report(Tick(0), &mut Rng::new(1)).unwrap();
    one.take(Tick(0), 5);

    let told = tally.report(Tick(0), &report);
    one.told(Tick(0), &told);

    assert_eq!(one.remaining(Tick(0)), 55);
    assert_eq!(flush(&mut one, &mut tally, 100_000).spent, 5);
}

#[test]
fn a_report_counts_once_however_often_it_comes() {
    let (mut one, mut tally) = (reporter(1), tally());
    one.take(Tick(0), 40);
    let report = one.report(Tick(0), &mut Rng::new(1)).unwrap();
    tally.report(Tick(0), &report);

    one.lost(report.seq);
    assert_eq!(one.report(Tick(1), &mut Rng::new(1)), Some(report));
    let told = tally.report(Tick(1), &report);
    one.told(Tick(1), &told);
    one.told(Tick(1), &told);

    assert_eq!(one.remaining(Tick(1)), 60);
}

#[test]
fn what_passed_beyond_the_limit_is_owed_to_the_last_token() {
    let mut tally = tally();
    for life in 1..=5 {
        let mut node = reporter(life);
        assert_eq!(node.take(Tick(0), 100), Verdict::Passed);
        flush(&mut node, &mut tally, 0);
    }

    // 500 of 100 were spent, so in four seconds the bucket is at nothing.
    let mut node = reporter(9);
    node.take(Tick(0), 0);
    flush(&mut node, &mut tally, 0);
    assert_eq!(node.take(Tick(0), 1), Verdict::Short { wait_us: 4_010_000 });
    assert_eq!(node.remaining(Tick(4_010_000)), 1);
}

#[test]
fn no_more_is_left_unreported_than_may_be() {
    let plan = AggregatePlan {
        unreported_max: 10,
        ..plan()
    };
    let mut one = Reporter::new(hundred(), plan, Life(1), Tick(0));
    let mut tally = tally();
    assert_eq!(one.take(Tick(0), 11), Verdict::Never);
    assert_eq!(one.take(Tick(0), 10), Verdict::Passed);
    let report = one.report(Tick(0), &mut Rng::new(1)).unwrap();

    assert_eq!(one.take(Tick(1), 1), Verdict::Short { wait_us: 99_999 });
    one.lost(report.seq);
    assert_eq!(one.take(Tick(1), 1), Verdict::Lost);

    let told = tally.report(Tick(1), &report);
    one.told(Tick(2), &told);
    assert_eq!(one.take(Tick(2), 1), Verdict::Passed);
}

#[test]
fn a_store_that_does_not_answer_counts_as_lost_after_a_while() {
    let mut one = reporter(1);
    one.take(Tick(0), 1);
    let report = one.report(Tick(0), &mut Rng::new(1)).unwrap();
    one.lost(report.seq);

    assert_eq!(one.take(Tick(SECOND - 1), 1), Verdict::Passed);
    assert_eq!(one.take(Tick(SECOND), 1), Verdict::Lost);
}

#[test]
fn a_report_that_is_sent_once_more_is_no_answer_and_lets_nothing_pass() {
    let mut one = Reporter::new(hundred(), plan(), Life(1), Tick(0));
    let mut rng = Rng::new(1);
    one.take(Tick(0), 99);
    let report = one.report(Tick(0), &mut rng).unwrap();
    one.lost(report.seq);

    assert_eq!(one.report(Tick(1), &mut rng), Some(report));
    assert_eq!(one.take(Tick(1), 2), Verdict::Lost, "a burst is unreported");
    assert_eq!(one.take(Tick(SECOND), 1), Verdict::Lost, "it is silent");
    assert_eq!(one.report(Tick(SECOND), &mut rng), None, "it is on its way");
    one.lost(report.seq);
    assert_eq!(one.report(Tick(SECOND), &mut rng), Some(report));
    assert_eq!(one.take(Tick(SECOND), 1), Verdict::Lost);
}

#[test]
fn whoever_is_in_a_hurry_has_a_report_at_once_and_one_at_a_time() {
    let (mut one, mut tally) = (reporter(1), tally());
    let mut rng = Rng::new(1);
    one.take(Tick(0), 1);
    flush(&mut one, &mut tally, 0);
    assert_eq!(one.report(Tick(1), &mut rng), None);

    one.hurry(Tick(1));

    let report = one.report(Tick(1), &mut rng).unwrap();
    assert_eq!((report.seq, report.spent), (2, 0));
    one.hurry(Tick(2));
    assert_eq!(one.report(Tick(2), &mut rng), None);
}

#[test]
fn reports_come_at_their_time_and_not_when_there_is_nothing_to_tell() {
    let (mut one, mut tally) = (reporter(1), tally());
    let mut rng = Rng::new(1);
    assert_eq!(one.report(Tick(0), &mut rng), None);
    one.take(Tick(0), 1);
    flush(&mut one, &mut tally, 0);

    one.take(Tick(50_000), 1);
    assert_eq!(one.report(Tick(99_999), &mut rng), None);
    assert_eq!(one.due_at(), Some(Tick(100_000)));
    flush(&mut one, &mut tally, 100_000);

    assert_eq!(one.report(Tick(SECOND), &mut rng), None);
    assert_eq!(one.due_at(), None);
}

#[test]
fn what_is_given_back_is_reported_as_well() {
    let (mut one, mut tally) = (reporter(1), tally());
    one.take(Tick(0), 40);
    flush(&mut one, &mut tally, 0);

    one.give_back(Tick(1), 40);
    assert_eq!(one.remaining(Tick(1)), 100);
    let report = flush(&mut one, &mut tally, 100_000);

    assert_eq!((report.spent, report.returned), (0, 40));
    assert_eq!(one.remaining(Tick(100_000)), 100);
}

#[test]
fn what_is_given_back_before_it_was_reported_leaves_nothing_to_report() {
    let plan = AggregatePlan {
        unreported_max: 10,
        ..plan()
    };
    let mut one = Reporter::new(hundred(), plan, Life(1), Tick(0));
    assert!(one.report(Tick(0), &mut Rng::new(1)).is_none());

    for _ in 0..100 {
        assert_eq!(one.take(Tick(1), 10), Verdict::Passed);
        one.give_back(Tick(1), 10);
    }

    assert_eq!(one.unreported(), 0);
    assert_eq!(one.due_at(), None);
    assert_eq!(one.remaining(Tick(1)), 100);
}

#[test]
fn a_node_that_nears_the_end_reports_early_and_once() {
    let plan = AggregatePlan {
        early: true,
        unreported_max: 1_000,
        ..plan()
    };
    let (mut one, mut tally) = (Reporter::new(hundred(), plan, Life(1), Tick(0)), tally());
    let mut rng = Rng::new(1);
    one.take(Tick(0), 1);
    flush(&mut one, &mut tally, 0);

    one.take(Tick(20_000), 70);
    assert_eq!(one.report(Tick(20_000), &mut rng), None);
    one.take(Tick(20_000), 15);
    flush(&mut one, &mut tally, 20_000);
    one.take(Tick(60_000), 1);

    assert_eq!(one.report(Tick(60_000), &mut rng), None);
}

#[test]
fn the_bound_is_the_smaller_of_what_is_asked_for_and_what_may_be_unreported() {
    let plan = plan();

    // Nine tenths of a thousand a second, for twice 100 ms and 10 ms.
    assert_eq!(plan.overshoot(10, 1_000, 10_000), 189);
    // Nine nodes with a hundred unreported each, and what is reported in 110 ms.
    assert_eq!(plan.overshoot(10, 1_000_000, 10_000), 2_700);
    assert_eq!(plan.overshoot(1, 1_000, 10_000), 0);
    assert_eq!(worst_in(&hundred(), 189, SECOND), 199 + 189);
}
