use super::*;

const LIMIT: u32 = 100;
const USUAL: u64 = 50;

/// An application that finishes `LIMIT` requests every `USUAL` milliseconds, as a rule.
struct Run {
    escape: Escape,
    millis: u64,
    turns: Vec<Turn>,
}

impl Run {
    fn healthy() -> Self {
        let mut run = Self {
            escape: Escape::new(),
            millis: 0,
            turns: Vec::new(),
        };
        run.go(5000, USUAL, true);
        assert_eq!(run.turns, []);
        run
    }

    fn now(&self) -> Mono {
        Mono::from_millis(self.millis)
    }

    /// For `millis`, as many as may be inside are let in together and all take `took`.
    fn go(&mut self, millis: u64, took: u64, in_time: bool) {
        let end = self.millis + millis;
        while self.millis < end {
            let inside = LIMIT.min(self.escape.cap());
            let started = self.now();
            self.escape.asked(Class::Anonymous);
            self.escape.started(started, 1);
            self.escape.full();
            self.millis += took;
            for _ in 0..inside {
                self.finish(started, in_time, true);
            }
        }
    }

    fn finish(&mut self, started: Mono, in_time: bool, whole: bool) {
        let now = self.now();
        let work = Work {
            started,
            in_time,
            whole,
        };
        self.escape.finished(now, work);
        self.turns.extend(self.escape.review(now, LIMIT));
    }

    fn recovery(&self) -> Recovery {
        self.escape.recovery(self.now())
    }
}

#[test]
fn two_windows_of_work_that_comes_too_late_begin_an_escape_and_one_does_not() {
    let mut run = Run::healthy();

    run.go(1100, USUAL, false);
    run.go(1100, USUAL, true);
    assert_eq!(run.turns, []);
    run.go(2200, USUAL, false);

    assert_eq!(run.turns, [Turn::Begun]);
    assert_eq!(run.recovery().escaping, Some(Trigger::Waste));
    assert_eq!(run.recovery().begun, [1, 0]);
}

#[test]
fn overload_whose_work_is_in_time_never_begins_one() {
    let mut run = Run::healthy();

    run.go(600_000, 4 * USUAL, true);

    assert_eq!(run.turns, []);
    assert_eq!(run.escape.cap(), u32::MAX);
}

#[test]
fn work_that_is_late_while_slots_are_free_is_no_overload() {
    let mut run = Run::healthy();

    for _ in 0..1000 {
        let started = run.now();
        run.escape.started(started, 1);
        run.millis += USUAL;
        run.finish(started, false, true);
    }

    assert_eq!(run.turns, []);
}

#[test]
fn it_begins_below_the_last_good_limit_and_ends_after_three_good_windows() {
    let mut run = Run::healthy();
    run.go(2200, USUAL, false);
    assert!(run.escape.cap() <= 70, "{}", run.escape.cap());
    assert!(run.escape.keeps_out(Class::Static) && run.escape.keeps_out(Class::Background));
    assert!(!run.escape.keeps_out(Class::Anonymous));

    run.go(1000, USUAL, true);
    assert!(run.escape.cap() >= LIMIT, "{}", run.escape.cap());
    run.go(3100, USUAL, true);

    assert_eq!(run.turns, [Turn::Begun, Turn::Over]);
    assert_eq!(run.escape.cap(), u32::MAX);
    assert!(!run.escape.keeps_out(Class::Background));
    let lasted = run.recovery().lasted;
    assert!((3..6).contains(&lasted.as_secs()), "{lasted:?}");
}

#[test]
fn low_classes_that_are_alone_are_let_in() {
    let mut run = Run::healthy();
    run.escape.window.higher = [false; 2];
    for _ in 0..60 {
        let started = run.now();
        run.escape.asked(Class::Static);
        run.escape.full();
        run.millis += USUAL;
        (0..LIMIT).for_each(|_| run.finish(started, false, true));
    }

    assert!(run.escape.is_on());
    assert!(!run.escape.keeps_out(Class::Static));
}

#[test]
fn after_a_stall_one_bad_window_is_enough_and_what_it_held_up_does_not_count() {
    let mut run = Run::healthy();
    run.go(1500, 1500, false);
    run.go(1200, USUAL, true);
    assert_eq!(run.turns, [], "it recovered by itself");

    run.go(1500, 1500, false);
    run.go(1200, USUAL, false);

    assert_eq!(run.turns, [Turn::Begun]);
    assert_eq!(run.recovery().escaping, Some(Trigger::Stall));
}

#[test]
fn a_pause_of_half_a_second_is_no_stall() {
    let mut run = Run::healthy();

    for _ in 0..20 {
        run.go(500, 500, false);
        run.go(9500, USUAL, true);
    }

    assert_eq!(run.turns, []);
}

#[test]
fn a_queue_that_is_not_ours_is_drained_by_letting_in_one_at_a_time() {
    let mut run = Run::healthy();
    run.go(2200, USUAL, false);
    run.go(1000, 1000, false);
    run.go(1000, 1000, false);
    assert_eq!(run.escape.cap(), 1, "a cohort in which nothing was in time");

    let started = run.now();
    run.millis += 1000;
    run.finish(started, false, false);
    assert_eq!(run.escape.cap(), 1, "one that left early says nothing");
    let started = run.now();
    run.millis += USUAL;
    run.finish(started, true, true);

    assert!(run.escape.is_on());
    run.go(5000, USUAL, true);
    assert_eq!(run.turns, [Turn::Begun, Turn::Over]);
    assert_eq!(run.recovery().drains, 1);
}

#[test]
fn an_application_that_is_slow_alone_is_not_drained_for_long_nor_twice() {
    let mut run = Run::healthy();
    run.go(2200, USUAL, false);

    run.go(60_000, 1500, false);

    assert_eq!(run.turns, [Turn::Begun, Turn::Over]);
    assert_eq!(run.recovery().drains, 1);
    assert!(run.recovery().lasted < ESCAPE_MAX + Duration::from_secs(12));
    assert_eq!(
        run.escape.cap(),
        u32::MAX,
        "and is left in peace for a while"
    );
}

#[test]
fn what_an_escape_has_found_to_be_enough_is_kept_and_widened_slowly() {
    let mut run = Run::healthy();
    run.go(2200, 5 * USUAL, false);
    let begun = run.escape.cap();
    assert!(begun <= 24, "what 400/s takes in 50 ms: {begun}");

    while run.turns.len() < 2 {
        run.finish(run.now(), true, true);
        run.escape.full();
        run.millis += 20;
    }
    let kept = run.escape.cap();
    assert!(!run.escape.is_on() && kept < LIMIT, "{kept}");

    run.go(10_000, USUAL, true);
    assert!(kept < run.escape.cap() && run.escape.cap() <= 2 * kept);
    run.go(60_000, USUAL, true);
    assert_eq!(run.escape.cap(), u32::MAX, "it does not bind any more");
}

#[test]
fn work_that_takes_far_longer_than_usual_is_overload_though_slots_are_free() {
    let mut run = Run::healthy();

    for _ in 0..40 {
        let started = run.now();
        run.escape.started(started, 1);
        run.millis += 5 * USUAL;
        run.finish(started, false, true);
    }

    assert_eq!(run.turns, [Turn::Begun]);
}
