//! What nodes ask of the store that spend from a limit without asking for each request: tokens ahead, a place for what
//! they have spent, and who else is there.
//!
//! The node's side of each is [`tidegate_core::rate::share`], and so is the store's as a model; what runs in the store is a
//! script, which a test holds to the model.

use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tidegate_core::rate::BucketSpec;
use tidegate_core::rate::share::Life;
use tidegate_core::rate::share::aggregate::{Report, Told};
use tidegate_core::rate::share::following::{Epoch, MEMBERS_MAX, Member, Membership};
use tidegate_core::rate::share::lease::{Ask, Grant, LeasePlan};
use tidegate_core::session::SlotTag;

use super::RedisLimits;
use crate::Call;
use crate::error::StoreError;
use crate::redis::{DIVIDE, DIVIDERS, Elements, Lane, Run, SHARE, limit_key, limit_speakers};

/// A node asks for tokens of one limit to spend by itself.
#[derive(Clone, Copy, Debug)]
pub struct Leased<'a> {
    /// As it is [`Asked`](super::super::Asked): both take from one bucket.
    pub key: u128,
    /// Limits of one tag are asked for together.
    pub tag: SlotTag,
    /// The whole limit.
    pub spec: &'a BucketSpec,
    /// How it is leased.
    pub plan: &'a LeasePlan,
    /// What the node wants, and what it gives back.
    pub ask: Ask,
}

/// A node says what it has spent of one limit.
#[derive(Clone, Copy, Debug)]
pub struct Reported<'a> {
    /// Whose state it is.
    pub key: u128,
    /// Limits of one tag are reported together.
    pub tag: SlotTag,
    /// The whole limit.
    pub spec: &'a BucketSpec,
    /// For how long the store is to remember the report, in microseconds.
    pub kept_us: u64,
    /// The report.
    pub report: Report,
}

/// What a node is told that divides limits with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dividing {
    /// Who is there.
    pub membership: Membership,
    /// What the fleet's keys are hashed with: see [`RateSecret`](crate::RateSecret).
    pub secret: [u8; 16],
}

impl RedisLimits {
    /// Asks for tokens, of each limit apart; in the order of `asks`. `None` where a later ask of the same life was there
    /// before. To ask the same again gets what it got.
    ///
    /// It takes one call, in a Cluster one for each tag.
    pub async fn lease(
        &self,
        asks: &[Leased<'_>],
        call: Call,
    ) -> Vec<Result<Option<Grant>, StoreError>> {
        let tags = asks.iter().map(|it| it.tag);
        let run = |run: Run, place: usize| {
            let Leased {
                key,
                tag,
                spec,
                plan,
                ask,
            } = asks[place];
            let kept_us = plan.ttl_us.saturating_mul(2);
            with_bucket(run, tag, key, spec)
                .number(ask.life.0)
                .number(ask.seq)
                .number(kept_us)
                .number(ask.wanted)
                .number(ask.least)
                .number(ask.returned)
                .number(plan.horizon_us)
        };
        let read = |place: usize, first: i64, again_us: i64| {
            let seq = asks[place].ask.seq;
            u64::try_from(first).ok().map(|tokens| Grant {
                seq,
                tokens,
                again_us: again_us.unsigned_abs(),
            })
        };
        self.share("lease", tags, run, read, call).await
    }

    /// Reports what was spent, of each limit apart; in the order of `reports`. To report the same again counts once.
    ///
    /// It takes one call, in a Cluster one for each tag.
    pub async fn report(
        &self,
        reports: &[Reported<'_>],
        call: Call,
    ) -> Vec<Result<Told, StoreError>> {
        let tags = reports.iter().map(|it| it.tag);
        let run = |run: Run, place: usize| {
            let Reported {
                key,
                tag,
                spec,
                kept_us,
                report,
            } = reports[place];
            with_bucket(run, tag, key, spec)
                .number(report.life.0)
                .number(report.seq)
                .number(kept_us)
                .number(report.spent)
                .number(report.returned)
                .number(0)
                .number(0)
        };
        let read = |place: usize, credits: i64, _: i64| Told {
            seq: reports[place].report.seq,
            credits,
        };
        self.share("report", tags, run, read, call).await
    }

    /// Keeps `life`, which follows `follows`, among those that divide limits, for `lease` from now on, and says who is
    /// there. `secret` is the fleet's from now on if it has none: the answer has the one that counts.
    ///
    /// An error of [`StoreError::Refused`] also where there are [`MEMBERS_MAX`] already.
    pub async fn divide(
        &self,
        life: Life,
        follows: Epoch,
        lease: Duration,
        secret: [u8; 16],
        call: Call,
    ) -> Result<Dividing, StoreError> {
        let lease_us = u64::try_from(lease.as_micros()).unwrap_or(u64::MAX);
        self.follow(life, follows, lease_us, secret, call).await
    }

    /// Takes `life` out, which has stopped using its part.
    pub async fn divide_no_more(
        &self,
        life: Life,
        secret: [u8; 16],
        call: Call,
    ) -> Result<(), StoreError> {
        let left = self.follow(life, Epoch(0), 0, secret, call).await;
        left.map(drop)
    }

    async fn follow(
        &self,
        life: Life,
        follows: Epoch,
        lease_us: u64,
        secret: [u8; 16],
        call: Call,
    ) -> Result<Dividing, StoreError> {
        let run = Run::of(&DIVIDE)
            .key(DIVIDERS)
            .number(life.0)
            .number(follows.0)
            .number(lease_us)
            .number(MEMBERS_MAX)
            .arg(hex(secret));
        let servers = self.0.redis.servers();
        dividing(servers.run(&run, Lane::Bulk, call).await?)
    }

    async fn share<T>(
        &self,
        op: &str,
        tags: impl Iterator<Item = SlotTag>,
        with: impl Fn(Run, usize) -> Run,
        read: impl Fn(usize, i64, i64) -> T,
        call: Call,
    ) -> Vec<Result<T, StoreError>> {
        let groups = self.groups(tags);
        let runs: Vec<Run> = groups
            .iter()
            .map(|group| group.iter().copied().fold(Run::of(&SHARE).arg(op), &with))
            .collect();
        let servers = self.0.redis.servers();
        let replies = join_all(runs.iter().map(|run| servers.run(run, Lane::Fast, call))).await;

        let count = groups.iter().map(Vec::len).sum();
        let mut said: Vec<_> = (0..count).map(|_| Err(StoreError::Away)).collect();
        for (group, reply) in groups.iter().zip(replies) {
            let mut elements = reply.and_then(|reply| Elements::of("share", reply));
            for &place in group {
                said[place] = match &mut elements {
                    Ok(elements) => {
                        pair(elements).map(|(first, second)| read(place, first, second))
                    }
                    Err(error) => Err(error.clone()),
                };
            }
        }
        said
    }
}

/// `run` with the keys of a bucket and what it is.
fn with_bucket(run: Run, tag: SlotTag, key: u128, spec: &BucketSpec) -> Run {
    run.key(limit_key(tag, key))
        .key(limit_speakers(tag, key))
        .number(spec.credits_per_us())
        .number(spec.credits_per_token())
        .number(spec.credits_when_full())
}

fn pair(elements: &mut Elements) -> Result<(i64, i64), StoreError> {
    Ok((elements.integer()?, elements.integer()?))
}

fn dividing(reply: Value) -> Result<Dividing, StoreError> {
    let mut elements = Elements::of("divide", reply)?;
    if elements.integer()? != 0 {
        return Err(StoreError::Refused("the fleet is full".to_owned()));
    }
    let (epoch, age_us) = (Epoch(elements.natural()?), elements.natural()?);
    let secret = unhex(&elements.text()?).ok_or_else(|| elements.odd())?;
    let mut members = Vec::new();
    while !elements.is_empty() {
        let life = elements.text()?.parse().map_err(|_| elements.odd())?;
        members.push(Member {
            life: Life(life),
            since: Epoch(elements.natural()?),
            follows: Epoch(elements.natural()?),
            left_us: elements.natural()?,
        });
    }
    Ok(Dividing {
        membership: Membership {
            epoch,
            age_us,
            members,
        },
        secret,
    })
}

fn hex(secret: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(secret))
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    let number = (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok());
    number.flatten().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests;
