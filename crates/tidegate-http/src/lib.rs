//! Headers, refusals and the faults of framing: what Tidegate's data path and layers share.

pub mod attempt;
pub mod criticality;
pub mod framing;
pub mod hops;
pub mod names;
pub mod path;
pub mod quota;
pub mod refusal;
pub mod timing;
