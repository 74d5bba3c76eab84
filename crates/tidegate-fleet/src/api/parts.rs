//! What handlers take from a request's path and head.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Path, Query};
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use tidegate_core::session::{Name, SessionId, Uid};
use tidegate_http::names::TIDEGATE_TIMEOUT_MS;

use super::Api;
use super::problem::Problem;

/// The session in the path.
pub(crate) struct SessionRef(pub(crate) SessionId);

/// The user in the path.
pub(crate) struct UserRef(pub(crate) Uid);

/// The name of an attribute in the path.
pub(crate) struct NameRef(pub(crate) Name);

/// The node in the path.
pub(crate) struct NodeRef(pub(crate) Name);

/// The permit in the path.
pub(crate) struct PermitRef(pub(crate) String);

/// What the path is asked with.
pub(crate) struct Asked(BTreeMap<String, String>);

/// How long the answer may take.
pub(crate) struct Budget(pub(crate) Duration);

impl Asked {
    /// The text behind `key`.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The number behind `key`, up to `most`; `usual` when it is not there.
    pub(crate) fn number(&self, key: &str, usual: u64, most: u64) -> Result<u64, Problem> {
        let Some(text) = self.text(key) else {
            return Ok(usual);
        };
        text.parse()
            .ok()
            .filter(|number| *number <= most)
            .ok_or_else(|| Problem::invalid(key, format!("it must be a whole number up to {most}")))
    }

    /// Refuses what is not in `known`.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Problem> {
        match self.0.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => {
                let known = if known.is_empty() {
                    "nothing".to_owned()
                } else {
                    known.join(", ")
                };
                Err(Problem::invalid(
                    key.chars().take(100).collect::<String>(),
                    format!("the path is not asked with that, but with {known}"),
                ))
            }
            None => Ok(()),
        }
    }
}

/// The part `key` of the path.
async fn part(parts: &mut Parts, key: &str) -> Result<String, Problem> {
    let Path(all) = Path::<BTreeMap<String, String>>::from_request_parts(parts, &())
        .await
        .map_err(|_| Problem::invalid("path", "it is not UTF-8 once its escapes are decoded"))?;
    all.get(key)
        .cloned()
        .ok_or_else(|| Problem::invalid("path", format!("it has no {key}")))
}

impl FromRequestParts<Arc<Api>> for SessionRef {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, Problem> {
        let text = part(parts, "session").await?;
        SessionId::parse(&text)
            .map(Self)
            .map_err(|why| Problem::invalid("session", why.to_string()))
    }
}

impl FromRequestParts<Arc<Api>> for UserRef {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, Problem> {
        let text = part(parts, "uid").await?;
        Uid::new(text)
            .map(Self)
            .map_err(|why| Problem::invalid("uid", why.to_string()))
    }
}

impl FromRequestParts<Arc<Api>> for PermitRef {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, Problem> {
        part(parts, "permit").await.map(Self)
    }
}

impl FromRequestParts<Arc<Api>> for NodeRef {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, Problem> {
        let text = part(parts, "node").await?;
        Name::new(&text)
            .map(Self)
            .map_err(|why| Problem::invalid("node", why.to_string()))
    }
}

impl FromRequestParts<Arc<Api>> for NameRef {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, Problem> {
        let text = part(parts, "name").await?;
        Name::new(&text)
            .map(Self)
            .map_err(|why| Problem::invalid("name", why.to_string()))
    }
}

impl FromRequestParts<Arc<Api>> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, &())
            .await
            .map_err(|error| Problem::invalid("query", error.body_text()))?;
        let mut asked = BTreeMap::new();
        for (key, value) in pairs {
            if asked.contains_key(&key) {
                let key: String = key.chars().take(100).collect();
                return Err(Problem::invalid(key, "it is there twice"));
            }
            asked.insert(key, value);
        }
        Ok(Self(asked))
    }
}

impl FromRequestParts<Arc<Api>> for Budget {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Problem> {
        let Some(text) = header(&parts.headers, &TIDEGATE_TIMEOUT_MS)? else {
            return Ok(Self(api.timeout));
        };
        let millis = text.trim().parse().map_err(|_| {
            Problem::invalid(
                "Tidegate-Timeout-Ms",
                "it must be a whole number of milliseconds",
            )
        })?;
        Ok(Self(api.timeout.min(Duration::from_millis(millis))))
    }
}

/// The value of a header that may be there once.
pub(crate) fn header<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Problem::invalid(name.as_str(), "the header is there twice"));
    }
    value
        .to_str()
        .map(Some)
        .map_err(|_| Problem::invalid(name.as_str(), "the header is not ASCII"))
}
