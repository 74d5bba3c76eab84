//! What a server said, sorted by what it means for the caller and for the connection.

use redis::{ServerError, Value};

use super::plan::Address;
use crate::error::StoreError;

/// What a server said.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// What was asked for.
    Said(Value),
    /// It does not know the script by this hash.
    UnknownScript,
    /// The slot lives elsewhere.
    Moved(Address),
    /// The slot is moving, and this key is over there already, or not anywhere yet.
    Ask(Address),
    /// The slot is moving, and the keys are on both sides.
    TryAgain,
    /// It is not what it should be, and did nothing: a replica, still loading, without replicas.
    Unfit(String),
    /// It did not do this one thing, and is well.
    Refused(StoreError),
}

/// First words of errors by which a server says that it cannot serve.
const UNFIT: [&str; 7] = [
    "READONLY",
    "CLUSTERDOWN",
    "MASTERDOWN",
    "NOREPLICAS",
    "LOADING",
    "MISCONF",
    "NOAUTH",
];

impl Answer {
    /// What `value` means. `asked` is the server's own address, for redirects that leave it out.
    pub(super) fn of(value: Value, asked: &Address) -> Self {
        match value {
            Value::ServerError(error) => Self::of_error(&error, asked),
            value => Self::Said(value),
        }
    }

    /// What the server said, where it did not do what it was asked.
    pub(super) fn refusal(self) -> Option<String> {
        match self {
            Self::Unfit(said)
            | Self::Refused(StoreError::Refused(said) | StoreError::Odd(said)) => Some(said),
            Self::Refused(other) => Some(other.to_string()),
            _ => None,
        }
    }

    fn of_error(error: &ServerError, asked: &Address) -> Self {
        let code = error.code();
        let details = error.details().unwrap_or_default();
        let text = || format!("{code} {details}");
        match code {
            "NOSCRIPT" => Self::UnknownScript,
            "TRYAGAIN" => Self::TryAgain,
            "MOVED" | "ASK" => match redirect(details, asked) {
                Some(to) if code == "MOVED" => Self::Moved(to),
                Some(to) => Self::Ask(to),
                None => Self::Refused(StoreError::Odd(text())),
            },
            code if UNFIT.contains(&code) => Self::Unfit(text()),
            "OOM" | "NOPERM" | "BUSY" => Self::Refused(StoreError::Refused(text())),
            _ => Self::Refused(StoreError::Odd(text())),
        }
    }
}

/// The address in `SLOT HOST:PORT`; the host may be missing and is the one asked then.
fn redirect(details: &str, asked: &Address) -> Option<Address> {
    let (_, to) = details.split_once(' ')?;
    if let Some(port) = to.strip_prefix(':') {
        return Some(Address {
            host: asked.host.clone(),
            port: port.parse().ok()?,
        });
    }
    // An IPv6 address comes without brackets here.
    let (host, port) = to.rsplit_once(':')?;
    Some(Address {
        host: host.trim_matches(['[', ']']).to_owned(),
        port: port.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_names_a_server_even_where_it_leaves_out_the_host() {
        let asked = Address::parse("here:1").unwrap();

        let named = redirect("866 10.0.0.7:6381", &asked).unwrap();
        assert_eq!(named.to_string(), "10.0.0.7:6381");
        let unnamed = redirect("866 :6381", &asked).unwrap();
        assert_eq!(unnamed.to_string(), "here:6381");
        let six = redirect("866 fe80::1:6381", &asked).unwrap();
        assert_eq!((six.host.as_str(), six.port), ("fe80::1", 6381));
        assert_eq!(redirect("866", &asked), None);
    }
}
