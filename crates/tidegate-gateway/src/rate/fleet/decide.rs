//! A request at the limits of the fleet: first what this node decides by itself, then what it has to ask for. All
//! that it meets let it pass, or none is spent from.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::rate::key::Part;
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::share::OnLoss;
use tidegate_core::rate::{Price, Short, Tick};
use tidegate_store::Call;
use tidegate_store::limits::{Asked, Said};
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, timeout_at};

use super::super::who::KeyHash;
use super::counts::{Called, Without};
use super::parts::Keys;
use super::plan::{FleetMode, FleetPlan};
use super::post::Return;
use super::seat::{By, Here, Seat};
use super::{Fleet, Inner, REST_US, tag_of};

/// Longest wait of one request for the store, whatever it asks for.
const WAIT_MAX: Duration = Duration::from_millis(8);

/// A limit that is told by reports, and lets nothing pass without the store, goes on for so long after a call that had no
/// answer: until the next one could have had its own.
const SILENCE_MAX: Duration = Duration::from_micros(REST_US).saturating_add(WAIT_MAX);

/// The limits that a request meets.
pub(crate) struct Wants {
    keys: Arc<Keys>,
    list: Vec<Want>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Want {
    /// The limit's place in the plan.
    pub(crate) limit: u16,
    pub(crate) key: u128,
    /// As it is counted.
    pub(crate) cost: u64,
    /// What a token takes of that.
    pub(crate) price: Price,
    pub(crate) standing: Standing,
    /// It lacks what the limit counts by, and is refused for that.
    deny: bool,
}

/// What a request was given its tokens by, to be given back if it comes to nothing.
#[derive(Debug)]
pub(crate) struct Held {
    /// The limit's place in the plan.
    pub(crate) limit: u16,
    key: u128,
    pub(crate) cost: u64,
    pub(crate) price: Price,
    by: By,
}

/// Why it does not pass.
#[derive(Debug)]
pub(crate) struct Denied {
    /// The limits that refuse, by their places; never empty.
    pub(crate) violated: Vec<u16>,
    /// The one with the longest wait.
    pub(crate) binding: u16,
    /// How long that is; `None` if nobody knows, as the store is away.
    pub(crate) short: Option<Short>,
    /// What is left of it.
    pub(crate) remaining: u64,
    /// Limits in the shadow that would have refused, too.
    pub(crate) shadowed: Vec<u16>,
}

/// What has been said so far.
#[derive(Default)]
struct Verdicts {
    denied: Option<Denied>,
    /// Limits in the shadow that would have refused.
    shadowed: Vec<u16>,
}

impl Wants {
    /// None yet.
    pub(crate) fn new(fleet: &Fleet, room: usize) -> Self {
        Self {
            keys: fleet.keys(),
            list: Vec::with_capacity(room),
        }
    }

    /// What API keys are hashed with.
    pub(crate) fn key_hash(&self) -> &KeyHash {
        &self.keys.key_hash
    }

    /// What is wanted of limit number `limit`.
    pub(crate) fn of(&self, limit: u16) -> Option<&Want> {
        self.list.iter().find(|want| want.limit == limit)
    }

    /// Adds the limit number `limit`, that counts the request by `parts` at such a cost and price; to `deny` it if it lacks one of them.
    pub(crate) fn add(
        &mut self,
        limit: u16,
        standing: Standing,
        parts: &[Part<'_>],
        (cost, price): (u64, Price),
        deny: bool,
    ) {
        self.list.push(Want {
            limit,
            key: self.keys.key(limit, standing, parts),
            cost,
            price,
            standing,
            deny,
        });
    }
}

impl Fleet {
    /// Spends from all that the request wants, and adds to `held` by what it was given; or says why it does not pass,
    /// having spent what `held` says. Otherwise the limits in the shadow that would have refused.
    ///
    /// May be given up at any time: then `held` has what is to be given back.
    pub(crate) async fn take(
        &self,
        wants: &Wants,
        held: &mut Vec<Held>,
    ) -> Result<Vec<u16>, Denied> {
        let inner = &*self.inner;
        let deadline = Instant::now() + WAIT_MAX;
        let mut verdicts = Verdicts::default();
        let (mut asking, mut at_store, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        for want in &wants.list {
            let here = match wants.keys.are_shared {
                _ if want.deny => Here::Short {
                    short: Short::Never,
                    remaining: 0,
                },
                true => inner.here(want),
                false => Here::Lost,
            };
            match here {
                Here::Ask(bell) => asking.push((want, bell)),
                Here::Store => at_store.push(want),
                Here::Lost => lost.push(want),
                here => verdicts.hear(want, here, held),
            }
            if verdicts.denied.is_some() {
                return verdicts.done();
            }
        }
        for (want, bell) in asking {
            match inner.answer(want, bell, deadline).await {
                Here::Store => at_store.push(want),
                Here::Lost | Here::Ask(_) => lost.push(want),
                here => verdicts.hear(want, here, held),
            }
        }
        // Those that nobody has to be asked for come before those that somebody has.
        for want in lost {
            inner.without(want, &mut verdicts, held);
        }
        if verdicts.denied.is_some() || at_store.is_empty() {
            return verdicts.done();
        }
        if let Some((want, here)) = inner.wait_for_turns(&at_store, deadline).await {
            verdicts.hear(want, here, held);
            return verdicts.done();
        }
        if !inner
            .ask_store(&at_store, deadline, &mut verdicts, held)
            .await
        {
            for want in at_store {
                inner.without(want, &mut verdicts, held);
            }
        }
        verdicts.done()
    }

    /// Gives back what a request was given that comes to nothing.
    pub(crate) fn give_back(&self, held: &Held) {
        self.settle(held, 0);
    }

    /// Settles what a request was given, of which it has `used` so much: fewer tokens than it was given, or more.
    pub(crate) fn settle(&self, held: &Held, used: u64) {
        if used == held.cost {
            return;
        }
        let inner = &*self.inner;
        let limit = inner.limit(held.limit);
        let now = inner.now();
        let mut at_store = match held.by {
            By::Store(at) => Some((at, held.cost, used)),
            By::Seat | By::Apart | By::Nothing => None,
        };
        let mut shard = inner.table.shard(held.key);
        let shard = &mut *shard;
        if let Some(seat) = shard.seats.get_mut(&held.key) {
            let following = inner.parts.following();
            if used < held.cost {
                let unused = held.cost - used;
                if !seat.give_back(limit, &following, held.by, now, unused) {
                    inner.counts.lost(1);
                }
            } else if !seat.charge(limit, &following, held.by, now, used - held.cost) {
                at_store = Some((now, 0, used - held.cost));
            }
            drop(following);
            inner.speak(held.key, seat, &mut shard.rng, now);
        } else if held.by == By::Seat {
            inner.counts.lost(1);
        }
        if let Some((at, taken, used)) = at_store {
            let it = Return {
                key: held.key,
                spec: Arc::clone(&limit.spec),
                at,
                taken,
                used,
            };
            if !inner.post.give_back(it) {
                inner.counts.lost(1);
            }
        }
    }
}

impl Inner {
    /// What this node decides by itself.
    fn here(&self, want: &Want) -> Here {
        let limit = self.limit(want.limit);
        // Before it counts as a question: one that keeps coming is not asked for often.
        if let Some(refused) = self.known_refusal(want) {
            return refused;
        }
        let on_loss = self.limit(want.limit).plan.on_loss;
        let is_silent = self.is_silent(want);
        self.at_seat(want, |seat, now| {
            match on_loss {
                OnLoss::Closed if is_silent => return seat.hear_first(now),
                OnLoss::Local if is_silent && seat.has_nothing_to_go_on(now) => return Here::Lost,
                _ => {}
            }
            let following = self.parts.following();
            seat.take(limit, &following, self.next_life(), now, want.cost)
        })
    }

    /// Whether the limit would go on by what it knows or, of a key that is new here, by what it supposes, though the store has been
    /// silent for too long.
    fn is_silent(&self, want: &Want) -> bool {
        let FleetPlan { mode, on_loss } = self.limit(want.limit).plan;
        matches!(mode, FleetMode::Aggregate(_))
            && on_loss != OnLoss::Open
            && self.store.is_silent(tag_of(want.key), SILENCE_MAX)
    }

    /// The store's refusal, if it is known without asking.
    fn known_refusal(&self, want: &Want) -> Option<Here> {
        let is_shared = self.limit(want.limit).plan.mode == FleetMode::Shared;
        if !is_shared || want.standing == Standing::Shadow {
            return None;
        }
        match self.store.known_refusal(&self.question(want), self.now())? {
            Said::Short { short, remaining } => Some(Here::Short { short, remaining }),
            Said::Passes { .. } | Said::Unasked => None,
        }
    }

    /// What the store is asked for.
    fn question(&self, want: &Want) -> Asked<'_> {
        Asked {
            key: want.key,
            tag: tag_of(want.key),
            spec: &self.limit(want.limit).spec,
            cost: want.cost,
            standing: want.standing,
        }
    }

    /// What `decide` says at the seat of what is wanted, which then may speak.
    fn at_seat(&self, want: &Want, decide: impl FnOnce(&mut Seat, Tick) -> Here) -> Here {
        let now = self.now();
        let mut shard = self.table.shard(want.key);
        if self.table.is_full(&shard) && !shard.seats.contains_key(&want.key) {
            let following = self.parts.following();
            let needed = |seat: &Seat| seat.is_needed(self.limit(seat.limit), &following, now);
            let (gone, lost) = shard.make_room(needed);
            drop(following);
            self.counts.evicted.fetch_add(lost, Ordering::Relaxed);
            self.part_with(gone, &mut shard.rng, now);
        }
        let shard = &mut *shard;
        let seat = shard.seats.entry(want.key).or_insert_with(|| {
            Seat::new(want.limit, self.limit(want.limit), self.next_life(), now)
        });
        let here = decide(seat, now);
        // Nobody is waited for who was silent a moment ago.
        let here = match here {
            Here::Ask(_) if self.is_resting(want.key, now) => Here::Lost,
            here => here,
        };
        self.speak(want.key, seat, &mut shard.rng, now);
        here
    }

    /// What this node decides when the store has answered, until `deadline`.
    async fn answer(&self, want: &Want, mut bell: OwnedNotified, deadline: Instant) -> Here {
        loop {
            if timeout_at(deadline, bell).await.is_err() {
                return Here::Lost;
            }
            match self.here(want) {
                Here::Ask(next) => bell = next,
                here => return here,
            }
        }
    }

    /// Waits until nobody else asks for one of the keys that have no tokens to spare, or until `deadline`; what is
    /// then known to be refused.
    ///
    /// Whoever has taken the turn of one key does not wait for another.
    async fn wait_for_turns<'w>(
        &self,
        wants: &[&'w Want],
        deadline: Instant,
    ) -> Option<(&'w Want, Here)> {
        loop {
            let bell = wants.iter().enumerate().find_map(|(place, want)| {
                let take_turn = |seat: &mut Seat| seat.take_turn(want.standing).err();
                let bell = self.turn(want, take_turn).flatten()?;
                for taken in &wants[..place] {
                    self.turn(taken, |seat| seat.end_turn(None));
                }
                Some(bell)
            });
            timeout_at(deadline, bell?).await.ok()?;
            let refused = |want: &&'w Want| Some((*want, self.known_refusal(want)?));
            if let Some(refused) = wants.iter().find_map(refused) {
                return Some(refused);
            }
        }
    }

    fn turn<T>(&self, want: &Want, with: impl FnOnce(&mut Seat) -> T) -> Option<T> {
        let mut shard = self.table.shard(want.key);
        shard.seats.get_mut(&want.key).map(with)
    }

    /// Has the store decide, on all at once. False if it did not answer.
    async fn ask_store(
        &self,
        wants: &[&Want],
        deadline: Instant,
        verdicts: &mut Verdicts,
        held: &mut Vec<Held>,
    ) -> bool {
        let asked: Vec<Asked<'_>> = wants.iter().map(|want| self.question(want)).collect();
        let call = Call::within(deadline.saturating_duration_since(Instant::now()));
        let mut unheard = Unheard {
            inner: self,
            wants,
            is_heard: false,
        };
        let answer = self.store.take(&asked, self.now(), call).await;
        unheard.is_heard = true;
        self.counts.called(Called::Shared, answer.is_ok());
        let Ok(answer) = answer else {
            for want in wants {
                self.turn(want, |seat| seat.end_turn(None));
            }
            return false;
        };
        for (want, said) in wants.iter().zip(&answer.said) {
            let enough = match *said {
                Said::Passes { remaining, .. } => Some(remaining >= want.cost),
                Said::Short { .. } => Some(false),
                Said::Unasked => None,
            };
            self.turn(want, |seat| seat.end_turn(enough));
        }
        for (want, &said) in wants.iter().zip(&answer.said) {
            let here = match said {
                Said::Passes { at, .. } if answer.passes() => Here::Passed(By::Store(at)),
                Said::Short { short, remaining } => Here::Short { short, remaining },
                Said::Passes { .. } | Said::Unasked => continue,
            };
            verdicts.hear(want, here, held);
        }
        true
    }

    /// Decides without the store.
    fn without(&self, want: &Want, verdicts: &mut Verdicts, held: &mut Vec<Held>) {
        let limit = self.limit(want.limit);
        let here = match limit.plan.on_loss {
            OnLoss::Closed => Here::Lost,
            OnLoss::Open => Here::Passed(By::Nothing),
            OnLoss::Local => self.at_seat(want, |seat, now| {
                let following = self.parts.following();
                seat.take_apart(limit, &following, now, want.cost)
                    .unwrap_or(Here::Lost)
            }),
        };
        let what = match here {
            Here::Passed(_) => Without::Passed,
            Here::Short { .. } => Without::Refused,
            Here::Lost | Here::Ask(_) | Here::Store => Without::Closed,
        };
        self.counts.without(want.limit, what);
        verdicts.hear(want, here, held);
    }
}

impl Verdicts {
    fn hear(&mut self, want: &Want, here: Here, held: &mut Vec<Held>) {
        let (short, remaining) = match here {
            Here::Passed(by) => {
                held.push(Held {
                    limit: want.limit,
                    key: want.key,
                    cost: want.cost,
                    price: want.price,
                    by,
                });
                return;
            }
            Here::Short { short, remaining } => (Some(short), remaining),
            Here::Lost | Here::Ask(_) | Here::Store => (None, 0),
        };
        if want.standing == Standing::Shadow {
            self.shadowed.push(want.limit);
            return;
        }
        match &mut self.denied {
            Some(denied) => {
                denied.violated.push(want.limit);
                // That the store is away is said only where nothing else refuses.
                if short > denied.short {
                    (denied.binding, denied.short) = (want.limit, short);
                    denied.remaining = remaining;
                }
            }
            None => {
                self.denied = Some(Denied {
                    violated: vec![want.limit],
                    binding: want.limit,
                    short,
                    remaining,
                    shadowed: Vec::new(),
                });
            }
        }
    }

    fn done(self) -> Result<Vec<u16>, Denied> {
        match self.denied {
            Some(denied) => Err(Denied {
                shadowed: self.shadowed,
                ..denied
            }),
            None => Ok(self.shadowed),
        }
    }
}

/// A question to the store. If nobody is there any more to hear the answer, what it has spent is not going to come back.
struct Unheard<'a> {
    inner: &'a Inner,
    wants: &'a [&'a Want],
    is_heard: bool,
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if self.is_heard {
            return;
        }
        self.inner.counts.lost(self.wants.len() as u64);
        for want in self.wants {
            self.inner.turn(want, |seat| seat.end_turn(None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shadow_would_have_refused_is_told_though_another_limit_refuses() {
        let want = |limit, standing| Want {
            limit,
            key: u128::from(limit),
            cost: 1,
            price: Price::FIXED,
            standing,
            deny: false,
        };
        let short = |wait_us| Here::Short {
            short: Short::Wait { wait_us },
            remaining: 0,
        };
        let (mut verdicts, mut held) = (Verdicts::default(), Vec::new());

        verdicts.hear(&want(1, Standing::Shadow), short(9), &mut held);
        verdicts.hear(&want(2, Standing::Enforced), short(5), &mut held);
        verdicts.hear(&want(3, Standing::Shadow), Here::Lost, &mut held);

        let denied = verdicts.done().unwrap_err();
        assert_eq!((denied.violated, denied.binding), (vec![2], 2));
        assert_eq!(denied.shadowed, [1, 3]);
        assert!(held.is_empty());
    }
}
