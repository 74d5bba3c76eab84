//! What a proxy is told of what was decided.

use http::HeaderMap;
use tidegate_core::rate::{Short, Spec};
use tidegate_http::quota::{self, Left, Policy};
use tidegate_http::refusal::Refusal;
use tidegate_store::limits::Said;

use crate::charges::Charge;
use crate::decide::Decided;
use crate::messages::{
    Code, DescriptorStatus, Duration, HeaderValue, RateLimit, RateLimitResponse, Unit,
};
use crate::plan::{Headers, RlsLimit};

/// The answer to a request that was decided on.
pub(crate) fn answer(
    decided: &Decided,
    limits: &[RlsLimit],
    headers: Headers,
) -> RateLimitResponse {
    let statuses = 0..decided.charges.descriptors;
    let mut response = RateLimitResponse {
        overall_code: Code::Ok.into(),
        statuses: statuses
            .map(|place| status(decided, limits, place))
            .collect(),
        response_headers_to_add: Vec::new(),
        raw_body: Vec::new(),
    };
    match decided.binding {
        Some((binding, short)) => {
            response.overall_code = Code::OverLimit.into();
            if headers != Headers::Never {
                refuse(&mut response, decided, limits, (binding, short));
            }
        }
        None if headers == Headers::Always => {
            let all = 0..decided.said.len();
            if let Some((place, remaining)) = tightest(decided, all) {
                let charge = &decided.charges.charges[place];
                let left = Left {
                    remaining: tokens(decided.said[place]).unwrap_or_default(),
                    wait_s: Some(until_full_us(charge, remaining).div_ceil(1_000_000)),
                };
                let policy = policy(charge, limits);
                let mut headers = HeaderMap::new();
                quota::add_headers(&mut headers, [&policy].into_iter(), &policy, left);
                response.response_headers_to_add = fields(&headers);
            }
        }
        None => {}
    }
    response
}

/// Adds what the client of a refused request is told.
fn refuse(
    response: &mut RateLimitResponse,
    decided: &Decided,
    limits: &[RlsLimit],
    (binding, short): (usize, Short),
) {
    let charges = &decided.charges.charges;
    let violated: Vec<Policy> = charges
        .iter()
        .zip(&decided.said)
        .filter(|(charge, said)| charge.is_enforced() && matches!(said, Said::Short { .. }))
        .map(|(charge, _)| policy(charge, limits))
        .collect();
    let left = Left {
        remaining: tokens(decided.said[binding]).unwrap_or_default(),
        wait_s: match short {
            Short::Wait { wait_us } => Some(wait_us.div_ceil(1_000_000)),
            Short::Never => None,
        },
    };
    let refusal = match left.wait_s {
        Some(_) => Refusal::RateLimited,
        None => Refusal::RateNever,
    };
    let mut headers = refusal.headers(left.wait_s);
    let binding = policy(&charges[binding], limits);
    quota::add_headers(&mut headers, violated.iter(), &binding, left);
    response.response_headers_to_add = fields(&headers);
    response.raw_body = quota::body(refusal, violated.iter()).to_vec();
}

/// What is said of the descriptor at `place`.
fn status(decided: &Decided, limits: &[RlsLimit], place: usize) -> DescriptorStatus {
    let charges = &decided.charges.charges;
    let its = || (0..charges.len()).filter(|&at| charges[at].descriptors.contains(place));
    let refusing = its()
        .filter(|&at| charges[at].is_enforced())
        .filter_map(|at| match decided.said[at] {
            Said::Short { short, .. } => Some((short, at)),
            _ => None,
        })
        // Of equals the first.
        .reduce(|longest, next| if next.0 > longest.0 { next } else { longest });
    if let Some((short, at)) = refusing {
        return DescriptorStatus {
            code: Code::OverLimit.into(),
            current_limit: Some(described(&charges[at], limits)),
            limit_remaining: capped(remaining(&charges[at], decided.said[at]).unwrap_or_default()),
            duration_until_reset: match short {
                Short::Wait { wait_us } => Some(duration(wait_us)),
                Short::Never => None,
            },
        };
    }
    let mut status = DescriptorStatus {
        code: Code::Ok.into(),
        ..DescriptorStatus::default()
    };
    if decided.charges.unlimited.contains(place) {
        status.limit_remaining = u32::MAX;
    } else if let Some((at, remaining)) = tightest(decided, its()) {
        status.current_limit = Some(described(&charges[at], limits));
        status.limit_remaining = capped(remaining);
        status.duration_until_reset = Some(duration(until_full_us(&charges[at], remaining)));
    } else if let Some(at) = its().next() {
        // Nobody asked it, because another limit had refused already.
        status.current_limit = Some(described(&charges[at], limits));
    }
    status
}

/// Of the charges at `places` that with the fewest hits left, and how many these are.
fn tightest(decided: &Decided, places: impl Iterator<Item = usize>) -> Option<(usize, u64)> {
    places
        .filter_map(|at| {
            let remaining = remaining(&decided.charges.charges[at], decided.said[at])?;
            Some((at, remaining))
        })
        .min_by_key(|&(_, remaining)| remaining)
}

/// How many hits are left, if anybody has asked.
fn remaining(charge: &Charge, said: Said) -> Option<u64> {
    tokens(said).map(|tokens| tokens / charge.each)
}

/// How many tokens that are: what headers tell clients, whose quota is in tokens, too.
const fn tokens(said: Said) -> Option<u64> {
    match said {
        Said::Passes { remaining, .. } | Said::Short { remaining, .. } => Some(remaining),
        Said::Unasked => None,
    }
}

/// How long until a limit that has so many hits left has all of them, at the most.
fn until_full_us(charge: &Charge, remaining: u64) -> u64 {
    match &**charge.spec() {
        Spec::Bucket(bucket) => {
            let missing = bucket.burst().saturating_sub(remaining * charge.each);
            let credits = u128::from(missing) * u128::from(bucket.credits_per_token());
            let micros = credits.div_ceil(u128::from(bucket.credits_per_us()));
            u64::try_from(micros).unwrap_or(u64::MAX)
        }
        Spec::Log(_) | Spec::Window(_) => charge.rate.period_us,
        Spec::Deny => 0,
    }
}

fn policy(charge: &Charge, limits: &[RlsLimit]) -> Policy {
    let name = &limits[charge.limit].name;
    Policy::new(name, charge.rate.tokens, charge.rate.period_us)
}

fn described(charge: &Charge, limits: &[RlsLimit]) -> RateLimit {
    RateLimit {
        requests_per_unit: capped(charge.rate.tokens / charge.each),
        unit: Unit::of_micros(charge.rate.period_us).into(),
        name: limits[charge.limit].name.clone(),
    }
}

fn duration(micros: u64) -> Duration {
    Duration {
        seconds: i64::try_from(micros / 1_000_000).unwrap_or(i64::MAX),
        nanos: (micros % 1_000_000) as i32 * 1_000,
    }
}

fn capped(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn fields(headers: &HeaderMap) -> Vec<HeaderValue> {
    let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| HeaderValue {
        key: name.as_str().to_owned(),
        value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
    };
    headers.iter().map(field).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_core::rate::set::Standing;
    use tidegate_core::rate::{Algorithm, Rate, Tick};

    use super::*;
    use crate::charges::Limits;
    use crate::messages::{DescriptorEntry, RateLimitDescriptor, RateLimitRequest};
    use crate::plan::{Allowance, Entry, Fit, OnStoreLoss, Scope, Wanted};

    /// A limit of 100 a minute, of which a hit takes 10.
    fn limit() -> RlsLimit {
        let rate: Rate = "100/min".parse().unwrap();
        let algorithm = Algorithm::Bucket;
        RlsLimit {
            name: "bytes".to_owned(),
            domain: 0,
            descriptor: vec![Entry {
                key: "user".to_owned(),
                value: Wanted::Any,
                together: false,
            }],
            fit: Fit::Whole,
            allowance: Allowance::Limited {
                rate,
                algorithm,
                spec: Arc::new(Spec::new(algorithm, rate, None).unwrap()),
            },
            cost: 10,
            standing: Standing::Enforced,
            scope: Scope::Node,
            on_store_loss: OnStoreLoss::Open,
            replaces: Vec::new(),
        }
    }

    #[test]
    fn headers_say_what_is_left_in_what_the_quota_is_in_and_statuses_in_hits() {
        let limits = Limits::new(vec!["edge".to_owned()], vec![limit()], [7; 16]);
        let entry = DescriptorEntry {
            key: "user".to_owned(),
            value: b"anna".to_vec(),
        };
        let request = RateLimitRequest {
            domain: "edge".to_owned(),
            descriptors: vec![RateLimitDescriptor {
                entries: vec![entry],
                ..RateLimitDescriptor::default()
            }],
            hits_addend: 1,
        };
        let wait_us = 3_000_000;
        let passes = Said::Passes {
            at: Tick(0),
            remaining: 75,
        };
        let short = Said::Short {
            short: Short::Wait { wait_us },
            remaining: 5,
        };
        for (said, left, hits) in [(passes, 75, 7), (short, 5, 0)] {
            let decided = Decided {
                charges: limits.charges(&request).unwrap(),
                said: vec![said],
                binding: (said == short).then_some((0, Short::Wait { wait_us })),
            };

            let answer = answer(&decided, &limits.limits, Headers::Always);

            let header = |name: &str| {
                let mut all = answer.response_headers_to_add.iter();
                all.find(|it| it.key == name).unwrap().value.clone()
            };
            assert_eq!(header("ratelimit-policy"), "\"bytes\";q=100;w=60");
            let limit = header("ratelimit");
            assert!(
                limit.starts_with(&format!("\"bytes\";r={left};t=")),
                "{limit}"
            );
            assert_eq!(answer.statuses[0].limit_remaining, hits);
        }
    }
}
