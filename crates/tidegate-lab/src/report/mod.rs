//! Results for people: text tables, and of the simulator a page with plots and a file for programs.

mod chart;
mod figures;
mod html;
mod page;
mod results;
mod series;
mod summary;
mod table;

pub use figures::Figures;
pub use page::page;
pub use results::{BarResult, Digest, PolicyResult, Results, ScenarioResult, SeedResult};
pub use series::{Look, Series, Step};
pub use summary::summary;
pub use table::Table;
