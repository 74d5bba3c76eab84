//! Policies by the names that people type.

use std::num::NonZeroU32;

use thiserror::Error;
use tidegate_core::limit::Kind;

use crate::text::shown;

use super::{LimitKind, Make, Policy, QueueKind, bounds};

/// A name that is nobody's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no policy \"{}\"{}; there are {}", shown(.name), hint(.nearest.as_ref()), Policy::ALL.join(", "))]
pub struct UnknownPolicy {
    /// What was asked for.
    pub name: String,
    /// What may have been meant.
    pub nearest: Option<&'static str>,
}

/// Names less alike than this are no suggestion.
const ALIKE_LEAST: f64 = 0.75;

/// The one with a number in it.
const FIXED: &str = "fixed:N";

const VEGAS: Kind = Kind::Vegas(bounds(20, 1, 1000));
const GRADIENT2: Kind = Kind::Gradient2(bounds(20, 20, 200));

fn hint(nearest: Option<&&'static str>) -> String {
    match nearest {
        Some(&FIXED) => format!(" (did you mean {FIXED}, with N from 1 to {}?)", u32::MAX),
        Some(nearest) => format!(" (did you mean {nearest}?)"),
        None => String::new(),
    }
}

pub(super) fn make(name: &str) -> Result<Make, UnknownPolicy> {
    Ok(match name {
        Policy::OURS => Make::Tidegate,
        "none" => Make::Nothing,
        "aimd" => Make::Limit(LimitKind::Core(Kind::Aimd(bounds(20, 20, 200)))),
        "vegas" => Make::Limit(LimitKind::Core(VEGAS)),
        "vegas-windowed" => Make::Limit(LimitKind::Windowed(VEGAS)),
        "gradient1" => Make::Limit(LimitKind::Gradient1),
        "gradient1-windowed" => Make::Limit(LimitKind::WindowedGradient1),
        "gradient2" => Make::Limit(LimitKind::Core(GRADIENT2)),
        "gradient2-windowed" => Make::Limit(LimitKind::Windowed(GRADIENT2)),
        "envoy" => Make::Limit(LimitKind::Envoy),
        "brpc" => Make::Limit(LimitKind::Brpc),
        "deadline" => Make::Queue(QueueKind::Deadline),
        "bounded" => Make::Queue(QueueKind::Bounded),
        "codel" => Make::Queue(QueueKind::CoDel),
        _ => {
            let limit = name
                .strip_prefix("fixed:")
                .and_then(|limit| limit.parse::<NonZeroU32>().ok())
                .ok_or_else(|| unknown(name))?;
            Make::Limit(LimitKind::Core(Kind::Static(limit)))
        }
    })
}

fn unknown(name: &str) -> UnknownPolicy {
    let likeness = |known: &str| {
        let known = known.split(':').next().unwrap_or(known);
        let asked = name.split(':').next().unwrap_or(name);
        strsim::jaro_winkler(&asked.to_lowercase(), known)
    };
    let nearest = Policy::ALL
        .iter()
        .copied()
        .filter(|known| likeness(known) >= ALIKE_LEAST)
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    UnknownPolicy {
        name: name.to_owned(),
        nearest,
    }
}
