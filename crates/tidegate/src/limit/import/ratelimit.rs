//! The YAML of envoyproxy/ratelimit: a domain, and descriptors in descriptors.

use serde::Deserialize;
use serde_saphyr::Spanned;
use tidegate_core::rate::Rate;
use tidegate_rls::{ENTRIES_MAX, Entry, Fit, Wanted};

use super::{Import, Limit};

const DAY_US: u64 = 24 * 3600 * 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Root {
    domain: String,
    #[serde(default)]
    descriptors: Option<Vec<Spanned<Descriptor>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    key: String,
    #[serde(default)]
    value: Option<String>,
    #[serde(default)]
    rate_limit: Option<RateLimit>,
    #[serde(default)]
    descriptors: Option<Vec<Spanned<Self>>>,
    #[serde(default)]
    shadow_mode: bool,
    /// Counts what is over and refuses nothing, and tells the proxy of it.
    #[serde(default)]
    quota_mode: bool,
    #[serde(default)]
    detailed_metric: bool,
    #[serde(default)]
    value_to_metric: bool,
    #[serde(default)]
    share_threshold: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RateLimit {
    #[serde(default)]
    unit: Option<String>,
    #[serde(default)]
    requests_per_unit: u32,
    #[serde(default)]
    unlimited: bool,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    replaces: Option<Vec<Replaced>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replaced {
    name: String,
}

/// Reads the file `shown` with content `text` into `import`.
pub(super) fn read(import: &mut Import, shown: &str, text: &str) -> anyhow::Result<()> {
    let root: Root = serde_saphyr::from_str(text)
        .map_err(|error| anyhow::anyhow!("{shown} is no file of envoyproxy/ratelimit: {error}"))?;
    if import.domains.contains(&root.domain) {
        import.refuse(shown, format_args!("a second domain \"{}\"", root.domain));
    }
    import.add_domain(&root.domain);
    let mut reading = Reading {
        import,
        shown,
        domain: &root.domain,
        above: Vec::new(),
    };
    reading.descriptors(root.descriptors.unwrap_or_default());
    Ok(())
}

struct Reading<'r> {
    import: &'r mut Import,
    shown: &'r str,
    domain: &'r str,
    /// The entries that the present ones are in.
    above: Vec<Entry>,
}

impl Reading<'_> {
    fn descriptors(&mut self, descriptors: Vec<Spanned<Descriptor>>) {
        for descriptor in descriptors {
            let place = format!("{} line {}", self.shown, descriptor.referenced.line());
            let descriptor = descriptor.value;
            if self.above.len() == ENTRIES_MAX {
                let what = format!("descriptors more than {ENTRIES_MAX} deep");
                self.import.refuse(&place, what);
                continue;
            }
            self.above.push(entry(&descriptor));
            if let Some(limit) = self.limit(&descriptor, &place) {
                self.import.limits.push(limit);
            }
            self.descriptors(descriptor.descriptors.unwrap_or_default());
            self.above.pop();
        }
    }

    /// The limit of a descriptor itself, if it has one that can be carried over.
    fn limit(&mut self, descriptor: &Descriptor, place: &str) -> Option<Limit> {
        let given = descriptor.rate_limit.as_ref()?;
        if descriptor.quota_mode {
            let what = "quota_mode: what is over is let pass and the proxy is told of it; with shadow_mode it is only \
                        counted";
            self.import.refuse(place, what);
        }
        if descriptor.share_threshold && !self.above.last()?.together {
            let what = "share_threshold without a value that ends in *";
            self.import.refuse(place, what);
        }
        let rate = match Self::rate(given) {
            Ok(rate) => rate,
            Err(what) => {
                self.import.refuse(place, what);
                return None;
            }
        };
        let metric = |is_set: bool, name: &str| {
            let note =
                format!("{name} has no equivalent: metrics have the limit's name and no value");
            is_set.then_some(note)
        };
        let notes = [
            metric(descriptor.detailed_metric, "detailed_metric"),
            metric(descriptor.value_to_metric, "value_to_metric"),
        ];
        let replaces = given.replaces.iter().flatten();
        Some(Limit {
            domain: self.domain.to_owned(),
            named: given.name.clone().filter(|name| !name.is_empty()),
            name: String::new(),
            descriptor: self.above.clone(),
            fit: Fit::Whole,
            rate,
            shadow: descriptor.shadow_mode,
            replaces: replaces.map(|it| it.name.clone()).collect(),
            notes: notes.into_iter().flatten().collect(),
        })
    }

    /// The rate; none for no limit.
    fn rate(given: &RateLimit) -> Result<Option<Rate>, String> {
        if given.unlimited {
            return match &given.unit {
                None => Ok(None),
                Some(unit) => Err(format!(
                    "a limit that is unlimited and has a unit, \"{unit}\""
                )),
            };
        }
        let unit = given.unit.as_deref().unwrap_or_default();
        let period_us = match unit.to_lowercase().as_str() {
            "second" => 1_000_000,
            "minute" => 60 * 1_000_000,
            "hour" => 3600 * 1_000_000,
            "day" => DAY_US,
            "week" => 7 * DAY_US,
            "month" => 30 * DAY_US,
            "year" => 365 * DAY_US,
            _ => return Err(format!("the unit \"{unit}\"")),
        };
        Ok(Some(Rate {
            tokens: given.requests_per_unit.into(),
            period_us,
        }))
    }
}

fn entry(descriptor: &Descriptor) -> Entry {
    let value = descriptor.value.as_deref().unwrap_or_default();
    // An empty value is none, and a star stands at the end of a beginning.
    let value = match value.strip_suffix('*') {
        _ if value.is_empty() => Wanted::Any,
        Some(beginning) => Wanted::Begins(beginning.to_owned()),
        None => Wanted::Is(value.to_owned()),
    };
    Entry {
        key: descriptor.key.clone(),
        together: descriptor.share_threshold && matches!(value, Wanted::Begins(_)),
        value,
    }
}
