//! The controller: one cohort in, the next limit out.

use std::time::Duration;

use super::baseline::{Baselines, Way};
use super::change::{Change, Changes, Verdict};
use super::cohort::{Cohort, Plan};
use super::complaint::{Complaints, Heed};
use super::cuts::{Cuts, Stand};
use super::guard::{Guards, Usage};
use super::learnt::Learnt;
use super::pace::{Pace, Purpose};
use super::probe::{self, Answer, Probe};
use super::reading::Reading;
use super::standstill::Standstills;
use super::throughput::{Best, Reference};
use super::timetable::Timetable;
use super::{Settings, Sight};
use crate::limit::Insight;
use crate::time::Mono;

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

/// An application that says that there is too much work has its limit cut to this part of itself.
const OVERLOADED_CUT: f64 = 0.8;

/// Once it ends, the limit grows fast up to this part of what it was.
const REGAIN: f64 = 0.7;

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

/// Baselines follow the latency without saturation within about this time.
const DRIFT: Duration = Duration::from_secs(8);

/// A limit in use without inflation rises by this many times its square root, and by at least 1.
const RAISE: f64 = 0.5;

/// ... or less where inflation is less than this below the threshold.
const RAISE_ROOM: f64 = 0.1;

/// After so many full steps in a row the knee is far away, and slow start begins again.
const RAISES_IN_A_ROW: u32 = 8;

/// How far baselines move to the latency of a probe below the knee.
const PROBE_WEIGHT: f64 = 0.5;

/// Baselines that were measured below the knee are doubted again when latency comes to less than
/// this part of them.
const SHORTER: f64 = 0.9;

/// A baseline was off if a probe moves it by more than this part of itself.
const OFF: f64 = 0.1;

/// Throughput has to settle when the limit has moved by more than this part of itself.
const UNSETTLING: f64 = 0.1;

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The limit is being found.
    SlowStart,
    /// The limit is known and is kept right.
    Steady,
    /// The limit is moved on purpose.
    Probing(Probe),
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
    /// Where the limit may grow back to after the application said that there was too much work.
    regain: f64,
    /// Full steps upwards since the limit last moved otherwise.
    raises: u32,
    complaints: Complaints,
    standstills: Standstills,
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
            regain: 0.0,
            raises: 0,
            complaints: Complaints::default(),
            standstills: Standstills::default(),
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
        controller.best = Best::of(learnt.throughput);
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
        let purpose = match self.phase {
            Phase::Probing(_) => Purpose::Probe,
            Phase::SlowStart | Phase::Steady => Purpose::Latency,
        };
        self.pace.plan(purpose, self.unsettled)
    }

    /// Takes in a cohort that was gathered by the last plan.
    pub fn evaluate(&mut self, now: Mono, cohort: &Cohort) {
        let pace_ns = self.pace.latency_ns;
        let limit = self.limit();
        let Some(reading) = Reading::of(cohort, &self.baselines, limit, pace_ns, now) else {
            return;
        };
        let limit_before = self.limit;
        let usual = self.best.recent(now);
        if self.standstills.see(now, cohort, pace_ns, usual) {
            self.pass_over(now, &reading);
        } else {
            self.take_in(now, cohort, &reading);
        }
        self.unsettled = (self.limit - limit_before).abs() > UNSETTLING * limit_before;
    }

    /// The application stood still: the limit of before stands.
    fn pass_over(&mut self, now: Mono, reading: &Reading) {
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
        let spread = self.pace.spread;
        self.baselines
            .learn_young(cohort, reading.since_opened, spread, inflation);
        let probing = match self.phase {
            Phase::Probing(probe) => {
                self.conclude(now, probe, cohort, reading);
                return;
            }
            Phase::SlowStart => false,
            Phase::Steady => self.timetable.is_due(now) && !self.standstills.is_aftermath(now),
        };
        if reading.saturated {
            self.reference
                .see(reading.worked, reading.seconds, self.limit.floor());
        } else {
            self.reference = Reference::default();
        }

        let floor = self.floor(now);
        match (self.complaints).heed(now, reading.overloaded, self.limit, floor) {
            Heed::Nothing => {}
            Heed::Cut => {
                self.regain = self.regain.max(REGAIN * self.limit);
                self.cut(now, OVERLOADED_CUT, Verdict::Overloaded, reading);
                return;
            }
            Heed::Restore(limit) => {
                self.phase = Phase::SlowStart;
                self.change(now, limit, Verdict::Anyway, reading, None);
                return;
            }
        }
        if !reading.saturated {
            self.rest(now, cohort, reading);
        } else if probing && self.may_probe(reading) {
            self.begin_probe(now, cohort, reading);
        } else if reading.inflation <= self.tolerated(reading) {
            self.raise(now, reading);
        } else if self.standstills.is_aftermath(now) {
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
        // Where nothing was done, the latency of what is unfinished says nothing either.
        if reading.worked == 0.0 || !self.guards.allow_raise(reading) {
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
            Phase::Steady | Phase::Probing(_) if self.limit * GROWTH <= self.regain => {
                self.change(now, self.limit * GROWTH, Verdict::Grown, reading, None);
            }
            Phase::Steady | Phase::Probing(_) => {
                self.regain = 0.0;
                let room = self.threshold(reading) - reading.inflation;
                let full = (room / RAISE_ROOM).clamp(0.0, 1.0);
                let step = (RAISE * self.limit.sqrt() * full).max(1.0);
                let raises = if full < 1.0 { 0 } else { self.raises + 1 };
                self.change(now, self.limit + step, Verdict::Raised, reading, None);
                self.raises = raises;
                if raises >= RAISES_IN_A_ROW {
                    self.phase = Phase::SlowStart;
                }
            }
        }
    }

    fn cut_for_latency(&mut self, now: Mono, cohort: &Cohort, reading: &Reading) {
        let stand = Stand {
            limit: self.limit,
            inflation: reading.inflation,
            reference: self.reference,
        };
        if let Some(response) = self.cuts.in_vain(&stand)
            && self.sight == Sight::Whole
        {
            self.learn_longer(now, reading, response);
            return;
        }
        if self.cuts.call_for_probe() && self.timetable.may_be_early(now) && self.may_probe(reading)
        {
            self.begin_probe(now, cohort, reading);
            return;
        }
        if self.cuts.before().is_none() {
            self.baselines.mark(cohort, reading.since_opened);
            self.cuts.begin(stand);
        }
        let least = match self.phase {
            Phase::SlowStart => CUT_LEAST_SLOW_START,
            Phase::Steady | Phase::Probing(_) => CUT_LEAST,
        };
        let aim = self.aim(reading.inflation).min(self.threshold(reading));
        let part = (aim / reading.inflation).clamp(least, 1.0);
        self.cut(now, part, Verdict::Cut, reading);
    }

    /// Things take longer than was known: the latency of before is the new baseline.
    fn learn_longer(&mut self, now: Mono, reading: &Reading, response: f64) {
        let limit = self.cuts.before().map_or(self.limit, |before| before.limit);
        self.cuts = Cuts::default();
        self.baselines.adopt_marked();
        self.phase = Phase::SlowStart;
        self.change(now, limit, Verdict::BelowKnee, reading, Some(response));
    }

    /// Cuts to `part` of the limit, but not below what the recent throughput needs.
    fn cut(&mut self, now: Mono, part: f64, verdict: Verdict, reading: &Reading) {
        self.end_slow_start(now);
        self.cuts.count();
        let floor = self.floor(now).min(self.limit);
        self.change(now, (self.limit * part).max(floor), verdict, reading, None);
    }

    /// What the recent throughput needs, by Little's law.
    fn floor(&mut self, now: Mono) -> f64 {
        FLOOR * self.best.recent(now) * self.pace.baseline_ns.unwrap_or(0.0) / 1e9
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
            if let Some(next) = probe.lower(now, reading, least)
                && !self.baselines.are_grounded(now)
            {
                self.phase = Phase::Probing(next);
                self.change(now, next.tried, Verdict::AboveKnee, reading, response);
                return;
            }
        }
        self.phase = Phase::Steady;
        self.reference = Reference::default();
        let (limit, verdict) = self.heed(answer, &probe, reading);
        if answer == Answer::Nothing {
            self.timetable.again(now);
        } else {
            let raised = matches!(self.phase, Phase::SlowStart);
            let took = now.since(probe.began);
            self.timetable.next(now, took, raised, learnt);
        }
        self.change(now, limit, verdict, reading, response);
    }

    /// The limit that follows from the `answer` of `probe`.
    fn heed(&mut self, answer: Answer, probe: &Probe, reading: &Reading) -> (f64, Verdict) {
        let down = probe.tried < probe.before;
        let enough = self.aim(reading.inflation) * probe.knee(reading);
        match answer {
            Answer::Below if self.sight == Sight::Part => (probe.before, Verdict::Inconclusive),
            Answer::Below if !self.guards.allow_raise(reading) => {
                (probe.before, Verdict::BelowKnee)
            }
            Answer::Below if probe.inflated => {
                // What looked like a queue was not: it is how long things take.
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
        }
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
            self.baselines.ground(now);
            (PROBE_WEIGHT, Way::Both)
        } else if self.baselines.are_grounded(now) && reading.inflation > SHORTER {
            return false;
        } else {
            // Above it, latency is at most nearer to the baseline.
            self.baselines.unground();
            (1.0, Way::Down)
        };
        self.baselines
            .pull(cohort, reading.since_opened, spread, weight, way);
        let before = reading.baseline_ns.unwrap_or(0.0);
        let after = self.baselines.mean_ns(cohort).unwrap_or(0.0);
        (after - before).abs() > OFF * before
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
        self.raises = 0;
    }
}
