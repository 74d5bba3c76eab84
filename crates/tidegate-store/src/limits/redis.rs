//! Limits in Redis or Valkey, for a fleet.

mod secret;
mod share;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Value, cmd};
use tidegate_core::rate::set::{LIMITS_MAX, Standing};
use tidegate_core::rate::{Short, Spec, Tick};
use tidegate_core::session::SlotTag;
use tokio::time::Instant;

use super::denied::{Denied, Mark};
use super::{Answer, Asked, Few, Said, Settled, Then};
use crate::Call;
use crate::error::StoreError;
use crate::redis::{Elements, LIMIT, Lane, Redis, Run, limit_key, limit_speakers};

pub use share::{Dividing, Leased, Reported};

/// Limits that a fleet shares. The server's clock is that of every state. A clone is the same.
///
/// All limits of a request are decided by one script in one round trip, at once for everybody else. In a Cluster that goes for
/// limits of one tag; where a request has several, each is decided where it is, all at the same time, and what was
/// spent is given back when another refuses. Others may be refused in between, and never does more pass.
///
/// Nothing is done twice: of a call without an answer nobody knows whether it has happened, and it counts as if it had.
#[derive(Clone)]
pub struct RedisLimits(Arc<Inner>);

struct Inner {
    redis: Redis,
    denied: Denied,
}

/// The limits of one tag by their places in the request.
type Group = Vec<usize>;

impl RedisLimits {
    /// Limits in `redis`, which was started for [`Use::Limits`](crate::redis::Use::Limits).
    pub fn new(redis: Redis) -> Self {
        Self(Arc::new(Inner {
            redis,
            denied: Denied::new(),
        }))
    }

    /// Spends from all of `asked` if the enforced ones let it, and from none otherwise. `now` is this node's own clock, which
    /// does not go back.
    ///
    /// What is known to be refused is refused without asking, and then nothing is said of the others. An error means that
    /// nothing may be known of any: what has been spent is given back as far as it is known.
    ///
    /// Panics at more than [`LIMITS_MAX`] limits.
    pub async fn take(
        &self,
        asked: &[Asked<'_>],
        now: Tick,
        call: Call,
    ) -> Result<Answer, StoreError> {
        if let Some(refused) = self.refused_here(asked, now) {
            return Ok(refused);
        }
        let denied = &self.0.denied;
        let marks: Vec<Mark> = asked.iter().map(|it| denied.mark(it.key)).collect();
        let begun = Instant::now();
        let (answer, more_us) = self.decide(asked, Then::Spend, call).await?;
        let elapsed_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        for (place, (it, mark)) in asked.iter().zip(marks).enumerate() {
            let (it, said) = match answer.said[place] {
                // What costs more than is left is as good as refused.
                Said::Passes { remaining, .. } if answer.passes() && more_us[place] > 0 => {
                    let short = Short::Wait {
                        wait_us: more_us[place],
                    };
                    let cost = remaining.saturating_add(1);
                    (Asked { cost, ..*it }, Said::Short { short, remaining })
                }
                said => (*it, said),
            };
            // Counted from when the answer is here: whoever is told so finds the tokens there.
            denied.note(&it, said, mark, now.plus(elapsed_us));
        }
        Ok(answer)
    }

    /// What [`Self::take`] would say, without spending. Always asks.
    pub async fn ask(&self, asked: &[Asked<'_>], call: Call) -> Result<Answer, StoreError> {
        let (answer, _) = self.decide(asked, Then::Leave, call).await?;
        Ok(answer)
    }

    /// Settles what was taken. To be called once for each take; what is never settled has cost what was taken, and so has
    /// what was settled in vain.
    pub async fn settle(&self, settled: &[Settled<'_>], call: Call) -> Result<(), StoreError> {
        assert!(settled.len() <= LIMITS_MAX, "more limits than were taken");
        let groups = self.groups(settled.iter().map(|it| it.tag));
        let its = |group: &Group| {
            group
                .iter()
                .map(|&place| settled[place])
                .collect::<Vec<_>>()
        };
        let runs: Vec<Run> = groups.iter().map(|group| settling(&its(group))).collect();
        let servers = self.0.redis.servers();
        let done = join_all(runs.iter().map(|run| servers.run(run, Lane::Fast, call))).await;
        for it in settled.iter().filter(|it| it.used < it.taken) {
            self.0.denied.clear(it.key);
        }
        done.into_iter().try_for_each(|said| said.map(drop))
    }

    /// Forgets a key: nothing of its limit is used, and what nodes have ahead of it does not come back any more.
    pub async fn forget(&self, tag: SlotTag, key: u128, call: Call) -> Result<(), StoreError> {
        let name = limit_key(tag, key);
        let mut command = cmd("UNLINK");
        command.arg(&name).arg(limit_speakers(tag, key));
        let servers = self.0.redis.servers();
        let done = servers.command(name.as_bytes(), &command, Lane::Fast, call);
        let done = done.await.map(drop);
        self.0.denied.clear(key);
        done
    }

    /// The refusal of one limit, if the store need not be asked for it: [`Said::Short`] then.
    pub fn known_refusal(&self, asked: &Asked<'_>, now: Tick) -> Option<Said> {
        self.0.denied.refuses(asked, now)
    }

    /// How often a limit's refusal was known here, so that the store was not asked.
    pub fn known_refusals(&self) -> u64 {
        self.0.denied.used()
    }

    /// Whether the server that has limits of `tag` is known to be away, or has answered nothing, whatever it was asked, since
    /// a call failed more than `longer_than` ago.
    pub fn is_silent(&self, tag: SlotTag, longer_than: Duration) -> bool {
        // All keys of a tag are on one server.
        let key = limit_key(tag, 0);
        let servers = self.0.redis.servers();
        servers.is_silent(key.as_ref(), longer_than)
    }

    /// How the servers are.
    pub fn redis(&self) -> &Redis {
        &self.0.redis
    }

    /// The refusal, if one is known without asking.
    fn refused_here(&self, asked: &[Asked<'_>], now: Tick) -> Option<Answer> {
        let known = |it: &Asked<'_>| match it.standing {
            Standing::Shadow => None,
            Standing::Enforced if never(it) => Some(Said::Short {
                short: Short::Never,
                remaining: 0,
            }),
            Standing::Enforced => self.0.denied.refuses(it, now),
        };
        let mut said = Few::new();
        for (place, it) in asked.iter().enumerate() {
            if let Some(short) = known(it) {
                said.resize(asked.len(), Said::Unasked);
                said[place] = short;
            }
        }
        (!said.is_empty()).then(|| Answer::of(asked, said))
    }

    /// What the limits say, and in how many microseconds each has a token more than is left, 0 where that is not known.
    async fn decide(
        &self,
        asked: &[Asked<'_>],
        then: Then,
        call: Call,
    ) -> Result<(Answer, Few<u64>), StoreError> {
        assert!(
            asked.len() <= LIMITS_MAX,
            "more limits than a request may have"
        );
        let groups = self.groups(asked.iter().map(|it| it.tag));
        let answers = join_all(
            groups
                .iter()
                .map(|group| self.decide_group(asked, group, then, call)),
        );
        let answers = answers.await;
        let mut said = Few::from_elem(Said::Unasked, asked.len());
        let mut more_us = Few::from_elem(0, asked.len());
        for (group, answer) in groups.iter().zip(&answers) {
            for (&place, &its) in group.iter().zip(answer.iter().flatten()) {
                (said[place], more_us[place]) = its;
            }
        }
        let answer = Answer::of(asked, said);
        let failed = answers.iter().any(Result::is_err);
        if then == Then::Spend && groups.len() > 1 && (failed || !answer.passes()) {
            self.give_back(asked, &groups, &answer, call).await;
        }
        answers
            .into_iter()
            .try_for_each(|answer| answer.map(drop))?;
        Ok((answer, more_us))
    }

    /// Gives back what groups have spent that let a request pass which another one did not.
    async fn give_back(&self, asked: &[Asked<'_>], groups: &[Group], answer: &Answer, call: Call) {
        let mut settled = Vec::new();
        for group in groups {
            let refuses = |place: &usize| {
                let passes = matches!(answer.said[*place], Said::Passes { .. });
                asked[*place].standing == Standing::Enforced && !passes
            };
            if group.iter().any(refuses) {
                continue;
            }
            for &place in group {
                if let Said::Passes { at, .. } = answer.said[place] {
                    let it = &asked[place];
                    settled.push(Settled {
                        key: it.key,
                        tag: it.tag,
                        spec: it.spec,
                        at,
                        taken: it.cost,
                        used: 0,
                    });
                }
            }
        }
        // What does not come back stays spent, which is what a failure is to cost.
        let _ = self.settle(&settled, call).await;
    }

    async fn decide_group(
        &self,
        asked: &[Asked<'_>],
        group: &[usize],
        then: Then,
        call: Call,
    ) -> Result<Few<(Said, u64)>, StoreError> {
        let op = match then {
            Then::Spend => "take",
            Then::Leave => "ask",
        };
        let its: Vec<Asked<'_>> = group.iter().map(|&place| asked[place]).collect();
        let run = run_of(op, &its);
        let said = self.0.redis.servers().run(&run, Lane::Fast, call).await?;
        said_of(said, group.len())
    }

    /// Which limits are decided together.
    fn groups(&self, tags: impl Iterator<Item = SlotTag>) -> Vec<Group> {
        let mut groups: Vec<(SlotTag, Group)> = Vec::new();
        let apart = self.0.redis.servers().names_slots_apart();
        for (place, tag) in tags.enumerate() {
            match groups.iter_mut().find(|(known, _)| !apart || *known == tag) {
                Some((_, group)) => group.push(place),
                None => groups.push((tag, vec![place])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

/// Whether no wait would help.
fn never(asked: &Asked<'_>) -> bool {
    asked.cost > asked.spec.most() || **asked.spec == Spec::Deny
}

/// The run that takes or asks.
fn run_of(op: &str, asked: &[Asked<'_>]) -> Run {
    let mut run = Run::of(&LIMIT).arg(op);
    for it in asked {
        let (unit, most) = units(it.spec);
        // More than there ever is, however much more.
        let amount = (u128::from(it.cost) * u128::from(unit)).min(u128::from(most) + 1);
        let shadow = u8::from(it.standing == Standing::Shadow);
        run = run.key(limit_key(it.tag, it.key));
        run = with_spec(run, it.spec).number(amount).number(shadow);
    }
    run
}

/// The run that settles.
fn settling(settled: &[Settled<'_>]) -> Run {
    let mut run = Run::of(&LIMIT).arg("settle");
    for it in settled {
        let (unit, most) = units(it.spec);
        let more = i128::from(it.used) - i128::from(it.taken);
        // There is never more than twice what there is at most.
        let all = 2 * i128::from(most) + 1;
        let more = more.clamp(-all, all) * i128::from(unit);
        run = run.key(limit_key(it.tag, it.key));
        run = with_spec(run, it.spec)
            .number(more.clamp(-all, all))
            .number(it.at.0);
    }
    run
}

/// In what a limit counts, for a token, and the most there is of it.
const fn units(spec: &Spec) -> (u64, u64) {
    match spec {
        Spec::Bucket(spec) => (spec.credits_per_token(), spec.credits_when_full() as u64),
        Spec::Log(spec) => (1, spec.limit()),
        Spec::Window(spec) => (1, spec.limit()),
        Spec::Deny => (0, 0),
    }
}

/// The letter of a limit and its three measures.
fn with_spec(run: Run, spec: &Spec) -> Run {
    let (letter, measures) = match spec {
        Spec::Bucket(it) => (
            "b",
            [
                it.credits_per_us(),
                it.credits_per_token(),
                it.credits_when_full() as u64,
            ],
        ),
        Spec::Log(it) => ("l", [it.window_us(), 0, it.limit()]),
        Spec::Window(it) => ("w", [it.window_us(), it.grain_us(), it.limit()]),
        Spec::Deny => ("d", [0; 3]),
    };
    measures.into_iter().fold(run.arg(letter), Run::number)
}

/// What the script says of `count` limits, and when each has a token more.
fn said_of(reply: Value, count: usize) -> Result<Few<(Said, u64)>, StoreError> {
    let mut elements = Elements::of("limit", reply)?;
    let _passes = elements.integer()?;
    let at = Tick(elements.natural()?);
    let mut said = Few::with_capacity(count);
    for _ in 0..count {
        let (wait, remaining) = (elements.integer()?, elements.natural()?);
        let more_us = elements.natural()?;
        let its = match u64::try_from(wait) {
            Ok(0) => Said::Passes { at, remaining },
            Ok(wait_us) => Said::Short {
                short: Short::Wait { wait_us },
                remaining,
            },
            Err(_) => Said::Short {
                short: Short::Never,
                remaining,
            },
        };
        said.push((its, more_us));
    }
    Ok(said)
}

#[cfg(test)]
mod tests;
