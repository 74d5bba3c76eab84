//! What follows about the rate limit service.

use std::fmt;

use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm, Rate, Spec};
use tidegate_rls::{Allowance, Entry, Fit, OnStoreLoss, RlsLimit, RlsPlan, Scope, Wanted};

/// Nothing, where there is no service.
pub(super) fn show(f: &mut fmt::Formatter<'_>, plan: Option<&RlsPlan>) -> fmt::Result {
    let Some(plan) = plan else { return Ok(()) };
    writeln!(
        f,
        "\nrate limit service on {}, for {}: whoever reaches it may use up every limit",
        plan.listen,
        plan.domains.join(" ")
    )?;
    for limit in &plan.limits {
        let domain = &plan.domains[limit.domain];
        writeln!(f, "  {}: {domain}, {}", limit.name, descriptor(limit))?;
        writeln!(f, "    {}{}", allowed(limit), kept(limit))?;
    }
    Ok(())
}

fn descriptor(limit: &RlsLimit) -> String {
    let entries: Vec<String> = limit.descriptor.iter().map(entry).collect();
    match (limit.fit, entries.is_empty()) {
        (Fit::Whole, _) => entries.join(" "),
        (Fit::Part, true) => "every descriptor".to_owned(),
        (Fit::Part, false) => format!("with {} among others", entries.join(" ")),
    }
}

fn entry(entry: &Entry) -> String {
    let key = &entry.key;
    match (&entry.value, entry.together) {
        (Wanted::Is(value), _) => format!("{key}={value}"),
        (Wanted::Not(value), _) => format!("{key}≠{value}"),
        (Wanted::Begins(value), false) => format!("each {key}={value}…"),
        (Wanted::Begins(value), true) => format!("all {key}={value}…"),
        (Wanted::Any, false) => format!("each {key}"),
        (Wanted::Any, true) => format!("all {key}"),
    }
}

fn allowed(limit: &RlsLimit) -> String {
    let Allowance::Limited {
        rate,
        algorithm,
        spec,
    } = &limit.allowance
    else {
        return "no limit".to_owned();
    };
    if **spec == Spec::Deny {
        return "nothing passes".to_owned();
    }
    let any = Rate { tokens: 1, ..*rate }.to_string();
    let period = any.strip_prefix("1/").unwrap_or(&any);
    let by = match algorithm {
        Algorithm::Bucket => String::new(),
        other => format!(" by a {}", other.name()),
    };
    let cost = match limit.cost {
        1 => String::new(),
        cost => format!(", {cost} a hit"),
    };
    format!(
        "{rate}{by}{cost}: at most {} tokens in any {period}, wherever that begins; {} at once",
        spec.worst_in(rate.period_us),
        spec.most()
    )
}

fn kept(limit: &RlsLimit) -> String {
    let mut said = String::new();
    if matches!(limit.allowance, Allowance::Limited { .. }) {
        said.push_str(match (limit.scope, limit.on_store_loss) {
            (Scope::Node, _) => "; kept here",
            (Scope::Fleet, OnStoreLoss::Local) => {
                "; kept in the store, and here while that is away"
            }
            (Scope::Fleet, OnStoreLoss::Open) => {
                "; kept in the store, and no limit while that is away"
            }
            (Scope::Fleet, OnStoreLoss::Closed) => {
                "; kept in the store; while that is away calls fail, and the proxy does what it is told to do then"
            }
        });
    }
    if limit.standing == Standing::Shadow {
        said.push_str("; in the shadow: it only counts");
    }
    said
}
