//! The YAML of limitador: a list of limits, each with conditions and variables.

use serde::Deserialize;
use serde_saphyr::Spanned;
use tidegate_core::rate::{PERIOD_US_MAX, Rate};
use tidegate_rls::{ENTRIES_MAX, Entry, Fit, Wanted};

use super::{Import, Limit};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    namespace: String,
    max_value: u64,
    seconds: u64,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    conditions: Option<Vec<String>>,
    #[serde(default)]
    variables: Option<Vec<String>>,
}

/// Reads the file `shown` with content `text` into `import`.
pub(super) fn read(import: &mut Import, shown: &str, text: &str) -> anyhow::Result<()> {
    let all: Vec<Spanned<Given>> = serde_saphyr::from_str(text)
        .map_err(|error| anyhow::anyhow!("{shown} is no file of limitador: {error}"))?;
    for given in all {
        let place = format!("{shown} line {}", given.referenced.line());
        let given = given.value;
        import.add_domain(&given.namespace);
        match limit(&given) {
            Ok(limit) => import.limits.push(limit),
            Err(problems) => {
                for problem in problems {
                    import.refuse(&place, problem);
                }
            }
        }
    }
    Ok(())
}

/// The limit, or all of it that cannot be carried over.
fn limit(given: &Given) -> Result<Limit, Vec<String>> {
    let mut problems = Vec::new();
    let mut descriptor = Vec::new();
    for condition in given.conditions.iter().flatten() {
        match parse_condition(condition) {
            Some(entry) => descriptor.push(entry),
            None => problems.push(format!(
                "the condition `{condition}`: only descriptors[0]['KEY'] == 'VALUE' and != have an equivalent"
            )),
        }
    }
    for variable in given.variables.iter().flatten() {
        let Some(key) = parse_name(variable) else {
            problems.push(format!(
                "the variable `{variable}`: only descriptors[0]['KEY'] has an equivalent"
            ));
            continue;
        };
        // One value is one value.
        let is_one = |entry: &Entry| entry.key == key && matches!(entry.value, Wanted::Is(_));
        if !descriptor.iter().any(is_one) {
            descriptor.push(Entry {
                key,
                value: Wanted::Any,
                together: false,
            });
        }
    }
    if descriptor.len() > ENTRIES_MAX {
        problems.push(format!("more than {ENTRIES_MAX} conditions and variables"));
    }
    let period_us = given.seconds.checked_mul(1_000_000);
    let period_us = period_us.filter(|period_us| (1..=PERIOD_US_MAX).contains(period_us));
    if period_us.is_none() {
        problems.push(format!(
            "{} seconds: 1 s to 400 days are possible",
            given.seconds
        ));
    }
    let (Some(period_us), true) = (period_us, problems.is_empty()) else {
        return Err(problems);
    };
    let id = given.id.iter().map(|id| format!("its id was \"{id}\""));
    Ok(Limit {
        domain: given.namespace.clone(),
        named: given.name.clone().filter(|name| !name.is_empty()),
        name: String::new(),
        descriptor,
        fit: Fit::Part,
        rate: Some(Rate {
            tokens: given.max_value,
            period_us,
        }),
        shadow: false,
        replaces: Vec::new(),
        notes: id.collect(),
    })
}

/// `NAME == 'VALUE'` or `NAME != 'VALUE'`.
fn parse_condition(text: &str) -> Option<Entry> {
    let (name, is_equal, value) = match (text.split_once("=="), text.split_once("!=")) {
        (Some((name, value)), None) => (name, true, value),
        (None, Some((name, value))) => (name, false, value),
        _ => return None,
    };
    let value = quoted(value.trim())?;
    Some(Entry {
        key: parse_name(name)?,
        value: match is_equal {
            true => Wanted::Is(value),
            false => Wanted::Not(value),
        },
        together: false,
    })
}

/// The key in `descriptors[0]['KEY']`, `descriptors[0].KEY` or `KEY`.
fn parse_name(text: &str) -> Option<String> {
    let text = text.trim();
    let Some(rest) = text.strip_prefix("descriptors[0]") else {
        return plain(text);
    };
    match rest.strip_prefix('.') {
        Some(name) => plain(name),
        None => quoted(rest.strip_prefix('[')?.strip_suffix(']')?.trim()),
    }
}

fn plain(name: &str) -> Option<String> {
    let plain = |c: char| c.is_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(plain)).then(|| name.to_owned())
}

/// What is between quotes; with a quote or an escape in it we do not know what is meant.
fn quoted(text: &str) -> Option<String> {
    let mark = text
        .chars()
        .next()
        .filter(|mark| ['\'', '"'].contains(mark))?;
    let inner = text.strip_prefix(mark)?.strip_suffix(mark)?;
    (!inner.contains([mark, '\\'])).then(|| inner.to_owned())
}
