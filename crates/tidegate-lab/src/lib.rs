//! What Tidegate is proved with: a shop with a fixed pool of workers, an open-loop load generator
//! that goes past the shop's knee, measurements that say when a run is worthless, and tables.
//!
//! Nothing here decides on admission; that is what is being tested.

pub mod load;
pub mod measure;
pub mod patience;
pub mod peers;
pub mod report;
pub mod room;
pub mod scenario;
pub mod shop;
pub mod sim;
pub mod suite;
pub mod text;
