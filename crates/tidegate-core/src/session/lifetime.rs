//! How long a session lives.

use std::time::Duration;

/// The two bounds on a session's life, both kept in the session itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// It ends so long after its last activity.
    pub idle: Duration,
    /// It ends so long after its beginning (or its sign-in), whatever happens.
    pub absolute: Duration,
}

/// A touch is written only when the last one is so old a part of the idle time.
const TOUCH_SHARE: u32 = 20;
/// The shortest time between two touches.
const TOUCH_MIN: Duration = Duration::from_secs(1);
/// The longest time between two touches: a session ends at most so much early.
const TOUCH_MAX: Duration = Duration::from_secs(60);

impl Lifetimes {
    /// How old a touch may be before another is written: 5 % of the idle time, at least 1 s and at
    /// most 60 s. A session ends at most that much before its idle time is over.
    pub fn touch_after(&self) -> Duration {
        // An idle time of a few seconds leaves no room for a second's grain.
        (self.idle / TOUCH_SHARE).clamp(TOUCH_MIN.min(self.idle / TOUCH_SHARE), TOUCH_MAX)
    }
}
