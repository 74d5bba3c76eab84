//! Results for people: text tables.

mod table;

pub use table::Table;
