//! What is known of a request when it is decided upon.

use crate::time::Mono;

/// How much a request matters, from the one that is shed last to the one that is shed first.
///
/// Health probes and the admin port are in no class: they are exempt from admission altogether.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Checkout, payment callbacks, uploads in progress: never shed by policy.
    Critical,
    /// Browsing by somebody who has a session.
    SignedIn,
    /// Browsing by somebody who has none; what carries no label is counted here.
    Anonymous,
    /// Cacheable and static content.
    Static,
    /// Prefetch, batch, crawlers: shed first.
    Background,
}

impl Class {
    /// Every class, the highest first.
    pub const ALL: [Self; 5] = [
        Self::Critical,
        Self::SignedIn,
        Self::Anonymous,
        Self::Static,
        Self::Background,
    ];

    /// How many classes there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Position in [`Class::ALL`]: 0 is the highest class.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name used in configuration, metrics and headers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::SignedIn => "signed-in",
            Self::Anonymous => "anonymous",
            Self::Static => "static",
            Self::Background => "background",
        }
    }

    /// The class called `name` in configuration, metrics and headers.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Whether `self` is shed before `other`.
    pub const fn is_below(self, other: Self) -> bool {
        (self as u8) > (other as u8)
    }
}

/// A route of one application, by its place in the configuration. Bounds what is learnt per route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub u16);

/// A bulkhead of one application; group 0 is everything that no configured group claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u16);

/// Users are told apart by this many cohorts within a class.
pub const COHORTS: u8 = 128;

/// What admission needs to know of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How much the request matters.
    pub class: Class,
    /// Whose service times it shares.
    pub route: RouteId,
    /// Whose bulkhead it is in.
    pub group: GroupId,
    /// When its caller stops waiting; [`Mono::MAX`] when never.
    pub deadline: Mono,
    /// Memory that it may hold while queued, in bytes.
    pub bytes: u32,
    /// Which part of the users it belongs to, below [`COHORTS`]; the same for all requests of one
    /// user for an hour.
    pub cohort: u8,
    /// Whether it is known to be another try of something that was refused or failed before.
    pub retry: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_found_by_the_name_it_prints() {
        for class in Class::ALL {
            assert_eq!(Class::from_name(class.name()), Some(class));
        }
        assert_eq!(Class::from_name("Critical"), None);
    }

    #[test]
    fn background_is_below_everything_and_critical_below_nothing() {
        assert!(Class::Background.is_below(Class::Static));
        assert!(
            Class::ALL
                .iter()
                .all(|&class| !Class::Critical.is_below(class))
        );
    }
}
