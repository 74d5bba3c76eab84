//! Beacon and control: between what a node reads of itself and what balancers are told.
//!
//! Once a second a [`Station`] posts its node's beacon ([`Said`]) to the store and hears with the reply what was
//! decided about it. One of them leads, by the store's lease: its [`Plane`] takes in all beacons, decides by the core's
//! `health`, and publishes a verdict for each node ([`Told`]) with a word about the fleet ([`Word`]) under the fence of
//! its lease. A [`Follower`] says what holds for its own node: what was decided while that is valid, then the node's own
//! evidence, at most stressed, then healthy.
//!
//! Silence means healthy, whoever is silent. Only monotonic clocks and the store's decide, and a store's clock that
//! jumps costs no more than a moment of local verdicts. What was decided is written down ([`DecisionLog`]) with all that
//! it came from, and can be taken again ([`replay_line`]).

mod beacon;
mod budgets;
mod decision;
mod decision_log;
mod follower;
mod kept;
mod metrics;
mod order;
mod plane;
mod station;
mod verdict;
mod view;

pub use beacon::{BadBeacon, CALLS_MAX, SIGNALS_MAX, Said};
pub use decision::{BadLine, LineKind, replay_line};
pub use decision_log::DecisionLog;
pub use follower::{Follower, Source, Standing};
pub use metrics::{Gauge, Row, gauges};
pub use order::{BY_BYTES_MAX, BadText, Drain, WHY_BYTES_MAX};
pub use plane::{Judged, Plane};
pub use station::{Post, Station, StationPlan, TICK, run};
pub use verdict::{Bound, Counts, Drained, Suffered, Told, Word};
pub use view::{Fleetwide, NodeView, Outlook, view};
