//! Requests whose end, or whose addressee, two readers could see differently.
//!
//! Nothing of the kind is ever forwarded: what the application makes of it is not what we made of
//! it, and the difference is how requests are smuggled.

/// What is wrong with a request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FramingFault {
    /// It is not HTTP at all.
    #[error("the head is not HTTP/1")]
    Unreadable,
    /// A length and a coding, which contradict each other.
    #[error("both Content-Length and Transfer-Encoding")]
    LengthAndCoding,
    /// More than one length, equal or not.
    #[error("more than one Content-Length")]
    RepeatedLength,
    /// A length that is not a number.
    #[error("a Content-Length that is not a number")]
    BadLength,
    /// A coding other than exactly one `chunked`.
    #[error("a Transfer-Encoding other than one chunked")]
    Coding,
    /// No Host where one must be.
    #[error("no Host")]
    NoHost,
    /// More than one Host.
    #[error("more than one Host")]
    ManyHosts,
    /// A Host that is no host.
    #[error("a Host that is none")]
    BadHost,
    /// The target names one authority and Host another.
    #[error("a target that disagrees with Host")]
    Authority,
    /// A folded line, or white space before a colon.
    #[error("a folded or misspaced header line")]
    Layout,
}

impl FramingFault {
    /// Every fault.
    pub const ALL: [Self; 10] = [
        Self::Unreadable,
        Self::LengthAndCoding,
        Self::RepeatedLength,
        Self::BadLength,
        Self::Coding,
        Self::NoHost,
        Self::ManyHosts,
        Self::BadHost,
        Self::Authority,
        Self::Layout,
    ];

    /// Position in [`FramingFault::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::LengthAndCoding => "length_and_coding",
            Self::RepeatedLength => "repeated_length",
            Self::BadLength => "bad_length",
            Self::Coding => "coding",
            Self::NoHost => "no_host",
            Self::ManyHosts => "many_hosts",
            Self::BadHost => "bad_host",
            Self::Authority => "authority",
            Self::Layout => "layout",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_stands_at_its_index() {
        for (index, fault) in FramingFault::ALL.into_iter().enumerate() {
            assert_eq!(fault.index(), index);
        }
    }
}
