//! Sessions as the gateway sees them: a cookie at the one end, the desk at the other, and headers
//! to the application and from it.

pub mod keys;
pub mod plan;

mod commands;
mod item;
mod token;

pub use keys::{BadKeys, Keys, draw_line};
pub use plan::{
    Affinity, BadAffinity, BadExposed, CookiePlan, Exposed, Need, OnUnstored, RouteSession,
    SessionPlan, Transport,
};
