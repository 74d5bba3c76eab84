//! How much load one pass may bring, so that one that is shared is worth no more than one visitor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm as Counting, Rate, Spec, SpecError, Tick};
use tidegate_core::session::SlotTag;
use tidegate_store::limits::{Asked, LimitTable, LimitTablePlan, Said};

use super::checks::wait_us;
use super::pass::PassId;

/// What one pass may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Requests at the same time, 1 or more.
    pub in_flight: u32,
    /// Requests a second, 1 or more.
    pub per_second: u64,
    /// Requests at once after a rest, 1 or more.
    pub burst: u64,
}

/// It is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// So many requests are on their way already.
    InFlight,
    /// So many came this second. There will be room for another in as many microseconds.
    Rate {
        /// How many.
        wait_us: u64,
    },
}

/// What all passes bring.
pub(super) struct Budgets {
    classes: Vec<(Budget, Arc<Spec>)>,
    rates: LimitTable,
    /// How many requests each pass has on their way. Passes with none are not in there.
    inside: [Mutex<HashMap<PassId, u32>>; SHARDS],
    /// In each of them.
    passes_max: usize,
}

/// A request on its way with a pass. It ends when this is dropped.
pub struct Using {
    /// `None` for a request that nobody counts.
    counted: Option<(Arc<Budgets>, PassId)>,
}

const SHARDS: usize = 16;

impl Default for Budget {
    /// Eight at a time and ten a second; a page and what it asks for may come at once.
    fn default() -> Self {
        Self {
            in_flight: 8,
            per_second: 10,
            burst: 20,
        }
    }
}

impl Budgets {
    /// For passes of these classes, the usual one first; `passes_max` at a time.
    pub(super) fn new(classes: &[Budget], passes_max: u64) -> Result<Self, SpecError> {
        let class = |budget: &Budget| -> Result<_, SpecError> {
            let rate = Rate {
                tokens: budget.per_second,
                period_us: 1_000_000,
            };
            let spec = Spec::new(Counting::Bucket, rate, Some(budget.burst))?;
            Ok((*budget, Arc::new(spec)))
        };
        let passes_each = passes_max.div_ceil(SHARDS as u64).max(1);
        Ok(Self {
            classes: classes.iter().map(class).collect::<Result<_, _>>()?,
            rates: LimitTable::new(LimitTablePlan::for_keys(passes_max)),
            inside: std::array::from_fn(|_| Mutex::default()),
            passes_max: usize::try_from(passes_each).unwrap_or(usize::MAX),
        })
    }

    /// Lets a request with this pass in. A class that is not configured here is the usual one.
    pub(super) fn begin(
        self: &Arc<Self>,
        now: Tick,
        id: PassId,
        class: u8,
    ) -> Result<Using, Spent> {
        let class = self.classes.get(usize::from(class));
        let (budget, spec) = class
            .or_else(|| self.classes.first())
            .expect("there is the usual class");
        // First what costs nothing to give back.
        let using = self.enter(id, budget.in_flight)?;
        let asked = Asked {
            key: id.number(),
            tag: SlotTag::from_bits(0),
            spec,
            cost: 1,
            standing: Standing::Enforced,
        };
        match self.rates.take(&[asked], now).said[0] {
            Said::Passes { .. } | Said::Unasked => Ok(using),
            Said::Short { short, .. } => Err(Spent::Rate {
                wait_us: wait_us(short),
            }),
        }
    }

    fn enter(self: &Arc<Self>, id: PassId, most: u32) -> Result<Using, Spent> {
        let mut inside = self.shard(id);
        // More passes than there is room for have requests on their way: one more is not held back for it.
        if inside.len() >= self.passes_max && !inside.contains_key(&id) {
            return Ok(Using { counted: None });
        }
        let count = inside.entry(id).or_insert(0);
        if *count >= most {
            return Err(Spent::InFlight);
        }
        *count += 1;
        Ok(Using {
            counted: Some((Arc::clone(self), id)),
        })
    }

    fn shard(&self, id: PassId) -> std::sync::MutexGuard<'_, HashMap<PassId, u32>> {
        let shard = &self.inside[usize::from(id.0[0]) % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Using {
    /// Whether it counts: it does not while more passes are in use than there is room for.
    pub const fn is_counted(&self) -> bool {
        self.counted.is_some()
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        let Some((budgets, id)) = self.counted.take() else {
            return;
        };
        let mut inside = budgets.shard(id);
        if let Some(count) = inside.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                inside.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Budget = Budget {
        in_flight: 2,
        per_second: 10,
        burst: 3,
    };

    fn budgets(passes_max: u64) -> Arc<Budgets> {
        let large = Budget {
            in_flight: 5,
            ..SMALL
        };
        Arc::new(Budgets::new(&[SMALL, large], passes_max).unwrap())
    }

    fn id(number: u8) -> PassId {
        PassId([number; 16])
    }

    #[test]
    fn so_many_are_on_their_way_and_one_that_ends_makes_room() {
        let budgets = budgets(100);
        let begin = |id| budgets.begin(Tick(0), id, 0);

        let first = begin(id(1)).unwrap();
        let _second = begin(id(1)).unwrap();
        assert_eq!(begin(id(1)).err(), Some(Spent::InFlight));
        assert!(begin(id(2)).is_ok(), "another pass has its own");
        drop(first);
        assert!(begin(id(1)).is_ok());
        let left: usize = budgets
            .inside
            .iter()
            .map(|it| it.lock().unwrap().len())
            .sum();
        assert_eq!(left, 1, "what has none on its way is not kept");
    }

    #[test]
    fn so_many_come_in_a_second_and_who_is_refused_has_cost_nothing() {
        let budgets = budgets(100);
        let begin = |us| budgets.begin(Tick(us), id(1), 0).map(drop);

        assert!((0..3).all(|_| begin(0).is_ok()));
        assert_eq!(begin(0), Err(Spent::Rate { wait_us: 100_000 }));
        assert_eq!(begin(99_999), Err(Spent::Rate { wait_us: 1 }));
        assert_eq!(begin(100_000), Ok(()));
    }

    #[test]
    fn a_class_has_its_own_budget_and_one_that_is_unknown_the_usual() {
        let budgets = budgets(100);
        let most = |class| {
            let using: Vec<_> = (0..9)
                .map_while(|tenth| {
                    let now = Tick(tenth * 1_000_000);
                    budgets.begin(now, id(class), class).ok()
                })
                .collect();
            using.len()
        };

        assert_eq!((most(0), most(1), most(7)), (2, 5, 2));
    }

    #[test]
    fn more_passes_than_there_is_room_for_are_let_in_uncounted() {
        let budgets = budgets(1);
        // Both are in the first shard.
        let counted = budgets.begin(Tick(0), id(0), 0).unwrap();
        let uncounted = budgets.begin(Tick(0), id(16), 0).unwrap();

        assert!(counted.is_counted() && !uncounted.is_counted());
        drop(counted);
        assert!(budgets.begin(Tick(0), id(16), 0).unwrap().is_counted());
    }
}
