//! The controller: one cohort in, the next limit out.

use std::time::Duration;

use super::baseline::{Baselines, Way};
use super::change::{Change, Changes, Verdict};
use super::cohort::{Cohort, Plan};
use super::guard::{Guards, Usage};
use super::learnt::Learnt;
use super::probe::{self, Answer, Probe, Timetable};
use super::reading::Reading;
use super::throughput::{Best, Reference};
use super::{Settings, Sight};
use crate::limit::Insight;
use crate::time::{Mono, nanos};

/// Latency may be this much above the baseline before it means a queue, ...
const TOLERANCE: f64 = 0.1;

/// ... and above that by this over the square root of what is in flight without a queue: so much
/// comes and goes by chance, and an application with few workers needs it to keep them all busy.
const TOLERANCE_ROOT: f64 = 1.0;

/// ... but by no more than this altogether.
const TOLERANCE_MOST: f64 = 0.5;

/// Further tolerance while the limit is only being found.
const TOLERANCE_SLOW_START: f64 = 0.3;

/// Most that is added to the tolerance for chance.
const NOISE_MAX: f64 = 0.6;

/// The limit after a cut aims at this part of what is tolerated.
const AIM: f64 = 0.5;

/// A cut takes the limit to no less than this part of itself.
const CUT_LEAST: f64 = 0.7;

/// The same for the cut that ends slow start, where the limit may be far too high.
const CUT_LEAST_SLOW_START: f64 = 0.4;

/// No cut goes below this part of what the recent throughput needs at the baseline.
const FLOOR: f64 = 1.0;

/// Requests that ended with too much work, as a part of a cohort, from which on the limit is cut.
const OVERLOADED: f64 = 0.1;

/// ... to this part of itself.
const OVERLOADED_CUT: f64 = 0.8;

/// Slow start multiplies the limit by this.
const GROWTH: f64 = 2.0;

/// ... and by this while more than half of the requests are refused.
const GROWTH_FAST: f64 = 4.0;

/// Of `refused` and `admitted`, in a full queue: more than half are refused when the first, which
/// counts those that had to wait too, is more than this many times the second.
const MOSTLY_REFUSED: f64 = 2.0;

/// The limit after a probe that found it too low while latency was inflated, relative to before.
const BELOW_INFLATED: f64 = 1.4;

/// Above this mean latency a probe would last for minutes.
const PROBE_LATENCY_MAX_NS: f64 = 5e9;

/// So many cuts one after the other call for a probe.
const CUTS_IN_A_ROW: u32 = 3;

/// Baselines follow the latency without saturation within about this time.
const DRIFT: Duration = Duration::from_secs(8);

/// Mean latency before there is any, in nanoseconds.
const LATENCY_UNKNOWN_NS: f64 = 100e6;

/// Spread before there is any.
const SPREAD_UNKNOWN: f64 = 0.5;

/// How much a cohort's spread counts against the former ones.
const SPREAD_WEIGHT: f64 = 0.3;

/// A limit in use without inflation rises by this many times its square root, and by at least 1.
const RAISE: f64 = 0.5;

/// ... or less where inflation is less than this below the threshold.
const RAISE_ROOM: f64 = 0.1;

/// How far baselines move to the latency of a probe below the knee.
const PROBE_WEIGHT: f64 = 0.5;

/// A baseline is the plain mean of its first samples, until it is known to within this part of
/// itself,
const YOUNG_ERROR: f64 = 0.15;

/// ... from at least
const YOUNG_LEAST: f64 = 200.0;

/// ... and at most so many.
const YOUNG_MOST: f64 = 2000.0;

/// Baselines that were measured below the knee need not be searched for again for this long,
const GROUNDED_FOR: Duration = Duration::from_secs(120);

/// ... unless latency comes to less than this part of them.
const SHORTER: f64 = 0.9;

/// A baseline was off if a probe moves it by more than this part of itself.
const OFF: f64 = 0.1;

/// Cuts tell something when they have come to this part of the limit before the first.
const CUT_TELLS: f64 = 0.25;

/// Latency responds to a cut when it falls by at least this part of it.
const CUT_RESPONSE: f64 = 0.3;

/// Throughput has to settle when the limit has moved by more than this part of itself,
const UNSETTLING: f64 = 0.1;

/// ... for a mean latency and at least this long.
const SETTLE_LEAST: Duration = Duration::from_millis(20);

/// A cohort is open for this many mean latencies,
const SPAN_LATENCIES: f64 = 0.5;

/// ... during a probe for this many,
const PROBE_LATENCIES: f64 = 3.0;

/// ... and at least this long.
const SPAN_LEAST: Duration = Duration::from_millis(50);

/// A cohort for which requests are few is open for this long,
const SPAN_LONG: Duration = Duration::from_secs(1);

/// ... and during a probe for this long.
const PROBE_SPAN_LONG: Duration = Duration::from_secs(4);

/// A closed cohort is evaluated after this many mean latencies,
const DRAIN_LATENCIES: u32 = 10;

/// ... but is given this long.
const DRAIN_LEAST: Duration = Duration::from_millis(100);

/// The mean latency of a cohort should be known to within this part of itself,
const MEAN_ERROR: f64 = 0.2;

/// ... from at least
const REQUESTS_LEAST: f64 = 40.0;

/// ... and at most so many requests.
const REQUESTS_MOST: f64 = 1500.0;

/// The same in a probe, where a change of throughput is to be told,
const PROBE_ERROR: f64 = 0.1;

/// ... from at least
const PROBE_REQUESTS_LEAST: f64 = 150.0;

/// ... and at most so many requests.
const PROBE_REQUESTS_MOST: f64 = 2000.0;

/// Stretches without any ending that are this many times longer than usual are standstills: in mean
/// latencies,
const STALL_LATENCIES: f64 = 3.0;

/// ... and in mean times from one ending to the next,
const STALL_INTERVALS: f64 = 20.0;

/// ... and not below this many nanoseconds.
const STALL_LEAST_NS: f64 = 100e6;

/// So many cohorts in a row are passed over because of standstills as long as they finish anything:
/// an application that always works in fits and starts must not escape the limit.
const STALLS_IN_A_ROW: u32 = 5;

/// After a standstill latency may say for this many times as long that there is a queue: it is what
/// piled up,
const AFTERMATH: u32 = 2;

/// ... but for no longer than this.
const AFTERMATH_MOST: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The limit is being found.
    SlowStart,
    /// The limit is known and is kept right.
    Steady,
    /// The limit is moved on purpose.
    Probing(Probe),
}

/// Latency as of the last cohorts.
#[derive(Clone, Copy, Debug)]
struct Pace {
    latency_ns: f64,
    baseline_ns: Option<f64>,
    inflation: Option<f64>,
    /// Coefficient of variation of single requests.
    spread: f64,
}

impl Pace {
    const UNKNOWN: Self = Self {
        latency_ns: LATENCY_UNKNOWN_NS,
        baseline_ns: None,
        inflation: None,
        spread: SPREAD_UNKNOWN,
    };

    fn see(&mut self, reading: &Reading) {
        self.latency_ns = reading.latency_ns;
        if let Some(baseline_ns) = reading.baseline_ns {
            self.baseline_ns = Some(baseline_ns);
            self.inflation = Some(reading.inflation);
        }
        if let Some(spread) = reading.spread {
            self.spread += SPREAD_WEIGHT * (spread - self.spread);
        }
    }
}

/// Cuts since latency was last fine.
#[derive(Clone, Copy, Debug, Default)]
struct Cuts {
    in_a_row: u32,
    /// How things stood before the first of them.
    before: Option<Stand>,
}

#[derive(Clone, Copy, Debug)]
struct Stand {
    limit: f64,
    inflation: f64,
    reference: Reference,
}

/// Decides on the limit, cohort by cohort.
///
/// Between two calls of [`Controller::evaluate`] a cohort is gathered as [`Controller::plan`] says,
/// by one gateway or by several whose parts are merged.
#[derive(Clone, Debug)]
pub struct Controller {
    settings: Settings,
    limit: f64,
    phase: Phase,
    baselines: Baselines,
    pace: Pace,
    best: Best,
    reference: Reference,
    timetable: Timetable,
    cuts: Cuts,
    /// When baselines were last measured below the knee.
    grounded: Option<Mono>,
    stalls: u32,
    /// Until then, what piled up while the application stood still may have to be worked off.
    aftermath_until: Mono,
    guards: Guards,
    usage: Usage,
    sight: Sight,
    /// Whether the last evaluation moved the limit so far that throughput has to settle.
    unsettled: bool,
    changes: Changes,
}

impl Controller {
    /// Starts from the initial limit; `seed` feeds the jitter of its probes.
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            settings,
            limit: f64::from(settings.bounds.initial()),
            phase: Phase::SlowStart,
            baselines: Baselines::new(),
            pace: Pace::UNKNOWN,
            best: Best::default(),
            reference: Reference::default(),
            timetable: Timetable::new(seed),
            cuts: Cuts::default(),
            grounded: None,
            stalls: 0,
            aftermath_until: Mono::from_nanos(0),
            guards: Guards::new(settings.latency_healthy_max),
            usage: Usage::default(),
            sight: Sight::Whole,
            unsettled: false,
            changes: Changes::new(),
        }
    }

    /// Starts from what an earlier one had learnt.
    pub fn resume(settings: Settings, seed: u64, learnt: &Learnt) -> Self {
        let mut controller = Self::new(settings, seed);
        controller.limit = settings.bounds.clamp(learnt.limit);
        controller.baselines.import(learnt);
        controller.best.see(Mono::default(), learnt.throughput, 1.0);
        controller.phase = Phase::Steady;
        controller
    }

    /// What a restarted process may start from.
    pub fn learnt(&self) -> Learnt {
        Learnt {
            limit: match self.phase {
                Phase::Probing(probe) => probe.before,
                Phase::SlowStart | Phase::Steady => self.limit,
            },
            throughput: self.best.last(),
            baselines: self.baselines.export(),
        }
    }

    /// The limit now: finite and within its bounds.
    pub const fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// Says whether this controller sees all work of the application. One that does not may not
    /// conclude from throughput that its limit is too low.
    pub const fn see(&mut self, sight: Sight) {
        self.sight = sight;
    }

    /// Says whether the machine under the application is at its end: the limit then does not rise.
    pub const fn press(&mut self, pressed: bool) {
        self.guards.pressed = pressed;
    }

    /// What it has learnt, for people.
    pub fn insight(&self) -> Insight {
        Insight {
            probing: matches!(self.phase, Phase::Probing(_)),
            baseline: self
                .pace
                .baseline_ns
                .map(|ns| Duration::from_nanos(ns as u64)),
            inflation: self.pace.inflation,
            gateways: None,
        }
    }

    /// The last changes, the oldest first.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter()
    }

    /// How the next cohort is to be gathered.
    pub fn plan(&self) -> Plan {
        let latency = Duration::from_nanos(self.pace.latency_ns as u64);
        let settle = if self.unsettled {
            latency.max(SETTLE_LEAST)
        } else {
            Duration::ZERO
        };
        let (spans, span_long, admissions_least) = match self.phase {
            Phase::Probing(_) => (
                PROBE_LATENCIES,
                PROBE_SPAN_LONG,
                sample_size(self.pace.spread, PROBE_ERROR)
                    .clamp(PROBE_REQUESTS_LEAST, PROBE_REQUESTS_MOST),
            ),
            Phase::SlowStart | Phase::Steady => (
                SPAN_LATENCIES,
                SPAN_LONG,
                sample_size(self.pace.spread, MEAN_ERROR).clamp(REQUESTS_LEAST, REQUESTS_MOST),
            ),
        };
        Plan {
            settle,
            span_least: latency.mul_f64(spans).max(SPAN_LEAST),
            admissions_least: admissions_least as u32,
            span_long,
            drain_most: (latency * DRAIN_LATENCIES).max(DRAIN_LEAST),
        }
    }

    /// Takes in a cohort that was gathered by the last plan.
    pub fn evaluate(&mut self, now: Mono, cohort: &Cohort) {
        let Some(reading) = Reading::of(cohort, &self.baselines, self.limit(), now) else {
            return;
        };
        let limit_before = self.limit;
        if self.stood_still(now, cohort) {
            self.pass_over(now, cohort, &reading);
        } else {
            self.stalls = 0;
            self.take_in(now, cohort, &reading);
        }
        self.unsettled = (self.limit - limit_before).abs() > UNSETTLING * limit_before;
    }

    fn stood_still(&mut self, now: Mono, cohort: &Cohort) -> bool {
        let best = self.best.recent(now);
        let usual_ns = if best > 0.0 {
            STALL_INTERVALS * 1e9 / best
        } else {
            f64::INFINITY
        };
        let long_ns = (STALL_LATENCIES * self.pace.latency_ns)
            .max(usual_ns)
            .max(STALL_LEAST_NS);
        nanos(cohort.gap) as f64 > long_ns && (cohort.worked == 0 || self.stalls < STALLS_IN_A_ROW)
    }

    /// The application stood still: the limit of before stands.
    fn pass_over(&mut self, now: Mono, cohort: &Cohort, reading: &Reading) {
        self.stalls = self.stalls.saturating_add(1);
        let aftermath = cohort.gap.saturating_mul(AFTERMATH).min(AFTERMATH_MOST);
        self.aftermath_until = now + aftermath;
        let limit = if let Phase::Probing(probe) = self.phase {
            self.phase = Phase::Steady;
            self.timetable.again(now);
            probe.before
        } else {
            self.limit
        };
        self.reference = Reference::default();
        self.change(now, limit, Verdict::Stalled, reading, None);
    }

    fn take_in(&mut self, now: Mono, cohort: &Cohort, reading: &Reading) {
        self.pace.see(reading);
        self.best.see(now, reading.worked, reading.seconds);
        // What is inflated beyond chance is taken for that much less.
        let inflation = if reading.inflation > self.threshold(reading) {
            reading.inflation
        } else {
            1.0
        };
        let young = sample_size(self.pace.spread, YOUNG_ERROR).clamp(YOUNG_LEAST, YOUNG_MOST);
        self.baselines
            .learn_young(cohort, reading.since_opened, inflation, young as u32);
        let probing = match self.phase {
            Phase::Probing(probe) => {
                self.conclude(now, probe, cohort, reading);
                return;
            }
            Phase::SlowStart => false,
            Phase::Steady => self.timetable.is_due(now) && now >= self.aftermath_until,
        };
        if reading.saturated {
            self.reference
                .see(reading.worked, reading.seconds, self.limit.floor());
        } else {
            self.reference = Reference::default();
        }

        if reading.overloaded > OVERLOADED {
            self.cut(now, OVERLOADED_CUT, Verdict::Overloaded, reading);
        } else if !reading.saturated {
            self.rest(now, cohort, reading);
        } else if probing && self.may_probe(reading) {
            self.begin_probe(now, cohort, reading);
        } else if reading.inflation <= self.tolerated(reading) {
            self.raise(now, reading);
        } else if now < self.aftermath_until {
            self.change(now, self.limit, Verdict::Stalled, reading, None);
        } else {
            self.cut_for_latency(now, cohort, reading);
        }
    }

    /// Whether a probe would say anything. Beside others it would not: what one gives up the others
    /// take, and what latency is then left has their queue in it.
    fn may_probe(&self, reading: &Reading) -> bool {
        self.sight == Sight::Whole
            && reading.full >= probe::FULL
            && self.pace.latency_ns <= PROBE_LATENCY_MAX_NS
    }

    /// The inflation from which on latency means a queue.
    fn threshold(&self, reading: &Reading) -> f64 {
        let spread = reading.spread.unwrap_or(self.pace.spread);
        let noise = (2.0 * spread / reading.known.max(1.0).sqrt()).min(NOISE_MAX);
        (1.0 + self.tolerance(reading.inflation) + noise).min(self.guards.inflation_max(reading))
    }

    fn tolerance(&self, inflation: f64) -> f64 {
        let without_queue = (self.limit / inflation.max(1.0)).max(1.0);
        (TOLERANCE + TOLERANCE_ROOT / without_queue.sqrt()).min(TOLERANCE_MOST)
    }

    /// The inflation that a limit should lead to.
    fn aim(&self, inflation: f64) -> f64 {
        1.0 + AIM * self.tolerance(inflation)
    }

    fn tolerated(&self, reading: &Reading) -> f64 {
        let tolerance = match self.phase {
            Phase::SlowStart => TOLERANCE_SLOW_START,
            Phase::Steady | Phase::Probing(_) => 0.0,
        };
        (self.threshold(reading) + tolerance).min(self.guards.inflation_max(reading))
    }

    /// Not saturated: what is seen now is how long things take. The limit stays, or comes down to
    /// what may be needed.
    fn rest(&mut self, now: Mono, cohort: &Cohort, reading: &Reading) {
        let span = now.since(cohort.opened);
        let weight = (span.as_secs_f64() / DRIFT.as_secs_f64()).min(1.0);
        // The others may well be saturated: what seems to take longer now may be their queue.
        let way = match self.sight {
            Sight::Whole => Way::Both,
            Sight::Part => Way::Down,
        };
        let spread = self.pace.spread;
        self.baselines
            .pull(cohort, reading.since_opened, spread, weight, way);
        self.cuts = Cuts::default();
        if reading.inflation > self.threshold(reading) {
            return;
        }
        self.usage.see(now, cohort.in_flight_most);
        let least = f64::from(self.settings.bounds.initial());
        let limit = self.usage.drifted(self.limit, least, span);
        if limit > self.limit && self.guards.allow_raise(reading) {
            self.change(now, limit, Verdict::Room, reading, None);
        } else if limit < self.limit {
            self.phase = Phase::SlowStart;
            self.change(now, limit, Verdict::Unused, reading, None);
        }
    }

    fn raise(&mut self, now: Mono, reading: &Reading) {
        self.cuts = Cuts::default();
        if !self.guards.allow_raise(reading) {
            return;
        }
        match self.phase {
            Phase::SlowStart => {
                let growth = if reading.refused_per_admitted > MOSTLY_REFUSED {
                    GROWTH_FAST
                } else {
                    GROWTH
                };
                self.change(now, self.limit * growth, Verdict::Grown, reading, None);
            }
            Phase::Steady | Phase::Probing(_) => {
                let room = self.threshold(reading) - reading.inflation;
                let full = (room / RAISE_ROOM).clamp(0.0, 1.0);
                let step = (RAISE * self.limit.sqrt() * full).max(1.0);
                self.change(now, self.limit + step, Verdict::Raised, reading, None);
            }
        }
    }

    fn cut_for_latency(&mut self, now: Mono, cohort: &Cohort, reading: &Reading) {
        if let Some(response) = self.cut_in_vain(reading) {
            self.learn_longer(now, reading, response);
            return;
        }
        if self.cuts.in_a_row >= CUTS_IN_A_ROW
            && self.timetable.may_be_early(now)
            && self.may_probe(reading)
        {
            self.begin_probe(now, cohort, reading);
            return;
        }
        if self.cuts.before.is_none() {
            self.baselines.mark(cohort, reading.since_opened);
            self.cuts.before = Some(Stand {
                limit: self.limit,
                inflation: reading.inflation,
                reference: self.reference,
            });
        }
        let least = match self.phase {
            Phase::SlowStart => CUT_LEAST_SLOW_START,
            Phase::Steady | Phase::Probing(_) => CUT_LEAST,
        };
        self.cut(
            now,
            (self.aim(reading.inflation) / reading.inflation).max(least),
            Verdict::Cut,
            reading,
        );
    }

    /// The response of throughput to the cuts so far, if latency has not responded to them but
    /// throughput has: then it is not a queue that takes the time.
    fn cut_in_vain(&self, reading: &Reading) -> Option<f64> {
        let before = self.cuts.before?;
        let step = 1.0 - self.limit.floor() / before.limit.floor();
        if step < CUT_TELLS || self.sight == Sight::Part {
            return None;
        }
        let latency = (1.0 - reading.inflation / before.inflation) / step;
        let throughput = (1.0 - self.reference.per_second() / before.reference.per_second()) / step;
        (latency < CUT_RESPONSE && throughput > probe::FOLLOWS).then_some(throughput)
    }

    /// Things take longer than was known: the latency of before is the new baseline.
    fn learn_longer(&mut self, now: Mono, reading: &Reading, response: f64) {
        let limit = self.cuts.before.map_or(self.limit, |before| before.limit);
        self.cuts = Cuts::default();
        self.baselines.adopt_marked();
        self.phase = Phase::SlowStart;
        self.change(now, limit, Verdict::BelowKnee, reading, Some(response));
    }

    /// Cuts to `part` of the limit, but not below what the recent throughput needs.
    fn cut(&mut self, now: Mono, part: f64, verdict: Verdict, reading: &Reading) {
        self.end_slow_start(now);
        self.cuts.in_a_row += 1;
        let baseline = self.pace.baseline_ns.unwrap_or(0.0) / 1e9;
        let floor = (FLOOR * self.best.recent(now) * baseline).min(self.limit);
        self.change(now, (self.limit * part).max(floor), verdict, reading, None);
    }

    fn end_slow_start(&mut self, now: Mono) {
        if matches!(self.phase, Phase::SlowStart) {
            self.phase = Phase::Steady;
            self.timetable.first(now);
        }
    }

    fn begin_probe(&mut self, now: Mono, cohort: &Cohort, reading: &Reading) {
        let inflated = reading.inflation > self.threshold(reading);
        let least = f64::from(self.settings.bounds.min());
        let most = f64::from(self.settings.bounds.max());
        let up = self.limit * probe::DOWN < least;
        let tried = if up && self.guards.allow_raise(reading) {
            (self.limit * probe::UP).max(self.limit + 2.0).min(most)
        } else {
            (self.limit * probe::DOWN).max(least)
        };
        self.baselines.mark(cohort, reading.since_opened);
        self.phase = Phase::Probing(Probe {
            began: now,
            before: self.limit,
            tried,
            inflated,
            reference: self.reference,
        });
        self.cuts = Cuts::default();
        self.change(now, tried, Verdict::Probing, reading, None);
    }

    fn conclude(&mut self, now: Mono, probe: Probe, cohort: &Cohort, reading: &Reading) {
        let (answer, response) = probe.answer(reading, self.pace.spread);
        let down = probe.tried < probe.before;
        let mut learnt = false;
        if down && answer != Answer::Nothing {
            learnt = self.learn_from_probe(now, &probe, cohort, reading);
            let least = f64::from(self.settings.bounds.min());
            if let Some(next) = probe
                .lower(now, reading, least)
                .filter(|_| !self.is_grounded(now))
            {
                self.phase = Phase::Probing(next);
                self.change(now, next.tried, Verdict::AboveKnee, reading, response);
                return;
            }
        }
        self.phase = Phase::Steady;
        self.reference = Reference::default();
        let enough = self.aim(reading.inflation) * probe.knee(reading);
        let (limit, verdict) = match answer {
            Answer::Below if self.sight == Sight::Part => (probe.before, Verdict::Inconclusive),
            Answer::Below if !self.guards.allow_raise(reading) => {
                (probe.before, Verdict::BelowKnee)
            }
            Answer::Below if probe.inflated => {
                self.baselines.adopt_marked();
                self.phase = Phase::SlowStart;
                (probe.before * BELOW_INFLATED, Verdict::BelowKnee)
            }
            Answer::Below if down => (enough.max(probe.before), Verdict::BelowKnee),
            Answer::Below => (probe.tried, Verdict::BelowKnee),
            Answer::At => (probe.before, Verdict::AtKnee),
            Answer::Above if down => (enough.clamp(probe.tried, probe.before), Verdict::AboveKnee),
            Answer::Above => (probe.before, Verdict::AboveKnee),
            Answer::Falling if down => (probe.tried, Verdict::Falling),
            Answer::Falling => (probe.before * probe::DOWN, Verdict::Falling),
            Answer::Nothing => (probe.before, Verdict::Inconclusive),
        };
        if answer == Answer::Nothing {
            self.timetable.again(now);
        } else {
            let raised = matches!(self.phase, Phase::SlowStart);
            let took = now.since(probe.began);
            self.timetable.next(now, took, raised, learnt);
        }
        self.change(now, limit, verdict, reading, response);
    }

    /// Takes the latency of a probe downwards for the baseline, as far as it may be. Returns whether
    /// that was much off.
    fn learn_from_probe(
        &mut self,
        now: Mono,
        probe: &Probe,
        cohort: &Cohort,
        reading: &Reading,
    ) -> bool {
        let spread = self.pace.spread;
        let (weight, way) = if !probe.may_lie_lower(reading, spread) {
            // Nothing queues below the knee.
            self.grounded = Some(now);
            (PROBE_WEIGHT, Way::Both)
        } else if self.is_grounded(now) && reading.inflation > SHORTER {
            return false;
        } else {
            // Above it, latency is at most nearer to the baseline.
            self.grounded = None;
            (1.0, Way::Down)
        };
        self.baselines
            .pull(cohort, reading.since_opened, spread, weight, way);
        let before = reading.baseline_ns.unwrap_or(0.0);
        let after = self.baselines.mean_ns(cohort).unwrap_or(0.0);
        (after - before).abs() > OFF * before
    }

    /// Whether the baselines were measured below the knee not long ago.
    fn is_grounded(&self, now: Mono) -> bool {
        self.grounded
            .is_some_and(|grounded| now.since(grounded) < GROUNDED_FOR)
    }

    fn change(
        &mut self,
        now: Mono,
        limit: f64,
        verdict: Verdict,
        reading: &Reading,
        response: Option<f64>,
    ) {
        let limit = self.settings.bounds.clamp(limit);
        self.changes.push(Change {
            at: now,
            from: self.limit,
            to: limit,
            inflation: reading.inflation,
            threshold: self.threshold(reading),
            response,
            throughput: reading.throughput(),
            verdict,
        });
        self.limit = limit;
    }
}

/// Requests from whose latencies a mean is known to within `error` of itself, at two standard errors.
fn sample_size(spread: f64, error: f64) -> f64 {
    let root = 2.0 * spread / error;
    root * root
}
