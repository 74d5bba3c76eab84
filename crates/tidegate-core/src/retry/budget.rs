//! What many callers may spend on retries together.

use crate::time::Mono;

/// The balance is counted in billionths of a token: a rate in tokens per second times a time in
/// nanoseconds is then a whole number, and nothing is lost however often the balance is looked at.
const TOKEN: i64 = 1_000_000_000;
const MILLITOKEN: i64 = TOKEN / 1000;

/// A budget of retries that first attempts and time earn.
///
/// A retry is allowed while the balance is above 0, and may leave it in debt, which later income
/// pays off. Its price is `growth`^(n − 1) tokens for the n-th retry of one request: with a growth
/// of 2, whoever is refused again and again soon costs more than many who try for the second time,
/// so each round of a crowd is half as large as the one before.
#[derive(Clone, Debug)]
pub struct Budget {
    per_first: i64,
    per_second: u32,
    most: i64,
    growth: u32,
    balance: i64,
    latest: Mono,
}

impl Budget {
    /// A full budget.
    ///
    /// A first attempt earns `per_first_milli` thousandths of a retry, and each second earns
    /// `per_second` retries whatever happens. At most `most` retries are saved up; with 0 there are
    /// none ever. `growth` 1 means that every retry costs the same; 0 counts as 1.
    pub const fn new(per_first_milli: u32, per_second: u32, most: u32, growth: u32) -> Self {
        let most = most as i64 * TOKEN;
        Self {
            per_first: per_first_milli as i64 * MILLITOKEN,
            per_second,
            most,
            growth: if growth == 0 { 1 } else { growth },
            balance: most,
            latest: Mono::from_nanos(0),
        }
    }

    /// Somebody tries something for the first time.
    pub fn first_attempt(&mut self, now: Mono) {
        self.refill(now);
        self.earn(self.per_first);
    }

    /// Pays for retry number `retry` of one request, counted from 1; `false` when there is nothing
    /// to pay with.
    pub fn try_spend(&mut self, now: Mono, retry: u32) -> bool {
        self.refill(now);
        let allowed = self.balance > 0;
        if allowed {
            self.balance -= self.price(retry);
        }
        allowed
    }

    /// Whole retries that are saved up; negative for a debt.
    pub const fn balance(&self) -> i64 {
        self.balance.div_euclid(TOKEN)
    }

    /// No retry costs more than a full budget, or one that is far out would keep everybody else
    /// from retrying for longer than the budget takes to fill.
    fn price(&self, retry: u32) -> i64 {
        let exponent = retry.saturating_sub(1);
        let tokens = i64::from(self.growth).saturating_pow(exponent);
        tokens.saturating_mul(TOKEN).min(self.most)
    }

    fn refill(&mut self, now: Mono) {
        // A caller may come with an older reading; time never runs backwards in here.
        let elapsed = now.since(self.latest).as_nanos();
        self.latest = self.latest.max(now);
        let earned = elapsed * u128::from(self.per_second);
        self.earn(i64::try_from(earned).unwrap_or(i64::MAX));
    }

    fn earn(&mut self, earned: i64) {
        self.balance = self.balance.saturating_add(earned).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many of `asking` requests may make retry number `retry` at `second`.
    fn allowed(budget: &mut Budget, second: u64, retry: u32, asking: u32) -> u32 {
        let now = Mono::from_millis(second * 1000);
        (0..asking)
            .map(|_| u32::from(budget.try_spend(now, retry)))
            .sum()
    }

    #[test]
    fn a_crowd_that_is_refused_again_and_again_halves_each_second() {
        let mut budget = Budget::new(0, 300, 300, 2);
        let mut refused = 3000;

        let mut rounds = Vec::new();
        for retry in 1..=7 {
            refused = allowed(&mut budget, u64::from(retry) - 1, retry, refused);
            rounds.push(refused);
        }

        assert_eq!(rounds, [300, 150, 75, 38, 19, 10, 5]);
    }

    #[test]
    fn without_growth_every_retry_costs_the_same() {
        let mut budget = Budget::new(0, 300, 300, 1);

        let rounds = [1, 2, 3].map(|retry| allowed(&mut budget, retry, retry as u32, 3000));

        assert_eq!(rounds, [300, 300, 300]);
    }

    #[test]
    fn first_attempts_earn_their_fraction_to_the_last_thousandth() {
        // 0.3 of a retry is no binary fraction, and 0.6 is none that divides a whole number.
        for (per_first_milli, earned) in [(300, 300), (600, 600), (1, 1)] {
            let mut budget = Budget::new(per_first_milli, 0, 1000, 1);
            allowed(&mut budget, 0, 1, 1000);

            (0..1000).for_each(|_| budget.first_attempt(Mono::default()));

            assert_eq!(allowed(&mut budget, 0, 1, 3000), earned);
        }
    }

    #[test]
    fn looking_often_loses_nothing() {
        let mut budget = Budget::new(0, 1, 10, 1);
        allowed(&mut budget, 0, 1, 10);

        // 70,000 looks at 7 seconds: 100 µs earn a ten-thousandth of a token each.
        for tick in 1..=70_000 {
            budget.first_attempt(Mono::from_nanos(tick * 100_000));
        }

        assert_eq!(budget.balance(), 7);
    }

    #[test]
    fn no_debt_takes_longer_to_pay_than_the_budget_takes_to_fill() {
        let mut budget = Budget::new(0, 10, 100, 2);

        assert_eq!(allowed(&mut budget, 0, 60, 5), 1);
        assert_eq!(allowed(&mut budget, 0, 1, 5), 0);
        assert!(allowed(&mut budget, 1, 1, 5) > 0);
    }

    #[test]
    fn an_empty_budget_allows_nothing_ever() {
        let mut budget = Budget::new(1000, 1000, 0, 1);

        budget.first_attempt(Mono::from_millis(5000));

        assert!(!budget.try_spend(Mono::MAX, 1));
    }

    proptest! {
        #[test]
        fn what_is_spent_was_saved_or_earned_but_for_one_debt(
            per_first_milli in 0u32..2000,
            per_second in 0u32..1000,
            most in 0u32..500,
            growth in 0u32..4,
            events in prop::collection::vec((any::<bool>(), 0u64..20_000_000_000, 1u32..8), 1..400),
        ) {
            let mut budget = Budget::new(per_first_milli, per_second, most, growth);
            let (mut spent, mut earned, mut dearest) = (0u128, 0u128, 0u128);
            let mut latest = 0;
            for (first, at, retry) in events {
                let now = Mono::from_nanos(at);
                latest = latest.max(at);
                if first {
                    budget.first_attempt(now);
                    earned += u128::from(per_first_milli) * 1_000_000;
                } else if budget.try_spend(now, retry) {
                    let price = u128::from(growth.max(1).pow(retry - 1).min(most)) * 1_000_000_000;
                    spent += price;
                    dearest = dearest.max(price);
                }
                let income = earned + u128::from(latest) * u128::from(per_second);
                let saved = u128::from(most) * 1_000_000_000;
                prop_assert!(spent <= saved + income + dearest);
            }
        }

        #[test]
        fn nothing_that_comes_in_makes_it_panic(
            numbers: [u32; 4],
            events in prop::collection::vec((any::<bool>(), any::<u64>(), any::<u32>()), 1..100),
        ) {
            let [per_first_milli, per_second, most, growth] = numbers;
            let mut budget = Budget::new(per_first_milli, per_second, most, growth);
            for (first, at, retry) in events {
                let now = Mono::from_nanos(at);
                if first {
                    budget.first_attempt(now);
                } else {
                    budget.try_spend(now, retry);
                }
                prop_assert!(budget.balance() <= i64::from(most));
                prop_assert!(budget.balance() >= -i64::from(most) - 1);
            }
        }
    }
}
