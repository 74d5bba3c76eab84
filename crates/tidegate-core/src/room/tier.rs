//! How much work somebody has in the site already.

/// One of the tiers that wait, the first one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Tier 1: is back for a cart or a project that can be gone on with.
    Returning,
    /// Tier 2: is signed in.
    SignedIn,
    /// Tier 3: everybody else.
    Anonymous,
}

/// What is known of somebody, as far as waiting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Tier 0: is in the middle of what must not be interrupted, and never waits.
    InFlight,
    /// Waits in a tier where there is a line.
    Waits(Tier),
}

impl Tier {
    /// How many there are.
    pub const COUNT: usize = 3;
    /// All of them, the first one first.
    pub const ALL: [Self; Self::COUNT] = [Self::Returning, Self::SignedIn, Self::Anonymous];

    /// Its number, 1 to 3.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// Its place among all, from 0.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The tier of a number from 1 to 3.
    pub fn of_number(number: u64) -> Option<Self> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        Self::ALL.get(index).copied()
    }
}

impl Standing {
    /// By what is known: a transaction under way, something to go on with, a user. The first that is so decides.
    pub const fn of(is_in_flight: bool, can_resume: bool, is_signed_in: bool) -> Self {
        match (is_in_flight, can_resume, is_signed_in) {
            (true, _, _) => Self::InFlight,
            (_, true, _) => Self::Waits(Tier::Returning),
            (_, _, true) => Self::Waits(Tier::SignedIn),
            _ => Self::Waits(Tier::Anonymous),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for tier in Tier::ALL {
            assert_eq!(Tier::of_number(tier.number().into()), Some(tier));
        }
        assert_eq!((Tier::of_number(0), Tier::of_number(4)), (None, None));
        assert!(Tier::Returning < Tier::SignedIn && Tier::SignedIn < Tier::Anonymous);
    }

    #[test]
    fn what_is_under_way_counts_before_what_could_be_gone_on_with() {
        assert_eq!(Standing::of(true, true, true), Standing::InFlight);
        let waits = |can_resume, is_signed_in| Standing::of(false, can_resume, is_signed_in);
        assert_eq!(waits(true, false), Standing::Waits(Tier::Returning));
        assert_eq!(waits(false, true), Standing::Waits(Tier::SignedIn));
        assert_eq!(waits(false, false), Standing::Waits(Tier::Anonymous));
    }
}
