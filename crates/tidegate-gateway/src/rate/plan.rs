//! Rate limits as they are configured.

use http::HeaderName;
use ipnet::IpNet;
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm, Price, Rate, Spec, SpecError};

use super::fleet::FleetPlan;
use super::token::TokenPlan;
use crate::heard::FollowPlan;
use crate::plan::{AppPlan, Mode, RoutePlan};

/// The most limits of one gateway.
pub const LIMITS_CONFIGURED_MAX: usize = 256;

/// The most parts of a key.
pub const KEY_PARTS_MAX: usize = 8;

impl Default for RatePlan {
    /// No limits.
    fn default() -> Self {
        Self {
            limits: Vec::new(),
            keys_max: 1,
            nodes: 1,
            networks: Vec::new(),
            tokens: None,
        }
    }
}

/// All rate limits of a gateway, and room for what they remember.
#[derive(Clone, Debug)]
pub struct RatePlan {
    /// The limits, at most [`LIMITS_CONFIGURED_MAX`]; no request meets more than
    /// [`LIMITS_MAX`](tidegate_core::rate::set::LIMITS_MAX) of them.
    pub limits: Vec<LimitPlan>,
    /// Keys that are remembered at once, over all limits.
    pub keys_max: usize,
    /// Gateways that share the limits of the fleet, at most and as far as is known, 1 or more.
    pub nodes: u32,
    /// Networks that have names.
    pub networks: Vec<NetworkPlan>,
    /// Whose tokens say who asks, if any do.
    pub tokens: Option<TokenPlan>,
}

/// A network, or several that count as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPlan {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
}

/// One rate limit.
#[derive(Clone, Debug)]
pub struct LimitPlan {
    /// Its name in metrics and answers: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// How it is counted.
    pub algorithm: Algorithm,
    /// How much passes.
    pub rate: Rate,
    /// The same, with its burst, as it is counted.
    pub spec: Spec,
    /// What a request costs.
    pub cost: Cost,
    /// What it is counted by, at most [`KEY_PARTS_MAX`] parts; none for all requests together.
    pub key: Vec<KeyPart>,
    /// What becomes of a request that lacks a part of the key.
    pub absent: Absent,
    /// Names of the applications it applies to; empty for all.
    pub apps: Vec<String>,
    /// Names of the routes it applies to; empty for all.
    pub routes: Vec<String>,
    /// Whether it refuses or only counts.
    pub standing: Standing,
    /// When it is asked.
    pub stage: Stage,
    /// How its rate follows the headroom of the fleet; `None` for one that stays what it is.
    pub follows: Option<FollowPlan>,
    /// How it holds over all gateways; `None` for a limit of this node alone.
    pub fleet: Option<FleetPlan>,
    /// Whose limit it is and in place of which other; `None` for one that stands for itself.
    pub instead: Option<Instead>,
}

/// In place of which limit another one holds for one of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instead {
    /// That limit's place in the plan.
    pub of: usize,
    /// Its name.
    pub name: String,
    /// The key, as [`counted_key`](super::counted_key) has it.
    pub key: Vec<Option<String>>,
}

/// What a request costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// So many tokens.
    Fixed(u64),
    /// As many as a trusted peer says in this header, `otherwise` so many.
    Header {
        /// The header.
        name: HeaderName,
        /// For a stranger's request, or one without the header.
        otherwise: u64,
    },
    /// As many as the application says in this header of its answer, `reserve` until then and when it says nothing.
    Response {
        /// The header.
        name: HeaderName,
        /// What is taken before the request is sent.
        reserve: u64,
    },
}

/// A part of what a limit counts by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// The network of the client's address: so many bits of an IPv4 and of an IPv6 one.
    Client {
        /// 0 to 32.
        v4: u8,
        /// 0 to 128.
        v6: u8,
    },
    /// The named network that the client is in.
    Network,
    /// The user whose session it is.
    Session,
    /// The API key that the client shows in this header.
    ApiKey(HeaderName),
    /// What the client's token says under this name.
    Claim(String),
    /// A header of a trusted peer.
    Header(HeaderName),
    /// The route.
    Route,
    /// The same for everybody.
    Constant(String),
}

/// What becomes of a request that lacks a part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// The limit does not apply to it.
    Skip,
    /// It is refused.
    Deny,
    /// It counts together with all others that lack the part.
    Shared,
}

/// When a limit is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before admission, from the connection and the headers alone.
    Edge,
    /// Once it is known whose session it is.
    Known,
}

impl Cost {
    /// What a request costs that says nothing else.
    pub const fn usual(&self) -> u64 {
        match *self {
            Self::Fixed(cost)
            | Self::Header {
                otherwise: cost, ..
            }
            | Self::Response { reserve: cost, .. } => cost,
        }
    }
}

impl LimitPlan {
    /// As it is counted: in units of a token where its rate follows something.
    ///
    /// # Errors
    ///
    /// When so many units cannot be counted exactly.
    pub fn counted(&self) -> Result<Spec, SpecError> {
        match self.follows {
            Some(_) => self.spec.in_units(),
            None => Ok(self.spec),
        }
    }

    /// What a token takes of it at the rate that is written.
    pub const fn unit(&self) -> Price {
        FollowPlan::unit(self.follows.as_ref())
    }

    /// Whether requests for this route of this application meet it.
    pub fn applies_to(&self, app: &AppPlan, route: &RoutePlan) -> bool {
        (self.apps.is_empty() || self.apps.contains(&app.name))
            && (self.routes.is_empty() || self.routes.contains(&route.name))
    }

    /// Whether it decides about requests for `app`: in shadow mode nothing does.
    pub fn standing_in(&self, app: &AppPlan) -> Standing {
        match app.mode {
            Mode::Enforce => self.standing,
            Mode::Shadow => Standing::Shadow,
        }
    }
}

impl KeyPart {
    /// Whether a request may lack it.
    pub const fn may_be_absent(&self) -> bool {
        match self {
            Self::Network | Self::Session | Self::Header(_) | Self::ApiKey(_) | Self::Claim(_) => {
                true
            }
            Self::Client { .. } | Self::Route | Self::Constant(_) => false,
        }
    }

    /// Whether it has to be said whose key is meant.
    pub(crate) const fn is_said(&self) -> bool {
        !matches!(self, Self::Constant(_))
    }

    /// What an operator is told that it is.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Client { .. } => "client".to_owned(),
            Self::Network => "network".to_owned(),
            Self::Session => "session".to_owned(),
            Self::ApiKey(name) => format!("hash of {name}"),
            Self::Claim(name) => format!("claim {name}"),
            Self::Header(name) => format!("header {name}"),
            Self::Route => "route".to_owned(),
            Self::Constant(text) => format!("\"{text}\""),
        }
    }
}
