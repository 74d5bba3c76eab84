//! What becomes of an attribute when two histories of it meet.

/// How a value that was set while the store was away meets the store's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergePolicy {
    /// The one set later stays.
    #[default]
    Newest,
    /// JSON lists and objects are put together; anything else as with `Newest`.
    Union,
    /// The store's stays. For what decides about rights.
    StoreWins,
}

/// How an attribute of the user's last session meets the one in the session that they sign in with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResumePolicy {
    /// The one set later stays.
    #[default]
    Newest,
    /// JSON lists and objects are put together; anything else as with `Newest`.
    Union,
    /// The session's own stays, if it has one.
    KeepSession,
}

impl MergePolicy {
    /// The name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Union => "union",
            Self::StoreWins => "store-wins",
        }
    }
}

impl ResumePolicy {
    /// The name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Union => "union",
            Self::KeepSession => "keep-session",
        }
    }
}
