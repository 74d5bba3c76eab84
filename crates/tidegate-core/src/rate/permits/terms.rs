//! How many permits there are, and what classes keep of them for themselves.

use crate::facts::Class;

/// What holds for the permits of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Permits altogether.
    pub all: u64,
    /// What classes keep for themselves, by their index.
    pub keeps: [Keep; Class::COUNT],
    /// For how long one is held that is not renewed, in microseconds.
    pub lease_us: u64,
}

/// What one class keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// So many are its own while there are any at all.
    pub reserve: u64,
    /// Of those that it does not use, so many nobody else gets.
    pub idle: u64,
}

/// Permits that are held, by the index of their class.
pub type ByClass = [u64; Class::COUNT];

impl Terms {
    /// `all` permits for whoever comes first.
    pub const fn of(all: u64, lease_us: u64) -> Self {
        Self {
            all,
            keeps: [Keep {
                reserve: 0,
                idle: 0,
            }; Class::COUNT],
            lease_us,
        }
    }

    /// The most that one of `class` may weigh while so many are `used`.
    pub fn room(&self, used: &ByClass, class: Class) -> u64 {
        let total = used
            .iter()
            .fold(0, |sum: u64, &own| sum.saturating_add(own));
        let free = self.all.saturating_sub(total);
        let own = class.index();
        let kept = |at: usize| {
            let Keep { reserve, idle } = self.keeps[at];
            reserve.saturating_sub(used[at]).min(idle)
        };
        let others: u64 = (0..Class::COUNT).filter(|&at| at != own).map(kept).sum();
        let reserved = self.keeps[own].reserve.saturating_sub(used[own]);
        free.saturating_sub(others).max(reserved.min(free))
    }

    /// The most that one of `class` can ever weigh.
    pub fn most(&self, class: Class) -> u64 {
        self.room(&[0; Class::COUNT], class)
    }

    /// What is there for each of `nodes` nodes to give by itself. All of them together never give more than there are;
    /// with more nodes than permits each has none.
    pub fn part(&self, nodes: u32) -> Self {
        let nodes = u64::from(nodes.max(1));
        let keeps = self.keeps.map(|keep| Keep {
            reserve: keep.reserve / nodes,
            idle: keep.idle / nodes,
        });
        Self {
            all: self.all / nodes,
            keeps,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRITICAL: usize = Class::Critical.index();

    fn terms(reserve: u64, idle: u64) -> Terms {
        let mut terms = Terms::of(10, 1_000);
        terms.keeps[CRITICAL] = Keep { reserve, idle };
        terms
    }

    fn used(critical: u64, anonymous: u64) -> ByClass {
        let mut used = [0; Class::COUNT];
        used[CRITICAL] = critical;
        used[Class::Anonymous.index()] = anonymous;
        used
    }

    #[test]
    fn what_a_class_reserves_is_its_own_and_the_rest_is_for_all() {
        let terms = terms(4, 4);

        assert_eq!(terms.room(&used(0, 0), Class::Anonymous), 6);
        assert_eq!(terms.room(&used(0, 6), Class::Anonymous), 0);
        assert_eq!(terms.room(&used(0, 6), Class::Critical), 4);
        // What it uses of its reserve is not kept free once more.
        assert_eq!(terms.room(&used(4, 3), Class::Anonymous), 3);
        assert_eq!(terms.room(&used(6, 0), Class::Critical), 4);
    }

    #[test]
    fn of_a_lent_reserve_only_a_spare_is_kept_free() {
        let terms = terms(4, 1);

        assert_eq!(terms.room(&used(0, 0), Class::Anonymous), 9);
        assert_eq!(terms.room(&used(3, 0), Class::Anonymous), 6);
        assert_eq!(terms.room(&used(0, 9), Class::Critical), 1);
    }

    #[test]
    fn there_is_never_less_than_nothing() {
        assert_eq!(terms(4, 4).room(&used(0, 12), Class::Critical), 0);
        assert_eq!(terms(4, 4).room(&used(12, 0), Class::Anonymous), 0);
    }

    #[test]
    fn parts_never_add_up_to_more_than_the_whole() {
        let part = terms(4, 4).part(3);

        assert_eq!((part.all, part.keeps[CRITICAL].reserve), (3, 1));
        assert_eq!(Terms::of(10, 1).part(11).all, 0);
        assert_eq!(Terms::of(10, 1).part(0).all, 10);
    }
}
