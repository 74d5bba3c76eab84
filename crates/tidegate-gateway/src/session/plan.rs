//! What an application does with sessions, already checked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use tidegate_core::facts::Class;
use tidegate_core::session::{Fields, Name};

use crate::session::keys::Keys;

/// What an application does with sessions.
#[derive(Clone, Debug)]
pub struct SessionPlan {
    /// Its cookies.
    pub cookies: CookiePlan,
    /// The keys of the fleet.
    pub keys: Keys,
    /// Whether visitors carry a sealed ticket, by which any gateway knows them while the store is
    /// away. With it, it takes a valid ticket to earn a class before the store has been asked.
    pub tickets: bool,
    /// What tells a balancer in front to come back to this gateway; `None` for nothing.
    pub affinity: Option<Affinity>,
    /// The class of a user of a tier. Tiers that are not in it, and users without one, are
    /// `signed-in`.
    pub tiers: Vec<(Name, Class)>,
    /// How old a session may get before it has another id as a habit, zero excluded; `None` for
    /// never.
    pub rotate_every: Option<Duration>,
    /// What becomes of an answer whose commands could not be carried out.
    pub on_unstored: OnUnstored,
}

/// How the cookies are called, and what their attributes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookiePlan {
    session: String,
    ticket: String,
    transport: Transport,
    persistent: bool,
}

/// Whether browsers come by TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// They do: cookies are `Secure`, and their names begin with `__Host-`.
    Tls,
    /// They do not: for tests alone.
    Insecure,
}

/// What becomes of an answer when a change that its application asked for was not made: a conflict,
/// a value that is too large, a command that makes no sense.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnstored {
    /// It goes out; what was not stored is counted.
    #[default]
    Drop,
    /// It is replaced by a refusal, `session_unstored`.
    Fail,
}

/// What a route has to do with sessions.
#[derive(Clone, Debug, Default)]
pub struct RouteSession {
    /// Whether it has to do with them at all.
    pub need: Need,
    /// What is read of the session and told to the application.
    pub exposed: Exposed,
}

/// Whether a route needs the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Need {
    /// It does not: the store is not asked, and no cookie set.
    None,
    /// It goes on with what is known when the store is away.
    #[default]
    Optional,
    /// It is refused while the store is away.
    Required,
}

/// Attributes and counters that are told to the application, each in a header of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    fields: Fields,
    headers: Vec<HeaderName>,
}

/// Why attributes cannot be told to the application.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadExposed {
    /// A name has a character that no header's name can have.
    #[error("'{0}' cannot be part of a header's name")]
    Name(Name),
    /// Header names make no difference between large and small letters, or between `-` and `_`
    /// for some applications, and another name differs in nothing else.
    #[error("'{0}' is the same as '{1}', in a header")]
    Same(Name, Name),
    /// There are too many.
    #[error("more than {} names", Exposed::COUNT_MAX)]
    TooMany,
}

/// The node's name as a balancer in front knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    node: String,
}

/// A text that cannot name a node in a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a node's name in a cookie is 1 to {} letters, digits, '-' and '_'",
    Affinity::LEN_MAX
)]
pub struct BadAffinity;

/// What the names of cookies begin with that only TLS and only this host may set.
const HOST_PREFIX: &str = "__Host-";

impl CookiePlan {
    /// Cookies called after `name`, as in `tg` or `__Host-tg`: the session's, and the ticket's with
    /// a `t` behind it. `persistent` ones outlive the browser, as long as the session may live.
    pub fn new(name: &str, transport: Transport, persistent: bool) -> Self {
        let bare = name.strip_prefix(HOST_PREFIX).unwrap_or(name);
        let prefix = match transport {
            Transport::Tls => HOST_PREFIX,
            Transport::Insecure => "",
        };
        Self {
            session: format!("{prefix}{bare}"),
            ticket: format!("{prefix}{bare}t"),
            transport,
            persistent,
        }
    }

    /// The name of the session's cookie.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The name of the ticket's cookie.
    pub fn ticket(&self) -> &str {
        &self.ticket
    }

    /// Whether browsers come by TLS.
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// Whether the cookies outlive the browser.
    pub const fn persistent(&self) -> bool {
        self.persistent
    }
}

impl SessionPlan {
    /// The class of a user of `tier`.
    pub fn class_of(&self, tier: Option<&Name>) -> Class {
        let of = |tier| self.tiers.iter().find(|(name, _)| name == tier);
        tier.and_then(of)
            .map_or(Class::SignedIn, |(_, class)| *class)
    }

    /// The highest class that any user has.
    pub fn highest_class(&self) -> Class {
        let classes = self.tiers.iter().map(|(_, class)| *class);
        classes.fold(Class::SignedIn, |highest, class| {
            if highest.is_below(class) {
                class
            } else {
                highest
            }
        })
    }
}

impl Exposed {
    /// Most names for one route.
    pub const COUNT_MAX: usize = 64;

    /// These names.
    pub fn new(names: &[Name]) -> Result<Self, BadExposed> {
        if names.len() > Self::COUNT_MAX {
            return Err(BadExposed::TooMany);
        }
        let mut seen = HashMap::new();
        let mut headers = Vec::with_capacity(names.len());
        for name in names {
            let header = format!("tidegate-attr-{}", name.as_str().to_ascii_lowercase());
            let header =
                HeaderName::try_from(header).map_err(|_| BadExposed::Name(name.clone()))?;
            if let Some(other) = seen.insert(header.as_str().replace('_', "-"), name) {
                return Err(BadExposed::Same(name.clone(), other.clone()));
            }
            headers.push(header);
        }
        Ok(Self {
            fields: Fields::Only(names.into()),
            headers,
        })
    }

    /// What is read of the session.
    pub const fn fields(&self) -> &Fields {
        &self.fields
    }

    /// What is read of the session when its ticket is renewed on the way: these and `more`.
    pub(crate) fn fields_and(&self, more: &[Name]) -> Fields {
        match &self.fields {
            Fields::All => Fields::All,
            Fields::Only(names) => {
                let others = more.iter().filter(|name| !names.contains(name));
                Fields::Only(names.iter().chain(others).cloned().collect())
            }
        }
    }

    /// Whether an attribute or counter of this name is told.
    pub(crate) fn contains(&self, name: &Name) -> bool {
        match &self.fields {
            Fields::All => true,
            Fields::Only(names) => names.contains(name),
        }
    }

    /// The names and their headers.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &HeaderName)> {
        let names = match &self.fields {
            Fields::Only(names) => &names[..],
            Fields::All => &[],
        };
        names.iter().zip(&self.headers)
    }
}

impl Default for Exposed {
    fn default() -> Self {
        Self {
            fields: Fields::Only(Arc::new([])),
            headers: Vec::new(),
        }
    }
}

impl Affinity {
    /// The cookie's name: one for all applications, since it is about gateways.
    pub const COOKIE: &str = "tg_a";

    /// Longest name of a node.
    pub const LEN_MAX: usize = 32;

    /// A node called `node` in the configuration of the balancer.
    pub fn new(node: &str) -> Result<Self, BadAffinity> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if (1..=Self::LEN_MAX).contains(&node.len()) && node.bytes().all(plain) {
            Ok(Self {
                node: node.to_owned(),
            })
        } else {
            Err(BadAffinity)
        }
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn cookies_are_bound_to_the_host_unless_they_come_without_tls() {
        for given in ["tg", "__Host-tg"] {
            let secure = CookiePlan::new(given, Transport::Tls, false);
            let insecure = CookiePlan::new(given, Transport::Insecure, false);

            assert_eq!(
                (secure.session(), secure.ticket()),
                ("__Host-tg", "__Host-tgt")
            );
            assert_eq!((insecure.session(), insecure.ticket()), ("tg", "tgt"));
        }
    }

    #[test]
    fn names_that_one_header_would_stand_for_are_refused() {
        let new = |names: &[&str]| {
            let names: Vec<Name> = names.iter().map(|text| name(text)).collect();
            Exposed::new(&names)
        };

        let exposed = new(&["cart", "Locale"]).unwrap();
        let headers: Vec<&str> = exposed.iter().map(|(_, header)| header.as_str()).collect();
        assert_eq!(headers, ["tidegate-attr-cart", "tidegate-attr-locale"]);
        assert_eq!(new(&["a/b"]), Err(BadExposed::Name(name("a/b"))));
        let same = |name_: &str, other: &str| Err(BadExposed::Same(name(name_), name(other)));
        assert_eq!(new(&["cart", "CART"]), same("CART", "cart"));
        assert_eq!(new(&["x", "a-b", "a_b"]), same("a_b", "a-b"));
    }

    #[test]
    fn a_nodes_name_is_safe_in_a_cookie() {
        assert_eq!(Affinity::new("gw-1").unwrap().node(), "gw-1");
        for bad in ["", "gw 1", "gw;1", "gw.1", &"x".repeat(33)] {
            assert_eq!(Affinity::new(bad), Err(BadAffinity), "{bad}");
        }
    }
}
