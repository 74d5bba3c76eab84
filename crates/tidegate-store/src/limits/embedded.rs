//! Limits in this process.

use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::rate::bucket::{BucketSpec, BucketState};
use tidegate_core::rate::set::{self, Member, Standing};
use tidegate_core::rate::{Passed, Spec, State, Tick};

use super::counts::{Counted, Counts, KeyCounts};
use super::slots::{Key, Slot, Slots};
use super::{Answer, Asked, Few, Said, Settled, Then};

/// Limits in this process. All times are of one clock that does not go back, and the caller's.
///
/// A key that is full says nothing that an unknown one would not, and is forgotten; that changes no decision. When there are
/// [`LimitTablePlan::keys_max`] keys that are not full, a new one takes the place of one that is nearly so: of
/// some neighbours that which would be full first. One in debt goes only if all of them are.
pub struct LimitTable {
    /// A power of two of them.
    shards: Box<[Mutex<Shard>]>,
}

/// How large a table may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitTablePlan {
    /// Most keys, about: they are spread over the shards. A key of a bucket takes 61 bytes at most, one of a
    /// window about 130, one of a log that and 16 for each entry.
    pub keys_max: u64,
    /// In how many shards, each with a lock of its own; rounded up to a power of two, 1 to 4,096.
    pub shards: u32,
}

/// What a table has and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitTableStats {
    /// Keys, now, including those that are full and were not noticed yet.
    pub keys: u64,
    /// Keys that were dropped because they were full.
    pub collected: u64,
    /// Keys that were dropped though they were not, to make room: for each of them its limit has let up to what it had used
    /// pass again.
    pub forgotten: u64,
    /// The same for keys in debt.
    pub forgotten_in_debt: u64,
}

struct Shard {
    slots: Slots,
    /// States of other limits than buckets.
    others: Others,
    /// The next place that is looked at for what is to be dropped.
    hand: usize,
    keys_max: usize,
    stats: LimitTableStats,
    counts: Counts,
}

#[derive(Default)]
struct Others {
    states: Vec<Option<State>>,
    free: Vec<i64>,
}

/// Shards of which a request has keys, locked.
struct Locked<'a> {
    shards: Few<(usize, MutexGuard<'a, Shard>)>,
    mask: u64,
}

/// Places that are looked at whenever a key comes in: so no more than about an eighth is ever full.
const SWEPT: usize = 8;
/// Keys that are compared to drop one.
const COMPARED: usize = 16;

impl LimitTablePlan {
    /// The usual shards, four for each core of this machine.
    pub fn for_keys(keys_max: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            keys_max,
            shards: u32::try_from(4 * cores).unwrap_or(u32::MAX),
        }
    }
}

impl Default for LimitTablePlan {
    /// A million keys.
    fn default() -> Self {
        Self::for_keys(1 << 20)
    }
}

impl LimitTable {
    /// An empty table.
    pub fn new(plan: LimitTablePlan) -> Self {
        Self::counting(plan, &[])
    }

    /// An empty table that counts the keys of each of `limits`, see [`Self::counts`].
    pub fn counting(plan: LimitTablePlan, limits: &[Arc<Spec>]) -> Self {
        let counted = Arc::new(Counted::new(limits));
        let shards = plan.shards.clamp(1, 4_096).next_power_of_two();
        let keys_max = plan.keys_max.div_ceil(u64::from(shards)).max(1);
        let shard = || Shard {
            slots: Slots::new(),
            others: Others::default(),
            hand: 0,
            keys_max: usize::try_from(keys_max).unwrap_or(usize::MAX),
            stats: LimitTableStats::default(),
            counts: Counts::new(Arc::clone(&counted)),
        };
        Self {
            shards: (0..shards).map(|_| Mutex::new(shard())).collect(),
        }
    }

    /// Spends from all of `asked` if the enforced ones let it, and from none otherwise, at once for everybody else.
    ///
    /// Panics at more than [`set::LIMITS_MAX`] limits.
    pub fn take(&self, asked: &[Asked<'_>], now: Tick) -> Answer {
        self.decide(asked, now, Then::Spend)
    }

    /// What [`Self::take`] would say, without spending.
    pub fn ask(&self, asked: &[Asked<'_>], now: Tick) -> Answer {
        self.decide(asked, now, Then::Leave)
    }

    /// Settles what was taken. To be called once for each take; what is never settled has cost what was taken.
    pub fn settle(&self, settled: &[Settled<'_>], now: Tick) {
        for it in settled {
            let key = key_of(it.key);
            let mut shard = self.lock_one(key);
            // What denies everything owes nothing, and what was used of the limit before stays as it is.
            if **it.spec == Spec::Deny {
                continue;
            }
            // Nothing can be given back to what is full.
            if it.used > it.taken || (it.used < it.taken && shard.slots.find(key).is_some()) {
                let mut state = shard.state(key, it.spec, now);
                it.spec.commit(&mut state, now, it.at, it.taken, it.used);
                shard.keep(key, it.spec, state, now);
            }
        }
    }

    /// Forgets a key: nothing of its limit is used.
    pub fn forget(&self, key: u128) {
        let key = key_of(key);
        let mut shard = self.lock_one(key);
        if let Some(place) = shard.slots.find(key) {
            shard.drop_at(place);
        }
    }

    /// Drops every key that is full, a shard at a time, and gives memory back that is not needed any more. Happens by and by as
    /// keys come in, too; for a table that has become quiet.
    pub fn collect(&self, now: Tick) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.hand = 0;
            // A dropped key takes a turn of its own, after which another may be in its place.
            let turns = shard.slots.places() + shard.slots.len();
            shard.clean(turns, now);
        }
    }

    /// Drops what is full among the next `places` of each shard, and gives memory back that is not needed any more. To
    /// be called now and then, so that a table that has become quiet empties, too.
    pub fn sweep(&self, places: usize, now: Tick) {
        for shard in &self.shards {
            lock(shard).clean(places, now);
        }
    }

    /// The keys of the limit at `place` in the list that it was made with.
    pub fn counts(&self, place: usize) -> KeyCounts {
        let mut sum = KeyCounts::default();
        for shard in &self.shards {
            let counts = lock(shard).counts.at(place);
            sum.kept += counts.kept;
            sum.forgotten += counts.forgotten;
        }
        sum
    }

    /// What it has and has done.
    pub fn stats(&self) -> LimitTableStats {
        let mut sum = LimitTableStats::default();
        for shard in &self.shards {
            let shard = lock(shard);
            sum.keys += shard.slots.len() as u64;
            sum.collected += shard.stats.collected;
            sum.forgotten += shard.stats.forgotten;
            sum.forgotten_in_debt += shard.stats.forgotten_in_debt;
        }
        sum
    }

    fn decide(&self, asked: &[Asked<'_>], now: Tick, then: Then) -> Answer {
        // Before anything is locked: whoever panics then leaves nothing behind.
        assert!(
            asked.len() <= set::LIMITS_MAX,
            "more limits than a request may have"
        );
        if let [it] = asked {
            let said = self.decide_one(it, now, then);
            let refuses = matches!(said, Said::Short { .. }) && it.standing == Standing::Enforced;
            let mut answer = Answer {
                said: Few::new(),
                binding: refuses.then_some(0),
            };
            answer.said.push(said);
            return answer;
        }
        let mut locked = self.lock(asked);
        let mut states: Few<State> = asked
            .iter()
            .map(|it| {
                let key = key_of(it.key);
                locked.shard(key).state(key, it.spec, now)
            })
            .collect();
        let decided = decided(asked, &mut states, now, then);
        let mut said = Few::new();
        for (place, (it, state)) in asked.iter().zip(states).enumerate() {
            let remaining = it.spec.remaining(&state, now);
            if decided.is_ok_and(|spent| spent.contains(place)) {
                said.push(Said::Passes { at: now, remaining });
                if it.cost > 0 {
                    let key = key_of(it.key);
                    locked.shard(key).keep(key, it.spec, state, now);
                }
                continue;
            }
            said.push(match it.spec.check(&state, now, it.cost) {
                Ok(()) => Said::Passes { at: now, remaining },
                Err(short) => Said::Short { short, remaining },
            });
        }
        Answer::of(asked, said)
    }

    /// The same for a request with one limit, as most have: nothing is put aside, and the key is looked for once.
    fn decide_one(&self, it: &Asked<'_>, now: Tick, then: Then) -> Said {
        let key = key_of(it.key);
        let mut shard = self.lock_one(key);
        let found = shard.slots.find(key);
        if let Some(place) = found
            && let Spec::Bucket(spec) = &**it.spec
            && let Some(slot) = shard.slots.at_mut(place)
            && Arc::ptr_eq(it.spec, &slot.spec)
        {
            return bucket(spec, slot, it.cost, now, then);
        }
        let mut state = shard.state_at(found, it.spec, now);
        let passed = match then {
            Then::Spend => it.spec.take(&mut state, now, it.cost),
            Then::Leave => it.spec.check(&state, now, it.cost).map(|()| Passed {
                remaining: it.spec.remaining(&state, now),
            }),
        };
        match passed {
            Ok(Passed { remaining }) => {
                if then == Then::Spend && it.cost > 0 {
                    // Something is used of it, so it is not full.
                    shard.put(found, key, it.spec, state, now);
                }
                Said::Passes { at: now, remaining }
            }
            Err(short) => Said::Short {
                short,
                remaining: it.spec.remaining(&state, now),
            },
        }
    }

    /// Locks the shards of a request in their order, so that no two requests wait for each other.
    fn lock(&self, asked: &[Asked<'_>]) -> Locked<'_> {
        let mask = self.mask();
        let shards = asked.iter().map(|it| shard_of(key_of(it.key), mask));
        let mut wanted: Few<usize> = shards.collect();
        wanted.sort_unstable();
        wanted.dedup();
        Locked {
            shards: wanted
                .into_iter()
                .map(|shard| (shard, lock(&self.shards[shard])))
                .collect(),
            mask,
        }
    }

    fn lock_one(&self, key: Key) -> MutexGuard<'_, Shard> {
        lock(&self.shards[shard_of(key, self.mask())])
    }

    const fn mask(&self) -> u64 {
        self.shards.len() as u64 - 1
    }
}

impl Locked<'_> {
    fn shard(&mut self, key: Key) -> &mut Shard {
        let wanted = shard_of(key, self.mask);
        let mut shards = self.shards.iter_mut();
        let found = shards.find(|(shard, _)| *shard == wanted);
        &mut found.expect("it was locked").1
    }
}

impl Shard {
    /// The state of `key`, as one of `spec`.
    fn state(&self, key: Key, spec: &Arc<Spec>, now: Tick) -> State {
        self.state_at(self.slots.find(key), spec, now)
    }

    /// The state of the key that is at `place`, or nowhere.
    fn state_at(&self, place: Option<usize>, spec: &Arc<Spec>, now: Tick) -> State {
        let Some(slot) = place.and_then(|place| self.slots.at(place)) else {
            return spec.full(now);
        };
        let mut state = self.state_of(slot);
        if !Arc::ptr_eq(spec, &slot.spec) && **spec != *slot.spec {
            // As if it had been noticed in time.
            if self.others.is_full(slot, now) {
                return spec.full(now);
            }
            spec.rescale(&mut state, now, &slot.spec);
        }
        state
    }

    fn state_of(&self, slot: &Slot) -> State {
        match *slot.spec {
            Spec::Bucket(_) => State::Bucket(BucketState {
                credits: slot.word,
                at: slot.at,
            }),
            _ => self.others.get(slot.word).clone(),
        }
    }

    /// Keeps `state` for `key`.
    fn keep(&mut self, key: Key, spec: &Arc<Spec>, state: State, now: Tick) {
        let found = self.slots.find(key);
        if spec.time_to_full_us(&state, now) > 0 {
            self.put(found, key, spec, state, now);
        } else if let Some(place) = found {
            self.drop_at(place);
        }
    }

    /// Keeps `state`, which is not full, for `key`, which is at `found` or nowhere.
    fn put(&mut self, found: Option<usize>, key: Key, spec: &Arc<Spec>, state: State, now: Tick) {
        if let Some(place) = found {
            let slot = self.slots.at_mut(place).expect("it was found there");
            if !Arc::ptr_eq(spec, &slot.spec) {
                self.counts.went(&slot.spec);
                self.counts.came(spec);
                self.others.remove_of(slot);
                slot.spec = Arc::clone(spec);
                (slot.word, slot.at) = self.others.words(state);
            } else if let State::Bucket(bucket) = state {
                (slot.word, slot.at) = (bucket.credits, bucket.at);
            } else {
                self.others.replace(slot.word, state);
            }
            return;
        }
        self.make_room(now);
        let (word, at) = self.others.words(state);
        self.counts.came(spec);
        self.slots.insert(Slot {
            key,
            spec: Arc::clone(spec),
            word,
            at,
        });
    }

    /// Makes room for one more key.
    fn make_room(&mut self, now: Tick) {
        self.sweep(SWEPT, now);
        if self.slots.len() >= self.keys_max {
            self.forget_one(now);
        }
        if self.slots.is_full() {
            let Self {
                slots,
                others,
                stats,
                counts,
                ..
            } = self;
            slots.rebuild(|slot| {
                let stays = !others.is_full(slot, now);
                if !stays {
                    others.remove_of(slot);
                    counts.went(&slot.spec);
                    stats.collected += 1;
                }
                stays
            });
        }
    }

    /// Drops what is full at the next places, in so many `turns`, and gives memory back if most of it is empty then.
    fn clean(&mut self, turns: usize, now: Tick) {
        self.sweep(turns, now);
        if self.slots.is_wasteful() {
            self.slots.rebuild(|_| true);
        }
    }

    /// Drops what is full at the next places, in so many `turns`.
    fn sweep(&mut self, turns: usize, now: Tick) {
        for _ in 0..turns {
            let place = self.turn();
            match self.slots.at(place) {
                Some(slot) if self.others.is_full(slot, now) => {
                    self.drop_at(place);
                    self.stats.collected += 1;
                }
                _ => self.hand += 1,
            }
        }
    }

    /// Drops one of the next keys: one that is full, else that which will be first, and one in debt only among such.
    fn forget_one(&mut self, now: Tick) {
        let mut worst = None;
        let mut compared = 0;
        for _ in 0..self.slots.places() {
            let place = self.turn();
            self.hand += 1;
            let Some(slot) = self.slots.at(place) else {
                continue;
            };
            let state = self.state_of(slot);
            let in_debt = slot.spec.check(&state, now, 0).is_err();
            let order = (in_debt, slot.spec.time_to_full_us(&state, now));
            if worst.is_none_or(|(least, _)| order < least) {
                worst = Some((order, place));
            }
            compared += 1;
            if compared == COMPARED {
                break;
            }
        }
        let Some(((in_debt, full_us), place)) = worst else {
            return;
        };
        let dropped = self.drop_at(place);
        match (full_us, in_debt) {
            (0, _) => {
                self.stats.collected += 1;
                return;
            }
            (_, false) => self.stats.forgotten += 1,
            (_, true) => self.stats.forgotten_in_debt += 1,
        }
        if let Some(slot) = dropped {
            self.counts.was_forgotten(&slot.spec);
        }
    }

    /// Where the hand is, having gone round.
    fn turn(&mut self) -> usize {
        if self.hand >= self.slots.places() {
            self.hand = 0;
        }
        self.hand
    }

    fn drop_at(&mut self, place: usize) -> Option<Slot> {
        let slot = self.slots.remove(place)?;
        self.others.remove_of(&slot);
        self.counts.went(&slot.spec);
        Some(slot)
    }
}

impl Others {
    fn get(&self, word: i64) -> &State {
        let state = self.states.get(word as usize).and_then(Option::as_ref);
        state.expect("a slot that is no bucket's says where its state is")
    }

    /// The words of a slot for `state`, which is kept here if it has more than two.
    fn words(&mut self, state: State) -> (i64, Tick) {
        if let State::Bucket(bucket) = state {
            return (bucket.credits, bucket.at);
        }
        let word = self.free.pop().unwrap_or_else(|| {
            self.states.push(None);
            self.states.len() as i64 - 1
        });
        self.replace(word, state);
        (word, Tick::default())
    }

    fn replace(&mut self, word: i64, state: State) {
        self.states[word as usize] = Some(state);
    }

    fn remove_of(&mut self, slot: &Slot) {
        if !matches!(*slot.spec, Spec::Bucket(_)) {
            self.states[slot.word as usize] = None;
            self.free.push(slot.word);
        }
    }

    /// Whether what is known of a key is nothing that matters.
    fn is_full(&self, slot: &Slot, now: Tick) -> bool {
        let full_us = match *slot.spec {
            Spec::Bucket(spec) => {
                let (credits, at) = (slot.word, slot.at);
                spec.time_to_full_us(&BucketState { credits, at }, now)
            }
            _ => slot.spec.time_to_full_us(self.get(slot.word), now),
        };
        full_us == 0
    }
}

/// The places that were spent from, or why nothing was.
fn decided(
    asked: &[Asked<'_>],
    states: &mut [State],
    now: Tick,
    then: Then,
) -> Result<set::Places, set::Refused> {
    let mut members: Few<Member<'_>> = Few::new();
    for (it, state) in asked.iter().zip(states) {
        members.push(Member {
            spec: it.spec,
            state,
            cost: it.cost,
            standing: it.standing,
        });
    }
    match then {
        Then::Spend => set::take(&mut members, now).map(|spent| spent.from()),
        Then::Leave => set::check(&members, now).map(|_| set::Places::default()),
    }
}

/// What a bucket says that is known, and spends; the case that nearly all requests are.
fn bucket(spec: &BucketSpec, slot: &mut Slot, cost: u64, now: Tick, then: Then) -> Said {
    let mut state = BucketState {
        credits: slot.word,
        at: slot.at,
    };
    match spec.take(&mut state, now, cost) {
        Ok(Passed { remaining }) if then == Then::Spend => {
            (slot.word, slot.at) = (state.credits, state.at);
            Said::Passes { at: now, remaining }
        }
        Ok(_) => {
            let (credits, at) = (slot.word, slot.at);
            let remaining = spec.remaining(&BucketState { credits, at }, now);
            Said::Passes { at: now, remaining }
        }
        Err(short) => Said::Short {
            short,
            remaining: spec.remaining(&state, now),
        },
    }
}

fn key_of(key: u128) -> Key {
    [(key >> 64) as u64, key as u64]
}

/// By other bits than those that say where in its shard a key is.
const fn shard_of(key: Key, mask: u64) -> usize {
    (key[1] & mask) as usize
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().expect("nobody panics while holding it")
}

#[cfg(test)]
mod tests;
