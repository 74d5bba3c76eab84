//! Sessions as the gateway sees them: a cookie at the one end, the desk at the other, and headers
//! to the application and from it.

pub mod keys;
pub mod plan;

mod attributes;
mod claim;
mod commands;
mod cookie;
mod fresh;
mod guest;
pub(crate) mod item;
mod jar;
mod orders;
mod outcome;
mod ticket;
mod token;
mod work;

pub use fresh::{Fresh, fresh};
pub use keys::{BadKeys, Keys, draw_line};
pub use plan::{
    Affinity, BadAffinity, BadExposed, CookiePlan, Exposed, Need, OnUnstored, RouteSession,
    SessionPlan, Transport,
};

pub(crate) use claim::{Claim, Shown};
pub(crate) use cookie::{Cookies, cookie_line, take_out_foreign};
pub(crate) use guest::{Guest, Known};
pub(crate) use jar::{cookies, redact, take_out};
pub(crate) use orders::{Orders, Settled, Since};
pub use outcome::{BadCookie, CookieSet, Done, Dropped, Outcome};
