//! The public keys of all rooms, for whoever verifies passes without a secret of ours.

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use tidegate_core::time::Mono;

use super::respond;
use crate::body::Body;
use crate::context::Shared;

/// As long as anybody may keep the set: [`JWKS_MAX_AGE_S`](crate::room::JWKS_MAX_AGE_S).
const CACHED: &str = "public, max-age=300";

/// The answer to who asks for the set.
pub(super) fn answer(shared: &Shared, now: Mono) -> Response<Body> {
    let mut keys: Vec<Value> = Vec::new();
    for hall in &shared.halls {
        let standing = hall.tokens.standing();
        let own = standing.keys.jwks(hall.view().wall(now));
        let own: Value = serde_json::from_str(&own).unwrap_or_default();
        for key in own["keys"].as_array().into_iter().flatten() {
            // Rooms may have the same file.
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
    }
    let mut headers = HeaderMap::with_capacity(6);
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/jwk-set+json"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(CACHED));
    let set = json!({ "keys": keys }).to_string();
    respond(StatusCode::OK, headers, set.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::JWKS_MAX_AGE_S;

    #[test]
    fn it_is_kept_as_long_as_keys_are_public_before_they_sign() {
        assert_eq!(CACHED, format!("public, max-age={JWKS_MAX_AGE_S}"));
    }
}
