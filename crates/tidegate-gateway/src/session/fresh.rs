//! Fresh ids for who hands out sessions without a request at hand, as the sidecar does.

use std::time::Duration;

use http::HeaderValue;
use tidegate_core::session::{SessionId, SlotTag};

use crate::session::cookie::line;
use crate::session::keys::Purpose;
use crate::session::plan::SessionPlan;
use crate::session::token::Token;

/// An id that nobody else has, and what belongs to it.
#[derive(Clone, Debug)]
pub struct Fresh {
    /// The id.
    pub id: SessionId,
    /// The value of `Set-Cookie` that gives a browser its secret.
    pub set_cookie: HeaderValue,
    /// What leads from an id that this one replaces to its secret, sealed.
    pub successor: Vec<u8>,
}

/// Draws an id, on `tag` if there is one. `rest` is how long its session may live.
pub fn fresh(plan: &SessionPlan, tag: Option<SlotTag>, rest: Duration) -> Fresh {
    let token = tag.map_or_else(Token::draw, Token::draw_on);
    let life = plan.cookies.persistent().then_some(rest);
    let value = token.write(&plan.keys);
    Fresh {
        id: token.id(),
        set_cookie: line(plan, plan.cookies.session(), &value, life),
        successor: plan.keys.seal(Purpose::Successor, &token.kept()),
    }
}
