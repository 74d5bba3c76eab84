//! A limit that does not move.

use std::num::NonZeroU32;

use super::{Limit, Sample};
use crate::facts::RouteId;
use crate::time::Mono;

/// As many as the application has workers.
#[derive(Clone, Debug)]
pub struct Static(NonZeroU32);

impl Static {
    /// A limit of `limit` for ever.
    pub const fn new(limit: NonZeroU32) -> Self {
        Self(limit)
    }
}

impl Limit for Static {
    fn admitted(&mut self, _: Mono, _: RouteId, _: u32) -> u32 {
        0
    }

    fn finished(&mut self, _: Mono, _: &Sample) {}

    fn refused(&mut self, _: Mono) {}

    fn limit(&self) -> u32 {
        self.0.get()
    }
}
