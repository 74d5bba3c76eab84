//! What is configured of each attribute.

use std::collections::BTreeMap;

use tidegate_core::session::{MergePolicy, Name, ResumePolicy, WriteClass};

/// The table of attributes by name, and what holds for those that it does not name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    named: BTreeMap<Name, AttributePlan>,
    others: AttributePlan,
}

/// What holds for one attribute or counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributePlan {
    /// How safe a change of it is: `Disposable` or `Work`. A patch is as safe as its safest change.
    pub class: WriteClass,
    /// How a value set while the store was away meets the store's.
    pub merge: MergePolicy,
    /// Whether it comes along at a sign-in.
    pub carry: bool,
    /// Whether it goes into the ticket, as far as there is room.
    pub ticket: bool,
    /// Whether it is kept for the user's next session, and how it meets what is there.
    pub resume: Option<ResumePolicy>,
}

impl Attributes {
    /// The table with these rows; `others` holds for every other attribute.
    pub const fn new(named: BTreeMap<Name, AttributePlan>, others: AttributePlan) -> Self {
        Self { named, others }
    }

    /// What holds for `name`.
    pub fn of(&self, name: &Name) -> &AttributePlan {
        self.named.get(name).unwrap_or(&self.others)
    }

    /// The rows, by name.
    pub fn rows(&self) -> impl Iterator<Item = (&Name, &AttributePlan)> {
        self.named.iter()
    }

    /// The names of the rows that `is` holds for.
    pub fn names(&self, is: impl Fn(&AttributePlan) -> bool) -> Vec<Name> {
        let chosen = self.named.iter().filter(|(_, plan)| is(plan));
        chosen.map(|(name, _)| name.clone()).collect()
    }
}

impl Default for AttributePlan {
    fn default() -> Self {
        Self {
            class: WriteClass::Work,
            merge: MergePolicy::Newest,
            carry: false,
            ticket: false,
            resume: None,
        }
    }
}
