//! Rate limits a second time, slowly: tokens are exact fractions, everything that was spent is kept, and how long
//! a wait is is found by looking. Nothing in here is shared with what it is compared with but words and states.

use std::cmp::Ordering;

use tidegate_core::rate::{Algorithm, Rate, Spec, State, Tick};

/// A fraction in lowest terms; what is below the line is positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fraction(i128, i128);

impl Fraction {
    pub(crate) fn new(above: i128, below: i128) -> Self {
        let (mut a, mut b) = (above.unsigned_abs(), below.unsigned_abs());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let common = a.max(1) as i128;
        Self(above / common, below / common)
    }

    pub(crate) fn whole(number: u64) -> Self {
        Self(i128::from(number), 1)
    }

    fn plus(self, other: Self) -> Self {
        Self::new(self.0 * other.1 + other.0 * self.1, self.1 * other.1)
    }

    fn minus(self, other: Self) -> Self {
        self.plus(Self(-other.0, other.1))
    }

    fn times(self, number: u64) -> Self {
        Self::new(self.0 * i128::from(number), self.1)
    }

    fn by(self, number: u64) -> Self {
        Self::new(self.0, self.1 * i128::from(number))
    }

    fn least(self, other: Self) -> Self {
        if self < other { self } else { other }
    }

    fn most(self, other: Self) -> Self {
        if self < other { other } else { self }
    }

    fn floor(self) -> i128 {
        self.0.div_euclid(self.1)
    }

    fn ceil(self) -> i128 {
        -Self(-self.0, self.1).floor()
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some((self.0 * other.1).cmp(&(other.0 * self.1)))
    }
}

/// What a limit is, as somebody would say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) algorithm: Algorithm,
    pub(crate) rate: Rate,
    /// Of a bucket.
    pub(crate) burst: u64,
    /// Among how many nodes a bucket is divided; this is one of them.
    pub(crate) parts: u32,
}

impl Words {
    pub(crate) fn spec(&self) -> Spec {
        let bucket = self.algorithm == Algorithm::Bucket;
        let spec = Spec::new(self.algorithm, self.rate, bucket.then_some(self.burst));
        match spec.expect("words of a limit") {
            Spec::Bucket(spec) if self.parts != 1 => Spec::Bucket(
                spec.divided(self.parts)
                    .expect("large enough to be divided"),
            ),
            spec => spec,
        }
    }
}

/// A limit and what was used of it.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    words: Words,
    kept: Kept,
}

#[derive(Clone, Debug)]
enum Kept {
    /// Tokens at a time.
    Tokens(Fraction, u64),
    /// When what was spent.
    Log(Vec<(u64, u64)>),
    /// In which window what was spent, and the latest one.
    Windows(Vec<(u64, u64)>, u64),
}

impl Model {
    /// With a state such as the limit itself would have, or none.
    pub(crate) fn new(words: Words, state: Option<&State>, now: Tick) -> Self {
        let mut model = Self {
            words,
            kept: match words.algorithm {
                Algorithm::Bucket => Kept::Tokens(Fraction::whole(0), now.0),
                Algorithm::Log => Kept::Log(Vec::new()),
                Algorithm::Window => Kept::Windows(Vec::new(), 0),
            },
        };
        let most = model.most();
        match (&mut model.kept, state) {
            (Kept::Tokens(tokens, at), Some(State::Bucket(state))) => {
                let Spec::Bucket(spec) = words.spec() else {
                    panic!("{words:?} is a bucket");
                };
                let per_token = i128::from(spec.credits_per_token());
                *tokens = Fraction::new(i128::from(state.credits), per_token);
                *at = state.at.0;
            }
            (Kept::Log(spent), Some(State::Log(state))) => {
                spent.extend(state.entries().map(|entry| (entry.at.0, entry.tokens)));
            }
            (Kept::Windows(spent, latest), Some(State::Window(state))) => {
                *latest = state.number;
                spent.push((state.number, state.current));
                spent.extend(state.number.checked_sub(1).map(|n| (n, state.previous)));
            }
            (Kept::Tokens(tokens, _), None | Some(State::Deny)) => *tokens = most,
            (_, None | Some(State::Deny)) => {}
            (kept, Some(state)) => panic!("{state:?} is no state for {kept:?}"),
        }
        model
    }

    /// What one call may cost, and what there is when nobody has taken any.
    fn most(&self) -> Fraction {
        let words = &self.words;
        match words.algorithm {
            _ if words.rate.tokens == 0 => Fraction::whole(0),
            Algorithm::Bucket => Fraction::whole(words.burst).by(u64::from(words.parts)),
            Algorithm::Log | Algorithm::Window => Fraction::whole(words.rate.tokens),
        }
    }

    /// What there is.
    fn available(&self, now: u64) -> Fraction {
        let Rate { tokens, period_us } = self.words.rate;
        match &self.kept {
            Kept::Tokens(kept, at) => {
                let elapsed = now.saturating_sub(*at);
                let gained = Fraction::whole(tokens).times(elapsed).by(period_us);
                let gained = gained.by(u64::from(self.words.parts));
                kept.plus(gained).least(self.most())
            }
            Kept::Log(spent) => {
                let now = now.max(self.time());
                let counts = |&&(at, _): &&(u64, u64)| now - at < period_us;
                let used: u64 = spent.iter().filter(counts).map(|(_, tokens)| tokens).sum();
                self.most().minus(Fraction::whole(used))
            }
            Kept::Windows(spent, latest) => {
                let Spec::Window(spec) = self.words.spec() else {
                    panic!("{:?} is a window", self.words);
                };
                let grain_us = spec.grain_us();
                let now = now.max(latest * period_us);
                let number = now / period_us;
                let of = |wanted: Option<u64>| -> u64 {
                    let spent = spent.iter().filter(|(n, _)| Some(*n) == wanted);
                    spent.map(|(_, tokens)| tokens).sum()
                };
                let passed_us = now % period_us / grain_us * grain_us;
                let before = Fraction::whole(of(number.checked_sub(1)));
                let covered = before.times(period_us - passed_us).by(period_us);
                let used = covered.plus(Fraction::whole(of(Some(number))));
                self.most().minus(used)
            }
        }
    }

    /// The latest time that it knows of; there it stands still until the clock is past it.
    fn time(&self) -> u64 {
        match &self.kept {
            Kept::Tokens(_, at) => *at,
            Kept::Log(spent) => spent.iter().map(|(at, _)| *at).max().unwrap_or(0),
            Kept::Windows(_, latest) => latest * self.words.rate.period_us,
        }
    }

    /// Microseconds until there are `wanted`; `None` when there never are.
    fn until(&self, now: Tick, wanted: Fraction) -> Option<u64> {
        if wanted > self.most() || self.words.rate.tokens == 0 {
            return None;
        }
        let now = now.0.max(self.time());
        let there = |wait_us: u64| self.available(now + wait_us) >= wanted;
        if there(0) {
            return Some(0);
        }
        let (mut short, mut enough) = (0, 1);
        while !there(enough) {
            (short, enough) = (enough, enough * 2);
        }
        while enough - short > 1 {
            let middle = short + (enough - short) / 2;
            if there(middle) {
                enough = middle;
            } else {
                short = middle;
            }
        }
        Some(enough)
    }

    /// How long `cost` has to wait: not at all, or for ever.
    pub(crate) fn wait(&self, now: Tick, cost: u64) -> Option<u64> {
        self.until(now, Fraction::whole(cost))
    }

    pub(crate) fn remaining(&self, now: Tick) -> u64 {
        self.available(now.0).floor().max(0) as u64
    }

    pub(crate) fn used(&self, now: Tick) -> u64 {
        self.most().minus(self.available(now.0)).ceil() as u64
    }

    pub(crate) fn time_to_full(&self, now: Tick) -> u64 {
        self.until(now, self.most()).unwrap_or(0)
    }

    pub(crate) fn spend(&mut self, now: Tick, tokens: u64) {
        let available = self.available(now.0);
        let at = now.0.max(self.time());
        match &mut self.kept {
            Kept::Tokens(kept, kept_at) => {
                *kept = available.minus(Fraction::whole(tokens));
                *kept_at = at;
            }
            Kept::Log(spent) if tokens > 0 => spent.push((at, tokens)),
            Kept::Log(_) => {}
            Kept::Windows(spent, latest) => {
                *latest = at / self.words.rate.period_us;
                spent.push((*latest, tokens));
            }
        }
    }

    /// Spends what is not there, down to as much debt as there may be tokens.
    pub(crate) fn charge(&mut self, now: Tick, tokens: u64) {
        let (most, available) = (self.most(), self.available(now.0));
        let room = most.plus(available);
        let tokens = Fraction::whole(tokens).least(room).most(Fraction::whole(0));
        let at = now.0.max(self.time());
        match &mut self.kept {
            Kept::Tokens(kept, kept_at) => {
                *kept = available.minus(tokens);
                *kept_at = at;
            }
            Kept::Log(_) | Kept::Windows(..) => self.spend(now, tokens.floor() as u64),
        }
    }

    /// Puts back what was spent at a time at which the clock had not been set back.
    pub(crate) fn give_back(&mut self, now: Tick, spent_at: Tick, tokens: u64) {
        let available = self.available(now.0);
        let (most, at) = (self.most(), now.0.max(self.time()));
        match &mut self.kept {
            Kept::Tokens(kept, kept_at) => {
                *kept = available.plus(Fraction::whole(tokens)).least(most);
                *kept_at = at;
            }
            Kept::Log(spent) => take_off(spent, spent_at.0, tokens),
            Kept::Windows(spent, _) => {
                take_off(spent, spent_at.0 / self.words.rate.period_us, tokens);
            }
        }
    }

    /// Becomes a bucket of other words with as many tokens used.
    pub(crate) fn rescale(&mut self, words: Words) {
        let before = self.most();
        self.words = words;
        let most = self.most();
        if let Kept::Tokens(kept, _) = &mut self.kept {
            let debt = Fraction::whole(0).minus(most);
            *kept = most.minus(before.minus(*kept)).most(debt);
        }
    }

    /// What the tokens of a bucket are in credits; a credit that is not whole is gone.
    pub(crate) fn credits(&self) -> Option<i128> {
        let Spec::Bucket(spec) = self.words.spec() else {
            return None;
        };
        match &self.kept {
            Kept::Tokens(kept, _) => Some(kept.times(spec.credits_per_token()).floor()),
            _ => None,
        }
    }

    /// Forgets what a credit does not hold: after a rescale there may be a part of one left.
    pub(crate) fn settle(&mut self) {
        let (credits, spec) = (self.credits(), self.words.spec());
        if let (Some(credits), Spec::Bucket(spec), Kept::Tokens(kept, _)) =
            (credits, spec, &mut self.kept)
        {
            *kept = Fraction::new(credits, i128::from(spec.credits_per_token()));
        }
    }
}

fn take_off(spent: &mut [(u64, u64)], at: u64, mut tokens: u64) {
    for (_, left) in spent.iter_mut().filter(|(spent_at, _)| *spent_at == at) {
        let off = tokens.min(*left);
        *left -= off;
        tokens -= off;
    }
}
