//! How much room nodes have left, and what follows for the balancers before them.
//!
//! What a node reads ([`Signal`]) becomes what it has left ([`Headroom`]): the least over all dimensions, never a mean.
//! From that come two things that are kept apart. A state ([`State`], by [`Evidence`]) with hysteresis says whether a node
//! may have traffic at all; a weight ([`Pull`]) says how much, by what the node can do ([`Estimate`]) and not by what it has
//! left. The [`Fleet`] decides on all nodes once a second: its guard ([`guard::rule`]) asks of each change what the fleet
//! would be after it. What a node is told ([`Verdict`]) holds for three seconds, and silence means healthy.
//!
//! What follows the fleet's headroom (limits, budgets, admission) does so at a [`Pace`].
//!
//! Every [`Decision`] has in it what it came from and can be taken again ([`replay`]).

mod called;
mod capacity;
mod correlation;
mod decision;
mod fleet;
pub mod guard;
mod headroom;
mod node;
mod pace;
mod scale;
mod settings;
mod signal;
mod smoothing;
mod spare;
mod state;
mod verdict;
mod weight;

pub use called::{Called, left_of};
pub use capacity::{CAPACITY_AGE_MAX, Estimate, Load, utilisation};
pub use correlation::Shared;
pub use decision::{Decision, replay};
pub use fleet::{FORGOTTEN_AFTER, Fleet, FleetFull, Freeze, NODES_MAX, NodeId, Pulse, Report};
pub use guard::{Hold, Ruling};
pub use headroom::{Binding, Headroom, Readings};
pub use node::{Context, Input, Memory, Outcome};
pub use pace::{Pace, room};
pub use scale::{Reach, Scale, ScaleError, Scales, USED_STRESSED_MAX};
pub use settings::Settings;
pub use signal::{Dimension, SIGNAL_AGE_MAX, Signal, Validity};
pub use smoothing::{Smoothing, SmoothingError};
pub use spare::{Share, Spare, TARGET_USED};
pub use state::{Bands, BandsError, Evidence, Reason, State, Transition, Turns};
pub use verdict::{Local, VERDICT_LEASE, Verdict, prevailing};
pub use weight::{Pull, STRESSED_FACTOR, WEIGHT_MAX, WEIGHT_MIN};
