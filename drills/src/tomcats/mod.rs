//! What drills of health with real servers have in common: three Tomcats with a Tidegate each, a Redis between them, a
//! HAProxy before them, and somebody who looks at it all the time.

mod fleet;
mod front;
mod shop;
mod watch;

pub(crate) use fleet::Fleet;
pub(crate) use front::{Front, Servers, Way};
pub(crate) use shop::{SERVICE, Shop, WORKERS};
pub(crate) use watch::{Look, Watch};

use std::time::Duration;

/// A weight that counts as all of it. What a node can do is measured once a second, by so few requests that three nodes alike
/// come out a third apart; the least that is told of a node that is in is 5.
pub(crate) const WEIGHT_WHOLE: u32 = 60;
/// How often HAProxy asks an agent, as in `deploy/haproxy.cfg`.
pub(crate) const POLL: Duration = Duration::from_secs(2);
