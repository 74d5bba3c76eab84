//! The gateway's end of a pooled limit.

use std::time::Duration;

use super::{Gather, Generation, Part, Pooling, Report, Share, Totals};
use crate::facts::RouteId;
use crate::limit::adaptive::{Adaptive, Change, Cohort, Learnt, Plan, Settings};
use crate::limit::{Bounds, Ending, Insight, Limit, Sample};
use crate::time::Mono;

const SLOT: u64 = 1000;

/// No share is larger, whatever a message says: alone, twice as many slots are still a number of them.
const SHARE_MAX: u64 = (u32::MAX / 2) as u64 * SLOT;

/// Tags of requests that were admitted while alone carry this bit.
const ALONE: u32 = 1 << 31;

/// Alone, the limit may be this many times the last share: the others may have gone down, and
/// nobody else can tell.
const ALONE_MOST: u64 = 2;

/// One gateway's share of a limit. See the [module](super) for what it is a part of.
///
/// [`Leaf::take`] what the hub says, and send it a [`Leaf::report`] after each.
#[derive(Debug)]
pub struct Leaf {
    settings: Settings,
    pooling: Pooling,
    seed: u64,
    life: u64,
    reports: u64,
    /// The share that is held, without what was learnt; `None` before the first.
    held: Option<Share>,
    learnt: Option<Learnt>,
    /// When the last share came, or when the first request did.
    heard: Option<Mono>,
    slots: Slots,
    gathering: Option<Gathering>,
    alone: Option<Box<Adaptive>>,
    totals: Totals,
    /// What is left of [`Totals::latency_us`].
    latency_rest_ns: u64,
    /// The last ending, or when the gateway began to have something to do.
    progress: Mono,
    latest: Mono,
}

/// A cohort, or what is left of one.
#[derive(Debug)]
struct Gathering {
    generation: Generation,
    round: u32,
    closes: Mono,
    cohort: Cohort,
}

impl Leaf {
    /// A gateway that has no share yet and uses the initial limit meanwhile. `life` is higher than
    /// that of any earlier process of the same gateway. What was `learnt` before is what it starts
    /// from if no hub answers.
    pub fn new(
        settings: Settings,
        pooling: Pooling,
        life: u64,
        seed: u64,
        learnt: Option<Learnt>,
    ) -> Self {
        Self {
            settings,
            pooling,
            seed,
            life,
            reports: 0,
            held: None,
            learnt,
            heard: None,
            slots: Slots::of(u64::from(settings.bounds.initial()) * SLOT),
            gathering: None,
            alone: None,
            totals: Totals::default(),
            latency_rest_ns: 0,
            progress: Mono::default(),
            latest: Mono::default(),
        }
    }

    /// Takes a share, unless it is older than the one that is held. Returns whether it was taken.
    pub fn take(&mut self, now: Mono, mut share: Share) -> bool {
        let now = self.advance(now);
        let newer = |held: &Share| {
            (share.generation.term, share.sequence) > (held.generation.term, held.sequence)
                && share.generation >= held.generation
        };
        if !self.held.as_ref().is_none_or(newer) {
            return false;
        }
        self.heard = Some(now);
        self.alone = None;
        if let Some(learnt) = share.learnt.take() {
            self.learnt = Some(learnt);
        }
        share.milli = share.milli.min(SHARE_MAX);
        share.steady_milli = share.steady_milli.min(SHARE_MAX);
        self.slots.set(share.milli);
        if let Some(gather) = share.gather {
            self.gather(now, share.generation, gather);
        }
        self.held = Some(share);
        true
    }

    /// What to tell the hub.
    pub fn report(&mut self, now: Mono) -> Report {
        let now = self.advance(now);
        self.step(now);
        self.reports += 1;
        let held = self.held.as_ref();
        let milli = match &self.alone {
            Some(alone) => u64::from(alone.limit()) * SLOT,
            None => self.slots.milli,
        };
        Report {
            life: self.life,
            sequence: self.reports,
            at: now,
            generation: held.map_or_else(Generation::default, |share| share.generation),
            held: held.map_or(0, |share| share.sequence),
            milli,
            totals: self.totals,
            part: self.gathering.as_ref().map(|gathering| Part {
                generation: gathering.generation,
                cohort: gathering.cohort.clone(),
            }),
        }
    }

    /// Whether it goes on alone because it has not heard of a hub for too long.
    pub const fn is_alone(&self) -> bool {
        self.alone.is_some()
    }

    fn advance(&mut self, now: Mono) -> Mono {
        self.latest = self.latest.max(now);
        self.latest
    }

    fn gather(&mut self, now: Mono, generation: Generation, gather: Gather) {
        match &mut self.gathering {
            Some(gathering) if gathering.generation == generation => {
                if gather.round > gathering.round {
                    gathering.round = gather.round;
                    gathering.closes = now + gather.span;
                    gathering.cohort.closed = None;
                }
            }
            gathering => {
                let plan = Plan {
                    settle: gather.settle,
                    span_least: gather.span,
                    admissions_least: 0,
                    span_long: gather.span,
                    drain_most: Duration::ZERO,
                };
                // The cohort is opened in the place of the last one, so nothing is allocated.
                let cohort = match gathering.take() {
                    Some(mut last) => {
                        last.cohort.reopen(now, &plan);
                        last.cohort
                    }
                    None => Cohort::new(now, &plan),
                };
                *gathering = Some(Gathering {
                    generation,
                    round: gather.round,
                    closes: now + gather.span,
                    cohort,
                });
            }
        }
    }

    /// Closes the cohort or goes on alone, if it is time.
    fn step(&mut self, now: Mono) {
        if let Some(Gathering { closes, cohort, .. }) = &mut self.gathering {
            if cohort.closed.is_none() && now >= *closes {
                cohort.closed = Some(*closes);
            }
            if cohort.finished < cohort.admitted {
                cohort.gap = cohort.gap.max(now.since(self.progress));
            }
        }
        let heard = *self.heard.get_or_insert(now);
        if self.alone.is_none() && now.since(heard) > self.pooling.grace() {
            self.go_alone();
        }
    }

    fn go_alone(&mut self) {
        let mut settings = self.settings;
        let mut learnt = self.learnt.clone();
        // Without a share nobody ever said how many there are: it may well be the only one.
        if let Some(held) = &self.held {
            // Rounded up, or many small shares would together fall short of the limit.
            let share = held.steady_milli.div_ceil(SLOT).max(1);
            let (least, most) = (share as u32, (share * ALONE_MOST) as u32);
            if let Ok(bounds) = Bounds::new(least, least, most) {
                settings.bounds = bounds;
            }
            if let Some(learnt) = &mut learnt {
                learnt.throughput *= share as f64 / learnt.limit.max(1.0);
                learnt.limit = share as f64;
            }
        }
        let alone = Adaptive::alone(settings, self.seed, learnt.as_ref());
        self.alone = Some(Box::new(alone));
    }

    fn gathering_at(&mut self, now: Mono) -> Option<&mut Gathering> {
        self.gathering
            .as_mut()
            .filter(|gathering| gathering.cohort.closed.is_none() && now < gathering.closes)
    }
}

impl Limit for Leaf {
    fn admitted(&mut self, now: Mono, route: RouteId, in_flight: u32) -> u32 {
        let now = self.advance(now);
        if in_flight <= 1 {
            self.progress = now;
        }
        self.totals.asked = self.totals.asked.saturating_add(1);
        self.step(now);
        if let Some(alone) = &mut self.alone {
            return alone.admitted(now, route, in_flight) | ALONE;
        }
        let limit = self.slots.whole();
        self.gathering_at(now).map_or(0, |gathering| {
            gathering.cohort.in_flight_most = gathering.cohort.in_flight_most.max(in_flight);
            gathering.cohort.admit(now, route, in_flight, limit)
        })
    }

    fn finished(&mut self, now: Mono, sample: &Sample) {
        let now = self.advance(now);
        if sample.ending != Ending::Ignored {
            let gap = now.since(self.progress);
            self.progress = now;
            if let Some(gathering) = &mut self.gathering {
                gathering.cohort.gap = gathering.cohort.gap.max(gap);
            }
            self.totals.finished = self.totals.finished.saturating_add(1);
            let latency_ns =
                crate::time::nanos(sample.latency).saturating_add(self.latency_rest_ns);
            self.totals.latency_us = self.totals.latency_us.saturating_add(latency_ns / 1000);
            self.latency_rest_ns = latency_ns % 1000;
        }
        if let Some(Gathering { cohort, .. }) = &mut self.gathering {
            if sample.ending == Ending::Worked && now >= cohort.counted_from {
                cohort.worked = cohort.worked.saturating_add(1);
            }
            cohort.finish(sample);
        }
        self.slots.turn();
        self.step(now);
        if let Some(alone) = &mut self.alone {
            // 0 is of no cohort, as are requests that were admitted before.
            let tag = if sample.tag & ALONE == 0 {
                0
            } else {
                sample.tag & !ALONE
            };
            alone.finished(now, &Sample { tag, ..*sample });
        }
    }

    fn refused(&mut self, now: Mono) {
        let now = self.advance(now);
        self.totals.asked = self.totals.asked.saturating_add(1);
        self.step(now);
        if let Some(alone) = &mut self.alone {
            alone.refused(now);
        } else if let Some(gathering) = self.gathering_at(now) {
            gathering.cohort.refused = gathering.cohort.refused.saturating_add(1);
        }
    }

    fn limit(&self) -> u32 {
        self.alone
            .as_ref()
            .map_or_else(|| self.slots.whole(), |alone| alone.limit())
    }

    fn insight(&self) -> Insight {
        match (&self.alone, &self.held) {
            (Some(alone), _) => alone.insight(),
            (None, Some(held)) => Insight {
                gateways: Some(held.gateways),
                ..held.insight
            },
            (None, None) => Insight::default(),
        }
    }

    fn changes(&self) -> Vec<Change> {
        let alone = self.alone.as_ref();
        alone.map_or_else(Vec::new, |alone| alone.changes())
    }

    fn learnt(&self) -> Option<Learnt> {
        self.learnt.clone()
    }

    fn pooled(&mut self) -> Option<&mut Self> {
        Some(self)
    }
}

/// A share in whole slots: one more or one less in turns, so that it is right on average. Without
/// that, 16 gateways with 7.5 slots each would get between 7 and 8, and some a seventh more than others.
#[derive(Clone, Copy, Debug)]
struct Slots {
    milli: u64,
    /// Thousandths that are owed; less than a slot.
    owed: u64,
    one_more: bool,
}

impl Slots {
    const fn of(milli: u64) -> Self {
        Self {
            milli,
            owed: 0,
            one_more: false,
        }
    }

    const fn set(&mut self, milli: u64) {
        self.milli = milli;
        self.turn();
    }

    /// Another turn: with each request that ends.
    const fn turn(&mut self) {
        self.owed += self.milli % SLOT;
        self.one_more = self.owed >= SLOT;
        self.owed %= SLOT;
    }

    /// At least one, or a gateway with a small share would never see its requests answered.
    fn whole(self) -> u32 {
        let whole = self.milli / SLOT + u64::from(self.one_more);
        u32::try_from(whole).unwrap_or(u32::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf() -> Leaf {
        Leaf::new(Settings::default(), Pooling::default(), 1, 1, None)
    }

    fn share(term: u64, sequence: u64, milli: u64) -> Share {
        Share {
            generation: Generation { term, number: 1 },
            sequence,
            milli,
            steady_milli: milli,
            gather: None,
            gateways: 2,
            insight: Insight::default(),
            learnt: None,
        }
    }

    fn gathering(number: u64, sequence: u64, round: u32) -> Share {
        Share {
            generation: Generation { term: 1, number },
            gather: Some(Gather {
                settle: Duration::ZERO,
                span: Duration::from_millis(50),
                round,
            }),
            ..share(1, sequence, 9000)
        }
    }

    fn at(ms: u64) -> Mono {
        Mono::from_millis(ms)
    }

    fn end(leaf: &mut Leaf, ms: u64, tag: u32, latency_ms: u64) {
        let sample = Sample {
            tag,
            route: RouteId(0),
            latency: Duration::from_millis(latency_ms),
            in_flight: 1,
            ending: Ending::Worked,
        };
        leaf.finished(at(ms), &sample);
    }

    fn cohort(leaf: &mut Leaf, ms: u64) -> (u64, u32, u32) {
        let part = leaf.report(at(ms)).part.expect("told to gather");
        let Cohort {
            admitted, finished, ..
        } = part.cohort;
        (part.generation.number, admitted, finished)
    }

    #[test]
    fn a_share_between_two_numbers_is_both_in_turns() {
        let mut leaf = leaf();
        leaf.take(at(0), share(1, 1, 7250));

        let limits: Vec<u32> = (0..8)
            .map(|ms| {
                end(&mut leaf, ms, 0, 1);
                leaf.limit()
            })
            .collect();

        assert_eq!(limits.iter().filter(|&&limit| limit == 8).count(), 2);
        assert_eq!(limits.iter().filter(|&&limit| limit == 7).count(), 6);
    }

    #[test]
    fn the_smallest_share_is_one_slot() {
        let mut leaf = leaf();

        leaf.take(at(0), share(1, 1, 0));

        assert_eq!(leaf.limit(), 1);
    }

    #[test]
    fn a_share_that_is_older_than_the_held_one_is_not_taken() {
        let mut leaf = leaf();

        assert!(leaf.take(at(0), share(2, 5, 9000)));
        assert!(!leaf.take(at(1), share(2, 5, 1000)));
        assert!(!leaf.take(at(1), share(2, 4, 1000)));
        assert!(!leaf.take(at(1), share(1, 900, 1000)));
        assert_eq!(leaf.limit(), 9);
        assert!(leaf.take(at(2), share(3, 1, 4000)));
        assert_eq!(leaf.limit(), 4);
    }

    #[test]
    fn a_cohort_is_what_was_admitted_in_its_span_however_late_it_ends() {
        let mut leaf = leaf();
        let before = leaf.admitted(at(0), RouteId(0), 1);
        leaf.take(at(10), gathering(2, 1, 0));
        let first = leaf.admitted(at(20), RouteId(0), 2);
        let second = leaf.admitted(at(59), RouteId(0), 3);
        let after = leaf.admitted(at(60), RouteId(0), 4);

        for tag in [before, first, after] {
            end(&mut leaf, 100, tag, 40);
        }

        assert_eq!(cohort(&mut leaf, 110), (2, 2, 1));
        end(&mut leaf, 300, second, 240);
        assert_eq!(cohort(&mut leaf, 300), (2, 2, 2));
    }

    #[test]
    fn a_new_round_takes_more_into_the_same_cohort() {
        let mut leaf = leaf();
        leaf.take(at(0), gathering(2, 1, 0));
        leaf.admitted(at(10), RouteId(0), 1);
        leaf.take(at(100), gathering(2, 2, 0));
        leaf.admitted(at(110), RouteId(0), 2);
        assert_eq!(cohort(&mut leaf, 120), (2, 1, 0));

        leaf.take(at(200), gathering(2, 3, 1));
        leaf.admitted(at(249), RouteId(0), 3);
        leaf.admitted(at(250), RouteId(0), 4);

        assert_eq!(cohort(&mut leaf, 260), (2, 2, 0));
    }

    #[test]
    fn requests_of_the_cohort_before_do_not_count_for_the_next() {
        let mut leaf = leaf();
        leaf.take(at(0), gathering(2, 1, 0));
        let tag = leaf.admitted(at(10), RouteId(0), 1);
        leaf.take(at(100), gathering(3, 2, 0));

        end(&mut leaf, 120, tag, 110);

        assert_eq!(cohort(&mut leaf, 130), (3, 0, 0));
    }

    #[test]
    fn without_a_hub_it_keeps_its_share_for_a_while_and_then_stays_between_that_and_twice_that() {
        let mut leaf = leaf();
        leaf.take(at(0), share(1, 1, 30_000));
        let grace = Pooling::default().grace().as_millis() as u64;

        leaf.admitted(at(grace), RouteId(0), 1);
        assert!(!leaf.is_alone());
        leaf.admitted(at(grace + 1), RouteId(0), 1);
        assert!(leaf.is_alone());

        for ms in grace..grace + 60_000 {
            // Everything takes a minute, or nothing at all.
            let latency_ms = if ms % 10_000 < 5000 { 60_000 } else { 0 };
            let tag = leaf.admitted(at(ms), RouteId(0), 30);
            leaf.refused(at(ms));
            end(&mut leaf, ms, tag, latency_ms);
            assert!((30..=60).contains(&leaf.limit()), "{}", leaf.limit());
        }
        leaf.take(at(grace + 60_000), share(1, 2, 5000));
        assert_eq!((leaf.is_alone(), leaf.limit()), (false, 5));
    }

    #[test]
    fn a_share_that_was_lost_in_a_probe_is_continued_as_if_there_were_none() {
        let mut leaf = leaf();
        let probed = Share {
            steady_milli: 10_000,
            ..share(1, 1, 7000)
        };
        leaf.take(at(0), probed);
        assert_eq!(leaf.limit(), 7);

        leaf.admitted(at(60_000), RouteId(0), 1);

        assert_eq!(leaf.limit(), 10);
    }
}
