//! What the API says when it cannot do what it is asked: problem details as JSON (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde_json::{Map, Value, json};
use tidegate_core::session::{Gone, Name};
use tidegate_store::desk::DeskError;

/// When to ask again what is refused for the moment, in seconds.
const RETRY_AFTER_S: u64 = 1;

/// Why there is no other answer.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    reason: &'static str,
    detail: String,
    /// The part of the request that it is about.
    field: Option<String>,
    /// When the same may work, in seconds, if it is refused for the moment.
    retry: Option<u64>,
    /// Members that only this reason has.
    more: Map<String, Value>,
}

impl Problem {
    /// A problem that `reason` names for a program and `detail` explains to a person.
    pub(crate) fn new(status: StatusCode, reason: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            reason,
            detail: detail.into(),
            field: None,
            retry: None,
            more: Map::new(),
        }
    }

    /// A part of the request, named by `field`, that makes no sense.
    pub(crate) fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", detail).about(field)
    }

    /// What is refused for the moment.
    pub(crate) fn away(reason: &'static str, detail: impl Into<String>) -> Self {
        Self {
            retry: Some(RETRY_AFTER_S),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, reason, detail)
        }
    }

    /// A session that there is not.
    pub(crate) fn gone(gone: &Gone) -> Self {
        let (status, reason, detail) = match gone {
            Gone::Missing => (
                StatusCode::NOT_FOUND,
                "no_such_session",
                "it never was, or its time is over",
            ),
            Gone::Destroyed => (StatusCode::GONE, "destroyed", "it was ended on purpose"),
            Gone::Replaced => (
                StatusCode::GONE,
                "replaced",
                "a sign-in gave its visitor another session",
            ),
            Gone::Rotated { .. } => (StatusCode::GONE, "rotated", "it has another id now"),
        };
        Self::new(status, reason, detail)
    }

    /// Something that is larger than it may be.
    pub(crate) fn too_large(name: Option<&Name>, size: u64, ceiling: u32) -> Self {
        let detail = match name {
            Some(name) => {
                format!("the value of {name} has {size} bytes, and {ceiling} are allowed")
            }
            None => format!("the session would come to {size}, and {ceiling} are allowed"),
        };
        let problem = Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
            .with("size", json!(size))
            .with("ceiling", json!(ceiling));
        match name {
            Some(name) => problem.about(name.as_str()),
            None => problem,
        }
    }

    /// The same, about `field`.
    pub(crate) fn about(self, field: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            ..self
        }
    }

    /// The same, which may work after so many seconds.
    pub(crate) fn again_after(self, seconds: u64) -> Self {
        Self {
            retry: Some(seconds),
            ..self
        }
    }

    /// The same with one more member.
    pub(crate) fn with(mut self, member: &str, value: Value) -> Self {
        self.more.insert(member.to_owned(), value);
        self
    }
}

impl From<DeskError> for Problem {
    fn from(error: DeskError) -> Self {
        let said = error.to_string();
        match error {
            DeskError::Away => Self::away("store_away", said),
            DeskError::Busy => Self::away("store_busy", said),
            DeskError::NotReplicated { replicas } => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "not_replicated",
                format!("{said}; it stands, and may yet be lost with the primary"),
            )
            .with("applied", json!(true))
            .with("replicas", json!(replicas)),
            DeskError::TooLarge {
                name,
                size,
                ceiling,
            } => Self::too_large(name.as_ref(), size, ceiling),
            DeskError::Taken | DeskError::Odd(_) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store_odd", said)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = self.more;
        let title = self.status.canonical_reason().unwrap_or_default();
        body.insert("title".to_owned(), json!(title));
        body.insert("status".to_owned(), json!(self.status.as_u16()));
        body.insert("reason".to_owned(), json!(self.reason));
        body.insert("detail".to_owned(), json!(self.detail));
        if let Some(field) = self.field {
            body.insert("field".to_owned(), json!(field));
        }
        let mut response = (self.status, Value::Object(body).to_string() + "\n").into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(CONTENT_TYPE, kind);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
