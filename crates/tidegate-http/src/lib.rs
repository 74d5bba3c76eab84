//! Headers, refusals and the faults of framing: what Tidegate's data path and layers share.

pub mod framing;
pub mod refusal;
