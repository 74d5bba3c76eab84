//! What an operator is told who has asked for something that there is not, or in a way that makes no sense.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rate::inspect::{Reply, problem};

/// Longest text of a value that is shown again, in bytes.
const SHOWN_BYTES_MAX: usize = 200;

/// Why something was not done, where it is wrong, and what to do about it.
#[derive(Debug)]
pub(super) struct Wrong {
    status: StatusCode,
    reason: &'static str,
    detail: String,
    fix: String,
    field: Option<&'static str>,
    value: Option<Value>,
}

impl Wrong {
    pub(super) fn new(
        status: StatusCode,
        reason: &'static str,
        detail: &str,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            status,
            reason,
            detail: detail.to_owned(),
            fix: fix.into(),
            field: None,
            value: None,
        }
    }

    /// A member of an order that will not do; `None` where it is missing.
    pub(super) fn field(
        field: &'static str,
        value: Option<&Value>,
        detail: &str,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            field: Some(field),
            // A member that is missing has no value, which is another thing than null.
            value: value.map(shown),
            ..Self::new(StatusCode::BAD_REQUEST, "invalid", detail, fix)
        }
    }

    /// A path that leads nowhere.
    pub(super) fn no_path() -> Self {
        let fix = "there are /rooms, /rooms/NAME, and below it phase, stock, message, close, turn, promote and revoke";
        Self::new(
            StatusCode::NOT_FOUND,
            "no_such_path",
            "there is no such path",
            fix,
        )
    }

    /// A room that there is not, among these.
    pub(super) fn no_room<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Self {
        let known: Vec<_> = known.collect();
        let fix = match &known[..] {
            [] => "the configuration has no [[room]]".to_owned(),
            known => format!("there is {}", known.join(", ")),
        };
        Self {
            field: Some("room"),
            value: Some(shown(&name.into())),
            ..Self::new(
                StatusCode::NOT_FOUND,
                "no_such_room",
                "there is no room of this name",
                fix,
            )
        }
    }

    /// A method that means nothing there.
    pub(super) fn method(method: &Method, right: &str) -> Self {
        Self {
            field: Some("method"),
            value: Some(method.as_str().into()),
            ..Self::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "no_such_method",
                "this path is not asked like that",
                format!("use {right}"),
            )
        }
    }

    /// As it is answered.
    pub(super) fn reply(self) -> Reply {
        let (status, mut said) = problem(self.status, self.reason, &self.detail);
        if let Some(field) = self.field {
            said["field"] = field.into();
        }
        if let Some(value) = self.value {
            said["value"] = value;
        }
        said["fix"] = self.fix.into();
        (status, said)
    }
}

/// `value`, or its beginning where it is long.
fn shown(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    if text.len() <= SHOWN_BYTES_MAX {
        return value.clone();
    }
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
    json!(format!("{}…", &text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_member_is_named_with_what_it_is_and_what_to_do() {
        let wrong = Wrong::field("tier", Some(&json!(9)), "it is no tier", "1 or 2");

        let (status, said) = wrong.reply();

        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_eq!(said["reason"], "invalid");
        assert_eq!(said["field"], "tier");
        assert_eq!(said["value"], 9);
        assert_eq!(said["fix"], "1 or 2");
        let (_, said) = Wrong::field("tier", None, "it is missing", "1 or 2").reply();
        assert!(said.get("value").is_none());
    }

    #[test]
    fn what_is_long_is_shown_by_its_beginning() {
        let long = json!("ü".repeat(5_000));

        let (_, said) = Wrong::field("why", Some(&long), "it is too long", "write less").reply();

        assert_eq!(said["value"], format!("{}…", "ü".repeat(100)));
    }
}
