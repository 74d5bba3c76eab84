//! One story: some limits, what happens to them, and what the three say to it.

use std::sync::Arc;

use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm, Short, Spec, Tick};
use tidegate_core::rng::Rng;
use tidegate_core::session::SlotTag;
use tidegate_store::limits::{
    Answer, Asked, LimitTable, LimitTablePlan, Said as TableSaid, Settled,
};

use super::draw;
use super::rate_model::{Model, Words};
use crate::harness::clockwork::{Clockwork, Script};
use crate::harness::limit_script::{Said, Told, said, settling, taking};

/// When a story begins: as many microseconds as a store's clock has.
const START: Tick = Tick(1_790_000_000_000_000);
/// Limits of a story.
const LIMITS: usize = 6;

/// What has happened in all stories.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) steps: u64,
    pub(super) requests: u64,
    pub(super) passed: u64,
    /// Limits that requests have met.
    pub(super) asked: u64,
    pub(super) settled: u64,
    pub(super) changes: u64,
    /// Waits that were promised and tried.
    pub(super) waits: u64,
    pub(super) enough: u64,
    /// Of these: those of limits that had not changed since they were last spent from.
    pub(super) unchanged: u64,
    pub(super) tight: u64,
    /// Refusals after which something was written.
    pub(super) written: u64,
    /// What was different, in words.
    pub(super) differences: Vec<String>,
}

/// Where the script runs.
pub(super) struct Keepers<'a> {
    pub(super) redis: &'a mut Clockwork,
    pub(super) script: &'a Script,
}

/// One story.
pub(super) struct Story<'a> {
    seed: u64,
    rng: Rng,
    now: Tick,
    keepers: Keepers<'a>,
    table: LimitTable,
    limits: Vec<Limit>,
    /// What the last request has taken: which limit, when, how much.
    taken: Vec<(usize, Tick, u64)>,
}

struct Limit {
    words: Words,
    spec: Arc<Spec>,
    /// What it has in fractions, and by what words that was counted; `None` if nothing was ever used.
    kept: Option<(Words, Model)>,
}

/// One limit of a request.
#[derive(Clone, Copy, Debug)]
struct Met {
    place: usize,
    cost: u64,
    shadow: bool,
}

/// What comes of a request.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    said: Vec<Said>,
    /// The enforced one with the longest wait.
    binding: Option<usize>,
}

impl<'a> Story<'a> {
    pub(super) fn new(seed: u64, keepers: Keepers<'a>) -> Self {
        let mut rng = Rng::new(seed);
        let limits = (0..LIMITS).map(|_| Limit::new(draw::words(&mut rng)));
        Self {
            limits: limits.collect(),
            seed,
            rng,
            now: START,
            keepers,
            table: LimitTable::new(LimitTablePlan {
                keys_max: 1_024,
                shards: 4,
            }),
            taken: Vec::new(),
        }
    }

    /// Lets something happen.
    pub(super) fn step(&mut self, counts: &mut Counts) -> anyhow::Result<()> {
        counts.steps += 1;
        let place = self.rng.below(LIMITS as u64) as usize;
        let words = self.limits[place].words;
        self.now = self.now.plus(draw::pause_us(&words, &mut self.rng));
        match self.rng.below(20) {
            0..3 => self.settle(counts),
            3 => {
                self.change(place, counts);
                Ok(())
            }
            _ => self.request(counts),
        }
    }

    fn request(&mut self, counts: &mut Counts) -> anyhow::Result<()> {
        let mut met = Vec::new();
        for place in 0..LIMITS {
            if self.rng.below(3) > 0 {
                continue;
            }
            let most = self.limits[place].spec.most();
            met.push(Met {
                place,
                cost: draw::cost(most, &mut self.rng),
                shadow: self.rng.below(5) == 0,
            });
        }
        let expected = self.by_fractions(&met);
        let table = self.table.take(&self.asked(&met), self.now).into();
        let (redis, writes) = self.by_script("take", &met, self.now)?;
        counts.requests += 1;
        counts.asked += met.len() as u64;
        for (who, outcome) in [("the table", &table), ("the script", &redis)] {
            if *outcome != expected {
                counts.differences.push(format!(
                    "story {} at {:?}: fractions say {expected:?}, {who} {outcome:?}; asked {met:?} of {:?}",
                    self.seed,
                    self.now,
                    self.limits.iter().map(|limit| limit.words).collect::<Vec<_>>()
                ));
            }
        }
        match expected.binding {
            None => {
                counts.passed += 1;
                self.taken = spent(&met, &expected)
                    .map(|it| (it.place, self.now, it.cost))
                    .collect();
            }
            Some(binding) => {
                counts.written += u64::from(writes > 0);
                if let Some(wait_us) = expected.said[binding].wait_us {
                    self.wait(met[binding], wait_us, counts)?;
                }
            }
        }
        Ok(())
    }

    /// What exact fractions say, and spend.
    fn by_fractions(&mut self, met: &[Met]) -> Outcome {
        let now = self.now;
        let mut models: Vec<Model> = met
            .iter()
            .map(|it| self.limits[it.place].model(now))
            .collect();
        let mut said: Vec<Said> = Vec::new();
        for (it, model) in met.iter().zip(&models) {
            said.push(Said {
                wait_us: model.wait(now, it.cost),
                remaining: 0,
            });
        }
        let binding = longest(met, &said);
        for ((it, model), said) in met.iter().zip(&mut models).zip(&mut said) {
            if binding.is_none() && said.wait_us == Some(0) && it.cost > 0 {
                model.spend(now, it.cost);
                self.limits[it.place].keep(model.clone());
            }
            said.remaining = model.remaining(now);
        }
        Outcome { said, binding }
    }

    fn by_script(&mut self, op: &str, met: &[Met], now: Tick) -> anyhow::Result<(Outcome, usize)> {
        if met.is_empty() {
            let nothing = Outcome {
                said: Vec::new(),
                binding: None,
            };
            return Ok((nothing, 0));
        }
        let told = met.iter().map(|it| Told {
            spec: &self.limits[it.place].spec,
            cost: it.cost,
            shadow: it.shadow,
        });
        let arguments = taking(op, &told.collect::<Vec<_>>());
        let keys: Vec<String> = met.iter().map(|it| self.name(it.place)).collect();
        let Keepers { redis, script } = &mut self.keepers;
        let ran = if op == "take" {
            redis.run(script, &keys, &arguments, now)?
        } else {
            redis.look(script, &keys, &arguments, now)?
        };
        let said = said(&ran.reply);
        let binding = longest(met, &said);
        anyhow::ensure!(
            (ran.reply[0] == 1) == binding.is_none(),
            "the script contradicts itself"
        );
        Ok((Outcome { said, binding }, ran.writes))
    }

    /// Tries what was promised: after so long it passes, and not a microsecond earlier.
    fn wait(&mut self, met: Met, wait_us: u64, counts: &mut Counts) -> anyhow::Result<()> {
        counts.waits += 1;
        let met = [met];
        let mut pass = [false; 2];
        for (pass, wait_us) in pass.iter_mut().zip([wait_us, wait_us - 1]) {
            let then = self.now.plus(wait_us);
            let table: Outcome = self.table.ask(&self.asked(&met), then).into();
            let (redis, _) = self.by_script("ask", &met, then)?;
            // Neither may be what the other is not.
            if table.binding != redis.binding {
                counts.differences.push(format!(
                    "story {}: after {wait_us} µs the table says {table:?} and the script {redis:?}",
                    self.seed
                ));
                return Ok(());
            }
            *pass = table.binding.is_none();
        }
        counts.enough += u64::from(pass[0]);
        // What was used of a limit that has changed is forgotten when it would be full by what it was, which may be
        // sooner than was promised.
        if !self.limits[met[0].place].has_changed() {
            counts.unchanged += 1;
            counts.tight += u64::from(!pass[1]);
        }
        Ok(())
    }

    /// Settles what the last request took: all or some of it comes back, or more is owed.
    fn settle(&mut self, counts: &mut Counts) -> anyhow::Result<()> {
        for (place, at, taken) in std::mem::take(&mut self.taken) {
            let used = match self.rng.below(3) {
                0 => 0,
                _ => self.rng.below(2 * taken + 2),
            };
            counts.settled += 1;
            let settled = Settled {
                key: key(place),
                tag: SlotTag::from_bits(0),
                spec: &self.limits[place].spec,
                at,
                taken,
                used,
            };
            self.table.settle(&[settled], self.now);
            let more = used as i64 - taken as i64;
            let arguments = settling(&self.limits[place].spec, more, at.0);
            let keys = [self.name(place)];
            let Keepers { redis, script } = &mut self.keepers;
            redis.run(script, &keys, &arguments, self.now)?;
            let limit = &mut self.limits[place];
            let mut model = limit.model(self.now);
            if used > taken {
                model.charge(self.now, used - taken);
            } else {
                model.give_back(self.now, at, taken - used);
            }
            if used != taken {
                limit.keep(model);
            }
        }
        Ok(())
    }

    /// Makes a bucket another one. As many tokens count as used.
    fn change(&mut self, place: usize, counts: &mut Counts) {
        let limit = &mut self.limits[place];
        let bucket = limit.words.algorithm == Algorithm::Bucket && limit.words.rate.tokens > 0;
        if !bucket {
            return;
        }
        if let Some(words) = draw::of(Algorithm::Bucket, &mut self.rng) {
            counts.changes += 1;
            limit.words = words;
            limit.spec = Arc::new(words.spec());
        }
    }

    fn asked(&self, met: &[Met]) -> Vec<Asked<'_>> {
        let mut asked = Vec::new();
        for it in met {
            asked.push(Asked {
                key: key(it.place),
                tag: SlotTag::from_bits(0),
                spec: &self.limits[it.place].spec,
                cost: it.cost,
                standing: if it.shadow {
                    Standing::Shadow
                } else {
                    Standing::Enforced
                },
            });
        }
        asked
    }

    fn name(&self, place: usize) -> String {
        format!("tg:l:{{drill}}:{}:{place}", self.seed)
    }
}

impl Limit {
    fn new(words: Words) -> Self {
        Self {
            spec: Arc::new(words.spec()),
            words,
            kept: None,
        }
    }

    /// What it has now, counted by the words of now.
    fn model(&self, now: Tick) -> Model {
        let full = || Model::new(self.words, None, now);
        let Some((words, model)) = &self.kept else {
            return full();
        };
        let mut model = model.clone();
        if *words != self.words {
            // What would have been full by now is.
            if model.time_to_full(now) == 0 {
                return full();
            }
            model.rescale(self.words);
            model.settle();
        }
        model
    }

    /// Whether what is kept was counted by other words.
    fn has_changed(&self) -> bool {
        let kept = self.kept.as_ref();
        kept.is_some_and(|(words, _)| *words != self.words)
    }

    fn keep(&mut self, model: Model) {
        self.kept = Some((self.words, model));
    }
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        let said = answer.said.iter().map(|said| match *said {
            TableSaid::Passes { remaining, .. } => Said {
                wait_us: Some(0),
                remaining,
            },
            TableSaid::Short { short, remaining } => Said {
                wait_us: match short {
                    Short::Wait { wait_us } => Some(wait_us),
                    Short::Never => None,
                },
                remaining,
            },
            TableSaid::Unasked => Said {
                wait_us: None,
                remaining: u64::MAX,
            },
        });
        Self {
            said: said.collect(),
            binding: answer.binding,
        }
    }
}

/// The limits that a request which passed has spent from.
fn spent<'a>(met: &'a [Met], outcome: &'a Outcome) -> impl Iterator<Item = &'a Met> {
    let both = met.iter().zip(&outcome.said);
    both.filter(|(it, said)| said.wait_us == Some(0) && it.cost > 0)
        .map(|(it, _)| it)
}

fn longest(met: &[Met], said: &[Said]) -> Option<usize> {
    let mut longest: Option<(usize, u64)> = None;
    for (place, (it, said)) in met.iter().zip(said).enumerate() {
        let wait = said.wait_us.unwrap_or(u64::MAX);
        if !it.shadow && wait > longest.map_or(0, |(_, wait)| wait) {
            longest = Some((place, wait));
        }
    }
    longest.map(|(place, _)| place)
}

/// One that looks like a hash.
fn key(place: usize) -> u128 {
    let mut rng = Rng::new(place as u64);
    u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())
}
