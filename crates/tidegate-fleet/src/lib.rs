//! What runs beside the data path on a node: the sidecar API for applications of any language.

mod plan;

pub use plan::{Listen, SidecarPlan};
