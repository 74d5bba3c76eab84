//! What the admission level is for: users are served as a whole or not at all.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::admission::{Action, Admission, Arrival, Config, Level, Ticket};
use tidegate_core::bulkhead::Bulkheads;
use tidegate_core::facts::{COHORTS, Class, Facts, GroupId, RouteId};
use tidegate_core::limit::{Ending, Kind};
use tidegate_core::queue::Discipline;
use tidegate_core::rng::Rng;
use tidegate_core::time::Mono;

const WORKERS: u32 = 100;
const SERVICE: Duration = Duration::from_millis(50);

/// Requests of a page, one after the other.
const REQUESTS: u32 = 6;

/// What WORKERS can do, in pages per second.
const PAGES_MAX: f64 = WORKERS as f64 * 20.0 / REQUESTS as f64;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Opens,
    Worked(u32),
}

/// A user's page, and how many of its requests were answered.
struct Page {
    cohort: u8,
    class: Class,
    answered: u32,
    ticket: Option<Ticket>,
}

#[derive(Debug, Default)]
struct Pages {
    whole: u32,
    half: u32,
    none: u32,
}

struct World {
    admission: Admission,
    rng: Rng,
    pages_per_second: f64,
    now: Mono,
    events: BinaryHeap<Reverse<(Mono, Event)>>,
    pages: Vec<Page>,
    waiting: HashMap<Ticket, u32>,
    out: Vec<Action>,
    seen: [Pages; Class::COUNT],
    levels: Vec<Level>,
}

impl World {
    fn new(level: bool, pages_per_second: f64) -> Self {
        let config = Config {
            hold: Duration::from_millis(200),
            queue_max: 10_000,
            queue_bytes_max: u64::MAX,
            discipline: Discipline::AdaptiveLifo,
            bulkheads: Bulkheads::default(),
            routes: 1,
            escape: true,
            level,
        };
        let limit = Kind::Static(NonZeroU32::new(WORKERS).expect("above 0"));
        let mut world = Self {
            admission: Admission::new(config, limit.build(1)),
            rng: Rng::new(7),
            pages_per_second,
            now: Mono::default(),
            events: BinaryHeap::new(),
            pages: Vec::new(),
            waiting: HashMap::new(),
            out: Vec::new(),
            seen: Default::default(),
            levels: Vec::new(),
        };
        world.at(Duration::ZERO, Event::Opens);
        world
    }

    fn at(&mut self, later: Duration, event: Event) {
        self.events.push(Reverse((self.now + later, event)));
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while let Some(&Reverse((when, event))) = self.events.peek() {
            let poll = self.admission.next_deadline().filter(|&at| at < when);
            self.now = poll.unwrap_or(when).max(self.now);
            if self.now >= end {
                break;
            }
            if poll.is_some() {
                self.admission.poll(self.now, &mut self.out);
                self.follow();
                continue;
            }
            self.events.pop();
            match event {
                Event::Opens => self.opens(),
                Event::Worked(page) => self.worked(page),
            }
        }
        self.now = end;
    }

    /// A user, one of many, opens a page; half of them have signed in.
    fn opens(&mut self) {
        let gap = -(1.0 - self.rng.unit()).ln() / self.pages_per_second;
        self.at(Duration::from_secs_f64(gap), Event::Opens);
        let user = self.rng.next_u64();
        self.pages.push(Page {
            cohort: (user % u64::from(COHORTS)) as u8,
            class: [Class::SignedIn, Class::Anonymous][(user >> 32) as usize % 2],
            answered: 0,
            ticket: None,
        });
        self.levels.push(self.admission.level());
        self.asks(self.pages.len() as u32 - 1);
    }

    fn asks(&mut self, page: u32) {
        let Page { cohort, class, .. } = self.pages[page as usize];
        let facts = Facts {
            class,
            route: RouteId(0),
            group: GroupId(0),
            deadline: self.now + Duration::from_secs(1),
            bytes: 0,
            cohort,
            retry: false,
        };
        let arrival = self.admission.arrive(self.now, &facts, &mut self.out);
        self.follow();
        match arrival {
            Arrival::Admitted(ticket) => self.starts(page, ticket),
            Arrival::Queued { ticket, .. } => {
                self.waiting.insert(ticket, page);
            }
            Arrival::Refused(_) => self.ends(page),
        }
    }

    fn starts(&mut self, page: u32, ticket: Ticket) {
        self.pages[page as usize].ticket = Some(ticket);
        self.at(SERVICE, Event::Worked(page));
    }

    fn worked(&mut self, page: u32) {
        let state = &mut self.pages[page as usize];
        state.answered += 1;
        let ticket = state.ticket.take().expect("it was inside");
        let goes_on = state.answered < REQUESTS;
        self.admission
            .done(self.now, ticket, Ending::Worked, &mut self.out);
        self.follow();
        if goes_on {
            self.asks(page);
        } else {
            self.ends(page);
        }
    }

    fn ends(&mut self, page: u32) {
        let Page {
            answered, class, ..
        } = self.pages[page as usize];
        let seen = &mut self.seen[class.index()];
        match answered {
            0 => seen.none += 1,
            REQUESTS => seen.whole += 1,
            _ => seen.half += 1,
        }
    }

    fn follow(&mut self) {
        for action in std::mem::take(&mut self.out) {
            let (Action::Start { ticket, .. } | Action::Evict { ticket, .. }) = action;
            let page = self.waiting.remove(&ticket).expect("it waits");
            match action {
                Action::Start { .. } => self.starts(page, ticket),
                Action::Evict { .. } => self.ends(page),
            }
        }
    }

    /// What became of pages from now on until `seconds` later.
    fn watch(&mut self, seconds: u64) -> [Pages; Class::COUNT] {
        self.seen = Default::default();
        self.levels.clear();
        self.run(seconds);
        std::mem::take(&mut self.seen)
    }
}

fn half(pages: &[Pages]) -> f64 {
    let half: u32 = pages.iter().map(|pages| pages.half).sum();
    let all: u32 = pages
        .iter()
        .map(|pages| pages.whole + pages.half + pages.none)
        .sum();
    f64::from(half) / f64::from(all)
}

fn whole(pages: &[Pages]) -> u32 {
    pages.iter().map(|pages| pages.whole).sum()
}

#[test]
fn pages_fail_half_way_without_the_level_and_hardly_ever_with_it() {
    let run = |level| {
        let mut world = World::new(level, 1.5 * PAGES_MAX);
        world.run(20);
        world.watch(60)
    };
    let (without, with) = (run(false), run(true));
    println!("without {without:?}\nwith    {with:?}");

    assert!(half(&without) > 0.1, "{}", half(&without));
    assert!(half(&with) < half(&without) / 5.0, "{}", half(&with));
    assert!(whole(&with) > whole(&without));
    assert!(f64::from(whole(&with)) > 0.97 * PAGES_MAX * 60.0);
}

#[test]
fn the_higher_class_is_served_whole_while_the_lower_one_is_cut() {
    let mut world = World::new(true, 1.5 * PAGES_MAX);
    world.run(20);

    let seen = world.watch(60);

    let Pages { whole, half, none } = &seen[Class::SignedIn.index()];
    let all = f64::from(whole + half + none);
    assert!(f64::from(*whole) / all > 0.99);
    let cut: Vec<_> = world.levels.iter().map(|level| level.cut()).collect();
    assert!(
        cut.iter()
            .all(|cut| matches!(cut, Some((Class::Anonymous, _))))
    );
}

#[test]
fn nobody_is_cut_while_there_is_room_for_all() {
    let mut world = World::new(true, 0.9 * PAGES_MAX);

    let seen = world.watch(120);

    assert!(world.levels.iter().all(|&level| level == Level::EVERYBODY));
    assert_eq!(
        seen.iter()
            .map(|pages| pages.none + pages.half)
            .sum::<u32>(),
        0
    );
}
