//! What classes hold back for themselves, and what groups of routes may use at most.

use std::num::NonZeroU32;

use tidegate_core::bulkhead::{Bulkheads, Loan, Portion, Reserve};
use tidegate_core::facts::Class;
use tidegate_core::limit::Kind;

use super::keys::{CLASSES, GROUP, RESERVE};
use super::limit;
use super::name::{self, Names};
use super::problem::Problems;
use super::section::{Section, closest};
use super::tree::Origin;

/// All reserves together may take this much of the limit, so that the rest of the site lives.
const RESERVES_SHARE_MAX: f64 = 0.9;

/// What critical requests keep when nothing is configured for them.
const CRITICAL_BY_DEFAULT: Reserve = Reserve {
    portion: Portion::Share(0.1),
    loan: Loan::Lent,
};

/// What reserves are taken of, in the words of its section.
struct Whole {
    section: &'static str,
    units: &'static str,
    /// What counts although nothing is said of it.
    kept: &'static str,
}

const OF_APP: Whole = Whole {
    section: "app",
    units: "workers",
    kept: ", the 0.1 that critical keeps when nothing is said about it included",
};

const OF_DEPENDENCY: Whole = Whole {
    section: "dependency",
    units: "calls at once",
    kept: "",
};

/// The groups of an application: their names and where they stand.
pub(crate) struct Groups<'t> {
    pub(crate) names: Vec<String>,
    pub(crate) origins: Vec<&'t Origin>,
    caps: Vec<Portion>,
}

pub(crate) fn groups<'t>(
    app: &Section<'t>,
    workers: Option<NonZeroU32>,
    problems: &'t Problems,
) -> Groups<'t> {
    let mut groups = Groups {
        names: Vec::new(),
        origins: Vec::new(),
        caps: Vec::new(),
    };
    let mut names = Names::reserving("default", "group");
    for node in app.sections("group", "[[app.group]]") {
        let section = Section::new("[[app.group]]", node, GROUP, &[], problems);
        let name = section.text("name");
        names.take(&section, name);
        let cap = portion(&section);
        if let (Some(Portion::Slots(slots)), Some(workers)) = (cap, workers)
            && slots > workers.get()
        {
            section.refuse(
                "slots",
                format!("group \"{name}\" may use {slots} slots, but there are {workers} workers"),
                format!("write slots = {workers} or fewer, or a share"),
            );
        }
        groups.names.push(name.to_owned());
        groups.origins.push(section_name_origin(&section, node));
        groups.caps.push(cap.unwrap_or(Portion::Share(1.0)));
    }
    groups
}

pub(crate) fn bulkheads(
    app: &Section<'_>,
    groups: &Groups<'_>,
    limit: &Kind,
    workers: Option<NonZeroU32>,
    problems: &Problems,
) -> Bulkheads {
    let mut bulkheads = Bulkheads {
        groups: groups.caps.clone(),
        ..Bulkheads::default()
    };
    reserve(app, &OF_APP, workers, &mut bulkheads, problems);
    bulkheads.reserves[Class::Critical.index()].get_or_insert(CRITICAL_BY_DEFAULT);
    refuse_too_much(app, &OF_APP, &bulkheads, limit, problems);
    bulkheads
}

/// What classes hold back for themselves of the calls to a dependency. Where nothing is said, critical ones go first and
/// keep nothing: a dependency may take few calls, and all of them are wanted.
pub(crate) fn of_dependency(
    section: &Section<'_>,
    concurrency: NonZeroU32,
    problems: &Problems,
) -> Bulkheads {
    let mut bulkheads = Bulkheads::default();
    reserve(
        section,
        &OF_DEPENDENCY,
        Some(concurrency),
        &mut bulkheads,
        problems,
    );
    let limit = Kind::Static(concurrency);
    refuse_too_much(section, &OF_DEPENDENCY, &bulkheads, &limit, problems);
    bulkheads
}

/// Reads what classes hold back of `most`, as far as that is known.
fn reserve(
    app: &Section<'_>,
    of: &Whole,
    workers: Option<NonZeroU32>,
    bulkheads: &mut Bulkheads,
    problems: &Problems,
) {
    for entry in app.table("reserve") {
        let title = format!("[{}.reserve.{}]", of.section, entry.key);
        let section = Section::new(title, &entry.node, RESERVE, &[], problems);
        let Some(class) = Class::from_name(&entry.key) else {
            let fix = match closest(&entry.key, CLASSES.iter().copied()) {
                Some(class) => format!("did you mean [{}.reserve.{class}]?", of.section),
                None => format!("the classes are {}", CLASSES.join(", ")),
            };
            problems.add(
                &entry.key_origin,
                format!("`{}` is no class", entry.key),
                fix,
            );
            continue;
        };
        let loan = match section.choice("loan") {
            Some("lent") => Loan::Lent,
            _ => Loan::Strict,
        };
        let Some(portion) = portion(&section) else {
            continue;
        };
        if let (Portion::Slots(slots), Some(workers)) = (portion, workers)
            && slots >= workers.get()
            && section.sound(&["slots"])
        {
            section.refuse(
                "slots",
                format!("class \"{}\" reserves {slots} of {workers} {}", entry.key, of.units),
                format!(
                    "a reserve leaves room for the other classes: write a smaller number, or more {}",
                    of.units
                ),
            );
            continue;
        }
        bulkheads.reserves[class.index()] = Some(Reserve { portion, loan });
    }
}

fn refuse_too_much(
    app: &Section<'_>,
    of: &Whole,
    bulkheads: &Bulkheads,
    limit: &Kind,
    problems: &Problems,
) {
    let lowest = f64::from(limit::lowest(limit));
    let total: f64 = bulkheads
        .reserves
        .iter()
        .flatten()
        .map(|reserve| match reserve.portion {
            Portion::Share(share) => share,
            Portion::Slots(slots) => f64::from(slots) / lowest,
        })
        .sum();
    // Ten times 0.09 is a little more than 0.9 in binary.
    if total > RESERVES_SHARE_MAX + 1e-9
        && (matches!(limit, Kind::Static(_)) || app.sound(&["limit", "limit_min", "limit_max"]))
        && app.sound(&["workers", "concurrency"])
    {
        problems.add(
            app.place("reserve"),
            format!(
                "the reserves take {total:.2} of the limit together, at its lowest of {lowest}"
            ),
            format!(
                "leave room for the rest: {RESERVES_SHARE_MAX} is the most{}",
                of.kept
            ),
        );
    }
}

/// A share or a number of slots; one of them must be set.
fn portion(section: &Section<'_>) -> Option<Portion> {
    match (section.share_if_set("share"), section.count_if_set("slots")) {
        (Some(share), None) => Some(Portion::Share(share)),
        (None, Some(slots)) => Some(Portion::Slots(slots)),
        (Some(_), Some(_)) => {
            section.refuse(
                "slots",
                "`share` and `slots` say the same thing twice",
                "remove one of them",
            );
            None
        }
        (None, None) => {
            section.refuse(
                "share",
                "how large is not said",
                "add share = 0.2, a part of the limit, or slots = 10, a fixed number",
            );
            None
        }
    }
}

fn section_name_origin<'t>(section: &Section<'t>, node: &'t super::tree::Node) -> &'t Origin {
    section
        .node(name::KEY)
        .map_or(&node.origin, |name| &name.origin)
}
