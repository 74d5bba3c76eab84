//! skeleton
/// Order and dropping inside a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// FIFO until the head has waited half of the longest wait, then newest first.
    AdaptiveLifo,
    /// oldest first
    Fifo,
    /// CoDel, target W/2, interval 5 W
    CoDel,
}
