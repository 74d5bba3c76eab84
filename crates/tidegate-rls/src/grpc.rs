//! The one method of the service, as gRPC has it.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use tidegate_core::rate::Tick;
use tidegate_store::Call;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::answer::answer;
use crate::counts::Counts;
use crate::decide::{Decider, Failed};
use crate::messages::{RateLimitRequest, RateLimitResponse};
use crate::plan::RlsPlan;

/// Where the method is.
pub const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The largest message that is read, in bytes.
///
/// What is larger is not decided on, so it is more than a client can bring about: as many descriptors as there may be, each
/// with a value as long as all headers of a request that Envoy takes unless it is told otherwise, 60 KiB.
const MESSAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What every connection shares.
pub(crate) struct Shared {
    pub(crate) plan: RlsPlan,
    pub(crate) decider: Decider,
    pub(crate) counts: Arc<Counts>,
    pub(crate) calls: Semaphore,
    /// When it was started: the beginning of its clock.
    pub(crate) started: Instant,
}

/// One call.
struct Asking {
    shared: Arc<Shared>,
    /// When its caller has no more use for an answer.
    until: Instant,
    /// Set once its message could be read.
    is_read: Arc<AtomicBool>,
}

/// Answers a request to this service, whatever it is.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if request.uri().path() != PATH {
        let status = Status::unimplemented(format!("this service has one method: {PATH}"));
        return Ok(status.into_http());
    }
    let Ok(_slot) = shared.calls.try_acquire() else {
        shared.counts.busy.add();
        return Ok(Status::resource_exhausted("too many calls are under way").into_http());
    };
    let timeout = timeout(request.headers()).map_or(shared.plan.timeout, |its_own| {
        its_own.min(shared.plan.timeout)
    });
    let until = Instant::now() + timeout;
    let is_read = Arc::new(AtomicBool::new(false));
    let asking = Asking {
        shared: Arc::clone(&shared),
        until,
        is_read: Arc::clone(&is_read),
    };
    let mut grpc = Grpc::new(ProstCodec::<RateLimitResponse, RateLimitRequest>::default())
        .max_decoding_message_size(MESSAGE_BYTES_MAX);
    let answered = tokio::time::timeout_at(until, grpc.unary(asking, request)).await;
    if answered.is_ok() && !is_read.load(Ordering::Relaxed) {
        shared.counts.invalid.add();
    }
    Ok(answered.unwrap_or_else(|_| {
        shared.counts.late.add();
        Status::deadline_exceeded("the answer came too late").into_http()
    }))
}

impl UnaryService<RateLimitRequest> for Asking {
    type Response = RateLimitResponse;
    type Future =
        Pin<Box<dyn Future<Output = Result<tonic::Response<RateLimitResponse>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<RateLimitRequest>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        let until = self.until;
        self.is_read.store(true, Ordering::Relaxed);
        Box::pin(async move { decide(&shared, &request.into_inner(), until).await })
    }
}

async fn decide(
    shared: &Shared,
    request: &RateLimitRequest,
    until: Instant,
) -> Result<tonic::Response<RateLimitResponse>, Status> {
    let now = Instant::now();
    let left = until.saturating_duration_since(now);
    let micros = now.saturating_duration_since(shared.started).as_micros();
    let tick = Tick(u64::try_from(micros).unwrap_or(u64::MAX));
    let call = Call::within(left.min(shared.plan.store_timeout));
    match shared.decider.decide(request, tick, call).await {
        Ok(decided) => {
            let counts = &shared.counts.domains[decided.charges.domain];
            match decided.binding {
                None => counts.ok.add(),
                Some(_) => counts.over_limit.add(),
            }
            let limits = &shared.decider.limits.limits;
            let answer = answer(&decided, limits, shared.plan.headers);
            Ok(tonic::Response::new(answer))
        }
        Err(Failed::Invalid(invalid)) => {
            shared.counts.invalid.add();
            let code = match invalid {
                crate::charges::Invalid::Domain(_) => Code::NotFound,
                _ => Code::InvalidArgument,
            };
            Err(Status::new(code, invalid.to_string()))
        }
        Err(Failed::StoreLost(domain)) => {
            shared.counts.domains[domain].unavailable.add();
            Err(Status::unavailable(
                "the store of limits does not answer, and one of these limits is closed then",
            ))
        }
    }
}

/// How long the caller waits, if it says so: up to eight digits and a unit.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_deadline_is_read_as_grpc_writes_it() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            timeout(&headers)
        };

        assert_eq!(read("20m"), Some(Duration::from_millis(20)));
        assert_eq!(read("250000u"), Some(Duration::from_millis(250)));
        assert_eq!(
            read("99999999H"),
            Some(Duration::from_secs(99_999_999 * 3600))
        );
        assert_eq!(read("1S"), Some(Duration::from_secs(1)));
        for wrong in ["", "m", "20", "+1S", "-1S", "1.5S", "123456789n", "1x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(timeout(&HeaderMap::new()), None);
    }
}
