//! What an operator on this machine asks of rate limits: `/limits/NAME` of the admin listener.

mod fleet;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tidegate_core::rate::key::Part;
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Price, Short, Tick};
use tidegate_store::limits::{Asked, Said};

use super::sample::{Candidate, Sample};
use super::words::{self, BadKey, Given, KEY_QUERY_BYTES_MAX};
use super::{Instead, Limit, Rates, here, in_writing};

/// An answer: its status, and what it says as JSON.
pub(crate) type Reply = (StatusCode, Value);

/// What is asked of a limit.
enum Question {
    Show,
    Top,
    Reset,
}

/// Answers what is asked at `path`, which is behind `/limits/`.
pub(crate) async fn answer(
    rates: &Rates,
    method: &Method,
    path: &str,
    query: &str,
    now: Tick,
) -> Reply {
    let (name, top) = match path.split_once('/') {
        None => (path, false),
        Some((name, "top")) => (name, true),
        Some(_) => {
            return problem(
                StatusCode::NOT_FOUND,
                "no_such_path",
                "there is no such path",
            );
        }
    };
    let question = match (method, top) {
        (&Method::GET | &Method::HEAD, false) => Question::Show,
        (&Method::GET | &Method::HEAD, true) => Question::Top,
        (&Method::DELETE, false) => Question::Reset,
        _ => {
            let detail = "a limit is shown by GET, and one of its keys is reset by DELETE";
            return problem(StatusCode::METHOD_NOT_ALLOWED, "no_such_method", detail);
        }
    };
    let mut limits = rates.limits.iter().enumerate();
    let Some((at, limit)) = limits.find(|(_, limit)| limit.plan.name == name) else {
        let detail = format!("there is no limit {name}; /status.json lists them");
        return problem(StatusCode::NOT_FOUND, "no_such_limit", &detail);
    };
    if query.len() > KEY_QUERY_BYTES_MAX {
        let detail = format!(
            "the key has {} bytes as it is sent, and {KEY_QUERY_BYTES_MAX} are the most",
            query.len()
        );
        return problem(StatusCode::BAD_REQUEST, "invalid_key", &detail);
    }
    let Some(key) = key(query) else {
        let detail =
            "a key is written as key=PART&key=PART, with absent for a part that a request lacks";
        return problem(StatusCode::BAD_REQUEST, "invalid", detail);
    };
    // A key may have another limit in its place, and then that is meant.
    let at = match words::read(&limit.plan, &key) {
        Ok(parts) => match rates.meant(at, &parts) {
            Ok(at) => at,
            Err(of) => return not_overridden(limit, of),
        },
        Err(_) => at,
    };
    let limit = &rates.limits[at];
    if limit.plan.fleet.is_some() {
        return rates.answer_for_fleet(at, question, &key, now).await;
    }
    let said = match question {
        Question::Show => rates.show(at, limit, &key, now),
        Question::Top => Ok(rates.top(limit, now)),
        Question::Reset => rates.reset(at, limit, &key, now),
    };
    match said {
        Ok(said) => (StatusCode::OK, said),
        Err(bad) => no_key(&bad),
    }
}

fn no_key(bad: &BadKey) -> Reply {
    problem(StatusCode::BAD_REQUEST, "invalid_key", &bad.to_string())
}

/// That `limit` holds in place of another one, and not for the key that was given.
fn not_overridden(limit: &Limit, of: &Instead) -> Reply {
    let own: Vec<_> = of
        .key
        .iter()
        .map(|part| in_writing(part.as_deref()))
        .collect();
    let detail = format!(
        "{} holds for {} alone, in place of {}; ask {} for other keys",
        limit.plan.name,
        own.join(" "),
        of.name,
        of.name
    );
    problem(StatusCode::BAD_REQUEST, "not_in_override", &detail)
}

/// An answer that says why there is none.
pub(crate) fn problem(status: StatusCode, reason: &str, detail: &str) -> Reply {
    let said = json!({
        "type": "about:blank",
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "reason": reason,
        "detail": detail,
    });
    (status, said)
}

impl Rates {
    /// The place of the limit that holds for this key of limit `at`.
    ///
    /// An error where that is one that holds for another key alone: in place of what.
    fn meant(&self, at: usize, parts: &[Part<'_>]) -> Result<usize, &Instead> {
        let instead = self.limits[at].plan.instead.as_ref();
        let asked = instead.map_or(at, |instead| instead.of);
        let found = usize::from(self.overriding(asked as u16, parts));
        match instead {
            Some(instead) if found != at => Err(instead),
            _ => Ok(found),
        }
    }

    fn show(&self, at: usize, limit: &Limit, key: &[Given], now: Tick) -> Result<Value, BadKey> {
        let (plan, counts) = (&limit.plan, self.keys(at));
        let mut said = self.said(limit);
        said["keys"] = counts.kept.into();
        said["evicted"] = counts.forgotten.into();
        if !key.is_empty() || words::names(plan).is_empty() {
            let parts = words::read(plan, key)?;
            let states = self.standings(at).map(|standing| {
                let key = limit.keys_in(standing).key(&parts);
                self.state(limit, key, standing, now)
            });
            said["key"] = json!(words::again(key));
            said["states"] = states.collect();
        }
        Ok(said)
    }

    fn top(&self, limit: &Limit, now: Tick) -> Value {
        let candidates = |sample: &Sample| -> Value {
            let all = sample.candidates(now).into_iter().map(|it| {
                let state = self.state(limit, it.key, it.standing, now);
                counted(state, &it, now)
            });
            all.collect()
        };
        json!({
            "limit": limit.plan.name,
            "counted_by": words::names(&limit.plan),
            "refused": candidates(&limit.refused),
            "spent": candidates(&limit.spent),
        })
    }

    fn reset(&self, at: usize, limit: &Limit, key: &[Given], now: Tick) -> Result<Value, BadKey> {
        let parts = words::read(&limit.plan, key)?;
        let states = self.standings(at).map(|standing| {
            let key = limit.keys_in(standing).key(&parts);
            let before = self.state(limit, key, standing, now);
            self.table.forget(key);
            limit.refused.forget(key);
            limit.spent.forget(key);
            before
        });
        let before: Value = states.collect();
        limit.log_reset();
        Ok(json!({ "limit": limit.plan.name, "key": words::again(key), "before": before }))
    }

    /// What is used of a key.
    fn state(&self, limit: &Limit, key: u128, standing: Standing, now: Tick) -> Value {
        let price = self.price(limit);
        let asked = Asked {
            key,
            tag: here(),
            spec: &limit.spec,
            cost: price.of(limit.usual_cost(), limit.spec.most()),
            standing,
        };
        let answer = self.table.ask(&[asked], now);
        let (remaining, wait) = match answer.said[0] {
            Said::Passes { remaining, .. } => (remaining, Some(0)),
            Said::Short { short, remaining } => (remaining, wait_ms(short)),
            Said::Unasked => unreachable!("nobody else was asked"),
        };
        state_json(
            standing,
            limit.spec.most(),
            remaining,
            wait,
            (limit.plan.unit(), price),
        )
    }

    /// What a limit is, and what of it holds now.
    fn said(&self, limit: &Limit) -> Value {
        let mut said = limit.said();
        if let Some((share, source)) = self.share(limit) {
            said["share"] = share.into();
            said["share_by"] = source.name().into();
            said["rate_now"] = self.price(limit).rate(limit.plan.rate).to_string().into();
        }
        said
    }

    /// As what requests meet the limit: in applications that enforce it, in those that do not, or in both.
    fn standings(&self, at: usize) -> impl Iterator<Item = Standing> {
        let instead = self.limits[at].plan.instead.as_ref();
        let at = instead.map_or(at, |instead| instead.of);
        let met = self.met.iter().flatten();
        let met = met
            .flat_map(|met| &met.0)
            .flat_map(|at| at.node.iter().chain(&at.fleet));
        let mut met_as = [false; 2];
        for (_, standing) in met.filter(|(limit, _)| usize::from(*limit) == at) {
            met_as[usize::from(*standing == Standing::Shadow)] = true;
        }
        let both = [Standing::Enforced, Standing::Shadow]
            .into_iter()
            .zip(met_as);
        both.filter(|(_, is_met)| *is_met)
            .map(|(standing, _)| standing)
    }
}

/// What is used of a key.
/// What is used is in tokens at the rate that is written, and what remains at the present one, whose `prices` these are.
fn state_json(
    standing: Standing,
    most: u64,
    remaining: u64,
    wait_ms: Option<u64>,
    (unit, price): (Price, Price),
) -> Value {
    json!({
        "shadow": standing == Standing::Shadow,
        "used": unit.tokens(most.saturating_sub(remaining)),
        "remaining": price.tokens(remaining),
        "wait_ms": wait_ms,
    })
}

/// The same with what was counted of it.
fn counted(mut state: Value, it: &Candidate, now: Tick) -> Value {
    state["key"] = json!(it.words);
    state["count"] = it.count.into();
    state["over"] = it.over.into();
    state["ago_ms"] = (now.since(it.last) / 1_000).into();
    state
}

const fn wait_ms(short: Short) -> Option<u64> {
    match short {
        Short::Wait { wait_us } => Some(wait_us.div_ceil(1_000)),
        Short::Never => None,
    }
}

impl Limit {
    /// What it is.
    fn said(&self) -> Value {
        let plan = &self.plan;
        json!({
            "limit": plan.name,
            "algorithm": plan.algorithm.name(),
            "rate": plan.rate.to_string(),
            "most": plan.unit().tokens(self.spec.most()),
            "cost": self.usual_cost(),
            "shadow": plan.standing == Standing::Shadow,
            "apps": plan.apps,
            "routes": plan.routes,
            "counted_by": words::names(plan),
        })
    }

    fn log_reset(&self) {
        let limit = self.plan.name.as_str();
        tracing::info!(limit, "a key of a rate limit was reset");
    }

    /// What a request costs that says nothing else.
    const fn usual_cost(&self) -> u64 {
        self.plan.cost.usual()
    }
}

/// The parts of a key in a query: `key=a%20b&absent`.
fn key(query: &str) -> Option<Vec<Given>> {
    let members = query.split('&').filter(|member| !member.is_empty());
    let parts = members.map(|member| match member.split_once('=') {
        Some(("key", part)) => decoded(part).map(Some),
        None if member == "absent" => Some(None),
        _ => None,
    });
    parts.collect()
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            let digits = str::from_utf8(digits).ok()?;
            // The standard library's reader takes a sign, too.
            if digits.starts_with('+') {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*byte);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_a_query_is_its_parts_in_order() {
        let parts = |query| {
            key(query).map(|parts| -> Vec<_> {
                let shown = |part: Given| part.unwrap_or_else(|| b"-".to_vec());
                parts.into_iter().map(shown).collect()
            })
        };

        assert_eq!(parts(""), Some(vec![]));
        let both = vec![b"2001:db8::/64".to_vec(), b"-".to_vec()];
        assert_eq!(parts("key=2001:db8::%2F64&absent"), Some(both));
        assert_eq!(parts("key="), Some(vec![Vec::new()]));
        assert_eq!(parts("key=%ff"), Some(vec![vec![0xff]]));
        for wrong in ["key", "other=1", "key=%4", "key=%+1"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }
}
