//! How many requests may be inside an application at once.

use std::num::NonZeroU32;

use tidegate_core::limit::adaptive::Settings;
use tidegate_core::limit::{Bounds, Kind};

use super::section::Section;

const BOUNDS: [&str; 3] = ["limit_min", "limit_max", "limit_initial"];

/// More than any application has slots, and still within the 20,000 files that small systems allow,
/// with those of clients. A number that looks generous, such as 1000, halves what an application
/// with 2000 slots can do.
const ADAPTIVE_MAX: u32 = 8_000;

/// Where a learnt limit begins.
const INITIAL: u32 = 20;

/// The limit's algorithm and its bounds.
pub(crate) fn limit(section: &Section<'_>, workers: Option<NonZeroU32>) -> Kind {
    let limit = algorithm(section, workers);
    if section.has("latency_max")
        && !matches!(limit, Kind::Adaptive(_))
        && section.sound(&["limit"])
    {
        section.refuse(
            "latency_max",
            format!("`latency_max` has no effect: the limit is {}", limit.name()),
            "remove latency_max, or choose limit = \"adaptive\"",
        );
    }
    limit
}

fn algorithm(section: &Section<'_>, workers: Option<NonZeroU32>) -> Kind {
    match (section.choice("limit"), workers) {
        (None, Some(workers)) if section.sound(&["limit"]) => fixed(section, workers),
        (Some("static"), Some(workers)) => fixed(section, workers),
        (Some("static"), None) => {
            if section.sound(&["workers"]) {
                section.refuse(
                    "limit",
                    "`limit = \"static\"` needs `workers`",
                    "set workers to the number of requests that the application works on at once, \
                     or remove limit and let it be learnt",
                );
            }
            Kind::Static(NonZeroU32::MIN)
        }
        (Some("aimd"), _) => Kind::Aimd(bounds(section, workers, 20, 200)),
        (Some("vegas"), _) => Kind::Vegas(bounds(section, workers, 1, 1000)),
        (Some("gradient2"), _) => Kind::Gradient2(bounds(section, workers, 20, 200)),
        _ => Kind::Adaptive(Settings {
            bounds: bounds(section, workers, 4, ADAPTIVE_MAX),
            latency_healthy_max: section.span_if_set("latency_max"),
        }),
    }
}

/// The same limit, but never above `most`.
pub(crate) fn capped(limit: Kind, most: NonZeroU32) -> Kind {
    let cap = |bounds: Bounds| {
        let [initial, min, max] =
            [bounds.initial(), bounds.min(), bounds.max()].map(|bound| bound.min(most.get()));
        Bounds::new(initial, min, max).expect("what is in order stays so under a cap")
    };
    match limit {
        Kind::Static(fixed) => Kind::Static(fixed.min(most)),
        Kind::Aimd(bounds) => Kind::Aimd(cap(bounds)),
        Kind::Vegas(bounds) => Kind::Vegas(cap(bounds)),
        Kind::Gradient2(bounds) => Kind::Gradient2(cap(bounds)),
        Kind::Adaptive(settings) => Kind::Adaptive(Settings {
            bounds: cap(settings.bounds),
            ..settings
        }),
    }
}

/// The most that the limit may ever come to.
pub(crate) const fn highest(limit: &Kind) -> u32 {
    match limit {
        Kind::Static(fixed) => fixed.get(),
        Kind::Aimd(bounds) | Kind::Vegas(bounds) | Kind::Gradient2(bounds) => bounds.max(),
        Kind::Adaptive(settings) => settings.bounds.max(),
    }
}

/// The least that the limit may ever come to.
pub(crate) const fn lowest(limit: &Kind) -> u32 {
    match limit {
        Kind::Static(fixed) => fixed.get(),
        Kind::Aimd(bounds) | Kind::Vegas(bounds) | Kind::Gradient2(bounds) => bounds.min(),
        Kind::Adaptive(settings) => settings.bounds.min(),
    }
}

fn fixed(section: &Section<'_>, workers: NonZeroU32) -> Kind {
    for key in BOUNDS {
        if section.has(key) {
            section.refuse(
                key,
                format!("`{key}` has no effect: the limit is static, {workers}"),
                format!("remove {key}, or let it be learnt: limit = \"adaptive\""),
            );
        }
    }
    Kind::Static(workers)
}

fn bounds(section: &Section<'_>, workers: Option<NonZeroU32>, min: u32, max: u32) -> Bounds {
    let max = section.count_if_set("limit_max").unwrap_or_else(|| {
        let most = section.count_if_set("connections_max").unwrap_or(max);
        workers.map_or_else(|| max.min(most), NonZeroU32::get)
    });
    let min = section
        .count_if_set("limit_min")
        .unwrap_or_else(|| min.min(max));
    let initial = section
        .count_if_set("limit_initial")
        .unwrap_or_else(|| INITIAL.max(min).min(max));
    if let Ok(bounds) = Bounds::new(initial, min, max) {
        return bounds;
    }
    if section.sound(&BOUNDS) {
        let key = if section.has("limit_initial") && min <= max {
            "limit_initial"
        } else if section.has("limit_min") {
            "limit_min"
        } else {
            "limit_max"
        };
        section.refuse(
            key,
            format!(
                "limit_min {min}, limit_initial {initial} and limit_max {max} are out of order"
            ),
            "choose limit_min ≤ limit_initial ≤ limit_max",
        );
    }
    Bounds::new(1, 1, 1).expect("ones are in order")
}

#[cfg(test)]
mod tests;
