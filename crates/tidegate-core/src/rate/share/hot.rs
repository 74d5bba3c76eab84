//! What stands before a store that is asked for each request: what it has just refused is refused here, and a key that
//! is asked for very often gets a lease.
//!
//! A bucket that has refused a cost says when it would be there. Nobody can make that earlier but by giving tokens back, by
//! changing the limit or by resetting it; so until then this node refuses as much or more without asking. What
//! another node gives back in that time is used a little later: that is the price. An abuser then costs the
//! store one question for each token, not one for each request.
//!
//! A key that is asked for more often than [`HotPlan::hot_per_s`] at this node is taken from by [`super::lease`] instead, out of the
//! same bucket, so it does not matter which nodes have gone over when. It goes back when it has been cool for a while.

use crate::rate::Tick;

const SECOND_US: u64 = 1_000_000;

/// When a key is hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HotPlan {
    /// Questions to the store within about a second that make a key hot, 1 or more.
    pub hot_per_s: u64,
    /// Requests within about a second below which it is cool, ...
    pub cool_per_s: u64,
    /// ... and for how long it has to be, in microseconds.
    pub cool_us: u64,
}

/// Where a request is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Here: it is refused, and will be for so many microseconds.
    Refused {
        /// 1 or more.
        wait_us: u64,
    },
    /// In the store. Its answer is to be told with this number.
    Store {
        /// What was known when it was asked.
        generation: u32,
    },
    /// Here, by the lease.
    Lease,
}

/// One key at one node.
#[derive(Clone, Copy, Debug)]
pub struct Heat {
    plan: HotPlan,
    /// Counts up when tokens were given back, or the limit was changed: what was asked before says nothing.
    generation: u32,
    refused: Option<Refused>,
    asked: Count,
    /// Since when it is hot, or was last too warm to be cool.
    hot: Option<Tick>,
}

/// So much or more is refused for now.
#[derive(Clone, Copy, Debug)]
struct Refused {
    cost: u64,
    until: Tick,
}

impl HotPlan {
    /// 200 questions a second are hot; half of that for ten seconds is cool.
    pub const USUAL: Self = Self {
        hot_per_s: 200,
        cool_per_s: 100,
        cool_us: 10 * SECOND_US,
    };
}

impl Heat {
    /// A key that nobody has asked for.
    pub const fn new(plan: HotPlan) -> Self {
        Self {
            plan,
            generation: 0,
            refused: None,
            asked: Count::NONE,
            hot: None,
        }
    }

    /// Says where a request for `cost` tokens is decided, and counts it.
    pub fn way(&mut self, now: Tick, cost: u64) -> Way {
        if let Some(warm) = self.hot {
            self.asked.add(now);
            if self.asked.recent(now) >= self.plan.cool_per_s {
                self.hot = Some(now);
            } else if now.since(warm) >= self.plan.cool_us {
                self.hot = None;
            }
            if self.hot.is_some() {
                return Way::Lease;
            }
            return self.store();
        }
        if let Some(refused) = self.refused
            && refused.cost <= cost
            && now < refused.until
        {
            let wait_us = refused.until.since(now);
            return Way::Refused { wait_us };
        }
        self.asked.add(now);
        if self.asked.recent(now) > self.plan.hot_per_s {
            self.hot = Some(now);
            self.refused = None;
            return Way::Lease;
        }
        self.store()
    }

    /// The store has refused `cost` for `wait_us`.
    pub fn refused(&mut self, now: Tick, generation: u32, cost: u64, wait_us: u64) {
        let refused = Refused {
            cost,
            until: now.plus(wait_us),
        };
        let known = self.refused.filter(|known| now < known.until);
        // The one that refuses more: the cheaper cost, or the same for longer.
        let better = known.is_none_or(|known| {
            refused.cost < known.cost || (refused.cost == known.cost && known.until < refused.until)
        });
        if generation == self.generation && cost > 0 && better {
            self.refused = Some(refused);
        }
    }

    /// The store let a cost pass, has `remaining` whole tokens left and gets the next in `next_us`. What
    /// costs more than that would be refused until then.
    pub fn passed(&mut self, now: Tick, generation: u32, remaining: u64, next_us: u64) {
        self.refused(now, generation, remaining.saturating_add(1), next_us);
    }

    /// Tokens were given back here, or the limit was changed or reset: what was refused may be there now.
    pub const fn renew(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.refused = None;
    }

    /// Whether the key is taken from by lease.
    pub const fn is_hot(&self) -> bool {
        self.hot.is_some()
    }

    const fn store(&self) -> Way {
        Way::Store {
            generation: self.generation,
        }
    }
}

/// How often something happened within about the last second.
#[derive(Clone, Copy, Debug)]
struct Count {
    second: u64,
    current: u64,
    before: u64,
}

impl Count {
    const NONE: Self = Self {
        second: 0,
        current: 0,
        before: 0,
    };

    fn add(&mut self, now: Tick) {
        *self = self.turned(now);
        self.current = self.current.saturating_add(1);
    }

    /// All of this second, and as much of the one before as is still in reach.
    fn recent(self, now: Tick) -> u64 {
        let here = self.turned(now);
        let left = SECOND_US - now.0 % SECOND_US;
        let before = u128::from(here.before) * u128::from(left) / u128::from(SECOND_US);
        here.current.saturating_add(before as u64)
    }

    const fn turned(self, now: Tick) -> Self {
        let second = now.0 / SECOND_US;
        let before = match second.saturating_sub(self.second) {
            0 => return self,
            1 => self.current,
            _ => 0,
        };
        Self {
            second,
            current: 0,
            before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::{BucketSpec, Short};

    /// Asks `per_s` times a second for `seconds`, of a store that is asked for as little as can be; what
    /// passed, and how often the store was asked.
    fn abuse(whole: &BucketSpec, plan: HotPlan, per_s: u64, seconds: u64) -> (u64, u64) {
        let (mut heat, mut state) = (Heat::new(plan), whole.full(Tick(0)));
        let (mut passed, mut asked) = (0, 0);
        for number in 0..per_s * seconds {
            let now = Tick(number * SECOND_US / per_s);
            let Way::Store { generation } = heat.way(now, 1) else {
                continue;
            };
            asked += 1;
            match whole.take(&mut state, now, 1) {
                Ok(left) => {
                    passed += 1;
                    let Err(Short::Wait { wait_us }) = whole.check(&state, now, left.remaining + 1)
                    else {
                        continue;
                    };
                    heat.passed(now, generation, left.remaining, wait_us);
                }
                Err(Short::Wait { wait_us }) => heat.refused(now, generation, 1, wait_us),
                Err(Short::Never) => unreachable!(),
            }
        }
        (passed, asked)
    }

    #[test]
    fn an_abuser_costs_a_question_for_each_token() {
        let ten = BucketSpec::new(10, SECOND_US, 10).unwrap();

        let (passed, asked) = abuse(&ten, HotPlan::USUAL, 5_000, 10);

        assert_eq!(passed, 109);
        assert_eq!(asked, 109);
    }

    #[test]
    fn what_was_refused_is_refused_here_until_it_may_be_there_and_less_is_asked_for() {
        let mut heat = Heat::new(HotPlan::USUAL);
        let Way::Store { generation } = heat.way(Tick(0), 5) else {
            panic!("nothing is known yet");
        };

        heat.refused(Tick(100), generation, 5, 1_000);

        assert_eq!(heat.way(Tick(200), 5), Way::Refused { wait_us: 900 });
        assert_eq!(heat.way(Tick(200), 6), Way::Refused { wait_us: 900 });
        assert!(matches!(heat.way(Tick(200), 4), Way::Store { .. }));
        assert!(matches!(heat.way(Tick(1_100), 5), Way::Store { .. }));
    }

    #[test]
    fn the_refusal_that_refuses_more_is_kept() {
        let mut heat = Heat::new(HotPlan::USUAL);

        heat.refused(Tick(0), 0, 5, 1_000);
        heat.refused(Tick(0), 0, 9, 5_000);
        assert_eq!(heat.way(Tick(1), 9), Way::Refused { wait_us: 999 });
        heat.passed(Tick(1), 0, 1, 500);
        assert_eq!(heat.way(Tick(1), 2), Way::Refused { wait_us: 500 });
    }

    #[test]
    fn what_is_given_back_here_is_asked_for_at_once_and_older_answers_say_nothing() {
        let mut heat = Heat::new(HotPlan::USUAL);
        let Way::Store { generation } = heat.way(Tick(0), 1) else {
            panic!("nothing is known yet");
        };
        heat.refused(Tick(0), generation, 1, 1_000);

        heat.renew();
        assert!(matches!(heat.way(Tick(1), 1), Way::Store { .. }));

        heat.refused(Tick(2), generation, 1, 1_000);
        assert!(matches!(heat.way(Tick(3), 1), Way::Store { .. }));
    }

    #[test]
    fn a_key_that_passes_often_gets_a_lease_and_gives_it_up_when_it_was_cool_for_a_while() {
        let mut heat = Heat::new(HotPlan::USUAL);
        for number in 0..=200 {
            assert!(!heat.is_hot(), "{number}");
            heat.way(Tick(number * 1_000), 1);
        }
        assert!(heat.is_hot());

        // 150 a second are warm, 50 are cool.
        for number in 0..150 * 30 {
            heat.way(Tick(SECOND_US + number * SECOND_US / 150), 1);
        }
        assert!(heat.is_hot());
        let mut cool = 0;
        while heat.way(Tick(31 * SECOND_US + cool * 20_000), 1) == Way::Lease {
            cool += 1;
        }
        assert!((500..=600).contains(&cool), "{cool}");
    }

    #[test]
    fn a_key_that_is_asked_for_a_little_less_often_is_not_hot() {
        let plenty = BucketSpec::new(1_000, SECOND_US, 1_000).unwrap();

        assert_eq!(abuse(&plenty, HotPlan::USUAL, 199, 10), (1_990, 1_990));
    }
}
