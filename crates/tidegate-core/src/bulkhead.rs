//! skeleton
use crate::facts::Class;
/// An amount of slots: a share of the limit or a fixed number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Portion {
    /// share of the limit, 0..=1
    Share(f64),
    /// slots
    Slots(u32),
}
/// Whether idle reserved slots may be used by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loan {
    /// nobody else touches it
    Strict,
    /// idle slots lend, less a hot spare
    Lent,
}
/// A class's reserve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reserve {
    /// how much
    pub portion: Portion,
    /// strict or lent
    pub loan: Loan,
}
/// Reserves by class and caps by group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bulkheads {
    /// by class index
    pub reserves: [Option<Reserve>; Class::COUNT],
    /// caps of group 1, 2, …; group 0 is uncapped
    pub groups: Vec<Portion>,
}
