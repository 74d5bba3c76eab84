//! What every place that keeps limits is compared with in tests: a map of states, and the core to decide.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::{Just, Strategy, prop, prop_oneof};
use tidegate_core::rate::set::{self, Member, Standing};
use tidegate_core::rate::{Algorithm, Rate, Spec, State, Tick};
use tidegate_core::session::SlotTag;

use super::{Answer, Asked, Said, Settled};

/// The map.
#[derive(Clone, Default)]
pub(super) struct Model(HashMap<u128, (Arc<Spec>, State)>);

/// Something that happens to limits.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Time goes on, or back.
    Pass(i64),
    /// A request: limits by their places, what each costs, and whether it is in the shadow.
    Take(Vec<(usize, u64, bool)>),
    /// The same, only asked.
    Ask(Vec<(usize, u64, bool)>),
    /// The last take is settled, with so many tokens used.
    Settle(u64),
    /// A limit becomes another.
    Change(usize, Arc<Spec>),
}

/// How many limits there are.
pub(super) const LIMITS: usize = 5;
/// When it begins: as many microseconds as a store's clock has.
pub(super) const START: Tick = Tick(1_790_000_000_000_000);

/// What is compared with the model.
pub(super) trait Keeper {
    fn take(&mut self, asked: &[Asked<'_>], now: Tick) -> Answer;
    fn ask(&mut self, asked: &[Asked<'_>], now: Tick) -> Answer;
    fn settle(&mut self, settled: &[Settled<'_>], now: Tick);
}

/// Several steps, and the limits that there are before. Time goes back by up to `back_us` now and then.
pub(super) fn story(back_us: i64) -> impl Strategy<Value = (Vec<Arc<Spec>>, Vec<Step>)> {
    let limits = prop::collection::vec(spec(), LIMITS);
    (limits, prop::collection::vec(step(back_us), 1..80))
}

/// Does the steps at the keys from `first` on, and panics where `keeper` and the model are not of one mind.
pub(super) fn compare(
    keeper: &mut impl Keeper,
    first: u128,
    mut specs: Vec<Arc<Spec>>,
    steps: &[Step],
) {
    let mut model = Model::default();
    let mut now = START;
    let mut taken = Vec::new();
    for step in steps {
        match step {
            Step::Pass(us) => now = Tick(now.0.saturating_add_signed(*us)),
            Step::Change(place, spec) => specs[*place] = Arc::clone(spec),
            Step::Take(wanted) => {
                let asked = asked(first, &specs, wanted);
                let answer = keeper.take(&asked, now);
                assert_eq!(answer, model.take(&asked, now), "{asked:#?} at {now:?}");
                if answer.passes() {
                    let spent = wanted.iter().zip(answer.said);
                    taken = spent
                        .filter_map(|(&(place, cost, _), said)| match said {
                            Said::Passes { at, .. } => Some((place, at, cost)),
                            _ => None,
                        })
                        .collect();
                }
            }
            Step::Ask(wanted) => {
                let asked = asked(first, &specs, wanted);
                let answer = keeper.ask(&asked, now);
                let expected = model.clone().take(&asked, now);
                assert_eq!(answer.binding, expected.binding, "{asked:#?} at {now:?}");
            }
            Step::Settle(used) => {
                let settled = std::mem::take(&mut taken);
                let settled = settled.into_iter().map(|(place, at, taken)| Settled {
                    key: first + place as u128,
                    tag: tag(),
                    spec: &specs[place],
                    at,
                    taken,
                    used: *used,
                });
                let settled: Vec<_> = settled.collect();
                keeper.settle(&settled, now);
                model.settle(&settled, now);
            }
        }
    }
}

impl Model {
    pub(super) fn take(&mut self, asked: &[Asked<'_>], now: Tick) -> Answer {
        let mut states: Vec<State> = asked
            .iter()
            .map(|it| self.state(it.key, it.spec, now))
            .collect();
        let before = states.clone();
        let mut members: Vec<Member<'_>> = Vec::new();
        for (it, state) in asked.iter().zip(&mut states) {
            members.push(Member {
                spec: it.spec,
                state,
                cost: it.cost,
                standing: it.standing,
            });
        }
        let taken = set::take(&mut members, now);
        let said = asked.iter().zip(&before).zip(&states);
        let said = said.map(|((it, before), state)| {
            let remaining = it.spec.remaining(state, now);
            match it.spec.check(before, now, it.cost) {
                Ok(()) => Said::Passes { at: now, remaining },
                Err(short) => Said::Short { short, remaining },
            }
        });
        let said = said.collect();
        for (it, (before, state)) in asked.iter().zip(before.iter().zip(states)) {
            if *before != state {
                self.0.insert(it.key, (Arc::clone(it.spec), state));
            }
        }
        Answer {
            said,
            binding: taken.err().map(|refused| refused.binding),
        }
    }

    pub(super) fn settle(&mut self, settled: &[Settled<'_>], now: Tick) {
        let counts = |it: &&Settled<'_>| it.used != it.taken && **it.spec != Spec::Deny;
        for it in settled.iter().filter(counts) {
            let mut state = self.state(it.key, it.spec, now);
            it.spec.commit(&mut state, now, it.at, it.taken, it.used);
            if it.spec.time_to_full_us(&state, now) == 0 {
                self.0.remove(&it.key);
            } else {
                self.0.insert(it.key, (Arc::clone(it.spec), state));
            }
        }
    }

    fn state(&self, key: u128, spec: &Arc<Spec>, now: Tick) -> State {
        let Some((old, state)) = self.0.get(&key) else {
            return spec.full(now);
        };
        let mut state = state.clone();
        // As if it had been forgotten at once.
        if old.time_to_full_us(&state, now) == 0 {
            return spec.full(now);
        }
        if old != spec {
            spec.rescale(&mut state, now, old);
        }
        state
    }
}

/// The tag of all of them.
pub(super) fn tag() -> SlotTag {
    SlotTag::from_bits(0)
}

fn asked<'a>(first: u128, specs: &'a [Arc<Spec>], wanted: &[(usize, u64, bool)]) -> Vec<Asked<'a>> {
    let mut asked: Vec<Asked<'_>> = Vec::new();
    for &(place, cost, shadow) in wanted {
        asked.push(Asked {
            key: first + place as u128,
            tag: tag(),
            spec: &specs[place],
            cost,
            standing: if shadow {
                Standing::Shadow
            } else {
                Standing::Enforced
            },
        });
    }
    asked
}

fn step(back_us: i64) -> impl Strategy<Value = Step> {
    let us = prop_oneof![
        4 => 0i64..2_000,
        4 => 0i64..2_000_000,
        2 => 0i64..4_000_000_000,
        1 => 0i64..200_000_000_000,
        1 => -back_us..1,
    ];
    let places: Vec<usize> = (0..LIMITS).collect();
    let wanted = || {
        let places = prop::sample::subsequence(places.clone(), 1..=LIMITS);
        (
            places,
            0u64..9,
            prop::collection::vec((0u64..3, 0u8..4), LIMITS),
        )
            .prop_map(|(places, cost, each)| {
                let each = each
                    .into_iter()
                    .map(|(more, shadow)| (cost + more, shadow == 0));
                let wanted = places.into_iter().zip(each);
                wanted
                    .map(|(place, (cost, shadow))| (place, cost, shadow))
                    .collect()
            })
    };
    prop_oneof![
        6 => us.prop_map(Step::Pass),
        9 => wanted().prop_map(Step::Take),
        1 => wanted().prop_map(Step::Ask),
        2 => (0u64..30).prop_map(Step::Settle),
        1 => (0..LIMITS, spec()).prop_map(|(place, spec)| Step::Change(place, spec)),
    ]
}

fn spec() -> impl Strategy<Value = Arc<Spec>> {
    let algorithm = prop::sample::select(vec![
        Algorithm::Bucket,
        Algorithm::Bucket,
        Algorithm::Log,
        Algorithm::Window,
    ]);
    let periods = [
        7,
        250_000,
        1_000_000,
        60_000_000,
        3_599_999_999,
        86_400_000_000,
    ];
    let period = prop::sample::select(periods.to_vec());
    let tokens = prop_oneof![1 => Just(0u64), 20 => 1u64..13, 4 => Just(100), 2 => Just(999_983)];
    (algorithm, tokens, period, 1u64..21, 1u32..4).prop_filter_map(
        "a limit that can be kept",
        |(algorithm, tokens, period_us, burst, parts)| {
            let burst = (algorithm == Algorithm::Bucket).then_some(burst);
            let spec = Spec::new(algorithm, Rate { tokens, period_us }, burst).ok()?;
            Some(Arc::new(match spec {
                Spec::Bucket(bucket) => Spec::Bucket(bucket.divided(parts).ok()?),
                spec => spec,
            }))
        },
    )
}
