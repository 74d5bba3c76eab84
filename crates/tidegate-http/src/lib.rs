//! Headers, refusals, verdicts, the faults of framing and local listeners: what Tidegate's data path and layers share.

pub mod attempt;
pub mod criticality;
pub mod framing;
pub mod hops;
pub mod local;
pub mod names;
pub mod page;
pub mod path;
pub mod quota;
pub mod refusal;
pub mod timing;
pub mod verdict;
