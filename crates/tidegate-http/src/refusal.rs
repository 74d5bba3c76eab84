//! Every reason for which Tidegate itself answers a request, and the one table of what it answers.

use std::sync::LazyLock;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use tidegate_core::admission::Reason;

use crate::names::TIDEGATE_REASON;

/// Why a request was not answered by its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Its deadline had passed when it arrived.
    Expired,
    /// It could not be done before its deadline, given the queue ahead of it.
    DeadlineEnqueue,
    /// The queue is full and nothing lower was in it.
    QueueFull,
    /// The queue's byte budget is spent.
    QueueBytes,
    /// The queue share of its bulkhead is full.
    GroupFull,
    /// A higher class took its place in the queue.
    Displaced,
    /// It had waited as long as anything may wait.
    QueueTime,
    /// Its deadline came too near while it waited.
    ExpiredInQueue,
    /// CoDel dropped it.
    CoDel,
    /// Its class, or its part of the users, is not let in for now.
    Level,
    /// Its class is not let in while the application recovers.
    Escape,
    /// It is another try, and there is no free slot while the application recovers.
    RetryFirst,
    /// It left the queue as the recovery began.
    Flush,
    /// The whole fleet lets in less than usual, and its class, or its part of the users, is not among that.
    Fleet,
    /// Its client left while it waited: nobody reads this answer, it is only counted.
    ClientGone,
    /// There are too many client connections; this one was let in for health probes only.
    Connections,
    /// The process is about to end.
    Draining,
    /// No application is configured for this host and path.
    NoApp,
    /// Its framing is ambiguous; see [`FramingFault`](crate::framing::FramingFault).
    BadFraming,
    /// Its head is too large.
    HeadTooLarge,
    /// Its body did not come.
    BodyTimeout,
    /// No connection to the application could be made.
    UpstreamConnect,
    /// The application closed the connection before it had answered.
    UpstreamReset,
    /// What the application answered is no HTTP, or over the limits on answers.
    UpstreamInvalid,
    /// The application did not begin to answer in time.
    UpstreamTimeout,
    /// All connections to the application are taken.
    UpstreamConnections,
    /// More health probes from elsewhere than the probe networks than are answered.
    ProbeCap,
    /// Its route needs the session, and the store is away.
    StoreAway,
    /// The application answered, but what it wanted to have kept could not be.
    SessionUnstored,
    /// It would take more of a rate limit than there is left of it now.
    RateLimited,
    /// It would take more of a rate limit than there ever is, or lacks what the limit counts by.
    RateNever,
    /// What it is for does not answer, and is not asked for a while.
    Breaker,
    /// The store of a rate limit, or of the permits of something that it depends on, is away, and nothing passes then.
    LimitStoreAway,
    /// As many use something that it depends on as may.
    DependencyFull,
    /// Something that it depends on has been asked as often as it may be.
    DependencyRate,
    /// It has to wait in its room.
    Room,
    /// So many wait in its room that nobody else can, or too many places were given to its network.
    RoomFull,
    /// Its room is closed: it is over.
    RoomClosed,
    /// Its room cannot say now where its sender stands.
    RoomAway,
    /// It shows two different tokens of a kind.
    RoomBadTokens,
    /// It comes to the door of its room too early or too often: its sender has a place, and keeps it.
    RoomDoor,
    /// The pass that it shows is good, and brings all that a pass may.
    PassBudget,
    /// Nobody could look at the pass that it shows: too many unknown ones come.
    PassUnverified,
}

/// Whether the connection goes on after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// A refusal is cheap for both sides when the connection is kept.
    Keep,
    /// What follows on it cannot be trusted, or must not stay.
    Close,
}

impl Refusal {
    /// Every refusal.
    pub const ALL: [Self; 43] = [
        Self::Expired,
        Self::DeadlineEnqueue,
        Self::QueueFull,
        Self::QueueBytes,
        Self::GroupFull,
        Self::Displaced,
        Self::QueueTime,
        Self::ExpiredInQueue,
        Self::CoDel,
        Self::Level,
        Self::Escape,
        Self::RetryFirst,
        Self::Flush,
        Self::Fleet,
        Self::ClientGone,
        Self::Connections,
        Self::Draining,
        Self::NoApp,
        Self::BadFraming,
        Self::HeadTooLarge,
        Self::BodyTimeout,
        Self::UpstreamConnect,
        Self::UpstreamReset,
        Self::UpstreamInvalid,
        Self::UpstreamTimeout,
        Self::UpstreamConnections,
        Self::ProbeCap,
        Self::StoreAway,
        Self::SessionUnstored,
        Self::RateLimited,
        Self::RateNever,
        Self::Breaker,
        Self::LimitStoreAway,
        Self::DependencyFull,
        Self::DependencyRate,
        Self::Room,
        Self::RoomFull,
        Self::RoomClosed,
        Self::RoomAway,
        Self::RoomBadTokens,
        Self::RoomDoor,
        Self::PassBudget,
        Self::PassUnverified,
    ];

    /// Position in [`Refusal::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The label in metrics, in `Tidegate-Reason` and in the body.
    pub const fn label(self) -> &'static str {
        self.row().label
    }

    /// The status answered.
    pub const fn status(self) -> StatusCode {
        self.row().status
    }

    /// Whether `Retry-After` belongs to the answer: the refusal is for want of capacity,
    /// of the store, or of tokens.
    pub const fn says_when_to_retry(self) -> bool {
        self.row().retry
    }

    /// What becomes of the connection.
    pub const fn afterwards(self) -> Afterwards {
        self.row().afterwards
    }

    /// The body, problem details as JSON (RFC 9457), built once.
    pub fn body(self) -> Bytes {
        BODIES[self.index()].clone()
    }

    /// The headers of the answer; `retry_after_s` is left out where it does not belong.
    pub fn headers(self, retry_after_s: Option<u64>) -> HeaderMap {
        let row = self.row();
        // With the two that hyper adds, so that the map is allocated once.
        let mut headers = HeaderMap::with_capacity(6);
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(TIDEGATE_REASON, HeaderValue::from_static(row.label));
        if let Some(seconds) = retry_after_s.filter(|_| row.retry) {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if row.afterwards == Afterwards::Close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        headers
    }

    /// The table.
    const fn row(self) -> Row {
        match self {
            Self::Expired => Row::capacity("expired"),
            Self::DeadlineEnqueue => Row::capacity("deadline_enqueue"),
            Self::QueueFull => Row::capacity("queue_full"),
            Self::QueueBytes => Row::capacity("queue_bytes"),
            Self::GroupFull => Row::capacity("group_full"),
            Self::Displaced => Row::capacity("displaced"),
            Self::QueueTime => Row::capacity("queue_time"),
            Self::ExpiredInQueue => Row::capacity("expired_in_queue"),
            Self::CoDel => Row::capacity("codel"),
            Self::Level => Row::capacity("level"),
            Self::Escape => Row::capacity("escape"),
            Self::RetryFirst => Row::capacity("retry_first"),
            Self::Flush => Row::capacity("flush"),
            Self::Fleet => Row::capacity("fleet"),
            Self::ClientGone => Row::capacity("client_gone").closing(),
            Self::Connections => Row::capacity("connections").closing(),
            Self::Draining => Row::capacity("draining").closing(),
            Self::NoApp => Row::plain("no_app", StatusCode::NOT_FOUND),
            Self::BadFraming => Row::plain("bad_framing", StatusCode::BAD_REQUEST).closing(),
            Self::HeadTooLarge => Row::plain(
                "head_too_large",
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            )
            .closing(),
            Self::BodyTimeout => Row::plain("body_timeout", StatusCode::REQUEST_TIMEOUT).closing(),
            Self::UpstreamConnect => Row::plain("upstream_connect", StatusCode::BAD_GATEWAY),
            Self::UpstreamReset => Row::plain("upstream_reset", StatusCode::BAD_GATEWAY),
            Self::UpstreamInvalid => Row::plain("upstream_invalid", StatusCode::BAD_GATEWAY),
            Self::UpstreamTimeout => Row::plain("upstream_timeout", StatusCode::GATEWAY_TIMEOUT),
            Self::UpstreamConnections => Row::capacity("upstream_connections"),
            Self::ProbeCap => Row::capacity("probe_cap").closing(),
            Self::StoreAway => Row::capacity("store_away"),
            Self::SessionUnstored => Row::plain("session_unstored", StatusCode::BAD_GATEWAY),
            Self::RateLimited => Row::plain("rate_limited", StatusCode::TOO_MANY_REQUESTS).later(),
            // Clients try again after 429. This one must not: as it is, it never passes.
            Self::RateNever => Row::plain("rate_never", StatusCode::FORBIDDEN),
            Self::Breaker => Row::capacity("breaker"),
            Self::LimitStoreAway => Row::capacity("limit_store_away"),
            Self::DependencyFull => Row::capacity("dependency_full"),
            // No client's own quota, so no 429.
            Self::DependencyRate => Row::capacity("dependency_rate"),
            Self::Room => Row::capacity("room"),
            Self::RoomFull => Row::capacity("room_full"),
            // It may be opened again, and until then nobody is to hammer at it.
            Self::RoomClosed => Row::capacity("room_closed"),
            Self::RoomAway => Row::capacity("room_away"),
            Self::RoomBadTokens => Row::plain("room_bad_tokens", StatusCode::BAD_REQUEST),
            Self::RoomDoor => Row::plain("room_door", StatusCode::TOO_MANY_REQUESTS).later(),
            Self::PassBudget => Row::plain("pass_budget", StatusCode::TOO_MANY_REQUESTS).later(),
            Self::PassUnverified => Row::capacity("pass_unverified"),
        }
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::ExpiredOnArrival => Self::Expired,
            Reason::DeadlineEnqueue => Self::DeadlineEnqueue,
            Reason::QueueFull => Self::QueueFull,
            Reason::QueueBytes => Self::QueueBytes,
            Reason::GroupFull => Self::GroupFull,
            Reason::Displaced => Self::Displaced,
            Reason::QueueTime => Self::QueueTime,
            Reason::ExpiredInQueue => Self::ExpiredInQueue,
            Reason::CoDel => Self::CoDel,
            Reason::Level => Self::Level,
            Reason::Escape => Self::Escape,
            Reason::RetryFirst => Self::RetryFirst,
            Reason::Flush => Self::Flush,
            Reason::Fleet => Self::Fleet,
        }
    }
}

struct Row {
    label: &'static str,
    status: StatusCode,
    retry: bool,
    afterwards: Afterwards,
}

impl Row {
    /// Refused for want of capacity: the client may come back.
    const fn capacity(label: &'static str) -> Self {
        Self {
            label,
            status: StatusCode::SERVICE_UNAVAILABLE,
            retry: true,
            afterwards: Afterwards::Keep,
        }
    }

    const fn plain(label: &'static str, status: StatusCode) -> Self {
        Self {
            label,
            status,
            retry: false,
            afterwards: Afterwards::Keep,
        }
    }

    const fn later(mut self) -> Self {
        self.retry = true;
        self
    }

    const fn closing(mut self) -> Self {
        self.afterwards = Afterwards::Close;
        self
    }
}

static BODIES: LazyLock<[Bytes; Refusal::ALL.len()]> = LazyLock::new(|| {
    Refusal::ALL.map(|refusal| {
        let status = refusal.status();
        Bytes::from(format!(
            "{{\"title\":\"{}\",\"status\":{},\"reason\":\"{}\"}}\n",
            status.canonical_reason().unwrap_or_default(),
            status.as_u16(),
            refusal.label(),
        ))
    })
});

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_refusal_stands_at_its_index_under_a_label_of_its_own() {
        let mut labels = HashSet::new();

        for (index, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal.index(), index);
            assert!(labels.insert(refusal.label()), "{} twice", refusal.label());
        }
    }

    #[test]
    fn only_refusals_that_end_by_waiting_say_when_to_come_back() {
        for refusal in Refusal::ALL {
            let ends = [
                StatusCode::SERVICE_UNAVAILABLE,
                StatusCode::TOO_MANY_REQUESTS,
            ];
            let waits = ends.contains(&refusal.status());

            let headers = refusal.headers(Some(3));

            assert_eq!(
                headers.contains_key(RETRY_AFTER),
                waits,
                "{}",
                refusal.label()
            );
        }
    }

    #[test]
    fn a_refusal_for_capacity_keeps_the_connection() {
        let headers = Refusal::QueueFull.headers(Some(2));

        assert!(!headers.contains_key(CONNECTION));
        assert_eq!(headers[RETRY_AFTER], "2");
        assert_eq!(headers[TIDEGATE_REASON], "queue_full");
        assert_eq!(
            Refusal::QueueFull.body(),
            "{\"title\":\"Service Unavailable\",\"status\":503,\"reason\":\"queue_full\"}\n"
        );
    }

    #[test]
    fn a_request_with_doubtful_framing_ends_its_connection() {
        assert_eq!(Refusal::BadFraming.headers(None)[CONNECTION], "close");
    }
}
