//! What a request is, from its head alone: application, route, class, deadline.

/// A header that was ignored because it makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A remaining time.
    Timeout,
    /// A request start.
    Start,
    /// A class.
    Class,
}

impl Malformed {
    /// Every such header.
    pub const ALL: [Self; 3] = [Self::Timeout, Self::Start, Self::Class];

    /// Position in [`Malformed::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Start => "request_start",
            Self::Class => "class",
        }
    }
}
