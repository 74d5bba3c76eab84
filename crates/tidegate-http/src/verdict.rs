//! What a node says of itself to load balancers, and one answer that all their HTTP dialects understand.
//!
//! A health check that only says up or down makes of a slow node a dead one. Here one URL says how much of its share a
//! node should have: in the status for those who read nothing else, in the first line for those who match text, and in
//! the headers that OCI, Envoy and Google's balancers read.

mod board;
mod orca;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

pub use board::Board;
pub use orca::{RPS_SCALE, text as orca_text};

/// Sets the weight of a backend in Oracle's balancer: 0 to 100, where 0 drains.
pub const DYNAMIC_WEIGHT: HeaderName = HeaderName::from_static("x-dynamic-backend-weight");
/// Marks a host as degraded in Envoy. Its presence alone counts, whatever the value.
pub const ENVOY_DEGRADED: HeaderName = HeaderName::from_static("x-envoy-degraded");
/// A load report, as Envoy and gRPC call it.
pub const LOAD_METRICS: HeaderName = HeaderName::from_static("endpoint-load-metrics");
/// The same in another form, which is never written here.
pub const LOAD_METRICS_BIN: HeaderName = HeaderName::from_static("endpoint-load-metrics-bin");
/// The same, as Google's balancers call it.
pub const X_LOAD_METRICS: HeaderName = HeaderName::from_static("x-endpoint-load-metrics");

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It has room.
    Healthy,
    /// It should have less than its share.
    Stressed,
    /// It should have nothing new.
    Saturated,
    /// Nothing is known, and that counts as healthy.
    Unknown,
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// How it is.
    pub state: State,
    /// Its weight in percent of what it has when all is well, 0 to 100; what is above counts as 100.
    pub weight: u8,
    /// It is to leave, however it is: nothing new.
    pub drain: bool,
    /// The fleet cannot spare it: it is never told to leave for being saturated.
    pub kept: bool,
    /// What is left of it, 0 to 1; `None` when nobody knows.
    pub headroom: Option<f64>,
    /// What it runs out of first.
    pub binding: Option<Binding>,
    /// What it carries, for balancers that work out weights themselves.
    pub load: Option<Load>,
}

/// What a node runs out of first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binding {
    /// The dimension, such as `threads`.
    pub dimension: &'static str,
    /// How much of it is used, 0 to 1.
    pub used: f64,
}

/// What a node carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// How much of it is used, of what is proportional to load: 0 and up, 1 being all.
    pub utilization: f64,
    /// Answers that failed, of all: 0 to 1.
    pub error_ratio: f64,
    /// Requests that it completed each second.
    pub completed_per_s: f64,
}

/// What follows from a verdict, whichever the dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It takes requests, with this weight: 1 to 100 percent.
    Serve(u8),
    /// It takes nothing new, being full.
    Out,
    /// It takes nothing new, being about to leave.
    Leave,
}

/// What a monitor goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitor {
    /// By the status.
    Status,
    /// By the text: anything but 200 would be a failure to it, so the status is always 200.
    Text,
}

impl State {
    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Stressed => "stressed",
            Self::Saturated => "saturated",
            Self::Unknown => "unknown",
        }
    }
}

impl Verdict {
    /// Of a node that nothing is known of: it serves with all its weight.
    pub const UNKNOWN: Self = Self {
        state: State::Unknown,
        weight: 100,
        drain: false,
        kept: false,
        headroom: None,
        binding: None,
        load: None,
    };

    /// What follows from it.
    ///
    /// A weight of 0 would be a node that is up and gets nothing, which nobody notices: the least is 1, unless it leaves.
    pub fn told(&self) -> Told {
        if self.drain {
            return Told::Leave;
        }
        match self.state {
            State::Saturated if !self.kept => Told::Out,
            State::Unknown => Told::Serve(100),
            State::Healthy | State::Stressed | State::Saturated => {
                Told::Serve(self.weight.clamp(1, 100))
            }
        }
    }

    /// What is said last, by whoever will not be heard of again: nobody watches the node from now on, so it has all of its weight. What
    /// an operator has taken out stays out: that is no finding that might be out of date.
    pub fn last_word(&self) -> Self {
        Self {
            drain: self.drain,
            ..Self::UNKNOWN
        }
    }

    /// The load report that balancers read in a header, if there is something to report.
    pub fn report(&self) -> Option<HeaderValue> {
        let text = orca_text(self.load.as_ref()?)?;
        HeaderValue::try_from(text).ok()
    }

    /// The word for it in the first line, which monitors match.
    fn word(&self) -> &'static str {
        match (self.told(), self.state) {
            (Told::Leave, _) => "DRAINING",
            (Told::Out, _) => "SATURATED",
            (Told::Serve(_), State::Healthy) => "HEALTHY",
            (Told::Serve(_), State::Unknown) => "UNKNOWN",
            (Told::Serve(_), State::Stressed | State::Saturated) => "STRESSED",
        }
    }

    fn line(&self) -> String {
        let weight = match self.told() {
            Told::Serve(weight) => weight,
            Told::Out | Told::Leave => 0,
        };
        let headroom = self.headroom.filter(|headroom| headroom.is_finite());
        let headroom = headroom.map_or_else(
            || "unknown".to_owned(),
            |headroom| format!("{:.2}", headroom.clamp(0.0, 1.0)),
        );
        let dimension = self.binding.map_or("none", |binding| binding.dimension);
        let word = self.word();
        format!("TIDEGATE {word} weight={weight} headroom={headroom} dim={dimension}\n")
    }
}

impl Monitor {
    /// What the query of a request asks for: `f5=1` is a monitor that goes by the text.
    pub fn asked(query: Option<&str>) -> Self {
        let mut pairs = query.unwrap_or_default().split('&');
        if pairs.any(|pair| pair == "f5=1") {
            Self::Text
        } else {
            Self::Status
        }
    }
}

/// The answer to `monitor`, for all dialects at once.
pub fn answer(verdict: &Verdict, monitor: Monitor) -> Response<Bytes> {
    let told = verdict.told();
    let (status, weight) = match told {
        Told::Serve(weight) => (StatusCode::OK, weight),
        Told::Out | Told::Leave => (StatusCode::SERVICE_UNAVAILABLE, 0),
    };
    let mut response = Response::new(Bytes::from(verdict.line()));
    *response.status_mut() = match monitor {
        Monitor::Status => status,
        Monitor::Text => StatusCode::OK,
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(DYNAMIC_WEIGHT, HeaderValue::from(u16::from(weight)));
    if verdict.word() == "STRESSED" {
        headers.insert(ENVOY_DEGRADED, HeaderValue::from_static("1"));
    }
    report_load(headers, verdict.report());
    response
}

/// Puts a load report on an answer, under both names, in place of whatever is there: one answer has one report, and what
/// somebody behind this node says of themselves is none of the node. With nothing to report nothing is there.
pub fn report_load(headers: &mut HeaderMap, report: Option<HeaderValue>) {
    headers.remove(LOAD_METRICS_BIN);
    let Some(report) = report else {
        headers.remove(LOAD_METRICS);
        headers.remove(X_LOAD_METRICS);
        return;
    };
    headers.insert(LOAD_METRICS, report.clone());
    headers.insert(X_LOAD_METRICS, report);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_keeps_nothing_but_an_order() {
        let full = Verdict {
            drain: true,
            ..verdict(State::Saturated, 0)
        };

        assert_eq!(full.last_word().told(), Told::Leave);
        assert_eq!(verdict(State::Saturated, 0).last_word(), Verdict::UNKNOWN);
    }

    fn verdict(state: State, weight: u8) -> Verdict {
        Verdict {
            state,
            weight,
            headroom: Some(0.3),
            binding: Some(Binding {
                dimension: "threads",
                used: 0.7,
            }),
            load: Some(Load {
                utilization: 0.7,
                error_ratio: 0.05,
                completed_per_s: 120.0,
            }),
            ..Verdict::UNKNOWN
        }
    }

    fn header(response: &Response<Bytes>, name: &str) -> Option<String> {
        let value = response.headers().get(name)?;
        Some(value.to_str().unwrap().to_owned())
    }

    fn body(response: &Response<Bytes>) -> &str {
        std::str::from_utf8(response.body()).unwrap()
    }

    #[test]
    fn a_stressed_node_says_so_in_every_dialect() {
        let response = answer(&verdict(State::Stressed, 40), Monitor::Status);

        assert_eq!(response.status(), 200);
        assert_eq!(
            body(&response),
            "TIDEGATE STRESSED weight=40 headroom=0.30 dim=threads\n"
        );
        let header = |name| header(&response, name);
        assert_eq!(header("x-dynamic-backend-weight").unwrap(), "40");
        assert_eq!(header("x-envoy-degraded").unwrap(), "1");
        assert_eq!(header("cache-control").unwrap(), "no-store");
        let report = "TEXT application_utilization=0.750,rps_fractional=1200.000";
        assert_eq!(header("endpoint-load-metrics").unwrap(), report);
        assert_eq!(header("x-endpoint-load-metrics").unwrap(), report);
    }

    #[test]
    fn only_a_stressed_node_is_degraded() {
        for state in [State::Healthy, State::Saturated, State::Unknown] {
            let response = answer(&verdict(state, 40), Monitor::Status);
            assert_eq!(header(&response, "x-envoy-degraded"), None, "{state:?}");
        }
    }

    #[test]
    fn a_saturated_node_is_out_unless_the_fleet_cannot_spare_it() {
        let mut verdict = verdict(State::Saturated, 5);
        let out = answer(&verdict, Monitor::Status);
        assert_eq!(out.status(), 503);
        assert!(body(&out).starts_with("TIDEGATE SATURATED weight=0 "));
        assert_eq!(header(&out, "x-dynamic-backend-weight").unwrap(), "0");

        verdict.kept = true;
        let kept = answer(&verdict, Monitor::Status);

        assert_eq!(kept.status(), 200);
        assert!(body(&kept).starts_with("TIDEGATE STRESSED weight=5 "));
        assert_eq!(header(&kept, "x-envoy-degraded").unwrap(), "1");
    }

    #[test]
    fn a_monitor_that_goes_by_text_always_gets_200() {
        let mut leaving = verdict(State::Healthy, 100);
        leaving.drain = true;

        for (verdict, word) in [
            (leaving, "DRAINING"),
            (verdict(State::Saturated, 5), "SATURATED"),
        ] {
            let response = answer(&verdict, Monitor::asked(Some("a=b&f5=1")));
            assert_eq!(response.status(), 200);
            assert!(body(&response).starts_with(&format!("TIDEGATE {word} weight=0 ")));
        }
        assert_eq!(Monitor::asked(Some("f5=10")), Monitor::Status);
        assert_eq!(Monitor::asked(None), Monitor::Status);
    }

    #[test]
    fn what_is_unknown_is_healthy_and_has_all_its_weight() {
        let unknown = Verdict {
            weight: 0,
            ..Verdict::UNKNOWN
        };

        let response = answer(&unknown, Monitor::Status);

        assert_eq!(response.status(), 200);
        assert_eq!(
            body(&response),
            "TIDEGATE UNKNOWN weight=100 headroom=unknown dim=none\n"
        );
        assert_eq!(header(&response, "endpoint-load-metrics"), None);
    }

    #[test]
    fn a_weight_is_never_nothing_by_itself() {
        assert_eq!(verdict(State::Stressed, 0).told(), Told::Serve(1));
        assert_eq!(verdict(State::Healthy, 255).told(), Told::Serve(100));
    }

    #[test]
    fn a_headroom_that_is_no_number_is_unknown() {
        for (headroom, said) in [
            (f64::NAN, "headroom=unknown"),
            (f64::INFINITY, "headroom=unknown"),
            (-3.0, "headroom=0.00"),
            (7.0, "headroom=1.00"),
        ] {
            let verdict = Verdict {
                headroom: Some(headroom),
                ..Verdict::UNKNOWN
            };
            let response = answer(&verdict, Monitor::Status);
            assert!(body(&response).contains(said), "{}", body(&response));
        }
    }
}
