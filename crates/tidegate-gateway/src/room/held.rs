//! What visitors show, what they hold, and what they are given.

use std::fmt;
use std::net::IpAddr;

use http::HeaderValue;
use tidegate_core::rate::Tick;
use tidegate_core::room::{Epoch, Place, Tier};
use tidegate_core::time::Wall;

use super::bond::Device;
use super::pass::PassId;
use super::ticket::Ticket;
use super::verified::Known;
use super::why::Why;

/// Who shows tokens.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    /// Where from.
    pub address: IpAddr,
    /// Ids of the session that their cookies prove: the one of now, and where it has just moved that before.
    pub sessions: &'a [&'a [u8]],
}

/// The time, by two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// For the lives of tokens: near the store's.
    pub wall: Wall,
    /// For budgets: one that does not go back.
    pub tick: Tick,
}

/// What a visitor holds.
#[derive(Clone, Debug)]
pub struct Held<'r> {
    /// The ticket.
    pub ticket: Result<Ticket, Why>,
    /// The pass.
    pub pass: Result<Pass<'r>, Why>,
    /// The secret of the device.
    pub device: Option<Device>,
}

/// A good pass.
#[derive(Clone, Copy)]
pub struct Pass<'r> {
    pub(super) text: &'r str,
    pub(super) known: Known,
}

/// What is said of somebody who is let in.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// In which epoch.
    pub epoch: Epoch,
    /// With which place.
    pub place: Place,
    /// For the how manieth time with this place, from 0.
    pub nth: u32,
    /// By the leader with which fence.
    pub fence: u64,
    /// From which tier.
    pub tier: Tier,
    /// With which budget.
    pub class: u8,
}

/// A token for a visitor.
#[derive(Clone, PartialEq, Eq)]
pub struct Given {
    /// As an application puts it into a header.
    pub text: String,
    /// As a browser is given it. No cache may keep an answer with it.
    pub set_cookie: HeaderValue,
}

impl Pass<'_> {
    /// Which one it is, for logs and for taking it back.
    pub const fn id(&self) -> PassId {
        self.known.id
    }

    /// From which tier its owner came.
    pub const fn tier(&self) -> Tier {
        self.known.tier
    }

    /// The second at which it ends unless it is renewed.
    pub const fn expires_s(&self) -> u32 {
        self.known.expires
    }

    /// The second at which it ends whatever happens.
    pub const fn absolute_s(&self) -> u32 {
        self.known.absolute
    }
}

/// Whoever reads a log is not to have the pass.
impl fmt::Debug for Pass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pass({})", self.known.id)
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Given({} characters)", self.text.len())
    }
}
