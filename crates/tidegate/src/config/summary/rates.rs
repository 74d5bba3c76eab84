//! What follows about rate limits: by what they count, and the most that they let pass.

mod fleet;

use std::fmt;

use tidegate_core::rate::log::ENTRIES_MAX;
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm, Price, Rate, Spec};
use tidegate_gateway::FollowPlan;
use tidegate_gateway::plan::Plan;
use tidegate_gateway::rate::{Absent, Cost, KeyPart, LimitPlan, Stage, in_writing};

/// Nothing, where there are no limits.
pub(super) fn show(f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
    let rates = &plan.rates;
    if rates.limits.is_empty() {
        return Ok(());
    }
    let bytes = rates.limits.iter().map(bytes_per_key).max().unwrap_or(0) * rates.keys_max as u64;
    writeln!(
        f,
        "\nrate limits, kept on this node: {} keys at most, {} of memory when so many are in use",
        rates.keys_max,
        bytesize::ByteSize(bytes)
    )?;
    for limit in &rates.limits {
        writeln!(f, "  {}", Said(limit))?;
        writeln!(f, "    {}", worst(limit))?;
        if let Some(follows) = &limit.follows {
            writeln!(f, "    {}", following(limit, follows))?;
        }
        if let Some(plan) = limit.fleet {
            fleet::show(f, limit, plan, rates.nodes)?;
        }
        let when = match limit.stage {
            Stage::Edge => "before admission",
            Stage::Known => "once it is known whose session it is",
        };
        let all = |names: &[String], what: &str| match names {
            [] => format!("all {what}"),
            names => format!("the {what} {}", names.join(" ")),
        };
        writeln!(
            f,
            "    asked {when}, for {} of {}{}",
            all(&limit.routes, "routes"),
            all(&limit.apps, "applications"),
            match limit.standing {
                Standing::Enforced => "",
                Standing::Shadow => "; in the shadow: it only counts",
            }
        )?;
    }
    Ok(())
}

/// What a key takes in memory at most, about.
fn bytes_per_key(limit: &LimitPlan) -> u64 {
    match limit.algorithm {
        Algorithm::Bucket => 64,
        Algorithm::Window => 130,
        // With debt twice as many, but no more than there may be.
        Algorithm::Log => 130 + 16 * (2 * limit.rate.tokens).min(ENTRIES_MAX),
    }
}

/// A limit in one line.
pub(crate) struct Said<'l>(pub(crate) &'l LimitPlan);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.0;
        write!(f, "{}: {}", limit.name, limit.rate)?;
        if let Spec::Bucket(bucket) = &limit.spec {
            write!(f, " with a burst of {}", bucket.burst())?;
        }
        match limit.algorithm {
            Algorithm::Bucket => {}
            other => write!(f, " by a {}", other.name())?,
        }
        if let Some(instead) = &limit.instead {
            let key = instead.key.iter();
            let key: Vec<_> = key.map(|part| in_writing(part.as_deref())).collect();
            return write!(f, ", in place of {} for {}", instead.name, key.join(" "));
        }
        let parts: Vec<String> = limit.key.iter().map(part).collect();
        if parts.is_empty() {
            write!(f, ", all together")?;
        } else {
            write!(f, ", for each {}", parts.join(" and "))?;
        }
        if limit.key.iter().any(KeyPart::may_be_absent) {
            let without = match limit.absent {
                Absent::Skip => "does not apply",
                Absent::Deny => "refuses",
                Absent::Shared => "counts together",
            };
            write!(f, " ({without} without)")?;
        }
        match &limit.cost {
            Cost::Fixed(1) => Ok(()),
            Cost::Fixed(cost) => write!(f, ", a request costs {cost}"),
            Cost::Header { name, otherwise } => {
                write!(
                    f,
                    ", a request costs what a trusted peer says in {name}, else {otherwise}"
                )
            }
            Cost::Response { name, reserve } => {
                write!(
                    f,
                    ", a request costs {reserve}, or what its answer says in {name}"
                )
            }
        }
    }
}

fn part(part: &KeyPart) -> String {
    match part {
        KeyPart::Client { v4, v6 } => format!("client (IPv4 /{v4}, IPv6 /{v6})"),
        KeyPart::Network => "named network".to_owned(),
        KeyPart::Session => "user of a session".to_owned(),
        KeyPart::ApiKey(name) => format!("API key in {name}"),
        KeyPart::Claim(name) => format!("claim {name} of a token"),
        KeyPart::Header(name) => format!("value of {name}"),
        KeyPart::Route => "route".to_owned(),
        KeyPart::Constant(text) => format!("\"{text}\""),
    }
}

/// What is left of it while the fleet has no room.
fn following(limit: &LimitPlan, follows: &FollowPlan) -> String {
    let hold = match follows.hold {
        hold if hold.is_zero() => String::new(),
        hold => format!(
            ", {} after what was heard last",
            humantime::format_duration(hold)
        ),
    };
    format!(
        "follows the headroom of the fleet down to {}; the whole rate while nobody says how much that is{hold}",
        Price::at(follows.floor).rate(limit.rate)
    )
}

/// The most that passes in any time as long as the limit's own period, wherever that begins.
fn worst(limit: &LimitPlan) -> String {
    let Rate { period_us, .. } = limit.rate;
    if limit.spec == Spec::Deny {
        return "nothing passes".to_owned();
    }
    // `1/min` without its number is how a period is written.
    let any = Rate {
        tokens: 1,
        period_us,
    };
    let any = any.to_string();
    let period = any.strip_prefix("1/").unwrap_or(&any);
    let worst = limit.spec.worst_in(period_us);
    format!(
        "at most {worst} tokens in any {period}, wherever that begins; {} at once",
        limit.spec.most()
    )
}
