//! Fresh ids of sessions. Only the gateway knows how a cookie looks, so it draws them.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use tidegate_core::session::{SessionId, SlotTag};

/// Draws ids that nobody else has.
#[derive(Clone)]
pub struct Mint(Arc<dyn Fn(Option<SlotTag>) -> Minted + Send + Sync>);

/// A fresh id and what its holder needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minted {
    /// The id.
    pub id: SessionId,
    /// The value of `Set-Cookie` that gives a browser its secret.
    pub set_cookie: HeaderValue,
    /// What leads from an id that this one replaces to its secret, sealed.
    pub successor: Vec<u8>,
}

impl Mint {
    /// A mint that draws with `draw`: on a slot tag, or anywhere.
    pub fn new(draw: impl Fn(Option<SlotTag>) -> Minted + Send + Sync + 'static) -> Self {
        Self(Arc::new(draw))
    }

    /// A fresh id, on `tag` if there is one.
    pub(crate) fn draw(&self, tag: Option<SlotTag>) -> Minted {
        (self.0)(tag)
    }
}

impl fmt::Debug for Mint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mint(..)")
    }
}
